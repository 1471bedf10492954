"""Layer normalization with its gradient written by hand (Ba, Kiros and Hinton, arXiv:1607.06450).

Differentiated automatically, the norm goes through its input more than twenty times, each time in
float32 with casts around. By hand, with x_hat = (x - mean) * rstd and g = upstream * gamma:

    d x     = rstd * (g - mean(g) - x_hat * mean(g * x_hat))
    d gamma = sum over tokens of  upstream * x_hat
    d beta  = sum over tokens of  upstream

Only the input, in its own number format, and two numbers a token are kept for the backward pass;
where each of these lines is one loop, not even those: to compute them again costs less.

The root-mean-square norm (Zhang and Sennrich 2019, arXiv:1910.07467) subtracts no mean and has no
offset: the mean is 0 above, and so is mean(g).
"""

import functools
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import keras
from keras import ops

from keras_bert.layers.one_loop import gains_from_one_loop, one_loop, with_gradient
from keras_bert.layers.onednn_kernels import norm_of_tokens, takes_onednn_kernel

# Axis, scale, rms_scaling; Keras writes the axis as a list once the layer is built.
_KNOWN = ([-1, True, False], [[-1], True, False])


@keras.saving.register_keras_serializable("keras_bert")
class LayerNormalization(keras.layers.LayerNormalization):
    """Keras' layer over the last axis; in training only its gradient is another computation.

    Without training it is Keras' formula, operation for operation: where TensorFlow finds another
    one in a frozen graph, it may put a kernel in its place that has an epsilon of its own.

    Args:
        epsilon: added to the variance.
        center: whether there is an offset, beta.
    """

    def __init__(self, epsilon: float = 1e-12, center: bool = True, **kwargs: Any):
        super().__init__(epsilon=epsilon, center=center, **kwargs)
        if [self.axis, self.scale, self.rms_scaling] not in _KNOWN:
            raise ValueError(
                f"{self.name}: only the last axis is normalized, with a scale; take "
                "keras.layers.LayerNormalization for anything else"
            )

    # Whether the mean is subtracted, see `RMSNormalization`.
    subtracts_mean: ClassVar[bool] = True

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Returns the normalized inputs [..., H]; mean and variance are float32."""
        if not training:
            # A list of tokens, of which a graph does not know the number.
            is_list = len(inputs.shape) == 2 and inputs.shape[0] is None
            if self.center and is_list and takes_onednn_kernel(inputs):
                return norm_of_tokens(inputs, self.gamma, self.beta, self.epsilon)
            return super().call(inputs)
        # Copies, as functions with gradients of their own take tensors, not variables.
        gamma = ops.copy(self.gamma)  # [H]
        beta = ops.copy(self.beta) if self.center else ops.zeros_like(gamma)  # [H]
        return _differentiable_norm(inputs, gamma, beta, (self.epsilon, self.subtracts_mean))


@keras.saving.register_keras_serializable("keras_bert")
class RMSNormalization(LayerNormalization):
    """Divides by the root of the mean square over the last axis; a scale, gamma, and no offset.

    Args:
        epsilon: added to the mean square.
    """

    subtracts_mean: ClassVar[bool] = False

    def __init__(self, epsilon: float = 1e-5, **kwargs: Any):
        super().__init__(epsilon=epsilon, **kwargs | {"center": False})

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Returns the normalized inputs [..., H]; the mean square is float32."""
        if training:
            return super().call(inputs, training)
        x = ops.cast(inputs, "float32")  # [..., H]
        square = ops.mean(ops.square(x), axis=-1, keepdims=True)  # [..., 1]
        gamma = ops.cast(self.gamma, "float32")  # [H]
        return ops.cast(x * ops.rsqrt(square + self.epsilon) * gamma, self.compute_dtype)


# Epsilon, and whether the mean is subtracted.
_Kind = tuple[float, bool]


