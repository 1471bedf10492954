"""How well vectors find the texts that answer others, and order pairs by their likeness.

Shapes: E examples, N different passages, H width.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert.finetuning import metrics
from keras_bert.finetuning.task import Metric
from keras_bert.tasks.sentence_embedding.examples import EmbeddingExample
from keras_bert.tasks.sentence_embedding.sparse_vectors import InvertedIndex, SparseVectors
from keras_bert.tasks.sentence_embedding.token_vectors import TokenVectors, max_sim

# Products of queries and passages that are in memory at a time.
_PRODUCTS_PER_BLOCK = 1 << 24
# The least length that a vector is divided by.
_SMALLEST = 1e-12

# The vectors of the texts of each example: float [texts, H], as many sparse ones, or those of the
# tokens of as many texts.
Vectors = Sequence[np.ndarray] | Sequence[SparseVectors] | Sequence[TokenVectors]
Examples = Sequence[EmbeddingExample]


def relevant_ranks(vectors: Vectors, examples: Examples) -> Iterator[np.ndarray]:
    """Yields the ranks, from 1, of the passages that are to be found, for each different query.

    Searched are all different passages of the split, right and wrong ones, by the product of the
    vectors. A passage that is the query itself is left out, unless it is to be found. Of passages
    with the same product, those that are to be found come last.

    Args:
        vectors: those of each example.
        examples: of each a query, a passage to be found, wrong ones.

    Returns:
        Ascending int64 [passages to be found].

    Raises:
        ValueError: an example has one text alone.
    """
    passages: dict[str, Any] = {}
    queries: dict[str, Any] = {}
    wanted: dict[str, dict[str, None]] = {}
    for rows, example in zip(vectors, examples, strict=True):
        if len(example.texts) < 2:
            raise ValueError(
                f"the text {example.texts[0][:60]!r} has none that is to be found: a search is "
                "measured by examples of two texts"
            )
        query, right, *wrong = example.texts
        first, *others = _vectors_of(rows)
        queries.setdefault(query, first)
        wanted.setdefault(query, {})[right] = None
        for text, vector in zip((right, *wrong), others, strict=True):
            passages.setdefault(text, vector)
    number = {text: index for index, text in enumerate(passages)}
    products = _products_with([*passages.values()])
    names = [*queries]
    block = max(1, _PRODUCTS_PER_BLOCK // len(passages))
    for start in range(0, len(names), block):
        part = names[start : start + block]
        scores = products([queries[query] for query in part])  # [block, N]
        for query, row in zip(part, scores, strict=True):
            if query in number and query not in wanted[query]:
                row[number[query]] = -np.inf
            best_first = np.sort(row[[number[text] for text in wanted[query]]])[::-1]
            # Those that are not worse, without those that are to be found, too. Written so that
            # what is no number is worse than none.
            ahead = [
                np.count_nonzero(~(row < score)) - np.count_nonzero(~(best_first < score))
                for score in best_first
            ]
            yield np.array(ahead) + np.arange(1, len(best_first) + 1)


def _vectors_of(rows: Any) -> list[Any]:
    """Returns the vectors of the texts of an example one by one."""
    if isinstance(rows, SparseVectors | TokenVectors):
        return [rows[place : place + 1] for place in range(len(rows))]
    return list(rows)


def _products_with(passages: Sequence[Any]) -> Callable[[Sequence[Any]], np.ndarray]:
    """Returns what makes the scores of vectors with those of N passages, [queries, N]."""
    if isinstance(passages[0], SparseVectors):
        index = InvertedIndex(SparseVectors.concatenate(passages))
        return lambda queries: index.products(SparseVectors.concatenate(queries))
    if isinstance(passages[0], TokenVectors):
        texts = TokenVectors.concatenate(passages)
        return lambda queries: max_sim(TokenVectors.concatenate(queries), texts)
    matrix = np.stack(passages)  # [N, H]
    return lambda queries: np.stack(queries) @ matrix.T


def ndcg(ranks: np.ndarray, count: int) -> float:
    """Returns the normalised discounted cumulative gain of one query (Järvelin, Kekäläinen 2002).

    Args:
        ranks: of the passages to be found, ascending, from 1.
        count: how many results are looked at.
    """
    gain = np.sum(1 / np.log2(ranks[ranks <= count] + 1))
    best = np.sum(1 / np.log2(np.arange(min(count, len(ranks))) + 2))
    return float(gain / best)


def reciprocal_rank(ranks: np.ndarray, count: int) -> float:
    """Returns one by the first rank, 0 where it is behind `count`."""
    return float(1 / ranks[0]) if ranks[0] <= count else 0.0


def hit(ranks: np.ndarray, count: int) -> float:
    """Returns whether one of the passages is among the first `count`, 0 or 1."""
    return float(ranks[0] <= count)


def recall(ranks: np.ndarray, count: int) -> float:
    """Returns the fraction of the passages that is among the first `count`."""
    return float(np.mean(ranks <= count))


class _LatestSearch:
    """The ranks of a split, searched once for all metrics that ask one after the other."""

    def __init__(self) -> None:
        self._asked: tuple[Vectors, Examples] | None = None
        self._ranks: list[np.ndarray] = []

    def ranks(self, vectors: Vectors, examples: Examples) -> list[np.ndarray]:
        if self._asked is None or any(
            held is not given for held, given in zip(self._asked, (vectors, examples), strict=True)
        ):
            self._ranks = list(relevant_ranks(vectors, examples))
            self._asked = (vectors, examples)
        return self._ranks


def _mean(
    vectors: Vectors,
    examples: Examples,
    search: _LatestSearch,
    measure: Callable[[np.ndarray, int], float],
    count: int,
) -> float:
    return float(np.mean([measure(ranks, count) for ranks in search.ranks(vectors, examples)]))


def ranking_metrics(dims: Sequence[int] = ()) -> Mapping[str, Metric]:
    """Returns means over the different queries of a split; the first chooses the best epoch.

    Args:
        dims: the first metric is there besides for the first so many numbers of the vectors.
    """
    mean = functools.partial(_mean, search=_LatestSearch())
    found = {
        "ndcg_at_10": functools.partial(mean, measure=ndcg, count=10),
        "mrr_at_10": functools.partial(mean, measure=reciprocal_rank, count=10),
        "accuracy_at_1": functools.partial(mean, measure=hit, count=1),
        "recall_at_10": functools.partial(mean, measure=recall, count=10),
    }
    return found | _of_widths("ndcg_at_10", found["ndcg_at_10"], dims)


def sparse_ranking_metrics() -> Mapping[str, Metric]:
    """Returns those of `ranking_metrics`, and how many weights a vector has in the mean."""
    return {
        **ranking_metrics(),
        "query_active_dims": functools.partial(_active_dims, of_queries=True),
        "document_active_dims": functools.partial(_active_dims, of_queries=False),
    }


def _active_dims(
    vectors: Sequence[SparseVectors], examples: Examples, of_queries: bool
) -> float | None:
    counts = {
        text: int(count)
        for rows, example in zip(vectors, examples, strict=True)
        for place, (text, count) in enumerate(zip(example.texts, rows.active_dims, strict=True))
        if (place == 0) == of_queries
    }
    return float(np.mean([*counts.values()])) if counts else None


def _of_widths(name: str, metric: Metric, dims: Sequence[int]) -> dict[str, Metric]:
    """Returns a metric of vectors for those of their first numbers, such as spearman_dim_64."""
    return {f"{name}_dim_{dim}": functools.partial(_of_width, metric, dim) for dim in dims}


def _of_width(
    metric: Metric, dim: int, vectors: Sequence[np.ndarray], examples: Examples
) -> float | None:
    return metric([_cut(rows, dim) for rows in vectors], examples)


def _cut(rows: np.ndarray, dim: int) -> np.ndarray:
    """Returns the first numbers of vectors [texts, H], of length 1: [texts, dim]."""
    rows = rows[:, :dim]
    return rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), _SMALLEST)


def _of_cosines(vectors: Sequence[np.ndarray], examples: Examples, metric: Metric) -> float | None:
    for example in examples:
        if example.score is None:
            raise ValueError(
                f"the text {example.texts[0][:60]!r} has no score: similarities are measured by "
                "pairs with scores"
            )
    cosines = np.array([rows[0] @ rows[1] for rows in vectors])
    return metric(cosines, np.array([example.score for example in examples]))


def similarity_metrics(dims: Sequence[int] = ()) -> Mapping[str, Metric]:
    """Returns correlations of cosines and scores; the first chooses the best epoch.

    Args:
        dims: the first metric is there besides for the first so many numbers of the vectors.
    """
    found = {
        "spearman": functools.partial(_of_cosines, metric=metrics.spearman),
        "pearson": functools.partial(_of_cosines, metric=metrics.pearson),
    }
    return found | _of_widths("spearman", found["spearman"], dims)
