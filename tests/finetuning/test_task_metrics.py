"""Metrics of whole splits. Oracles: counting by hand, scikit-learn, SciPy."""

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as sklearn_metrics

from keras_bert.finetuning import metrics


def random_classes(draw, classes):
    probabilities = draw.dirichlet(np.ones(classes), size=40)
    return probabilities, draw.integers(0, classes, 40).astype(np.int32)


def test_accuracy_counts_the_likeliest_class():
    scores = np.array([[1.0, 2.0, 0.0], [3.0, 0.0, 0.0], [0.0, 0.0, 9.0], [5.0, 6.0, 7.0]])
    assert metrics.accuracy(scores, np.array([1, 0, 1, 2])) == 0.75


@pytest.mark.parametrize("seed", range(20))
def test_scores_of_classes_equal_those_of_scikit_learn(seed):
    draw = np.random.default_rng(seed)
    scores, labels = random_classes(draw, 2)
    predicted = scores.argmax(axis=-1)
    assert metrics.f1(scores, labels) == pytest.approx(sklearn_metrics.f1_score(labels, predicted))
    for classes in (2, 4):
        scores, labels = random_classes(draw, classes)
        assert metrics.matthews_correlation(scores, labels) == pytest.approx(
            sklearn_metrics.matthews_corrcoef(labels, scores.argmax(axis=-1))
        )


@pytest.mark.parametrize("seed", range(20))
def test_scores_of_several_labels_equal_those_of_scikit_learn(seed):
    draw = np.random.default_rng(seed)
    scores = draw.random([30, 5]) * [1, 1, 1, 1, 0.4]  # the last label is never given
    labels = (draw.random([30, 5]) > 0.6).astype(np.float32)
    for ours, average in ((metrics.micro_f1, "micro"), (metrics.macro_f1, "macro")):
        expected = sklearn_metrics.f1_score(labels, scores > 0.5, average=average, zero_division=0)
        assert ours(scores, labels) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(20))
def test_correlations_equal_those_of_scipy(seed):
    draw = np.random.default_rng(seed)
    predictions = draw.normal(size=50).astype(np.float32)
    # Of few values, so that many ranks are shared.
    labels = np.round(0.5 * predictions + draw.normal(size=50), 0).astype(np.float32)
    assert metrics.pearson(predictions, labels) == pytest.approx(
        stats.pearsonr(predictions.astype(np.float64), labels).statistic
    )
    assert metrics.spearman(predictions, labels) == pytest.approx(
        stats.spearmanr(predictions, labels).statistic
    )


@pytest.mark.parametrize("scale", [1e-200, 1e-90, 1e90, 1e150])
def test_correlations_do_not_depend_on_the_scale(scale):
    # By hand: deviations -1 0 1 and -1 1 0, whose product is 1 and whose squares sum up to 2 each.
    predictions, labels = np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])
    assert metrics.pearson(scale * predictions, scale * labels) == pytest.approx(0.5)


def test_what_does_not_vary_correlates_with_nothing():
    ones, numbers = np.ones(3, np.float32), np.array([1.0, 2.0, 3.0])
    assert metrics.pearson(ones, numbers) == metrics.spearman(numbers, ones) == 0.0
    # By hand: 0.1 + 0.1 + 0.1 is above 0.3, so that the rounded mean is another number.
    tenths = np.full(3, 0.1)
    assert metrics.pearson(tenths, tenths) == metrics.pearson(tenths, numbers) == 0.0
    same = np.array([[0.9, 0.1]] * 4)
    assert metrics.matthews_correlation(same, np.array([0, 1, 0, 1])) == 0.0
    assert metrics.f1(same, np.array([0, 0, 0, 0])) == 0.0


def test_mean_squared_error_by_hand():
    # (1 - 3)^2 = 4 and (2 - 1)^2 = 1
    assert metrics.mean_squared_error(np.array([1.0, 2.0]), np.array([3.0, 1.0])) == 2.5
