"""Multi-head attention of a decoder to the output of an encoder.

    hidden of the decoder --query--> [B, A, T, D] --+
    [B, T, H]                                       |
    output of the encoder --key----> [B, A, S, D] --+--> attend --> context [B, A, T, D]
    [B, S, H]             --value--> [B, A, S, D] --+                  |
                                                          output [B, T, H]

Keys and values follow from the encoder's output alone: when a text is generated piece by piece they
are computed once (`keys_and_values`), and every piece looks them up (`look_up`). Beams of the same
text share them: K beams are T = K queries.

The factor 1 / sqrt(D) of the scores is in the keys. So it is multiplied once for all steps; and the
loop over steps must not have it: TensorFlow 2.20 with oneDNN fuses product, factor and bias of the
scores into one operation, which inside of a `while` loop makes the loop return empty tensors.

Shapes: B texts, T positions of the decoder, S positions of the encoder, H width, A heads,
D = H / A width of a head.
"""

import math
from typing import Any

import keras
from keras import ops

from keras_bert.layers.self_attention import SelfAttention, merge_heads, score_bias


@keras.saving.register_keras_serializable("keras_bert")
class CrossAttention(SelfAttention):
    """Scaled dot-product attention to another sequence (Vaswani et al. 2017, section 3.2.3).

    Its arguments are those of `SelfAttention`, but for `attention_initializer`: two sequences have
    no distance between them.
    """

    # Made on building.
    query: keras.layers.Dense
    key: keras.layers.Dense
    value: keras.layers.Dense

    def __init__(
        self,
        num_attention_heads: int,
        dropout_rate: float = 0.1,
        initializer_range: float = 0.02,
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(num_attention_heads, dropout_rate, initializer_range, seed, **kwargs)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        config = super().get_config()
        del config["attention_initializer"]
        return config

    def build(
        self, hidden_shape: Any, encoder_output_shape: Any = None, encoder_mask_shape: Any = None
    ) -> None:
        """Makes the four projections for states [B, T, H] and an encoder's output [B, S, H]."""
        width = hidden_shape[-1]
        source_shape = encoder_output_shape or hidden_shape
        self.head_size = width // self.num_attention_heads
        self.query, self.key, self.value, self.output_dense = (
            self._dense(width, name) for name in ("query", "key", "value", "output")
        )  # [H, H] each
        self.query.build(hidden_shape)
        self.key.build(source_shape)
        self.value.build(source_shape)
        self.output_dense.build(hidden_shape)

    def call(  # type: ignore[override]  # what it reads is another sequence
        self, hidden: Any, encoder_output: Any, encoder_mask: Any, training: bool = False
    ) -> Any:
        """Attends to the output of an encoder.

        Args:
            hidden: hidden states of the decoder [B, T, H].
            encoder_output: [B, S, H].
            encoder_mask: 1 for positions of it that may be attended to, [B, S].
            training: whether dropout is on.

        Returns:
            [B, T, H].
        """
        key, value = self.keys_and_values(encoder_output)
        return self.look_up(hidden, key, value, score_bias(encoder_mask), training)

    def keys_and_values(self, encoder_output: Any) -> tuple[Any, Any]:
        """Returns keys, divided by sqrt(D), and values of an encoder's output [B, S, H].

        Returns:
            [B, A, S, D] each.
        """
        keys = self.scaled(self._by_heads(self.key(encoder_output)))
        return keys, self._by_heads(self.value(encoder_output))

    def scaled(self, keys: Any) -> Any:
        """Returns keys [B, A, S, D] as `scores` wants them: divided by sqrt(D)."""
        return keys * ops.cast(1.0 / math.sqrt(self.head_size), keys.dtype)

    def scores(self, query: Any, key: Any, training: bool = False) -> Any:
        """Returns query . key, [B, A, T, S], of queries [B, A, T, D] and scaled keys."""
        return ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))

    def look_up(self, hidden: Any, key: Any, value: Any, bias: Any, training: bool = False) -> Any:
        """Returns what queries find, [B, T, H].

        Args:
            hidden: hidden states of the decoder [B, T, H].
            key: what `keys_and_values` returned, like `value`.
            value: [B, A, S, D].
            bias: what `score_bias` returned, [B, 1, 1, S].
            training: whether dropout is on.
        """
        query = self._by_heads(self.query(hidden))  # [B, A, T, D]
        context, _ = self.attend(query, key, value, bias, training)  # [B, A, T, D]
        return self.project_output(merge_heads(context))  # [B, T, H]

    def _by_heads(self, projected: Any) -> Any:
        """[B, T, H] to [B, A, T, D]."""
        batch, length, width = ops.shape(projected)
        heads = self.num_attention_heads
        parts = ops.reshape(projected, (batch, length, heads, width // heads))
        return ops.transpose(parts, (0, 2, 1, 3))

    def compute_output_spec(  # type: ignore[override]
        self, hidden: Any, encoder_output: Any, encoder_mask: Any, training: bool = False
    ) -> keras.KerasTensor:
        """Gives the symbolic [B, T, H]."""
        return keras.KerasTensor(hidden.shape, dtype=self.compute_dtype)
