"""Texts as vectors of three kinds in Python, by one pass of BGE-M3 that an export serves, too.

    N texts --sort by length--> batches --tokenize, encode--+--> dense    float32 [N, W]
                                                            +--> sparse   SparseVectors of N rows
                                                            +--> tokens   TokenVectors of N texts

The vectors of a text do not depend on the batch that it came in, rounding apart.

Shapes: N texts, Q queries, W numbers of a dense vector, D of a token's vector.
"""

import dataclasses
import math
import os
from collections.abc import Sequence
from typing import Self

import numpy as np
import tensorflow as tf

from keras_bert.checkpoints.m3.folder import LEXICAL_FILE, TOKEN_FILE, is_m3_folder
from keras_bert.counts import check_number
from keras_bert.models.finite_outputs import check_finite
from keras_bert.progress import Progress
from keras_bert.retrieval.reranker import Reranker
from keras_bert.retrieval.sparse_encoder import decode_words
from keras_bert.serving.served_folder import open_signatures
from keras_bert.signatures.length_batches import batches_by_length
from keras_bert.signatures.options import ExportOptions
from keras_bert.storage import hub
from keras_bert.storage.text_lines import check_listed, check_strings
from keras_bert.tasks.sentence_embedding.m3_signatures import M3Signatures
from keras_bert.tasks.sentence_embedding.sparse_vectors import InvertedIndex, SparseVectors
from keras_bert.tasks.sentence_embedding.token_vectors import TokenVectors, max_sim

# How much the scores of dense vectors, sparse vectors and tokens count: as in FlagEmbedding's
# `compute_score`, where nobody says.
WEIGHTS = (1.0, 1.0, 1.0)
# Pairs of query and text that are scored at a time: a token's vector takes 4 kB.
_PAIRS_PER_PART = 1024


@dataclasses.dataclass(frozen=True, eq=False)
class M3Vectors:
    """N texts as vectors of three kinds, those of `M3Encoder`.

    Attributes:
        dense: float32 [N, W], of length 1.
        sparse: weights of the pieces of each text.
        tokens: vectors of all tokens but the first, of length 1.

    Raises:
        ValueError: they are of different numbers of texts.
    """

    dense: np.ndarray
    sparse: SparseVectors
    tokens: TokenVectors

    def __post_init__(self) -> None:
        if not len(self.dense) == len(self.sparse) == len(self.tokens):
            raise ValueError(
                f"dense, sparse and tokens are of {len(self.dense)}, {len(self.sparse)} and "
                f"{len(self.tokens)} texts: give those of the same texts"
            )

    def __len__(self) -> int:
        return len(self.dense)

    def __getitem__(self, rows: slice) -> Self:
        """Returns some texts, as `vectors[2:5]` or `vectors[7:8]`."""
        # The others refuse what is no slice of consecutive texts.
        return dataclasses.replace(
            self, sparse=self.sparse[rows], tokens=self.tokens[rows], dense=self.dense[rows]
        )

    def at(self, rows: Sequence[int] | np.ndarray) -> Self:
        """Returns the vectors of the texts of these numbers, in their order."""
        rows = np.asarray(rows, np.int64)
        return dataclasses.replace(
            self, dense=self.dense[rows], sparse=self.sparse.at(rows), tokens=self.tokens.at(rows)
        )


