"""Masked language model: hides word pieces of batches, in graph, anew for every epoch.

    [CLS] my dog is hairy [SEP] [PAD]     candidates: my dog is hairy
    budget 0.15 * 6 = 0.9 -> 1            positions 4 0, ids hairy 0, weights 1 0 (P = 2)
    [CLS] my dog is [MASK] [SEP] [PAD]    or a random piece, or hairy itself

What is drawn for a sequence follows from its seed and from positions, so neither the batch nor the
padding of a sequence changes its masks.

Shapes: B batch, S sequence length, P predictions per sequence.
"""

import numpy as np
import tensorflow as tf

from keras_bert.choices import MaskingStrategy, check_choice
from keras_bert.features import (
    INPUT_IDS,
    MASKED_LM_IDS,
    MASKED_LM_POSITIONS,
    MASKED_LM_WEIGHTS,
)
from keras_bert.text.masked_words import choose_runs_of_words, choose_words
from keras_bert.text.masking_strategy import REPLACEMENTS, check_rates
from keras_bert.text.random_bits import random_bits, random_keys, seeds_of, uniform_numbers
from keras_bert.text.vocabulary import Vocabulary


class MaskedLanguageModelMasking(tf.Module):
    """Chooses pieces to predict and hides them (Devlin et al. 2018, section 3.1, task 1).

    Of each sequence `masked_lm_prob` of the pieces are chosen: 0.15 times its length, [CLS] and
    [SEP] counted, rounded, at least one. Special tokens are never chosen. A chosen piece becomes
    [MASK], a random piece that is no special token, or stays as it is.

    Args:
        vocabulary: the word pieces and their ids.
        max_predictions_per_seq: P, the most pieces that are chosen from a sequence.
        masked_lm_prob: rate of the pieces that are chosen, above 0 and at most 1.
        mask_token_rate: rate of the chosen that become [MASK], from 0 to 1.
        random_token_rate: rate of the chosen that become a random piece; with `mask_token_rate`
            at most 1. The rest stays as it is.
        strategy: "token" chooses pieces; "whole_word" chooses words with all their "##" pieces (or
            those of a segmenter, where a call says so), as many as fit; "ngram" chooses runs of one
            to three such words that follow each other.

    Raises:
        ValueError: a number is out of its range or the strategy is unknown.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        max_predictions_per_seq: int,
        masked_lm_prob: float = 0.15,
        mask_token_rate: float = 0.8,
        random_token_rate: float = 0.1,
        strategy: MaskingStrategy = "token",
    ):
        super().__init__(name="masking")
        check_rates(max_predictions_per_seq, masked_lm_prob, mask_token_rate, random_token_rate)
        check_choice("masking", strategy, MaskingStrategy)
        self.vocabulary = vocabulary
        self.max_predictions_per_seq = max_predictions_per_seq
        self._masked_lm_prob = masked_lm_prob
        self._mask_token_rate = mask_token_rate
        self._random_token_rate = random_token_rate
        self._strategy = strategy
        # [V - specials]
        ordinary = np.setdiff1d(np.arange(len(vocabulary)), vocabulary.special_ids)
        if not ordinary.size:
            raise ValueError("the vocabulary holds special tokens only: there is nothing to mask")
        with tf.init_scope():
            self._ordinary_ids = tf.constant(ordinary, tf.int32)
            self._is_special = tf.constant(~np.isin(np.arange(len(vocabulary)), ordinary))
            self._is_continuation = tf.constant(vocabulary.continuation_mask)

    def __call__(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        seeds: tf.Tensor,
        word_continuations: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Masks a batch.

        Args:
            input_ids: int32 [B, S], with [CLS] and [SEP].
            input_mask: int32 [B, S], 1 for real pieces, 0 for padding.
            seeds: int64 [B, k], such as (seed, epoch, record) for each sequence. Its masks are a
                function of these numbers and the sequence, whatever else is in the batch.
            word_continuations: int32 [B, S], 1 for pieces that go on with the word before them, 0
                for those that begin one, -1 where the vocabulary tells; None for all of that kind.

        Returns:
            `input_ids` int32 [B, S] with the chosen pieces hidden, `masked_lm_positions` int32
            [B, P] ascending, `masked_lm_ids` int32 [B, P] what stood there, `masked_lm_weights`
            float32 [B, P]; where the weight is 0, the other two are 0.
        """
        seeds = seeds_of(seeds)  # uint64 [B]
        # bool [B, S]
        candidates = tf.not_equal(input_mask, 0) & ~tf.gather(self._is_special, input_ids)
        # How many pieces of each sequence may be chosen: int32 [B].
        lengths = tf.cast(tf.math.count_nonzero(input_mask, axis=1), tf.float64)  # [B]
        # In float64, so that halves round as in the Python of create_pretraining_data.py.
        wanted = tf.cast(tf.round(lengths * self._masked_lm_prob), tf.int32)
        budget = tf.clip_by_value(wanted, 1, self.max_predictions_per_seq)
        # The positions that are chosen, negative, in any order; -S, behind all of them, for none.
        length = tf.shape(input_ids)[1]
        if self._strategy == "token":
            # The P largest of random numbers are a random choice of P; so are the first of them.
            keys = random_keys(seeds, tf.range(tf.cast(length, tf.int64)))  # [B, S]
            top = tf.math.top_k(  # [B, min(P, S)]
                tf.where(candidates, keys, -1), tf.minimum(self.max_predictions_per_seq, length)
            )
            rank = tf.range(tf.shape(top.values)[1])
            chosen = (top.values >= 0) & (rank < budget[:, None])  # a candidate, within the budget
            negatives = tf.where(chosen, -top.indices, -length)
        else:
            choose = choose_words if self._strategy == "whole_word" else choose_runs_of_words
            continues = tf.gather(self._is_continuation, input_ids)  # [B, S]
            if word_continuations is not None:
                told = word_continuations >= 0  # bool [B, S]
                continues = tf.where(told, word_continuations > 0, continues)
            chosen = choose(candidates, continues, budget, seeds)  # bool [B, S]
            negatives = tf.where(chosen, -tf.range(length), -length)
        # Positions [B, P] ascending, and which of them are in use, bool [B, P].
        positions, used = self._first_positions(negatives, length)
        ids = tf.where(used, tf.gather(input_ids, positions, batch_dims=1), 0)  # [B, P]
        # What stands in the text instead of the chosen pieces, int32 [B, P].
        bits = random_bits(seeds, tf.cast(positions, tf.int64) + REPLACEMENTS)  # [B, P]
        uniform = uniform_numbers(bits)  # [B, P], from 0 to below 1
        # The low 32 bits choose the piece, so that it does not depend on the number above.
        number = tf.bitcast(bits & np.uint64(0xFFFFFFFF), tf.int64)
        random_ids = tf.gather(
            self._ordinary_ids, number % tf.size(self._ordinary_ids, out_type=tf.int64)
        )
        # Below 0.8 [MASK], from there to below 0.9 a random piece, from there on the piece itself.
        shown = tf.where(uniform < self._mask_token_rate + self._random_token_rate, random_ids, ids)
        shown = tf.where(uniform < self._mask_token_rate, self.vocabulary.mask_id, shown)
        indices = tf.where(used)  # [used, 2]: row and column in [B, P]
        rows = tf.cast(indices[:, 0], tf.int32)
        # [used, 2]: row and position in [B, S]
        targets = tf.stack([rows, tf.gather_nd(positions, indices)], axis=1)
        return {
            INPUT_IDS: tf.tensor_scatter_nd_update(
                input_ids, targets, tf.gather_nd(shown, indices)
            ),
            MASKED_LM_POSITIONS: positions,
            MASKED_LM_IDS: ids,
            MASKED_LM_WEIGHTS: tf.cast(used, tf.float32),
        }

    def _first_positions(
        self, negatives: tf.Tensor, length: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Sorts negative positions, `-length` for none, into P ascending positions.

        Returns:
            Positions int32 [B, P], 0 where there is none; and whether there is one, bool [B, P].
        """
        width = tf.minimum(self.max_predictions_per_seq, tf.shape(negatives)[1])
        # The largest negatives are the smallest positions: ascending, none at the end.
        positions = -tf.math.top_k(negatives, width).values
        # A sequence shorter than P has fewer columns; to [B, P].
        missing = [[0, 0], [0, self.max_predictions_per_seq - width]]
        used = tf.pad(positions < length, missing)
        positions = tf.pad(positions, missing)
        used.set_shape([None, self.max_predictions_per_seq])
        positions.set_shape([None, self.max_predictions_per_seq])
        return tf.where(used, positions, 0), used
