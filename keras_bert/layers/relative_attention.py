"""Self-attention that also knows how far apart two positions are (MPNet; T5, section 2.1).

To the score of query and key a number is added that depends on their distance and on the head
alone. Distances have buckets: near ones each its own, farther ones wider and wider, all beyond 128
the last one; to the right they are others than to the left. With 8 buckets (32 are usual), from the
second of five positions, where 0 is the position itself:

    position   a  b  c  d  e          bucket of a distance, 4 buckets a side
    distance  -1  0  1  2  3          0 1  to the left and the position itself: 0 and 1 exactly,
    bucket     1  0  5  6  6          2 3  farther ones; to the right 4 more

Shapes: B sequences, A heads, S positions, D width of a head, N buckets.
"""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.layers.embeddings import EmbeddingPostprocessor
from keras_bert.layers.encoder_block import EncoderBlock
from keras_bert.layers.initializer import truncated_normal
from keras_bert.layers.self_attention import SelfAttention

# From here on all distances share the last bucket of their side. T5 and MPNet have no other number.
MOST_DISTANCE = 128


@keras.saving.register_keras_serializable("keras_bert")
class RelativePositions(keras.layers.Layer):
    """What is added to attention scores for the distance between query and key.

    Args:
        num_buckets: buckets of distances, N: even, at least 4.
        num_attention_heads: heads, A.
        initializer_range: standard deviation of the truncated normal initializer.
    """

    table: keras.Variable

    def __init__(
        self,
        num_buckets: int = 32,
        num_attention_heads: int = 12,
        initializer_range: float = 0.02,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.num_buckets = num_buckets
        self.num_attention_heads = num_attention_heads
        self.initializer_range = initializer_range

    def build(self, input_shape: Any = None) -> None:
        """Makes the table [N, A]."""
        self.table = self.add_weight(
            name="embeddings",
            shape=(self.num_buckets, self.num_attention_heads),
            initializer=truncated_normal(self.initializer_range),
            autocast=False,  # it is added to scores in float32
        )

    def score_bias(self, length: Any) -> Any:
        """Returns float32 [1, A, S, S], to be added to the scores of S = `length` positions.

        Args:
            length: an integer, or an int32 tensor of no dimensions.
        """
        position = ops.arange(length, dtype="int32")  # [S]
        distance = ops.clip(position - position[:, None], -MOST_DISTANCE, MOST_DISTANCE)
        bucket = ops.take(distance_buckets(self.num_buckets), distance + MOST_DISTANCE)  # [S, S]
        found = ops.take(ops.convert_to_tensor(self.table), bucket, axis=0)  # [S, S, A]
        found = ops.cast(found, "float32")  # whatever the dtype of the variables
        return ops.transpose(found, (2, 0, 1))[None]

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {
            "num_buckets": self.num_buckets,
            "num_attention_heads": self.num_attention_heads,
            "initializer_range": self.initializer_range,
        }


def distance_buckets(num_buckets: int) -> np.ndarray:
    """Returns the bucket of each distance from -MOST_DISTANCE to MOST_DISTANCE, int32.

    A distance is the key's position less the query's.

    Args:
        num_buckets: N; the first half is for 0 and for keys to the left.
    """
    side = num_buckets // 2
    exact = side // 2  # buckets of one distance each
    size = np.arange(MOST_DISTANCE + 1)
    # The others divide the rest evenly on a scale of logarithms, from `exact` to MOST_DISTANCE.
    part = np.log(np.maximum(size, exact) / exact) / np.log(MOST_DISTANCE / exact)
    far = np.minimum(exact + (part * (side - exact)).astype(np.int32), side - 1)
    left = np.where(size < exact, size, far)
    return np.concatenate([left[:0:-1], left[:1], left[1:] + side]).astype(np.int32)


@keras.saving.register_keras_serializable("keras_bert")
class RelativeSelfAttention(SelfAttention):
    """Self-attention with a number for each head and distance added to the scores.

    Args:
        num_attention_heads: heads, A; divides the width H.
        num_buckets: buckets of distances, see `RelativePositions`.
        **arguments: the other arguments of `SelfAttention`.
    """

    # `RelativePositions.score_bias`, of a table made on building where it is not another layer's.
    distance_bias: Callable[[Any], Any]

    def __init__(self, num_attention_heads: int, num_buckets: int = 32, **arguments: Any):
        super().__init__(num_attention_heads, **arguments)
        self.num_buckets = num_buckets

    def build(self, hidden_shape: Any, input_mask_shape: Any = None) -> None:
        """Makes the projections for hidden states [B, S, H], and the table of distances."""
        super().build(hidden_shape)
        if not hasattr(self, "distance_bias"):
            self.relative_positions = RelativePositions(
                self.num_buckets,
                self.num_attention_heads,
                self.initializer_range,
                dtype=self.dtype_policy,
                name="relative_positions",
            )
            self.relative_positions.build()
            self.distance_bias = self.relative_positions.score_bias

    def scores(self, query: Any, key: Any, training: bool = False) -> Any:
        """Returns how well each query agrees with each key at its distance, before the softmax.

        Args:
            query: [B, A, S, D].
            key: [B, A, S, D].
            training: changes nothing.

        Returns:
            float32 [B, A, S, S].
        """
        agreement = ops.cast(super().scores(query, key, training), "float32")  # [B, A, S, S]
        return agreement + self.distance_bias(ops.shape(query)[2])

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {"num_buckets": self.num_buckets}


@keras.saving.register_keras_serializable("keras_bert")
class RelativeEncoderBlock(EncoderBlock):
    """An encoder block whose attention adds a number for each head and distance.

    Args:
        *arguments: those of `EncoderBlock`.
        num_buckets: buckets of distances, see `RelativePositions`.
        **keywords: further ones of `EncoderBlock`.
    """

    def __init__(self, *arguments: Any, num_buckets: int = 32, **keywords: Any):
        self.num_buckets = num_buckets  # first: the constructor of the block makes the attention
        super().__init__(*arguments, **keywords)

    def create_attention(self) -> SelfAttention:
        """Returns the attention layer, made as the one without distances."""
        plain = super().create_attention().get_config()
        return RelativeSelfAttention.from_config(plain | {"num_buckets": self.num_buckets})

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {"num_buckets": self.num_buckets}


@keras.saving.register_keras_serializable("keras_bert")
class RelativeEmbeddings(EmbeddingPostprocessor):
    """BERT's embeddings, which also hold the one table of distances that all blocks read.

    Args:
        *arguments: those of `EmbeddingPostprocessor`.
        num_buckets: buckets of distances, see `RelativePositions`.
        num_attention_heads: heads of the blocks, A.
        **keywords: further ones of `EmbeddingPostprocessor`.
    """

    def __init__(
        self,
        *arguments: Any,
        num_buckets: int = 32,
        num_attention_heads: int = 12,
        **keywords: Any,
    ):
        super().__init__(*arguments, **keywords)
        self.relative_positions = RelativePositions(
            num_buckets,
            num_attention_heads,
            self.initializer_range,
            dtype=self.dtype_policy,
            name="relative_positions",
        )

    def build(
        self,
        word_embeddings_shape: Any,
        segment_ids_shape: Any = None,
        position_ids_shape: Any = None,
    ) -> None:
        """Makes what `EmbeddingPostprocessor` has, and the table [N, A]."""
        super().build(word_embeddings_shape)
        self.relative_positions.build()

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {
            "num_buckets": self.relative_positions.num_buckets,
            "num_attention_heads": self.relative_positions.num_attention_heads,
        }
