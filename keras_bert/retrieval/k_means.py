"""Centroids of vectors by k-means (Lloyd 1982).

    vectors [S, D] --nearest centroid of each--> numbers [S] --mean of those of a number--> again

Shapes: S vectors of D numbers, C centroids.
"""

import numpy as np

from keras_bert.progress import Progress
from keras_bert.retrieval.unit_vectors import unit_vectors

# Products that are in memory at a time.
_PRODUCTS_PER_BLOCK = 1 << 25


def k_means(
    vectors: np.ndarray,
    centroids: np.ndarray,
    passes: int,
    unit: bool,
    progress: Progress | None = None,
) -> np.ndarray:
    """Returns centroids, float32 [C, D], that lie in the middle of the vectors near to them.

    Args:
        vectors: float32 [S, D].
        centroids: those to begin with, float32 [C, D].
        passes: how many, at most; fewer where no vector changes its centroid any more.
        unit: whether vectors have length 1, and centroids get it (spherical k-means, Dhillon and
            Modha 2001), so that the nearest one is that of the largest cosine.
        progress: told of each pass.
    """
    previous = None
    for _ in range(passes):
        codes = nearest_centroids(vectors, centroids)  # [S]
        if previous is not None and np.array_equal(codes, previous):
            break
        previous = codes
        order = np.argsort(codes, kind="stable")
        found, starts = np.unique(codes[order], return_index=True)
        sums = np.add.reduceat(vectors[order], starts, axis=0)  # [found, D]
        counts = np.diff([*starts, len(order)])[:, None]
        centroids = centroids.copy()  # those that are nearest to nothing stay
        centroids[found] = unit_vectors(sums) if unit else sums / counts
        if progress is not None:
            progress.update(1)
    return centroids


def nearest_centroids(vectors: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    """Returns the number of the nearest centroid of each vector, int32 [S]."""
    half_squares = 0.5 * np.sum(centroids**2, axis=1)  # [C]
    codes = np.empty(len(vectors), np.int32)
    step = max(1, _PRODUCTS_PER_BLOCK // max(1, len(centroids)))
    for start in range(0, len(vectors), step):
        part = slice(start, start + step)
        codes[part] = np.argmax(vectors[part] @ centroids.T - half_squares, axis=1)
    return codes
