"""Long sequences in windows that overlap, in a graph: which window shows a place best.

Shapes: W windows, E entries of all windows, P places.
"""

import tensorflow as tf


def spread(starts: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Lists the places of all windows one after the other.

    Args:
        starts: int64 [W], the first place of each window.
        lengths: int64 [W].

    Returns:
        Both int64 [E]: the window of each entry, and its place.
    """
    places = tf.ragged.range(starts, starts + lengths).with_row_splits_dtype(tf.int64)
    return places.value_rowids(), places.values


def has_most_context(
    context: tf.Tensor, windows: tf.Tensor, places: tf.Tensor, count: tf.Tensor
) -> tf.Tensor:
    """Tells which entries show their place with more context than all others, bool [E].

    Args:
        context: numbers [E]; among equals the first window wins.
        windows: int64 [E].
        places: int64 [E].
        count: P.
    """
    most = tf.gather(tf.math.unsorted_segment_max(context, places, count), places)
    candidates = tf.where(tf.equal(context, most), windows, tf.int64.max)
    first = tf.math.unsorted_segment_min(candidates, places, count)
    return tf.equal(tf.gather(first, places), windows)