class M3Encoder(Reranker):
    """Turns texts into vectors of three kinds at once, as FlagEmbedding's BGEM3FlagModel does.

    Args:
        signatures: those of a folder of BGE-M3.
        weights: how much the scores of dense vectors, sparse vectors and tokens count.

    Attributes:
        weights: see above; of `similarity`, `scores`, `rerank` and of an `M3Index`.
        width: numbers of a dense vector, W.
        token_width: numbers of a token's vector, D.
        vocab_size: numbers of a whole sparse vector, V.

    Example:
        encoder = M3Encoder.from_preset("hf://BAAI/bge-m3", max_seq_length=512)
        queries = encoder.encode(["What is BGE M3?"])
        texts = encoder.encode(["BGE M3 is an embedding model.", "BM25 is a bag of words."])
        scores = encoder.similarity(queries, texts, weights=(0.4, 0.2, 0.4))  # [1, 2]
    """

    def __init__(self, signatures: M3Signatures, weights: Sequence[float] = WEIGHTS):
        self.weights = checked_weights(weights)
        self.width: int = signatures.tracked.width
        self.token_width: int = signatures.tracked.token_width
        self.vocab_size: int = signatures.model.config.vocab_size
        self._tokens = signatures.tokenizer.vocabulary.tokens

        def parts(texts: tf.Tensor) -> tuple[tf.Tensor, ...]:
            found = signatures.all_vectors(texts)
            lexical, vectors = found.lexical_weights, found.token_vectors
            return (
                found.dense,
                *(lexical.row_splits, found.lexical_ids.values, lexical.values),
                *(vectors.row_splits, vectors.values),
            )

        # Strings [N] in; tokenizer, encoder and all three in one graph, traced once for every N.
        self._answer = tf.function(
            parts, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False
        )

    @classmethod
    def from_preset(
        cls,
        folder: str | os.PathLike,
        max_seq_length: int | None = None,
        weights: Sequence[float] = WEIGHTS,
    ) -> Self:
        """Opens a folder of BGE-M3: an encoder, sparse_linear.pt and colbert_linear.pt.

        Args:
            folder: the folder, or `hf://org/name`.
            max_seq_length: the most positions of a text, the rest is cut; None takes what the
                folder says, which may be 8192 (FlagEmbedding takes 512, if nothing is said).
            weights: how much the scores of dense vectors, sparse vectors and tokens count.

        Raises:
            FileNotFoundError: it is no model folder.
            ValueError: it lacks one of the files, or one is damaged or of another model, or the
                weights are none, see `similarity`.
        """
        weights = checked_weights(weights)  # before the model is opened
        local = hub.local_folder(folder)
        if not local.is_dir():
            raise hub.missing_folder(local)
        if not is_m3_folder(local):
            missing = [name for name in (LEXICAL_FILE, TOKEN_FILE) if not (local / name).is_file()]
            raise ValueError(
                f"{folder} lacks {' and '.join(missing)}, without which there are no vectors of "
                "three kinds: give a whole folder of BGE-M3, or open it with SentenceEncoder"
            )
        signatures = open_signatures(
            local, ExportOptions(max_seq_length=max_seq_length), head="encoder"
        )
        assert isinstance(signatures, M3Signatures)
        return cls(signatures, weights)

    def encode(self, texts: Sequence[str], batch_size: int = 64) -> M3Vectors:
        """Returns the vectors of N texts, queries or texts to be found.

        Args:
            texts: N texts.
            batch_size: texts of a call of the model.

        Raises:
            ValueError: one string was given in place of a list, one of the texts is none, the batch
                size is below 1, or a number is not finite.
        """
        texts = check_strings(texts)
        dense = np.zeros([len(texts), self.width], np.float32)
        lexical = [(np.zeros([0], np.int32), np.zeros([0], np.float32))] * len(texts)
        tokens = [np.zeros([0, self.token_width], np.float32)] * len(texts)
        for places in batches_by_length([len(text) for text in texts], batch_size):
            batch = tf.constant([texts[place] for place in places])
            answer = [part.numpy() for part in self._answer(batch)]
            dense[places], splits, ids, weights, edges, vectors = answer
            for values in (answer[0], weights, vectors):
                check_finite(values)
            # Back to the order in which the texts came.
            for row, place in enumerate(places):
                part = slice(splits[row], splits[row + 1])
                lexical[place] = ids[part], weights[part]
                tokens[place] = vectors[edges[row] : edges[row + 1]]
        sparse = SparseVectors(
            _splits([len(ids) for ids, _ in lexical]),
            np.concatenate([np.zeros([0], np.int32), *(ids for ids, _ in lexical)]),
            np.concatenate([np.zeros([0], np.float32), *(weights for _, weights in lexical)]),
            self.vocab_size,
        )
        rows = np.concatenate([np.zeros([0, self.token_width], np.float32), *tokens])
        return M3Vectors(
            dense, sparse, TokenVectors(_splits([len(vectors) for vectors in tokens]), rows)
        )

    def encode_query(self, texts: Sequence[str], batch_size: int = 64) -> M3Vectors:
        """Returns the same as `encode`: nothing stands before the queries of BGE-M3."""
        return self.encode(texts, batch_size)

    def encode_document(self, texts: Sequence[str], batch_size: int = 64) -> M3Vectors:
        """Returns the same as `encode`."""
        return self.encode(texts, batch_size)

    def similarity(
        self, queries: M3Vectors, texts: M3Vectors, weights: Sequence[float] | None = None
    ) -> np.ndarray:
        """Returns the scores of Q queries and N texts, float32 [Q, N]: the mean of three.

        These are the products of dense vectors, those of sparse ones, and MaxSim divided by the
        number of the query's vectors. One alone is that with the weights (1, 0, 0), (0, 1, 0) or
        (0, 0, 1).

        Args:
            queries: vectors of Q texts to search with.
            texts: vectors of N texts to be found.
            weights: how much the scores of dense vectors, sparse vectors and tokens count; the
                mean is divided by their sum. None takes those of the encoder.

        Raises:
            ValueError: there are not three weights, one is below 0 or not finite, all are 0, or
                the vectors are those of different models.
        """
        dense, sparse, tokens = weights = (
            self.weights if weights is None else checked_weights(weights)
        )
        for vectors in (queries, texts):
            made = vectors.dense.shape[1], vectors.sparse.vocab_size, vectors.tokens.width
            if made != (self.width, self.vocab_size, self.token_width):
                raise ValueError(
                    f"vectors of {made[0]} numbers, {made[1]:,} pieces and {made[2]} numbers of a "
                    "token are of another model: give those that this one made"
                )
        scores = (
            queries.dense @ texts.dense.T if dense else None,
            InvertedIndex(texts.sparse).products(queries.sparse) if sparse else None,
            max_sim(queries.tokens, texts.tokens) if tokens else None,
        )
        return mean_scores(scores, weights, queries.tokens.counts)

    def scores(
        self, queries: Sequence[str], texts: Sequence[str], batch_size: int = 64
    ) -> np.ndarray:
        """Returns how well each text answers the query beside it, float32 [N]; higher is better.

        The score is that of `similarity`. Of a thousand pairs each text is encoded once.

        Args:
            queries: N queries; one that has several texts is repeated.
            texts: N texts.
            batch_size: texts of a call of the model.

        Raises:
            ValueError: as `encode`, or there are more queries than texts or fewer.
        """
        queries, texts = self._pairs(queries, texts)
        scores = np.zeros([len(queries)], np.float32)
        with Progress(len(queries), "pair", "scoring") as progress:
            for start in range(0, len(queries), _PAIRS_PER_PART):
                part = slice(start, start + _PAIRS_PER_PART)
                groups = self._grouped(queries[part], texts[part])
                query_vectors = self.encode_query(groups.queries, batch_size)
                text_vectors = self.encode_document(groups.texts, batch_size)
                for row, (places, rows) in enumerate(groups.pairs):
                    asked, beside = query_vectors[row : row + 1], text_vectors.at(rows)
                    scores[part][places] = self.similarity(asked, beside)[0]
                progress.update(len(scores[part]))
        return scores

    def decode(
        self, vectors: SparseVectors, top_k: int | None = None
    ) -> list[list[tuple[str, float]]]:
        """Returns the words of each sparse vector with their weights, the largest first.

        Args:
            vectors: of N texts, `encode(texts).sparse`.
            top_k: how many words at most; None gives all.

        Raises:
            ValueError: the vectors are of another vocabulary, or `top_k` is below 1.
        """
        return decode_words(vectors, self._tokens, self.vocab_size, top_k)


