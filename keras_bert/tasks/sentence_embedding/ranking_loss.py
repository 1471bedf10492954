"""What vectors learn by: the right text before all others, a teacher's scores, or a similarity.

Shapes: B examples, R texts of each, H width; C = B x (R - 1) texts that may be an answer, of all
replicas. Where each token has a vector: S tokens of a text, Q of one that is asked with, D width.
"""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

# The logit of what is no candidate; finite, unlike -inf.
_NO_CANDIDATE = -1e9
# The least length that a vector is divided by.
_SMALLEST = 1e-12
# The number of a text that is not there, and the largest that float32 tells from the next.
_NO_TEXT, _LARGEST_NUMBER = 0, 1 << 24


@keras.saving.register_keras_serializable("keras_bert")
class EmbeddingLoss(keras.losses.Loss):
    """The loss of unit vectors [B, R, H], float32 [B].

    Targets [B, R] are numbers of texts, from 1, which tell equal texts: the first text of a row is
    asked with, the second is its answer, others are wrong answers, 0 or below stands for none. The
    loss is the cross-entropy of the answer among the candidates, which are its own and all texts
    but the first of every row of the global batch (Henderson et al. 2017, arXiv:1705.00652;
    SimCSE, arXiv:2104.08821, with the same text twice). The logits are cosines divided by the
    temperature. Each text is a candidate once, however often it is in the batch; no candidate is a
    text that is an answer to the same first text in another row, nor the first text itself.

    Targets [B, R, 2] have a teacher's scores beside the numbers, see `scored_texts`. To a part of
    `teacher_weight` the loss is then the Kullback-Leibler divergence of the student's distribution
    over the answer and the wrong answers of the row itself, the softmax of the same logits, from
    the teacher's, the softmax of its scores divided by `teacher_temperature` (Hinton et al. 2015,
    arXiv:1503.02531).

    Targets [B] are similarities: the loss is the square of the difference to the cosine of the
    first two texts.

    With `matryoshka_dims` this loss is added up over the whole vectors and their first so many
    numbers, made of length 1 again (Kusupati et al. 2022, arXiv:2205.13147).

    Args:
        temperature: divides the cosines.
        matryoshka_dims: each below H.
        teacher_weight: part of the teacher's scores in the loss, from 0 to 1.
        teacher_temperature: divides the teacher's scores.
    """

    def __init__(
        self,
        temperature: float = 0.05,
        matryoshka_dims: Sequence[int] = (),
        teacher_weight: float = 0.5,
        teacher_temperature: float = 1.0,
        name: str = "embedding_loss",
        **kwargs: Any,
    ):
        super().__init__(name=name, **kwargs)
        self.temperature = temperature
        self.matryoshka_dims = tuple(matryoshka_dims)
        self.teacher_weight = teacher_weight
        self.teacher_temperature = teacher_temperature

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Returns the loss of each example, [B]."""
        vectors = ops.cast(y_pred, "float32")  # [B, R, H]
        losses = self._of_width(y_true, vectors)
        for dim in self.matryoshka_dims:
            losses += self._of_width(y_true, ops.normalize(vectors[..., :dim], epsilon=_SMALLEST))
        return losses

    def _of_width(self, y_true: Any, vectors: Any) -> Any:
        """Returns the losses [B] of vectors of one width."""
        products = self._products_of_rows(vectors)  # [B, R - 1]
        own = products[:, 0]  # [B]
        if len(y_true.shape) == 1:
            return ops.square(own - ops.cast(y_true, "float32"))
        texts = ops.cast(y_true[..., 0] if len(y_true.shape) == 3 else y_true, "int32")  # [B, R]
        others = ops.reshape(vectors[:, 1:], (-1, *ops.shape(vectors)[2:]))  # [B x (R - 1), H]
        candidates = _of_all_replicas(others)  # [C, H]
        numbers = _of_all_replicas(ops.reshape(texts[:, 1:], (-1,)))  # [C]
        pairs = _of_all_replicas(texts[:, :2])  # [all B, 2]
        allowed = _allowed(texts[:, 0], numbers, pairs)
        logits = self._products(vectors[:, 0], candidates) / self.temperature  # [B, C]
        logits = ops.where(allowed, logits, _NO_CANDIDATE)
        right = ops.expand_dims(own / self.temperature, -1)  # [B, 1]
        every = ops.concatenate([right, logits], axis=-1)  # [B, 1 + C]
        losses = ops.logsumexp(every, axis=-1) - right[:, 0]
        if len(y_true.shape) == 2:
            return losses
        divergences = self._from_teacher(y_true, products)
        return (1.0 - self.teacher_weight) * losses + self.teacher_weight * divergences

    def _products_of_rows(self, vectors: Any) -> Any:
        """Returns the products of the first vector of each row [B, R, H] with the others."""
        return ops.sum(vectors[:, :1] * vectors[:, 1:], axis=-1)  # [B, R - 1]

    def _products(self, first: Any, candidates: Any) -> Any:
        """Returns the products of vectors [B, H] with all candidates [C, H], [B, C]."""
        return ops.matmul(first, ops.transpose(candidates))

    def _from_teacher(self, scored: Any, products: Any) -> Any:
        """Returns how far the student is from the teacher, [B].

        Args:
            scored: what `scored_texts` made, float32 [B, R, 2].
            products: of the first text of each row with the others, [B, R - 1].
        """
        there = scored[:, 1:, 0] > _NO_TEXT  # [B, R - 1]
        scores = scored[:, 1:, 1] / self.teacher_temperature
        teacher, student = (
            ops.log_softmax(ops.where(there, logits, _NO_CANDIDATE))
            for logits in (scores, products / self.temperature)
        )
        return ops.sum(ops.exp(teacher) * (teacher - student), axis=-1)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        mine = {
            "temperature": self.temperature,
            "matryoshka_dims": list(self.matryoshka_dims),
            "teacher_weight": self.teacher_weight,
            "teacher_temperature": self.teacher_temperature,
        }
        return super().get_config() | mine


@keras.saving.register_keras_serializable("keras_bert")
class SparseEmbeddingLoss(EmbeddingLoss):
    """The loss of sparse vectors [B, R, V]: their products are learned, and to be few numbers.

    To that of `EmbeddingLoss` comes for each kind of text what a search costs, the number of
    products that it makes (FLOPS, Paria et al. 2020, arXiv:2004.05665): over the words of the
    vocabulary the sum of squares of the mean weight in the global batch. It is kept apart for
    queries, which stand first, and for all texts to be found (SPLADE v2, arXiv:2109.10086).

    Args:
        temperature: divides the products.
        teacher_weight: part of the teacher's scores in the loss, from 0 to 1.
        teacher_temperature: divides the teacher's scores.
        query_regularizer_weight: what the cost of queries is multiplied by.
        document_regularizer_weight: the same of texts to be found.
    """

    def __init__(
        self,
        temperature: float = 1.0,
        teacher_weight: float = 0.5,
        teacher_temperature: float = 1.0,
        query_regularizer_weight: float = 5e-5,
        document_regularizer_weight: float = 3e-5,
        name: str = "sparse_embedding_loss",
        **kwargs: Any,
    ):
        super().__init__(
            temperature,
            teacher_weight=teacher_weight,
            teacher_temperature=teacher_temperature,
            name=name,
            **kwargs,
        )
        self.query_regularizer_weight = query_regularizer_weight
        self.document_regularizer_weight = document_regularizer_weight

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Returns the loss of each example, [B]; the cost is the same in all of them."""
        losses = super().call(y_true, y_pred)
        vectors = ops.cast(y_pred, "float32")  # [B, R, V]
        numbers = y_true[..., 0] if len(y_true.shape) == 3 else y_true  # [B, R]
        # Rows that fill up a batch, and texts that an example does not have, count nowhere.
        there = ops.cast(numbers > _NO_TEXT, "float32")  # [B, R]
        for part, weight in (
            (slice(None, 1), self.query_regularizer_weight),
            (slice(1, None), self.document_regularizer_weight),
        ):
            losses += weight * _flops(vectors[:, part], there[:, part])
        return losses

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        config = super().get_config()
        del config["matryoshka_dims"]
        return config | {
            "query_regularizer_weight": self.query_regularizer_weight,
            "document_regularizer_weight": self.document_regularizer_weight,
        }


