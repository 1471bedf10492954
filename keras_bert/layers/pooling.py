"""Several vectors to one: those of tokens to that of a text, those of windows to a long text's.

The mean over the tokens is that of Sentence-BERT (Reimers and Gurevych 2019, arXiv:1908.10084);
such a vector has the length 1. Served graphs have the same for ragged rows:
`keras_bert.tasks.feature_extraction.sentence_vectors`.

Three windows of which the last is padding; a window that is not there counts nowhere:

    vectors [B, W, H]     v0  v1  --
    mean                  (v0 + v1) / 2
    max                   max(v0, v1), number by number
    attention             a0 v0 + a1 v1 with (a0, a1) = softmax(v0 . query, v1 . query)

A text of one window keeps the vector of that window, to the last bit, under each of them.

A text may keep a vector for each of its tokens, of length 1 each (ColBERT, Khattab and Zaharia
2020, arXiv:2004.12832).

A sparse vector has a weight for each piece of the vocabulary: the largest score that a masked
language model gives it at any token of the text, below 0 nothing (Formal et al. 2021, SPLADE v2,
arXiv:2109.10086).

Shapes: B texts, W windows, S positions of a text or a window, H width, V vocabulary.
"""

from typing import Any

import keras
from keras import ops

from keras_bert.choices import (
    SparseActivation,
    TokenPooling,
    WindowPoolingChoice,
    check_choice,
)
from keras_bert.layers.initializer import truncated_normal

# Stands for what is not there where the largest counts; finite, unlike -inf.
_NOTHING = -1e9
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
            vectors = there * ops.max(ops.where(real > 0, states, _NOTHING), axis=1)  # [B, H]
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


@keras.saving.register_keras_serializable("keras_bert")
class UnitTokens(keras.layers.Layer):
    """Divides the vector of each token by its Euclidean length, in float32 always."""

    def call(self, vectors: Any, input_mask: Any) -> Any:
        """Returns unit vectors, float32 [B, S, H]; zeros for padding.

        Args:
            vectors: of the tokens, [B, S, H].
            input_mask: integers [B, S]: 1 for tokens, 0 for padding.
        """
        vectors = ops.cast(vectors, "float32")
        real = ops.expand_dims(ops.cast(input_mask, "float32"), -1)  # [B, S, 1]
        squares = ops.sum(ops.square(vectors), axis=-1, keepdims=True)  # [B, S, 1]
        return real * vectors * ops.rsqrt(ops.maximum(squares, _SMALLEST_SQUARE))

    def compute_output_spec(self, vectors: Any, input_mask: Any) -> keras.KerasTensor:
        """Gives the symbolic shape."""
        return keras.KerasTensor(vectors.shape, dtype="float32")


@keras.saving.register_keras_serializable("keras_bert")
class MaxOverTokens(keras.layers.Layer):
    """Takes the largest number of each column over the tokens of a text."""

    def call(self, scores: Any, input_mask: Any) -> Any:
        """Returns [B, V], far below 0 for a row without tokens.

        Args:
            scores: of the tokens, [B, S, V].
            input_mask: integers [B, S]: 1 for tokens, 0 for padding.
        """
        real = ops.expand_dims(input_mask > 0, -1)  # [B, S, 1]
        return ops.max(ops.where(real, scores, ops.cast(_NOTHING, scores.dtype)), axis=1)

    def compute_output_spec(self, scores: Any, input_mask: Any) -> keras.KerasTensor:
        """Gives the symbolic shape."""
        return keras.KerasTensor((scores.shape[0], scores.shape[-1]), dtype=scores.dtype)


