"""Cosines of each of many vectors with all others, a part of them in memory at a time.

Shapes: N vectors of W numbers, R rows of a block.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_bert.counts import check_number
from keras_bert.models.finite_outputs import check_finite
from keras_bert.progress import Progress
from keras_bert.retrieval.unit_vectors import unit_vectors

# Cosines of a block: 16 MiB, and a few times that for what is made of them.
_COSINES_PER_BLOCK = 1 << 22


def comparable_vectors(vectors: Any) -> np.ndarray:
    """Returns vectors as float32 [N, W] of length 1, whose products are cosines.

    Raises:
        ValueError: they are no array [N, W] of numbers, or one is not finite.
    """
    try:
        rows = np.asarray(vectors, np.float32)
    except (TypeError, ValueError):
        raise ValueError(
            "vectors is no array of numbers [texts, width]: give what SentenceEncoder.encode makes "
            "of the texts"
        ) from None
    if rows.ndim != 2:
        raise ValueError(f"vectors has the shape {rows.shape}: give an array [texts, width]")
    check_finite(rows)
    return unit_vectors(rows)


def check_cosine(name: str, value: Any) -> float:
    """Checks a cosine that a user gives.

    Raises:
        ValueError: it is no number from -1 to 1.
    """
    if not -1 <= check_number(name, value) <= 1:  # nor is NaN
        raise ValueError(f"{name} is {value}: a cosine is from -1 to 1")
    return float(value)


def rows_of_block(count: int) -> int:
    """Returns R, how many rows of `count` cosines are made at a time."""
    return max(1, _COSINES_PER_BLOCK // max(1, count))


def cosine_blocks(unit: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yields the number of the first vector of each block and its cosines with all, [R, N].

    Args:
        unit: vectors of length 1, float32 [N, W].
    """
    rows = rows_of_block(len(unit))
    with Progress(len(unit), "text", "comparing") as progress:
        for start in range(0, len(unit), rows):
            part = unit[start : start + rows]
            yield start, part @ unit.T  # [R, W] x [W, N]
            progress.update(len(part))
