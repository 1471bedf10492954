"""Blocks whose attention turns queries and keys: of ModernBERT, EuroBERT, NomicBERT, GTE and Jina.

Query and key are turned by an angle that grows with their position (RoFormer, Su et al. 2021,
section 3.2), so that their product depends on the distance alone: there is no table of positions.
Half of a head's numbers and the other half are the two coordinates of D / 2 points, each of which
turns at a speed of its own:

    component        0 and D/2           1 and D/2 + 1          i and D/2 + i
    angle at s       s                   s theta^(-2/D)         s theta^(-2i/D)

The block of Jina Embeddings v3 (Sturua et al. 2024, arXiv:2409.10173) is BERT's otherwise. The
feed-forward layers of the others have a gate. ModernBERT (Warner et al. 2024, arXiv:2412.13663) has
norms before both sub-layers, and no layer with a bias:

    hidden --+-- norm, attention --(+)--+-- norm, dense --+-- gelu --(x)-- dense --(+)-->
             |                      |   |                 +----------+              |
             +----------------------+   +-------------------------------------------+

Most of its blocks attend in a sliding window, as in `local_attention`, but without global
positions; packed sequences and tables of probabilities take all pairs and a mask. EuroBERT's
(Boizard et al. 2025, arXiv:2503.05500) see all, divide by the root mean square in place of a norm,
and may have fewer heads of keys and values than of queries, each of which several heads of queries
share (Ainslie et al. 2023, arXiv:2305.13245), 6 and 2 here:

    queries           0 1 2 3 4 5
    keys and values   0 0 0 1 1 1

They are repeated where they are projected, so that all that attends sees as many heads of each.
NomicBERT and GTE (arXiv:2402.01613, arXiv:2407.19669) have norms behind the sub-layers, as BERT's
block has, and see all:

    hidden --+-- attention --(+)-- norm --+-- dense --+-- silu --(x)-- dense --(+)-- norm -->
             |                |           |           +----------+              |
             +----------------+           +-------------------------------------+

Shapes: B sequences, S positions, H width, I width of the feed-forward layer, A heads, D = H / A,
K heads of keys and values.
"""

import math
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_bert.layers.dense import Dense
from keras_bert.layers.dropout import Dropout
from keras_bert.layers.embeddings import EmbeddingPostprocessor
from keras_bert.layers.encoder_block import EncoderBlock, PreNormEncoderBlock, derived_seed
from keras_bert.layers.initializer import truncated_normal
from keras_bert.layers.layer_norm import LayerNormalization, RMSNormalization
from keras_bert.layers.local_attention import OUTSIDE, LocalSelfAttention
from keras_bert.layers.self_attention import SelfAttention
from keras_bert.modernbert_config import WHOLE_WINDOWS


def rotated(vectors: Any, theta: float, factor: float = 1.0) -> Any:
    """Returns queries or keys turned by the angles of their positions.

    Args:
        vectors: [B, A, S, D], D even; row s is that of position s.
        theta: the slowest of the D / 2 points turns by about 1 / theta a position.
        factor: positions are divided by it (interpolation, Chen et al. 2023, arXiv:2306.15595).

    Returns:
        [B, A, S, D]; angles and products are computed in float32.
    """
    size = vectors.shape[-1]
    exponents = np.arange(0, size, 2, dtype=np.float32) / np.float32(size)
    speeds = 1 / np.float32(theta) ** exponents / np.float32(factor)  # [D / 2]
    positions = ops.cast(ops.arange(ops.shape(vectors)[2], dtype="int32"), "float32")  # [S]
    angles = positions[:, None] * speeds  # [S, D / 2]
    cosine, sine = ops.cos(angles), ops.sin(angles)
    x, y = ops.split(ops.cast(vectors, "float32"), 2, axis=-1)  # [B, A, S, D / 2] each
    turned = ops.concatenate([x * cosine - y * sine, y * cosine + x * sine], axis=-1)
    return ops.cast(turned, vectors.dtype)