def _differentiable_norm(inputs: Any, gamma: Any, beta: Any, kind: _Kind) -> Any:
    @with_gradient
    def normalize(inputs: Any, gamma: Any, beta: Any) -> tuple[Any, Callable]:
        loops = _loops(kind) if gains_from_one_loop(inputs) else _steps(inputs, kind)

        def gradient(upstream: Any) -> tuple[Any, Any, Any]:  # [..., H]
            d_gamma, d_beta = loops.parameter_gradients(inputs, upstream)  # [H] each
            return (
                loops.input_gradient(inputs, gamma, upstream),  # [..., H]
                ops.cast(d_gamma, gamma.dtype),
                ops.cast(d_beta, beta.dtype),
            )

        return loops.value(inputs, gamma, beta), gradient

    return normalize(inputs, gamma, beta)


class _Norm(NamedTuple):
    """The functions of a norm.

    Attributes:
        value: the normalized inputs, of inputs [..., H], gamma [H] and beta [H].
        input_gradient: [..., H], of inputs, gamma and the upstream gradient [..., H].
        parameter_gradients: those of gamma and beta, float32 [H] each, of inputs and upstream.
    """

    value: Callable
    input_gradient: Callable
    parameter_gradients: Callable


def _steps(inputs: Any, kind: _Kind) -> _Norm:
    """Returns the functions for these inputs, whose moments are kept."""
    moments = _moments(inputs, kind)
    return _Norm(*(functools.partial(function, moments=moments) for function in _functions(kind)))


@functools.cache  # so that all norms of a shape share what is compiled
def _loops(kind: _Kind) -> _Norm:
    """Returns the functions as one loop each, for all inputs."""

    def alone(function: Callable) -> Callable:
        return one_loop(
            lambda inputs, *others: function(inputs, *others, moments=_moments(inputs, kind))
        )

    return _Norm(*(alone(function) for function in _functions(kind)))


def _moments(inputs: Any, kind: _Kind) -> tuple[Any, Any]:
    """Returns the mean and 1 / the standard deviation of each token, float32 [..., 1]."""
    epsilon, subtracts_mean = kind
    x = ops.cast(inputs, "float32")  # [..., H]
    mean = ops.mean(x, axis=-1, keepdims=True)  # [..., 1]
    if not subtracts_mean:
        mean = ops.zeros_like(mean)
    variance = ops.mean(ops.square(x - mean), axis=-1, keepdims=True)  # [..., 1]
    return mean, ops.rsqrt(variance + epsilon)


def _normalized(inputs: Any, moments: tuple[Any, Any]) -> Any:
    """Returns x_hat, float32 [..., H]."""
    mean, rstd = moments  # [..., 1] each
    return (ops.cast(inputs, "float32") - mean) * rstd


def _value(inputs: Any, gamma: Any, beta: Any, moments: tuple[Any, Any]) -> Any:
    # [H] each; float32 already, unless the policy keeps variables in fewer bits.
    scale, offset = ops.cast(gamma, "float32"), ops.cast(beta, "float32")
    return ops.cast(_normalized(inputs, moments) * scale + offset, inputs.dtype)


def _input_gradient(
    inputs: Any,
    gamma: Any,
    upstream: Any,
    moments: tuple[Any, Any],
    subtracts_mean: bool = True,
) -> Any:
    x_hat = _normalized(inputs, moments)  # [..., H]
    g = ops.cast(upstream, "float32") * ops.cast(gamma, "float32")  # [..., H]
    mean = ops.mean(g, axis=-1, keepdims=True) if subtracts_mean else 0.0  # [..., 1]
    along = ops.mean(g * x_hat, axis=-1, keepdims=True)  # [..., 1]
    return ops.cast(moments[1] * (g - mean - x_hat * along), inputs.dtype)


def _parameter_gradients(inputs: Any, upstream: Any, moments: tuple[Any, Any]) -> tuple[Any, Any]:
    upstream = ops.cast(upstream, "float32")  # [..., H]
    tokens = tuple(range(len(inputs.shape) - 1))
    along = ops.sum(upstream * _normalized(inputs, moments), axis=tokens)  # [H]
    return along, ops.sum(upstream, axis=tokens)  # [H]


def _functions(kind: _Kind) -> tuple[Callable, ...]:
    """Returns the three of `_Norm`, each of which takes the moments besides."""
    _, subtracts_mean = kind
    gradient = functools.partial(_input_gradient, subtracts_mean=subtracts_mean)
    return _value, gradient, _parameter_gradients
