"""Vectors of tokens to one vector of a text, of length 1.

The mean over the tokens is that of Sentence-BERT (Reimers and Gurevych 2019, arXiv:1908.10084).
Served graphs have the same for ragged rows: `keras_bert.tasks.feature_extraction.sentence_vectors`.

Shapes: B texts, S positions, H width.
"""

from typing import Any

import keras
from keras import ops

from keras_bert.choices import TokenPooling, check_choice

# Stands for padding where the largest counts; finite, unlike -inf.
_NO_TOKEN = -1e9
# A square; a vector of a row without tokens is 0 and stays so, with gradients that are numbers.
_SMALLEST_SQUARE = 1e-24


@keras.saving.register_keras_serializable("keras_bert")
class SentencePooling(keras.layers.Layer):
    """Pools the tokens of each text and divides by the Euclidean length, in float32 always.

    Args:
        pooling: "mean" or "max" over all tokens, [CLS] and [SEP] included, or "cls" for the first.

    Raises:
        ValueError: the pooling is another one.
    """

    def __init__(self, pooling: TokenPooling = "mean", **kwargs: Any):
        super().__init__(**kwargs)
        check_choice("pooling", pooling, TokenPooling)
        self.pooling = pooling

    def call(self, states: Any, input_mask: Any) -> Any:
        """Returns unit vectors, float32 [B, H]; zeros for a row without tokens.

        Args:
            states: vectors of the tokens, [B, S, H].
            input_mask: integers [B, S]: 1 for tokens, 0 for padding.
        """
        states = ops.cast(states, "float32")
        real = ops.expand_dims(ops.cast(input_mask, "float32"), -1)  # [B, S, 1]
        if self.pooling == "cls":
            vectors = states[:, 0] * real[:, 0]  # [B, H]
        elif self.pooling == "max":
            there = ops.max(real, axis=1)  # [B, 1]
            vectors = there * ops.max(ops.where(real > 0, states, _NO_TOKEN), axis=1)  # [B, H]
        else:
            # The sum would do, as lengths follow; the mean keeps float32 far from its limits.
            vectors = ops.sum(states * real, axis=1) / ops.maximum(ops.sum(real, axis=1), 1.0)
        squares = ops.sum(ops.square(vectors), axis=-1, keepdims=True)  # [B, 1]
        return vectors * ops.rsqrt(ops.maximum(squares, _SMALLEST_SQUARE))

    def compute_output_spec(self, states: Any, input_mask: Any) -> keras.KerasTensor:
        """Gives the symbolic shape."""
        return keras.KerasTensor((states.shape[0], states.shape[-1]), dtype="float32")

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {"pooling": self.pooling}
