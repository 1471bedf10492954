"""The two losses of pretraining as sums, so that any number of replicas can share a batch."""

from typing import Any, NamedTuple

import keras
from keras import ops


class WeightedSums(NamedTuple):
    """Sums over one part of a batch (float32 scalars); add them over parts, then divide."""

    loss: Any
    correct: Any
    weight: Any


def classification_sums(logits: Any, labels: Any, weights: Any) -> WeightedSums:
    """Sums cross-entropy and right answers, each times its weight.

    Args:
        logits: scores [..., C]; computed with in float32.
        labels: the right classes, integers [...].
        weights: float [...]; 0 for what does not count.
    """
    logits = ops.cast(logits, "float32")
    weights = ops.cast(weights, "float32")
    losses = keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    hits = ops.cast(ops.equal(ops.argmax(logits, axis=-1), ops.cast(labels, "int32")), "float32")
    return WeightedSums(ops.sum(losses * weights), ops.sum(hits * weights), ops.sum(weights))
