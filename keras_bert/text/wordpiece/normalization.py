"""From strings to the characters that words are made of, in TensorFlow ops.

A batch is worked on as one flat list of code points: nothing loops over strings. The tables come
from `unicode_table`; what they cannot say, because it depends on neighbouring characters, is
settled here for the batches in which it occurs: the final form of sigma and the order of marks.

Three code points that become nothing, two and one: packed values carry the counts 0, 2, 1; the
splits are 0 0 2 3 (where the characters of each begin and end), and T is 3.

Shapes: N texts, C code points of all of them, T normalized characters of all of them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from keras_bert.text.wordpiece import unicode_table as table
from keras_bert.text.wordpiece.special_tokens import mark_special_tokens


class NormalizedText(NamedTuple):
    """The normalized characters of a batch.

    Attributes:
        packed: int32 [T], code points with the flags of `unicode_table`.
        row_splits: int64 [N + 1], where the characters of each text begin and end. Every text
            ends with one white-space character that it did not have.
        sources: where each character comes from, or None when it was not asked for.
    """

    packed: tf.Tensor
    row_splits: tf.Tensor
    sources: "Sources | None"


class Sources(NamedTuple):
    """Positions of normalized characters in the original texts.

    Attributes:
        first: int64 [T], position of the first code point a character comes from, counted over
            the batch.
        end: int64 [T], position after the last one; combining marks that were stripped from a
            character belong to it.
        row_starts: int64 [N], position of the first code point of each text.
    """

    first: tf.Tensor
    end: tf.Tensor
    row_starts: tf.Tensor


class Normalizer(tf.Module):
    """Normalizes text exactly as tokenization.py of google-research/bert does.

    Args:
        tables: what becomes of each code point.
        special_tokens: strings that are not taken apart but become the single characters
            `unicode_table.FIRST_SPECIAL` + their index in this list.
    """

    def __init__(self, tables: table.NormalizationTables, special_tokens: Sequence[str] = ()):
        super().__init__(name="normalizer")
        self._lowercase = tables.lowercase
        self._strip_accents = tables.strip_accents
        # Created outside any graph that may be under construction: all traces share them.
        with tf.init_scope():
            self._offsets = _PagedLookup(tables.offsets)
            self._contexts = _PagedLookup(tables.contexts)
            self._sequences = tf.constant(tables.sequences)
        self._special_tokens = tuple(special_tokens)

    def __call__(self, texts: tf.Tensor, with_sources: bool = False) -> NormalizedText:
        """Normalizes a batch of texts.

        Args:
            texts: string [N], UTF-8. Bytes that are not UTF-8 are removed.
            with_sources: whether to tell where each character comes from.
        """
        # A final line break stands between the texts, so that no word, no sigma and no run of
        # marks reaches over the end of a text.
        decoded = tf.strings.unicode_decode(  # [N, code points]
            tf.strings.join([texts, "\n"]), "UTF-8", errors="replace"
        )
        code_points = decoded.flat_values  # [C]
        special_lengths = None
        if self._special_tokens:
            code_points, special_lengths = mark_special_tokens(code_points, self._special_tokens)
        packed = code_points + self._offsets(code_points)  # [C]
        characters, splits = self._expand(packed)  # [T], [C + 1]
        sources = None
        if with_sources:
            rows = decoded.row_splits
            first = tf.ragged.row_splits_to_segment_ids(splits)  # [T]: the code point it comes from
            # [C]: no accent that is stripped
            standing = tf.equal(packed & table.IS_STRIPPED_MARK, 0)
            positions = tf.where(standing)[:, 0]  # [standing]
            # The next code point that stands by itself; the last one is a text's final line break.
            following = tf.pad(positions, [[0, 1]])
            # [C]: e, accent, f -> 2 2 3
            ends = tf.gather(following, tf.cumsum(tf.cast(standing, tf.int64)))
            if special_lengths is not None:
                ends += special_lengths
            sources = Sources(first, tf.gather(ends, first), rows[:-1])
        if self._lowercase or self._strip_accents:
            characters, sources = self._resolve_contexts(code_points, characters, splits, sources)
        return NormalizedText(characters, tf.gather(splits, decoded.row_splits), sources)

    def _expand(self, packed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Drops the code points that become nothing and unfolds those that become several.

        Args:
            packed: int32 [C].

        Returns:
            Packed values of the resulting characters, int32 [T]; and where the characters of
            each code point begin and end, int64 [C + 1].
        """
        counts = packed & table.COUNT_BITS  # [C]
        all_single = tf.reduce_all(tf.equal(counts, table.COUNT_ONE))

        def unfold():
            # An ordinary code point is its own range of one; a sequence is a range of indices,
            # which counts up in the low bits of the packed value.
            ranges = tf.ragged.range(
                packed, packed + counts // table.COUNT_ONE, row_splits_dtype=tf.int64
            )
            values = ranges.flat_values  # [T]
            is_sequence = tf.not_equal(values & table.IS_SEQUENCE, 0)
            # [T], 0 where it is not used
            index = tf.where(is_sequence, values & table.CODE_POINT_BITS, 0)
            characters = tf.where(is_sequence, tf.gather(self._sequences, index), values)
            return characters, ranges.row_splits

        def keep():
            return packed, tf.range(tf.size(packed, tf.int64) + 1)  # T = C

        return tf.cond(all_single, keep, unfold)

    def _resolve_contexts(
        self,
        code_points: tf.Tensor,
        characters: tf.Tensor,
        splits: tf.Tensor,
        sources: Sources | None,
    ) -> tuple[tf.Tensor, Sources | None]:
        """Settles what depends on neighbouring characters, in the batches that have such."""
        contextual = tf.reduce_any(tf.not_equal(characters & table.IS_CONTEXTUAL, 0))

        def resolve():
            contexts = self._contexts(code_points)  # [C]
            resolved, moved = characters, sources
            if self._lowercase:
                resolved = _finish_sigmas(code_points, contexts, resolved, splits)
            if self._strip_accents:
                resolved, moved = self._reorder_marks(contexts, resolved, splits, moved)
            return resolved, moved

        return tf.cond(contextual, resolve, lambda: (characters, sources))

    def _reorder_marks(
        self,
        contexts: tf.Tensor,
        characters: tf.Tensor,
        splits: tf.Tensor,
        sources: Sources | None,
    ) -> tuple[tf.Tensor, Sources | None]:
        """Sorts runs of the marks that are left by combining class (Unicode 14, section 3.11)."""
        # [C]: the number of the stretch
        stops = tf.cumsum(tf.cast(tf.not_equal(contexts & table.STOPS_REORDERING, 0), tf.int64))
        stops = tf.gather(stops, tf.ragged.row_splits_to_segment_ids(splits))  # [T]
        # The combining class of each character, shifted by COMBINING_SHIFT; 0 for letters: [T].
        own = self._contexts(characters & table.CODE_POINT_BITS) & table.COMBINING_BITS
        # [T - 1]: two marks of one run
        joined = (own[1:] > 0) & (own[:-1] > 0) & tf.equal(stops[1:], stops[:-1])
        # [T]: the number of the run
        runs = tf.concat([[0], tf.cumsum(tf.cast(~joined, tf.int64))], axis=0)
        # By run, and within it by class; all others are runs of one and stay where they are.
        keys = runs * (table.COMBINING_BITS + 1) + tf.cast(own, tf.int64)
        order = tf.argsort(keys, stable=True)  # [T]
        if sources is not None:
            # Where a run was reordered, each of its marks stands for the whole run.
            first = tf.math.segment_min(sources.first, runs)  # [runs]
            end = tf.math.segment_max(sources.end, runs)
            sources = sources._replace(first=tf.gather(first, runs), end=tf.gather(end, runs))
        return tf.gather(characters, order), sources


