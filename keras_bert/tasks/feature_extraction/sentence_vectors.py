"""Vectors of tokens to the vector of a sentence, as sentence-transformers computes it.

Shapes: N texts, T tokens of all of them, H width of the encoder, D width of the result.
"""

import tensorflow as tf

from keras_bert.checkpoints.sentence_modules import Dense, SentenceModules

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


class SentenceVectors(tf.Module):
    """Turns the last layer into one vector a text.

    Args:
        modules: pooling and the steps behind it.
        hidden_size: width of the encoder, H.

    Attributes:
        width: numbers of a vector, D.

    Raises:
        ValueError: a linear layer takes another width than comes to it.
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

    def __call__(self, states: tf.RaggedTensor, pooled_output: tf.Tensor) -> tf.Tensor:
        """Returns float32 [N, D].

        Args:
            states: float32 [N, tokens, H], [CLS] and [SEP] included; at least one token a text.
            pooled_output: float32 [N, H], which the pooling "pooler" takes.
        """
        pooled = [_pooled(mode, states, pooled_output) for mode in self.modules.pooling]
        vectors = tf.concat(pooled, axis=-1)  # [N, H x modes]
        weights = iter(self._weights)
        for step in self.modules.steps:
            if isinstance(step, Dense):
                kernel, bias = next(weights)
                vectors = tf.matmul(vectors, kernel)  # [N, inputs] -> [N, outputs]
                vectors = _ACTIVATIONS[step.activation](vectors if bias is None else vectors + bias)
            else:
                length = tf.norm(vectors, axis=-1, keepdims=True)  # [N, 1]
                vectors /= tf.maximum(length, _SMALLEST_LENGTH)
        return tf.ensure_shape(vectors, [None, self.width])


def _pooled(mode: str, states: tf.RaggedTensor, pooled_output: tf.Tensor) -> tf.Tensor:
    edges, values = states.row_splits, states.values  # [N + 1], [T, H]
    # Every mode gives [N, H].
    if mode == "pooler":
        return pooled_output
    if mode == "cls":
        return tf.gather(values, edges[:-1])
    if mode == "lasttoken":
        return tf.gather(values, edges[1:] - 1)
    if mode == "max":
        return tf.reduce_max(states, axis=1)
    if mode == "mean":
        return tf.reduce_mean(states, axis=1)
    if mode == "mean_sqrt_len_tokens":
        lengths = tf.cast(states.row_lengths(), tf.float32)
        return tf.reduce_sum(states, axis=1) / tf.sqrt(lengths)[:, None]
    # weightedmean: the first token counts once, the second twice, and so on.
    # [T]: texts of 2 and 3 tokens have positions 0 1 0 1 2.
    positions = tf.range(tf.shape(values, tf.int64)[0]) - tf.gather(edges, states.value_rowids())
    weights = states.with_values(tf.cast(positions + 1, tf.float32)[:, None])  # [N, tokens, 1]
    weighted = tf.reduce_sum(states.with_values(values * weights.values), axis=1)
    return weighted / tf.reduce_sum(weights, axis=1)
