"""Evaluation of a pretrainer on held-out records."""

from collections.abc import Callable, Iterable

import numpy as np
import tensorflow as tf

from keras_bert.features import MASKED_LM_IDS, MASKED_LM_WEIGHTS
from keras_bert.pretraining.metrics import pretraining_metrics
from keras_bert.pretraining.step import Batch, StepSums


def evaluate(
    evaluation_step: Callable, batches: Iterable[Batch], next_sentence: bool = True
) -> dict[str, float]:
    """Returns the metrics of one pass over held-out batches.

    Args:
        evaluation_step: from `make_evaluation_step`.
        batches: the held-out batches, each once.
        next_sentence: whether next sentence prediction is measured.
    """
    sums = StepSums.zeros()
    for batch in batches:
        sums = sums + evaluation_step(batch)
    return pretraining_metrics(sums, next_sentence)


def most_frequent_piece_accuracy(batches: Iterable[Batch], vocab_size: int) -> float:
    """Returns the masked LM accuracy of always guessing the piece that is hidden most often.

    The least that a model must beat. The piece is chosen with the answers known, so that no
    constant guess can do better.
    """
    counts = np.zeros(vocab_size)
    for batch in batches:
        ids, weights = (
            tf.reshape(batch[name], [-1]) for name in (MASKED_LM_IDS, MASKED_LM_WEIGHTS)
        )
        counts += np.bincount(ids.numpy(), weights.numpy(), minlength=vocab_size)
    return float(counts.max() / max(counts.sum(), 1.0))
