"""Text to the ids of byte-level pieces and back: RoBERTa's and ModernBERT's inside the graph.

    strings [N] --WordSplitter--> words [W] --PairMerger--> pieces [W, pieces] --> [N, pieces]

Pieces tile the bytes of their words: counting bytes leads from a piece to the characters it is of.
"""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.counts import check_switch
from keras_bert.text.base_tokenizer import Pieces, Tokenizer, as_ragged, traced
from keras_bert.text.byte_level.byte_alphabet import token_bytes
from keras_bert.text.byte_level.composition import composed
from keras_bert.text.byte_level.files import (
    AddedToken,
    ByteLevelBpeFiles,
    ByteLevelSettings,
    WordPattern,
)
from keras_bert.text.byte_level.llama_words import llama_word_starts
from keras_bert.text.byte_level.merging import PairMerger
from keras_bert.text.byte_level.words import Words, WordSplitter
from keras_bert.text.framing import ROBERTA_TOKENS, SpecialTokens
from keras_bert.text.spelled_tokens import FIRST_SPECIAL, SpelledToken, check_spellings
from keras_bert.text.vocabulary import BYTE_LEVEL_SPACE, Vocabulary

# A word that is one piece in every vocabulary, to hold the place of a special token.
_PLACEHOLDER = "!"


