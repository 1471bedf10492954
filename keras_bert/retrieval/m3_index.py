"""Search by three kinds of vectors at once, those of BGE-M3: the mean of three scores.

    texts --M3Encoder--+--> dense vectors -------------------> TextIndex --------+
    (one pass)         +--> words with weights --------------> SparseTextIndex --+--> mean --> hits
                       +--> vectors of tokens ---------------> MultiVectorIndex -+

Every text is compared in each way, so nothing is missed. Where vectors of tokens are compressed, or
`candidates` are asked for, the whole score is that of texts that some way finds near the query:

    query --> the nearest by dense vectors, by words, by centroids --> the mean of three for each

Shapes: N texts, Q queries, W numbers of a dense vector.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import numpy as np

from keras_bert.checkpoints.sentence_prompts import DOT
from keras_bert.counts import check_count, needed_count
from keras_bert.retrieval.compressed_vectors import CompressedVectors
from keras_bert.retrieval.m3_encoder import (
    M3Encoder,
    M3Vectors,
    checked_weights,
    mean_scores,
)
from keras_bert.retrieval.multi_vector_index import (
    MultiVectorIndex,
    candidates_of,
    check_bits_of_number,
    fitted_codec,
    sampled_texts,
)
from keras_bert.retrieval.searched_texts import (
    TEXTS_FILE,
    Hit,
    SearchedTexts,
    check_index_folder,
)
from keras_bert.retrieval.sparse_index import SparseTextIndex
from keras_bert.retrieval.text_index import TextIndex
from keras_bert.storage.text_lines import check_strings
from keras_bert.tasks.sentence_embedding.sparse_vectors import SparseVectors
from keras_bert.tasks.sentence_embedding.token_vectors import TokenVectors

# The attributes of `M3Vectors` in the order of the weights, folders of an index, and what searches.
_KINDS: dict[str, type[SearchedTexts]] = {
    "dense": TextIndex,
    "sparse": SparseTextIndex,
    "tokens": MultiVectorIndex,
}
# Texts that are encoded at a time, and that the centroids are learned from: vectors of tokens are
# 1,024 numbers wide, so that a thousand texts of 100 tokens take 0.4 GB until they are made small.
_TEXTS_PER_PART, _SAMPLED_TEXTS = 1 << 8, 1 << 10


class M3Index(SearchedTexts):
    """Texts that can be searched by three kinds of vectors at once, those of BGE-M3.

    Args:
        encoder: makes vectors of queries; the one that made those of the texts. Its `weights` say
            how much each kind counts.
        texts: N texts.
        dense: float32 [N, W]; None where no search is by dense vectors, so for the others.
        sparse: N sparse vectors.
        tokens: `TokenVectors` of N texts, kept as float16, or `CompressedVectors`.

    Attributes:
        texts: see above.
        vectors: dense, sparse and those of tokens, as they are kept.

    Raises:
        ValueError: one string was given in place of a list, a text is none, vectors are not as many
            as the texts or of another model, or a kind is None that has a weight.

    Example:
        encoder = M3Encoder.from_preset("bge-m3", max_seq_length=512, weights=(0.4, 0.2, 0.4))
        index = M3Index.build(encoder, manual, bits=4)
        for hit in index.search(["How do I lock a mutex?"], top_k=3)[0]:
            print(f"{hit.score:.2f} {hit.text}")
    """

    encoder_is, encoder_has = "an M3Encoder, which makes three kinds of vectors", "weights"
    made_with = "max_seq_length, or without m3_weights"

    def __init__(
        self,
        encoder: M3Encoder,
        texts: Sequence[str],
        dense: np.ndarray | None,
        sparse: SparseVectors | None,
        tokens: TokenVectors | CompressedVectors | None,
    ):
        super().__init__(encoder, texts, None)
        # What each index wants to know of an encoder. `M3Encoder.similarity` takes products.
        made_by = (
            SimpleNamespace(width=encoder.width, similarity=DOT),
            SimpleNamespace(vocab_size=encoder.vocab_size),
            SimpleNamespace(token_width=encoder.token_width),
        )
        self._parts = {
            kind: index_class(of_kind, self.texts, vectors)
            for (kind, index_class), of_kind, vectors in zip(
                _KINDS.items(), made_by, (dense, sparse, tokens), strict=True
            )
            if vectors is not None
        }
        self.vectors = tuple(
            self._parts[kind].vectors if kind in self._parts else None for kind in _KINDS
        )
        self._needed_weights(encoder.weights)

    @classmethod
    def build(
        cls,
        encoder: M3Encoder,
        texts: Sequence[str],
        batch_size: int = 64,
        bits: int | None = None,
    ) -> Self:
        """Makes the vectors of all texts that have a weight, in one pass of the encoder.

        Args:
            encoder: turns texts into vectors. Of BGE-M3 a text takes 4 kB for the dense vector, 8
                bytes for each word and 2 kB for each token; a kind with the weight 0 is left out.
            texts: N texts.
            batch_size: texts of a call of the model.
            bits: bits of each number of a token's vector, see `MultiVectorIndex.build`. Of more
                than a thousand texts some are encoded twice then.

        Raises:
            ValueError: one string was given in place of a list, a text is none, or there is another
                number of bits, or vectors of tokens have no weight or texts, and there are bits.
        """
        texts = check_strings(texts)
        cls._check_encoder(encoder)
        codec, parts = None, []
        if bits is not None:
            check_bits_of_number(bits)
            if not encoder.weights[2]:
                raise ValueError(
                    f"bits is {bits}, and is for vectors of tokens, whose weight is 0: leave it out"
                )
            sampled = sampled_texts(texts, _SAMPLED_TEXTS)
            sample = encoder.encode_document(sampled, batch_size)
            codec = fitted_codec(sample.tokens, bits, len(texts))

        def kept(vectors: M3Vectors) -> tuple[Any, ...]:
            """As the index keeps them, None for what has no weight."""
            dense, sparse, tokens = (bool(weight) for weight in encoder.weights)
            kept_tokens: Any = None
            if tokens and codec is not None:
                kept_tokens = CompressedVectors.of(codec, vectors.tokens)
            elif tokens:
                kept_tokens = vectors.tokens.astype(np.float16)
            return vectors.dense if dense else None, vectors.sparse if sparse else None, kept_tokens

        if codec is not None and sampled == texts:
            parts.append(kept(sample))
        else:
            parts.append(kept(encoder.encode_document([], batch_size)))
            parts += map(kept, cls._encoded(encoder, texts, batch_size, _TEXTS_PER_PART))
        return cls(encoder, texts, *cls._joined(parts))

    def search(
        self,
        queries: Sequence[str],
        top_k: int = 10,
        weights: Sequence[float] | None = None,
        candidates: int | None = None,
    ) -> list[list[Hit]]:
        """Returns the best texts of each query by `M3Encoder.similarity`; empty ones are not found.

        Args:
            queries: Q queries.
            top_k: how many texts at most.
            weights: how much dense vectors, sparse vectors and tokens count; None takes those of
                the encoder.
            candidates: so many nearest texts by dense vectors and so many by words, those that have
                a weight, are scored, and those with tokens like the query's where the index has
                `bits`; at least `top_k`. None scores every text, and with `bits` 256 of each way.

        Raises:
            ValueError: one string was given in place of a list, `top_k` or `candidates` is below 1,
                or the weights are none, or of a kind that the index does not have.
        """
        weights = self._needed_weights(weights)  # before the queries are encoded
        return self.nearest(self.query_vectors(queries), top_k, weights, candidates)

    def nearest(
        self,
        vectors: M3Vectors,
        top_k: int = 10,
        weights: Sequence[float] | None = None,
        candidates: int | None = None,
    ) -> list[list[Hit]]:
        """Returns the best texts of each of Q queries; see `search`.

        Args:
            vectors: as `query_vectors` makes them.
            top_k: how many texts at most.
            weights: see `search`.
            candidates: see `search`.

        Raises:
            ValueError: as `search`, or the vectors are of another model.
        """
        needed_count("top_k", top_k)
        check_count("candidates", candidates)
        used = self._needed_weights(weights)
        return self._ranked(
            self._checked(vectors),
            top_k,
            lambda part: self._mean_scores(part, top_k, used, candidates),
        )

    @property
    def numbers_each(self) -> str:
        """What a vector is made of, for users."""
        return ", ".join(part.numbers_each for part in self._parts.values())

    def scores_of(self, vectors: M3Vectors, numbers: Sequence[int]) -> np.ndarray:
        """Returns the score of each of Q queries with one text, float32 [Q]."""
        weights = self._encoder.weights
        scores = [
            self._parts[kind].scores_of(getattr(vectors, kind), numbers) if weight else None
            for kind, weight in zip(_KINDS, weights, strict=True)
        ]
        return mean_scores(scores, weights, vectors.tokens.counts)

    @classmethod
    def check_folder(cls, folder: str | os.PathLike) -> None:
        """Checks before the work that an index may be written.

        Raises:
            ValueError: it is no folder of this machine, or one that holds something else.
        """
        check_index_folder(folder, {TEXTS_FILE, *_KINDS}, "an index of three kinds of vectors")

    def _scores(self, vectors: M3Vectors, top_k: int) -> np.ndarray:
        return self._mean_scores(vectors, top_k, self._encoder.weights, None)

    def _mean_scores(
        self, vectors: M3Vectors, top_k: int, weights: Sequence[float], candidates: int | None
    ) -> np.ndarray:
        scores: list[np.ndarray | None] = [
            self._parts[kind]._scores(getattr(vectors, kind), top_k) if weight else None
            for kind, weight in zip(_KINDS, weights[:2], strict=False)
        ]  # [Q, N] each
        tokens = None
        if weights[2]:
            part = self._parts["tokens"]
            assert isinstance(part, MultiVectorIndex)
            others = {
                kind: found
                for kind, found in zip(_KINDS, scores, strict=False)
                if found is not None
            }
            if part.is_compressed or (candidates is not None and others):
                count = max(candidates, top_k) if candidates else candidates_of(top_k)
                near = np.zeros([len(vectors), len(self)], bool)
                for kind, found in others.items():
                    near |= self._nearest_by(kind, found, count)
                tokens = part.scores_near(vectors.tokens, near, count)
            else:
                tokens = part._scores(vectors.tokens, top_k)
        found = mean_scores([*scores, tokens], weights, vectors.tokens.counts)
        if not weights[0] and not weights[2]:  # words alone: most texts have none of the query's
            found = np.where(found > SparseTextIndex.found_above, found, -np.inf)
        return found

    def _nearest_by(self, kind: str, scores: np.ndarray, count: int) -> np.ndarray:
        """Returns which texts have the largest of some scores [Q, N], bool [Q, N].

        Of equal texts the first one counts, so that they do not take the places of others.
        """
        is_found = scores > self._parts[kind].found_above
        is_found &= self._is_first & ~self._is_blank
        if count >= len(self):
            return is_found
        ranked = np.where(is_found, -scores, np.inf)
        near = np.zeros_like(is_found)
        best = np.argpartition(ranked, count - 1, axis=1)[:, :count]
        np.put_along_axis(near, best, True, axis=1)
        return near & is_found

    def _needed_weights(self, weights: Sequence[float] | None) -> tuple[float, float, float]:
        """Returns weights; refuses those of a kind that the index does not have."""
        used = self._encoder.weights if weights is None else checked_weights(weights)
        for kind, weight in zip(_KINDS, used, strict=True):
            if weight and kind not in self._parts:
                raise ValueError(
                    f"the index holds vectors of the kinds {', '.join(self._parts)}, but the weight"
                    f" of {kind} is {weight:g}: give 0, or build it anew with a weight for these"
                )
        return used

    @staticmethod
    def _comparable(encoder: M3Encoder, vectors: M3Vectors) -> M3Vectors:
        return vectors

    @staticmethod
    def _joined(parts: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
        dense, sparse, tokens = zip(*parts, strict=True)
        join_tokens = type(tokens[0]).concatenate if tokens[0] is not None else None
        return (
            np.concatenate(dense) if dense[0] is not None else None,
            SparseVectors.concatenate(sparse) if sparse[0] is not None else None,
            join_tokens(tokens) if join_tokens is not None else None,
        )

    def _holds(self, vectors: M3Vectors, places: np.ndarray) -> bool:
        return all(
            part._holds(getattr(vectors, kind), places) for kind, part in self._parts.items()
        )

    def _checked(self, vectors: Any) -> M3Vectors:
        if not isinstance(vectors, M3Vectors):
            raise ValueError(
                f"the vectors are {type(vectors).__name__}, but the search takes M3Vectors, as the "
                "encoder makes them"
            )
        for kind, part in self._parts.items():
            part._checked(getattr(vectors, kind))
        return vectors

    @classmethod
    def _made_by(cls, encoder: M3Encoder) -> dict[str, Any]:
        return {
            "width": encoder.width,
            "vocab_size": encoder.vocab_size,
            "token_width": encoder.token_width,
        }

    def _write_vectors(self, folder: Path) -> None:
        for kind, part in self._parts.items():
            (folder / kind).mkdir()
            part._write_vectors(folder / kind)

    @classmethod
    def _read_vectors(cls, folder: Path) -> tuple[Any, ...]:
        if not any((folder / kind).is_dir() for kind in _KINDS):
            raise ValueError(f"there is none of the folders {', '.join(_KINDS)}")
        return tuple(
            index_class._read_vectors(folder / kind)[0] if (folder / kind).is_dir() else None
            for kind, index_class in _KINDS.items()
        )
