"""Self-attention in a sliding window, with a few positions that see and are seen by all.

What the full attention with this mask computes, ten positions, window 2, one global position:

    sees  0 1 2 3 4 5 6 7 8 9
      0   1 1 1 1 1 1 1 1 1 1      [CLS] sees all
      1   1 1 1 1 . . . . . .
      2   1 1 1 1 1 . . . . .      all see [CLS] and two positions to each side
      3   1 1 1 1 1 1 . . . .
      4   1 . 1 1 1 1 1 . . .
      5   1 . . 1 1 1 1 1 . .      ...

is computed without its zeros: positions are cut into blocks as long as the window, and each block
of queries meets the keys of three blocks, its own and its neighbours.

    queries   block 0   block 1   block 2            [B, A, blocks, w, D]
    keys    --  0  1     0  1  2    1  2  --         [B, A, blocks, 3 w, D]

Time and memory grow with S times 3 w, not with S times S. A sequence of up to three windows is one
block without neighbours, which costs what full attention costs and the global columns. All shapes
are known when S is, so that it compiles for a TPU.

Shapes: B sequences, S positions, A heads, D width of a head, w window to one side, G global
positions, b positions of a block (w, or S), K keys that it meets (3 w, or S).
"""

import math
from typing import Any, ClassVar

import keras
from keras import ops

from keras_bert.layers.dropout import Dropout
from keras_bert.layers.encoder_block import EncoderBlock
from keras_bert.layers.self_attention import SelfAttention

# Added to the score of what is outside of a window: less than padding, so that a row of padding
# alone sees nothing new.
OUTSIDE = -1e9