@keras.saving.register_keras_serializable("keras_bert")
class RotarySelfAttention(LocalSelfAttention):
    """Self-attention that knows distances by turned queries and keys; all see all, or a window.

    Args:
        num_attention_heads: heads, A; divides the width H.
        attention_window: how far a position sees to each side; 0: as far as there are any.
        rope_theta: see `rotated`.
        output_initializer_range: standard deviation of the initializer of the output projection.
        rope_factor: see `rotated`.
        use_bias: whether both projections have a bias.
        num_key_value_heads: heads of keys and of values, K; divides A. None for A.
        **arguments: further arguments of `SelfAttention`.
    """

    # With windows of 64 to each side, 512 positions take a quarter less time in a training step as
    # a table of all pairs than in blocks, 1,024 a tenth more (float32, 2 Intel threads); on an AMD
    # EPYC blocks lose up to eight windows, too (benchmarks/README.md, local attention).
    whole_windows: ClassVar[int] = WHOLE_WINDOWS
    has_table: ClassVar[bool] = True

    def __init__(
        self,
        num_attention_heads: int,
        attention_window: int = 0,
        rope_theta: float = 160_000.0,
        output_initializer_range: float = 0.02,
        rope_factor: float = 1.0,
        use_bias: bool = False,
        num_key_value_heads: int | None = None,
        **arguments: Any,
    ):
        # What a file of Keras holds besides; no variant has it.
        for name in ("global_tokens", "global_projections"):
            arguments.pop(name, None)
        super().__init__(num_attention_heads, attention_window, global_tokens=0, **arguments)
        self.rope_theta = rope_theta
        self.output_initializer_range = output_initializer_range
        self.rope_factor = rope_factor
        self.use_bias = use_bias
        self.num_key_value_heads = num_key_value_heads

    @property
    def key_value_heads(self) -> int:
        """Heads of key and value as they are projected, K."""
        return self.num_key_value_heads or self.num_attention_heads

    def project(self, hidden: Any) -> Any:
        """Returns query, key and value side by side, [..., 3H], of hidden states [..., H].

        Keys and values that several heads share stand there once for each of them.
        """
        projected = super().project(hidden)  # [..., (A + 2 K) D]
        heads, shared = self.num_attention_heads, self.key_value_heads
        if shared == heads:
            return projected
        *places, columns = ops.shape(projected)
        by_head = ops.reshape(projected, (*places, columns // self.head_size, self.head_size))
        query, key, value = ops.split(by_head, [heads, heads + shared], axis=-2)
        key, value = (ops.repeat(part, heads // shared, axis=-2) for part in (key, value))
        by_head = ops.concatenate([query, key, value], axis=-2)  # [..., 3 A, D]
        return ops.reshape(by_head, (*places, 3 * heads * self.head_size))

    def _dense(
        self, units: int, name: str, start: keras.initializers.Initializer | None = None
    ) -> keras.layers.Dense:
        deviation = self.output_initializer_range if name == "output" else self.initializer_range
        return Dense(
            units,
            use_bias=self.use_bias,
            kernel_initializer=start or truncated_normal(deviation),
            dtype=self.dtype_policy,
            name=name,
        )

    def attend(
        self, query: Any, key: Any, value: Any, bias: Any, training: bool = False
    ) -> tuple[Any, Any]:
        """Returns what each position takes from those that it sees; see `SelfAttention.attend`.

        Args:
            query: [B, A, S, D].
            key: of the same shape.
            value: of the same shape.
            bias: what `score_bias` returned, [B, 1, 1 or S, S].
            training: whether dropout is on.

        Returns:
            Context [B, A, S, D]; and the probabilities before dropout [B, A, S, S] in float32, or
            None where a window has been cut into blocks.
        """
        if not self.attention_window:
            return SelfAttention.attend(self, query, key, value, bias, training)
        length = ops.shape(query)[2]  # S
        is_short = isinstance(length, int) and length <= self.whole_windows * self.attention_window
        if bias.shape[2] == 1 and not is_short:  # the same for all queries: blocks
            return super().attend(self._rotated(query), self._rotated(key), value, bias, training)
        positions = ops.arange(length, dtype="int32")  # [S]
        seen = ops.abs(positions - positions[:, None]) <= self.attention_window  # [S, S]
        bias = bias + (1.0 - ops.cast(seen, "float32")) * OUTSIDE  # [B, 1, S, S]
        return SelfAttention.attend(self, query, key, value, bias, training)

    def scores(self, query: Any, key: Any, training: bool = False) -> Any:
        """Returns how well each query agrees with each key at its distance, before the softmax.

        Args:
            query: [B, A, S, D].
            key: [B, A, S, D].
            training: changes nothing.

        Returns:
            [B, A, S, S] in the dtype of the arithmetic.
        """
        return super().scores(self._rotated(query), self._rotated(key), training)

    def _rotated(self, vectors: Any) -> Any:
        return rotated(vectors, self.rope_theta, self.rope_factor)

    def bias_of_pairs(self, bias: Any) -> Any:
        """Returns a bias [B, 1, 1 or S, S] as [B, 1, S, S], for which `attend` takes all pairs."""
        batch, _, _, length = ops.shape(bias)
        return ops.broadcast_to(bias, (batch, 1, length, length))

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {
            "rope_theta": self.rope_theta,
            "output_initializer_range": self.output_initializer_range,
            "rope_factor": self.rope_factor,
            "use_bias": self.use_bias,
            "num_key_value_heads": self.num_key_value_heads,
        }


class _RotaryBlock(EncoderBlock):
    """What blocks with rotary attention have in common."""

    # What the attention has beside the arguments of a plain one.
    attention_settings: dict[str, Any]

    def create_attention(self) -> SelfAttention:
        """Returns the attention layer, made as the one without angles."""
        settings = super().create_attention().get_config()
        settings |= {"output_initializer_range": self.initializer_range}
        return RotarySelfAttention.from_config(settings | self.attention_settings)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | self.attention_settings


class _GatedBlock(_RotaryBlock):
    """What those of them with a gated feed-forward layer have in common."""

    @property
    def inner_width(self) -> int:
        """Outputs of the first dense layer, 2I: what goes through the activation, and the gate."""
        return 2 * self.intermediate_size

    def inner(self, hidden: Any, training: bool = False) -> Any:
        """Returns what the second dense layer of the feed-forward layer reads, [..., I]."""
        inner, gate = ops.split(self.intermediate(hidden), 2, axis=-1)  # [..., I] each
        return self.activation(inner, training) * gate


@keras.saving.register_keras_serializable("keras_bert")
class RotaryEncoderBlock(_GatedBlock, PreNormEncoderBlock):
    """A pre-layer-norm block with rotary attention, a gated feed-forward layer and no biases.

    Args:
        *arguments: those of `EncoderBlock`. `hidden_dropout_prob` is that between gate and output
            of the feed-forward layer, `attention_probs_dropout_prob` also that behind the
            attention, as in ModernBERT.
        attention_window: see `RotarySelfAttention`.
        rope_theta: see `rotated`.
        output_initializer_range: standard deviation of the initializers of both output layers.
        rope_factor: see `rotated`.
        num_key_value_heads: see `RotarySelfAttention`.
        **keywords: further ones of `PreNormEncoderBlock`.
    """

    def __init__(
        self,
        *arguments: Any,
        attention_window: int = 0,
        rope_theta: float = 160_000.0,
        output_initializer_range: float = 0.02,
        rope_factor: float = 1.0,
        num_key_value_heads: int | None = None,
        **keywords: Any,
    ):
        # First: the constructor of the block makes the attention.
        self.attention_settings = {
            "attention_window": attention_window,
            "rope_theta": rope_theta,
            "output_initializer_range": output_initializer_range,
            "rope_factor": rope_factor,
            "num_key_value_heads": num_key_value_heads,
        }
        self.output_initializer_range = output_initializer_range
        super().__init__(*arguments, **keywords)
        self.attention_dropout = Dropout(
            self.attention_probs_dropout_prob,
            seed=derived_seed(self.seed, 2),
            dtype=self.dtype_policy,
            name="attention_dropout",
        )

    def _norm(self, name: str) -> LayerNormalization:
        return LayerNormalization(
            epsilon=self.layer_norm_eps, center=False, dtype=self.dtype_policy, name=name
        )

    def _dense(self, units: int, name: str) -> keras.layers.Dense:
        deviation = self.output_initializer_range if name == "output" else self.initializer_range
        return Dense(
            units,
            use_bias=False,
            kernel_initializer=truncated_normal(deviation),
            dtype=self.dtype_policy,
            name=name,
        )

    def feed_forward_half(self, hidden: Any, training: bool = False) -> Any:
        """Returns hidden states [..., H] after the feed-forward layer, each position alone."""
        inner = self.inner(self.feed_forward_norm(hidden, training=training), training)  # [..., I]
        inner = self.feed_forward_dropout(inner, training=training)
        return self.ended(hidden + self.output_dense(inner), training)  # [..., H]


@keras.saving.register_keras_serializable("keras_bert")
class RotaryRMSNormBlock(RotaryEncoderBlock):
    """EuroBERT's block: that of ModernBERT with root-mean-square norms.

    Args:
        *arguments: those of `EncoderBlock`. `hidden_dropout_prob` is that between gate and output
            of the feed-forward layer and behind the attention.
        **keywords: further ones of `RotaryEncoderBlock`.
    """

    def __init__(self, *arguments: Any, **keywords: Any):
        super().__init__(*arguments, **keywords)
        self.attention_dropout = self._dropout("attention_dropout", 2)

    def _norm(self, name: str) -> LayerNormalization:
        return RMSNormalization(epsilon=self.layer_norm_eps, dtype=self.dtype_policy, name=name)


@keras.saving.register_keras_serializable("keras_bert")
class RotaryBertBlock(_RotaryBlock):
    """BERT's post-layer-norm block with rotary attention, and nothing else changed.

    Args:
        *arguments: those of `EncoderBlock`.
        rope_theta: see `rotated`.
        rope_factor: see `rotated`.
        **keywords: further ones of `EncoderBlock`.
    """

    def __init__(
        self,
        *arguments: Any,
        rope_theta: float = 20_000.0,
        rope_factor: float = 1.0,
        **keywords: Any,
    ):
        # First: the constructor of the block makes the attention.
        self.attention_settings = {"rope_theta": rope_theta, "rope_factor": rope_factor}
        super().__init__(*arguments, **keywords)

    def create_attention(self) -> SelfAttention:
        """Returns the attention layer, whose projections have biases."""
        settings = super().create_attention().get_config()
        return RotarySelfAttention.from_config(settings | {"use_bias": True})


@keras.saving.register_keras_serializable("keras_bert")
class RotaryPostNormBlock(_GatedBlock):
    """BERT's post-layer-norm block with rotary attention and a gated feed-forward layer.

    Args:
        *arguments: those of `EncoderBlock`.
        rope_theta: see `rotated`.
        rope_factor: see `rotated`.
        use_bias: whether the dense layers have biases, but for the first one of the feed-forward
            layer, which has none.
        gate_dropout_prob: dropout on what the gate lets through.
        **keywords: further ones of `EncoderBlock`.
    """

    def __init__(
        self,
        *arguments: Any,
        rope_theta: float = 10_000.0,
        rope_factor: float = 1.0,
        use_bias: bool = False,
        gate_dropout_prob: float = 0.0,
        **keywords: Any,
    ):
        # First: the constructor of the block makes the attention.
        self.attention_settings = {
            "rope_theta": rope_theta,
            "rope_factor": rope_factor,
            "use_bias": use_bias,
        }
        self.use_bias = use_bias
        self.gate_dropout_prob = gate_dropout_prob
        super().__init__(*arguments, **keywords)
        self.gate_dropout = Dropout(
            gate_dropout_prob,
            seed=derived_seed(self.seed, 4),
            dtype=self.dtype_policy,
            name="gate_dropout",
        )

    def _dense(self, units: int, name: str) -> keras.layers.Dense:
        return Dense(
            units,
            use_bias=self.use_bias and name != "intermediate",
            kernel_initializer=truncated_normal(self.initializer_range),
            dtype=self.dtype_policy,
            name=name,
        )

    def inner(self, hidden: Any, training: bool = False) -> Any:
        """Returns what the second dense layer of the feed-forward layer reads, [..., I]."""
        return self.gate_dropout(super().inner(hidden, training), training=training)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {"gate_dropout_prob": self.gate_dropout_prob}


@keras.saving.register_keras_serializable("keras_bert")
class NormalizedEmbeddings(EmbeddingPostprocessor):
    """Word embeddings with a norm and dropout behind them: no positions and no segments.

    Args:
        *arguments: those of `EmbeddingPostprocessor`; the norm has no offset.
        **keywords: further ones.
    """

    def __init__(self, *arguments: Any, **keywords: Any):
        super().__init__(*arguments, **keywords | {"has_positions": False})
        self.layer_norm = LayerNormalization(
            epsilon=self.layer_norm_eps, center=False, dtype=self.dtype_policy, name="layer_norm"
        )


def scaled_initializer_range(deviation: float, layers: int) -> float:
    """Returns the standard deviation of what adds to the residual stream of so many layers.

    Each layer adds twice, and the sum keeps its size (Shoeybi et al. 2019, arXiv:1909.08053).
    """
    return deviation / math.sqrt(2.0 * layers)
