"""Rows with masks in them, many at a time: how likely is what the masks hide?

Shapes: B rows, S positions, P masks of a row that are looked at, K guesses, V pieces.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.counts import needed_count
from keras_bert.features import INPUT_IDS, INPUT_MASK, MASKED_LM_POSITIONS, SEGMENT_IDS
from keras_bert.models.finite_outputs import check_finite
from keras_bert.models.masked_lm import BertMaskedLM, check_fills_gaps
from keras_bert.text.base_tokenizer import Tokenizer

# Few distinct lengths: compiled for a device, each is a program of its own.
_LENGTH_MULTIPLE = 8
_SPECIAL_TOKENS = 2


class MaskedRow(NamedTuple):
    """Pieces of a text, some of which are masked.

    Attributes:
        ids: int32 [pieces], what stands there; without [CLS] and [SEP].
        masked: indices of the pieces that are hidden.
        asked: indices of the pieces that the model is asked for, among those.
    """

    ids: np.ndarray
    masked: Sequence[int]
    asked: Sequence[int]


class Answer(NamedTuple):
    """What the model says of the P pieces that a row asks for.

    Attributes:
        log_probabilities: float32 [P], of the pieces that stand there; natural logarithms.
        ranks: int32 [P], how many pieces are as likely or likelier: 1 for the likeliest.
        guesses: int32 [P, K], the likeliest pieces first.
        guess_probabilities: float32 [P, K].
    """

    log_probabilities: np.ndarray
    ranks: np.ndarray
    guesses: np.ndarray
    guess_probabilities: np.ndarray


class MaskedRows:
    """Asks a masked language model for what is hidden in rows of pieces.

    Args:
        model: the masked language model.
        tokenizer: that of the model.
        batch_size: rows per call of the model.
        top: how many guesses for each mask, K.

    Attributes:
        room: the most pieces of a row.

    Raises:
        ValueError: it is another model, or one that reads from left to right; its vocabulary is
            another's; or a number is too small.
    """

    def __init__(
        self, model: BertMaskedLM, tokenizer: Tokenizer, batch_size: int = 32, top: int = 0
    ):
        check_fills_gaps(model)
        needed_count("batch_size", batch_size)
        needed_count("top", top, least=0)
        tokenizer.vocabulary.check_size(model.config.vocab_size)
        self.room = model.config.max_position_embeddings - _SPECIAL_TOKENS
        self._model = model
        self._vocabulary = tokenizer.vocabulary
        self._batch_size = batch_size
        self._top = min(top, len(tokenizer.vocabulary))
        matrix = tf.TensorSpec([None, None], tf.int32)
        self._predict = tf.function(self._answers, input_signature=[matrix] * 4, autograph=False)

    def __call__(self, rows: Sequence[MaskedRow]) -> list[Answer]:
        """Returns the answer to each row, in order.

        Raises:
            ValueError: a probability is not finite.
        """
        answers: list[Answer | None] = [None] * len(rows)
        # Rows of about the same length stand together, so that little is computed for padding.
        order = sorted(range(len(rows)), key=lambda index: len(rows[index].ids))
        for start in range(0, len(order), self._batch_size):
            batch = order[start : start + self._batch_size]
            outputs = self._predict(*self._arrays([rows[index] for index in batch]))
            parts = [part.numpy() for part in outputs]  # [B, P] twice, [B, P, K] twice
            for at, index in enumerate(batch):
                count = len(rows[index].asked)
                answers[index] = answer = Answer(*(part[at, :count] for part in parts))
                check_finite(answer.log_probabilities)  # NaN where any logit is
        return [answer for answer in answers if answer is not None]

    def _arrays(self, rows: Sequence[MaskedRow]) -> tuple[tf.Tensor, ...]:
        """Returns ids, mask [B, S], positions and targets [B, P], int32, in few distinct shapes."""
        longest = max(len(row.ids) for row in rows) + _SPECIAL_TOKENS
        length = min(-(-longest // _LENGTH_MULTIPLE) * _LENGTH_MULTIPLE, self.room + 2)
        # A last batch of 5 has 8 rows, of which 3 are padding.
        count = min(1 << (len(rows) - 1).bit_length(), self._batch_size)
        asked = max(len(row.asked) for row in rows)
        ids = np.full([count, length], self._vocabulary.pad_id, np.int32)
        mask = np.zeros_like(ids)
        # Position 0 fills up rows that ask for less; its answers are thrown away.
        positions, targets = np.zeros([2, count, asked], np.int32)
        for at, row in enumerate(rows):
            whole = [self._vocabulary.cls_id, *row.ids, *self._vocabulary.end_ids]
            ids[at, : len(whole)], mask[at, : len(whole)] = whole, 1
            ids[at, np.asarray(row.masked, np.int32) + 1] = self._vocabulary.mask_id
            positions[at, : len(row.asked)] = np.asarray(row.asked, np.int32) + 1
            targets[at, : len(row.asked)] = row.ids[list(row.asked)]
        return tuple(map(tf.constant, (ids, mask, positions, targets)))

    def _answers(
        self, ids: tf.Tensor, mask: tf.Tensor, positions: tf.Tensor, targets: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        inputs = {
            INPUT_IDS: ids,
            INPUT_MASK: mask,
            SEGMENT_IDS: tf.zeros_like(ids),
            MASKED_LM_POSITIONS: positions,
        }
        logits = self._model(inputs, training=False)  # [B, P, V]
        # Rows without a piece, of embeddings padded to a multiple of 8, are no guess.
        logs = tf.nn.log_softmax(logits[..., : len(self._vocabulary)])
        found = tf.gather(logs, targets, axis=-1, batch_dims=2)  # [B, P]
        ranks = tf.reduce_sum(tf.cast(logs >= found[..., None], tf.int32), axis=-1)  # [B, P]
        best = tf.math.top_k(logs, self._top)  # [B, P, K] twice
        return found, ranks, best.indices, tf.exp(best.values)