@keras.saving.register_keras_serializable("keras_bert")
class LocalSelfAttention(SelfAttention):
    """Self-attention in a sliding window with global positions (Beltagy et al. 2020, Longformer).

    The weights are those of `SelfAttention`, and where the window covers the sequence it is plain
    self-attention. With `global_projections`, as in Longformer, what global positions see goes
    through a second query, key and value. They are further heads of the one projection, whose
    columns are then

        query | global query | key | global key | value | global value      [H, 6H]

    The global query is computed at all positions and used at G of them, one of the 15 products of
    H with H that a token costs in a block: serving projects tokens before it puts them in rows.

    Args:
        num_attention_heads: heads, A; divides the width H.
        attention_window: how far a position sees to each side, w.
        global_tokens: so many first positions see all and are seen by all, G; [CLS] is the first.
        dropout_rate: dropout on the attention probabilities.
        initializer_range: standard deviation of the truncated normal initializer.
        seed: seed of the dropouts; None draws one.
        global_projections: whether global positions see through projections of their own.
        attention_initializer: as in `SelfAttention`.

    Attributes:
        whole_windows: of the class: sequences of up to so many windows are one block.
    """

    whole_windows: ClassVar[int] = 3
    has_table: ClassVar[bool] = False

    def __init__(
        self,
        num_attention_heads: int,
        attention_window: int,
        global_tokens: int = 1,
        dropout_rate: float = 0.1,
        initializer_range: float = 0.02,
        seed: int | None = None,
        global_projections: bool = False,
        attention_initializer: str = "normal",
        **kwargs: Any,
    ):
        super().__init__(
            num_attention_heads,
            dropout_rate,
            initializer_range,
            seed,
            attention_initializer,
            **kwargs,
        )
        self.attention_window = attention_window
        self.global_tokens = global_tokens
        self.global_projections = global_projections
        # The rows of global positions: the same seed twice would drop the same units.
        global_seed = None if seed is None else (seed + 7) % 2**31
        self.global_dropout = Dropout(
            dropout_rate, seed=global_seed, dtype=self.dtype_policy, name="global_dropout"
        )

    @property
    def projected_heads(self) -> int:
        """Heads of query, key and value: A, or 2 A with those of global positions behind them."""
        return self.num_attention_heads * (2 if self.global_projections else 1)

    def attend(
        self, query: Any, key: Any, value: Any, bias: Any, training: bool = False
    ) -> tuple[Any, Any]:
        """Returns what each position takes from those that it sees; see `SelfAttention.attend`.

        Args:
            query: [B, A, S, D], or [B, 2 A, S, D] with global projections.
            key: of the same shape.
            value: of the same shape.
            bias: what `score_bias` made of a mask [B, S], so [B, 1, 1, S].
            training: whether dropout is on.

        Returns:
            Context [B, A, S, D], and None: there is no table of all pairs.

        Raises:
            ValueError: the mask has a row for each query, which blocks have no place for.
        """
        if bias.shape[2] != 1:
            raise ValueError(
                "local attention takes a mask of one row for all queries: neither packed sequences "
                "nor attention from left to right"
            )
        window, first = self.attention_window, self.global_tokens
        # Of global positions: the second half of the heads, or the same ones.
        seen_by = [part[:, -self.num_attention_heads :] for part in (query, key, value)]
        query, key, value = (part[:, : self.num_attention_heads] for part in (query, key, value))
        batch, heads, length, size = ops.shape(query)
        # All pairs are no more than those of blocks, or faster: one block, no neighbours.
        whole = length <= self.whole_windows * window
        if isinstance(length, int):
            block, sides = (max(length, 1), 0) if whole else (window, 1)
        else:
            block = ops.where(whole, ops.maximum(length, 1), window)
            sides = ops.where(whole, 0, 1)
        blocks = (length + block - 1) // block
        scale = ops.cast(1.0 / math.sqrt(self.head_size), query.dtype)
        query = query * scale  # [B, A, S, D]

        # 1. Scores of each block of queries with the keys around it.
        rows = (batch, heads, blocks, block, size)
        by_block = ops.reshape(_padded(query, 0, blocks * block - length), rows)
        near = _with_neighbours(key, block, blocks, sides)  # [B, A, blocks, K, D]
        near_value = _with_neighbours(value, block, blocks, sides)
        # Keys that are there and not global, which have columns of their own.
        positions = ops.arange(length, dtype="int32")  # [S]
        usable = ops.cast(positions >= first, "float32")[None, None, :, None]  # [1, 1, S, 1]
        # What each key brings along: [B, 1, 1, S] -> [B, 1, S, 1] -> [B, 1, blocks, 1, K].
        own = ops.transpose(ops.cast(bias, "float32"), (0, 1, 3, 2)) + (1.0 - usable) * OUTSIDE
        near_bias = _with_neighbours(own, block, blocks, sides)
        there = _with_neighbours(ops.ones_like(own), block, blocks, sides)
        near_bias = near_bias + (1.0 - there) * OUTSIDE
        near_bias = ops.transpose(near_bias, (0, 1, 2, 4, 3))
        # Query r of a block stands at r + b among its keys where it has neighbours, else at r.
        places = ops.arange(block, dtype="int32") + sides * block  # [b]
        keys = ops.arange((1 + 2 * sides) * block, dtype="int32")  # [K]
        in_window = ops.abs(keys[None, :] - places[:, None]) <= window  # [b, K]
        pattern = (1.0 - ops.cast(in_window, "float32")) * OUTSIDE
        scores = ops.matmul(by_block, ops.swapaxes(near, 3, 4))  # [B, A, blocks, b, K]
        scores = ops.cast(scores, "float32") + (near_bias + pattern)

        # 2. The global keys beside them, and one softmax over both.
        count = 0
        if first:
            global_key = ops.expand_dims(key[:, :, :first], 2)  # [B, A, 1, G, D]
            global_scores = ops.matmul(by_block, ops.swapaxes(global_key, 3, 4))
            # [B, 1, 1, 1, G]
            global_bias = ops.expand_dims(ops.cast(bias, "float32")[..., :first], 2)
            global_scores = ops.cast(global_scores, "float32") + global_bias
            scores = ops.concatenate([global_scores, scores], axis=-1)  # [B, A, blocks, b, G + K]
            count = ops.shape(global_key)[3]  # G, or S where that is less
        probs = ops.softmax(scores)
        dropped = self.dropout(ops.cast(probs, self.compute_dtype), training=training)
        context = ops.matmul(dropped[..., count:], near_value)  # [B, A, blocks, b, D]
        if first:
            global_value = ops.expand_dims(value[:, :, :first], 2)  # [B, A, 1, G, D]
            context = ops.matmul(dropped[..., :count], global_value) + context
        context = ops.reshape(context, (batch, heads, blocks * block, size))[:, :, :length]
        if not first:
            return context, None

        # 3. The rows of the global positions, which see everything: [B, A, G, S].
        query, key, value = seen_by
        seeing = ops.matmul(query[:, :, :first] * scale, ops.swapaxes(key, 2, 3))
        seen = ops.softmax(ops.cast(seeing, "float32") + ops.cast(bias, "float32"))
        seen = self.global_dropout(ops.cast(seen, self.compute_dtype), training=training)
        global_context = ops.matmul(seen, value)  # [B, A, G, D]
        return ops.concatenate([global_context, context[:, :, first:]], axis=2), None

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {
            "attention_window": self.attention_window,
            "global_tokens": self.global_tokens,
            "global_projections": self.global_projections,
        }


