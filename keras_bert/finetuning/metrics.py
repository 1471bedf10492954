"""Metrics of whole splits: predictions and references to a number, higher is better but for errors.

Predictions of classes are probabilities [N, C], references their indices [N]; several labels at
once are probabilities and zeros and ones [N, C]; numbers are [N] each.
"""

import math
from collections.abc import Sequence

import numpy as np

# Names of errors beside those that say so, such as mean_squared_error.
_ERRORS = frozenset({"mae", "mse", "rmse"})


def lower_is_better(name: str) -> bool:
    """Whether the least value of a metric is the best, by its name: an error, loss, perplexity."""
    name = name.lower()
    return "error" in name or name in _ERRORS or name.endswith(("loss", "perplexity"))


def goodness(name: str, value: float) -> float:
    """Returns a number that is higher the better a metric's value is; NaN is the worst."""
    if math.isnan(value):
        return -math.inf
    return -value if lower_is_better(name) else value


def accuracy(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Returns the fraction of examples whose likeliest class is theirs.

    Args:
        probabilities: float [N, classes].
        labels: the right classes, integer [N].
    """
    return float(np.mean(np.argmax(probabilities, axis=-1) == labels))


def f1(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Returns the F1 of class 1; 0 where it is neither predicted nor there."""
    return _f1(np.argmax(probabilities, axis=-1) == 1, np.asarray(labels) == 1)


def matthews_correlation(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Returns the correlation of predicted and true classes (Matthews 1975; Gorodkin 2004).

    It is 0 where all predictions, or all labels, are of one class.
    """
    classes = np.shape(probabilities)[-1]
    predicted = np.eye(classes)[np.argmax(probabilities, axis=-1)]
    true = np.eye(classes)[np.asarray(labels, np.int64)]
    deviations = predicted - predicted.mean(axis=0), true - true.mean(axis=0)
    scale = np.sqrt(np.prod([np.sum(deviation**2) for deviation in deviations]))
    return float(np.sum(deviations[0] * deviations[1]) / scale) if scale else 0.0


def micro_f1(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Returns the F1 over all labels of all examples; a label is given above one half."""
    return _f1(np.asarray(probabilities) > 0.5, np.asarray(labels) > 0.5)


def macro_f1(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Returns the mean over labels of their F1; 0 for one that is neither given nor there."""
    predicted, true = np.asarray(probabilities) > 0.5, np.asarray(labels) > 0.5
    return float(np.mean([_f1(*columns) for columns in zip(predicted.T, true.T, strict=True)]))


def confusion_matrix(references: np.ndarray, predictions: np.ndarray, classes: int) -> np.ndarray:
    """Counts pairs of class indices: int64 [classes, classes], references in rows."""
    pairs = np.asarray(references, np.int64) * classes + np.asarray(predictions, np.int64)
    return np.bincount(pairs, minlength=classes * classes).reshape(classes, classes)


def calibration_bins(confidences: np.ndarray, right: np.ndarray, bins: int = 10) -> np.ndarray:
    """Compares how sure a model is with how often it is right (Naeini et al. 2015).

    Args:
        confidences: [N], the probability of each prediction.
        right: [N], whether it was right.
        bins: bins of equal width from 0 to 1, the upper end of each in it.

    Returns:
        float64 [bins, 3]: predictions in the bin, their mean confidence, the rate of the right
        ones; the two means are 0 where there is none.
    """
    confidences = np.asarray(confidences, np.float64)
    # 0.1 belongs to the first of ten bins, 0.11 to the second, 0 to the first.
    index = np.clip(np.ceil(confidences * bins).astype(np.int64) - 1, 0, bins - 1)  # [N]
    counts = np.bincount(index, minlength=bins)
    sums = (np.bincount(index, weights=values, minlength=bins) for values in (confidences, right))
    return np.stack([counts, *(total / np.maximum(counts, 1) for total in sums)], axis=1)


def expected_calibration_error(bins: np.ndarray | Sequence[Sequence[float]]) -> float:
    """Returns the mean gap between confidence and accuracy over predictions (Guo et al. 2017).

    Args:
        bins: what `calibration_bins` returned.
    """
    counts, confidence, accuracy = np.asarray(bins, np.float64).T
    return float(np.sum(counts * np.abs(accuracy - confidence)) / max(np.sum(counts), 1))


def _f1(predicted: np.ndarray, true: np.ndarray) -> float:
    total = int(np.sum(predicted)) + int(np.sum(true))
    return 2.0 * int(np.sum(predicted & true)) / total if total else 0.0


def mean_squared_error(predictions: np.ndarray, labels: np.ndarray) -> float:
    """Returns the mean squared difference; lower is better."""
    return float(np.mean((np.asarray(predictions, np.float64) - labels) ** 2))


def pearson(predictions: np.ndarray, labels: np.ndarray) -> float:
    """Returns Pearson's correlation.

    It is 0 where one of both does not vary: a constant says nothing about the other.
    """
    predictions, labels = np.asarray(predictions, np.float64), np.asarray(labels, np.float64)
    # Rounded, the mean of equal numbers may be another: 0.1 three times has 0.10000000000000002.
    spreads = [np.ptp(values) for values in (predictions, labels)]
    if not all(spreads):
        return 0.0
    # Divided by their spread, no square of theirs is too small or too large for a number.
    deviations = [
        (values - values.mean()) / spread
        for values, spread in zip((predictions, labels), spreads, strict=True)
    ]
    scale = np.sqrt(np.prod([np.sum(deviation**2) for deviation in deviations]))
    return float(np.sum(deviations[0] * deviations[1]) / scale)


def spearman(predictions: np.ndarray, labels: np.ndarray) -> float:
    """Returns Spearman's correlation: Pearson's of the ranks, equal values sharing theirs."""
    return pearson(_ranks(predictions), _ranks(labels))


def _ranks(values: np.ndarray) -> np.ndarray:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    lasts = np.cumsum(counts)
    return (lasts - (counts - 1) / 2)[inverse]
