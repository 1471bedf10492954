"""Chooses words, or runs of words, of sequences of pieces at random, for whole batches at once.

A word is known by its number in its sequence; candidates are pieces that are no special tokens:

    pieces       [CLS] play ##ing chess ! [SEP]
    candidates     0    1    1     1    1   0
    starts         0    1    0     1    1   0
    words          0    0    0     1    2   2      the numbers at special tokens are never used

Shapes: B batch, S sequence length, which is also the most words.
"""

import tensorflow as tf

from keras_bert.text.masking_strategy import RUN_LENGTHS, RUN_WEIGHTS
from keras_bert.text.random_bits import random_bits, random_keys, uniform_numbers


def choose_words(
    candidates: tf.Tensor, continues: tf.Tensor, budget: tf.Tensor, seeds: tf.Tensor
) -> tf.Tensor:
    """Takes words in random order, leaving out those that no longer fit into the budget.

    Args:
        candidates: bool [B, S], pieces that may be chosen.
        continues: bool [B, S], pieces that go on with the word before them.
        budget: int32 [B], how many pieces may be chosen.
        seeds: uint64 [B], from `seeds_of`.

    Returns:
        bool [B, S], the chosen pieces.
    """
    words, _ = _find_words(candidates, continues)  # [B, S]
    sizes = _count_per_word(words, candidates)  # [B, S]: 2 1 1 0 0 0 in the example above
    order = _random_order(sizes > 0, seeds)  # [B, S] of word numbers
    taken = _take_in_order(tf.gather(sizes, order, batch_dims=1), budget)  # [B, S], in that order
    # The argsort of an order is its inverse: back to the order of the text, bool [B, S] by word.
    chosen = tf.gather(taken, tf.argsort(order), batch_dims=1)
    return candidates & tf.gather(chosen, words, batch_dims=1)  # [B, S] by piece


def choose_runs_of_words(
    candidates: tf.Tensor, continues: tf.Tensor, budget: tf.Tensor, seeds: tf.Tensor
) -> tf.Tensor:
    """Takes runs of one to three words in random order of their first words.

    A run that no longer fits into the budget loses words at its end; one that meets a word that is
    taken is left out. Runs do not reach over special tokens.

    Args:
        candidates: bool [B, S], pieces that may be chosen.
        continues: bool [B, S], pieces that go on with the word before them.
        budget: int32 [B], how many pieces may be chosen.
        seeds: uint64 [B], from `seeds_of`.

    Returns:
        bool [B, S], the chosen pieces.
    """
    words, starts = _find_words(candidates, continues)  # [B, S] each
    ends = _ends_of_runs(words, starts, candidates)  # [B, S, 3]
    available = tf.reduce_sum(tf.cast(ends > 0, tf.int32), axis=2)  # [B, S]: 0 to 3 words
    length = tf.cast(tf.shape(candidates)[1], tf.int64)
    bits = random_bits(seeds, tf.range(length) + RUN_LENGTHS)  # [B, S]
    # Uniform below the sum of the weights of the lengths that are available: 1 + 1/2 with two
    # words left, so that a run of three is drawn only where there are three.
    drawn = uniform_numbers(bits) * tf.gather(tf.constant([0.0, *RUN_WEIGHTS]), available)
    # One word more for each sum of weights that the number reaches: [B, S, 2] -> [B, S].
    sizes = 1 + tf.reduce_sum(tf.cast(drawn[..., None] >= RUN_WEIGHTS[:-1], tf.int32), axis=2)
    return _take_runs(_random_order(starts, seeds), ends, sizes, budget)