@keras.saving.register_keras_serializable("keras_bert")
class MultiVectorLoss(EmbeddingLoss):
    """The loss of vectors of tokens [B, R, S, D], of length 1 or, where no token is, 0.

    It is that of `EmbeddingLoss`; what stands there for the product of two vectors is here the sum,
    over the tokens of the first text, of the largest product with a token of the other (MaxSim,
    Khattab and Zaharia 2020, arXiv:2004.12832).

    Args:
        temperature: divides these sums.
        teacher_weight: part of the teacher's scores in the loss, from 0 to 1.
        teacher_temperature: divides the teacher's scores.
        query_length: tokens of the first text that count, its first ones; None takes all. Rows of
            queries are padded to those of texts, and every product with padding costs as much.
    """

    def __init__(
        self,
        temperature: float = 0.3,
        teacher_weight: float = 0.5,
        teacher_temperature: float = 1.0,
        query_length: int | None = None,
        name: str = "multi_vector_loss",
        **kwargs: Any,
    ):
        super().__init__(
            temperature,
            teacher_weight=teacher_weight,
            teacher_temperature=teacher_temperature,
            name=name,
            **kwargs,
        )
        self.query_length = query_length

    def _products_of_rows(self, vectors: Any) -> Any:
        query, others = vectors[:, 0, : self.query_length], vectors[:, 1:]
        products = ops.einsum("bqd,brsd->bqrs", query, others)  # [B, Q, R - 1, S]
        return _sum_of_largest(products, query, others)

    def _products(self, first: Any, candidates: Any) -> Any:
        query = first[:, : self.query_length]  # [B, Q, D]
        products = ops.einsum("bqd,csd->bqcs", query, candidates)  # [B, Q, C, S]
        return _sum_of_largest(products, query, candidates[None])

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        config = super().get_config()
        del config["matryoshka_dims"]
        return config | {"query_length": self.query_length}


