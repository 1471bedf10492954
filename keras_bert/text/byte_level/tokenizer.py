"""Text to the ids of byte-level pieces and back: RoBERTa's and ModernBERT's inside the graph.

What the ops are is in `graph.py`.
"""

import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_bert.counts import check_switch
from keras_bert.text.base_tokenizer import Tokenizer, piece_ids
from keras_bert.text.byte_level.files import (
    AddedToken,
    ByteLevelBpeFiles,
    ByteLevelSettings,
    WordPattern,
)
from keras_bert.text.byte_level.graph import byte_level_graph
from keras_bert.text.framing import ROBERTA_TOKENS, SpecialTokens
from keras_bert.text.vocabulary import BYTE_LEVEL_SPACE, Vocabulary


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
        self._graph = byte_level_graph(self._files)
        self._tokenize = self._graph.pieces
        self._tokenize_with_offsets = self._graph.pieces_with_offsets

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

        Raises:
            ValueError: one of them is no id of the vocabulary; in a graph TensorFlow tells.
        """
        ids = piece_ids(ids, self._vocabulary)
        ids = tf.ragged.boolean_mask(ids, tf.not_equal(ids, self._vocabulary.pad_id))
        joined = tf.strings.reduce_join(tf.gather(self._graph.strings, ids), axis=-1)
        return tf.strings.unicode_transcode(joined, "UTF-8", "UTF-8", errors="replace")

    def _tokenize_listed_words(self, words: tf.RaggedTensor) -> tf.RaggedTensor:
        """Words of a list stand in a sentence: all but the first of each follow a space."""
        flat = words.flat_values
        starts = tf.gather(words.row_starts(), words.value_rowids())
        is_first = tf.equal(tf.range(tf.size(flat, words.row_splits.dtype)), starts)
        spaced = tf.strings.join([" ", flat])
        filled = tf.not_equal(flat, "")
        return self(tf.where(is_first | ~filled, flat, spaced))


def _kept(found: ByteLevelBpeFiles) -> dict[str, Any]:
    """Returns arguments of the constructor that files alone say, beside pieces and merges."""
    return {
        "added_tokens": found.added_tokens,
        "normalization": found.normalization,
        "word_pattern": found.word_pattern,
        "ignore_merges": found.ignore_merges,
        "mask_strips_left": found.mask_strips_left,
    }
