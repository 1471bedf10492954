"""Text to the ids of word pieces and back: the original tokenization.py inside the graph.

What the ops are is in `wordpiece/graph.py`.
"""

import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_bert.counts import check_count, check_switch
from keras_bert.text.base_tokenizer import Tokenizer, piece_ids
from keras_bert.text.framing import BERT_FRAMING, BERT_TOKENS, Framing, SpecialTokens
from keras_bert.text.vocabulary import (
    CONTINUATION_PREFIX,
    MAX_CHARACTERS_PER_WORD,
    Vocabulary,
)
from keras_bert.text.wordpiece.files import WordPieceFiles
from keras_bert.text.wordpiece.graph import wordpiece_graph
from keras_bert.text.wordpiece.settings import Settings


class BertTokenizer(Tokenizer):
    """Splits text into the word pieces of a vocabulary, exactly as the original does.

    The ids equal those of FullTokenizer in tokenization.py of google-research/bert (under Python
    3.11) for every string: clean-up, CJK spacing, lower-casing, accent stripping, punctuation
    splitting, greedy longest-match-first WordPiece, [UNK] for words that are too long. Bytes
    that are not UTF-8 are removed. All of it is TensorFlow ops: it works eagerly, in tf.data, in
    tf.function and in a SavedModel.

    Args:
        vocabulary: the word pieces and their ids.
        lowercase: lower-case the text. True for the "uncased" models.
        strip_accents: drop accents and other combining marks; None follows `lowercase`.
        split_cjk: make every CJK ideograph a word of its own.
        keep_special_tokens: read "[MASK]", "[SEP]" and so on in a text as the special tokens of
            that name. By default they are plain text, so that a text cannot forge them.
        max_input_chars_per_word: a longer word is [UNK]. 200 in the original, 100 in the files of
            Hugging Face's tokenizers.

    Raises:
        ValueError: a piece of the vocabulary is longer than 255 bytes, the limit is below 1, or a
            switch is neither True nor False.

    Example:
        >>> pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "play", "##ing", "!"]
        >>> BertTokenizer(Vocabulary(pieces))(["Playing!"]).to_list()
        [[5, 6, 7]]
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        lowercase: bool = True,
        strip_accents: bool | None = None,
        split_cjk: bool = True,
        keep_special_tokens: bool = False,
        max_input_chars_per_word: int = MAX_CHARACTERS_PER_WORD,
    ):
        super().__init__(name="bert_tokenizer")
        check_count("max_input_chars_per_word", max_input_chars_per_word)
        check_switch("lowercase", lowercase)
        if strip_accents is not None:
            check_switch("strip_accents", strip_accents)
        check_switch("split_cjk", split_cjk)
        check_switch("keep_special_tokens", keep_special_tokens)
        self._vocabulary = vocabulary
        self._settings = Settings(
            lowercase, strip_accents, split_cjk, keep_special_tokens, max_input_chars_per_word
        )
        self._graph = wordpiece_graph(vocabulary, self._settings)
        self._tokenize = self._graph.pieces
        self._tokenize_with_offsets = self._graph.pieces_with_offsets
        with tf.init_scope():
            self._tokens = tf.constant(vocabulary.tokens)
        self.keep_special_tokens = keep_special_tokens

    @classmethod
    def from_vocab(cls, path: str | os.PathLike, **settings: Any) -> "BertTokenizer":
        """Makes a tokenizer from a vocab.txt.

        Args:
            path: the file.
            **settings: the other arguments of `BertTokenizer`.
        """
        return cls(Vocabulary.from_file(path), **settings)

    @classmethod
    def from_preset(cls, folder: str | os.PathLike, **settings: Any) -> "BertTokenizer":
        """Makes the tokenizer of a model folder: ours, Google's or Hugging Face's.

        The vocabulary is vocab.txt or, in folders written by transformers 5, tokenizer.json.
        Settings come from these JSON files. Where they are missing or silent (Google's folders
        have none), a vocabulary with capital letters means cased, any other uncased.

        Args:
            folder: holds vocab.txt or tokenizer.json, and perhaps tokenizer_config.json.
            **settings: arguments of `BertTokenizer` that replace those of the folder.

        Raises:
            FileNotFoundError: the folder or its vocabulary does not exist.
            ValueError: one of the files is damaged, or names an added token that word pieces do not
                find wherever Hugging Face's tokenizers do.
        """
        found = WordPieceFiles.read(folder)
        return cls(found.vocabulary, **{**found.settings._asdict(), **settings})

    def save(self, folder: str | os.PathLike) -> None:
        """Writes vocab.txt and tokenizer_config.json, which Hugging Face's tokenizers read too."""
        WordPieceFiles(self._vocabulary, self._settings).save(folder)

    @property
    def vocabulary(self) -> Vocabulary:
        """The pieces and their ids."""
        return self._vocabulary

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments it was made with, except the vocabulary."""
        return self._settings._asdict()

    def get_config(self) -> dict[str, Any]:
        """Returns the pieces, what is special of them, and the settings."""
        return {
            "vocabulary": list(self._vocabulary.tokens),
            "special_tokens": list(self._vocabulary.special_tokens),
            "framing": list(self._vocabulary.framing),
            **self.settings,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "BertTokenizer":
        """Makes a tokenizer from what `get_config` returned."""
        settings = dict(config)
        vocabulary = Vocabulary(
            settings.pop("vocabulary"),
            # Files of before these keys are BERT's.
            SpecialTokens(*settings.pop("special_tokens", BERT_TOKENS)),
            framing=Framing(*settings.pop("framing", BERT_FRAMING)),
        )
        return cls(vocabulary, **settings)

    def with_settings(self, **settings: Any) -> "BertTokenizer":
        """Returns a tokenizer of the same vocabulary with other settings in place of some."""
        return BertTokenizer(self._vocabulary, **{**self.settings, **settings})

    def detokenize(self, ids: tf.RaggedTensor | tf.Tensor | Sequence[Sequence[int]]) -> tf.Tensor:
        """Joins pieces to text: a space between words, none before a "##" piece.

        Args:
            ids: integers [N, pieces]. [PAD] is left out.

        Returns:
            string [N].

        Raises:
            ValueError: one of them is no id of the vocabulary; in a graph TensorFlow tells.
        """
        ids = piece_ids(ids, self._vocabulary)
        # [N, pieces], no [PAD]
        ids = tf.ragged.boolean_mask(ids, tf.not_equal(ids, self._vocabulary.pad_id))
        # [N]: "play ##ing chess"
        joined = tf.strings.reduce_join(tf.gather(self._tokens, ids), axis=-1, separator=" ")
        return tf.strings.regex_replace(joined, f" {CONTINUATION_PREFIX}", "")

    def pieces_of_new_tokens(self, grown: Vocabulary) -> dict[int, tuple[int, ...]]:
        """Tells how this tokenizer writes the tokens that a grown vocabulary added.

        The embedding of a new token is best started from the mean of these pieces.

        Args:
            grown: what `vocabulary.add_tokens` returned.

        Returns:
            For the id of each new token the ids of its pieces so far.

        Raises:
            ValueError: a new token can never be produced, because the tokenizer splits or
                changes it; or `grown` is not this vocabulary with additions.
        """
        old = self._vocabulary.tokens
        # in an [unused] slot, or appended
        new = {i: t for i, t in enumerate(grown.tokens) if i >= len(old) or t != old[i]}
        if len(grown) < len(old):
            raise ValueError(
                f"the grown vocabulary has {len(grown)} entries, fewer than the {len(old)} it "
                "grew from: pass what add_tokens returned"
            )
        if not new:
            return {}
        words = [token.removeprefix(CONTINUATION_PREFIX) for token in new.values()]
        # With the grown vocabulary each word must come out as its one new piece.
        after = BertTokenizer(grown, **self.settings)(words).to_list()
        for (index, token), word, ids in zip(new.items(), words, after, strict=True):
            if word == token and ids != [index]:
                raise ValueError(
                    f"the new token {token!r} can never be produced: the tokenizer makes "
                    f"{[grown.tokens[i] for i in ids]} of it; add it as it is after lower-casing, "
                    "accent stripping and splitting at punctuation"
                )
        return dict(zip(new, map(tuple, self(words).to_list()), strict=True))
