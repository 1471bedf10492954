"""Metrics of fine-tuned models over a whole split: logits [N, C] and labels [N] to a number."""

import numpy as np


def accuracy(logits: np.ndarray, labels: np.ndarray) -> float:
    """Returns the share of examples whose largest logit is that of their label."""
    return float(np.mean(logits.argmax(axis=-1) == labels))


def mean_squared_error(logits: np.ndarray, labels: np.ndarray) -> float:
    """Returns the mean squared difference between the one logit [N, 1] and the label."""
    return float(np.mean((np.asarray(logits).astype(np.float64) - labels) ** 2))


def pearson(logits: np.ndarray, labels: np.ndarray) -> float:
    """Returns Pearson's correlation of the one logit [N, 1] with the label.

    It is 0 where one of them does not vary: a constant says nothing about the other.
    """
    predictions = np.asarray(logits).astype(np.float64)
    deviations = predictions - predictions.mean(), labels - labels.mean(dtype=np.float64)
    scale = np.sqrt(np.prod([np.sum(deviation**2) for deviation in deviations]))
    return float(np.sum(deviations[0] * deviations[1]) / scale) if scale else 0.0


def spearman(a, b):
    rank = lambda x: np.argsort(np.argsort(x)).astype(np.float64)
    return pearson(rank(a), rank(b))


def micro_f1(p, r):
    p = p > 0.5
    return float(2 * np.sum(p * r) / max(1e-9, np.sum(p) + np.sum(r)))


macro_f1 = micro_f1
