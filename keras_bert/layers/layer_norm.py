"""Layer normalization with its gradient written by hand (Ba, Kiros and Hinton, arXiv:1607.06450).

Differentiated automatically, the norm goes through its input more than twenty times, each time in
float32 with casts around. By hand, with x_hat = (x - mean) * rstd and g = upstream * gamma:

    d x     = rstd * (g - mean(g) - x_hat * mean(g * x_hat))
    d gamma = sum over tokens of  upstream * x_hat
    d beta  = sum over tokens of  upstream

Only the input, in its own number format, and two numbers a token are kept for the backward pass.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

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

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Returns the normalized inputs [..., H]; mean and variance are float32."""
        if not training:
            return super().call(inputs)
        # Copies, as functions with gradients of their own take tensors, not variables.
        gamma = ops.copy(self.gamma)  # [H]
        beta = ops.copy(self.beta) if self.center else ops.zeros_like(gamma)  # [H]
        return _differentiable_norm(inputs, gamma, beta, self.epsilon)


def _differentiable_norm(inputs: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    @ops.custom_gradient
    def normalize(inputs: Any, gamma: Any, beta: Any) -> tuple[Any, Callable]:
        x = ops.cast(inputs, "float32")  # [..., H]
        mean = ops.mean(x, axis=-1, keepdims=True)  # [..., 1]
        centered = x - mean  # [..., H]
        variance = ops.mean(ops.square(centered), axis=-1, keepdims=True)  # [..., 1]
        rstd = ops.rsqrt(variance + epsilon)  # [..., 1]
        # [H] each; float32 already, unless the policy keeps variables in fewer bits.
        scale, offset = ops.cast(gamma, "float32"), ops.cast(beta, "float32")

        # Backends hand in the upstream gradient last or by its name.
        def gradient(*arguments: Any, upstream: Any = None) -> tuple[Any, Any, Any]:
            upstream = ops.cast(arguments[-1] if upstream is None else upstream, "float32")
            x_hat = (ops.cast(inputs, "float32") - mean) * rstd  # [..., H]
            projected = upstream * x_hat  # [..., H]
            g = upstream * scale  # [..., H]
            along = ops.mean(projected * scale, axis=-1, keepdims=True)  # [..., 1]
            d_inputs = rstd * (g - ops.mean(g, axis=-1, keepdims=True) - x_hat * along)
            tokens = tuple(range(len(x_hat.shape) - 1))
            return (
                ops.cast(d_inputs, inputs.dtype),  # [..., H]
                ops.cast(ops.sum(projected, axis=tokens), gamma.dtype),  # [H]
                ops.cast(ops.sum(upstream, axis=tokens), beta.dtype),  # [H]
            )

        return ops.cast(centered * rstd * scale + offset, inputs.dtype), gradient

    return normalize(inputs, gamma, beta)