@keras.saving.register_keras_serializable("keras_bert")
class LocalEncoderBlock(EncoderBlock):
    """An encoder block whose attention is local.

    Args:
        num_attention_heads: as the others in `EncoderBlock`.
        intermediate_size: see there.
        hidden_act: see there.
        hidden_dropout_prob: see there.
        attention_probs_dropout_prob: see there.
        initializer_range: see there.
        layer_norm_eps: see there.
        seed: see there.
        attention_window: how far a position sees to each side, see `LocalSelfAttention`.
        global_tokens: so many first positions see all and are seen by all.
        global_projections: whether they see through projections of their own.
        attention_initializer: see `EncoderBlock`; distances beyond the window are not seen.
    """

    def __init__(
        self,
        num_attention_heads: int,
        intermediate_size: int,
        hidden_act: str = "gelu",
        hidden_dropout_prob: float = 0.1,
        attention_probs_dropout_prob: float = 0.1,
        initializer_range: float = 0.02,
        layer_norm_eps: float = 1e-12,
        seed: int | None = None,
        attention_window: int = 256,
        global_tokens: int = 1,
        global_projections: bool = False,
        attention_initializer: str = "normal",
        **kwargs: Any,
    ):
        # First: the constructor of the block makes the attention.
        self.attention_window = attention_window
        self.global_tokens = global_tokens
        self.global_projections = global_projections
        super().__init__(
            num_attention_heads,
            intermediate_size,
            hidden_act,
            hidden_dropout_prob,
            attention_probs_dropout_prob,
            initializer_range,
            layer_norm_eps,
            seed,
            attention_initializer,
            **kwargs,
        )

    def create_attention(self) -> SelfAttention:
        """Returns the attention layer, with name and seed of the full one."""
        full = super().create_attention()
        return LocalSelfAttention(
            self.num_attention_heads,
            self.attention_window,
            self.global_tokens,
            self.attention_probs_dropout_prob,
            self.initializer_range,
            seed=full.seed,
            global_projections=self.global_projections,
            attention_initializer=self.attention_initializer,
            dtype=self.dtype_policy,
            name=full.name,
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {
            "attention_window": self.attention_window,
            "global_tokens": self.global_tokens,
            "global_projections": self.global_projections,
        }


def _padded(values: Any, before: Any, behind: Any) -> Any:
    """Returns values [B, A, S, D] with so many rows of zeros before and behind."""
    batch, heads, _, size = ops.shape(values)
    parts = [
        ops.zeros((batch, heads, before, size), values.dtype),
        values,
        ops.zeros((batch, heads, behind, size), values.dtype),
    ]
    return ops.concatenate(parts, axis=2)


def _with_neighbours(values: Any, block: Any, blocks: Any, sides: Any) -> Any:
    """Returns for each block the rows of the block before it, its own and those of the next.

    Args:
        values: [B, A, S, D].
        block: rows of a block, b.
        blocks: how many blocks the S rows make, the last one filled up with zeros.
        sides: 1 for a neighbour to each side, 0 for the block alone.

    Returns:
        [B, A, blocks, K, D], zeros where there is no such row; K is 3 b, or b.
    """
    batch, heads, length, size = ops.shape(values)
    # A block of zeros before the first and one behind the last, where there are neighbours.
    margin = sides * block
    padded = _padded(values, margin, margin + blocks * block - length)
    parts = ops.reshape(padded, (batch, heads, blocks + 2 * sides, block, size))
    shifted = [parts[:, :, sides * n : sides * n + blocks] for n in range(3)]
    # Without neighbours all three are the same: the first is what is kept.
    return ops.concatenate(shifted, axis=3)[:, :, :, : (1 + 2 * sides) * block]
