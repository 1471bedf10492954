"""Principal components against scikit-learn, their picture, and the sample that it draws."""

import re

import numpy as np
import pytest
from sklearn.decomposition import PCA

from keras_bert import plot_principal_components, principal_components
from keras_bert.tasks.feature_extraction.extraction import TextFeatures
from keras_bert.visualize.principal_components import VectorSample


@pytest.mark.parametrize("shape", [(40, 7), (5, 30)])
def test_they_are_those_of_scikit_learn(shape):
    vectors = np.random.default_rng(2).normal(size=shape) * np.arange(1, shape[1] + 1) + 3
    found = principal_components(vectors, 3)
    oracle = PCA(3).fit(vectors)
    expected = oracle.transform(vectors)
    signs = np.sign((expected * found.points).sum(axis=0))
    np.testing.assert_allclose(found.points, expected * signs, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.explained, oracle.explained_variance_ratio_, rtol=1e-9)


def test_the_sign_is_fixed_and_equal_vectors_have_no_direction():
    # On a line: all variance along (3, 4) / 5, distances 0, 5, 10 around the mean of 5.
    found = principal_components([[0, 0], [3, 4], [6, 8]])
    np.testing.assert_allclose(found.points, [[-5, 0], [0, 0], [5, 0]], atol=1e-12)
    np.testing.assert_allclose(found.explained, [1, 0], atol=1e-12)
    same = principal_components(np.ones([4, 2]))
    assert np.all(same.points == 0) and np.all(same.explained == 0)


@pytest.mark.parametrize(
    ("vectors", "sentence"),
    [
        (np.zeros([1, 5]), r"the shape \(1, 5\): 2 directions need at least 2 vectors"),
        (np.zeros([5, 1]), r"the shape \(5, 1\)"),
        ([[1, np.nan], [1, 2]], "not finite"),
    ],
)
def test_what_has_no_two_directions(vectors, sentence):
    with pytest.raises(ValueError, match=sentence):
        principal_components(vectors)
    with pytest.raises(ValueError, match="count is -1: it must be at least 1"):
        principal_components(np.eye(3), -1)


def test_the_picture_names_labels_and_points(tmp_path):
    vectors = np.random.default_rng(0).normal(size=[20, 4])
    # 13 labels: seven colours, six as one. None is a formula, and none is hidden.
    labels = [*["_a"] * 5, *[r"$\bad$"] * 4, *"cdefghijklm"]
    names = [f"${number}$" for number in range(20)]
    plot_principal_components(vectors, tmp_path / "new" / "points.svg", labels, names, r"$\20$")
    picture = (tmp_path / "new" / "points.svg").read_text(encoding="utf-8")
    texts = re.findall(r"<!-- (.*?) -->", picture)
    assert r"$\20$" in texts
    assert [text for text in texts if re.fullmatch(r".* \(\d+\)", text)] == [
        *("_a (5)", r"$\bad$ (4)", "c (1)", "d (1)", "e (1)", "f (1)", "g (1)"),
        "6 other labels (6)",
    ]
    assert len([text for text in texts if text in names]) == 20
    share = 100 * principal_components(vectors).explained[0]
    assert f"first direction, {share:.1f} % of the variance" in texts
    # Of a long one the beginning and the end.
    plot_principal_components(vectors[:2], tmp_path / "long.svg", ["a\nb", "c" * 30 + "d" * 30])
    texts = re.findall(r"<!-- (.*?) -->", (tmp_path / "long.svg").read_text(encoding="utf-8"))
    assert "a b (1)" in texts and f"{'c' * 20}…{'d' * 11} (1)" in texts


def test_wrong_names_and_lengths_of_a_picture(tmp_path):
    vectors = np.eye(3)
    with pytest.raises(ValueError, match=r"points.jpg does not end with .png or .svg"):
        plot_principal_components(vectors, tmp_path / "points.jpg")
    with pytest.raises(ValueError, match="there are 2 labels for 3 vectors"):
        plot_principal_components(vectors, tmp_path / "points.png", ["a", "b"])
    assert list(tmp_path.iterdir()) == []


def _features(numbers):
    """A text of single letters, whose vectors are these numbers."""
    starts = np.arange(len(numbers), dtype=np.int32)
    values = np.array(numbers, np.float32)[:, None]
    return TextFeatures("x" * len(numbers), values, starts, starts + 1, None)


def test_a_sample_of_few_is_all_of_them():
    sample = VectorSample(10)
    texts = [_features([1, 2]), _features([]), _features([3])]
    assert list(sample.watch(texts, ["one", "none", "two"])) == texts
    assert [vector.tolist() for vector in sample.vectors] == [[1], [2], [3]]
    assert (sample.names, sample.labels) == (["x"] * 3, ["one", "one", "two"])
    assert sample.seen == 3


def test_each_of_many_is_as_likely():
    counts = np.zeros(20)
    for seed in range(400):
        sample = VectorSample(5, seed)
        list(sample.watch([_features(range(12)), _features(range(12, 20))]))
        assert len(sample.vectors) == len(sample.names) == len(sample.labels) == 5
        counts[[int(vector[0]) for vector in sample.vectors]] += 1
    # Each of 20 is kept 100 times of 400, with a standard deviation of 8.7.
    assert counts.sum() == 2000
    assert np.abs(counts - 100).max() < 4.5 * 8.7
