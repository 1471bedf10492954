"""Wrong answers that are hard to tell from right ones: what a search finds near a query.

    queries --search among all passages--> nearest --without right ones--> the first few of each

What is about as near to the query as its answer may be right, too, though nobody marked it, so it
is left out (Moreira et al. 2024, "NV-Retriever": TopK-PercPos).
"""

from collections.abc import Sequence

import numpy as np

from keras_bert.counts import check_number, needed_count
from keras_bert.progress import Progress
from keras_bert.retrieval.searched_texts import SearchedTexts
from keras_bert.storage.text_lines import check_strings

# Pairs whose queries are encoded and searched at a time.
_PAIRS_PER_PART = 256


def mine_negatives(
    index: SearchedTexts,
    queries: Sequence[str],
    positives: Sequence[str],
    count: int = 4,
    skip: int = 0,
    relative_margin: float = 0.05,
    depth: int = 100,
) -> list[list[str]]:
    """Returns wrong answers for each pair of a query and its answer, the nearest first.

    Args:
        index: the passages that are searched, a `TextIndex`, a `SparseTextIndex`, a
            `MultiVectorIndex`, an `M3Index` or a `Bm25Index`; all positives are among them.
        queries: E queries; one that has several answers stands there with each.
        positives: the answer of each.
        count: wrong answers of a pair, at most; fewer where fewer are found.
        skip: how many of the nearest are left out, as they may be right ones.
        relative_margin: left out is what is nearer than the score of query and answer less this
            part of it; below 0 nothing is.
        depth: how many of the nearest passages are looked at.

    Returns:
        For each of the E pairs passages that are neither empty, nor the query, nor one of its
        answers.

    Raises:
        ValueError: an argument is out of its range, there are more queries than positives or fewer,
            or a positive is not in the index; or that is one of several searches.
    """
    queries, positives = check_strings(queries), check_strings(positives)
    check_mining(count, skip, relative_margin, depth)
    if not isinstance(index, SearchedTexts):
        raise ValueError(
            f"the index is a {type(index).__name__}, which has no scores of single texts: give one "
            "of the searches, such as a TextIndex"
        )
    if len(queries) != len(positives):
        raise ValueError(
            f"there are {len(queries):,} queries and {len(positives):,} positives: give the answer "
            "of each query"
        )
    number = {text: place for place, text in enumerate(index.texts)}
    right: dict[str, set[str]] = {}
    for query, positive in zip(queries, positives, strict=True):
        if positive not in number:
            raise ValueError(
                f"the answer {positive[:60]!r} is not among the texts of the index: build it of "
                "all answers"
            )
        right.setdefault(query, set()).add(positive)
    found: list[list[str]] = []
    with Progress(len(queries), "pair", "searching") as progress:
        for start in range(0, len(queries), _PAIRS_PER_PART):
            part = slice(start, start + _PAIRS_PER_PART)
            vectors = index.query_vectors(queries[part])
            # [part]: the scores of queries and answers
            scores = index.scores_of(vectors, [number[positive] for positive in positives[part]])
            limits = scores - relative_margin * np.abs(scores)
            nearest = index.nearest(vectors, depth)
            for query, limit, hits in zip(queries[part], limits, nearest, strict=True):
                no_answer = right[query] | {query}
                wrong = dict.fromkeys(
                    hit.text
                    for hit in hits
                    if hit.text.strip()
                    and hit.text not in no_answer
                    and (relative_margin < 0 or hit.score <= limit)
                )
                found.append([*wrong][skip : skip + count])
            progress.update(len(nearest))
    return found


def check_mining(count: int, skip: int, relative_margin: float, depth: int) -> None:
    """Checks the numbers of `mine_negatives` before the work.

    Raises:
        ValueError: one is out of its range.
    """
    for name, value, least in (("count", count, 1), ("skip", skip, 0), ("depth", depth, 1)):
        needed_count(name, value, least)
    if depth < count + skip:
        raise ValueError(
            f"depth is {depth}: look at {count + skip} of the nearest at least, as many as are "
            "taken and left out"
        )
    if not check_number("relative_margin", relative_margin) < 1:
        raise ValueError(f"relative_margin is {relative_margin}: it must be below 1")
