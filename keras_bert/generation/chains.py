"""Rows of pieces whose blanks are sampled, many at a time.

"the [MASK] film [MASK]" as one of C chains, with S positions and P blanks of the chain that has
most:

    ids          [CLS] the [MASK] film [MASK] [SEP] [PAD]
    input_mask     1    1    1     1    1      1     0
    positions    2 4 0      counts   2               the last is filled up

Shapes: C chains, S positions, P blanks.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.generation.draws import Stream, uniforms


class Chains(NamedTuple):
    """What stays as it is while blanks are sampled.

    Attributes:
        input_mask: int32 [C, S], 1 at all but [PAD].
        positions: int32 [C, P], where the blanks are; 0 behind the last.
        counts: int32 [C], how many.
        seeds: uint64 [C], from `draws.chain_seeds`.
    """

    input_mask: tf.Tensor
    positions: tf.Tensor
    counts: tf.Tensor
    seeds: tf.Tensor

    @property
    def width(self) -> tf.Tensor:
        """P, int32 scalar."""
        return tf.shape(self.positions)[1]

    @property
    def is_blank(self) -> tf.Tensor:
        """Which entries of `positions` are blanks, bool [C, P]."""
        return tf.sequence_mask(self.counts, self.width)

    @property
    def is_piece(self) -> tf.Tensor:
        """Which positions hold pieces of the text, bool [C, S]: all but [CLS], [SEP] and [PAD]."""
        lengths = tf.reduce_sum(self.input_mask, axis=1)[:, None]  # [C, 1]
        columns = tf.range(tf.shape(self.input_mask)[1])  # [S]
        return (columns > 0) & (columns < lengths - 1)


def replace(ids: tf.Tensor, chosen: tf.Tensor, new: tf.Tensor | int) -> tf.Tensor:
    """Returns `ids` [C, S] with other pieces [C, 1], or one, where `chosen` [C, S]."""
    return tf.where(chosen, new, ids)


def at(ids: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    """Returns the piece of each chain in a column: [C, S], [C] -> [C]."""
    return tf.gather(ids, columns, batch_dims=1)


def fill(ids: tf.Tensor, chains: Chains, pieces: tf.Tensor) -> tf.Tensor:
    """Returns `ids` [C, S] with `pieces` [C, P] in the blanks."""
    places = tf.where(chains.is_blank)  # int64 [blanks of all chains, 2]
    columns = tf.gather_nd(chains.positions, places)
    where = tf.stack([places[:, 0], tf.cast(columns, tf.int64)], axis=1)
    return tf.tensor_scatter_nd_update(ids, where, tf.gather_nd(pieces, places))


def random_pieces(ids: tf.Tensor, chains: Chains, may_be_drawn: np.ndarray) -> tf.Tensor:
    """Returns `ids` [C, S] with random pieces in the blanks, each as likely as any other."""
    pieces = tf.constant(np.flatnonzero(may_be_drawn), tf.int32)
    steps = tf.range(tf.cast(chains.width, tf.int64))
    numbers = uniforms(chains.seeds, Stream.START, tf.constant(0, tf.int64), steps)  # [C, P]
    drawn = tf.cast(numbers * tf.cast(tf.size(pieces), tf.float32), tf.int32)
    return fill(ids, chains, tf.gather(pieces, tf.minimum(drawn, tf.size(pieces) - 1)))
