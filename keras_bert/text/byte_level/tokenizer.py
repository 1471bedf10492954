"""Text to the ids of byte-level pieces and back: RoBERTa's tokenizer inside the graph.

    strings [N] --WordSplitter--> words [W] --PairMerger--> pieces [W, pieces] --> [N, pieces]

Pieces tile the bytes of their words: counting bytes leads from a piece to the characters it is of.
"""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.text.base_tokenizer import Pieces, Tokenizer, as_ragged
from keras_bert.text.byte_level.byte_alphabet import token_bytes
from keras_bert.text.byte_level.files import ByteLevelBpeFiles, ByteLevelSettings
from keras_bert.text.byte_level.merging import PairMerger
from keras_bert.text.byte_level.words import Words, WordSplitter
from keras_bert.text.framing import ROBERTA_TOKENS, SpecialTokens
from keras_bert.text.spelled_tokens import FIRST_SPECIAL, SpelledToken, check_spellings
from keras_bert.text.vocabulary import BYTE_LEVEL_SPACE, Vocabulary

# A word that is one piece in every vocabulary, to hold the place of a special token.
_PLACEHOLDER = "!"


class ByteLevelBpeTokenizer(Tokenizer):
    r"""Splits text into pieces of bytes, exactly as RoBERTa's and GPT-2's tokenizers do.

    Ids and offsets equal those of `RobertaTokenizerFast` of transformers (offsets trimmed: a space
    before a word is not part of it) for every string, by the Unicode of the `tokenizers` library. A
    byte that is not UTF-8 is read as U+FFFD, as `bytes.decode("utf-8", "replace")` does; the Rust
    tokenizer takes no such text.

    Args:
        vocabulary: the pieces and their ids, spelled in GPT-2's alphabet of bytes. All 256 bytes
            are among them, so that nothing is unknown.
        merges: pairs of pieces in the order in which they are merged.
        add_prefix_space: put a space before texts that begin with none, so that the first word is
            written as any other. RoBERTa was trained without.
        keep_special_tokens: read "<mask>", "</s>" and so on in a text as the special tokens of that
            name; "<mask>" takes the white space before it along. By default they are plain text, so
            that a text cannot forge them.

    Raises:
        ValueError: a byte is no piece, a merge makes something that is none, or special tokens
            cannot be told apart in a text.

    Example:
        tokenizer = ByteLevelBpeTokenizer.from_preset("hf://FacebookAI/roberta-base")
        tokenizer(["Hello world"]).to_list()  # [[31414, 232]]
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        merges: Sequence[tuple[str, str]],
        add_prefix_space: bool = False,
        keep_special_tokens: bool = False,
    ):
        super().__init__(name="byte_level_bpe_tokenizer")
        if vocabulary.word_mark != BYTE_LEVEL_SPACE:
            raise ValueError(
                f"the vocabulary marks words with {vocabulary.word_mark!r}: byte-level pieces have "
                f"{BYTE_LEVEL_SPACE!r}; make it with word_mark={BYTE_LEVEL_SPACE!r}"
            )
        self._vocabulary = vocabulary
        self._settings = ByteLevelSettings(add_prefix_space, keep_special_tokens)
        self._files = ByteLevelBpeFiles(vocabulary, tuple(merges), self._settings)
        self.keep_special_tokens = keep_special_tokens
        special: list[SpelledToken] = []
        if keep_special_tokens:
            mask = vocabulary.special_tokens.mask
            special = [SpelledToken(t, t == mask) for t in vocabulary.special_tokens]
            check_spellings(special)
        self._splitter = WordSplitter(add_prefix_space, special)
        self._merger = PairMerger(vocabulary.tokens, self._files.merges)
        tokens = [token_bytes(token) for token in vocabulary.tokens]
        # Spaces that offsets leave out: those at the beginning and at the end of a piece.
        leading = [len(t) - len(t.lstrip(b" ")) if t else 0 for t in tokens]
        trailing = [len(t) - len(t.rstrip(b" ")) if t else 0 for t in tokens]
        strings = [
            spelled.encode() if own is None or spelled in vocabulary.special_tokens else own
            for spelled, own in zip(vocabulary.tokens, tokens, strict=True)
        ]
        with tf.init_scope():
            self._special_ids = tf.constant(vocabulary.special_ids, tf.int32)
            self._placeholder_id = vocabulary.id_of(_PLACEHOLDER)
            self._strings = tf.constant(strings)  # [V]
            self._spelled_lengths = tf.constant(list(map(len, vocabulary.tokens)), tf.int64)
            self._spaces = tf.constant(np.array([leading, trailing], np.int64))  # [2, V]
        self._trace()

    @classmethod
    def from_files(
        cls,
        vocab: str | os.PathLike,
        merges: str | os.PathLike,
        special_tokens: SpecialTokens = ROBERTA_TOKENS,
        **settings: Any,
    ) -> "ByteLevelBpeTokenizer":
        """Makes a tokenizer from a vocab.json and a merges.txt.

        Args:
            vocab: the file of pieces and ids.
            merges: the file of merges.
            special_tokens: by role.
            **settings: the other arguments of `ByteLevelBpeTokenizer`.
        """
        found = ByteLevelBpeFiles.of_files(vocab, merges, special_tokens)
        return cls(found.vocabulary, found.merges, **settings)

    @classmethod
    def from_preset(cls, folder: str | os.PathLike, **settings: Any) -> "ByteLevelBpeTokenizer":
        """Makes the tokenizer of a model folder: ours or Hugging Face's.

        Args:
            folder: holds vocab.json and merges.txt, or tokenizer.json.
            **settings: arguments that replace those of the folder.

        Raises:
            FileNotFoundError: the folder or its vocabulary does not exist.
            ValueError: a file is damaged, or the tokenizer is of another kind.
        """
        found = ByteLevelBpeFiles.read(folder)
        return cls(found.vocabulary, found.merges, **{**found.settings._asdict(), **settings})

    @property
    def vocabulary(self) -> Vocabulary:
        """The pieces and their ids."""
        return self._vocabulary

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments it was made with, except vocabulary and merges."""
        return self._settings._asdict()

    def get_config(self) -> dict[str, Any]:
        """Returns pieces, merges and settings."""
        return {
            "vocabulary": list(self._vocabulary.tokens),
            "special_tokens": list(self._vocabulary.special_tokens),
            "framing": list(self._vocabulary.framing),
            "merges": [list(pair) for pair in self._files.merges],
            **self.settings,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "ByteLevelBpeTokenizer":
        """Makes a tokenizer from what `get_config` returned."""
        settings = dict(config)
        tokens, special, framing, merges = (
            settings.pop(name) for name in ("vocabulary", "special_tokens", "framing", "merges")
        )
        vocabulary = Vocabulary(tokens, SpecialTokens(*special), BYTE_LEVEL_SPACE, framing)
        return cls(vocabulary, [(first, second) for first, second in merges], **settings)

    def with_settings(self, **settings: Any) -> "ByteLevelBpeTokenizer":
        """Returns a tokenizer of the same vocabulary with other settings in place of some."""
        return ByteLevelBpeTokenizer(
            self._vocabulary, self._files.merges, **{**self.settings, **settings}
        )

    def save(self, folder: str | os.PathLike) -> None:
        """Writes vocab.json, merges.txt and tokenizer_config.json."""
        self._files.save(folder)

    def detokenize(self, ids: tf.RaggedTensor | tf.Tensor | Sequence[Sequence[int]]) -> tf.Tensor:
        """Joins pieces to text; bytes that are no whole character become U+FFFD.

        Args:
            ids: integers [N, pieces]. Padding is left out.

        Returns:
            string [N].
        """
        ids = as_ragged(ids, tf.int32)
        ids = tf.ragged.boolean_mask(ids, tf.not_equal(ids, self._vocabulary.pad_id))
        joined = tf.strings.reduce_join(tf.gather(self._strings, ids), axis=-1)
        return tf.strings.unicode_transcode(joined, "UTF-8", "UTF-8", errors="replace")

    def _tokenize_listed_words(self, words: tf.RaggedTensor) -> tf.RaggedTensor:
        """Words of a list stand in a sentence: all but the first of each follow a space."""
        flat = words.flat_values
        starts = tf.gather(words.row_starts(), words.value_rowids())
        is_first = tf.equal(tf.range(tf.size(flat, words.row_splits.dtype)), starts)
        spaced = tf.strings.join([" ", flat])
        filled = tf.not_equal(flat, "")
        return self(tf.where(is_first | ~filled, flat, spaced))

    def _pieces_of(self, words: Words) -> tf.RaggedTensor:
        """Returns the ids of the pieces of each word, int32 [W, pieces]."""
        if not self.keep_special_tokens:
            return self._merger(words.texts)
        is_special = words.special >= 0
        pieces = self._merger(tf.where(is_special, _PLACEHOLDER, words.texts))
        # Each special token has held the place of one piece.
        places = tf.boolean_mask(pieces.row_starts(), is_special)[:, None]
        ids = tf.gather(self._special_ids, tf.boolean_mask(words.special, is_special))
        return pieces.with_values(tf.tensor_scatter_nd_update(pieces.values, places, ids))

    def _tokenize_flat(self, texts: tf.Tensor) -> tf.RaggedTensor:
        words = self._splitter(texts)
        return _per_text(words, self._pieces_of(words))

    def _tokenize_flat_with_offsets(self, texts: tf.Tensor) -> Pieces:
        words = self._splitter(texts)
        ids = _per_text(words, self._pieces_of(words))  # [N, pieces]
        code_points, _, first, end = words.characters
        # How many bytes each character has in UTF-8; a special token counts as one.
        sizes = tf.ones_like(first)  # [K]
        for smallest in (0x80, 0x800, 0x10000):
            sizes += tf.cast((code_points >= smallest) & (code_points < FIRST_SPECIAL), tf.int64)
        is_special = tf.reduce_any(tf.equal(ids.values[:, None], self._special_ids), axis=1)
        lengths = tf.where(is_special, tf.constant(1, tf.int64), self._merger.lengths(ids.values))
        ends = tf.cumsum(lengths)  # in bytes of all texts, those put in front included
        character = tf.repeat(tf.range(tf.size(sizes, tf.int64)), sizes)  # of each byte
        row_starts = tf.gather(words.row_starts, ids.value_rowids())
        starts = tf.gather(first, tf.gather(character, ends - lengths)) - row_starts
        stops = tf.gather(end, tf.gather(character, ends - 1)) - row_starts
        starts, stops = self._trimmed(ids.values, is_special, starts, stops)
        return (
            ids,
            ids.with_values(tf.cast(starts, tf.int32)),
            ids.with_values(tf.cast(stops, tf.int32)),
        )

    def _trimmed(
        self, ids: tf.Tensor, is_special: tf.Tensor, starts: tf.Tensor, stops: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Leaves out the white space at both ends of pieces."""
        leading, trailing = tf.unstack(tf.gather(self._spaces, ids, axis=1))
        # A special token is as long as it is spelled; what is before it was taken along.
        own = tf.gather(self._spelled_lengths, ids)
        leading = tf.where(is_special, stops - starts - own, leading)
        if self._settings.add_prefix_space:
            # One space at the beginning of a text counts as put in front of it, and several as its
            # own: so the Rust tokenizer has it.
            is_put = tf.equal(starts, 0) & tf.equal(leading, 1)
            leading = tf.where(is_put, tf.constant(0, tf.int64), leading)
        starts = tf.minimum(starts + leading, stops)
        return starts, tf.where(stops >= trailing, tf.maximum(stops - trailing, starts), stops)


def _per_text(words: Words, pieces: tf.RaggedTensor) -> tf.RaggedTensor:
    # Where the words of a text begin and end, and where the pieces of these words do: [N + 1].
    splits = tf.gather(pieces.row_splits, words.row_splits)
    return tf.RaggedTensor.from_row_splits(pieces.values, splits, validate=False)
