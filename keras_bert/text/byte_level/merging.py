"""Words to pieces: byte pair encoding of all words at once.

A word begins as its bytes. The pair of neighbours that stands first in the list of merges becomes
one piece, again and again, until no pair is in the list (Sennrich et al. 2016, arXiv:1508.07909):

    l o w e r    merges  l o, e r, lo w      lo w e r -> lo w er -> low er

Every round of the loop does one merge in each word. Words that are a piece of the vocabulary are
looked up as a whole instead, which in text is nearly all of them; the others are merged once,
however often they occur. A word is as long as its run of letters: the rounds that a batch takes are
the merges of its longest word, and a word that is done costs nothing.

Shapes: W words, B bytes or pieces of the words that are merged, M merges, V pieces.
"""

from collections.abc import Collection, Sequence

import numpy as np
import tensorflow as tf

from keras_bert.text.byte_level.byte_alphabet import BYTE_CHARACTERS, token_bytes

_NO_MERGE = np.iinfo(np.int32).max
# Fingerprints of words are below it.
_FINGERPRINTS = 2**63 - 1


class PairMerger(tf.Module):
    """Turns words into the ids of pieces.

    Args:
        tokens: the pieces in the order of their ids, spelled in the byte alphabet.
        merges: pairs of pieces in the order in which they are merged; both as `ByteLevelBpeFiles`
            has checked them.
        whole: pieces that are left whole where they are a word, also where no merges make them.
    """

    def __init__(
        self,
        tokens: Sequence[str],
        merges: Sequence[tuple[str, str]],
        whole: Collection[str] = (),
    ):
        super().__init__(name="pair_merger")
        ids = {token: index for index, token in enumerate(tokens)}
        parts = np.array([(ids[one], ids[two]) for one, two in merges], np.int64)  # [M, 2]
        merged = np.array([ids[one + two] for one, two in merges], np.int64)  # [M]
        # The last of equal pairs counts, as in a dictionary that is filled line by line.
        keys = parts[:, 0] * len(tokens) + parts[:, 1]
        order = np.lexsort([np.arange(len(keys)), keys])
        last = np.append(keys[order][1:] != keys[order][:-1], True)[: len(keys)]
        order = order[last]
        # Where a new piece takes part in an earlier merge, others of its kind have to wait.
        earliest = np.full(len(tokens), _NO_MERGE, np.int64)
        np.minimum.at(earliest, parts[order].reshape(-1), np.repeat(order, 2))
        waits = earliest[merged] <= np.arange(len(merged))
        self._any_waits = bool(waits[order].any())
        self._size = len(tokens)
        strings = [token_bytes(token) or b"" for token in tokens]
        with tf.init_scope():
            self._keys = tf.constant(keys[order], tf.int64)  # [M], ascending
            self._ranks = tf.constant(order, tf.int32)
            self._merged = tf.constant(merged, tf.int32)
            self._waits = tf.constant(waits)
            self._bytes = tf.constant([ids[c] for c in BYTE_CHARACTERS], tf.int32)  # [256]
            self._strings = tf.constant(strings)  # [V]
            self._lengths = tf.constant([len(string) for string in strings], tf.int64)
        self._known_words(np.array([ids[token] for token in whole], np.int32))

    def _known_words(self, whole: np.ndarray) -> None:
        """Notes which pieces come out as themselves: words that are one are looked up."""
        with tf.init_scope():
            if len(whole):
                known = tf.constant(whole)
            else:
                pieces = self._merge(self._strings)  # [V, pieces]; eagerly, which is sooner done
                alone = tf.equal(pieces.row_lengths(), 1)
                first = tf.gather(pieces.values, tf.boolean_mask(pieces.row_starts(), alone))
                known = tf.boolean_mask(tf.range(self._size), alone)
                known = tf.boolean_mask(known, tf.equal(first, known))
            fingerprints = _fingerprints(tf.gather(self._strings, known)).numpy()
            order = np.argsort(fingerprints)
            self._fingerprints = tf.constant(fingerprints[order])
            self._known = tf.gather(known, order)

    def __call__(self, words: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids of the pieces of each word, string [W] -> int32 [W, pieces]."""
        # 1. Look words up: a fingerprint finds a candidate, which must be the word.
        place = tf.searchsorted(self._fingerprints, _fingerprints(words))
        whole = tf.gather(self._known, tf.minimum(place, tf.size(self._known) - 1))  # [W]
        found = tf.equal(tf.gather(self._strings, whole), words)
        # 2. Merge the others, each once.
        others, index = tf.unique(tf.boolean_mask(words, ~found))
        pieces = self._merge(others)  # [others, pieces]
        # 3. Put both in order: words that were looked up behind the ones that were merged.
        looked_up = tf.RaggedTensor.from_tensor(tf.boolean_mask(whole, found)[:, None])
        both = tf.concat([pieces, looked_up], axis=0)
        rank = tf.cumsum(tf.cast(found, tf.int32)) - 1 + tf.size(others)
        # [W]; of words that are merged, their number among the others
        places = tf.where(~found)
        rank = tf.tensor_scatter_nd_update(rank, places, index)
        return tf.gather(both, rank)

    def lengths(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns how many bytes pieces have, int64; 0 for special tokens."""
        return tf.gather(self._lengths, ids)

    def _merge(self, words: tf.Tensor) -> tf.RaggedTensor:
        """Merges the bytes of words, string [W] -> int32 [W, pieces]."""
        # Latin-1 has a code point for each byte.
        decoded = tf.strings.unicode_decode(words, "ISO-8859-1")  # [W, bytes]
        pieces = tf.gather(self._bytes, decoded.values)  # [B]
        rows = decoded.value_rowids()
        place = tf.range(tf.size(pieces))
        result = -tf.ones_like(pieces)  # [B], -1 for what went into another piece

        def unfinished(_: tf.Tensor, pieces: tf.Tensor, *others: tf.Tensor) -> tf.Tensor:
            return tf.size(pieces) > 0

        def merge_once(
            result: tf.Tensor, pieces: tf.Tensor, rows: tf.Tensor, place: tf.Tensor
        ) -> tuple[tf.Tensor, ...]:
            ranks = self._pair_ranks(pieces, rows)  # [B], of each piece with the next one
            # The number of each word among those that are left, 0 0 0 1 1: segments for the minimum
            changes = tf.cast(tf.not_equal(rows[1:], rows[:-1]), tf.int32)
            word = tf.concat([[0], tf.cumsum(changes)], axis=0)
            best = tf.gather(tf.math.segment_min(ranks, word), word)  # [B]
            # 1. Words without a pair to merge are done and leave.
            left = best < _NO_MERGE
            result = tf.tensor_scatter_nd_update(
                result, tf.boolean_mask(place, ~left)[:, None], tf.boolean_mask(pieces, ~left)
            )
            pieces, rows, place, ranks, best, word = (
                tf.boolean_mask(part, left) for part in (pieces, rows, place, ranks, best, word)
            )
            # 2. The best pair of each word, all of it that does not overlap: a a a -> aa a.
            chosen = tf.equal(ranks, best)
            index = tf.range(tf.size(pieces))
            begins_run = chosen & ~_shifted(chosen)
            # [B]: the run of chosen pairs that a pair is in, and where that begins
            run = tf.maximum(tf.cumsum(tf.cast(begins_run, tf.int32)) - 1, 0)
            offset = index - tf.gather(tf.pad(tf.boolean_mask(index, begins_run), [[0, 1]]), run)
            chosen &= tf.equal(offset % 2, 0)
            if self._any_waits:
                chosen &= self._may_merge(chosen, best, word, index)
            # 3. The first of the two becomes the new piece, the second one leaves.
            new = tf.gather(self._merged, tf.where(chosen, ranks, 0))
            pieces = tf.where(chosen, new, pieces)
            kept = ~_shifted(chosen)
            return (
                result,
                tf.boolean_mask(pieces, kept),
                tf.boolean_mask(rows, kept),
                tf.boolean_mask(place, kept),
            )

        vector = tf.TensorShape([None])
        result, *_ = tf.while_loop(
            unfinished,
            merge_once,
            [result, pieces, rows, place],
            shape_invariants=[vector] * 4,
        )
        ids = decoded.with_values(result)
        return tf.ragged.boolean_mask(ids, ids >= 0)

    def _pair_ranks(self, pieces: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        """Returns the line of the merge of each piece with the next of its word, int32 [B]."""
        ids = tf.cast(pieces, tf.int64)
        keys = ids[:-1] * self._size + ids[1:]
        place = tf.minimum(tf.searchsorted(self._keys, keys), tf.size(self._keys) - 1)
        known = tf.equal(tf.gather(self._keys, place), keys) & tf.equal(rows[1:], rows[:-1])
        ranks = tf.where(known, tf.gather(self._ranks, place), _NO_MERGE)
        return tf.pad(ranks, [[0, 1]], constant_values=_NO_MERGE)

    def _may_merge(
        self, chosen: tf.Tensor, best: tf.Tensor, word: tf.Tensor, index: tf.Tensor
    ) -> tf.Tensor:
        """Leaves the first pair of a word alone where its piece may be merged before the others."""
        least = tf.math.segment_min(tf.where(chosen, index, _NO_MERGE), word)
        is_first = tf.equal(tf.gather(least, word), index)
        return is_first | ~tf.gather(self._waits, best)


def _shifted(values: tf.Tensor) -> tf.Tensor:
    """Returns what stands before each position, False before the first."""
    return tf.concat([[False], values], axis=0)[: tf.size(values)]


def _fingerprints(words: tf.Tensor) -> tf.Tensor:
    return tf.strings.to_hash_bucket_fast(words, _FINGERPRINTS)
