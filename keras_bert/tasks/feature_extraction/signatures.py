"""Signatures of an encoder: texts as vectors.

Shapes: N texts, S positions of the longest of them, H width; W windows of all texts where they are
read in windows.
"""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from keras_bert.checkpoints.sentence_modules import SentenceModules
from keras_bert.features import INPUT_IDS, INPUT_MASK
from keras_bert.signatures.base import (
    SignatureFamily,
    Tensors,
    string_vector,
    with_a_column,
)
from keras_bert.signatures.options import ExportOptions
from keras_bert.signatures.text_windows import TextWindows
from keras_bert.tasks.feature_extraction.sentence_vectors import SentenceVectors, TokenStates
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.packing import pad_rows
from keras_bert.text.preprocessor import TEXT

SERVE_TOKENS = "serve_tokens"
SERVE_QUERY, SERVE_DOCUMENT = "serve_query", "serve_document"
SENTENCE_EMBEDDING = "sentence_embedding"


class EncoderSignatures(SignatureFamily):
    """`text`, string [N] -> `pooled_output` and `mean_pooled`, float32 [N, H].

    `mean_pooled` is the mean of the last layer over the tokens of the text, [CLS] and [SEP]
    included. Where it is known how sentences become vectors, `sentence_embedding`, float32 [N, D],
    is that vector. `serve_tokens` returns besides `tokens`, string [N, S], and `token_vectors`,
    float32 [N, S, H]; behind the end of a text they are empty and zero.

    Where texts to search with, or texts to be found, have a prompt of their own, `serve_query` and
    `serve_document` return what `serving_default` does, with the one and the other before the text.

    With `max_windows` a text longer than a row is read in windows: `mean_pooled` is the mean over
    the tokens of all of them, `pooled_output` the mean over those of the windows, and there is no
    `serve_tokens`; see `keras_bert.tasks.feature_extraction.sentence_vectors`.

    Raises:
        ValueError: the stride is larger than a window.
    """

    sample: Mapping[str, Any] = {TEXT: "One text."}

    def __init__(
        self,
        model: Any,
        tokenizer: Tokenizer,
        max_seq_length: int,
        options: ExportOptions,
        sentences: SentenceModules | None = None,
    ):
        super().__init__(model, tokenizer, max_seq_length, options)
        # The same as every other encoder has, where nothing is known.
        self._prompts = sentences or SentenceModules(pooling=())
        self._windows = None
        if options.max_windows is not None:
            self._windows = TextWindows(max_seq_length, options.doc_stride, options.max_windows)
        self.tracked = None
        if sentences is not None:
            self.tracked = SentenceVectors(sentences, model.config.hidden_size)

    def string_inputs(self) -> dict[str, tf.TensorSpec]:
        """Returns the one text."""
        return {TEXT: string_vector(TEXT)}

    def answer(self, text: tf.Tensor) -> Tensors:
        """Returns the vectors of texts."""
        return self.vectors(with_prompt(self._prompts.prompt, text))

    def vectors(self, text: tf.Tensor) -> Tensors:
        """Returns the vectors of texts as they stand, whatever prompt the folder has."""
        if self._windows is None:
            return self.vectors_of_rows(self.preprocess(text))
        vocabulary = self.tokenizer.vocabulary
        pieces = self.tokenizer(text)
        ids, segments = self._windows.rows(pieces, vocabulary)  # [N, windows, pieces]
        inputs = with_a_column(pad_rows(ids.values, segments.values, vocabulary))  # [W, S] each
        return self._vectors(self.encoder.sequence_output(inputs), ids.row_lengths())

    def vectors_of_rows(self, inputs: Tensors) -> Tensors:
        """Returns the vectors of texts as rows, int32 [N, S] each of ids, mask and segments."""
        return self._vectors(self.encoder.sequence_output(inputs))

    def more_answers(self) -> dict[str, Callable[..., Tensors]]:
        """Returns that with a vector for each token, where a text is one row, and of prompts."""
        answers: dict[str, Callable[..., Tensors]] = {}
        if self._windows is None:
            answers[SERVE_TOKENS] = self._answer_tokens
        prompts = self._prompts
        # Where their tokens are left out of the pooling, prompts cannot be reproduced.
        if prompts.include_prompt and prompts.tells_texts_apart:
            answers[SERVE_QUERY] = self._answer_query
            answers[SERVE_DOCUMENT] = self._answer_document
        return answers

    def ids(self, **inputs: tf.Tensor) -> Tensors:
        """Returns both outputs of the encoder."""
        outputs = self.model(with_a_column(inputs), training=False)
        return {
            name: tf.cast(outputs[name], tf.float32)
            for name in ("pooled_output", "sequence_output")
        }

    def _answer_tokens(self, text: tf.Tensor) -> Tensors:
        inputs = self.preprocess(with_prompt(self._prompts.prompt, text))  # [N, S] each
        states = self.encoder.sequence_output(inputs)  # [N, tokens, H], without padding
        names = tf.gather(tf.constant(self.tokenizer.vocabulary.tokens), inputs[INPUT_IDS])
        vectors = tf.cast(states, tf.float32).to_tensor()  # [N, S, H]
        return self._vectors(states) | {
            "tokens": tf.where(tf.cast(inputs[INPUT_MASK], tf.bool), names, ""),
            "token_vectors": vectors,
        }

    def _answer_query(self, text: tf.Tensor) -> Tensors:
        return self.vectors(with_prompt(self._prompts.query_prompt, text))

    def _answer_document(self, text: tf.Tensor) -> Tensors:
        return self.vectors(with_prompt(self._prompts.document_prompt, text))

    def _vectors(self, windows: tf.RaggedTensor, counts: tf.Tensor | None = None) -> Tensors:
        """Returns the vectors of texts, of their windows [W, tokens, H]."""
        pooled_output = tf.cast(self.encoder.pooled_from(windows), tf.float32)  # [W, H]
        windows = tf.cast(windows, tf.float32)
        states = TokenStates.of(windows, pooled_output, counts)
        vectors = {
            "pooled_output": states.mean_over_windows(pooled_output),  # [N, H]
            "mean_pooled": tf.reduce_mean(states.tokens, axis=1),  # over the tokens: [N, H]
        }
        if self.tracked is not None:
            vectors[SENTENCE_EMBEDDING] = self.tracked(windows, pooled_output, counts)
        return vectors


def with_prompt(prompt: str, text: tf.Tensor) -> tf.Tensor:
    """Returns texts [N] with a prompt before each."""
    return tf.strings.join([prompt, text]) if prompt else text