@keras.saving.register_keras_serializable("keras_bert")
class SparseWeights(keras.layers.Layer):
    """Turns scores of the vocabulary into weights, most of them 0, in float32 always.

    Args:
        activation: "relu" for log(1 + max(0, x)), that of SPLADE; "log1p_relu" for the logarithm of
            one and that again, as models of OpenSearch have it (arXiv:2504.14839).

    Raises:
        ValueError: the activation is another one.
    """

    def __init__(self, activation: SparseActivation = "relu", **kwargs: Any):
        super().__init__(**kwargs)
        check_choice("activation", activation, SparseActivation)
        self.activation = activation

    def call(self, scores: Any) -> Any:
        """Returns weights of 0 and above, float32 [B, V], for scores [B, V]."""
        weights = ops.log1p(ops.relu(ops.cast(scores, "float32")))
        return ops.log1p(weights) if self.activation == "log1p_relu" else weights

    def compute_output_spec(self, scores: Any) -> keras.KerasTensor:
        """Gives the symbolic shape."""
        return keras.KerasTensor(scores.shape, dtype="float32")

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {"activation": self.activation}


@keras.saving.register_keras_serializable("keras_bert")
class WindowPooling(keras.layers.Layer):
    """Pools the windows of each text, in float32 under every policy.

    Attention is that of Yang et al. 2016 (Hierarchical Attention Networks, section 2.2) over
    windows: one learned query, a softmax over the windows that are there. The dense layer with tanh
    that stands before it there is the pooler of the encoder here.

    Args:
        pooling: "mean", "max" or "attention".
        initializer_range: standard deviation of the truncated normal that the query starts from;
            near zero, attention starts near the mean.

    Raises:
        ValueError: the pooling is another one.
    """

    def __init__(self, pooling: str = "mean", initializer_range: float = 0.02, **kwargs: Any):
        super().__init__(**kwargs)
        check_choice("pooling", pooling, WindowPoolingChoice)
        self.pooling = pooling
        self.initializer_range = initializer_range

    def build(self, vectors_shape: Any, input_mask_shape: Any = None) -> None:
        """Makes the query [H] of attention; the others learn nothing."""
        if self.pooling == "attention":
            self.query = self.add_weight(
                name="query",
                shape=(vectors_shape[-1],),
                initializer=truncated_normal(self.initializer_range),
            )

    def call(self, vectors: Any, input_mask: Any) -> Any:
        """Returns the vectors of the texts, float32 [B, H].

        Args:
            vectors: those of the windows, [B, W, H] or, as the encoder gives them, [B * W, H].
            input_mask: integers [B, W, S]; a window is there where its first position is 1.
        """
        batch, windows = ops.shape(input_mask)[:2]
        vectors = ops.cast(ops.reshape(vectors, (batch, windows, vectors.shape[-1])), "float32")
        real = ops.expand_dims(ops.cast(input_mask[:, :, 0], "float32"), -1)  # [B, W, 1]
        if self.pooling == "max":
            return ops.max(ops.where(real > 0, vectors, _NOTHING), axis=1)  # [B, H]
        if self.pooling == "mean":
            count = ops.maximum(ops.sum(real, axis=1), 1.0)  # [B, 1]
            return ops.sum(vectors * real, axis=1) / count  # [B, H]
        query = ops.cast(self.query, "float32")  # [H]
        scores = ops.sum(vectors * query, axis=-1, keepdims=True)  # [B, W, 1]
        # A softmax over the windows that are there; Keras' own warns where the axis has size 1.
        scores = ops.where(real > 0, scores, _NOTHING)
        odds = real * ops.exp(scores - ops.max(scores, axis=1, keepdims=True))  # [B, W, 1]
        weights = odds / ops.maximum(ops.sum(odds, axis=1, keepdims=True), 1.0)
        return ops.sum(vectors * weights, axis=1)  # [B, H]

    def compute_output_spec(self, vectors: Any, input_mask: Any) -> keras.KerasTensor:
        """Gives the symbolic shape."""
        return keras.KerasTensor((input_mask.shape[0], vectors.shape[-1]), dtype="float32")

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {
            "pooling": self.pooling,
            "initializer_range": self.initializer_range,
        }
