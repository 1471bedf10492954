"""Random bits as a pure function of counters, in TensorFlow ops for whole batches at once.

`tf.random.stateless_*` takes one seed per call; giving every record its own would mean a call per
record. Hashing (seed, epoch, record, position) gives each record bits that depend on nothing else:
not on the batch, the number of workers or where a run was resumed.
"""

import numpy as np
import tensorflow as tf

from keras_bert.text.masking_strategy import INCREMENT, KEY_BITS, MULTIPLIERS, UNIFORM_BITS


def seeds_of(counters: tf.Tensor) -> tf.Tensor:
    """Hashes rows of counters to one seed each.

    Args:
        counters: int64 [B, k], such as (seed, epoch, record) a row.

    Returns:
        uint64 [B].
    """
    columns = tf.unstack(tf.bitcast(tf.cast(counters, tf.int64), tf.uint64), axis=1)  # k of [B]
    seeds = tf.zeros_like(columns[0])
    for column in columns:
        # Mixed before the next number comes in: (1, 2) and (2, 1) have nothing in common.
        seeds = _mix(_mix(seeds + INCREMENT) ^ column)
    return seeds


def random_bits(seeds: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
    """Returns 64 random bits for each seed and index.

    Args:
        seeds: uint64 [B], from `seeds_of`.
        indices: int64 [K] or [B, K], from 0 up.

    Returns:
        uint64 [B, K]. Equal seed and index give equal bits.
    """
    # The output number `index` of SplitMix64 without the ones before it: its state only counts up.
    steps = (tf.cast(indices, tf.uint64) + 1) * INCREMENT
    return _mix(seeds[:, None] + steps)  # [B, 1] + [K] or [B, K] -> [B, K]


def random_keys(seeds: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
    """Returns a random number that sorts for each seed and index.

    Args:
        seeds: uint64 [B].
        indices: int64 [K] or [B, K].

    Returns:
        int32 [B, K], not negative.
    """
    bits = tf.bitwise.right_shift(random_bits(seeds, indices), np.uint64(64 - KEY_BITS))
    return tf.cast(bits, tf.int32)


def uniform_numbers(bits: tf.Tensor) -> tf.Tensor:
    """Returns float32 numbers from 0 to below 1, made of the upper bits of uint64 ones."""
    # The upper bits, because the lower ones choose random pieces, see `masking`.
    upper = tf.bitwise.right_shift(bits, np.uint64(64 - UNIFORM_BITS))
    return tf.cast(upper, tf.float32) / (1 << UNIFORM_BITS)


def random_permutation(seed: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Returns the numbers below `size` in random order.

    Args:
        seed: uint64 scalar.
        size: int64 scalar.

    Returns:
        int64 [size].
    """
    bits = random_bits(seed[None], tf.range(size))[0]  # [size]
    # The sign bit is dropped: tf.argsort has no kernel for uint64.
    keys = tf.bitcast(tf.bitwise.right_shift(bits, np.uint64(1)), tf.int64)
    return tf.cast(tf.argsort(keys, stable=True), tf.int64)


# The finalizer of SplitMix64, on uint64 of any shape: every bit of the input reaches every other.
def _mix(values: tf.Tensor) -> tf.Tensor:
    shifted = tf.bitwise.right_shift(values, np.uint64(30))
    values = tf.bitwise.bitwise_xor(values, shifted) * MULTIPLIERS[0]
    shifted = tf.bitwise.right_shift(values, np.uint64(27))
    values = tf.bitwise.bitwise_xor(values, shifted) * MULTIPLIERS[1]
    return tf.bitwise.bitwise_xor(values, tf.bitwise.right_shift(values, np.uint64(31)))
