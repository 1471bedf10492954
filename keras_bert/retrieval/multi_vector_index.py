"""Search by the tokens of texts: each one of a query looks for the most like it in every text.

    texts --MultiVectorEncoder--> vectors of tokens --kept as float16--+
    query --MultiVectorEncoder--> vectors of tokens --products with all of them--> MaxSim --> hits

Every token of every text is compared, so nothing is missed. An index takes 2 D bytes for a token,
and a search a product of D numbers for each pair of tokens: it is for tens of thousands of
passages, or for a part of more that something cheaper found: see `MultiVectorEncoder.rerank`.

Shapes: N texts, Q queries, D numbers of a vector.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.retrieval.multi_vector_encoder import MultiVectorEncoder
from keras_bert.retrieval.searched_texts import SearchedTexts
from keras_bert.tasks.sentence_embedding.token_vectors import TokenVectors, max_sim


class MultiVectorIndex(SearchedTexts):
    """Texts that can be searched by what is said in them, token by token (late interaction).

    Args:
        encoder: makes vectors of queries; the one that made those of the texts.
        texts: N texts.
        vectors: those of their tokens, `TokenVectors` of N texts; kept as float16.

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

    def __init__(self, encoder: MultiVectorEncoder, texts: Sequence[str], vectors: TokenVectors):
        super().__init__(encoder, texts, vectors)
        self.vectors = self._checked(vectors).astype(np.float16)
        self._check_count(vectors)

    @property
    def numbers_each(self) -> str:
        """What a vector is made of, for users."""
        mean = len(self.vectors.vectors) / max(1, len(self))
        return f"{mean:.1f} vectors of {self.vectors.width} numbers each in the mean"

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

    @staticmethod
    def _dense(vectors: TokenVectors) -> np.ndarray:
        """Returns the sum of the vectors of each text, float32 [N, D]."""
        return np.stack([np.sum(rows, axis=0, dtype=np.float32) for rows in vectors])

    def _checked(self, vectors: Any) -> TokenVectors:
        width, found = self._encoder.token_width, type(vectors).__name__
        if isinstance(vectors, TokenVectors):
            found = f"{found} of {vectors.width} numbers each"
            if vectors.width == width:
                return vectors
        raise ValueError(
            f"the vectors are {found}, but the search takes TokenVectors of {width} numbers each, "
            "as the encoder makes them"
        )

    def _scores(self, vectors: TokenVectors) -> np.ndarray:
        return max_sim(vectors, self.vectors)

    def _write_vectors(self, folder: Path) -> None:
        arrays = {"row_splits": self.vectors.row_splits, "vectors": self.vectors.vectors}
        np.savez(folder / self.vectors_file, **arrays)

    @classmethod
    def _read_vectors(cls, folder: Path) -> tuple[TokenVectors]:
        with np.load(folder / cls.vectors_file) as arrays:
            return (TokenVectors(arrays["row_splits"], arrays["vectors"]),)
