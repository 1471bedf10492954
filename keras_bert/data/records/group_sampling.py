"""Which group of records each example of an endless stream comes from.

The stream is cut into blocks of 65,536 examples. Up to the end of block b a group of rate p has
given floor(65,536 * b * p) examples, and the group of the highest rate all the others: at the end
of every block rates hold to one example (of the highest, to one a group). Inside a block the groups
stand in random order.

So the groups of a block follow from seed and number of the block, and how many examples each group
has given before it from the number alone: a run goes on anywhere without a look at what was before.

Shapes: G groups, N examples of a block.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_bert.text.random_bits import random_permutation, seeds_of

_BLOCK_BITS = 16
_EXAMPLES_PER_BLOCK = 1 << _BLOCK_BITS
# Rates are multiples of 2 ** -32. Number of a block times rate stays below 2 ** 63 for 2 ** 47
# examples, a million years of a large TPU slice.
_RATE_BITS = 32
# What the bits of this order are told apart from the others of the pipeline by.
_ORDER_OF_GROUPS = 2


class GroupSampling:
    """The groups of all examples of a stream.

    Args:
        rates: the rate of each group, G of them, with sum 1; at most 256.
        seed: seed of the order in a block.
    """

    def __init__(self, rates: Sequence[float], seed: int):
        self._rates = [max(1, round(rate * (1 << _RATE_BITS))) for rate in rates]
        self._largest = int(np.argmax(self._rates))
        self._seed = seed

    def counts_before(self, position: int) -> list[int]:
        """Returns how many of the first `position` examples of the stream are of each group."""
        block, rest = divmod(position, _EXAMPLES_PER_BLOCK)
        with tf.init_scope():
            counts = self._counts_before_block(tf.constant(block, tf.int64)).numpy()
            if rest:
                groups = self._groups_of_block(tf.constant(block, tf.int64)).numpy()
                counts += np.bincount(groups[:rest], minlength=len(counts))
        return counts.tolist()

    def groups(self, position: int) -> tf.data.Dataset:
        """Returns the endless dataset of the groups from a position of the stream on.

        Its elements are int64 scalars below G.
        """
        block, rest = divmod(position, _EXAMPLES_PER_BLOCK)
        blocks = tf.data.Dataset.range(block, tf.int64.max).map(self._groups_of_block)
        return blocks.unbatch().skip(rest)

    def _counts_before_block(self, block: tf.Tensor) -> tf.Tensor:
        # [G]: floor(65,536 * block * rate)
        shift = tf.constant(_RATE_BITS - _BLOCK_BITS, tf.int64)
        counts = tf.bitwise.right_shift(block * tf.constant(self._rates, tf.int64), shift)
        # What rounding leaves goes to the largest group: its own part of a block, a 256th of it or
        # more, is more than the rounding of all others.
        rest = block * _EXAMPLES_PER_BLOCK - tf.reduce_sum(counts)
        return counts + rest * tf.one_hot(self._largest, len(self._rates), dtype=tf.int64)

    def _groups_of_block(self, block: tf.Tensor) -> tf.Tensor:
        counts = self._counts_before_block(block + 1) - self._counts_before_block(block)  # [G]
        in_order = tf.repeat(tf.range(len(self._rates), dtype=tf.int64), counts)  # [N]: 0 0 0 1 1 2
        seed = seeds_of(tf.stack([self._seed, _ORDER_OF_GROUPS, block])[None])[0]
        order = random_permutation(seed, tf.constant(_EXAMPLES_PER_BLOCK, tf.int64))
        return tf.gather(in_order, order)
