"""Texts as vectors of their tokens in Python, by the graph that an export serves.

    N texts --sort by length--> batches --tokenize, encode, project--> TokenVectors of N texts

The vectors of a text do not depend on the batch that it came in, rounding apart.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import tensorflow as tf

from keras_bert.checkpoints.multi_vector_modules import is_multi_vector_folder
from keras_bert.models.finite_outputs import check_finite
from keras_bert.retrieval.reranker import Reranker
from keras_bert.serving.served_folder import open_signatures
from keras_bert.signatures.length_batches import batches_by_length
from keras_bert.signatures.options import ExportOptions
from keras_bert.storage import hub
from keras_bert.storage.text_lines import check_string, check_strings
from keras_bert.tasks.sentence_embedding.multi_vector_signatures import MultiVectorSignatures
from keras_bert.tasks.sentence_embedding.token_vectors import TokenVectors, max_sim


class TokenMatch(NamedTuple):
    """A token of a query and the token of a text that is most like it.

    Attributes:
        query_token: a piece of the query, or [CLS], [SEP] and the like.
        text_token: a piece of the text.
        score: the product of their vectors, from -1 to 1.
    """

    query_token: str
    text_token: str
    score: float


class MultiVectorEncoder(Reranker):
    """Turns texts into vectors of their tokens, as sentence-transformers' encoder of that name.

    Args:
        signatures: those of such a model.

    Attributes:
        token_width: numbers of a vector, D.

    Example:
        encoder = MultiVectorEncoder.from_preset("hf://colbert-ir/colbertv2.0")
        queries = encoder.encode_query(["How do I lock a mutex?"])
        texts = encoder.encode_document(manual)
        scores = encoder.similarity(queries, texts)  # [1, texts]
    """

    def __init__(self, signatures: MultiVectorSignatures):
        self.token_width: int = signatures.model.projection_dim
        # Strings [N] in, vectors [T, D], where each text begins [N + 1] and ids [T] out: tokenizer
        # and model in one graph, traced once for every N.
        self._tokens = signatures.tokenizer.vocabulary.tokens
        self._answer_query = _traced(signatures.query_vectors)
        self._answer_document = _traced(signatures.document_vectors)

    @classmethod
    def from_preset(
        cls,
        folder: str | os.PathLike,
        max_seq_length: int | None = None,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
    ) -> Self:
        """Opens a run of the task multi_vector_retrieval, or a ColBERT model of other libraries.

        Args:
            folder: the folder, or `hf://org/name`: of sentence-transformers, PyLate or Stanford's
                ColBERT.
            max_seq_length: the most positions of a text; None takes what the folder says. That of
                a query is the folder's.
            query_prompt: what `encode_query` puts before texts; None takes what the folder says.
            document_prompt: what `encode_document` puts before them; None takes the same.

        Raises:
            FileNotFoundError: it is no model folder.
            ValueError: it holds no such model, or something in it cannot be reproduced.
        """
        options = ExportOptions(
            max_seq_length=max_seq_length,
            query_prompt=query_prompt,
            document_prompt=document_prompt,
        )
        return cls(open_multi_vector_signatures(folder, options))

    def encode_query(self, texts: Sequence[str], batch_size: int = 64) -> TokenVectors:
        """Returns the vectors of N texts to search with, behind marker and prompt of queries.

        Args:
            texts: N texts.
            batch_size: texts of a call of the model.

        Raises:
            ValueError: one string was given in place of a list, one of the texts is none, the batch
                size is below 1, or a number is not finite.
        """
        return self._encode(self._answer_query, texts, batch_size)

    def encode_document(self, texts: Sequence[str], batch_size: int = 64) -> TokenVectors:
        """Returns the vectors of N texts to be found; see `encode_query`."""
        return self._encode(self._answer_document, texts, batch_size)

    def similarity(self, queries: TokenVectors, texts: TokenVectors) -> np.ndarray:
        """Returns the scores of Q queries and N texts (MaxSim), float32 [Q, N].

        Raises:
            ValueError: the vectors have different widths.
        """
        return max_sim(queries, texts)

    def scores(
        self, queries: Sequence[str], texts: Sequence[str], batch_size: int = 64
    ) -> np.ndarray:
        """Returns how well each text answers the query beside it, float32 [N]; higher is better.

        A text that stands there several times is encoded once, as is a query. A text of which all
        pieces are on the folder's skiplist has -inf: `rerank` and indexes leave it out.

        Args:
            queries: N queries; one that has several texts is repeated.
            texts: N texts.
            batch_size: texts of a call of the model.

        Raises:
            ValueError: as `encode_query`, or there are more queries than texts or fewer.
        """
        queries, texts = self._pairs(queries, texts)
        groups = self._grouped(queries, texts)
        query_vectors = self.encode_query(groups.queries, batch_size)
        text_vectors = self.encode_document(groups.texts, batch_size)
        scores = np.zeros([len(queries)], np.float32)
        for row, (places, rows) in enumerate(groups.pairs):
            # All texts that stand beside this query, in one product.
            scores[places] = max_sim(query_vectors[row : row + 1], text_vectors.at(rows))[0]
        return scores

    def matches(self, query: str, text: str) -> list[TokenMatch]:
        """Returns what each token of a query finds in a text; the scores add up to the text's.

        There is nothing to find in a text of which all pieces are on the folder's skiplist.

        Args:
            query: one text to search with.
            text: one text to be found.

        Raises:
            ValueError: one of them is no string, or a number is not finite.
        """
        (asked, asked_names), (held, held_names) = (
            self._of_one(answer, one, name)
            for answer, one, name in (
                (self._answer_query, query, "query"),
                (self._answer_document, text, "text"),
            )
        )
        if not held_names:
            return []
        products = asked @ held.T  # [Q, S]
        return [
            TokenMatch(name, held_names[place], float(row[place]))
            for name, row, place in zip(
                asked_names, products, np.argmax(products, axis=-1), strict=True
            )
        ]

    def _of_one(
        self, answer: Callable[..., Any], text: str, name: str
    ) -> tuple[np.ndarray, list[str]]:
        """Returns the vectors of one text [tokens, D], and the tokens."""
        vectors, _, ids = answer(tf.constant([check_string(text, name)]))
        check_finite(vectors.numpy())
        return vectors.numpy(), [self._tokens[place] for place in ids.numpy()]

    def _encode(
        self, answer: Callable[..., Any], texts: Sequence[str], batch_size: int
    ) -> TokenVectors:
        texts = check_strings(texts)
        nothing = np.zeros([0, self.token_width], np.float32)
        rows = [nothing] * len(texts)
        for places in batches_by_length([len(text) for text in texts], batch_size):
            vectors, splits, _ = answer(tf.constant([texts[place] for place in places]))
            vectors, splits = vectors.numpy(), splits.numpy()  # [T, D] and [batch + 1]
            check_finite(vectors)
            # Back to the order in which the texts came.
            for place, start, end in zip(places, splits[:-1], splits[1:], strict=True):
                rows[place] = vectors[start:end]
        counts = np.cumsum([len(vectors) for vectors in rows], dtype=np.int64)
        return TokenVectors(np.concatenate([[0], counts]), np.concatenate([nothing, *rows]))


def _traced(answer: Callable[..., Any]) -> Callable[..., Any]:
    def parts(texts: tf.Tensor) -> tuple[tf.Tensor, ...]:
        vectors, ids = answer(texts)
        return vectors.values, vectors.row_splits, ids.values

    texts = tf.TensorSpec([None], tf.string)
    return tf.function(parts, input_signature=[texts], autograph=False)


def open_multi_vector_signatures(
    folder: str | os.PathLike, options: ExportOptions
) -> MultiVectorSignatures:
    """Opens the signatures of a model of vectors of tokens.

    Raises:
        FileNotFoundError: it is no model folder.
        ValueError: it holds no such model, or something in it cannot be reproduced.
    """
    local = hub.local_folder(folder)
    if not local.is_dir():
        raise hub.missing_folder(local)
    if not is_multi_vector_folder(local):
        raise ValueError(
            f"{folder} holds no vectors of tokens: give a run of --task=multi_vector_retrieval, or "
            "a ColBERT model"
        )
    signatures = open_signatures(folder, options)
    assert isinstance(signatures, MultiVectorSignatures)
    return signatures
