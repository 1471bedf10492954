"""Long sequences in windows that overlap, in a graph: cut, and which shows a position best.

Positions 0 to 4 in two windows of three, with what is to the left and right of each entry:

    windows      0 0 0 1 1 1
    positions    0 1 2 2 3 4
    context      0 1 0 0 1 0        the smaller side
    shown best   1 1 1 0 1 1        position 2 is a tie, which the first window wins

Shapes: N sequences, D words of all texts, W windows of all of them, E entries of all windows, P
positions.
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


class WordWindows(NamedTuple):
    """Windows of whole words of texts, those of a text one after the other; int64 [W] each.

    Attributes:
        texts: the text.
        first: first word, counted over all texts.
        last: behind the last word.
    """

    texts: tf.Tensor
    first: tf.Tensor
    last: tf.Tensor


def word_windows(
    rows: tf.Tensor,
    edges: tf.Tensor,
    room: tf.Tensor,
    max_words: int | None = None,
    max_width: int = 1,
) -> WordWindows:
    """Cuts texts into windows of whole words, each beginning where half of the last is behind.

    Args:
        rows: int64 [D], the text of each word.
        edges: int64 [D + 1], pieces before each word; a word has at most the room of its text.
        room: int64 [N], pieces of a window of each text, 1 or more.
        max_words: the most words of a window; None sets no limit.
        max_width: as far as windows are that long, each span of so many words lies in one.
    """
    texts = tf.size(room, tf.int64)
    row_ends = tf.gather(tf.searchsorted(rows, tf.range(texts), "right", tf.int64), rows)  # [D]
    starts = tf.range(tf.size(rows, tf.int64))
    # Of the window that would begin at each word: its end, and where the next one begins.
    reach = tf.searchsorted(edges, edges[:-1] + tf.gather(room, rows), "right", tf.int64) - 1
    ends = tf.minimum(reach, row_ends)
    if max_words is not None:
        ends = tf.minimum(ends, starts + max_words)
    half = tf.searchsorted(2 * edges, edges[:-1] + tf.gather(edges, ends), out_type=tf.int64)
    following = tf.clip_by_value(tf.minimum(half, ends - (max_width - 1)), starts + 1, ends)
    # The first windows of all texts; then, in rounds, the next window of each text that has one.
    is_start = tf.concat([[True], tf.not_equal(rows[1:], rows[:-1])], axis=0)[: tf.size(rows)]
    found = tf.where(is_start)[:, 0]

    def more(at: tf.Tensor, _: tf.Tensor) -> tf.Tensor:
        return tf.size(at) > 0

    def step(at: tf.Tensor, all_starts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        unfinished = tf.gather(ends, at) < tf.gather(row_ends, at)
        at = tf.gather(following, tf.boolean_mask(at, unfinished))
        return at, tf.concat([all_starts, at], axis=0)

    any_length = tf.TensorShape([None])
    _, first = tf.while_loop(more, step, [found, found], shape_invariants=[any_length, any_length])
    first = tf.sort(first)
    return WordWindows(tf.gather(rows, first), first, tf.gather(ends, first))


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
