"""Vectors of tokens in a few bits, and a search that looks at few of them. NumPy alone.

    vector           =   centroid     +   residual, each number one of 2 ** bits levels
    D numbers            its number       D * bits / 8 bytes

Tokens that mean the same lie together, so most of a vector is the centroid that is nearest to it
(ColBERTv2, Santhanam et al. 2021, arXiv:2112.01488). A search goes over the centroids first (PLAID,
Santhanam et al. 2022, arXiv:2205.09707):

    query tokens --nearest centroids--> texts that have them --MaxSim with centroids alone-->
    the best ones --MaxSim with whole vectors--> scores

Shapes: N texts, T vectors of all of them, C centroids, L levels, B bytes of the residual of a
vector, Q queries, P vectors of a query, D numbers of a vector.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np

from keras_bert.progress import Progress
from keras_bert.retrieval.k_means import k_means, nearest_centroids
from keras_bert.retrieval.unit_vectors import unit_vectors
from keras_bert.tasks.sentence_embedding.token_vectors import (
    TokenVectors,
    max_sim,
    places_of,
    slice_ends,
)

BITS = (1, 2, 4)
# Centroids of ColBERTv2: about 16 times the root of the number of vectors.
_CENTROIDS_PER_ROOT = 16
# Vectors that centroids are learned from, at most; for each centroid, at least; passes over them.
_LEARNED_FROM, _VECTORS_PER_CENTROID, _PASSES = 1 << 18, 32, 8
# Products that are in memory at a time.
_PRODUCTS_PER_BLOCK = 1 << 25
# Centroids whose texts are looked at, for each token of a query, and texts whose whole vectors are.
PROBES, CANDIDATES = 4, 256


@dataclasses.dataclass(frozen=True, eq=False)
class Codec:
    """What turns vectors into a few bits and back.

    Attributes:
        bits: of each number of a residual: 1, 2 or 4.
        centroids: float32 [C, D].
        cutoffs: float32 [L - 1], rising: a number below the first one has level 0.
        levels: float32 [L], what a number of each level becomes.
        has_unit_length: whether vectors have length 1, and get it again.

    Raises:
        ValueError: there is another number of bits, or the arrays do not fit it, or are not finite.
    """

    bits: int
    centroids: np.ndarray
    cutoffs: np.ndarray
    levels: np.ndarray
    has_unit_length: bool

    def __post_init__(self) -> None:
        arrays = (self.centroids, self.cutoffs, self.levels)
        if (
            self.bits not in BITS
            or self.centroids.ndim != 2
            or self.cutoffs.shape != (2**self.bits - 1,)
            or self.levels.shape != (2**self.bits,)
            or not all(np.isfinite(array).all() for array in arrays)
        ):
            raise ValueError(
                "bits, centroids, cutoffs and levels do not fit each other, or are not finite"
            )

    @classmethod
    def fit(cls, sample: np.ndarray, bits: int, vectors: int, seed: int = 0) -> Self:
        """Learns centroids and levels.

        Args:
            sample: float [S, D], vectors such as those to be compressed; at least one.
            bits: see the class.
            vectors: how many will be compressed, T.
            seed: of the vectors that are learned from, and of those that k-means begins with.
        """
        draw = np.random.default_rng(seed)
        sample = np.asarray(sample[draw.permutation(len(sample))[:_LEARNED_FROM]], np.float32)
        lengths = np.linalg.norm(sample, axis=1)
        unit = bool(np.all(np.abs(lengths - 1) < 1e-2))  # float16 rounds by 1e-3
        most = max(1, len(sample) // _VECTORS_PER_CENTROID)
        count = min(most, 2 ** int(np.log2(_CENTROIDS_PER_ROOT * np.sqrt(max(vectors, 1)))))
        with Progress(_PASSES, "pass", "centroids") as progress:
            # They stand in random order.
            centroids = k_means(sample, sample[:count], _PASSES, unit, progress)  # [C, D]
        residuals = sample - centroids[nearest_centroids(sample, centroids)]  # [S, D]
        # Levels are equally frequent, and each is the mean of what it stands for.
        ranked = np.sort(residuals, axis=None)
        edges = np.arange(2**bits) * ranked.size // 2**bits
        levels = np.add.reduceat(ranked, edges, dtype=np.float64)
        levels /= np.maximum(np.diff([*edges, ranked.size]), 1)  # of few numbers some are alike
        return cls(bits, centroids, ranked[edges[1:]], levels.astype(np.float32), unit)

    def compress(self, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the centroid of each vector, int32 [T], and its residual, uint8 [T, B]."""
        vectors = np.asarray(vectors, np.float32)
        codes = nearest_centroids(vectors, self.centroids)
        vectors = vectors - self.centroids[codes]
        found = np.zeros_like(vectors, np.uint8)  # [T, D]
        for cutoff in self.cutoffs:
            found += vectors >= cutoff
        numbers = 8 // self.bits  # of a byte
        found = np.pad(found, [(0, 0), (0, -found.shape[1] % numbers)])
        found = found.reshape(len(vectors), found.shape[1] // numbers, numbers) << self._shifts
        return codes, np.bitwise_or.reduce(found, axis=2)

    def decompress(self, codes: np.ndarray, residuals: np.ndarray) -> np.ndarray:
        """Returns vectors, float32 [T, D]."""
        width = self.centroids.shape[1]
        # [256, numbers of a byte]: what each byte says.
        of_byte = self.levels[
            (np.arange(256, dtype=np.uint8)[:, None] >> self._shifts) & (2**self.bits - 1)
        ]
        numbers = residuals.shape[1] * of_byte.shape[1]
        found = of_byte[residuals].reshape(len(codes), numbers)[:, :width] + self.centroids[codes]
        return unit_vectors(found) if self.has_unit_length else found

    @property
    def _shifts(self) -> np.ndarray:
        return np.arange(0, 8, self.bits, dtype=np.uint8)


@dataclasses.dataclass(frozen=True, eq=False)
class CompressedVectors:
    """The vectors of the tokens of N texts, in a few bits.

    Attributes:
        codec: what they were compressed by.
        row_splits: where texts begin and end, int64 [N + 1].
        codes: the centroid of each vector, int32 [T].
        residuals: uint8 [T, B].

    Raises:
        ValueError: the arrays do not fit each other.
    """

    codec: Codec
    row_splits: np.ndarray
    codes: np.ndarray
    residuals: np.ndarray

    def __post_init__(self) -> None:
        splits, codes = self.row_splits, self.codes
        numbers = 8 // self.codec.bits
        if (
            not len(splits)
            or splits[0] != 0
            or np.any(np.diff(splits) < 0)
            or not splits[-1] == len(codes) == len(self.residuals)
            or self.residuals.shape[1:] != (-(-self.width // numbers),)
            or self.residuals.dtype != np.uint8
            or codes.dtype != np.int32
            or (len(codes) and not 0 <= codes.min() <= codes.max() < len(self.codec.centroids))
        ):
            raise ValueError("row_splits, codes, residuals and centroids do not fit each other")

    @classmethod
    def of(cls, codec: Codec, vectors: TokenVectors) -> Self:
        """Compresses the vectors of some texts."""
        return cls(codec, vectors.row_splits, *codec.compress(vectors.vectors))

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Returns the texts of all parts, at least one, of one codec."""
        counts = np.concatenate([part.counts for part in parts])
        return cls(
            parts[0].codec,
            np.concatenate([[0], np.cumsum(counts)]),
            np.concatenate([part.codes for part in parts]),
            np.concatenate([part.residuals for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.row_splits) - 1

    def __getitem__(self, rows: slice) -> TokenVectors:
        """Returns the vectors of some texts, as `vectors[2:5]`."""
        return self.at(np.arange(*slice_ends(rows, len(self))))

    def __iter__(self) -> Iterator[np.ndarray]:
        """Yields the vectors of each text, [tokens, D]."""
        return (vectors for row in range(len(self)) for vectors in self[row : row + 1])

    @property
    def counts(self) -> np.ndarray:
        """How many vectors each text has, int64 [N]."""
        return np.diff(self.row_splits)

    @property
    def width(self) -> int:
        """Numbers of a vector, D."""
        return self.codec.centroids.shape[1]

    def at(self, rows: np.ndarray) -> TokenVectors:
        """Returns the vectors of the texts of these numbers."""
        splits, places = places_of(self.row_splits, rows)
        vectors = self.codec.decompress(self.codes[places], self.residuals[places])
        return TokenVectors(splits, vectors)


class CentroidSearch:
    """Finds the texts that are worth a look at their whole vectors.

    Args:
        vectors: those of N texts.
        searched: bool [N], the texts that may be found. Equal ones would take each other's places.
    """

    def __init__(self, vectors: CompressedVectors, searched: np.ndarray):
        self._vectors = vectors
        rows = np.repeat(np.arange(len(vectors)), vectors.counts)  # [T]
        there = searched[rows]
        # Each centroid with the texts that have it: once each.
        pairs = np.unique(
            vectors.codes[there].astype(np.int64) * max(1, len(vectors)) + rows[there]
        )
        self._texts = pairs % max(1, len(vectors))
        centroids = len(vectors.codec.centroids)
        counts = np.bincount(pairs // max(1, len(vectors)), minlength=centroids)
        self._edges = np.concatenate([[0], np.cumsum(counts)])  # [C + 1]
        self._used = np.flatnonzero(counts)  # centroids that some text has

    def scores(
        self,
        queries: TokenVectors,
        probes: int = PROBES,
        candidates: int = CANDIDATES,
        near: np.ndarray | None = None,
    ) -> np.ndarray:
        """Returns MaxSim of each query with the texts that were looked at, float32 [Q, N].

        Args:
            queries: vectors of Q queries.
            probes: centroids whose texts are candidates, for each token of a query; those that no
                text has are passed over.
            candidates: texts whose whole vectors are compared, at most.
            near: bool [Q, N], other texts whose whole vectors are compared.

        Returns:
            -inf for the other texts, and for those without vectors.
        """
        scores = np.full([len(queries), len(self._vectors)], -np.inf, np.float32)
        for row, asked in enumerate(queries):
            if len(asked) and len(self._texts):
                rows = self._candidates(np.asarray(asked, np.float32), probes, candidates)
                if near is not None:
                    rows = np.union1d(rows, np.flatnonzero(near[row]))
                query = queries[row : row + 1]
                for start in range(0, len(rows), CANDIDATES):
                    part = rows[start : start + CANDIDATES]
                    scores[row, part] = max_sim(query, self._vectors.at(part))[0]
        return scores

    def _candidates(self, asked: np.ndarray, probes: int, candidates: int) -> np.ndarray:
        near = asked @ self._vectors.codec.centroids.T  # [P, C]
        probes = min(probes, len(self._used))
        places = np.argpartition(-near[:, self._used], probes - 1, axis=1)[:, :probes]
        best = self._used[np.unique(places)]
        lists = [self._texts[self._edges[one] : self._edges[one + 1]] for one in best]
        rows = np.unique(np.concatenate(lists))
        if len(rows) <= candidates:
            return rows
        # As if each vector were its centroid.
        scores = np.empty(len(rows), np.float32)
        step = max(1, _PRODUCTS_PER_BLOCK // (len(asked) * int(self._vectors.counts.max())))
        for start in range(0, len(rows), step):
            splits, held = places_of(self._vectors.row_splits, rows[start : start + step])
            products = near[:, self._vectors.codes[held]]  # [P, vectors]
            largest = np.maximum.reduceat(products, splits[:-1], axis=1)  # [P, texts]
            scores[start : start + step] = largest.sum(axis=0)
        return np.sort(rows[np.argpartition(-scores, candidates - 1)[:candidates]])
