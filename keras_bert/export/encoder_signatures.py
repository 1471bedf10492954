"""Signatures of an encoder: texts as vectors.

Shapes: N texts, S positions of the longest of them, H width.
"""

from collections.abc import Callable
from typing import ClassVar

import tensorflow as tf

from keras_bert.export.signature_family import (
    SignatureFamily,
    Tensors,
    string_vector,
    with_a_column,
)
from keras_bert.features import INPUT_IDS, INPUT_MASK
from keras_bert.text.preprocessor import TEXT

SERVE_TOKENS = "serve_tokens"


class EncoderSignatures(SignatureFamily):
    """`text`, string [N] -> `pooled_output` and `mean_pooled`, float32 [N, H].

    `mean_pooled` is the mean of the last layer over the tokens of the text, [CLS] and [SEP]
    included. `serve_tokens` returns besides `tokens`, string [N, S], and `token_vectors`, float32
    [N, S, H]; behind the end of a text they are empty and zero.
    """

    sample: ClassVar = {TEXT: "One text."}

    def string_inputs(self) -> dict[str, tf.TensorSpec]:
        """Returns the one text."""
        return {TEXT: string_vector(TEXT)}

    def answer(self, text: tf.Tensor) -> Tensors:
        """Returns the vectors of texts."""
        return self._vectors(self.encoder.sequence_output(self.preprocess(text)))

    def more_answers(self) -> dict[str, Callable[..., Tensors]]:
        """Returns the signature with a vector for each token."""
        return {SERVE_TOKENS: self._answer_tokens}

    def ids(self, **inputs: tf.Tensor) -> Tensors:
        """Returns both outputs of the encoder."""
        outputs = self.model(with_a_column(inputs), training=False)
        return {
            name: tf.cast(outputs[name], tf.float32)
            for name in ("pooled_output", "sequence_output")
        }

    def _answer_tokens(self, text: tf.Tensor) -> Tensors:
        inputs = self.preprocess(text)
        states = self.encoder.sequence_output(inputs)
        names = tf.gather(tf.constant(self.tokenizer.vocabulary.tokens), inputs[INPUT_IDS])
        vectors = tf.cast(states, tf.float32).to_tensor()
        return self._vectors(states) | {
            "tokens": tf.where(tf.cast(inputs[INPUT_MASK], tf.bool), names, ""),
            "token_vectors": vectors,
        }

    def _vectors(self, states: tf.RaggedTensor) -> Tensors:
        return {
            "pooled_output": tf.cast(self.encoder.pooled_from(states), tf.float32),
            "mean_pooled": tf.reduce_mean(tf.cast(states, tf.float32), axis=1),
        }
