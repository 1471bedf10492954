"""Self-attention by content and by distance, apart from each other (DeBERTa, arXiv:2006.03654).

A table has a vector for each distance between two positions. The projections that make queries and
keys of hidden states make them of these vectors, too, and a score is the sum of three products:

    what a word asks and what the other is          query_i . key_j
    what a word asks and how far the other is       query_i . key of distance i - j      "c2p"
    how far a word is and what the other is         key_j . query of distance i - j      "p2c"

Near distances have rows of their own, farther ones share rows that grow wider and wider (version 2
of the model), and all from `max_relative_positions` on the first or the last row. With 8 buckets
for distances of up to 16 to each side:

    distance  ... -8 -7 -6 -5 -4 -3 -2 -1  0  1  2  3  4  5  6  7  8 ...
    row       ...  2  2  3  3  4  5  6  7  8  9 10 11 12 13 13 14 14 ...

A product with all distances, one row for each, lies askew: query 2 of four has key 0 at distance 2.
Every query's row is shifted so that its keys stand in columns, by reshaping alone (`by_position`);
looking up each pair instead would be a gather of as many numbers as there are scores.

Shapes: B sequences, A heads, S positions, H width, D width of a head, N buckets, R = 2 S - 1
distances.
"""

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.layers.dropout import Dropout
from keras_bert.layers.embeddings import EmbeddingPostprocessor
from keras_bert.layers.encoder_block import EncoderBlock, derived_seed
from keras_bert.layers.initializer import truncated_normal
from keras_bert.layers.layer_norm import LayerNormalization
from keras_bert.layers.onednn_kernels import onednn_kernels
from keras_bert.layers.self_attention import SelfAttention


