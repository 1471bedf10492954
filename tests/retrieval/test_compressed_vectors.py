"""Token vectors in few bits: by hand, against sums over all vectors, and against a whole index."""

import dataclasses

import numpy as np
import pytest

from keras_bert import (
    MultiVectorEncoder,
    MultiVectorIndex,
    TokenVectors,
)
from keras_bert.retrieval import compressed_vectors, k_means
from keras_bert.retrieval.compressed_vectors import CentroidSearch, Codec, CompressedVectors
from tests.signatures.tiny_models import random_texts
from tests.tolerances import FORMULA

TEXTS = [*dict.fromkeys(random_texts(60, seed=3, longest=12))][1:]  # the first is empty


@pytest.fixture(scope="module")
def encoder(token_folder):
    return MultiVectorEncoder.from_preset(token_folder)


@pytest.fixture(scope="module")
def index(encoder):
    return MultiVectorIndex.build(encoder, TEXTS, bits=4)


def test_a_vector_becomes_its_centroid_and_levels():
    codec = Codec(
        bits=2,
        centroids=np.eye(2, 5, dtype=np.float32),
        cutoffs=np.array([-0.1, 0.0, 0.1], np.float32),
        levels=np.array([-0.2, -0.05, 0.05, 0.2], np.float32),
        has_unit_length=False,
    )
    vectors = np.array([[0.95, 0.3, -0.02, 0.01, -0.5], [0.1, 1.3, 0, 0, 0]], np.float32)
    codes, residuals = codec.compress(vectors)
    assert codes.tolist() == [0, 1]
    # Levels 1 3 1 2 | 0 and 3 3 2 2 | 2, four of them in a byte, the first in its lowest bits.
    assert residuals.tolist() == [
        [1 + 3 * 4 + 1 * 16 + 2 * 64, 0],
        [3 + 3 * 4 + 2 * 16 + 2 * 64, 2],
    ]
    expected = [[1 - 0.05, 0.2, -0.05, 0.05, -0.2], [0.2, 1.2, 0.05, 0.05, 0.05]]
    np.testing.assert_allclose(codec.decompress(codes, residuals), expected, **FORMULA)


def clusters(count, seed):
    """Vectors of length 1 near ten directions, [count, 16]."""
    draw = np.random.default_rng(seed)
    middles = np.random.default_rng(0).normal(size=[10, 16])
    vectors = middles[draw.integers(10, size=count)] + 0.1 * draw.normal(size=[count, 16])
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def test_more_bits_are_nearer_to_the_vectors():
    sample, others = clusters(2000, 1), clusters(500, 2)
    errors = []
    for bits in (1, 2, 4):
        codec = Codec.fit(sample, bits, len(sample))
        assert codec.has_unit_length and len(codec.centroids) == 62  # at most 2000 / 32
        found = codec.decompress(*codec.compress(others))
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, **FORMULA)
        errors.append(float(np.mean(np.sum((found - others) ** 2, axis=1))))
        nearest = codec.centroids[codec.compress(others)[0]]
        assert errors[-1] < np.mean(np.sum((nearest - others) ** 2, axis=1))
    assert errors[2] < 0.3 * errors[1] < 0.3 * 0.6 * errors[0]


def test_vectors_of_other_lengths_keep_them():
    sample = 3 * clusters(400, 1)
    codec = Codec.fit(sample, 4, len(sample))
    found = codec.decompress(*codec.compress(sample))
    assert not codec.has_unit_length
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 3, atol=0.3)


def test_vectors_of_other_lengths_have_the_nearest_centroid(monkeypatch):
    draw = np.random.default_rng(1)
    vectors = draw.normal(size=[50, 5]) * draw.uniform(0.1, 9, size=[50, 1])
    sample = np.concatenate([vectors + 100, vectors + 200])[:64]  # 50 and 14
    codec = Codec.fit(sample, 4, len(sample))
    means = [sample[:50].mean(axis=0), sample[50:].mean(axis=0)]
    np.testing.assert_allclose(np.sort(codec.centroids, axis=0), means, rtol=1e-5)
    centroids = draw.normal(size=[7, 5]).astype(np.float32) * np.arange(1, 8)[:, None]
    codec = dataclasses.replace(codec, centroids=centroids.astype(np.float32))
    monkeypatch.setattr(k_means, "_PRODUCTS_PER_BLOCK", 3 * len(centroids))
    distances = np.linalg.norm(vectors[:, None] - centroids, axis=-1)
    assert codec.compress(vectors)[0].tolist() == distances.argmin(axis=1).tolist()


