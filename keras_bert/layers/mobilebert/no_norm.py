"""What stands in MobileBERT where others have a norm: a scale and an offset, no statistics."""

from typing import Any

import keras
from keras import ops

from keras_bert.layers.layer_norm import LayerNormalization


@keras.saving.register_keras_serializable("keras_bert")
class NoNorm(keras.layers.Layer):
    """Multiplies each number of a state by a weight of its own and adds another one.

    gamma * x + beta, element by element (MobileBERT, section 3.3): a layer norm without mean and
    variance, which a phone computes in no time.
    """

    def build(self, input_shape: Any) -> None:
        """Makes scale, ones at first, and offset, zeros, for inputs [..., H]."""
        width = (input_shape[-1],)
        self.gamma = self.add_weight(name="gamma", shape=width, initializer="ones")  # [H]
        self.beta = self.add_weight(name="beta", shape=width, initializer="zeros")  # [H]

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Returns [..., H] for inputs [..., H]."""
        return inputs * ops.cast(self.gamma, inputs.dtype) + ops.cast(self.beta, inputs.dtype)

    def compute_output_spec(self, inputs: Any, training: bool = False) -> keras.KerasTensor:
        """Returns the symbolic inputs."""
        return keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)


def create_norm(
    normalization_type: str, epsilon: float, dtype: Any, name: str
) -> LayerNormalization | NoNorm:
    """Returns the layer that a config calls "layer_norm" or "no_norm".

    Args:
        normalization_type: see `MobileBertConfig`.
        epsilon: of a layer norm.
        dtype: a Keras dtype policy.
        name: name of the layer.
    """
    if normalization_type == "no_norm":
        return NoNorm(dtype=dtype, name=name)
    return LayerNormalization(epsilon=epsilon, dtype=dtype, name=name)
