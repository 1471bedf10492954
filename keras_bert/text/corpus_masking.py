"""The masks of `MaskedLanguageModelMasking` for whole corpora, without loading TensorFlow.

Line for line the ops of `masking`, `masked_words` and `random_bits` in NumPy: equal numbers give
equal masks, whether they are stored or drawn when records are read.

This second implementation is for the start: the masking itself takes about as long in a
`tf.function`, but every worker would load TensorFlow and trace its graph first. docs/design.md,
section 3, has the measurement.

Shapes: B batch, S sequence length, P predictions per sequence.
"""

from collections.abc import Callable

import numpy as np

from keras_bert.choices import MaskingStrategy
from keras_bert.features import (
    INPUT_IDS,
    MASKED_LM_IDS,
    MASKED_LM_POSITIONS,
    MASKED_LM_WEIGHTS,
)
from keras_bert.text.masking_strategy import (
    INCREMENT,
    KEY_BITS,
    MULTIPLIERS,
    REPLACEMENTS,
    RUN_LENGTHS,
    RUN_WEIGHTS,
    UNIFORM_BITS,
    check_rates,
)
from keras_bert.text.vocabulary import Vocabulary


class CorpusMasking:
    """Chooses pieces to predict and hides them, see `MaskedLanguageModelMasking`.

    Args:
        vocabulary: the pieces.
        max_predictions_per_seq: P, the most pieces that are chosen from a sequence.
        masked_lm_prob: rate of the pieces that are chosen, above 0 and at most 1.
        mask_token_rate: rate of the chosen that become [MASK], from 0 to 1.
        random_token_rate: rate of the chosen that become a random piece; with `mask_token_rate`
            at most 1. The rest stays as it is.
        strategy: "token", "whole_word" or "ngram".

    Raises:
        ValueError: a number is out of its range.
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
        check_rates(max_predictions_per_seq, masked_lm_prob, mask_token_rate, random_token_rate)
        self._mask_id = vocabulary.mask_id
        self._max_predictions = max_predictions_per_seq
        self._masked_lm_prob = masked_lm_prob
        self._mask_token_rate = np.float32(mask_token_rate)
        self._mask_or_random_rate = np.float32(mask_token_rate + random_token_rate)
        self._choose = _STRATEGIES[strategy]
        self._is_special = np.isin(np.arange(len(vocabulary)), vocabulary.special_ids)
        self._ordinary_ids = np.flatnonzero(~self._is_special).astype(np.int32)
        if not self._ordinary_ids.size:
            raise ValueError("the vocabulary holds special tokens only: there is nothing to mask")
        self._is_continuation = vocabulary.continuation_mask

    def __call__(
        self,
        input_ids: np.ndarray,
        input_mask: np.ndarray,
        seeds: np.ndarray,
        word_continuations: np.ndarray | None = None,
    ) -> dict[str, np.ndarray]:
        """Masks a batch.

        Args:
            input_ids: int32 [B, S], with [CLS] and [SEP].
            input_mask: int32 [B, S], 1 for real pieces, 0 for padding.
            seeds: int64 [B, k], what the masks of each sequence follow from.
            word_continuations: int32 [B, S], 1 for pieces that go on with the word before them, 0
                for those that begin one, -1 where the vocabulary tells; None for all of that kind.

        Returns:
            `input_ids` int32 [B, S] with the chosen pieces hidden, `masked_lm_positions` int32
            [B, P] ascending, `masked_lm_ids` int32 [B, P], `masked_lm_weights` float32 [B, P].
        """
        hashed = np.zeros(len(seeds), np.uint64)  # [B, numbers] -> [B]
        for column in seeds.T:
            hashed = _mix(_mix(hashed + INCREMENT) ^ column.astype(np.uint64))
        candidates = (input_mask != 0) & ~self._is_special[input_ids]
        # How many pieces of each sequence may be chosen: int32 [B].
        wanted = np.round(np.count_nonzero(input_mask, axis=1) * self._masked_lm_prob)
        budget = np.clip(wanted.astype(np.int32), 1, self._max_predictions)
        continues = self._is_continuation[input_ids]  # [B, S]
        if word_continuations is not None:
            continues = np.where(word_continuations >= 0, word_continuations > 0, continues)
        chosen = self._choose(candidates, continues, budget, hashed)
        rows, positions = np.nonzero(chosen)  # [chosen] each
        originals = input_ids[rows, positions]
        ranks = np.cumsum(chosen, axis=1)[rows, positions] - 1
        hidden = input_ids.copy()
        # What stands in the text instead of the chosen pieces, [chosen].
        bits = _random_bits(hashed[rows], positions + REPLACEMENTS)
        drawn = _uniform_numbers(bits)
        number = (bits & np.uint64(0xFFFFFFFF)) % np.uint64(len(self._ordinary_ids))
        shown = np.where(drawn < self._mask_or_random_rate, self._ordinary_ids[number], originals)
        hidden[rows, positions] = np.where(drawn < self._mask_token_rate, self._mask_id, shown)
        slots = np.zeros((3, len(input_ids), self._max_predictions), np.int32)
        fillings: tuple[np.ndarray | int, ...] = (positions, originals, 1)
        for values, filling in zip(slots, fillings, strict=True):
            values[rows, ranks] = filling
        return {
            INPUT_IDS: hidden,
            MASKED_LM_POSITIONS: slots[0],
            MASKED_LM_IDS: slots[1],
            MASKED_LM_WEIGHTS: slots[2].astype(np.float32),
        }


def _choose_pieces(
    candidates: np.ndarray, _: np.ndarray, budget: np.ndarray, seeds: np.ndarray
) -> np.ndarray:
    length = candidates.shape[1]
    order = _random_order(candidates, seeds)[:, : budget.max()]
    taken = np.arange(order.shape[1]) < np.minimum(budget, candidates.sum(axis=1))[:, None]
    chosen = np.zeros((len(candidates), length), bool)
    np.put_along_axis(chosen, order, taken, axis=1)
    return chosen


def _choose_words(
    candidates: np.ndarray, continues: np.ndarray, budget: np.ndarray, seeds: np.ndarray
) -> np.ndarray:
    words, _ = _find_words(candidates, continues)
    sizes = _count_per_word(words, candidates)
    order = _random_order(sizes > 0, seeds)
    sizes = np.take_along_axis(sizes, order, axis=1)
    # From left to right, each word that is not larger than what is left of the budget.
    taken, possible = np.zeros_like(sizes, bool), sizes > 0
    while possible.any():
        left = budget - np.where(taken, sizes, 0).sum(axis=1)
        possible = (sizes > 0) & ~taken & (sizes <= left[:, None])
        taken |= possible & (np.cumsum(np.where(possible, sizes, 0), axis=1) <= left[:, None])
    chosen = np.zeros_like(taken)
    np.put_along_axis(chosen, order, taken, axis=1)
    return candidates & np.take_along_axis(chosen, words, axis=1)


def _choose_runs_of_words(
    candidates: np.ndarray, continues: np.ndarray, budget: np.ndarray, seeds: np.ndarray
) -> np.ndarray:
    words, starts = _find_words(candidates, continues)
    # Where the runs of one, two and three words from each position on end, 0 for none: [B, S, 3].
    lengths = np.take_along_axis(_count_per_word(words, candidates), words, axis=1)
    one = np.where(starts, np.arange(words.shape[1]) + lengths, 0)
    one = np.pad(one, [[0, 0], [0, 1]])  # a run may end behind the last position
    runs = [one]
    for _ in RUN_WEIGHTS[1:]:
        # One word more: the word that starts where the run so far ends.
        runs.append(np.where(runs[-1] > 0, np.take_along_axis(one, runs[-1], axis=1), 0))
    ends = np.stack(runs, axis=2)[:, :-1]
    available = np.count_nonzero(ends, axis=2)
    positions = np.arange(candidates.shape[1])
    uniform = _uniform_numbers(_random_bits(seeds[:, None], positions + RUN_LENGTHS))
    drawn = uniform * np.append(np.float32(0), RUN_WEIGHTS)[available]
    sizes = 1 + np.count_nonzero(drawn[..., None] >= RUN_WEIGHTS[:-1], axis=2)
    return _take_runs(_random_order(starts, seeds), ends, sizes, budget)


_STRATEGIES: dict[MaskingStrategy, Callable] = {
    "token": _choose_pieces,
    "whole_word": _choose_words,
    "ngram": _choose_runs_of_words,
}


def _find_words(candidates: np.ndarray, continues: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    follows = np.pad(candidates, [[0, 0], [1, 0]])[:, :-1]
    starts = candidates & ~(continues & follows)
    return np.maximum(np.cumsum(starts, axis=1) - 1, 0), starts


def _count_per_word(words: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    flat = words + np.arange(len(words))[:, None] * words.shape[1]
    counts = np.bincount(flat[candidates], minlength=words.size)
    return counts.reshape(words.shape)


def _take_runs(
    order: np.ndarray, ends: np.ndarray, sizes: np.ndarray, budget: np.ndarray
) -> np.ndarray:
    """Takes runs one after the other, for all sequences at once."""
    rows, positions = np.arange(len(order)), np.arange(order.shape[1])
    words = np.arange(1, len(RUN_WEIGHTS) + 1)
    taken, left = np.zeros_like(order, bool), budget.copy()
    for start in order.T:
        end = ends[rows, start]
        if not ((left > 0) & (end[:, 0] > 0)).any():
            break
        wanted = sizes[rows, start][:, None]
        fits = (end > 0) & (words <= wanted) & (end - start[:, None] <= left[:, None])
        longest = np.where(fits, end, 0).max(axis=1)
        run = (positions >= start[:, None]) & (positions < longest[:, None])
        run &= ~(run & taken).any(axis=1, keepdims=True)
        left -= np.count_nonzero(run, axis=1).astype(left.dtype)
        taken |= run
    return taken


def _random_order(exists: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    """Returns the positions where `exists` is true in random order, then the others, [B, S]."""
    length = exists.shape[1]
    bits = _random_bits(seeds[:, None], np.arange(length))
    keys = (bits >> np.uint64(64 - KEY_BITS)).astype(np.int64)
    # Descending, of equal ones the first: the position breaks ties.
    descending = np.where(exists, -keys, 1) * length + np.arange(length)
    return np.argsort(descending, axis=1)


def _random_bits(seeds: np.ndarray, indices: np.ndarray) -> np.ndarray:
    return _mix(seeds + (indices.astype(np.uint64) + np.uint64(1)) * INCREMENT)


def _uniform_numbers(bits: np.ndarray) -> np.ndarray:
    upper = bits >> np.uint64(64 - UNIFORM_BITS)
    return upper.astype(np.float32) / np.float32(1 << UNIFORM_BITS)


def _mix(values: np.ndarray) -> np.ndarray:
    values = (values ^ (values >> np.uint64(30))) * MULTIPLIERS[0]
    values = (values ^ (values >> np.uint64(27))) * MULTIPLIERS[1]
    return values ^ (values >> np.uint64(31))
