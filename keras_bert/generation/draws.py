"""Random draws of many chains at once, each from numbers of its own.

What a chain draws follows from its seed, the kind of draw, the sweep and the step alone: not from
the chains beside it, so that a batch of any size, and a served graph, draw the same.

Shapes: C chains, P blanks of the chain that has most, V pieces.
"""

import enum

import tensorflow as tf

from keras_bert.generation.options import MAX_SWEEPS
from keras_bert.text.random_bits import random_bits, random_keys, seeds_of, uniform_numbers

_STEP_BITS = 16  # a row has fewer positions
_SWEEP_BITS = MAX_SWEEPS.bit_length()
_LAST = tf.int32.max


class Stream(enum.IntEnum):
    """What random numbers are for; those of two streams have nothing in common."""

    START = 0
    ORDER = 1
    PIECE = 2
    ACCEPTANCE = 3


def chain_seeds(seeds: tf.Tensor, samples: tf.Tensor) -> tf.Tensor:
    """Returns the seed of each chain, uint64 [C].

    Args:
        seeds: int64 [C], what a user gave.
        samples: int64 [C], the number of the sample, from 0 up, where a text has several.
    """
    return seeds_of(tf.stack([seeds, samples], axis=1))


def uniforms(chains: tf.Tensor, stream: Stream, sweep: tf.Tensor, steps: tf.Tensor) -> tf.Tensor:
    """Returns numbers from 0 to below 1, float32 [C, K].

    Args:
        chains: uint64 [C], from `chain_seeds`.
        stream: what they are for.
        sweep: int64 scalar.
        steps: int64 [K].
    """
    return uniform_numbers(random_bits(chains, _indices(stream, sweep, steps)))


def visiting_order(
    chains: tf.Tensor, sweep: tf.Tensor, counts: tf.Tensor, width: tf.Tensor, shuffled: bool
) -> tf.Tensor:
    """Returns the numbers of the blanks of each chain as they are sampled, int32 [C, P].

    Every blank once, at random too: the papers draw a position with replacement, which leaves the
    same distribution stationary but may leave a [MASK] where it was. What stands behind the
    `counts` of a chain is of no meaning.

    Args:
        chains: uint64 [C].
        sweep: int64 scalar.
        counts: int32 [C], the blanks of each chain.
        width: int32 scalar, P.
        shuffled: whether in random order.
    """
    blanks = tf.range(width)  # [P]
    if not shuffled:
        return tf.tile(blanks[None], [tf.size(chains), 1])
    keys = random_keys(chains, _indices(Stream.ORDER, sweep, tf.cast(blanks, tf.int64)))  # [C, P]
    return tf.argsort(tf.where(blanks < counts[:, None], keys, _LAST), axis=1, stable=True)


def draw(log_probabilities: tf.Tensor, numbers: tf.Tensor) -> tf.Tensor:
    """Draws a piece from each distribution by the inverse of its cumulative sum, int32 [...].

    Args:
        log_probabilities: float32 [..., V]; -inf is never drawn. Of NaN alone, which is no
            distribution, piece 0 is.
        numbers: float32 [...], from 0 to below 1.
    """
    probabilities = tf.exp(log_probabilities)
    sums = tf.cumsum(probabilities, axis=-1)  # [..., V]
    # Probabilities .2 .5 .3: sums .2 .7 1; the number .6 is first exceeded at piece 1.
    reached = (sums > numbers[..., None] * sums[..., -1:]) & (probabilities > 0)
    # Rounding may leave a number of nearly 1 behind all sums: then the likeliest piece.
    drawn = tf.where(
        tf.reduce_any(reached, axis=-1),
        tf.argmax(tf.cast(reached, tf.int8), axis=-1, output_type=tf.int32),  # the first of them
        tf.argmax(probabilities, axis=-1, output_type=tf.int32),
    )
    return drawn


def _indices(stream: Stream, sweep: tf.Tensor, steps: tf.Tensor) -> tf.Tensor:
    # int64 [K]: bits of the stream, of the sweep, of the step.
    return (sweep + (int(stream) << _SWEEP_BITS)) * (1 << _STEP_BITS) + steps
