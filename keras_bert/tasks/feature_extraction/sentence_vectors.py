"""Vectors of tokens to the vector of a sentence, as sentence-transformers computes it.

A text in several windows is the list of the tokens of all its windows: mean and maximum go over all
of them, where windows overlap over the tokens of both. What one position says of a window ([CLS],
the last token, the pooled output) is averaged over the windows of the text. The steps behind, such
as the norm, see the result.

Shapes: N texts, W windows of all of them (N where texts have one each), T tokens of all windows, H
width of the encoder, D width of the result.
"""

from typing import NamedTuple

import tensorflow as tf

from keras_bert.checkpoints.sentence_modules import Dense, Normalize, SentenceModules

# What torch.nn.functional.normalize divides by at least.
_SMALLEST_LENGTH = 1e-12

_ACTIVATIONS = {
    "Identity": tf.identity,
    "Tanh": tf.tanh,
    "ReLU": tf.nn.relu,
    "GELU": lambda values: tf.nn.gelu(values, approximate=False),
    "SiLU": tf.nn.silu,
    "Sigmoid": tf.sigmoid,
}


class TokenStates(NamedTuple):
    """What an encoder made of texts.

    Attributes:
        tokens: [N, tokens, H], those of all windows of a text one after the other.
        windows: [W, tokens, H], the same by windows.
        pooled_output: [W, H]; None where no pooling takes it.
        counts: int64 [N], windows of each text; None where each has one.
    """

    tokens: tf.RaggedTensor
    windows: tf.RaggedTensor
    pooled_output: tf.Tensor | None
    counts: tf.Tensor | None = None

    @classmethod
    def of(
        cls, windows: tf.RaggedTensor, pooled_output: tf.Tensor | None, counts: tf.Tensor | None
    ) -> "TokenStates":
        """Joins windows to texts; see the attributes."""
        if counts is None:
            return cls(windows, windows, pooled_output)
        # Windows of 4, 4 and 2 tokens, of texts with 2 and 1 windows: texts of 8 and 2 tokens.
        edges = tf.concat([[tf.constant(0, tf.int64)], tf.cumsum(counts)], axis=0)  # [N + 1]
        splits = tf.gather(windows.row_splits, edges)
        tokens = tf.RaggedTensor.from_row_splits(windows.values, splits, validate=False)
        return cls(tokens, windows, pooled_output, counts)

    def mean_over_windows(self, vectors: tf.Tensor) -> tf.Tensor:
        """Returns [N, H] of vectors of windows [W, H]."""
        if self.counts is None:
            return vectors
        by_text = tf.RaggedTensor.from_row_lengths(vectors, self.counts, validate=False)
        return tf.reduce_mean(by_text, axis=1)


class SentenceVectors(tf.Module):
    """Turns the last layer into one vector a text.

    Args:
        modules: pooling and the steps behind it.
        hidden_size: width of the encoder, H.

    Attributes:
        width: numbers of a vector, D.

    Raises:
        ValueError: a linear layer takes another width than comes to it, or more numbers are to be
            kept than there are.
    """

    def __init__(self, modules: SentenceModules, hidden_size: int):
        super().__init__(name="sentence_vectors")
        self.modules = modules
        self.width = modules.width(hidden_size)
        self._weights = [
            (tf.Variable(step.kernel), None if step.bias is None else tf.Variable(step.bias))
            for step in modules.steps
            if isinstance(step, Dense)
        ]

    def __call__(
        self,
        windows: tf.RaggedTensor,
        pooled_output: tf.Tensor | None,
        counts: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Returns float32 [N, D].

        Args:
            windows: float32 [W, tokens, H], [CLS] and [SEP] included; at least one token each.
            pooled_output: float32 [W, H], which the pooling "pooler" takes; None for others.
            counts: int64 [N], windows of each text; None where each has one.
        """
        encoded = TokenStates.of(windows, pooled_output, counts)
        pooled = [_pooled(mode, encoded) for mode in self.modules.pooling]
        return self.finish(tf.concat(pooled, axis=-1))

    def finish(self, vectors: tf.Tensor) -> tf.Tensor:
        """Returns float32 [N, D] of what the pooling made, float32 [N, H x modes]."""
        weights = iter(self._weights)
        for step in self.modules.steps:
            if isinstance(step, Dense):
                kernel, bias = next(weights)
                vectors = tf.matmul(vectors, kernel)  # [N, inputs] -> [N, outputs]
                vectors = _ACTIVATIONS[step.activation](vectors if bias is None else vectors + bias)
            else:
                vectors = of_length_1(vectors)
        if self.modules.truncate_dim is not None:
            vectors = vectors[:, : self.width]
            # Numbers that were of length 1 with those that are cut off are so again without them.
            if self.modules.steps and isinstance(self.modules.steps[-1], Normalize):
                vectors = of_length_1(vectors)
        return tf.ensure_shape(vectors, [None, self.width])


def of_length_1(vectors: tf.Tensor) -> tf.Tensor:
    """Divides vectors [N, D] by their lengths, as torch.nn.functional.normalize does."""
    length = tf.norm(vectors, axis=-1, keepdims=True)  # [N, 1]
    return vectors / tf.maximum(length, _SMALLEST_LENGTH)


def _pooled(mode: str, encoded: TokenStates) -> tf.Tensor:
    edges, values = encoded.windows.row_splits, encoded.windows.values  # [W + 1], [T, H]
    # Every mode gives [N, H].
    if mode == "pooler":
        return encoded.mean_over_windows(encoded.pooled_output)
    if mode == "cls":
        return encoded.mean_over_windows(tf.gather(values, edges[:-1]))
    if mode == "lasttoken":
        return encoded.mean_over_windows(tf.gather(values, edges[1:] - 1))
    states = encoded.tokens  # [N, tokens, H]
    if mode == "max":
        return tf.reduce_max(states, axis=1)
    if mode == "mean":
        return tf.reduce_mean(states, axis=1)
    if mode == "mean_sqrt_len_tokens":
        lengths = tf.cast(states.row_lengths(), tf.float32)
        return tf.reduce_sum(states, axis=1) / tf.sqrt(lengths)[:, None]
    # weightedmean: the first token counts once, the second twice, and so on.
    # [T]: texts of 2 and 3 tokens have positions 0 1 0 1 2.
    positions = tf.range(tf.shape(values, tf.int64)[0])
    positions -= tf.gather(states.row_starts(), states.value_rowids())
    weights = states.with_values(tf.cast(positions + 1, tf.float32)[:, None])  # [N, tokens, 1]
    weighted = tf.reduce_sum(states.with_values(values * weights.values), axis=1)
    return weighted / tf.reduce_sum(weights, axis=1)
