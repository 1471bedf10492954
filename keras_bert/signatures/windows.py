"""Long sequences in windows that overlap, in a graph: which window shows a position best.

Positions 0 to 4 in two windows of three, with what is to the left and right of each entry:

    windows      0 0 0 1 1 1
    positions    0 1 2 2 3 4
    context      0 1 0 0 1 0        the smaller side
    shown best   1 1 1 0 1 1        position 2 is a tie, which the first window wins

Shapes: W windows, E entries of all windows, P positions.
"""

import tensorflow as tf


def spread(starts: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Lists the positions of all windows one after the other.

    Args:
        starts: int64 [W], the first position of each window.
        lengths: int64 [W].

    Returns:
        Both int64 [E]: the window of each entry, and its position.
    """
    # Windows 0 1 2 and 2 3: windows 0 0 0 1 1, positions 0 1 2 2 3.
    positions = tf.ragged.range(starts, starts + lengths).with_row_splits_dtype(tf.int64)
    return positions.value_rowids(), positions.values


def has_most_context(
    context: tf.Tensor, windows: tf.Tensor, positions: tf.Tensor, count: tf.Tensor
) -> tf.Tensor:
    """Tells which entries show their position with more context than all others, bool [E].

    Args:
        context: numbers [E]; among equals the first window wins.
        windows: int64 [E].
        positions: int64 [E].
        count: number of positions, P.
    """
    # [E] -> [P] -> [E]: the most context that any window gives to the position of an entry.
    most = tf.gather(tf.math.unsorted_segment_max(context, positions, count), positions)
    # [E]; no window for the others
    candidates = tf.where(tf.equal(context, most), windows, tf.int64.max)
    first = tf.math.unsorted_segment_min(candidates, positions, count)  # [P]
    return tf.equal(tf.gather(first, positions), windows)
