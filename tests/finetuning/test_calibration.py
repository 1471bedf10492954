"""Bins of confidence by hand and against scikit-learn."""

import numpy as np
import pytest
from sklearn.calibration import calibration_curve

from keras_bert.finetuning.metrics import calibration_bins, expected_calibration_error
from keras_bert.tasks.classification.head import TextHead
from keras_bert.tasks.multiple_choice.head import ChoiceHead


def test_bins_by_hand():
    bins = calibration_bins([0.0, 0.1, 0.11, 0.95, 1.0, 0.91], [0, 1, 0, 1, 1, 0])
    assert bins.shape == (10, 3)
    np.testing.assert_allclose(bins[0], [2, 0.05, 0.5])
    np.testing.assert_allclose(bins[1], [1, 0.11, 0])
    np.testing.assert_allclose(bins[9], [3, (0.95 + 1 + 0.91) / 3, 2 / 3])
    assert bins[2:9].tolist() == [[0, 0, 0]] * 7
    gaps = 2 * abs(0.5 - 0.05) + 0.11 + abs(2 - (0.95 + 1 + 0.91))
    assert expected_calibration_error(bins) == pytest.approx(gaps / 6)
    assert expected_calibration_error(np.zeros([10, 3])) == 0


def test_bins_are_those_of_scikit_learn():
    draw = np.random.default_rng(3)
    confidences = draw.uniform(0.001, 0.999, 500)
    right = draw.uniform(size=500) < confidences
    bins = calibration_bins(confidences, right)
    accuracy, confidence = calibration_curve(right, confidences, n_bins=10)
    np.testing.assert_allclose(bins[:, 1:].T, [confidence, accuracy])
    assert bins[:, 0].sum() == 500


def test_heads_take_the_likeliest_class():
    probabilities = np.array([[0.75, 0.25], [0.375, 0.625]], np.float32)
    head = TextHead(labels=("no", "yes"))
    bins = head.calibration(probabilities, np.array([0, 0]))
    assert bins[7].tolist() == [1, 0.75, 1]
    assert bins[6].tolist() == [1, 0.625, 0]
    for label_type in ("regression", "multi_label"):
        assert TextHead(label_type).calibration(probabilities, probabilities) is None
    choices = [np.array([0.125, 0.875], np.float32), np.array([0.25, 0.25, 0.5], np.float32)]
    bins = ChoiceHead().calibration(choices, [1, 0])
    assert bins[8].tolist() == [1, 0.875, 1]
    assert bins[4].tolist() == [1, 0.5, 0]
