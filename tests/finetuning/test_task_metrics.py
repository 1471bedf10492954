"""Metrics of whole splits. Oracles: counting by hand, scikit-learn, SciPy."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as sklearn_metrics

from keras_bert.finetuning import metrics, search


def random_classes(draw, classes):
    probabilities = draw.dirichlet(np.ones(classes), size=40)
    return probabilities, draw.integers(0, classes, 40).astype(np.int32)


@pytest.mark.parametrize(
    ("names", "sign"),
    [
        (["mean_squared_error", "word_error_rate", "mae", "RMSE", "mse", "loss"], -1),
        (["masked_lm_loss", "perplexity", "source_perplexity"], -1),
        (["accuracy", "f1", "pearson", "ndcg_at_10", "exact_match", "rouge_l", "bleu"], 1),
    ],
)
def test_names_tell_whether_the_least_is_the_best(names, sign):
    for name in names:
        assert metrics.goodness(name, 0.25) == sign * 0.25
        assert max([np.nan, 0.5, np.nan], key=lambda value: metrics.goodness(name, value)) == 0.5


def test_a_search_keeps_the_run_with_the_least_error():
    def run(rate, seed, value, collapsed=None):
        measured = SimpleNamespace(metrics={"validation": {name: value}})
        return search.Run({"learning_rate": rate}, seed, measured, collapsed)

    for name, best, mean in (("mean_squared_error", 0.1, 0.25), ("pearson", 0.6, 0.5)):
        runs = (run(1, 0, 0.1), run(1, 1, 0.4), run(2, 0, 0.6), run(2, 1, 0.4), run(3, 0, 9, "no"))
        result = search.SearchResult(runs, runs[0])
        kept = search._best(SimpleNamespace(metrics={name: None}), result)
        assert kept.measured.metrics["validation"][name] == best
        summary = result.summary(kept.point, "validation", name)
        assert (summary.best, summary.mean) == (best, pytest.approx(mean))


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
