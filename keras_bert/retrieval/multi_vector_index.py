"""Search by the tokens of texts: each one of a query looks for the most like it in every text.

    texts --MultiVectorEncoder--> vectors of tokens --kept as float16--+
    query --MultiVectorEncoder--> vectors of tokens --products with all of them--> MaxSim --> hits

Every token of every text is compared, so nothing is missed. An index takes 2 D bytes for a token,
and a search a product of D numbers for each pair of tokens: it is for tens of thousands of
passages, or for a part of more that something cheaper found: see `MultiVectorEncoder.rerank`. With
`bits` it takes about D * bits / 8 bytes, and a search looks at part of the texts and may find fewer
than are asked for, see `compressed_vectors.py`.

Shapes: N texts, Q queries, D numbers of a vector.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from keras_bert.retrieval.compressed_vectors import (
    BITS,
    CANDIDATES,
    CentroidSearch,
    Codec,
    CompressedVectors,
)
from keras_bert.retrieval.multi_vector_encoder import MultiVectorEncoder
from keras_bert.retrieval.searched_texts import SearchedTexts
from keras_bert.storage.text_lines import check_strings
from keras_bert.tasks.sentence_embedding.token_vectors import TokenVectors, max_sim

# Texts whose vectors the centroids are learned from, texts between two moves of the progress line.
_SAMPLED_TEXTS, _TEXTS_PER_PART = 1 << 12, 1 << 11
# By how much sums of vectors may differ, as a part of the longest one, that were compressed.
_SAME_COMPRESSED = 0.1


class MultiVectorIndex(SearchedTexts):
    """Texts that can be searched by what is said in them, token by token (late interaction).

    Args:
        encoder: makes vectors of queries; the one that made those of the texts.
        texts: N texts.
        vectors: those of their tokens, `TokenVectors` of N texts, kept as float16, or
            `CompressedVectors`.

    Attributes:
        texts: see above.
        vectors: see above.

    Raises:
        ValueError: one string was given in place of a list, or a text is none, or the vectors are
            not as many as the texts or of another width.

    Example:
        encoder = MultiVectorEncoder.from_preset("runs/colbert")
        index = MultiVectorIndex.build(encoder, manual)
        for hit in index.search(["How do I lock a mutex?"], top_k=3)[0]:
            print(f"{hit.score:.1f} {hit.text}")
    """

    encoder_is, encoder_has = (
        "a MultiVectorEncoder, which has a vector for each token",
        "token_width",
    )
    vectors_file = "vectors.npz"

    def __init__(
        self,
        encoder: MultiVectorEncoder,
        texts: Sequence[str],
        vectors: TokenVectors | CompressedVectors,
    ):
        super().__init__(encoder, texts, vectors)
        self._compressed: CentroidSearch | None = None
        self._checked(vectors)
        self._check_count(vectors)
        if isinstance(vectors, CompressedVectors):
            self._compressed = CentroidSearch(vectors, self._is_first & ~self._is_blank)
        else:
            self.vectors = vectors.astype(np.float16)

    @classmethod
    def build(
        cls,
        encoder: MultiVectorEncoder,
        texts: Sequence[str],
        batch_size: int = 64,
        bits: int | None = None,
    ) -> Self:
        """Makes the vectors of all texts, by `encoder.encode_document`.

        Args:
            encoder: turns texts into vectors.
            texts: N texts.
            batch_size: texts of a call of the model.
            bits: bits of each number in the index, 1, 2 or 4; None keeps float16 and compares every
                token of every text. With bits those texts alone are found that have a token like
                one of the query's. Of many texts some are encoded twice, to learn the centroids.

        Raises:
            ValueError: one string was given in place of a list, a text is none, or there are no
                texts with vectors or another number of bits.
        """
        if bits is None:
            return super().build(encoder, texts, batch_size)
        check_bits_of_number(bits)
        texts = check_strings(texts)
        cls._check_encoder(encoder)
        sampled = sampled_texts(texts, _SAMPLED_TEXTS)
        sample = encoder.encode_document(sampled, batch_size)
        codec = fitted_codec(sample, bits, len(texts))
        if sampled == texts:
            return cls(encoder, texts, CompressedVectors.of(codec, sample))
        parts = [
            CompressedVectors.of(codec, part)
            for part in cls._encoded(encoder, texts, batch_size, _TEXTS_PER_PART)
        ]
        return cls(encoder, texts, CompressedVectors.concatenate(parts))

    @property
    def is_compressed(self) -> bool:
        """Whether it was built with `bits`."""
        return self._compressed is not None

    @property
    def numbers_each(self) -> str:
        """What a vector is made of, for users."""
        mean = self.vectors.counts.sum() / max(1, len(self))
        form = "numbers"
        if self.is_compressed:
            bits = self.vectors.codec.bits
            form = f"numbers of {bits} bit{'s' if bits > 1 else ''}"
        return f"{mean:.1f} vectors of {self.vectors.width} {form} each in the mean"

    def scores_of(self, vectors: TokenVectors, numbers: Sequence[int]) -> np.ndarray:
        """Returns the score of each of Q queries with one text, float32 [Q]."""
        found = [
            max_sim(vectors[row : row + 1], self.vectors[place : place + 1])[0, 0]
            for row, place in enumerate(numbers)
        ]
        return np.array(found, np.float32)

    @staticmethod
    def _comparable(encoder: MultiVectorEncoder, vectors: TokenVectors) -> TokenVectors:
        return vectors

    @staticmethod
    def _joined(parts: Sequence[TokenVectors]) -> TokenVectors:
        return TokenVectors.concatenate([part.astype(np.float16) for part in parts])

    def _holds(self, vectors: TokenVectors, places: np.ndarray) -> bool:
        # Compared is the sum of the vectors of each text, [texts, D].
        held = _sums(self.vectors.at(places))
        if not self.is_compressed:
            return self._are_same(_sums(vectors), held)
        # Last digits choose between two centroids, or two levels.
        compressed = CompressedVectors.of(self.vectors.codec, vectors)
        return self._are_same(_sums(compressed[:]), held, _SAME_COMPRESSED)

    def _checked(self, vectors: Any) -> Any:
        width, found = self._encoder.token_width, type(vectors).__name__
        if isinstance(vectors, TokenVectors | CompressedVectors):
            found = f"{found} of {vectors.width} numbers each"
            if vectors.width == width:
                return vectors
        raise ValueError(
            f"the vectors are {found}, but the search takes TokenVectors of {width} numbers each, "
            "as the encoder makes them"
        )

    def _scores(self, vectors: TokenVectors, top_k: int) -> np.ndarray:
        if self._compressed is not None:
            return self._compressed.scores(vectors, candidates=candidates_of(top_k))
        return max_sim(vectors, self.vectors)

    def scores_near(self, vectors: TokenVectors, near: np.ndarray, candidates: int) -> np.ndarray:
        """Returns the scores of Q queries and the texts that another search found, float32 [Q, N].

        Args:
            vectors: of Q queries.
            near: bool [Q, N], the texts that were found.
            candidates: with `bits` so many are added that have tokens like those of the query.

        Returns:
            -inf for all others.
        """
        if self._compressed is not None:
            return self._compressed.scores(vectors, candidates=candidates, near=near)
        scores = np.full(near.shape, -np.inf, np.float32)
        for row, texts in enumerate(near):
            rows = np.flatnonzero(texts)
            scores[row, rows] = max_sim(vectors[row : row + 1], self.vectors.at(rows))[0]
        return scores

    def _write_vectors(self, folder: Path) -> None:
        arrays = {"row_splits": self.vectors.row_splits}
        if self._compressed is None:
            arrays["vectors"] = self.vectors.vectors
        else:
            arrays |= {"codes": self.vectors.codes, "residuals": self.vectors.residuals}
            arrays |= vars(self.vectors.codec)
        np.savez(folder / self.vectors_file, **arrays)

    @classmethod
    def _read_vectors(cls, folder: Path) -> tuple[TokenVectors | CompressedVectors]:
        with np.load(folder / cls.vectors_file) as arrays:
            if "codes" not in arrays:
                return (TokenVectors(arrays["row_splits"], arrays["vectors"]),)
            codec = Codec(
                int(arrays["bits"]),
                arrays["centroids"],
                arrays["cutoffs"],
                arrays["levels"],
                bool(arrays["has_unit_length"]),
            )
            stored = (arrays[name] for name in ("row_splits", "codes", "residuals"))
            return (CompressedVectors(codec, *stored),)


def candidates_of(top_k: int) -> int:
    """Returns how many texts are compared whole, where vectors are compressed."""
    return max(CANDIDATES, 2 * top_k)


def check_bits_of_number(bits: int) -> None:
    """Checks how many bits a number of a vector shall have.

    Raises:
        ValueError: it is none of those that can be had.
    """
    if bits not in BITS or isinstance(bits, bool | float):
        raise ValueError(f"bits is {bits!r}: choose one of {', '.join(map(str, BITS))}")


def sampled_texts(texts: Sequence[str], most: int) -> list[str]:
    """Returns some of the different texts, in their order: those to learn a codec from."""
    different = [*dict.fromkeys(texts)]
    chosen = np.random.default_rng(0).permutation(len(different))[:most]
    return [different[place] for place in np.sort(chosen)]


def fitted_codec(sample: TokenVectors, bits: int, texts: int) -> Codec:
    """Returns a codec learned from the vectors of some texts.

    Args:
        sample: vectors of the texts that were sampled.
        bits: of each number.
        texts: how many texts there are in all, N.

    Raises:
        ValueError: there are no vectors.
    """
    if not len(sample.vectors):
        raise ValueError(f"none of {texts:,} texts has vectors: there is nothing to search")
    return Codec.fit(sample.vectors, bits, len(sample.vectors) * texts // len(sample))


def _sums(vectors: TokenVectors) -> np.ndarray:
    """Returns the sum of the vectors of each text, float32 [N, D]."""
    return np.stack([np.sum(rows, axis=0, dtype=np.float32) for rows in vectors])
