"""The most similar pairs of many texts, such as near-duplicates (paraphrase mining).

    vectors [N, W] --products, block by block--> cosines [R, N] --nearest of each--> pairs --> best

Every text is compared with every other, so nothing is missed, and time grows with N^2; memory
grows with N and the pairs that are asked for.

Shapes: N texts, W numbers of a vector, R texts of a block, P pairs.
"""

from typing import Any, NamedTuple

import numpy as np

from keras_bert.clustering.cosines import check_cosine, comparable_vectors, cosine_blocks
from keras_bert.counts import needed_count


class SimilarPair(NamedTuple):
    """Two texts that are alike.

    Attributes:
        score: the cosine of their vectors.
        first: the number of one of them, from 0.
        second: the number of the other one, which is larger.
    """

    score: float
    first: int
    second: int


def paraphrase_mining(
    vectors: Any,
    threshold: float | None = None,
    top_k: int = 100,
    max_pairs: int = 500_000,
) -> list[SimilarPair]:
    """Returns the most similar pairs of texts, the best first.

    They are those of the function of this name in sentence-transformers. Of equal pairs the one of
    the earlier texts comes first.

    Args:
        vectors: of N texts, float [N, W], of any length, such as `SentenceEncoder.encode` makes.
        threshold: pairs with a smaller cosine are left out; None leaves out none.
        top_k: a pair is found where one of its texts is among so many nearest ones of the other.
        max_pairs: how many pairs at most.

    Raises:
        ValueError: the vectors have another form or are not finite, the threshold is no cosine, or
            a count is below 1.

    Example:
        encoder = SentenceEncoder.from_preset("runs/search")
        for score, first, second in paraphrase_mining(encoder.encode(texts), threshold=0.9):
            print(f"{score:.2f} {texts[first]!r} {texts[second]!r}")
    """
    needed_count("top_k", top_k)
    needed_count("max_pairs", max_pairs)
    least = -np.inf if threshold is None else check_cosine("threshold", threshold)
    unit = comparable_vectors(vectors)
    scores, keys = np.zeros(0, np.float32), np.zeros(0, np.int64)  # [P]
    for start, cosines in cosine_blocks(unit):
        found, found_keys = _near(cosines, start, least, top_k)
        scores, keys = np.concatenate([scores, found]), np.concatenate([keys, found_keys])
        if len(scores) > 2 * max_pairs:  # so that sorting costs little beside the products
            scores, keys = _best(scores, keys, max_pairs)
            if len(scores) == max_pairs:
                least = max(least, float(scores[-1]))
    scores, keys = _best(scores, keys, max_pairs)
    firsts, seconds = np.divmod(keys, max(1, len(unit)))
    return [*map(SimilarPair, scores.tolist(), firsts.tolist(), seconds.tolist())]


def _near(
    cosines: np.ndarray, start: int, least: float, top_k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns score and key of what is near to the texts of a block, each as [P].

    Args:
        cosines: of the texts of the block with all, [R, N]; changed in place.
        start: the number of the block's first text.
        least: smaller cosines are left out.
        top_k: the most for each text of the block.
    """
    rows, count = cosines.shape
    places = np.arange(rows)
    cosines[places, start + places] = -np.inf  # a text with itself is no pair
    near = cosines >= least  # [R, N]
    near[places, start + places] = False
    crowded = np.flatnonzero(np.count_nonzero(near, axis=1) > top_k)
    if len(crowded):
        nearest = np.argpartition(cosines[crowded], count - top_k, axis=1)[:, count - top_k :]
        chosen = np.zeros([len(crowded), count], bool)
        np.put_along_axis(chosen, nearest, True, axis=1)
        near[crowded] = chosen
    one, other = np.nonzero(near)  # [P] each
    scores = cosines[one, other]
    one += start
    # One number for both: of the smaller one, then of the larger one.
    return scores, np.minimum(one, other) * count + np.maximum(one, other)


def _best(scores: np.ndarray, keys: np.ndarray, max_pairs: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the best pairs in their order, each once: both of its texts may have found it."""
    order = np.lexsort((-scores, keys))
    scores, keys = scores[order], keys[order]
    is_first = np.ones(len(keys), bool)
    is_first[1:] = keys[1:] != keys[:-1]
    scores, keys = scores[is_first], keys[is_first]
    order = np.lexsort((keys, -scores))[:max_pairs]
    return scores[order], keys[order]
