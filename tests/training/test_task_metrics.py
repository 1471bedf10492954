"""Metrics of whole splits. Oracles: counting by hand, numpy.corrcoef."""

import numpy as np
import pytest

from keras_bert.training.task_metrics import accuracy, mean_squared_error, pearson


def test_accuracy_counts_the_largest_logit():
    logits = np.array([[1.0, 2.0, 0.0], [3.0, 0.0, 0.0], [0.0, 0.0, 9.0], [5.0, 6.0, 7.0]])
    assert accuracy(logits, np.array([1, 0, 1, 2])) == 0.75


def test_mean_squared_error_by_hand():
    # (1 - 3)^2 = 4 and (2 - 1)^2 = 1
    assert mean_squared_error(np.array([[1.0], [2.0]], np.float32), np.array([3.0, 1.0])) == 2.5


def test_pearson_equals_numpys():
    draw = np.random.default_rng(0)
    logits = draw.normal(size=(50, 1)).astype(np.float32)
    labels = (0.3 * logits[:, 0] + draw.normal(size=50) + 1000).astype(np.float32)
    expected = np.corrcoef(logits[:, 0].astype(np.float64), labels.astype(np.float64))[0, 1]
    assert pearson(logits, labels) == pytest.approx(expected, abs=1e-9)


def test_pearson_of_a_constant_is_zero():
    assert pearson(np.ones((3, 1), np.float32), np.array([1.0, 2.0, 3.0])) == 0.0