def _find_words(candidates: tf.Tensor, continues: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the number of each position's word, from 0 in every sequence, int32 [B, S].

    And whether a word starts at a position, bool [B, S].
    """
    # A "##" piece after a special token begins a word of its own.
    continues &= tf.pad(candidates, [[0, 0], [1, 0]])[:, :-1]
    starts = candidates & ~continues  # [B, S]
    return tf.maximum(tf.cumsum(tf.cast(starts, tf.int32), axis=1) - 1, 0), starts


def _random_order(exists: tf.Tensor, seeds: tf.Tensor) -> tf.Tensor:
    """Returns positions int32 [B, S]: those where `exists` in random order, then the others."""
    length = tf.cast(tf.shape(exists)[1], tf.int64)
    keys = tf.where(exists, random_keys(seeds, tf.range(length)), -1)  # [B, S], -1 sorts last
    return tf.argsort(keys, direction="DESCENDING", stable=True)


def _count_per_word(words: tf.Tensor, candidates: tf.Tensor) -> tf.Tensor:
    """Returns the number of pieces of each word, int32 [B, S]; 0 behind the last word."""
    batch, length = tf.unstack(tf.shape(words))
    # Numbers that no two sequences share: 0..S-1, S..2S-1, ... [B, S]
    flat = words + tf.range(batch)[:, None] * length
    # [B * S]
    counts = tf.math.unsorted_segment_sum(tf.cast(candidates, tf.int32), flat, batch * length)
    return tf.reshape(counts, [batch, length])


def _take_in_order(sizes: tf.Tensor, budget: tf.Tensor) -> tf.Tensor:
    """Takes words from left to right unless one is larger than what is left of the budget.

    Each round takes the words up to the first that does not fit into what is left; it never will,
    because less and less is left. One to three rounds do for text.

    Args:
        sizes: int32 [B, S], 0 for no word.
        budget: int32 [B].

    Returns:
        bool [B, S].
    """

    def fits(taken: tf.Tensor) -> tf.Tensor:
        used = tf.reduce_sum(tf.where(taken, sizes, 0), axis=1)
        return (sizes > 0) & ~taken & (sizes <= (budget - used)[:, None])

    def take(taken: tf.Tensor, possible: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        used = tf.reduce_sum(tf.where(taken, sizes, 0), axis=1)  # [B]
        total = tf.cumsum(tf.where(possible, sizes, 0), axis=1)  # [B, S]
        taken |= possible & (total <= (budget - used)[:, None])
        return taken, fits(taken)

    nothing = tf.zeros_like(sizes, tf.bool)
    taken, _ = tf.while_loop(
        lambda _, possible: tf.reduce_any(possible), take, (nothing, fits(nothing))
    )
    return taken


def _ends_of_runs(words: tf.Tensor, starts: tf.Tensor, candidates: tf.Tensor) -> tf.Tensor:
    """Returns where the runs of one, two and three words from each position on end.

    Args:
        words: int32 [B, S], the number of each position's word.
        starts: bool [B, S], whether a word starts there.
        candidates: bool [B, S], whether a piece may be chosen.

    Returns:
        int32 [B, S, 3], 0 where there is no such run.
    """
    # [B, S], of the word at each position
    sizes = tf.gather(_count_per_word(words, candidates), words, batch_dims=1)
    # [B, S], behind the last piece of a word
    one = tf.where(starts, tf.range(tf.shape(words)[1]) + sizes, 0)
    # A run may end behind the last position, where no word starts.
    one = tf.pad(one, [[0, 0], [0, 1]])  # [B, S + 1]
    runs = [one]
    for _ in RUN_WEIGHTS[1:]:
        # One word more: the word that starts where the run so far ends.
        runs.append(tf.where(runs[-1] > 0, tf.gather(one, runs[-1], batch_dims=1), 0))
    return tf.stack(runs, axis=2)[:, :-1]


def _take_runs(order: tf.Tensor, ends: tf.Tensor, sizes: tf.Tensor, budget: tf.Tensor) -> tf.Tensor:
    """Takes runs one after the other, for all sequences at once.

    Args:
        order: int32 [B, S], positions in the order in which runs are tried.
        ends: int32 [B, S, 3], where runs of one to three words end, 0 for none.
        sizes: int32 [B, S], how many words the run from a position on is to have.
        budget: int32 [B], how many pieces may be taken.

    Returns:
        bool [B, S], the pieces that are taken.
    """
    positions = tf.range(tf.shape(order)[1])  # [S]
    words = tf.range(1, len(RUN_WEIGHTS) + 1)  # [3]: 1 2 3

    def take(rank: tf.Tensor, taken: tf.Tensor, left: tf.Tensor, _: tf.Tensor) -> tuple:
        start = order[:, rank]  # [B]
        end = tf.gather(ends, start, batch_dims=1)  # [B, 3]
        wanted = tf.gather(sizes, start, batch_dims=1)[:, None]  # [B, 1]
        fits = (end > 0) & (words <= wanted) & (end - start[:, None] <= left[:, None])  # [B, 3]
        end = tf.reduce_max(tf.where(fits, end, 0), axis=1)  # of the longest that fits
        run = (positions >= start[:, None]) & (positions < end[:, None])  # [B, S]
        run &= ~tf.reduce_any(run & taken, axis=1, keepdims=True)
        left -= tf.math.count_nonzero(run, axis=1, dtype=tf.int32)  # [B]
        # On while any sequence has budget left and a run to try.
        following = tf.minimum(rank + 1, positions[-1])
        more = (rank < positions[-1]) & tf.reduce_any(
            (left > 0) & (tf.gather(ends[..., 0], order[:, following], batch_dims=1) > 0)
        )
        return following, taken | run, left, more

    nothing = tf.zeros_like(order, tf.bool)
    state = (tf.constant(0), nothing, budget, tf.reduce_any(ends > 0))
    return tf.while_loop(lambda *state: state[3], take, state)[1]