def _sum_of_largest(products: Any, queries: Any, texts: Any) -> Any:
    """Returns the sum over tokens of the first text of the largest product, [B, C].

    Args:
        products: [B, Q, C, S].
        queries: vectors of the first texts, [B, Q, D]; zeros where no token is.
        texts: those of the others, [B or 1, C, S, D].
    """
    # A vector has the length 1 or 0: [B, Q] and [B or 1, C, S].
    asks, there = (ops.sum(ops.square(vectors), axis=-1) > 0.5 for vectors in (queries, texts))
    # Padding has the least product that vectors of length 1 can have, so it never is the largest.
    largest = ops.max(ops.where(there[:, None], products, -1.0), axis=-1)  # [B, Q, C]
    return ops.sum(ops.where(asks[..., None], largest, 0.0), axis=1)


def _flops(vectors: Any, there: Any) -> Any:
    """Returns the sum of squares of mean weights [].

    Args:
        vectors: [B, R, V].
        there: whether each text counts, 0 or 1, [B, R].
    """
    sums = ops.sum(vectors * there[..., None], axis=(0, 1))  # [V]
    counted = _of_all_replicas(ops.reshape(ops.sum(there), (1,)))  # [replicas]
    means = ops.sum(_of_all_replicas(sums[None]), axis=0) / ops.maximum(ops.sum(counted), 1.0)
    return ops.sum(ops.square(means))


def scored_texts(numbers: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Returns numbers of texts and a teacher's scores of them in one array, as a loss takes one.

    Args:
        numbers: int32 [N].
        scores: [N].

    Returns:
        float32 [N, 2]: the numbers, which are exact there, and the scores.

    Raises:
        ValueError: a number is too large to be exact.
    """
    if numbers.max(initial=0) > _LARGEST_NUMBER:
        raise ValueError(
            f"there are {numbers.max():,} different texts with scores of a teacher: give at most "
            f"{_LARGEST_NUMBER:,}"
        )
    return np.stack([numbers, scores], axis=-1).astype(np.float32)


def _allowed(asked: Any, numbers: Any, pairs: Any) -> Any:
    """Returns which candidates are wrong answers to which texts, bool [B, C].

    Args:
        asked: numbers of the first texts, int32 [B].
        numbers: those of the candidates, [C].
        pairs: those of all first texts and their answers, [all B, 2].
    """
    # A text counts where it stands first: 7 4 7 0 is 1 1 0 0.
    equal = ops.equal(numbers[:, None], numbers[None])  # [C, C]
    before = ops.sum(ops.tril(ops.cast(equal, "int32"), k=-1), axis=-1)  # [C]
    counts = ops.logical_and(ops.equal(before, 0), ops.greater(numbers, _NO_TEXT))
    # Candidates that are an answer to the same text, here or in another row, its own among them.
    same_text = ops.cast(ops.equal(asked[:, None], pairs[None, :, 0]), "float32")  # [B, all B]
    its_answer = ops.cast(ops.equal(pairs[:, 1, None], numbers[None]), "float32")  # [all B, C]
    right = ops.matmul(same_text, its_answer) > 0  # [B, C]
    itself = ops.equal(asked[:, None], numbers[None])  # [B, C]
    return ops.logical_and(counts[None], ops.logical_not(ops.logical_or(right, itself)))


def _of_all_replicas(values: Any) -> Any:
    """Returns what all replicas have one behind the other; gradients go back to each of them."""
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return values
    return context.all_gather(values, axis=0)
