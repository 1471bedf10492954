"""Long sequences in windows that overlap, in a graph: cut, and which shows a position best.

Positions 0 to 4 in two windows of three, with what is to the left and right of each entry:

    windows      0 0 0 1 1 1
    positions    0 1 2 2 3 4
    context      0 1 0 0 1 0        the smaller side
    shown best   1 1 1 0 1 1        position 2 is a tie, which the first window wins

Shapes: N sequences, W windows of all of them, E entries of all windows, P positions.
"""

from typing import NamedTuple

import tensorflow as tf


class Cuts(NamedTuple):
    """Windows of sequences, those of a sequence one after the other; int64 [W] each.

    Attributes:
        rows: the sequence.
        offsets: the first position in the window, counted in its sequence.
        lengths: positions in the window.
    """

    rows: tf.Tensor
    offsets: tf.Tensor
    lengths: tf.Tensor


def cut(lengths: tf.Tensor, room: tf.Tensor, stride: tf.Tensor, most: int | None = None) -> Cuts:
    """Cuts sequences into windows; an empty one has one empty window.

    Args:
        lengths: int64 [N], positions of each sequence.
        room: int64 [N], the most positions of a window.
        stride: int64 [N], by how many positions the next window begins later; at most the room.
        most: windows of a sequence; what lies behind is left out. None sets no limit.
    """
    # 10 positions, room for 6, stride 3: windows at 0, 3 and 6 of 6, 6 and 4 positions.
    counts = 1 - -tf.maximum(lengths - room, 0) // stride  # [N]: 1 + ceil(excess / stride)
    if most is not None:
        counts = tf.minimum(counts, most)
    index = tf.ragged.range(counts).with_row_splits_dtype(tf.int64)  # [N, windows]
    rows = index.value_rowids()  # [W]
    offsets = index.values * tf.gather(stride, rows)  # [W]
    sizes = tf.minimum(tf.gather(room, rows), tf.gather(lengths, rows) - offsets)  # [W]
    return Cuts(rows, offsets, sizes)


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
