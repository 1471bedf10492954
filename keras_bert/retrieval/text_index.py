"""Search by meaning: texts whose vectors are nearest to that of a query, among all of them.

    texts --SentenceEncoder--> unit vectors [N, D] --product with queries [Q, D]--> cosines [Q, N]

Vectors of a model that learned to be compared by their products keep their lengths.

Every vector is compared, so nothing is missed: a million of 384 numbers takes 1.5 GB and about a
tenth of a second a query. For many more the vectors can be given to an approximate index.

Shapes: N texts, Q queries, D width of the vectors.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.checkpoints.sentence_prompts import COSINE, DOT, MODEL_FILE
from keras_bert.models.finite_outputs import check_finite
from keras_bert.retrieval.searched_texts import SearchedTexts
from keras_bert.retrieval.sentence_encoder import SentenceEncoder
from keras_bert.retrieval.unit_vectors import unit_vectors


class TextIndex(SearchedTexts):
    """Texts that can be searched by meaning.

    Args:
        encoder: makes vectors of queries; the one that made those of the texts.
        texts: N texts.
        vectors: those of the texts, float [N, D]; of any length but 0.

    Attributes:
        texts: see above.
        vectors: those of the texts, float32 [N, D]; of length 1 unless the model's similarity is
            "dot".

    Raises:
        ValueError: one string was given in place of a list, or a text is none, there are more or
            fewer vectors than texts, or of another width, or some are not finite, or the model
            compares them in another way than by cosines or products.

    Example:
        encoder = SentenceEncoder.from_preset("runs/search")
        index = TextIndex.build(encoder, manual)
        for hit in index.search(["How do I lock a mutex?"], top_k=3)[0]:
            print(f"{hit.score:.2f} {hit.text}")
    """

    encoder_is, encoder_has = "a SentenceEncoder, whose vectors are dense", "width"
    vectors_file = "vectors.npy"

    def __init__(self, encoder: SentenceEncoder, texts: Sequence[str], vectors: np.ndarray):
        super().__init__(encoder, texts, np.asarray(vectors, np.float32))
        vectors = self.vectors
        if vectors.shape != (len(self.texts), encoder.width):
            raise ValueError(
                f"the vectors have the shape {vectors.shape}, but there are {len(self.texts):,} "
                f"texts and the model makes {encoder.width} numbers of each: build the index anew"
            )
        check_finite(vectors)
        self.vectors = self._comparable(encoder, vectors)

    @property
    def numbers_each(self) -> str:
        """What a vector is made of, for users."""
        return f"{self.vectors.shape[1]} numbers each"

    def scores_of(self, vectors: np.ndarray, numbers: Sequence[int]) -> np.ndarray:
        """Returns the score of each vector [Q, D] with one text, float32 [Q]."""
        return np.sum(vectors * self.vectors[[*numbers]], axis=-1)

    @staticmethod
    def _comparable(encoder: SentenceEncoder, vectors: np.ndarray) -> np.ndarray:
        if encoder.similarity not in (COSINE, DOT):
            raise ValueError(
                f"the folder compares vectors by {encoder.similarity} (similarity_fn_name in "
                f"{MODEL_FILE}), and the search by {COSINE} or {DOT}: write one of them there if "
                "it will do"
            )
        vectors = np.asarray(vectors, np.float32)
        if encoder.similarity == DOT:
            return vectors
        return unit_vectors(vectors)

    @staticmethod
    def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate(parts)

    def _holds(self, vectors: np.ndarray, places: np.ndarray) -> bool:
        return self._are_same(vectors, self.vectors[places])

    def _checked(self, vectors: Any) -> np.ndarray:
        vectors = np.asarray(vectors, np.float32)
        if vectors.ndim != 2 or vectors.shape[1] != self._encoder.width:
            raise ValueError(
                f"the vectors have the shape {vectors.shape}: give an array "
                f"[queries, {self._encoder.width}]"
            )
        check_finite(vectors)
        return vectors

    def _scores(self, vectors: np.ndarray, top_k: int) -> np.ndarray:
        return vectors @ self.vectors.T  # [Q, D] x [D, N]

    @classmethod
    def _made_by(cls, encoder: SentenceEncoder) -> dict[str, Any]:
        return {"width": encoder.width, "similarity": encoder.similarity}

    @classmethod
    def _stored_by(cls, content: Mapping[str, Any]) -> dict[str, Any]:
        return {"similarity": COSINE} | super()._stored_by(content)

    def _write_vectors(self, folder: Path) -> None:
        np.save(folder / self.vectors_file, self.vectors)

    @classmethod
    def _read_vectors(cls, folder: Path) -> tuple[np.ndarray]:
        vectors = np.load(folder / cls.vectors_file)
        if not isinstance(vectors, np.ndarray) or vectors.dtype.kind != "f":
            raise TypeError(f"{cls.vectors_file} holds no array of numbers with a fraction")
        if not np.isfinite(vectors).all():
            raise ValueError(f"a number in {cls.vectors_file} is not finite")
        return (vectors,)
