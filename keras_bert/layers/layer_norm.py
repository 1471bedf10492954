"""Layer normalization with its gradient written by hand (Ba, Kiros and Hinton, arXiv:1607.06450).

Differentiated automatically, the norm goes through its input more than twenty times, each time in
float32 with casts around. By hand, with x_hat = (x - mean) * rstd and g = upstream * gamma:

    d x     = rstd * (g - mean(g) - x_hat * mean(g * x_hat))
    d gamma = sum over tokens of  upstream * x_hat
    d beta  = sum over tokens of  upstream

Only the input, in its own number format, and two numbers a token are kept for the backward pass.

In a graph that serves in bfloat16 (`norms_as_one_kernel`) a list of tokens [T, H] is normalized as
a picture of T channels, as Keras 2 did it: TensorFlow has a kernel for batches of pictures, and
puts oneDNN's layer norm in the place of that and of scale and offset. Without oneDNN requests take
5 % longer by it; so it is not for float32, which is served on older processors, too, and gains 1 %.
"""

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any

import keras
from keras import ops

# Axis, scale, rms_scaling; Keras writes the axis as a list once the layer is built.
_KNOWN = ([-1, True, False], [[-1], True, False])

_AS_ONE_KERNEL = contextvars.ContextVar("norms_as_one_kernel", default=False)


@contextlib.contextmanager
def norms_as_one_kernel() -> Iterator[None]:
    """Makes norms of lists of tokens in bfloat16 one operation in graphs that are traced within.

    For graphs of TensorFlow that no gradient is taken of and no other format is made of. One thread
    takes half of the time for 110 tokens of 384, a quarter for 512 of them.
    """
    token = _AS_ONE_KERNEL.set(True)
    try:
        yield
    finally:
        _AS_ONE_KERNEL.reset(token)


@keras.saving.register_keras_serializable("keras_bert")
class LayerNormalization(keras.layers.LayerNormalization):
    """Keras' layer over the last axis; in training only its gradient is another computation.

    Without training it is Keras' formula, operation for operation: where TensorFlow finds another
    one in a frozen graph, it may put a kernel in its place that has an epsilon of its own. (The
    form of `norms_as_one_kernel` keeps that of the layer.)

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
            bfloat16 = keras.backend.standardize_dtype(inputs.dtype) == "bfloat16"
            if bfloat16 and len(inputs.shape) == 2 and _AS_ONE_KERNEL.get():
                return _one_kernel(inputs, self.gamma, self.beta, self.epsilon)
            return super().call(inputs)
        # Copies, as functions with gradients of their own take tensors, not variables.
        gamma = ops.copy(self.gamma)  # [H]
        beta = ops.copy(self.beta) if self.center else ops.zeros_like(gamma)  # [H]
        return _differentiable_norm(inputs, gamma, beta, self.epsilon)


def _one_kernel(inputs: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    """Returns the normalized tokens [T, H]; mean and variance are float32."""
    import tensorflow as tf

    tokens = tf.shape(inputs)[0]  # T
    # [T, H] -> [1, T, H, 1]: one picture, a channel a token; mean and variance are a channel's.
    normalized = tf.raw_ops.FusedBatchNormV3(
        x=tf.reshape(inputs, [1, tokens, inputs.shape[-1], 1]),
        scale=tf.ones([tokens]),
        offset=tf.zeros([tokens]),
        mean=tf.zeros([0]),  # those of earlier batches, of which there are none
        variance=tf.zeros([0]),
        epsilon=epsilon,
        data_format="NCHW",
        is_training=True,  # which computes mean and variance here
    ).y
    scaled = tf.reshape(normalized, [tokens, inputs.shape[-1]]) * tf.cast(gamma, inputs.dtype)
    return scaled if beta is None else scaled + tf.cast(beta, inputs.dtype)  # [T, H]


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
