"""Texts as words with weights in Python, by the graph that an export serves.

    N texts --sort by length--> batches --tokenize, encode, weigh words--> SparseVectors of N rows

A vector does not depend on the batch that its text came in, rounding apart.
"""

import os
from collections.abc import Sequence
from typing import Self

import numpy as np
import tensorflow as tf

from keras_bert.checkpoints.sparse_modules import is_sparse_folder
from keras_bert.counts import check_count
from keras_bert.models.finite_outputs import check_finite
from keras_bert.serving.served_folder import open_signatures
from keras_bert.signatures.length_batches import batches_by_length
from keras_bert.signatures.options import ExportOptions
from keras_bert.storage import hub
from keras_bert.storage.text_lines import check_strings
from keras_bert.tasks.sentence_embedding.sparse_signatures import SparseSignatures
from keras_bert.tasks.sentence_embedding.sparse_vectors import SparseVectors


class SparseEncoder:
    """Turns texts into sparse vectors, as `SparseEncoder.encode` of sentence-transformers does.

    Args:
        signatures: those of a sparse encoder.

    Attributes:
        vocab_size: numbers of a whole vector, V.

    Example:
        encoder = SparseEncoder.from_preset("hf://naver/splade-v3")
        vectors = encoder.encode(["A man eats.", "Someone has lunch."])
        for words in encoder.decode(vectors, top_k=5):
            print(words)  # [("eat", 2.1), ("man", 1.9), ...]
    """

    def __init__(self, signatures: SparseSignatures):
        self.vocab_size: int = signatures.model.config.vocab_size
        self._prompts = signatures.modules.prompts
        self._tokens = signatures.tokenizer.vocabulary.tokens
        # Strings [N] in, ids and weights [N, K] out: tokenizer, model and words in one graph,
        # traced once for every N.
        self._answer = tf.function(
            signatures.weights,
            input_signature=[tf.TensorSpec([None], tf.string)],
            autograph=False,
        )
        self._answer_query = self._answer
        if signatures.modules.query_weights is not None:
            self._answer_query = tf.function(
                lambda texts: signatures.query_weights("", texts),
                input_signature=[tf.TensorSpec([None], tf.string)],
                autograph=False,
            )

    @classmethod
    def from_preset(
        cls,
        folder: str | os.PathLike,
        max_active_dims: int | None = None,
        max_seq_length: int | None = None,
        max_windows: int | None = None,
        doc_stride: int | None = None,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
    ) -> Self:
        """Opens a run of the task sparse_retrieval, or a sparse encoder of sentence-transformers.

        Args:
            folder: the folder, or `hf://org/name`.
            max_active_dims: the most weights of a vector, the largest ones; None takes what the
                folder says, mostly all.
            max_seq_length: the most positions of a row; None takes what the folder says.
            max_windows: read texts longer than a row in up to so many windows; None cuts them.
            doc_stride: by how many pieces the next window begins later; None takes half a window.
            query_prompt: what `encode_query` puts before texts; None takes what the folder says.
            document_prompt: what `encode_document` puts before them; None takes the same.

        Raises:
            FileNotFoundError: it is no model folder.
            ValueError: it is not one of a sparse encoder, or a module of it cannot be reproduced.
        """
        options = ExportOptions(
            max_active_dims=max_active_dims,
            max_seq_length=max_seq_length,
            max_windows=max_windows,
            doc_stride=doc_stride,
            query_prompt=query_prompt,
            document_prompt=document_prompt,
        )
        return cls(open_sparse_signatures(folder, options))

    def encode(self, texts: Sequence[str], batch_size: int = 64) -> SparseVectors:
        """Returns the vectors of N texts, with the folder's default prompt, which is mostly none.

        Args:
            texts: N texts.
            batch_size: texts of a call of the model.

        Raises:
            ValueError: one string was given in place of a list, one of the texts is none, the batch
                size is below 1, or a weight is not finite.
        """
        return self._encode(texts, batch_size, self._prompts.default)

    def encode_query(self, texts: Sequence[str], batch_size: int = 64) -> SparseVectors:
        """Returns vectors of texts to search with: `encode` with the prompt "query".

        Where the folder has fixed weights for the words of queries, they are those of its words.
        """
        return self._encode(texts, batch_size, self._prompts.query, of_queries=True)

    def encode_document(self, texts: Sequence[str], batch_size: int = 64) -> SparseVectors:
        """Returns vectors of texts to be found: `encode` with the prompt "document"."""
        return self._encode(texts, batch_size, self._prompts.document)

    def decode(
        self, vectors: SparseVectors, top_k: int | None = None
    ) -> list[list[tuple[str, float]]]:
        """Returns the words of each vector with their weights, the largest first.

        Args:
            vectors: of N texts.
            top_k: how many words at most; None gives all.

        Raises:
            ValueError: the vectors are of another vocabulary, or `top_k` is below 1.
        """
        return decode_words(vectors, self._tokens, self.vocab_size, top_k)

    def _encode(
        self, texts: Sequence[str], batch_size: int, prompt: str, of_queries: bool = False
    ) -> SparseVectors:
        answer = self._answer_query if of_queries else self._answer
        texts = [prompt + text for text in check_strings(texts)]
        rows: list[tuple[np.ndarray, np.ndarray]] = [_NO_WORDS] * len(texts)
        for places in batches_by_length([len(text) for text in texts], batch_size):
            # [batch, K] each, back to the order in which the texts came.
            ids, weights = answer(tf.constant([texts[place] for place in places]))
            ids, weights = ids.numpy(), weights.numpy()
            check_finite(weights)
            for place, own_ids, own in zip(places, ids, weights, strict=True):
                rows[place] = own_ids[own > 0], own[own > 0]
        counts = [len(ids) for ids, _ in rows]
        return SparseVectors(
            np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]),
            np.concatenate([_NO_WORDS[0], *(ids for ids, _ in rows)]),
            np.concatenate([_NO_WORDS[1], *(weights for _, weights in rows)]),
            self.vocab_size,
        )


