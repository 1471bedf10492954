"""One block of a decoder: an encoder's block with attention to the encoder between its halves.

    hidden -- self-attention half --> cross-attention half --> feed-forward half --> hidden
              (what came before)      (the encoder's output)

Each half is a sub-layer, dropout, residual and norm behind the sum, as in `EncoderBlock`. So a
block of BERT's encoder gives all weights of a block of the decoder but those of the cross-attention
(Rothe et al. 2020, arXiv:1907.12461, section 2).

A text is generated piece by piece: `step` computes one position and keeps its key and value in a
cache of fixed length, so that shapes stay what they are from step to step. Two beams of one text:

    cache [2, A, T, D]   a b c . .    position 3: queries see 4 places, the fourth is written now
                         a b d . .

Shapes: B texts, K beams of each, T positions of the decoder, S positions of the encoder, H width,
A heads, D = H / A width of a head.
"""

from typing import Any, NamedTuple

import keras
from keras import ops

from keras_bert.layers.cross_attention import CrossAttention
from keras_bert.layers.dropout import Dropout
from keras_bert.layers.encoder_block import EncoderBlock, derived_seed
from keras_bert.layers.layer_norm import LayerNormalization
from keras_bert.layers.self_attention import merge_heads, score_bias, split_heads


class KeysAndValues(NamedTuple):
    """By heads: of a cache [B * K, A, T, D], of an encoder's output [B, A, S, D]."""

    keys: Any
    values: Any


