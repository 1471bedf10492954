"""Signatures of vectors of tokens, for late interaction.

Shapes: N texts, S tokens of the longest of them, Q of the longest query, H width of the encoder, D
of a vector.
"""

from collections.abc import Callable
from typing import Any, cast

import keras
import tensorflow as tf

from keras_bert.checkpoints.multi_vector_modules import MultiVectorModules
from keras_bert.features import INPUT_IDS, INPUT_MASK
from keras_bert.finetuning.task import TaskDescription
from keras_bert.signatures.base import Tensors, string_vector
from keras_bert.signatures.options import ExportOptions
from keras_bert.tasks.feature_extraction.signatures import SERVE_DOCUMENT, SERVE_QUERY, with_prompt
from keras_bert.tasks.sentence_embedding.embedder_signatures import EmbedderSignatures
from keras_bert.tasks.sentence_embedding.multi_vector_head import MultiVectorHead
from keras_bert.tasks.sentence_embedding.token_rows import TokenRows
from keras_bert.text.base_tokenizer import Tokenizer

SERVE_SCORES = "serve_scores"
QUERY = "query"

_TOKEN_VECTORS = "token_vectors"
# The least product of vectors of length 1.
_LEAST = -1.0


class MultiVectorSignatures(EmbedderSignatures):
    """`text`, string [N] -> a vector of length 1 for each token of each text to be found.

    `token_vectors`, float32 [N, S, D], and `tokens`, string [N, S], the pieces that they are of;
    behind the end of a text they are zeros and empty. `serve_query` returns the same of texts to
    search with, `serve_document` is `serving_default`. `serve_scores` takes `query` besides, string
    [N], and returns `score`, float32 [N]: for each vector of a query the largest product with one
    of the text beside it, and the sum of these (MaxSim). Of a text without a vector, all pieces of
    which are on the skiplist, each of these products counts as -1.

    Args:
        model: the `BertMultiVectorEmbedder`.
        tokenizer: its tokenizer.
        max_seq_length: the most positions of a text to be found.
        options: settings of the export.
        modules: lengths, prompts, markers, expansion of queries, and what has no vector.

    Raises:
        ValueError: the vocabulary lacks a marker, or rows have no room for a piece of a text.
    """

    ids_output = _TOKEN_VECTORS

    def __init__(
        self,
        model: Any,
        tokenizer: Tokenizer,
        max_seq_length: int,
        options: ExportOptions,
        modules: MultiVectorModules,
    ):
        super().__init__(model, tokenizer, max_seq_length, options)
        self.modules = modules
        positions = model.config.max_position_embeddings
        query_length = min(modules.query_length or max_seq_length, positions)
        self._query_rows = TokenRows(
            tokenizer, query_length, modules.query_marker, modules.expansion
        )
        self._document_rows = TokenRows(tokenizer, max_seq_length, modules.document_marker)
        vocabulary = tokenizer.vocabulary
        skipped = {vocabulary.id_of(piece) for piece in modules.skiplist if piece in vocabulary}
        self._skipped_ids = sorted(skipped - {vocabulary.unk_id})
        self._project = model.get_layer("projection")
        self._unit = model.get_layer("unit_tokens")

    def answer(self, text: tf.Tensor) -> Tensors:
        """Returns the vectors of texts to be found."""
        return self._named(*self.document_vectors(text))

    def more_answers(self) -> dict[str, Callable[..., Tensors]]:
        """Returns the vectors of texts to search with, and scores of both."""
        return {
            SERVE_QUERY: lambda text: self._named(*self.query_vectors(text)),
            SERVE_DOCUMENT: self.answer,
            SERVE_SCORES: self._answer_scores,
        }

    def more_inputs(self) -> dict[str, dict[str, tf.TensorSpec]]:
        """Returns the query that stands beside each text for its score."""
        return {SERVE_SCORES: self.string_inputs() | {QUERY: string_vector(QUERY)}}

    def document_vectors(self, text: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Returns vectors [N, tokens, D] and ids [N, tokens] of texts to be found."""
        rows = self._document_rows(with_prompt(self.modules.prompts.document, text))
        vectors, ids = self._of_real_tokens(rows)
        if not self._skipped_ids:
            return vectors, ids
        skipped = tf.reduce_any(tf.equal(ids.values[:, None], self._skipped_ids), axis=-1)
        kept = ids.with_values(~skipped)  # [N, tokens]
        return tf.ragged.boolean_mask(vectors, kept), tf.ragged.boolean_mask(ids, kept)

    def query_vectors(self, text: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Returns vectors [N, tokens, D] and ids [N, tokens] of texts to search with."""
        rows = self._query_rows(with_prompt(self.modules.prompts.query, text))
        if self.modules.expansion is None:
            return self._of_real_tokens(rows)
        # All positions have a vector, also those that the mask hides from the others.
        states = self.model.encoder(rows, training=False)["sequence_output"]  # [N, Q, H]
        ids = rows[INPUT_IDS]
        vectors = self._unit(self._project(states), tf.ones_like(ids))  # [N, Q, D]
        return tuple(
            tf.RaggedTensor.from_tensor(values, row_splits_dtype=tf.int64)
            for values in (vectors, ids)
        )

    def _of_real_tokens(self, rows: Tensors) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        states = self.encoder.sequence_output(rows)  # [N, tokens, H], without padding
        flat = self._project(states.values[None])  # [1, T, D]
        flat = self._unit(flat, tf.ones(tf.shape(flat)[:2], tf.int32))[0]  # [T, D]
        ids = tf.boolean_mask(rows[INPUT_IDS], rows[INPUT_MASK] > 0)  # [T]
        return states.with_values(flat), states.with_values(ids)

    def _named(self, vectors: tf.RaggedTensor, ids: tf.RaggedTensor) -> Tensors:
        names = tf.gather(tf.constant(self.tokenizer.vocabulary.tokens), ids.values)
        shape = [None, None, self.model.projection_dim]
        return {
            "tokens": ids.with_values(names).to_tensor(""),
            _TOKEN_VECTORS: vectors.to_tensor(shape=shape),
        }

    def _answer_scores(self, text: tf.Tensor, query: tf.Tensor) -> Tensors:
        asked, _ = self.query_vectors(query)
        held, _ = self.document_vectors(text)
        products = tf.matmul(asked.to_tensor(), held.to_tensor(), transpose_b=True)  # [N, Q, S]
        there = tf.sequence_mask(held.row_lengths())[:, None]  # [N, 1, S]
        # A column more: a text without a vector has the least score, whatever stands beside it.
        products = tf.pad(
            tf.where(there, products, _LEAST), [[0, 0], [0, 0], [0, 1]], constant_values=_LEAST
        )
        largest = tf.reduce_max(products, axis=-1)  # [N, Q]
        asks = tf.sequence_mask(asked.row_lengths())  # [N, Q]
        return {"score": tf.reduce_sum(tf.where(asks, largest, 0.0), axis=-1)}


def multi_vector_signatures(
    description: TaskDescription,
    model: Any,
    tokenizer: Tokenizer,
    max_seq_length: int,
    options: ExportOptions,
) -> MultiVectorSignatures:
    """Returns the signatures of a `BertMultiVectorEmbedder`.

    A folder with `modules.json`, as every run has one, is served by what that says.

    Args:
        description: the task, whose head knows lengths, prompts and markers.
        model: the model.
        tokenizer: its tokenizer.
        max_seq_length: the most positions of a row.
        options: settings of the export.
    """
    head = cast(MultiVectorHead, description.head)
    kernel = keras.ops.convert_to_numpy(model.get_layer("projection").kernel)
    modules = head.modules(MultiVectorModules(kernel), max_seq_length)
    # "[MASK]" in a text is that token, as in training.
    tokenizer = tokenizer.with_settings(keep_special_tokens=True)
    return MultiVectorSignatures(model, tokenizer, max_seq_length, options, modules)
