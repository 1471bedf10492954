"""Vectors of the tokens of texts, and how alike they are (late interaction). NumPy alone.

Texts of different lengths stand one behind the other:

    3 vectors, then 2      row_splits  0     3   5
                           vectors     a b c d e

The score of a query and a text is MaxSim (Khattab and Zaharia 2020, ColBERT, arXiv:2004.12832): for
each vector of the query the largest product with a vector of the text, and the sum of these.

Shapes: N texts, T vectors of all of them, Q queries, P vectors of all of these, D width.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np

# Products that are in memory at a time, float32 [texts' vectors, queries' vectors].
_PRODUCTS_PER_BLOCK = 1 << 25
# Vectors of queries that are compared at a time.
_QUERY_VECTORS = 1 << 10


@dataclasses.dataclass(frozen=True, eq=False)
class TokenVectors:
    """The vectors of the tokens of N texts, those of `MultiVectorEncoder`.

    Attributes:
        row_splits: where texts begin and end, int64 [N + 1].
        vectors: float32 or float16 [T, D].

    Raises:
        ValueError: the arrays do not fit each other, or a number is not finite.
    """

    row_splits: np.ndarray
    vectors: np.ndarray

    def __post_init__(self) -> None:
        splits = np.asarray(self.row_splits, np.int64)
        vectors = np.asarray(self.vectors)
        if vectors.dtype != np.float16:
            vectors = np.asarray(vectors, np.float32)
        object.__setattr__(self, "row_splits", splits)  # frozen
        object.__setattr__(self, "vectors", vectors)
        if (
            splits.ndim != 1
            or vectors.ndim != 2
            or not len(splits)
            or splits[0] != 0
            or np.any(np.diff(splits) < 0)
            or splits[-1] != len(vectors)
        ):
            raise ValueError(
                f"row_splits and vectors have the shapes {splits.shape} and {vectors.shape}: "
                "row_splits must go from 0 to the number of vectors"
            )
        if not np.isfinite(vectors).all():
            raise ValueError("a number of the vectors is not finite")

    def __len__(self) -> int:
        return len(self.row_splits) - 1

    def __getitem__(self, rows: slice) -> Self:
        """Returns some texts, as `vectors[2:5]` or `vectors[7:8]`."""
        start, end = slice_ends(rows, len(self))
        splits = self.row_splits[start : end + 1]
        return dataclasses.replace(
            self, row_splits=splits - splits[0], vectors=self.vectors[splits[0] : splits[-1]]
        )

    def __iter__(self) -> Iterator[np.ndarray]:
        """Yields the vectors of each text, [tokens, D]."""
        for start, end in zip(self.row_splits[:-1], self.row_splits[1:], strict=True):
            yield self.vectors[start:end]

    @classmethod
    def from_list(cls, texts: Sequence[np.ndarray]) -> Self:
        """Returns the vectors of several texts, at least one, each [tokens, D]."""
        splits = np.concatenate([[0], np.cumsum([len(vectors) for vectors in texts])])
        return cls(splits, np.concatenate(texts))

    @classmethod
    def from_padded(cls, vectors: np.ndarray) -> Self:
        """Returns the vectors of texts of which the rest is zeros.

        Args:
            vectors: [N, S, D].
        """
        there = np.any(vectors != 0, axis=-1)  # [N, S]
        return cls(np.concatenate([[0], np.cumsum(there.sum(axis=-1))]), vectors[there])

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Returns the texts of all parts, at least one, one behind the other.

        Raises:
            ValueError: their vectors have different widths.
        """
        widths = sorted({part.width for part in parts})
        if len(widths) > 1:
            raise ValueError(
                f"the parts have vectors of {widths[0]} and of {widths[1]} numbers: give those of "
                "one model"
            )
        counts = np.concatenate([part.counts for part in parts])
        splits = np.concatenate([[0], np.cumsum(counts)])
        return cls(splits, np.concatenate([part.vectors for part in parts]))

    def at(self, rows: Sequence[int] | np.ndarray) -> Self:
        """Returns the vectors of the texts of these numbers, in their order."""
        splits, places = places_of(self.row_splits, rows)
        return dataclasses.replace(self, row_splits=splits, vectors=self.vectors[places])

    @property
    def counts(self) -> np.ndarray:
        """How many vectors each text has, int64 [N]."""
        return np.diff(self.row_splits)

    @property
    def width(self) -> int:
        """Numbers of a vector, D."""
        return self.vectors.shape[1]

    def astype(self, dtype: type[np.floating]) -> Self:
        """Returns the same in another number format, `np.float16` or `np.float32`."""
        return dataclasses.replace(self, vectors=self.vectors.astype(dtype, copy=False))


