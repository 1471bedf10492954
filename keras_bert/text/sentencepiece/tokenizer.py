"""Text to the ids of SentencePiece and back: ALBERT's, XLM-R's and DeBERTa's inside the graph.

What the ops are is in `graph.py`.
"""

import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_bert.counts import check_switch
from keras_bert.text.base_tokenizer import Tokenizer, piece_ids
from keras_bert.text.sentencepiece.files import SentencePieceFiles, SentencePieceSettings
from keras_bert.text.sentencepiece.graph import sentencepiece_graph
from keras_bert.text.sentencepiece.model import base64_text, model_from_base64
from keras_bert.text.vocabulary import Vocabulary


class SentencePieceTokenizer(Tokenizer):
    """Splits text into the pieces of a SentencePiece model.

    Ids equal those of the `sentencepiece` library on the prepared text, but for ties: where a word
    has the same pieces in two orders, versions of the library choose differently. ALBERT's
    preparation is that of transformers: `` and '' become ", characters are decomposed (NFKD) and
    lose their accents, and are lower-cased; XLM-R, CamemBERT and DeBERTa have none. Bytes that are
    not UTF-8 are read as U+FFFD. Offsets leave out the white space before a word.

    Args:
        model: content of spiece.model, sentencepiece.bpe.model or spm.model.
        scheme: "albert", whose ids are those of the model; "xlm_roberta", which puts <s>, <pad>,
            </s> and <unk> first and <mask> last, and counts pieces one higher; "camembert", which
            puts five entries of fairseq's first and counts pieces four higher; or "deberta", whose
            ids are those of the model, and [MASK] behind them.
        lowercase: lower-case the text; by default for "albert".
        keep_accents: keep accents, and characters as they are; by default not for "albert".
        keep_special_tokens: read "[MASK]", "</s>" and so on in a text as the special tokens of that
            name; the mask takes the white space before it along, but for "deberta". By default they
            are plain text.

    Raises:
        ValueError: the bytes are no SentencePiece model, it is not one of the scheme, or a switch
            is neither True nor False.
    """

    def __init__(
        self,
        model: bytes,
        scheme: str = "albert",
        lowercase: bool | None = None,
        keep_accents: bool | None = None,
        keep_special_tokens: bool = False,
    ):
        super().__init__(name="sentencepiece_tokenizer")
        is_albert = scheme == "albert"
        self._settings = SentencePieceSettings(
            scheme,
            is_albert if lowercase is None else lowercase,
            (not is_albert) if keep_accents is None else keep_accents,
            keep_special_tokens,
        )
        for name, value in self._settings._asdict().items():
            if name != "scheme":
                check_switch(name, value)
        self._files = SentencePieceFiles(model, self._settings)
        self._vocabulary = self._files.vocabulary
        self.keep_special_tokens = keep_special_tokens
        self._graph = sentencepiece_graph(self._files)
        self._tokenize = self._graph.pieces
        self._tokenize_with_offsets = self._graph.pieces_with_offsets

    @classmethod
    def from_preset(cls, folder: str | os.PathLike, **settings: Any) -> "SentencePieceTokenizer":
        """Makes the tokenizer of a model folder: ours or Hugging Face's.

        Args:
            folder: holds spiece.model, sentencepiece.bpe.model or spm.model.
            **settings: arguments that replace those of the folder.

        Raises:
            FileNotFoundError: the folder has no such file.
            ValueError: a file is damaged.
        """
        found = SentencePieceFiles.read(folder)
        return cls(found.model, **{**found.settings._asdict(), **settings})

    @property
    def vocabulary(self) -> Vocabulary:
        """The pieces and their ids."""
        return self._vocabulary

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments it was made with, except the model."""
        return self._settings._asdict()

    def get_config(self) -> dict[str, Any]:
        """Returns the model, in base 64, and the settings."""
        return {"model": base64_text(self._files.model), **self.settings}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "SentencePieceTokenizer":
        """Makes a tokenizer from what `get_config` returned."""
        return cls(**{**config, "model": model_from_base64(config["model"])})

    def with_settings(self, **settings: Any) -> "SentencePieceTokenizer":
        """Returns a tokenizer of the same model with other settings in place of some."""
        return SentencePieceTokenizer(self._files.model, **{**self.settings, **settings})

    def save(self, folder: str | os.PathLike) -> None:
        """Writes the model file, by the name that its scheme has, and tokenizer_config.json."""
        self._files.save(folder)

    def detokenize(self, ids: tf.RaggedTensor | tf.Tensor | Sequence[Sequence[int]]) -> tf.Tensor:
        """Joins pieces to text. Special tokens are left out.

        Args:
            ids: integers [N, pieces].

        Returns:
            string [N].

        Raises:
            ValueError: one of them is no id of the vocabulary; in a graph TensorFlow tells.
        """
        ids = piece_ids(ids, self._vocabulary)
        ids = tf.cast(ids, tf.int32)
        is_special = tf.reduce_any(tf.equal(ids.values[:, None], self._graph.special_ids), axis=1)
        kept = tf.ragged.boolean_mask(ids, ids.with_values(~is_special))
        return self._graph.model.detokenize(tf.gather(self._graph.model_pieces, kept))
