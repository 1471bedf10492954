"""Few labeled texts: their pairs worked out by hand, and the regression against scikit-learn."""

import collections

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from keras_bert.tasks.classification.few_shot import fit_logistic_regression, labeled_pairs
from keras_bert.tasks.classification.head import LabeledTexts

# 3 texts of one class and 2 of another: 3 + 3 and 2 + 1 pairs are alike, 3 * 2 are not.
TEXTS = LabeledTexts(["a", "b", "c", "x", "y"], labels=[0, 0, 0, 1, 1])
ALIKE = {"aa", "ab", "ac", "bb", "bc", "cc", "xx", "xy", "yy"}
DIFFERENT = {"ax", "ay", "bx", "by", "cx", "cy"}


def _pairs(**arguments):
    pairs = labeled_pairs(TEXTS, **arguments)
    return [("".join(pair.texts), pair.score) for pair in pairs]


def test_every_pair_is_there_once():
    expected = {(pair, 1.0) for pair in ALIKE} | {(pair, 0.0) for pair in DIFFERENT}
    pairs = _pairs(sampling="unique")
    assert len(pairs) == 15
    assert set(pairs) == expected


def test_kinds_of_pairs_are_equally_many():
    over = collections.Counter(_pairs())
    assert all(over[pair, 1.0] == 1 for pair in ALIKE)
    # 9 of 6: three come a second time.
    assert sorted(over[pair, 0.0] for pair in DIFFERENT) == [1, 1, 1, 2, 2, 2]
    under = collections.Counter(_pairs(sampling="undersampling"))
    assert all(under[pair, 0.0] == 1 for pair in DIFFERENT)
    assert sum(under[pair, 1.0] for pair in ALIKE) == 6
    assert max(under.values()) == 1
    assert [score for _, score in _pairs(num_iterations=3)] == [1.0, 0.0] * 15


def test_the_seed_tells_the_order():
    assert _pairs(seed=1) == _pairs(seed=1) != _pairs(seed=2)


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        (LabeledTexts(["a", "b", "c"], labels=[0, 0, 1]), "class 1 has one text"),
        (LabeledTexts(["a", "b"], labels=[0, 0]), "all 2 texts have one class"),
        (LabeledTexts(["a", "b"]), "no class each"),
        (LabeledTexts(["a", "b"], labels=[[0, 1], [1, 0]]), "no class each"),
        (LabeledTexts(["a", "b"], ["c", "d"], [0, 1]), "pairs of texts"),
    ],
)
def test_what_makes_no_pairs_is_refused(examples, message):
    with pytest.raises(ValueError, match=message):
        labeled_pairs(examples)


@pytest.mark.parametrize("num_classes", [2, 4])
@pytest.mark.parametrize("c", [1.0, 30.0])
def test_regression_is_that_of_scikit_learn(num_classes, c):
    random = np.random.default_rng(3)
    classes = np.arange(40) % num_classes
    classes[:6] = 0  # not equally many
    vectors = random.normal(size=[40, 12]) + random.normal(size=[num_classes, 12])[classes]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    new = random.normal(size=[50, 12])
    oracle = LogisticRegression(C=c, tol=1e-10, max_iter=10_000).fit(vectors, classes)
    kernel, bias = fit_logistic_regression(vectors, classes, num_classes, c)
    odds = np.exp(new @ kernel + bias)
    found = odds / odds.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, oracle.predict_proba(new), atol=1e-4)
    assert (kernel.dtype, kernel.shape, bias.shape) == (np.float32, (12, num_classes), bias.shape)
    assert bias.mean() == pytest.approx(0, abs=1e-5)


def test_regression_takes_a_class_without_texts_and_refuses_others():
    vectors = np.array([[0.0, 1.0], [1.0, 0.0]])
    kernel, bias = fit_logistic_regression(vectors, [0, 1], 3)
    logits = vectors @ kernel + bias
    assert (logits.argmax(axis=1) == [0, 1]).all()
    assert (logits[:, 2] < logits[:, :2].min(axis=1)).all()
    with pytest.raises(ValueError, match="give indices from 0 to 1"):
        fit_logistic_regression(vectors, [0, 2], 2)
    with pytest.raises(ValueError, match=r"the shape \(2, 2\) and classes \(3,\)"):
        fit_logistic_regression(vectors, [0, 1, 1], 2)