@keras.saving.register_keras_serializable("keras_bert")
class DecoderBlock(EncoderBlock):
    """A post-layer-norm block with cross-attention; its arguments are those of `EncoderBlock`."""

    # Made on building.
    cross_attention: CrossAttention
    cross_attention_dropout: Dropout
    cross_attention_norm: LayerNormalization

    def build(
        self,
        hidden_shape: Any,
        visible_shape: Any = None,
        encoder_output_shape: Any = None,
        encoder_mask_shape: Any = None,
    ) -> None:
        """Makes all sub-layers for hidden states [B, T, H]."""
        super().build(hidden_shape)
        self.cross_attention = CrossAttention(
            self.num_attention_heads,
            self.attention_probs_dropout_prob,
            self.initializer_range,
            seed=derived_seed(self.seed, 4),
            dtype=self.dtype_policy,
            name="cross_attention",
        )
        self.cross_attention_dropout = self._dropout("cross_attention_dropout", 5)
        self.cross_attention.build(hidden_shape, encoder_output_shape)
        self.cross_attention_norm = self._norm("cross_attention_norm")
        self.cross_attention_norm.build(hidden_shape)

    def call(  # type: ignore[override]  # what it reads is two sequences
        self,
        hidden: Any,
        visible: Any,
        encoder_output: Any,
        encoder_mask: Any,
        training: bool = False,
    ) -> Any:
        """Transforms hidden states [B, T, H].

        Args:
            hidden: of the decoder, [B, T, H].
            visible: 1 where a position of the decoder sees another, [B, T, T]; or [B, T] where all
                see the same.
            encoder_output: [B, S, H].
            encoder_mask: 1 for real pieces of the encoder's, [B, S].
            training: whether dropout is on.
        """
        attended = self.attention(hidden, visible, training=training)  # [B, T, H]
        hidden = self.attention_half(hidden, attended, training)  # [B, T, H]
        found = self.cross_attention(hidden, encoder_output, encoder_mask, training=training)
        hidden = self.cross_attention_half(hidden, found, training)  # [B, T, H]
        return self.feed_forward_half(hidden, training)  # [B, T, H]

    def cross_attention_half(self, hidden: Any, found: Any, training: bool = False) -> Any:
        """Returns hidden states [..., H] joined with what they found at the encoder, [..., H]."""
        found = self.cross_attention_dropout(found, training=training)  # [..., H]
        return self.cross_attention_norm(hidden + found, training=training)  # [..., H]

    def step(
        self,
        hidden: Any,
        position: Any,
        cache: KeysAndValues,
        memory: KeysAndValues,
        memory_bias: Any,
    ) -> tuple[Any, KeysAndValues]:
        """Computes one position of K beams of B texts, without dropout.

        Args:
            hidden: [B, K, H].
            position: from 0, an integer scalar.
            cache: of the positions before it, [B * K, A, T, D] each.
            memory: of the encoder's output, [B, A, S, D] each.
            memory_bias: what `score_bias` returned of its mask, [B, 1, 1, S].

        Returns:
            [B, K, H], and the cache with this position.
        """
        _, beams, width = hidden.shape
        length = cache.keys.shape[2]
        places = ops.arange(length, dtype="int32")  # [T]
        rows = ops.reshape(hidden, (-1, 1, width))  # [B * K, 1, H]
        query, key, value = split_heads(  # [B * K, A, 1, D] each
            self.attention.project(rows), self.num_attention_heads
        )
        # The cache has scaled keys, as those of the encoder's output are: see `CrossAttention`.
        key = self.cross_attention.scaled(key)
        # A choice in place of a write at an index: the same on every processor, and static.
        now = ops.reshape(ops.equal(places, position), (1, 1, length, 1))
        cache = KeysAndValues(ops.where(now, key, cache.keys), ops.where(now, value, cache.values))
        bias = score_bias(ops.cast(places <= position, "int32")[None])  # [1, 1, 1, T]
        context, _ = self.cross_attention.attend(query, *cache, bias)  # [B * K, A, 1, D]
        attended = self.attention.project_output(merge_heads(context))  # [B * K, 1, H]
        hidden = self.attention_half(hidden, ops.reshape(attended, (-1, beams, width)))
        # The beams of a text are queries side by side: its keys and values stand there once.
        found = self.cross_attention.look_up(hidden, *memory, memory_bias)  # [B, K, H]
        return self.feed_forward_half(self.cross_attention_half(hidden, found)), cache

    def look_again(self, hidden: Any, visible: Any, memory: KeysAndValues, memory_bias: Any) -> Any:
        """Computes all positions of K rows of B texts, each of which sees all, without dropout.

        The same as `call`, for loops: keys and values of the encoder's output are not computed
        again.

        Args:
            hidden: [B, K, T, H], K and T static.
            visible: 1 for positions that are seen, int32 [B, K, T].
            memory: of the encoder's output, [B, A, S, D] each.
            memory_bias: what `score_bias` returned of its mask, [B, 1, 1, S].

        Returns:
            [B, K, T, H].
        """
        _, rows, length, width = hidden.shape
        hidden = ops.reshape(hidden, (-1, length, width))  # [B * K, T, H]
        seen = ops.reshape(visible, (-1, length))  # [B * K, T]
        query, key, value = split_heads(  # [B * K, A, T, D] each
            self.attention.project(hidden), self.num_attention_heads
        )
        # The choice changes no result. It stands between factor and product, which TensorFlow must
        # not join inside of a loop: see `CrossAttention`.
        key = ops.where(seen[:, None, :, None] > 0, self.cross_attention.scaled(key), 0)
        context, _ = self.cross_attention.attend(query, key, value, score_bias(seen))
        attended = self.attention.project_output(merge_heads(context))  # [B * K, T, H]
        hidden = self.attention_half(hidden, attended)  # [B * K, T, H]
        # The rows of a text are queries side by side: its keys and values stand there once.
        hidden = ops.reshape(hidden, (-1, rows * length, width))  # [B, K * T, H]
        found = self.cross_attention.look_up(hidden, *memory, memory_bias)  # [B, K * T, H]
        hidden = self.feed_forward_half(self.cross_attention_half(hidden, found))
        return ops.reshape(hidden, (-1, rows, length, width))

    def compute_output_spec(  # type: ignore[override]
        self,
        hidden: Any,
        visible: Any,
        encoder_output: Any,
        encoder_mask: Any,
        training: bool = False,
    ) -> keras.KerasTensor:
        """Gives the symbolic [B, T, H]."""
        return keras.KerasTensor(hidden.shape, dtype=self.compute_dtype)