@keras.saving.register_keras_serializable("keras_bert")
class DistanceEmbeddings(keras.layers.Layer):
    """Vectors of the distances between positions, with a norm behind them.

    Args:
        position_buckets: rows for distances to one side, N; 0: one for each distance.
        max_relative_positions: from here on all distances to a side share its last row.
        initializer_range: standard deviation of the truncated normal initializer.
        layer_norm_eps: epsilon of the norm.
    """

    table: keras.Variable

    def __init__(
        self,
        position_buckets: int = 256,
        max_relative_positions: int = 512,
        initializer_range: float = 0.02,
        layer_norm_eps: float = 1e-7,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.position_buckets = position_buckets
        self.max_relative_positions = max_relative_positions
        self.initializer_range = initializer_range
        self.layer_norm_eps = layer_norm_eps
        self.layer_norm = LayerNormalization(
            epsilon=layer_norm_eps, dtype=self.dtype_policy, name="layer_norm"
        )

    def build(self, hidden_shape: Any) -> None:
        """Makes the table [2 N, H] and the norm for hidden states [B, S, H]."""
        side = self.position_buckets or self.max_relative_positions
        self.table = self.add_weight(
            name="embeddings",
            shape=(2 * side, hidden_shape[-1]),
            initializer=truncated_normal(self.initializer_range),
        )
        self.layer_norm.build((None, hidden_shape[-1]))

    def states(self, length: Any, dropout: Dropout | None = None) -> Any:
        """Returns the vectors of all distances between S = `length` positions, [R, H].

        Args:
            length: an integer, or an int32 tensor of no dimensions.
            dropout: what drops units in training, the same ones of distances with one row; None
                outside of it.
        """
        rows = distance_rows(self.position_buckets, self.max_relative_positions)
        most = len(rows) // 2
        distance = ops.arange(2 * length - 1, dtype="int32") - (length - 1)  # [R], 1 - S to S - 1
        row = ops.take(rows, ops.clip(distance, -most, most) + most)  # [R]
        table = ops.cast(ops.convert_to_tensor(self.table), self.compute_dtype)  # [2 N, H]
        if dropout is None:
            with onednn_kernels(taken=False):  # which are for lists of tokens
                return self.layer_norm(ops.take(table, row, axis=0))  # [R, H]
        dropped = dropout(self.layer_norm(table, training=True), training=True)  # [2 N, H]
        return ops.take(dropped, row, axis=0)  # [R, H]

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {
            "position_buckets": self.position_buckets,
            "max_relative_positions": self.max_relative_positions,
            "initializer_range": self.initializer_range,
            "layer_norm_eps": self.layer_norm_eps,
        }


def distance_rows(position_buckets: int, max_relative_positions: int) -> np.ndarray:
    """Returns the row of each distance, int32, of as many to the left as to the right.

    A distance is the query's position less the key's. Those that are farther than the outermost
    have its row.

    Args:
        position_buckets: rows to one side, N, half of them of one distance each; 0: all of them.
        max_relative_positions: from here on all distances to a side share its last row.
    """
    side = position_buckets or max_relative_positions
    # Two rows hold distances from the last one on: 0, of the left side, has no other.
    distance = np.arange(-2 * max_relative_positions, 2 * max_relative_positions + 1)
    if not position_buckets:
        return np.clip(distance + side, 0, 2 * side - 1).astype(np.int32)
    exact = position_buckets // 2
    # The others divide the rest evenly on a scale of logarithms. In float32, as the models were
    # trained: a number that is whole but for its last bit is rounded up to the next.
    far = np.maximum(np.abs(distance), exact).astype(np.float32) / np.float32(exact)
    whole = np.log(np.float32((max_relative_positions - 1) / exact))
    bucket = exact + np.ceil(np.log(far) / whole * np.float32(exact - 1)).astype(np.int64)
    bucket = np.where(np.abs(distance) <= exact, distance, np.sign(distance) * bucket)
    return np.clip(bucket + side, 0, 2 * side - 1).astype(np.int32)


@keras.saving.register_keras_serializable("keras_bert")
class DisentangledSelfAttention(SelfAttention):
    """Self-attention whose scores have parts of content and distance (He et al. 2020, section 3.1).

    Args:
        num_attention_heads: heads, A; divides the width H.
        position_buckets: see `DistanceEmbeddings`.
        max_relative_positions: see `DistanceEmbeddings`.
        pos_att_type: the parts besides query and key of the content: "p2c|c2p", "c2p" or "p2c".
        distance_dropout_rate: dropout on the vectors of distances.
        layer_norm_eps: epsilon of the norm behind these vectors.
        **arguments: the other arguments of `SelfAttention`.
    """

    # `DistanceEmbeddings.states`, of a table made on building where it is not another layer's.
    distance_states: Callable[..., Any]

    def __init__(
        self,
        num_attention_heads: int,
        position_buckets: int = 256,
        max_relative_positions: int = 512,
        pos_att_type: str = "p2c|c2p",
        distance_dropout_rate: float = 0.1,
        layer_norm_eps: float = 1e-7,
        **arguments: Any,
    ):
        super().__init__(num_attention_heads, **arguments)
        self.position_buckets = position_buckets
        self.max_relative_positions = max_relative_positions
        self.pos_att_type = pos_att_type
        self.distance_dropout_rate = distance_dropout_rate
        self.layer_norm_eps = layer_norm_eps
        self.distance_dropout = Dropout(
            distance_dropout_rate,
            seed=derived_seed(self.seed, 1),
            dtype=self.dtype_policy,
            name="distance_dropout",
        )

    def build(self, hidden_shape: Any, input_mask_shape: Any = None) -> None:
        """Makes the projections for hidden states [B, S, H], and the table of distances."""
        super().build(hidden_shape)
        if not hasattr(self, "distance_states"):
            self.relative_positions = DistanceEmbeddings(
                self.position_buckets,
                self.max_relative_positions,
                self.initializer_range,
                self.layer_norm_eps,
                dtype=self.dtype_policy,
                name="relative_positions",
            )
            self.relative_positions.build(hidden_shape)
            self.distance_states = self.relative_positions.states

    def scores(self, query: Any, key: Any, training: bool = False) -> Any:
        """Returns how well each query agrees with each key and its distance, before the softmax.

        Args:
            query: [B, A, S, D].
            key: [B, A, S, D].
            training: whether dropout is on.

        Returns:
            float32 [B, A, S, S].
        """
        parts = self.pos_att_type.split("|")
        # As many parts as there are have the deviation of one; see section 3.2 of the paper.
        scale = ops.cast(1.0 / math.sqrt((1 + len(parts)) * self.head_size), query.dtype)
        query = query * scale  # [B, A, S, D]
        scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))  # [B, A, S, S]
        scores = ops.cast(scores, "float32")
        states = self.distance_states(
            ops.shape(query)[2], self.distance_dropout if training else None
        )  # [R, H], from distance 1 - S to S - 1
        distance_query, distance_key = self._projected_distances(states)  # [A, R, D] each
        if "c2p" in parts:
            # Keys of a query follow each other from the largest distance to the smallest.
            distance_key = ops.transpose(ops.flip(distance_key, axis=1), (0, 2, 1))  # [A, D, R]
            found = self._with_all_distances(query, distance_key)  # [B, A, S, R]
            scores = scores + ops.cast(by_position(found), "float32")
        if "p2c" in parts:
            # Here the keys have rows, and their queries follow from the smallest to the largest.
            distance_query = ops.transpose(distance_query * scale, (0, 2, 1))  # [A, D, R]
            found = self._with_all_distances(key, distance_query)  # [B, A, S keys, R]
            found = ops.transpose(by_position(found), (0, 1, 3, 2))  # [B, A, S, S keys]
            scores = scores + ops.cast(found, "float32")
        return scores

    def _with_all_distances(self, vectors: Any, distances: Any) -> Any:
        """Returns products [B, A, S, R] of queries or keys [B, A, S, D] and distances [A, D, R]."""
        if self.num_attention_heads == 1:
            # TensorFlow 2.20 with oneDNN reads and writes beyond its arrays where [B, 1, S, D] is
            # multiplied with [1, 1, D, R].
            return ops.matmul(vectors[:, 0], distances)[:, None]
        return ops.matmul(vectors, distances[None])

    def _projected_distances(self, states: Any) -> list[Any]:
        """Returns query and key of distances, [A, R, D] each, of their vectors [R, H]."""
        # The first two of three parts of the projection: distances have no value.
        width = 2 * self.num_attention_heads * self.head_size
        projection = self.query_key_value
        if projection.quantization_mode is None and not projection.lora_enabled:
            kernel = ops.convert_to_tensor(projection.kernel)[:, :width]  # [H, 2 H]
            offset = ops.convert_to_tensor(projection.bias)[:width]  # [2 H]
            # Outside of `call` Keras casts no variables: serving calls `attend` alone.
            projected = ops.matmul(states, ops.cast(kernel, states.dtype))  # [R, 2 H]
            projected = projected + ops.cast(offset, states.dtype)
        else:  # the kernel alone is no weight: it has scales, or low-rank matrices beside it
            projected = projection(states)[:, :width]  # [R, 2 H]
        heads = (-1, self.num_attention_heads, self.head_size)
        return [
            ops.transpose(ops.reshape(part, heads), (1, 0, 2))  # [R, A, D] -> [A, R, D]
            for part in ops.split(projected, 2, axis=-1)
        ]

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {
            "position_buckets": self.position_buckets,
            "max_relative_positions": self.max_relative_positions,
            "pos_att_type": self.pos_att_type,
            "distance_dropout_rate": self.distance_dropout_rate,
            "layer_norm_eps": self.layer_norm_eps,
        }