_NO_WORDS = np.zeros([0], np.int32), np.zeros([0], np.float32)


def decode_words(
    vectors: SparseVectors, tokens: Sequence[str], vocab_size: int, top_k: int | None
) -> list[list[tuple[str, float]]]:
    """Returns the words of each vector; see `SparseEncoder.decode`.

    Args:
        vectors: of N texts.
        tokens: the pieces of the vocabulary.
        vocab_size: numbers of a whole vector of the model.
        top_k: how many words at most; None gives all.

    Raises:
        ValueError: the vectors are of another vocabulary, or `top_k` is below 1.
    """
    check_count("top_k", top_k)
    if vectors.vocab_size != vocab_size:
        raise ValueError(
            f"the vectors are of {vectors.vocab_size:,} pieces, the model has {vocab_size:,}: give "
            "those that it made"
        )
    found = []
    for start, end in zip(vectors.row_splits[:-1], vectors.row_splits[1:], strict=True):
        end = end if top_k is None else min(end, start + top_k)
        pairs = zip(vectors.token_ids[start:end], vectors.weights[start:end], strict=True)
        found.append([(tokens[token], float(weight)) for token, weight in pairs])
    return found


def open_sparse_signatures(folder: str | os.PathLike, options: ExportOptions) -> SparseSignatures:
    """Opens the signatures of a sparse encoder.

    Raises:
        FileNotFoundError: it is no model folder.
        ValueError: it is not one of a sparse encoder, or a module of it cannot be reproduced.
    """
    if not is_sparse(folder):
        raise ValueError(
            f"{folder} holds no sparse encoder (a modules.json with SpladePooling): give a run of "
            "--task=sparse_retrieval, or a SPLADE model"
        )
    signatures = open_signatures(folder, options)
    assert isinstance(signatures, SparseSignatures)
    return signatures


def is_sparse(folder: str | os.PathLike) -> bool:
    """Whether a folder holds a sparse encoder.

    Args:
        folder: the folder, or `hf://org/name`.

    Raises:
        FileNotFoundError: there is no such folder.
        ValueError: `modules.json` in it is damaged, or the repository cannot be fetched.
    """
    local = hub.local_folder(folder)
    if not local.is_dir():
        raise hub.missing_folder(local)
    return is_sparse_folder(local)
