"""Spans of words: which window of a long text says what of them, and which of them stay.

A text that does not fit into a row is read in windows that overlap by the widest entity at least.
A span that lies in several of them counts in the one that shows most words around it, on the side
with fewer; among equals in the first. Of the spans that are above the threshold the most probable
stays, then the next one that does not stand against it, and so on (greedy decoding):

    flat                overlapping spans stand against each other
    nested              spans that overlap, but for those that lie inside another
    several labels      the same span may have more than one; else the most probable

Shapes: N texts, D words of all texts, R windows of all texts, W words of the window that has most,
K words of the widest span, F spans of all texts, C spans of the text that has most.
"""

import tensorflow as tf

from keras_bert.signatures.windows import WordWindows, has_most_context


def counting_spans(windows: WordWindows, max_width: int) -> tf.Tensor:
    """Tells which spans of each window count there, bool [R, W, K], by first word and width.

    Args:
        windows: of all texts, or all windows of some texts.
        max_width: K.
    """
    sizes = windows.last - windows.first  # [R]
    longest = tf.reduce_max(tf.concat([sizes, [0]], axis=0))  # W
    word = tf.range(longest)[None, :, None]
    end = word + tf.range(max_width, dtype=tf.int64)  # [1, W, K], the last word of each span
    is_span = end < sizes[:, None, None]  # [R, W, K]
    place = tf.where(is_span)  # [E, 3]
    window, start, width = tf.unstack(place, axis=1)
    size = tf.gather(sizes, window)
    context = tf.minimum(start, size - 1 - start - width)
    span = (tf.gather(windows.first, window) + start) * max_width + width
    # Numbered without gaps, as the windows may be those of some texts.
    distinct, number = tf.unique(span, out_idx=tf.int64)
    counts = has_most_context(context, window, number, tf.size(distinct, tf.int64))
    return tf.scatter_nd(place, tf.cast(counts, tf.int32), tf.shape(is_span, tf.int64)) > 0


def selected(
    texts: tf.Tensor,
    starts: tf.Tensor,
    ends: tf.Tensor,
    scores: tf.Tensor,
    flat: tf.Tensor | bool,
    multi_label: tf.Tensor | bool,
) -> tf.Tensor:
    """Returns the spans that stay, as indices into those given, int64 [kept].

    They stand by text and first word; those of one first word by their probability.

    Args:
        texts: int64 [F], the text of each span.
        starts: int64 [F], first word.
        ends: int64 [F], last word.
        scores: float32 [F]. Among equals the one that stands first here is taken.
        flat: whether no two spans of a text overlap; else one may lie inside another.
        multi_label: whether a span may have several labels.
    """
    flat, multi_label = tf.convert_to_tensor(flat), tf.convert_to_tensor(multi_label)
    # By text, then from the most probable down.
    order = tf.argsort(-scores, stable=True)
    order = tf.gather(order, tf.argsort(tf.gather(texts, order), stable=True))
    distinct, row = tf.unique(tf.gather(texts, order), out_idx=tf.int64)

    def by_text(values: tf.Tensor) -> tf.Tensor:
        ragged = tf.RaggedTensor.from_value_rowids(
            tf.gather(values, order), row, tf.size(distinct, tf.int64), validate=False
        )
        return ragged.to_tensor(-1)  # [texts, C]

    first, last = by_text(starts), by_text(ends)
    number = tf.shape(first)[1]

    def stands_against(at: tf.Tensor) -> tf.Tensor:
        """Returns bool [texts, C]: which spans do not go with the one at a place."""
        own_first, own_last = first[:, at, None], last[:, at, None]
        same = tf.equal(first, own_first) & tf.equal(last, own_last)
        overlap = (first <= own_last) & (last >= own_first)
        inside = (first >= own_first) & (last <= own_last)
        around = (first <= own_first) & (last >= own_last)
        crossing = overlap & (flat | ~(inside | around))
        return tf.where(same, ~multi_label, crossing)

    def step(at: tf.Tensor, kept: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        taken = (first[:, at] >= 0) & ~tf.reduce_any(kept & stands_against(at), axis=1)  # [texts]
        here = tf.equal(tf.range(number), at)  # [C]
        return at + 1, kept | (taken[:, None] & here)

    _, kept = tf.while_loop(
        lambda at, _: at < number, step, [tf.constant(0), tf.zeros_like(first, tf.bool)]
    )
    flags = tf.RaggedTensor.from_tensor(
        kept, tf.math.bincount(tf.cast(row, tf.int32), dtype=tf.int64)
    ).values
    found = tf.boolean_mask(order, flags)
    # In the order of the text; the widest row of a text is no matter: a stable sort for each key.
    found = tf.gather(found, tf.argsort(tf.gather(starts, found), stable=True))
    found = tf.gather(found, tf.argsort(tf.gather(texts, found), stable=True))
    return tf.cast(found, tf.int64)