def by_position(found: Any) -> Any:
    """Returns [B, A, S, S]: column j of row i is column j - i + S - 1 of that row.

    For S = 3, rows that are shifted against each other and those that they become:

        . . a b c        a b c        One more column makes each row 6 wide. Read on from the third
        . d e f .   ->   d e f        number in rows of 5, each of them begins a place earlier.
        g h i . .        g h i

    Args:
        found: [B, A, S, 2 S - 1].
    """
    batch, heads, length, distances = ops.shape(found)
    wider = ops.pad(found, [[0, 0], [0, 0], [0, 0], [0, 1]])  # [B, A, S, 2 S]
    flat = ops.reshape(wider, (batch, heads, length * (distances + 1)))
    begin = length - 1
    rows = flat[:, :, begin : begin + length * distances]
    return ops.reshape(rows, (batch, heads, length, distances))[..., :length]


@keras.saving.register_keras_serializable("keras_bert")
class DisentangledEncoderBlock(EncoderBlock):
    """An encoder block whose attention has parts of content and distance.

    Args:
        *arguments: those of `EncoderBlock`.
        position_buckets: see `DistanceEmbeddings`.
        max_relative_positions: see `DistanceEmbeddings`.
        pos_att_type: see `DisentangledSelfAttention`.
        **keywords: further ones of `EncoderBlock`.
    """

    def __init__(
        self,
        *arguments: Any,
        position_buckets: int = 256,
        max_relative_positions: int = 512,
        pos_att_type: str = "p2c|c2p",
        **keywords: Any,
    ):
        # First: the constructor of the block makes the attention.
        self.position_buckets = position_buckets
        self.max_relative_positions = max_relative_positions
        self.pos_att_type = pos_att_type
        super().__init__(*arguments, **keywords)

    def create_attention(self) -> SelfAttention:
        """Returns the attention layer, made as the one without distances."""
        plain = super().create_attention().get_config()
        return DisentangledSelfAttention.from_config(
            plain
            | {
                "position_buckets": self.position_buckets,
                "max_relative_positions": self.max_relative_positions,
                "pos_att_type": self.pos_att_type,
                "distance_dropout_rate": self.hidden_dropout_prob,
                "layer_norm_eps": self.layer_norm_eps,
            }
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {
            "position_buckets": self.position_buckets,
            "max_relative_positions": self.max_relative_positions,
            "pos_att_type": self.pos_att_type,
        }


@keras.saving.register_keras_serializable("keras_bert")
class DisentangledEmbeddings(EmbeddingPostprocessor):
    """Word embeddings with a norm and dropout, and the one table of distances of all blocks.

    Args:
        *arguments: those of `EmbeddingPostprocessor`; positions and segments are not added.
        position_buckets: see `DistanceEmbeddings`.
        max_relative_positions: see `DistanceEmbeddings`.
        **keywords: further ones of `EmbeddingPostprocessor`.
    """

    def __init__(
        self,
        *arguments: Any,
        position_buckets: int = 256,
        max_relative_positions: int = 512,
        **keywords: Any,
    ):
        super().__init__(*arguments, **keywords | {"has_positions": False})
        self.relative_positions = DistanceEmbeddings(
            position_buckets,
            max_relative_positions,
            self.initializer_range,
            self.layer_norm_eps,
            dtype=self.dtype_policy,
            name="relative_positions",
        )

    def build(
        self,
        word_embeddings_shape: Any,
        segment_ids_shape: Any = None,
        position_ids_shape: Any = None,
    ) -> None:
        """Makes both norms and the table [2 N, H] for word embeddings [B, S, H]."""
        super().build(word_embeddings_shape, segment_ids_shape, position_ids_shape)
        self.relative_positions.build(word_embeddings_shape)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {
            "position_buckets": self.relative_positions.position_buckets,
            "max_relative_positions": self.relative_positions.max_relative_positions,
        }
