"""Sparse vectors: a weight for few of many words, and what finds texts by them. NumPy alone.

Rows stand one behind the other, as in the format CSR, the largest weight of each first:

    film 1.2, good 0.7          row_splits  0     2  3
    book 0.9                    token_ids   7  4  9
                                weights     1.2 0.7 0.9

A search goes the other way: for each word of a query through the texts that have it. What no text
shares with the query is never looked at.

Shapes: N rows, T weights of all of them, V words of the vocabulary, Q queries.
"""

import dataclasses
from collections.abc import Sequence
from typing import Self

import numpy as np

from keras_bert.tasks.sentence_embedding.token_vectors import places_of, slice_ends


@dataclasses.dataclass(frozen=True, eq=False)
class SparseVectors:
    """N sparse vectors, those of `SparseEncoder`.

    Attributes:
        row_splits: where rows begin and end, int64 [N + 1].
        token_ids: int32 [T].
        weights: above 0, float32 [T]; in each row the largest first.
        vocab_size: numbers of a whole vector, V.

    Raises:
        ValueError: the arrays do not fit each other, an id is none of the vocabulary or twice in a
            row, or a weight is not finite, not above 0 or larger than the one before in its row.
    """

    row_splits: np.ndarray
    token_ids: np.ndarray
    weights: np.ndarray
    vocab_size: int

    def __post_init__(self) -> None:
        for name, dtype in (("row_splits", np.int64), ("token_ids", np.int32)):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype))  # frozen
        object.__setattr__(self, "weights", np.asarray(self.weights, np.float32))
        splits, ids, weights = self.row_splits, self.token_ids, self.weights
        if (
            any(array.ndim != 1 for array in (splits, ids, weights))
            or not len(splits)
            or splits[0] != 0
            or np.any(np.diff(splits) < 0)
            or not splits[-1] == len(ids) == len(weights)
        ):
            raise ValueError(
                f"row_splits, token_ids and weights have the shapes {splits.shape}, {ids.shape} "
                f"and {weights.shape}: row_splits must go from 0 to the number of the others"
            )
        if len(ids) and not 0 <= ids.min() <= ids.max() < self.vocab_size:
            raise ValueError(
                f"token_ids go from {ids.min()} to {ids.max()}: give ids of a vocabulary of "
                f"{self.vocab_size:,} pieces"
            )
        if not np.all((weights > 0) & np.isfinite(weights)):  # nor is NaN
            raise ValueError("a weight is not finite, or not above 0: leave it out")
        rows = self.rows
        if np.any((np.diff(weights) > 0) & (np.diff(rows) == 0)):
            raise ValueError("the weights of a row do not fall: put the largest first")
        places = np.sort(rows * self.vocab_size + ids)
        if np.any(places[1:] == places[:-1]):
            raise ValueError("a row has an id twice: give each once, with one weight")

    def __len__(self) -> int:
        return len(self.row_splits) - 1

    def __getitem__(self, rows: slice) -> Self:
        """Returns some rows, as `vectors[2:5]` or `vectors[7:8]`."""
        start, end = slice_ends(rows, len(self))
        splits = self.row_splits[start : end + 1]
        part = slice(splits[0], splits[-1])
        return dataclasses.replace(
            self,
            row_splits=splits - splits[0],
            token_ids=self.token_ids[part],
            weights=self.weights[part],
        )

    @classmethod
    def from_dense(cls, vectors: np.ndarray) -> Self:
        """Returns vectors of which most numbers are 0; those below 0 count as such.

        Args:
            vectors: float [N, V].

        Raises:
            ValueError: a number above 0 is not finite, or one is NaN.
        """
        rows, ids = np.nonzero(~(vectors <= 0))  # with NaN, which is refused
        weights = np.asarray(vectors, np.float32)[rows, ids]
        order = np.lexsort((ids, -weights, rows))
        counts = np.bincount(rows, minlength=len(vectors))
        splits = np.concatenate([[0], np.cumsum(counts)])
        return cls(splits, ids[order], weights[order], vectors.shape[1])

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Returns the rows of all parts, at least one, one behind the other.

        Raises:
            ValueError: they are of different vocabularies.
        """
        sizes = sorted({part.vocab_size for part in parts})
        if len(sizes) > 1:
            raise ValueError(
                f"the parts are of vocabularies of {sizes[0]:,} and {sizes[1]:,} pieces: give "
                "vectors of one model"
            )
        counts = np.concatenate([np.diff(part.row_splits) for part in parts])
        return cls(
            np.concatenate([[0], np.cumsum(counts)]),
            np.concatenate([part.token_ids for part in parts]),
            np.concatenate([part.weights for part in parts]),
            parts[0].vocab_size,
        )

    def at(self, rows: Sequence[int] | np.ndarray) -> Self:
        """Returns the rows of these numbers, in their order."""
        splits, places = places_of(self.row_splits, rows)
        return dataclasses.replace(
            self,
            row_splits=splits,
            token_ids=self.token_ids[places],
            weights=self.weights[places],
        )

    def to_dense(self) -> np.ndarray:
        """Returns whole vectors, float32 [N, V]."""
        vectors = np.zeros([len(self), self.vocab_size], np.float32)
        vectors[self.rows, self.token_ids] = self.weights
        return vectors

    @property
    def rows(self) -> np.ndarray:
        """The row of each weight, int64 [T]."""
        return np.repeat(np.arange(len(self)), self.active_dims)

    @property
    def active_dims(self) -> np.ndarray:
        """How many weights each row has, int64 [N]."""
        return np.diff(self.row_splits)


class InvertedIndex:
    """Which texts have a word, and with which weight; for products with few words.

    Args:
        vectors: of the texts, [N, V].
    """

    def __init__(self, vectors: SparseVectors):
        order = np.argsort(vectors.token_ids, kind="stable")
        self._texts = vectors.rows[order].astype(np.int32)  # [T]
        self._weights = vectors.weights[order]  # [T]
        counts = np.bincount(vectors.token_ids, minlength=vectors.vocab_size)
        self._edges = np.concatenate([[0], np.cumsum(counts)])  # [V + 1]
        self._count = len(vectors)

    def products(self, queries: SparseVectors) -> np.ndarray:
        """Returns the products of Q vectors with those of the texts, float32 [Q, N]."""
        scores = np.zeros([len(queries), self._count], np.float32)
        for row, token, weight in zip(
            queries.rows, queries.token_ids, queries.weights, strict=True
        ):
            having = slice(self._edges[token], self._edges[token + 1])
            # A text has a word once, so none is added to twice.
            scores[row, self._texts[having]] += weight * self._weights[having]
        return scores
