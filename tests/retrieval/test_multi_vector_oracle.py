"""The losses of vectors of tokens against those of sentence-transformers, gradients included.

Oracle: its losses on the vectors that a stub of a model hands over. What it makes of folders is in
tests/checkpoints/test_multi_vector_modules.py.
"""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.tasks.sentence_embedding.ranking_loss import MultiVectorLoss, scored_texts
from tests.tolerances import ORACLE

pytestmark = pytest.mark.oracle

COUNTS = np.array([[3, 4, 2], [5, 1, 6], [2, 2, 2], [1, 6, 3]])
NUMBERS = np.arange(1, 13, dtype=np.int32).reshape(4, 3)


def padded_vectors():
    """Unit vectors of four examples of three texts, [4, 3, 6, 5]; zeros behind their ends."""
    vectors = np.random.default_rng(0).normal(size=[4, 3, 6, 5])
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    return (vectors * (np.arange(6) < COUNTS[..., None])[..., None]).astype(np.float32)


def of_theirs(loss_of, labels=None):
    """Their loss, and the gradient of it, [4, 3, 6, 5]."""
    import torch

    vectors = torch.tensor(padded_vectors(), requires_grad=True)
    masks = torch.arange(6) < torch.tensor(COUNTS)[..., None]
    columns = [{"column": place} for place in range(3)]

    def model(features, **_):
        place = features["column"]
        return {"token_embeddings": vectors[:, place], "attention_mask": masks[:, place]}

    loss = loss_of(model)(columns, None if labels is None else torch.tensor(labels))
    loss.backward()
    return loss.item(), vectors.grad.numpy()


def of_ours(loss, targets):
    vectors = tf.constant(padded_vectors())
    with tf.GradientTape() as tape:
        tape.watch(vectors)
        value = tf.reduce_mean(loss.call(tf.constant(targets), vectors))
    return float(value), tape.gradient(value, vectors)


def test_the_loss_of_answers():
    from sentence_transformers.multi_vector_encoder import losses

    expected, gradient = of_theirs(
        lambda model: losses.MultiVectorMultipleNegativesRankingLoss(model, scale=2.5)
    )
    found, own = of_ours(MultiVectorLoss(temperature=1 / 2.5), NUMBERS)
    assert found == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(own, gradient, **ORACLE)


def test_the_loss_of_a_teacher():
    from sentence_transformers.multi_vector_encoder import losses

    scores = np.random.default_rng(1).normal(size=[4, 2]).astype(np.float32)
    temperatures = {"student_temperature": 0.5, "teacher_temperature": 2.0}
    expected, gradient = of_theirs(
        lambda model: losses.MultiVectorDistillKLDivLoss(model, **temperatures), scores
    )
    targets = scored_texts(NUMBERS.ravel(), np.pad(scores, [[0, 0], [1, 0]]).ravel())
    loss = MultiVectorLoss(0.5, teacher_weight=1.0, teacher_temperature=2.0)
    found, own = of_ours(loss, targets.reshape(4, 3, 2))
    # Theirs is multiplied by the square of the student's temperature.
    assert found == pytest.approx(expected / 0.25, rel=1e-5)
    np.testing.assert_allclose(own, gradient / 0.25, **ORACLE)
