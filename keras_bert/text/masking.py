"""Masked language model targets, drawn in graph whenever an example is read."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.text.vocabulary import Vocabulary

_PIECE_STREAM, _FATE_STREAM, _REPLACEMENT_STREAM = range(3)


class MaskedBatch(NamedTuple):
    """A batch with some pieces hidden.

    Attributes:
        input_ids: int32 [B, S] with the hidden pieces replaced.
        masked_lm_positions: int32 [B, P], ascending; 0 in unused slots.
        masked_lm_ids: int32 [B, P], the original pieces; 0 in unused slots.
        masked_lm_weights: float32 [B, P], 1 for used slots and 0 for unused ones.
    """

    input_ids: tf.Tensor
    masked_lm_positions: tf.Tensor
    masked_lm_ids: tf.Tensor
    masked_lm_weights: tf.Tensor


class MaskedLanguageModelMasking:
    """Chooses pieces and hides them (paper section 3.1, task 1, and A.1).

    Of every sequence `round(pieces * masked_lm_prob)` pieces are chosen, at least one and at most
    `max_predictions_per_seq`, never a special one. Of these 80 % become [MASK], 10 % a random
    piece and 10 % stay. Special tokens are not used as random pieces.

    What is chosen is a function of the record's seed alone: the same masks for the same seed
    whatever the batch, other masks in every epoch.

    Args:
        vocabulary: the pieces.
        max_predictions_per_seq: slots for predictions, P.
        masked_lm_prob: share of the pieces that is chosen, special ones counted.
        mask_share: share of the chosen that becomes [MASK].
        random_share: share of the chosen that becomes a random piece.

    Raises:
        ValueError: a share is not a probability, or there is no slot.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        max_predictions_per_seq: int,
        masked_lm_prob: float = 0.15,
        mask_share: float = 0.8,
        random_share: float = 0.1,
    ):
        if max_predictions_per_seq < 1:
            raise ValueError(
                f"max_predictions_per_seq is {max_predictions_per_seq}: it must be at least 1"
            )
        if not (0 < masked_lm_prob < 1 and min(mask_share, random_share) >= 0):
            raise ValueError(
                f"masked_lm_prob {masked_lm_prob}, mask_share {mask_share} and random_share "
                f"{random_share} must be probabilities"
            )
        if mask_share + random_share > 1:
            raise ValueError(
                f"mask_share {mask_share} and random_share {random_share} add up to more than 1"
            )
        self.max_predictions_per_seq = max_predictions_per_seq
        self._masked_lm_prob = masked_lm_prob
        self._mask_share = mask_share
        self._random_share = random_share
        self._mask_id = vocabulary.mask_id
        is_regular = np.ones(len(vocabulary), bool)
        is_regular[list(vocabulary.special_ids)] = False
        self._is_regular = is_regular
        self._regular_ids = np.flatnonzero(is_regular).astype("int32")

    def __call__(
        self, input_ids: tf.Tensor, input_mask: tf.Tensor, record_seeds: tf.Tensor
    ) -> MaskedBatch:
        """Masks a batch.

        Args:
            input_ids: int32 [B, S].
            input_mask: int32 [B, S], 1 for real pieces.
            record_seeds: uint64 [B], see `record_seeds`.
        """
        positions, is_used = self._choose(input_ids, input_mask, record_seeds)  # [B, P] each
        original_ids = tf.gather(input_ids, positions, batch_dims=1)
        hidden_ids = self._hide(original_ids, positions, record_seeds)
        # Unused slots all write the first piece back over itself.
        positions = tf.where(is_used, positions, 0)
        written = tf.where(is_used, hidden_ids, input_ids[:, :1])
        rows = tf.broadcast_to(tf.range(tf.shape(input_ids)[0])[:, None], tf.shape(positions))
        masked_ids = tf.tensor_scatter_nd_update(
            input_ids, tf.stack([rows, positions], axis=-1), written
        )
        weights = tf.cast(is_used, tf.float32)
        return MaskedBatch(masked_ids, positions, tf.where(is_used, original_ids, 0), weights)

    def _choose(
        self, input_ids: tf.Tensor, input_mask: tf.Tensor, record_seeds: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns positions [B, P], used ones first and ascending, and which are used."""
        length = tf.shape(input_ids)[1]
        is_real = input_mask > 0
        is_candidate = is_real & tf.gather(tf.constant(self._is_regular), input_ids)
        order = _uniform(record_seeds, tf.range(length)[None], _PIECE_STREAM)  # [B, S]
        order = tf.where(is_candidate, order, -1.0)
        slots = tf.minimum(self.max_predictions_per_seq, length)
        _, positions = tf.math.top_k(order, slots)
        pieces = tf.reduce_sum(tf.cast(is_real, tf.float32), axis=1)
        wanted = tf.maximum(1.0, tf.round(pieces * self._masked_lm_prob))
        possible = tf.reduce_sum(tf.cast(is_candidate, tf.float32), axis=1)
        count = tf.cast(tf.minimum(wanted, possible), tf.int32)[:, None]
        positions = tf.where(tf.range(slots) < count, positions, length)
        positions = tf.sort(positions, axis=1)
        is_used = positions < length
        missing = self.max_predictions_per_seq - slots  # sequences shorter than P
        positions = tf.pad(tf.where(is_used, positions, 0), [[0, 0], [0, missing]])
        is_used = tf.pad(is_used, [[0, 0], [0, missing]])
        shape = (input_ids.shape[0], self.max_predictions_per_seq)
        return tf.ensure_shape(positions, shape), tf.ensure_shape(is_used, shape)

    def _hide(
        self, original_ids: tf.Tensor, positions: tf.Tensor, record_seeds: tf.Tensor
    ) -> tf.Tensor:
        """Returns what stands in place of the chosen pieces, [B, P]."""
        fate = _uniform(record_seeds, positions, _FATE_STREAM)
        draw = _uniform(record_seeds, positions, _REPLACEMENT_STREAM)
        count = len(self._regular_ids)
        replacement = tf.cast(draw * count, tf.int32)
        random_ids = tf.gather(self._regular_ids, tf.minimum(replacement, count - 1))
        kept_or_random = tf.where(
            fate < self._mask_share + self._random_share, random_ids, original_ids
        )
        return tf.where(fate < self._mask_share, self._mask_id, kept_or_random)


def record_seeds(seed: int, record_numbers: tf.Tensor) -> tf.Tensor:
    """Returns a seed for each record.

    Args:
        seed: of the run.
        record_numbers: int64 [B]; a record read again in a later epoch has another number.

    Returns:
        uint64 [B].
    """
    key = _scramble(tf.constant(seed % 2**64, tf.uint64))
    return _scramble(tf.cast(record_numbers, tf.uint64) * _ODD + key)


_ODD = tf.constant(0x9E3779B97F4A7C15, tf.uint64)  # 2^64 over the golden ratio


def _uniform(record_seeds: tf.Tensor, positions: tf.Tensor, stream: int) -> tf.Tensor:
    """Returns float32 [B, n] in [0, 1), a function of record seed, position and stream."""
    counter = tf.cast(positions, tf.uint64) * 3 + stream
    bits = _scramble(record_seeds[:, None] + (counter + 1) * _ODD)
    return tf.cast(tf.bitwise.right_shift(bits, tf.constant(40, tf.uint64)), tf.float32) / 2.0**24


def _scramble(number: tf.Tensor) -> tf.Tensor:
    """The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every input bit moves every other."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        number = tf.bitwise.bitwise_xor(
            number, tf.bitwise.right_shift(number, tf.constant(shift, tf.uint64))
        )
        number *= tf.constant(factor, tf.uint64)
    return tf.bitwise.bitwise_xor(
        number, tf.bitwise.right_shift(number, tf.constant(31, tf.uint64))
    )
