"""Layer normalization with the gradient written by hand (Ba, Kiros and Hinton 2016).

Differentiated automatically, the norm goes through its input more than twenty times, each time in
float32 with casts around. By hand, with x_hat = (x - mean) * rstd and g = upstream * gamma:

    d x     = rstd * (g - mean(g) - x_hat * mean(g * x_hat))
    d gamma = sum over tokens of  upstream * x_hat
    d beta  = sum over tokens of  upstream

Only the input, in its own number format, and two numbers per token are kept for the way back.
"""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable("keras_bert")
class LayerNormalization(keras.layers.LayerNormalization):
    """Keras' layer over the last axis; only its gradient is another computation.

    Without training it is Keras' own formula, operation for operation: TensorFlow replaces others
    in frozen graphs by a kernel that has an epsilon of its own.
    """

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Returns the normalized inputs [..., H]; mean and variance are float32."""
        if not training:
            return super().call(inputs)
        return _normalize(inputs, self.gamma.value, self.beta.value, self.epsilon)


def _normalize(inputs: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    dtype = inputs.dtype

    @ops.custom_gradient
    def normalize(inputs: Any, gamma: Any, beta: Any) -> tuple[Any, Any]:
        x = ops.cast(inputs, "float32")  # [..., H]
        mean = ops.mean(x, axis=-1, keepdims=True)  # [..., 1]
        centered = x - mean
        variance = ops.mean(ops.square(centered), axis=-1, keepdims=True)
        rstd = ops.rsqrt(variance + epsilon)  # [..., 1]
        output = ops.cast(centered * rstd * gamma + beta, dtype)

        def gradient(*_: Any, upstream: Any = None) -> tuple[Any, Any, Any]:
            up = ops.cast(_[-1] if upstream is None else upstream, "float32")
            x_hat = (ops.cast(inputs, "float32") - mean) * rstd
            tokens = tuple(range(len(x_hat.shape) - 1))
            product = up * x_hat
            g = up * gamma
            projected = ops.mean(product * gamma, axis=-1, keepdims=True)
            d_inputs = rstd * (g - ops.mean(g, axis=-1, keepdims=True) - x_hat * projected)
            return (
                ops.cast(d_inputs, dtype),
                ops.sum(product, axis=tokens),
                ops.sum(up, axis=tokens),
            )

        return output, gradient

    return normalize(inputs, gamma, beta)