class _PagedLookup(tf.Module):
    """Looks code points up in a `PagedTable`."""

    def __init__(self, paged: table.PagedTable):
        super().__init__()
        self._pages = tf.constant(paged.pages)
        self._entries = tf.constant(paged.entries)

    def __call__(self, code_points: tf.Tensor) -> tf.Tensor:
        # 0x1F600 lies in page 0x1F6 at 0x00; a page begins at a multiple of 256, so | is +.
        within = code_points & ((1 << table.PAGE_BITS) - 1)
        starts = tf.gather(self._pages, tf.bitwise.right_shift(code_points, table.PAGE_BITS))
        return tf.gather(self._entries, starts | within)


def _finish_sigmas(
    code_points: tf.Tensor, contexts: tf.Tensor, characters: tf.Tensor, splits: tf.Tensor
) -> tf.Tensor:
    """Writes a capital sigma at the end of a word as final sigma, as str.lower does.

    It ends a word when the nearest character before it that is not case-ignorable is cased and
    the nearest one after it is not (Unicode 14, table 3-17, Final_Sigma).
    """
    case = contexts & table.CASE_BITS  # [C]
    solid = tf.not_equal(case, table.CASE_IGNORABLE)  # [C]: what counts as a neighbour
    solid_case = tf.boolean_mask(case, solid)  # [solid]
    positions = tf.where(tf.equal(code_points, table.CAPITAL_SIGMA))  # [sigmas, 1]
    # A sigma is solid itself: its rank among the solid ones finds its neighbours.
    rank = tf.gather_nd(tf.cumsum(tf.cast(solid, tf.int64), exclusive=True), positions)
    # One more in front: the neighbour before rank r is padded[r], the one after it padded[r + 2].
    padded = tf.pad(solid_case, [[1, 1]], constant_values=table.CASELESS)
    cased_before = tf.equal(tf.gather(padded, rank), table.CASED)
    cased_after = tf.equal(tf.gather(padded, rank + 2), table.CASED)
    final = tf.boolean_mask(positions, cased_before & ~cased_after)  # [final sigmas, 1]
    targets = tf.gather_nd(splits, final)[:, None]  # where they stand among the T
    final_sigmas = tf.fill(tf.shape(targets)[:1], table.FINAL_SIGMA | table.COUNT_ONE)
    return tf.tensor_scatter_nd_update(characters, targets, final_sigmas)
