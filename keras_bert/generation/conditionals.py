"""What a masked language model expects at some positions: the distributions that are sampled from.

Shapes: C chains, S positions, P positions that are asked for, V pieces of the vocabulary.
"""

import numpy as np
import tensorflow as tf

from keras_bert.features import INPUT_IDS, INPUT_MASK, MASKED_LM_POSITIONS, SEGMENT_IDS
from keras_bert.models.masked_lm import BertMaskedLM, check_fills_gaps
from keras_bert.text.vocabulary import UNUSED_SLOT, Vocabulary


class Conditionals:
    """The conditional distributions of a masked language model, in float32 whatever its dtype.

    Args:
        model: the masked language model.
        vocabulary: its pieces.

    Attributes:
        mask_id: id of [MASK].
        may_be_drawn: bool [V]: all pieces but [PAD], [UNK], [CLS], [SEP], [MASK] and [unusedN].

    Raises:
        ValueError: it is another model, or one that reads from left to right; its vocabulary is
            another's, or has nothing to draw.
    """

    def __init__(self, model: BertMaskedLM, vocabulary: Vocabulary):
        check_fills_gaps(model)
        self.mask_id = vocabulary.mask_id
        self.may_be_drawn = np.array(
            [
                token not in vocabulary.special_tokens and not UNUSED_SLOT.fullmatch(token)
                for token in vocabulary.tokens
            ]
        )
        if not self.may_be_drawn.any():
            raise ValueError(
                f"the vocabulary has {len(vocabulary)} entries and no word among them: give the "
                "vocabulary that the model was trained with"
            )
        self._model = model
        self._size = len(vocabulary)

    def logits(self, ids: tf.Tensor, input_mask: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
        """Returns what the model says, float32 [C, P, V].

        Args:
            ids: int32 [C, S], rows [CLS] ... [SEP] [PAD].
            input_mask: int32 [C, S], 1 at all but [PAD].
            positions: int32 [C, P].
        """
        inputs = {
            INPUT_IDS: ids,
            INPUT_MASK: input_mask,
            SEGMENT_IDS: tf.zeros_like(ids),
            MASKED_LM_POSITIONS: positions,
        }
        # Rows without a piece, of embeddings padded to a multiple of 8, are left out.
        return tf.cast(self._model(inputs, training=False), tf.float32)[..., : self._size]

    def log_probabilities(
        self, logits: tf.Tensor, temperature: tf.Tensor, top_k: int = 0
    ) -> tf.Tensor:
        """Returns the distributions to draw from, float32 [..., V], -inf for what is never drawn.

        Args:
            logits: float32 [..., V].
            temperature: float32 scalar.
            top_k: draw from so many of the likeliest alone (and those as likely as the last of
                them); 0 from all.
        """
        logits = tf.where(self.may_be_drawn, logits / temperature, -np.inf)
        if top_k:
            best = tf.math.top_k(logits, min(top_k, self._size)).values  # [..., K]
            logits = tf.where(logits >= best[..., -1:], logits, -np.inf)
        return tf.nn.log_softmax(logits)
