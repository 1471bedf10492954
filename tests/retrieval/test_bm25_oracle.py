"""BM25 against the library bm25s, on the same words."""

import numpy as np
import pytest

from keras_bert import Bm25, Bm25Index
from tests.signatures.tiny_models import random_texts

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize(("k1", "b"), [(1.2, 0.75), (0.9, 0.4), (2.0, 1.0), (0.0, 0.5)])
def test_scores_are_those_of_bm25s(k1, b):
    import bm25s

    encoder = Bm25(k1=k1, b=b)
    texts = random_texts(200, seed=5, longest=40)
    index = Bm25Index.build(encoder, texts)
    oracle = bm25s.BM25(method="lucene", k1=k1, b=b)
    oracle.index([encoder.words(text) for text in texts], show_progress=False)
    queries = [query for query in random_texts(20, seed=6, longest=8) if encoder.words(query)]
    found = 0
    for query, hits in zip(queries, index.search(queries, len(texts)), strict=True):
        expected = oracle.get_scores(encoder.words(query))
        assert len(hits) == np.count_nonzero(expected)
        scores = np.array([hit.score for hit in hits])
        np.testing.assert_allclose(scores, expected[[hit.number for hit in hits]], rtol=1e-5)
        assert np.all(np.diff(scores) <= 0)
        found += len(hits)
    assert found > 1000
