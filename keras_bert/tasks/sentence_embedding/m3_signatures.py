"""Signatures of vectors of three kinds at once: dense, words with weights, one for each token.

    last layer [N, tokens, H] --+-- first token, of length 1 -------------> sentence_embedding
                                +-- ReLU(linear), largest of each piece --> lexical_weights
                                +-- linear, of length 1, without <s> -----> token_vectors

After M3-Embedding (Chen et al. 2024, arXiv:2402.03216), as FlagEmbedding computes it.

Shapes: N texts, T tokens of all of them, H width of the encoder, W of a dense vector, V pieces of
the vocabulary, K weights of the text that has most, S tokens of the longest text but the first, D
width of a token's vector.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from keras_bert.checkpoints.m3.folder import M3Layers
from keras_bert.checkpoints.sentence_modules import SentenceModules
from keras_bert.features import INPUT_IDS, INPUT_MASK
from keras_bert.signatures.base import Tensors
from keras_bert.signatures.options import ExportOptions
from keras_bert.tasks.feature_extraction.sentence_vectors import SentenceVectors, of_length_1
from keras_bert.tasks.feature_extraction.signatures import (
    SENTENCE_EMBEDDING,
    EncoderSignatures,
    with_prompt,
)
from keras_bert.text.base_tokenizer import Tokenizer

SERVE_M3 = "serve_m3"


class M3Answer(NamedTuple):
    """What one pass of the encoder says of N texts.

    Attributes:
        dense: float32 [N, W].
        lexical_ids: int32 [N, weights], pieces, the one with the largest weight first.
        lexical_weights: float32 [N, weights], above 0.
        token_ids: int32 [N, tokens - 1].
        token_vectors: float32 [N, tokens - 1, D], of length 1.
    """

    dense: tf.Tensor
    lexical_ids: tf.RaggedTensor
    lexical_weights: tf.RaggedTensor
    token_ids: tf.RaggedTensor
    token_vectors: tf.RaggedTensor


class M3Heads(SentenceVectors):
    """Turns the last layer into the dense vector, and into the two others.

    Args:
        modules: pooling and the steps behind it, of the dense vector.
        hidden_size: width of the encoder, H.
        layers: what makes the two others.
        vocab_size: rows of the embedding, V.
        left_out: ids of pieces that have no weight.

    Attributes:
        token_width: numbers of a token's vector, D.
    """

    def __init__(
        self,
        modules: SentenceModules,
        hidden_size: int,
        layers: M3Layers,
        vocab_size: int,
        left_out: list[int],
    ):
        super().__init__(modules, hidden_size)
        self.token_width: int = len(layers.token_bias)
        self._lexical = tf.Variable(layers.lexical_kernel), tf.Variable(layers.lexical_bias)
        self._token = tf.Variable(layers.token_kernel), tf.Variable(layers.token_bias)
        self._vocab_size = vocab_size
        self._left_out = left_out

    def lexical(
        self, states: tf.RaggedTensor, ids: tf.RaggedTensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Returns ids and weights, [N, weights] each, of states [N, tokens, H] and ids [N, tokens].

        A piece that stands there several times has its largest weight.
        """
        kernel, bias = self._lexical
        weights = (tf.matmul(states.values, kernel) + bias)[:, 0]  # [T]
        is_left_out = tf.reduce_any(tf.equal(ids.values[:, None], self._left_out), axis=-1)
        has_weight = (weights > 0) & ~is_left_out
        # One number for each piece of each text, so that no vector of V numbers is made.
        pieces = states.value_rowids() * self._vocab_size + tf.cast(ids.values, tf.int64)
        pieces, places = tf.unique(tf.boolean_mask(pieces, has_weight))
        weights = tf.math.unsorted_segment_max(
            tf.boolean_mask(weights, has_weight), places, tf.size(pieces)
        )
        # By text, within it by weight: the second sort leaves the order of the first.
        order = tf.argsort(weights, direction="DESCENDING", stable=True)
        texts = tf.gather(pieces, order) // self._vocab_size
        order = tf.gather(order, tf.argsort(texts, stable=True))
        pieces, weights = tf.gather(pieces, order), tf.gather(weights, order)
        found = tf.RaggedTensor.from_value_rowids(
            weights, pieces // self._vocab_size, nrows=states.nrows(), validate=False
        )
        return found.with_values(tf.cast(pieces % self._vocab_size, tf.int32)), found

    def tokens(self, states: tf.RaggedTensor) -> tf.RaggedTensor:
        """Returns the vectors of all tokens but the first, [N, tokens - 1, D]."""
        kernel, bias = self._token
        states = states[:, 1:]
        return states.with_values(of_length_1(tf.matmul(states.values, kernel) + bias))


