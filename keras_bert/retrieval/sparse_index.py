"""Search by words with weights: texts whose sparse vectors have most in common with a query's.

    texts --SparseEncoder--> words with weights --inverted--> for each word the texts that have it
    query --SparseEncoder--> words with weights --------------> products with these texts alone

Every text that shares a word with a query is compared, so nothing is missed. A search engine that
takes weights of words (OpenSearch, Elasticsearch, Vespa, Qdrant and others) does the same for more
texts than fit in memory: give it the tokens and weights that `SparseEncoder` makes.

Shapes: N texts, Q queries, V pieces of the vocabulary.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.retrieval.searched_texts import SearchedTexts
from keras_bert.retrieval.sparse_encoder import SparseEncoder
from keras_bert.tasks.sentence_embedding.sparse_vectors import InvertedIndex, SparseVectors


class SparseTextIndex(SearchedTexts):
    """Texts that can be searched by the words that they are about.

    Args:
        encoder: makes vectors of queries; the one that made those of the texts.
        texts: N texts.
        vectors: those of the texts, N sparse vectors.

    Attributes:
        texts: see above.
        vectors: see above.

    Raises:
        ValueError: one string was given in place of a list, or a text is none, or the vectors are
            not as many as the texts or of another vocabulary.

    Example:
        encoder = SparseEncoder.from_preset("runs/sparse")
        index = SparseTextIndex.build(encoder, manual)
        for hit in index.search(["How do I lock a mutex?"], top_k=3)[0]:
            print(f"{hit.score:.1f} {hit.text}")
    """

    encoder_is, encoder_has = "a SparseEncoder, whose vectors are sparse", "vocab_size"
    vectors_file = "vectors.npz"
    found_above = 0.0

    def __init__(self, encoder: Any, texts: Sequence[str], vectors: SparseVectors):
        super().__init__(encoder, texts, vectors)
        self._checked(vectors)
        self._check_count(vectors)
        self._inverted = InvertedIndex(vectors)

    @property
    def numbers_each(self) -> str:
        """What a vector is made of, for users."""
        mean = len(self.vectors.weights) / max(1, len(self))
        return f"{mean:.1f} words each in the mean"

    def scores_of(self, vectors: SparseVectors, numbers: Sequence[int]) -> np.ndarray:
        """Returns the score of each of Q vectors with one text, float32 [Q]."""
        found = [
            np.sum(vectors[row : row + 1].to_dense() * self.vectors[place : place + 1].to_dense())
            for row, place in enumerate(numbers)
        ]
        return np.array(found, np.float32)

    @staticmethod
    def _comparable(encoder: SparseEncoder, vectors: SparseVectors) -> SparseVectors:
        return vectors

    @staticmethod
    def _joined(parts: Sequence[SparseVectors]) -> SparseVectors:
        return SparseVectors.concatenate(parts)

    def _holds(self, vectors: SparseVectors, places: np.ndarray) -> bool:
        return self._are_same(vectors.to_dense(), self.vectors.at(places).to_dense())

    def _checked(self, vectors: Any) -> SparseVectors:
        if not isinstance(vectors, SparseVectors) or vectors.vocab_size != self._vocab_size:
            raise ValueError(
                f"the vectors are {type(vectors).__name__}, but the search takes SparseVectors of "
                f"a vocabulary of {self._vocab_size:,} pieces, as the encoder makes them"
            )
        return vectors

    @property
    def _vocab_size(self) -> int:
        return self._encoder.vocab_size

    def _scores(self, vectors: SparseVectors, top_k: int) -> np.ndarray:
        return self._inverted.products(vectors)

    def _write_vectors(self, folder: Path) -> None:
        np.savez(folder / self.vectors_file, **self._arrays())

    def _arrays(self) -> dict[str, Any]:
        return {
            field.name: getattr(self.vectors, field.name)
            for field in dataclasses.fields(SparseVectors)
        }

    @classmethod
    def _read_vectors(cls, folder: Path) -> tuple[Any, ...]:
        with np.load(folder / cls.vectors_file) as arrays:
            stored = (arrays["row_splits"], arrays["token_ids"], arrays["weights"])
            return (SparseVectors(*stored, int(arrays["vocab_size"])),)