def best_matches(query, vectors):
    """MaxSim with each text, in float64."""
    return [
        np.max(np.float64(text) @ np.float64(query).T, axis=0).sum() if len(text) else -np.inf
        for text in vectors
    ]


def test_centroids_choose_what_is_compared(monkeypatch):
    counts = np.random.default_rng(5).integers(0, 9, size=80)
    counts[3] = 0
    texts = TokenVectors(np.concatenate([[0], np.cumsum(counts)]), clusters(counts.sum(), 3))
    codec = Codec.fit(texts.vectors, 2, len(texts.vectors))
    held = CompressedVectors.of(codec, texts)
    queries = TokenVectors.from_list([clusters(6, 7), np.zeros([0, 16]), clusters(1, 8)])
    search = CentroidSearch(held, np.ones(80, bool))
    every = search.scores(queries, probes=10_000, candidates=80)
    for row, query in enumerate(queries):
        if len(query):
            np.testing.assert_allclose(every[row], best_matches(query, held), **FORMULA)
    assert np.all(every[1] == -np.inf) and every[0, 3] == -np.inf
    # Of the candidates those stay that are best as if each vector were its centroid.
    few = search.scores(queries, probes=10_000, candidates=5)
    codes = np.split(held.codes, held.row_splits[1:-1])  # of each text
    of_centroids = [codec.centroids[own] for own in codes]
    kept = np.argsort(best_matches(queries[:1].vectors, of_centroids))[-5:]
    assert np.flatnonzero(few[0] > -np.inf).tolist() == sorted(kept)
    np.testing.assert_array_equal(few[0, kept], every[0, kept])
    with monkeypatch.context() as patched:  # a few texts at a time
        patched.setattr(compressed_vectors, "_PRODUCTS_PER_BLOCK", 300)
        np.testing.assert_array_equal(search.scores(queries, 10_000, 5), few)
    # With one centroid for each token of the query only texts that have one of these are looked at.
    near = queries[:1].vectors @ codec.centroids.T
    probed = {*near.argmax(axis=1).tolist()}
    has_one = [bool(probed & {*own.tolist()}) for own in codes]
    found = search.scores(queries, probes=1, candidates=80)[0] > -np.inf
    assert found.tolist() == has_one and 0 < sum(has_one) < np.count_nonzero(counts)
    # Without these texts their centroids are nobody's, and the next ones are looked at.
    others = CentroidSearch(held, ~np.array(has_one)).scores(queries, probes=1)[0] > -np.inf
    assert others.any() and not np.any(others & has_one)


def test_an_index_in_few_bits_finds_what_the_whole_one_finds(encoder, index):
    whole = MultiVectorIndex.build(encoder, TEXTS)
    for query in TEXTS[:10]:
        (few,), (every,) = index.search([query], 3), whole.search([query], 3)
        assert few[0].text == every[0].text == query
        assert few[0].score == pytest.approx(every[0].score, rel=0.02)
    assert index.numbers_each.endswith("vectors of 6 numbers of 4 bits each in the mean")
    with pytest.raises(TypeError, match="rows are 3: give a slice"):
        index.vectors[3]
    with pytest.raises(ValueError, match="the step is 2: rows are taken one after the other"):
        index.vectors[::2]
    vectors = index.query_vectors(TEXTS[:2])
    np.testing.assert_allclose(
        index.scores_of(vectors, [0, 1]),
        [hits[0].score for hits in index.nearest(vectors, 1)],
        **FORMULA,
    )