class M3Signatures(EncoderSignatures):
    """Those of an encoder with a sentence embedding, and `serve_m3`, string [N] -> all three.

    `sentence_embedding`, float32 [N, W]. `lexical_tokens`, string [N, K], `lexical_ids`, int32
    [N, K], and `lexical_weights`, float32 [N, K]: pieces with their weights, the largest first,
    empty and zeros behind the last; special tokens have none. `tokens`, string [N, S], and
    `token_vectors`, float32 [N, S, D], of length 1: of all tokens but the first, zeros behind the
    last. A text longer than a row is cut.

    Args:
        model: the encoder.
        tokenizer: its tokenizer.
        max_seq_length: the most positions of a row.
        options: settings of the export.
        sentences: how the dense vector is made.
        layers: what makes the two others.
    """

    tracked: M3Heads

    def __init__(
        self,
        model: Any,
        tokenizer: Tokenizer,
        max_seq_length: int,
        options: ExportOptions,
        sentences: SentenceModules,
        layers: M3Layers,
    ):
        super().__init__(model, tokenizer, max_seq_length, options, sentences)
        vocabulary = tokenizer.vocabulary
        special = {vocabulary.cls_id, vocabulary.sep_id, vocabulary.pad_id, vocabulary.unk_id}
        config = model.config
        self.tracked = M3Heads(
            sentences, config.hidden_size, layers, config.vocab_size, sorted(special)
        )

    def more_answers(self) -> dict[str, Callable[..., Tensors]]:
        """Returns those of an encoder, and all three kinds of vectors."""
        if self._windows is not None:  # where nothing says what the two others would be
            return super().more_answers()
        return super().more_answers() | {SERVE_M3: self._answer_m3}

    def all_vectors(self, text: tf.Tensor) -> M3Answer:
        """Returns vectors of all kinds, of texts [N]."""
        rows = self.preprocess(with_prompt(self._prompts.prompt, text))  # [N, S + 1] each
        states = self.encoder.sequence_output(rows)  # [N, tokens, H], without padding
        pooled_output = tf.cast(self.encoder.pooled_from(states), tf.float32)
        states = tf.cast(states, tf.float32)
        ids = states.with_values(tf.boolean_mask(rows[INPUT_IDS], rows[INPUT_MASK] > 0))
        return M3Answer(
            self.tracked(states, pooled_output),
            *self.tracked.lexical(states, ids),
            ids[:, 1:],
            self.tracked.tokens(states),
        )

    def _answer_m3(self, text: tf.Tensor) -> Tensors:
        found = self.all_vectors(text)
        names = tf.constant(self.tokenizer.vocabulary.tokens)

        def named(ids: tf.RaggedTensor) -> tf.Tensor:
            return ids.with_values(tf.gather(names, ids.values)).to_tensor("")

        return {
            SENTENCE_EMBEDDING: found.dense,
            "lexical_tokens": named(found.lexical_ids),
            "lexical_ids": found.lexical_ids.to_tensor(),
            "lexical_weights": found.lexical_weights.to_tensor(),
            "tokens": named(found.token_ids),
            "token_vectors": found.token_vectors.to_tensor(
                shape=[None, None, self.tracked.token_width]
            ),
        }
