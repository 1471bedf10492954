"""From strings to the ids of byte-level pieces: the graphs that equal tokenizers share.

    strings [N] --WordSplitter--> words [W] --PairMerger--> pieces [W, pieces] --> [N, pieces]

Pieces tile the bytes of their words: counting bytes leads from a piece to the characters it is of.

Shapes: N texts, K characters of words, W words, all of all texts, V pieces.
"""

import numpy as np
import tensorflow as tf

from keras_bert.text.base_tokenizer import Pieces, shared, traced
from keras_bert.text.byte_level.byte_alphabet import token_bytes
from keras_bert.text.byte_level.composition import composed
from keras_bert.text.byte_level.files import ByteLevelBpeFiles
from keras_bert.text.byte_level.llama_words import llama_word_starts
from keras_bert.text.byte_level.merging import PairMerger
from keras_bert.text.byte_level.words import Words, WordSplitter
from keras_bert.text.spelled_tokens import FIRST_SPECIAL, SpelledToken, check_spellings

# A word that is one piece in every vocabulary, to hold the place of a special token.
_PLACEHOLDER = "!"


class ByteLevelGraph(tf.Module):
    """What a `ByteLevelBpeTokenizer` computes, traced once for all that are equal.

    Args:
        files: pieces, merges, and how texts are treated.

    Attributes:
        pieces: string [N] -> ids, int32 [N, pieces].
        pieces_with_offsets: string [N] -> ids, start, end, each int32 [N, pieces].
        strings: string [V], the bytes of each piece.

    Raises:
        ValueError: a special token cannot be found in texts, see `check_spellings`.
    """

    def __init__(self, files: ByteLevelBpeFiles):
        super().__init__(name="byte_level_graph")
        vocabulary = files.vocabulary
        self._add_prefix_space, keep_special_tokens = files.settings
        found = [t for t in files.added_tokens if keep_special_tokens or not t.special]
        as_is = [SpelledToken(t.content) for t in found if not t.normalized]
        if keep_special_tokens:
            mask = vocabulary.special_tokens.mask if files.mask_strips_left else None
            special = [SpelledToken(t, t == mask) for t in dict.fromkeys(vocabulary.special_tokens)]
            check_spellings(special)
            as_is = special + as_is
        after = [t.content for t in found if t.normalized]
        spellings = composed(after) if files.normalization else after
        self._splitter = WordSplitter(
            self._add_prefix_space,
            as_is,
            files.normalization is not None,
            [SpelledToken(text) for text in spellings],
            llama_word_starts if files.word_pattern == "llama3" else None,
        )
        found_tokens = [*(token.text for token in as_is), *after]
        # What is found in texts is spelled as it is.
        verbatim = {*vocabulary.special_tokens, *(token.content for token in files.added_tokens)}
        tokens = [None if t in verbatim else token_bytes(t) for t in vocabulary.tokens]
        whole = [t for t, own in zip(vocabulary.tokens, tokens, strict=True) if own]
        self._merger = PairMerger(
            vocabulary.tokens, files.merges, whole if files.ignore_merges else ()
        )
        # Spaces that offsets leave out: those at the beginning and at the end of a piece.
        leading = [len(t) - len(t.lstrip(b" ")) if t else 0 for t in tokens]
        trailing = [len(t) - len(t.rstrip(b" ")) if t else 0 for t in tokens]
        strings = [
            spelled.encode() if own is None else own
            for spelled, own in zip(vocabulary.tokens, tokens, strict=True)
        ]
        with tf.init_scope():
            self._found_ids = tf.constant(list(map(vocabulary.id_of, found_tokens)), tf.int32)
            self.strings = tf.constant(strings)  # [V]
            self._mask_id = vocabulary.mask_id
            self._mask_length = len(vocabulary.special_tokens.mask)
            self._spaces = tf.constant(np.array([leading, trailing], np.int64))  # [2, V]
        self.pieces = traced(self._pieces)
        self.pieces_with_offsets = traced(self._pieces_with_offsets)

    def _pieces_of(self, words: Words) -> tf.RaggedTensor:
        """Returns the ids of the pieces of each word, int32 [W, pieces]."""
        if not self._found_ids.shape[0]:
            return self._merger(words.texts)
        is_found = words.special >= 0
        pieces = self._merger(tf.where(is_found, _PLACEHOLDER, words.texts))
        # Each token that was found has held the place of one piece.
        places = tf.boolean_mask(pieces.row_starts(), is_found)[:, None]
        ids = tf.gather(self._found_ids, tf.boolean_mask(words.special, is_found))
        return pieces.with_values(tf.tensor_scatter_nd_update(pieces.values, places, ids))

    def _pieces(self, texts: tf.Tensor) -> tf.RaggedTensor:
        words = self._splitter(texts)
        return _per_text(words, self._pieces_of(words))

    def _pieces_with_offsets(self, texts: tf.Tensor) -> Pieces:
        words = self._splitter(texts)
        pieces = self._pieces_of(words)  # [W, pieces]
        is_found = tf.repeat(words.special >= 0, pieces.row_lengths())
        ids = _per_text(words, pieces)  # [N, pieces]
        code_points, _, first, end = words.characters
        # How many bytes each character has in UTF-8; a token that was found counts as one.
        sizes = tf.ones_like(first)  # [K]
        for smallest in (0x80, 0x800, 0x10000):
            sizes += tf.cast((code_points >= smallest) & (code_points < FIRST_SPECIAL), tf.int64)
        lengths = tf.where(is_found, tf.constant(1, tf.int64), self._merger.lengths(ids.values))
        ends = tf.cumsum(lengths)  # in bytes of all texts, those put in front included
        character = tf.repeat(tf.range(tf.size(sizes, tf.int64)), sizes)  # of each byte
        row_starts = tf.gather(words.row_starts, ids.value_rowids())
        starts = tf.gather(first, tf.gather(character, ends - lengths)) - row_starts
        stops = tf.gather(end, tf.gather(character, ends - 1)) - row_starts
        starts, stops = self._trimmed(ids.values, is_found, starts, stops)
        return (
            ids,
            ids.with_values(tf.cast(starts, tf.int32)),
            ids.with_values(tf.cast(stops, tf.int32)),
        )

    def _trimmed(
        self, ids: tf.Tensor, is_found: tf.Tensor, starts: tf.Tensor, stops: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Leaves out the white space at both ends of pieces."""
        leading, trailing = tf.unstack(tf.gather(self._spaces, ids, axis=1))
        # A mask is as long as it is spelled; what is before it was taken along.
        is_mask = is_found & tf.equal(ids, self._mask_id)
        leading = tf.where(is_mask, stops - starts - self._mask_length, leading)
        if self._add_prefix_space:
            # One space at the beginning of a text counts as put in front of it, and several as its
            # own: so the Rust tokenizer has it.
            is_put = tf.equal(starts, 0) & tf.equal(leading, 1)
            leading = tf.where(is_put, tf.constant(0, tf.int64), leading)
        starts = tf.minimum(starts + leading, stops)
        return starts, tf.where(stops >= trailing, tf.maximum(stops - trailing, starts), stops)


byte_level_graph = shared(ByteLevelGraph)


def _per_text(words: Words, pieces: tf.RaggedTensor) -> tf.RaggedTensor:
    # Where the words of a text begin and end, and where the pieces of these words do: [N + 1].
    splits = tf.gather(pieces.row_splits, words.row_splits)
    return tf.RaggedTensor.from_row_splits(pieces.values, splits, validate=False)