def slice_ends(rows: slice, count: int) -> tuple[int, int]:
    """Returns where a slice of so many texts begins and ends.

    Raises:
        TypeError: it is no slice.
        ValueError: it leaves some out.
    """
    if not isinstance(rows, slice):
        raise TypeError(f"rows are {rows!r}: give a slice, such as vectors[2:3] for one text")
    start, end, step = rows.indices(count)
    if step != 1:
        raise ValueError(f"the step is {step}: rows are taken one after the other")
    return start, max(start, end)


def places_of(
    row_splits: np.ndarray, rows: Sequence[int] | np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns where some rows begin and end among themselves, and the places of what they hold.

    Of the rows 0 to 3, 3 to 5 and 5 to 6 the last and the first stand at 5, 0, 1 and 2: 0, 1, 4.

    Args:
        row_splits: where all rows begin and end, int64 [N + 1].
        rows: numbers of R rows.

    Returns:
        int64 [R + 1] and int64 [their vectors].
    """
    rows = np.asarray(rows, np.int64)
    counts = row_splits[rows + 1] - row_splits[rows]  # [R]
    splits = np.concatenate([[0], np.cumsum(counts)])
    return splits, np.arange(splits[-1]) + np.repeat(row_splits[rows] - splits[:-1], counts)


def max_sim(queries: TokenVectors, texts: TokenVectors) -> np.ndarray:
    """Returns the scores of Q queries and N texts, float32 [Q, N].

    Computed in float32, whatever they are kept in. A text without vectors has -inf, a query without
    vectors 0 with all others.

    Raises:
        ValueError: the vectors have different widths.
    """
    if queries.width != texts.width:
        raise ValueError(
            f"vectors of queries have {queries.width} numbers, those of texts {texts.width}: give "
            "those of one model"
        )
    scores = np.full([len(queries), len(texts)], -np.inf, np.float32)
    full = np.flatnonzero(texts.counts)  # what is to be looked at
    scores[:, full] = 0.0
    asking = np.flatnonzero(queries.counts)
    query_parts = [
        (asking[part], queries.vectors[vectors].astype(np.float32), starts)
        for part, vectors, starts in _parts(queries.counts[asking], _QUERY_VECTORS)
    ]
    most = max((len(vectors) for _, vectors, _ in query_parts), default=1)
    for part, vectors, starts in _parts(texts.counts[full], max(1, _PRODUCTS_PER_BLOCK // most)):
        held = texts.vectors[vectors].astype(np.float32)
        for rows, asked, first in query_parts:
            products = held @ asked.T  # [T of the part, P of the part]
            largest = np.maximum.reduceat(products, starts, axis=0)  # [texts, P]
            scores[np.ix_(rows, full[part])] = np.add.reduceat(largest, first, axis=1).T
    return scores


def _parts(counts: np.ndarray, most: int) -> Iterator[tuple[slice, slice, np.ndarray]]:
    """Yields rows of about `most` vectors together: which rows, their vectors, where each begins.

    Args:
        counts: vectors of each row, none of them 0.
        most: vectors of a part; a row that has more is a part of its own.
    """
    splits = np.concatenate([[0], np.cumsum(counts)])
    start = 0
    while start < len(counts):
        end = max(start + 1, int(np.searchsorted(splits, splits[start] + most, "right")) - 1)
        yield (
            slice(start, end),
            slice(splits[start], splits[end]),
            splits[start:end] - splits[start],
        )
        start = end
