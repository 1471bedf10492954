"""Signatures of static embeddings: texts as vectors by one table, without an encoder.

    text --tokenize--> ids of pieces, ragged --look up--> rows of the table --mean--> steps behind

Shapes: N texts, T pieces of all of them, V pieces of the vocabulary, W width of the table, D width
of the result.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import tensorflow as tf

from keras_bert.checkpoints.static_embeddings.folders import StaticTable
from keras_bert.signatures.base import SignatureFamily, Tensors, string_vector
from keras_bert.signatures.options import ExportOptions
from keras_bert.tasks.feature_extraction.pooling import overridden
from keras_bert.tasks.feature_extraction.sentence_vectors import SentenceVectors
from keras_bert.tasks.feature_extraction.signatures import (
    SENTENCE_EMBEDDING,
    SERVE_DOCUMENT,
    SERVE_QUERY,
    with_prompt,
)
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.preprocessor import TEXT

_DTYPES = ("float32", "bfloat16")
# What a row may be in memory; other formats become float32.
_TABLE_DTYPES = (np.float32, np.float16, ml_dtypes.bfloat16, np.int8)


class StaticPieces:
    """Texts as the pieces whose rows are averaged: no special token stands around them.

    Args:
        tokenizer: with the pieces of the table.
        max_length: the most pieces of a text; None takes all.
        drops_unknown: whether unknown pieces are left out of the mean.
        cuts_characters: whether texts are cut to `max_length` times the median length of a piece
            first, as in Model2Vec.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        max_length: int | None,
        drops_unknown: bool,
        cuts_characters: bool,
    ):
        self._tokenizer, self._most = tokenizer, max_length
        self._unknown = tokenizer.vocabulary.unk_id if drops_unknown else None
        self._most_characters = None
        if cuts_characters and max_length is not None:
            median = np.median([len(token) for token in tokenizer.vocabulary.tokens])
            self._most_characters = max_length * int(median)

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Returns int32 [N, pieces] of strings [N]."""
        if self._most_characters is not None:
            texts = tf.strings.substr(texts, 0, self._most_characters, unit="UTF8_CHAR")
        ids = self._tokenizer(texts)  # [N, pieces], without special tokens
        if self._most is not None:
            ids = ids[:, : self._most]
        if self._unknown is not None:
            ids = tf.ragged.boolean_mask(ids, ids != self._unknown)
        return ids


class StaticVectors(SentenceVectors):
    """The table, and what is behind the mean of its rows.

    Args:
        table: of a folder, with the modules that are asked for.
        bfloat16: whether rows of float32 are kept in half the memory.
    """

    # What `SignatureFamily` asks of a Keras model: there is none, and the table is held here.
    weights: tuple[()] = ()

    def __init__(self, table: StaticTable, bfloat16: bool):
        super().__init__(table.modules, table.vectors.shape[1])
        vectors = table.vectors
        if vectors.dtype not in _TABLE_DTYPES:
            vectors = vectors.astype(np.float32)
        if bfloat16 and vectors.dtype == np.float32:  # others are as small already
            vectors = vectors.astype(ml_dtypes.bfloat16)
        self.table = tf.Variable(vectors, trainable=False, name="embedding")

    def of_pieces(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Returns float32 [N, D] of ids [N, pieces]; zeros stand for a text without pieces."""
        rows = tf.cast(tf.gather(self.table, ids.values), tf.float32)  # [T, W]
        texts = ids.nrows()
        sums = tf.math.unsorted_segment_sum(rows, ids.value_rowids(), texts)  # [N, W]
        counts = tf.cast(tf.maximum(ids.row_lengths(), 1), tf.float32)  # [N]
        return self.finish(sums / counts[:, None])


class StaticSignatures(SignatureFamily):
    """`text`, string [N] -> `sentence_embedding`, float32 [N, D].

    Where texts to search with, or texts to be found, have a prompt of their own, `serve_query` and
    `serve_document` return what `serving_default` does, with the one and the other before the text.
    There is no `serve_ids`: a row of ids without padding is what no request can hold.

    Args:
        table: of a folder.
        tokenizer: with its pieces.
        options: settings of the export.

    Raises:
        ValueError: the table has not a row for each piece, or the options ask for what only an
            encoder has.
    """

    sample: Mapping[str, Any] = {TEXT: "One text."}
    has_portable_ids = False

    def __init__(self, table: StaticTable, tokenizer: Tokenizer, options: ExportOptions):
        # Not the constructor of the base class, which makes an encoder of rows.
        for name in ("pooling", "max_windows"):
            if getattr(options, name) is not None:
                raise ValueError(
                    f"--{name} is for an encoder, and a static embedding is the mean over all "
                    "pieces of a text: leave it out"
                )
        if options.dtype not in _DTYPES:
            raise ValueError(
                f"dtype is {options.dtype}: static embeddings are a table and no products, so "
                f"choose one of {', '.join(_DTYPES)}"
            )
        if len(table.vectors) != len(tokenizer.vocabulary):
            raise ValueError(
                f"the table has {len(table.vectors):,} rows, but {table.tokenizer_folder} "
                f"{len(tokenizer.vocabulary):,} pieces: take both files from one model"
            )
        modules = overridden(table.modules, options)
        self.model = self.tracked = StaticVectors(
            dataclasses.replace(table, modules=modules), options.dtype == "bfloat16"
        )
        self.tokenizer, self.options = tokenizer, options
        self._prompts = modules
        self._pieces = StaticPieces(
            tokenizer,
            options.max_seq_length or modules.max_seq_length,
            table.drops_unknown,
            table.is_model2vec,
        )

    @property
    def shares_rows(self) -> bool:
        """False: there are no rows of ids."""
        return False

    def string_inputs(self) -> dict[str, tf.TensorSpec]:
        """Returns the one text."""
        return {TEXT: string_vector(TEXT)}

    def answer(self, text: tf.Tensor) -> Tensors:
        """Returns the vectors of texts."""
        return self.vectors(with_prompt(self._prompts.prompt, text))

    def more_answers(self) -> dict[str, Callable[..., Tensors]]:
        """Returns the same with the prompts of queries and of texts to be found, if there are."""
        if not self._prompts.tells_texts_apart:
            return {}
        query, document = self._prompts.query_prompt, self._prompts.document_prompt
        return {
            SERVE_QUERY: lambda text: self.vectors(with_prompt(query, text)),
            SERVE_DOCUMENT: lambda text: self.vectors(with_prompt(document, text)),
        }

    def vectors(self, text: tf.Tensor) -> Tensors:
        """Returns the vectors of texts as they stand, whatever prompt the folder has."""
        return {SENTENCE_EMBEDDING: self.model.of_pieces(self._pieces(text))}
