"""The head of ELECTRA's discriminator: was this token in the text, or did a generator put it there?

    sequence output --dense, gelu--> [B, S, H] --dense--> logits [B, S]
    [B, S, H]

Shapes: B sequences, S positions, H width.
"""

from typing import Any

import keras
from keras import ops

from keras_bert.layers.activations import activation_function
from keras_bert.layers.initializer import truncated_normal


@keras.saving.register_keras_serializable("keras_bert")
class ReplacedTokenDetection(keras.layers.Layer):
    """Scores every position: above 0 where its token seems replaced (ELECTRA paper section 2).

    Args:
        hidden_act: name of the activation, as in `BertConfig`.
        initializer_range: standard deviation of the truncated normal initializer.
    """

    def __init__(self, hidden_act: str = "gelu", initializer_range: float = 0.02, **kwargs: Any):
        super().__init__(**kwargs)
        self.hidden_act = hidden_act
        self.initializer_range = initializer_range
        self.activation = activation_function(hidden_act)

    def build(self, sequence_output_shape: Any) -> None:
        """Makes both dense layers for sequence outputs [B, S, H]."""
        width = sequence_output_shape[-1]
        self.dense = keras.layers.Dense(  # [H, H]
            width,
            kernel_initializer=truncated_normal(self.initializer_range),
            dtype=self.dtype_policy,
            name="dense",
        )
        self.dense.build(sequence_output_shape)
        # In float32: a sigmoid of a bfloat16 logit would lose digits.
        self.prediction = keras.layers.Dense(  # [H, 1]
            1,
            kernel_initializer=truncated_normal(self.initializer_range),
            dtype="float32",
            name="prediction",
        )
        self.prediction.build(sequence_output_shape)

    def call(self, sequence_output: Any, training: bool = False) -> Any:
        """Returns logits [B, S] in float32 for sequence output [B, S, H]."""
        transformed = self.activation(self.dense(sequence_output), training)  # [B, S, H]
        return ops.squeeze(self.prediction(transformed), axis=-1)  # [B, S, 1] -> [B, S]

    def compute_output_spec(self, sequence_output: Any, training: bool = False) -> Any:
        """Returns the symbolic logits [B, S] in float32."""
        return keras.KerasTensor(sequence_output.shape[:-1], dtype="float32")

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {
            "hidden_act": self.hidden_act,
            "initializer_range": self.initializer_range,
        }
