"""Signatures of sparse vectors: texts as the words that they are about, with weights.

Shapes: N texts, T tokens of a text, H width, V pieces of the vocabulary, K weights of the vector
that has most; W windows of all texts where they are read in windows.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import tensorflow as tf

from keras_bert.checkpoints.sentence_prompts import DOT, Prompts
from keras_bert.checkpoints.sparse_modules import SparseModules
from keras_bert.finetuning.task import TaskDescription
from keras_bert.models.masked_lm import BIAS, word_scores
from keras_bert.signatures.base import Tensors, with_a_column
from keras_bert.signatures.options import ExportOptions
from keras_bert.signatures.text_windows import TextWindows
from keras_bert.signatures.vocabulary_rows import silence_rows
from keras_bert.tasks.feature_extraction.signatures import SERVE_DOCUMENT, SERVE_QUERY, with_prompt
from keras_bert.tasks.sentence_embedding.embedder_signatures import EmbedderSignatures
from keras_bert.tasks.sentence_embedding.sparse_head import SparseEmbeddingHead
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.packing import pad_rows

# Texts whose scores of all pieces at all tokens may be in memory at a time, float32 [T, V] each.
_TEXTS_AT_A_TIME = 2


class SparseSignatures(EmbedderSignatures):
    """`text`, string [N] -> the words of each text with their weights, the largest first.

    `tokens`, string [N, K], the pieces; `token_ids`, int32 [N, K]; `weights`, float32 [N, K]. Texts
    with fewer weights than K have empty strings and zeros at the end. With `max_active_dims` only
    so many of the largest are kept. The score of two texts is the sum over the pieces that both
    have of the products of their weights.

    Where texts to search with, or texts to be found, have a prompt of their own, `serve_query` and
    `serve_document` return what `serving_default` does, with the one and the other before the text;
    so they do where words of queries have fixed weights, and no model reads these.
    With `max_windows` a text longer than a row is read in windows, and the largest score at any
    token of all of them counts.

    Raises:
        ValueError: the stride is larger than a window, or there are more fixed weights than pieces.
    """

    ids_output = "weights"

    def __init__(
        self,
        model: Any,
        tokenizer: Tokenizer,
        max_seq_length: int,
        options: ExportOptions,
        modules: SparseModules,
    ):
        super().__init__(model, tokenizer, max_seq_length, options)
        silence_rows(model, tokenizer.vocabulary)
        if modules.query_weights is not None:
            modules = dataclasses.replace(
                modules, query_weights=_of_all_rows(modules.query_weights, model.config.vocab_size)
            )
        self.modules = modules
        self.max_active_dims = options.max_active_dims or modules.max_active_dims
        self._windows = None
        if options.max_windows is not None:
            self._windows = TextWindows(max_seq_length, options.doc_stride, options.max_windows)
        self._bias = model.get_layer(BIAS)
        self._weights = model.get_layer("sparse_weights")

    def answer(self, text: tf.Tensor) -> Tensors:
        """Returns the words of texts."""
        return self._words(self.modules.prompts.default, text)

    def more_answers(self) -> dict[str, Callable[..., Tensors]]:
        """Returns the same with the prompts of queries and of texts to be found, if there are."""
        prompts = self.modules.prompts
        is_static = self.modules.query_weights is not None
        if not is_static and {prompts.query, prompts.document} == {prompts.default}:
            return {}
        return {
            SERVE_QUERY: lambda text: self._named(self.query_weights(prompts.query, text)),
            SERVE_DOCUMENT: lambda text: self._words(prompts.document, text),
        }

    def query_weights(self, prompt: str, text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns ids and weights, [N, K] each, of texts to search with behind a prompt."""
        text = with_prompt(prompt, text)
        weights = self.modules.query_weights
        if weights is None:
            return self.weights(text)
        pieces = self.tokenizer(text)[:, : self.max_seq_length]  # [N, pieces], no [CLS], no [SEP]
        places = tf.stack([tf.cast(pieces.value_rowids(), tf.int32), pieces.values], axis=-1)
        shape = [tf.shape(text)[0], len(weights)]
        whole = tf.tensor_scatter_nd_max(
            tf.zeros(shape), places, tf.gather(tf.constant(weights), pieces.values)
        )  # [N, V], a piece that stands there twice counts once
        return self._largest_of(whole)

    def weights(self, text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns ids and weights, [N, K] each, of texts as they stand, without a prompt."""
        largest = tf.map_fn(
            self._largest,
            self._states(text),
            parallel_iterations=_TEXTS_AT_A_TIME,
            fn_output_signature=tf.TensorSpec([self.model.config.vocab_size], tf.float32),
        )  # [N, V]
        return self._largest_of(self._weights(self._bias(largest)))

    def _largest_of(self, whole: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns ids and weights, [N, K] each, of whole vectors [N, V]."""
        # What is no number counts, or it would be left out in silence.
        counts = tf.reduce_sum(tf.cast(tf.not_equal(whole, 0), tf.int32), axis=-1)  # [N]
        # The 0 is for requests of no texts, which have no maximum.
        most = tf.reduce_max(tf.concat([counts, [0]], 0))
        if self.max_active_dims is not None:
            most = tf.minimum(most, self.max_active_dims)
        best = tf.math.top_k(whole, most)
        # 0, or NaN where a weight of the row is none.
        nothing = 0 * tf.reduce_sum(whole, axis=-1, keepdims=True)  # [N, 1]
        return best.indices, best.values + nothing

    def _words(self, prompt: str, text: tf.Tensor) -> Tensors:
        return self._named(self.weights(with_prompt(prompt, text)))

    def _named(self, found: tuple[tf.Tensor, tf.Tensor]) -> Tensors:
        ids, weights = found
        names = tf.gather(tf.constant(self.tokenizer.vocabulary.tokens), ids)
        return {
            "tokens": tf.where(weights > 0, names, ""),
            "token_ids": tf.where(weights > 0, ids, 0),
            "weights": weights,
        }

    def _states(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Returns the vectors of the tokens of each text, [N, tokens, H]."""
        if self._windows is None:
            return self.encoder.sequence_output(self.preprocess(text))
        vocabulary = self.tokenizer.vocabulary
        ids, segments = self._windows.rows(self.tokenizer(text), vocabulary)  # [N, windows, pieces]
        inputs = with_a_column(pad_rows(ids.values, segments.values, vocabulary))  # [W, S] each
        states = self.encoder.sequence_output(inputs)  # [W, tokens, H]
        splits = tf.gather(states.row_splits, ids.row_splits)  # [N + 1]
        return tf.RaggedTensor.from_row_splits(states.values, splits, validate=False)

    def _largest(self, states: tf.Tensor) -> tf.Tensor:
        """Returns of a text's states [T, H] the largest score of each piece, float32 [V]."""
        scores = word_scores(self.model, states[None])  # [1, T, V]
        return tf.cast(tf.reduce_max(scores[0], axis=0), tf.float32)


def _of_all_rows(weights: np.ndarray, vocab_size: int) -> np.ndarray:
    """Returns weights of pieces, 0 for rows of the embedding without a piece, float32 [V]."""
    if len(weights) > vocab_size:
        raise ValueError(
            f"there are {len(weights):,} fixed weights for the words of queries, but the model has "
            f"{vocab_size:,} pieces: put those beside it that belong to it"
        )
    return np.pad(weights, [0, vocab_size - len(weights)])


def sparse_signatures(
    description: TaskDescription,
    model: Any,
    tokenizer: Tokenizer,
    max_seq_length: int,
    options: ExportOptions,
) -> SparseSignatures:
    """Returns the signatures of a `BertSparseEmbedder`; a folder says in `modules.json` what it is.

    Args:
        description: the task, whose head knows the prompts.
        model: the model.
        tokenizer: its tokenizer.
        max_seq_length: the most positions of a row.
        options: settings of the export.
    """
    head = cast(SparseEmbeddingHead, description.head)
    query, document = head.query_prompt or "", head.document_prompt or ""
    prompts = Prompts(query if query == document else "", {}, query, document, DOT)
    modules = SparseModules(activation=head.activation or "relu", prompts=prompts)
    # "[MASK]" in a text is that token, as in training.
    tokenizer = tokenizer.with_settings(keep_special_tokens=True)
    return SparseSignatures(model, tokenizer, max_seq_length, options, modules)
