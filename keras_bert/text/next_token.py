"""Left-to-right language model: the pieces to predict are the next ones.

    input_ids              [CLS]  my  dog  barks [SEP] [PAD]
    masked_lm_positions      0     1    2    3     4
    masked_lm_ids           my   dog barks [SEP] [PAD]
    masked_lm_weights        1     1    1    0     0

Shapes: B batch, S sequence length.
"""

import tensorflow as tf

from keras_bert.features import (
    INPUT_IDS,
    MASKED_LM_IDS,
    MASKED_LM_POSITIONS,
    MASKED_LM_WEIGHTS,
)
from keras_bert.text.vocabulary import Vocabulary


class NextTokenTargets(tf.Module):
    """Gives every position the piece after it to predict: the paper's baseline (section 5.1).

    Called like `MaskedLanguageModelMasking`, but nothing is hidden: the model must not see what
    comes after a position. Special tokens are never predicted, as in the masked objective.

    Args:
        vocabulary: the word pieces and their ids.
        max_seq_length: S of the longest rows; S - 1 positions of one have a piece after them. A
            call goes by the S of its own rows.
    """

    def __init__(self, vocabulary: Vocabulary, max_seq_length: int):
        super().__init__(name="next_token")
        self.vocabulary = vocabulary
        self.max_predictions_per_seq = max_seq_length - 1
        with tf.init_scope():
            self._special_ids = tf.constant(sorted(vocabulary.special_ids), tf.int32)

    def __call__(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        seeds: tf.Tensor,
        word_continuations: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Returns what to predict.

        Args:
            input_ids: int32 [B, S].
            input_mask: int32 [B, S], 1 for real pieces.
            seeds: not used; there is nothing to draw.
            word_continuations: not used; every piece is predicted.

        Returns:
            `input_ids` as they are, and `masked_lm_positions`, `masked_lm_ids` (int32) and
            `masked_lm_weights` (float32), [B, S - 1] each.
        """
        targets = input_ids[:, 1:]  # [B, S - 1]
        # [B, S - 1, specials] -> [B, S - 1]
        is_special = tf.reduce_any(tf.equal(targets[..., None], self._special_ids), axis=-1)
        counts = tf.not_equal(input_mask[:, 1:], 0) & ~is_special  # [B, S - 1]
        # 0 1 2 ... in each row: [1, S - 1] x [B, S - 1]
        positions = tf.range(tf.shape(targets)[1])[None] * tf.ones_like(targets)
        return {
            INPUT_IDS: input_ids,
            MASKED_LM_POSITIONS: positions,
            MASKED_LM_IDS: targets,
            MASKED_LM_WEIGHTS: tf.cast(counts, tf.float32),
        }
