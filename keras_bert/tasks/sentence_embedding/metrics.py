"""How well vectors find the texts that answer others, among all of a split.

Shapes: N different passages, H width.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

# Queries whose products with all passages are in memory at a time.
_QUERIES_PER_BLOCK = 512

# The vectors of the texts of each example, [texts, H], and the texts: one to search with, one that
# is to be found, and perhaps wrong ones.
Vectors = Sequence[np.ndarray]
Texts = Sequence[Sequence[str]]


def relevant_ranks(vectors: Vectors, texts: Texts) -> Iterator[np.ndarray]:
    """Yields the ranks, from 1, of the passages that are to be found, for each different query.

    Searched are all different passages of the split, right and wrong ones, by the product of the
    vectors. A passage that is the query itself is left out, unless it is to be found. Of passages
    with the same product, those that are to be found come last.

    Args:
        vectors: those of each example, float [texts, H].
        texts: those of each example: the query, a passage to be found, wrong ones.

    Returns:
        Ascending int64 [passages to be found].
    """
    passages: dict[str, np.ndarray] = {}
    queries: dict[str, np.ndarray] = {}
    found: dict[str, dict[str, None]] = {}
    for rows, (query, right, *wrong) in zip(vectors, texts, strict=True):
        queries.setdefault(query, rows[0])
        found.setdefault(query, {})[right] = None
        for text, vector in zip((right, *wrong), rows[1:], strict=True):
            passages.setdefault(text, vector)
    number = {text: index for index, text in enumerate(passages)}
    matrix = np.stack([*passages.values()])  # [N, H]
    names = [*queries]
    for start in range(0, len(names), _QUERIES_PER_BLOCK):
        block = names[start : start + _QUERIES_PER_BLOCK]
        scores = np.stack([queries[query] for query in block]) @ matrix.T  # [block, N]
        for query, row in zip(block, scores, strict=True):
            wanted = np.array([number[text] for text in found[query]])
            if query in number and query not in found[query]:
                row[number[query]] = -np.inf
            # Best first; behind each those of the others that are not worse.
            best_first = np.sort(row[wanted])[::-1]
            others = np.sort(np.delete(row, wanted))
            ahead = len(others) - np.searchsorted(others, best_first, side="left")
            yield ahead + np.arange(1, len(wanted) + 1)


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


def _mean(
    vectors: Vectors, texts: Texts, measure: Callable[[np.ndarray, int], float], count: int
) -> float:
    return float(np.mean([measure(ranks, count) for ranks in relevant_ranks(vectors, texts)]))


# Means over the different queries of a split; the first chooses the best epoch.
RANKING_METRICS: Mapping[str, Callable[[Vectors, Texts], float]] = {
    "ndcg_at_10": functools.partial(_mean, measure=ndcg, count=10),
    "mrr_at_10": functools.partial(_mean, measure=reciprocal_rank, count=10),
    "accuracy_at_1": functools.partial(_mean, measure=hit, count=1),
    "recall_at_10": functools.partial(_mean, measure=recall, count=10),
}
