"""The most similar pairs and groups of texts: by hand, by float64, by sentence-transformers."""

import itertools

import numpy as np
import pytest

from keras_bert import SimilarPair, community_detection, paraphrase_mining
from keras_bert.clustering import cosines
from tests.tolerances import REORDERED

# At 0, 0, 60 and 90 degrees.
CORNERS = [[1, 0], [3, 0], [1, 3**0.5], [0, 5]]


def at_degrees(*angles):
    radians = np.deg2rad(angles)
    return np.stack([np.cos(radians), np.sin(radians)], axis=1)


def in_groups(count, seed=0, groups=6, noise=0.25):
    """Vectors of any length around a few directions."""
    draw = np.random.default_rng(seed)
    vectors = draw.normal(size=[groups, 8])[draw.integers(groups, size=count)]
    vectors = vectors + noise * draw.normal(size=[count, 8])
    return vectors * draw.uniform(0.5, 2, size=[count, 1])


def all_pairs(vectors):
    """Every pair with its cosine in float64, the best first."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    products = unit @ unit.T
    pairs = itertools.combinations(range(len(vectors)), 2)
    return sorted(((products[i, j], i, j) for i, j in pairs), key=lambda pair: -pair[0])


def check_pairs(found, expected):
    assert [pair[1:] for pair in found] == [(i, j) for _, i, j in expected]
    np.testing.assert_allclose(
        [pair.score for pair in found], [score for score, *_ in expected], **REORDERED
    )


def test_pairs_of_a_few_directions():
    near, far = np.cos(np.deg2rad([30, 60]))
    expected = [(1, 0, 1), (near, 2, 3), (far, 0, 2), (far, 1, 2), (0, 0, 3), (0, 1, 3)]
    check_pairs(paraphrase_mining(CORNERS), expected)
    check_pairs(paraphrase_mining(CORNERS, threshold=0.6), expected[:2])
    check_pairs(paraphrase_mining(CORNERS, max_pairs=3), expected[:3])
    # The nearest of each: of 0 and 1 each other, of 2 and 3 as well.
    check_pairs(paraphrase_mining(CORNERS, top_k=1), expected[:2])
    score, first, second = paraphrase_mining(CORNERS, max_pairs=1)[0]
    assert isinstance(score, float) and (type(first), type(second)) == (int, int)
    assert paraphrase_mining(np.zeros([0, 3])) == paraphrase_mining([[1, 2]]) == []


@pytest.mark.parametrize("rows", [1, 7, 1000], ids="{} rows a block".format)
def test_all_pairs_are_compared(rows, monkeypatch):
    vectors = in_groups(50)
    monkeypatch.setattr(cosines, "_COSINES_PER_BLOCK", rows * len(vectors))
    expected = all_pairs(vectors)
    check_pairs(paraphrase_mining(vectors), expected)
    check_pairs(paraphrase_mining(vectors, threshold=0.9), [p for p in expected if p[0] >= 0.9])
    # So few that worse ones are thrown away on the way.
    check_pairs(paraphrase_mining(vectors, max_pairs=20), expected[:20])
    for top_k in (1, 5, 48):
        nearest = set()
        for number in range(50):
            own = [pair for pair in expected if number in pair[1:]]
            nearest |= {pair[1:] for pair in own[:top_k]}
        check_pairs(
            paraphrase_mining(vectors, top_k=top_k), [p for p in expected if p[1:] in nearest]
        )


def test_groups_are_around_those_with_most_neighbours(monkeypatch):
    # Within 25 degrees of 10 are four of them, as of 20, which comes later.
    vectors = at_degrees(0, 10, 20, 30, 90, 100, 180)
    threshold = np.cos(np.deg2rad(25))
    found = community_detection(vectors, threshold, 1)
    assert [(group[0], {*group}) for group in found] == [
        *((1, {0, 1, 2, 3}), (4, {4, 5}), (6, {6})),
    ]
    assert found[0][3] == 3  # the farthest from its centre
    assert community_detection(vectors, threshold, 3) == found[:1]
    assert community_detection(vectors, threshold, 5) == []
    # 30 has 20 and 40 beside it, but 20 is taken: a group of two is too small, that of 40 is not.
    vectors = at_degrees(0, 10, 20, 30, 40, 50)
    for several in (1, 64):
        monkeypatch.setattr("keras_bert.clustering.communities._CENTRES", several)
        found = community_detection(vectors, np.cos(np.deg2rad(15)), 3)
        assert [(group[0], {*group}) for group in found] == [(1, {0, 1, 2}), (4, {3, 4, 5})]
    # 14 is taken by 0, so it is no centre of 27 and 28, to which it is near.
    found = community_detection(at_degrees(0, -14, -13, -12, 14, 27, 28), np.cos(np.deg2rad(15)), 2)
    assert [(group[0], {*group}) for group in found] == [(0, {0, 1, 2, 3, 4}), (5, {5, 6})]
    assert community_detection(np.zeros([0, 3])) == []
    assert community_detection(np.zeros([20, 3])) == []  # vectors of zeros are near to nothing


@pytest.mark.oracle
def test_pairs_and_groups_are_those_of_sentence_transformers():
    import torch
    from sentence_transformers import util

    vectors = in_groups(400, seed=1).astype(np.float32)
    for top_k, max_pairs in ((100, 500_000), (3, 500_000), (100, 700)):
        expected = util.paraphrase_mining_embeddings(
            torch.tensor(vectors), top_k=top_k, max_pairs=max_pairs
        )
        found = paraphrase_mining(vectors, top_k=top_k, max_pairs=max_pairs)
        assert {pair[1:] for pair in found} == {(i, j) for _, i, j in expected}
        np.testing.assert_allclose(
            [pair.score for pair in found], [score for score, *_ in expected], **REORDERED
        )
    for threshold, size in ((0.75, 10), (0.9, 3), (0.95, 1)):
        expected = util.community_detection(vectors, threshold, size)
        assert len(expected) > 3
        found = community_detection(vectors, threshold, size)
        assert [(group[0], {*group}) for group in found] == [
            (group[0], {*group}) for group in expected
        ]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: paraphrase_mining(["a", "b"]), "vectors is no array of numbers .*: give what Sen"),
        (lambda: paraphrase_mining([1.0, 2.0]), r"the shape \(2,\): give an array \[texts, width"),
        (lambda: paraphrase_mining([[1, np.nan]]), "the model answers nan"),
        (lambda: paraphrase_mining(CORNERS, 90), "threshold is 90: a cosine is from -1 to 1"),
        (lambda: paraphrase_mining(CORNERS, "0.9"), "threshold is '0.9': it must be a number"),
        (lambda: paraphrase_mining(CORNERS, top_k=0), "top_k is 0"),
        (lambda: paraphrase_mining(CORNERS, max_pairs=None), "max_pairs is None"),
        (lambda: community_detection(CORNERS, np.nan), "threshold is nan: a cosine is from -1"),
        (lambda: community_detection(CORNERS, 0.5, 0), "min_community_size is 0"),
    ],
)
def test_mistakes_are_told(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_a_pair_is_read_as_in_sentence_transformers():
    assert [*SimilarPair(0.5, 1, 2)] == [0.5, 1, 2]
