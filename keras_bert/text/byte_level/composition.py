"""NFC inside the graph: letters and the marks behind them become the characters that say both.

    e ´ a ` . x     groups: e ´   a ` .   x     become  é   ạ `   x

A group begins with a character that never joins the one before it, and is worked on by itself.
Only groups that hold a character which NFC may change are touched: of Latin-1 none is, of most
scripts few. As the Unicode Standard has it (section 3.11), their characters are decomposed, marks
are put in the order of their combining classes, and pairs are composed from the left.

Shapes: K characters of all texts, T touched groups, D characters of them, later E.
"""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from keras_bert.text.byte_level.canonical_forms import (
    CODE_POINT_BITS,
    FIRST_UNSTABLE,
    canonical_forms,
)
from keras_bert.text.spelled_tokens import FIRST_SPECIAL, Characters, without_spelled_tokens


class _Touched(NamedTuple):
    """Characters of touched groups: code points [E], mark classes [E], numbers of groups [E]."""

    code_points: tf.Tensor
    classes: tf.Tensor
    groups: tf.Tensor


class Composer(tf.Module):
    """Brings texts into NFC, by the Unicode of the `tokenizers` library."""

    def __init__(self) -> None:
        super().__init__(name="composer")
        forms = canonical_forms()
        with tf.init_scope():  # all traces share them
            self._unstable = tf.constant(forms.unstable)
            self._decomposed = tf.constant(forms.decomposed)
            self._lengths = tf.constant(forms.lengths)
            self._starts = tf.cumsum(self._lengths, exclusive=True)
            self._sequences = tf.constant(forms.sequences)
            self._marks = tf.constant(forms.marks)
            self._mark_classes = tf.constant(forms.mark_classes)
            self._pairs = tf.constant(forms.pairs)
            self._composites = tf.constant(forms.composites)

    def __call__(self, characters: Characters) -> Characters:
        """Returns texts in NFC; a group that changes stands for all characters that it was.

        Args:
            characters: [K] each; what is before a special token and what is behind it are composed
                by themselves.
        """
        code_points = characters.code_points
        place = tf.where((code_points >= FIRST_UNSTABLE) & (code_points < FIRST_SPECIAL))
        _, is_unstable = _find(self._unstable, tf.gather_nd(code_points, place))
        place = tf.boolean_mask(place, is_unstable)
        return tf.cond(
            tf.size(place) > 0, lambda: self._composed(characters, place), lambda: characters
        )

    def _composed(self, characters: Characters, place: tf.Tensor) -> Characters:
        """Composes the groups around unstable characters, which stand at `place` [unstable, 1]."""
        code_points, rows, first, end = characters
        unstable = tf.scatter_nd(place, tf.ones_like(place[:, 0]), tf.shape(rows, tf.int64))  # [K]
        is_special = code_points >= FIRST_SPECIAL
        begins = tf.equal(unstable, 0) | tf.not_equal(rows, _before(rows, -1))
        begins |= _before(is_special, True)
        group = tf.cumsum(tf.cast(begins, tf.int64)) - 1  # [K]
        touched = tf.math.segment_max(unstable, group)  # [groups]
        number = tf.gather(tf.cumsum(touched, exclusive=True), group)  # [K], in touched groups
        is_touched = tf.equal(tf.gather(touched, group), 1)
        # 1. Compose the touched groups.
        old = tf.boolean_mask(code_points, is_touched)  # [D]
        numbers = tf.boolean_mask(number, is_touched)
        new = self._compose(self._reordered(self._decompose(old, numbers)))
        # 2. Which of them have changed? [T]
        size = tf.reduce_sum(touched)
        before, after = (
            tf.strings.unicode_encode(tf.RaggedTensor.from_value_rowids(*part, size), "UTF-8")
            for part in ((old, numbers), (new.code_points, new.groups))
        )
        changed = tf.not_equal(before, after)
        counts = tf.math.segment_sum(tf.ones_like(new.groups), new.groups)  # [T] new characters
        # 3. Put them in the place of the old ones: all at the first character of their group.
        number = tf.minimum(number, size - 1)
        is_changed = is_touched & tf.gather(changed, number)  # [K]
        count = tf.where(begins, tf.gather(counts, number), 0)
        source = tf.repeat(tf.range(tf.size(group)), tf.where(is_changed, count, 1))
        stop = tf.gather(tf.math.segment_max(end, group), group)
        end = tf.where(is_changed, stop, end)
        code_points, rows, first, end = (
            tf.gather(part, source) for part in (code_points, rows, first, end)
        )
        places = tf.where(tf.gather(is_changed, source))
        values = tf.boolean_mask(new.code_points, tf.gather(changed, new.groups))
        code_points = tf.tensor_scatter_nd_update(code_points, places, values)
        return Characters(code_points, rows, first, end)

    def _decompose(self, code_points: tf.Tensor, groups: tf.Tensor) -> _Touched:
        """Takes characters apart, [D] -> [E]."""
        index, found = _find(self._decomposed, code_points)  # [D]
        lengths = tf.where(found, tf.gather(self._lengths, index), 1)
        source = tf.repeat(tf.range(tf.size(code_points)), lengths)  # [E]
        # Which part of its decomposition a character is: 0, 1, ...
        part = tf.range(tf.size(source, tf.int64))
        part -= tf.gather(tf.cumsum(lengths, exclusive=True), source)
        start = tf.gather(tf.gather(self._starts, index), source)
        sequences = tf.gather(self._sequences, tf.where(tf.gather(found, source), start + part, 0))
        parts = tf.where(tf.gather(found, source), sequences, tf.gather(code_points, source))
        index, is_mark = _find(self._marks, parts)
        classes = tf.where(is_mark, tf.gather(self._mark_classes, index), 0)
        return _Touched(parts, classes, tf.gather(groups, source))

    def _reordered(self, touched: _Touched) -> _Touched:
        """Sorts runs of marks by their class."""
        is_first = tf.not_equal(touched.groups, _before(touched.groups, -1))
        runs = tf.cumsum(tf.cast(tf.equal(touched.classes, 0) | is_first, tf.int64))  # [E]
        # What begins a run has class 0, and stays in front.
        keys = runs * tf.size(self._marks, tf.int64) + tf.cast(touched.classes, tf.int64)
        order = tf.argsort(keys, stable=True)
        return _Touched(*(tf.gather(part, order) for part in touched))

    def _compose(self, touched: _Touched) -> _Touched:
        """Joins pairs, the leftmost of each group in every round, until there is none."""

        def compose_once(_: tf.Tensor, *parts: tf.Tensor) -> tuple[tf.Tensor, ...]:
            code_points, classes, groups = parts
            index = tf.range(tf.size(code_points))
            is_starter = tf.equal(classes, 0)
            # The last character before each that is no mark, -1 where there is none.
            starters = tf.concat([[-1], tf.cast(tf.where(is_starter)[:, 0], tf.int32)], axis=0)
            base = tf.gather(starters, tf.cumsum(tf.cast(is_starter, tf.int32), exclusive=True))
            is_next = tf.equal(base, index - 1)
            base = tf.maximum(base, 0)
            # Nothing of the same class, and to another letter nothing at all, may stand between.
            is_free = is_next | (~is_starter & (classes > _before(classes, 0)))
            is_free &= (index > base) & tf.equal(tf.gather(groups, base), groups)
            firsts = tf.cast(tf.gather(code_points, base), tf.int64)
            keys = tf.bitwise.left_shift(firsts, CODE_POINT_BITS) | tf.cast(code_points, tf.int64)
            pair, is_pair = _find(self._pairs, keys)
            joins = is_free & is_pair
            leftmost = tf.math.segment_min(tf.where(joins, index, index.dtype.max), groups)
            joins &= tf.equal(tf.gather(leftmost, groups), index)
            code_points = tf.tensor_scatter_nd_update(
                code_points,
                tf.boolean_mask(base, joins)[:, None],
                tf.gather(self._composites, tf.boolean_mask(pair, joins)),
            )
            kept = (tf.boolean_mask(part, ~joins) for part in (code_points, classes, groups))
            return tf.reduce_any(joins), *kept

        vector = tf.TensorShape([None])
        _, *parts = tf.while_loop(
            lambda goes_on, *_: goes_on,
            compose_once,
            [True, *touched],
            shape_invariants=[tf.TensorShape([]), vector, vector, vector],
        )
        return _Touched(*parts)


def composed(texts: Sequence[str]) -> list[str]:
    """Returns texts in NFC."""
    with tf.init_scope():  # eagerly
        decoded = tf.strings.unicode_decode(tf.constant(list(texts), tf.string), "UTF-8")
        code_points, rows, _, _ = Composer()(without_spelled_tokens(decoded))
    forms = [""] * len(texts)
    for row, code_point in zip(rows.numpy(), code_points.numpy(), strict=True):
        forms[row] += chr(code_point)
    return forms


def _find(ordered: tf.Tensor, values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns where values stand in an ascending list, and whether they do: [n] -> [n], [n]."""
    index = tf.minimum(tf.searchsorted(ordered, values), tf.size(ordered) - 1)
    return index, tf.equal(tf.gather(ordered, index), values)


def _before(values: tf.Tensor, default: int | bool) -> tf.Tensor:
    """Returns what stands before each position: [K] -> [K]."""
    edge = tf.constant([default], values.dtype)
    return tf.concat([edge, values], axis=0)[: tf.size(values)]