class ByteLevelBpeTokenizer(Tokenizer):
    r"""Splits text into pieces of bytes, as tokenizers of RoBERTa, ModernBERT and EuroBERT do.

    Ids and offsets equal those of `RobertaTokenizerFast` of transformers (offsets trimmed: a space
    before a word is not part of it) for every string, by the Unicode of the `tokenizers` library. A
    byte that is not UTF-8 is read as U+FFFD, as `bytes.decode("utf-8", "replace")` does; the Rust
    tokenizer takes no such text.

    ModernBERT's brings texts into NFC and finds added tokens in them, such as runs of spaces. Its
    offsets are of the text as it was: a letter that NFC has made of several characters stands for
    all of them, where the Rust library gives the first alone. An added token of spaces stands for
    these spaces.

    Args:
        vocabulary: the pieces and their ids, spelled in GPT-2's alphabet of bytes. All 256 bytes
            are among them, so that nothing is unknown.
        merges: pairs of pieces in the order in which they are merged.
        add_prefix_space: put a space before texts that begin with none, so that the first word is
            written as any other. RoBERTa was trained without.
        keep_special_tokens: read "<mask>", "</s>" and so on in a text as the special tokens of that
            name; "<mask>" takes the white space before it along. By default they are plain text, so
            that a text cannot forge them.
        added_tokens: further tokens that are found in texts, pieces of the vocabulary; those that
            are special only with `keep_special_tokens`.
        normalization: "NFC", or None to leave texts as they are.
        word_pattern: "gpt2" or "llama3": the regular expression by which words begin.
        ignore_merges: whether a word that is a piece stays whole, also where no merges make it, as
            in Llama 3's files.
        mask_strips_left: whether the mask takes the white space before it along.

    Raises:
        ValueError: a byte is no piece, a merge makes something that is none, an added token is no
            piece, special tokens cannot be told apart in a text, or a switch is neither True nor
            False.

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
        added_tokens: Sequence[AddedToken] = (),
        normalization: str | None = None,
        word_pattern: WordPattern = "gpt2",
        ignore_merges: bool = False,
        mask_strips_left: bool = True,
    ):
        super().__init__(name="byte_level_bpe_tokenizer")
        if vocabulary.word_mark != BYTE_LEVEL_SPACE:
            raise ValueError(
                f"the vocabulary marks words with {vocabulary.word_mark!r}: byte-level pieces have "
                f"{BYTE_LEVEL_SPACE!r}; make it with word_mark={BYTE_LEVEL_SPACE!r}"
            )
        check_switch("add_prefix_space", add_prefix_space)
        check_switch("keep_special_tokens", keep_special_tokens)
        check_switch("ignore_merges", ignore_merges)
        check_switch("mask_strips_left", mask_strips_left)
        self._vocabulary = vocabulary
        self._settings = ByteLevelSettings(add_prefix_space, keep_special_tokens)
        self._files = ByteLevelBpeFiles(
            vocabulary,
            tuple(merges),
            self._settings,
            tuple(added_tokens),
            normalization,
            word_pattern,
            ignore_merges,
            mask_strips_left,
        )
        self.keep_special_tokens = keep_special_tokens
        found = [t for t in self._files.added_tokens if keep_special_tokens or not t.special]
        as_is = [SpelledToken(t.content) for t in found if not t.normalized]
        if keep_special_tokens:
            mask = vocabulary.special_tokens.mask if mask_strips_left else None
            special = [SpelledToken(t, t == mask) for t in dict.fromkeys(vocabulary.special_tokens)]
            check_spellings(special)
            as_is = special + as_is
        after = [t.content for t in found if t.normalized]
        spellings = composed(after) if normalization else after
        self._splitter = WordSplitter(
            add_prefix_space,
            as_is,
            normalization is not None,
            [SpelledToken(text) for text in spellings],
            llama_word_starts if word_pattern == "llama3" else None,
        )
        found_tokens = [*(token.text for token in as_is), *after]
        # What is found in texts is spelled as it is.
        verbatim = {*vocabulary.special_tokens, *(token.content for token in added_tokens)}
        tokens = [None if t in verbatim else token_bytes(t) for t in vocabulary.tokens]
        whole = [t for t, own in zip(vocabulary.tokens, tokens, strict=True) if own]
        self._merger = PairMerger(
            vocabulary.tokens, self._files.merges, whole if ignore_merges else ()
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
            self._strings = tf.constant(strings)  # [V]
            self._mask_id = vocabulary.mask_id
            self._mask_length = len(vocabulary.special_tokens.mask)
            self._spaces = tf.constant(np.array([leading, trailing], np.int64))  # [2, V]
        self._tokenize = traced(self._pieces)
        self._tokenize_with_offsets = traced(self._pieces_with_offsets)

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
        settings = {**found.settings._asdict(), **settings}
        return cls(found.vocabulary, found.merges, **_kept(found), **settings)

    @property
    def vocabulary(self) -> Vocabulary:
        """The pieces and their ids."""
        return self._vocabulary

    @property
    def settings(self) -> dict[str, Any]:
        """How it treats texts, in what its files leave open: prefix space and special tokens."""
        return self._settings._asdict()

    def get_config(self) -> dict[str, Any]:
        """Returns pieces, merges, added tokens, normalization and settings."""
        return {
            "vocabulary": list(self._vocabulary.tokens),
            "special_tokens": list(self._vocabulary.special_tokens),
            "framing": list(self._vocabulary.framing),
            "merges": [list(pair) for pair in self._files.merges],
            **_kept(self._files),
            "added_tokens": [list(token) for token in self._files.added_tokens],
            **self.settings,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "ByteLevelBpeTokenizer":
        """Makes a tokenizer from what `get_config` returned."""
        settings = dict(config)
        tokens, special, framing, merges = (
            settings.pop(name) for name in ("vocabulary", "special_tokens", "framing", "merges")
        )
        added = [AddedToken(*token) for token in settings.pop("added_tokens", ())]
        vocabulary = Vocabulary(tokens, SpecialTokens(*special), BYTE_LEVEL_SPACE, framing)
        pairs = [(first, second) for first, second in merges]
        return cls(vocabulary, pairs, added_tokens=added, **settings)

    def with_settings(self, **settings: Any) -> "ByteLevelBpeTokenizer":
        """Returns a tokenizer of the same vocabulary with other settings in place of some."""
        return ByteLevelBpeTokenizer(
            self._vocabulary,
            self._files.merges,
            **_kept(self._files),
            **{**self.settings, **settings},
        )

    def save(self, folder: str | os.PathLike) -> None:
        """Writes vocab.json and merges.txt, or tokenizer.json; and tokenizer_config.json."""
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
        if self._settings.add_prefix_space:
            # One space at the beginning of a text counts as put in front of it, and several as its
            # own: so the Rust tokenizer has it.
            is_put = tf.equal(starts, 0) & tf.equal(leading, 1)
            leading = tf.where(is_put, tf.constant(0, tf.int64), leading)
        starts = tf.minimum(starts + leading, stops)
        return starts, tf.where(stops >= trailing, tf.maximum(stops - trailing, starts), stops)


def _kept(found: ByteLevelBpeFiles) -> dict[str, Any]:
    """Returns arguments of the constructor that files alone say, beside pieces and merges."""
    return {
        "added_tokens": found.added_tokens,
        "normalization": found.normalization,
        "word_pattern": found.word_pattern,
        "ignore_merges": found.ignore_merges,
        "mask_strips_left": found.mask_strips_left,
    }


def _per_text(words: Words, pieces: tf.RaggedTensor) -> tf.RaggedTensor:
    # Where the words of a text begin and end, and where the pieces of these words do: [N + 1].
    splits = tf.gather(pieces.row_splits, words.row_splits)
    return tf.RaggedTensor.from_row_splits(pieces.values, splits, validate=False)