def test_a_large_index_is_encoded_part_by_part(encoder, index, monkeypatch):
    monkeypatch.setattr("keras_bert.retrieval.multi_vector_index._SAMPLED_TEXTS", 40)
    monkeypatch.setattr("keras_bert.retrieval.multi_vector_index._TEXTS_PER_PART", 7)
    parts = MultiVectorIndex.build(encoder, TEXTS, bits=4)
    assert parts.vectors.counts.tolist() == index.vectors.counts.tolist()
    assert [hits[0].text for hits in parts.search(TEXTS[:10], 1)] == TEXTS[:10]


def test_equal_texts_and_blank_ones_take_nobodys_place(encoder):
    query, others = TEXTS[0], TEXTS[1:4]
    index = MultiVectorIndex.build(encoder, [*others, *[query] * 600, "", " ", "  "], bits=4)
    (hits,) = index.search([query], 604)
    assert [hit.number for hit in hits[:600]] == [*range(3, 603)]
    assert len({hit.score for hit in hits[:600]}) == 1
    assert {hit.number for hit in hits[600:]} == {0, 1, 2}


def test_more_texts_are_compared_where_more_are_asked_for(encoder, monkeypatch):
    for module in ("compressed_vectors", "multi_vector_index"):
        monkeypatch.setattr(f"keras_bert.retrieval.{module}.CANDIDATES", 3)
    index = MultiVectorIndex.build(encoder, TEXTS, bits=4)
    vectors = index.query_vectors(TEXTS[:1])
    every = index.scores_of(index.query_vectors(TEXTS[:1] * len(TEXTS)), range(len(TEXTS)))
    assert len(TEXTS) > 30
    for top_k in (1, 4, 30):
        (hits,) = index.nearest(vectors, top_k)
        assert len(hits) == top_k
        np.testing.assert_allclose(
            [hit.score for hit in hits], [every[hit.number] for hit in hits], **FORMULA
        )


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_few_short_texts_are_enough(bits, encoder, tmp_path):
    for texts in (["a", ""], ["a", "b", "film", "house", "key", "one"]):
        index = MultiVectorIndex.build(encoder, texts, bits=bits)
        (hits,) = index.search(["a"])
        assert hits[0].text == "a" and np.isfinite(hits[0].score)
        index.save(tmp_path / "index")
        assert MultiVectorIndex.load(tmp_path / "index", encoder).search(["a"]) == [hits]


def test_an_index_in_few_bits_opens_as_it_was(encoder, token_folder, index, tmp_path):
    index.save(tmp_path / "index")
    opened = MultiVectorIndex.load(tmp_path / "index", encoder)
    assert opened.search(TEXTS[:5], 4) == index.search(TEXTS[:5], 4)
    cut = MultiVectorEncoder.from_preset(token_folder, max_seq_length=6)
    with pytest.raises(ValueError, match="was made by another model"):
        MultiVectorIndex.load(tmp_path / "index", cut)
    with np.load(tmp_path / "index" / "vectors.npz") as stored:
        arrays = dict(stored)
    for damaged in (
        {"codes": arrays["codes"][:-1]},
        {"codes": arrays["codes"] + 1000},
        {"codes": arrays["codes"].astype(np.float32)},
        {"bits": 2},
        {"bits": 3},
        {"levels": arrays["levels"][:-1]},
        {"cutoffs": arrays["cutoffs"][:-1]},
        {"centroids": arrays["centroids"] * np.nan},
    ):
        np.savez(tmp_path / "index" / "vectors.npz", **(arrays | damaged))
        with pytest.raises(ValueError, match=r"holds a damaged index .*: build it anew"):
            MultiVectorIndex.load(tmp_path / "index", encoder)


def test_mistakes_are_told(encoder):
    for bits in (3, 8, True, "2", 2.0):
        with pytest.raises(ValueError, match=f"bits is {bits!r}: choose one of 1, 2, 4"):
            MultiVectorIndex.build(encoder, TEXTS, bits=bits)
    with pytest.raises(ValueError, match="none of 0 texts has vectors: there is nothing to search"):
        MultiVectorIndex.build(encoder, [], bits=2)
