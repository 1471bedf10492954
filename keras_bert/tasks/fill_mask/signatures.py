"""Signatures of a masked language model.

Shapes: N texts, M masks of the text that has most, P masks of all texts, K guesses, V pieces.
"""

from typing import Any

import tensorflow as tf

from keras_bert.features import INPUT_IDS, MASKED_LM_POSITIONS
from keras_bert.models.masked_lm import BIAS, word_scores
from keras_bert.signatures.base import SignatureFamily, Tensors, string_vector
from keras_bert.signatures.vocabulary_rows import silence_rows
from keras_bert.text.preprocessor import TEXT

# Masks whose probabilities of all V pieces are in memory at a time: a text may be nothing but
# masks.
_MASKS_AT_A_TIME = 16
# For each mask, unless another number is asked for.
_GUESSES = 5


class MaskedLMSignatures(SignatureFamily):
    """`text` with [MASK] in it, string [N] -> the likeliest pieces for each mask.

    `tokens`, string [N, M, K], and `probabilities`, float32 [N, M, K], the likeliest first. Texts
    with fewer masks have empty strings and zeros at the end. Masks behind the longest row that the
    model takes are cut off with the rest of the text.
    """

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.sample = {TEXT: f"One {self.tokenizer.vocabulary.special_tokens.mask}."}
        silence_rows(self.model, self.tokenizer.vocabulary)
        self._bias = self.model.get_layer(BIAS)
        self._top_k = min(self.options.top_k or _GUESSES, len(self.tokenizer.vocabulary))

    def string_inputs(self) -> dict[str, tf.TensorSpec]:
        """Returns the one text."""
        return {TEXT: string_vector(TEXT)}

    def answer(self, text: tf.Tensor) -> Tensors:
        """Returns the guesses."""
        inputs = self.preprocess(text)
        states = self.encoder.sequence_output(inputs)
        is_mask = tf.equal(inputs[INPUT_IDS], self.tokenizer.vocabulary.mask_id)
        counts = tf.reduce_sum(tf.cast(is_mask, tf.int64), axis=-1)
        rows, columns = tf.unstack(tf.where(is_mask), axis=1)  # [P] each
        positions = tf.gather(states.row_splits, rows) + columns
        probabilities, ids = self._guesses(states.values, tf.cast(positions, tf.int32))
        tokens = tf.gather(tf.constant(self.tokenizer.vocabulary.tokens), ids)
        return {
            "tokens": _by_text(tokens, counts, ""),
            "probabilities": _by_text(probabilities, counts, 0.0),
        }

    def id_inputs(self) -> dict[str, tf.TensorSpec]:
        """Returns the encoder's inputs and the positions to guess."""
        positions = tf.TensorSpec([None, None], tf.int32, name=MASKED_LM_POSITIONS)
        return {**super().id_inputs(), MASKED_LM_POSITIONS: positions}

    def _guesses(self, states: tf.Tensor, positions: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns probabilities and ids, [P, K] each, at positions [P] of states [T, H]."""
        count = tf.size(positions)
        chunks = tf.reshape(
            tf.pad(positions, [[0, -count % _MASKS_AT_A_TIME]]), [-1, _MASKS_AT_A_TIME]
        )

        def guess(chunk: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            # [masks at a time, V]
            logits = self._bias(word_scores(self.model, states[None], chunk[None]))[0]
            best = tf.math.top_k(tf.nn.softmax(logits), self._top_k)
            return best.values, best.indices

        found = tf.map_fn(
            guess,
            chunks,
            parallel_iterations=1,
            fn_output_signature=(
                tf.TensorSpec([_MASKS_AT_A_TIME, self._top_k], tf.float32),
                tf.TensorSpec([_MASKS_AT_A_TIME, self._top_k], tf.int32),
            ),
        )
        values, ids = (tf.reshape(part, [-1, self._top_k])[:count] for part in found)
        return values, ids


def _by_text(values: tf.Tensor, counts: tf.Tensor, padding: Any) -> tf.Tensor:
    rows = tf.RaggedTensor.from_row_lengths(values, counts, validate=False)
    return rows.to_tensor(padding)