def checked_weights(weights: Sequence[float]) -> tuple[float, float, float]:
    """Returns the weights of three scores as numbers of Python.

    Raises:
        ValueError: there are not three, one is below 0 or not finite, or all are 0.
    """
    check_listed(weights, "weights", "three numbers, of dense vectors, sparse vectors and tokens")
    numbers = [check_number("weights", weight) for weight in weights]
    if len(numbers) != 3 or not all(0 <= n < math.inf for n in numbers) or not sum(numbers):
        raise ValueError(
            f"weights are {weights!r}: give three numbers of 0 and above, of dense vectors, "
            "sparse vectors and tokens, not all of them 0"
        )
    dense, sparse, tokens = numbers
    return dense, sparse, tokens


def mean_scores(
    scores: Sequence[np.ndarray | None], weights: Sequence[float], query_counts: np.ndarray
) -> np.ndarray:
    """Returns the mean of three scores of Q queries, float32 [Q] or [Q, N], as each of them.

    Args:
        scores: products of dense vectors and of sparse vectors, and MaxSim, which is divided by the
            number of the query's vectors; None for those with the weight 0.
        weights: how much they count.
        query_counts: how many vectors of tokens each query has, int64 [Q].
    """
    dense, sparse, tokens = scores
    if tokens is not None:
        counts = np.maximum(query_counts, 1).astype(np.float32)
        tokens = tokens / counts.reshape([len(counts)] + [1] * (tokens.ndim - 1))
    first, *others = (
        np.float32(weight / sum(weights)) * score
        for weight, score in zip(weights, (dense, sparse, tokens), strict=True)
        if score is not None
    )
    return np.asarray(sum(others, first), np.float32)


def _splits(counts: Sequence[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
