"""Linear probes: multinomial logistic regression on the vectors of each layer.

Vectors are standardized (each number less its mean, divided by its standard deviation, both over
the training words), so that one weight decay means the same in every layer.

Shapes: W words, L layers, D weight decays, H hidden size, C tags.
"""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.probing import fitting
from keras_bert.probing.layer_vectors import LayerVectors
from keras_bert.probing.options import DEFAULT_BATCH, ProbingOptions

_WORDS_AT_ONCE = 4096
# Numbers that never change have no standard deviation to be divided by.
_LEAST_DEVIATION = 1e-6


class Scale(NamedTuple):
    """Mean and standard deviation of each number of a vector, float32 [L+1, 1, H]."""

    mean: np.ndarray
    deviation: np.ndarray

    def apply(self, values: tf.Tensor) -> tf.Tensor:
        """Returns standardized vectors, float32 [L+1, N, H], of float16 ones."""
        return (tf.cast(values, tf.float32) - self.mean) / self.deviation


def measure_scale(values: np.ndarray) -> Scale:
    """Returns the scale of vectors [L+1, W, H], added up in float64."""
    total = np.zeros((values.shape[0], 1, values.shape[2]))
    squares = np.zeros_like(total)
    for start in range(0, values.shape[1], _WORDS_AT_ONCE):
        part = values[:, start : start + _WORDS_AT_ONCE].astype(np.float64)
        total += part.sum(axis=1, keepdims=True)
        squares += np.square(part).sum(axis=1, keepdims=True)
    mean = total / values.shape[1]
    deviation = np.sqrt(np.maximum(squares / values.shape[1] - mean**2, 0))
    deviation = np.where(deviation > _LEAST_DEVIATION, deviation, 1)
    return Scale(mean.astype(np.float32), deviation.astype(np.float32))


class LabeledWords(NamedTuple):
    """Words of a split as examples of `fitting`.

    Attributes:
        values: float16 [L+1, W, H].
        labels: int32 [W].
    """

    values: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        """Returns W."""
        return len(self.labels)

    def batch(self, numbers: np.ndarray) -> tuple[np.ndarray, ...]:
        """Returns vectors [L+1, N, H] and labels [N]."""
        return self.values[:, numbers], self.labels[numbers]


class LinearProbes(NamedTuple):
    """One probe a layer, that of the best weight decay.

    Attributes:
        weight_decays: float64 [L+1], which decay it is.
        losses: float64 [L+1], cross-entropy on development data, nats.
        predictions: int64 [L+1, W], the tag of each word that is measured on.
    """

    weight_decays: np.ndarray
    losses: np.ndarray
    predictions: np.ndarray


def linear_probes(
    vectors: dict[str, LayerVectors],
    labels: dict[str, np.ndarray],
    classes: int,
    scale: Scale,
    decays: np.ndarray,
    options: ProbingOptions,
    description: str,
) -> LinearProbes:
    """Learns the probes of all layers and weight decays in one pass.

    Args:
        vectors: of the splits "train", "development" and "measured".
        labels: int32 [W] of the same splits.
        classes: C.
        scale: of the training words.
        decays: [L+1, D], the weight decays to choose from in each layer.
        options: how.
        description: what the progress line says.
    """

    def logits(parameters: fitting.Parameters, values: Any) -> tf.Tensor:
        standard = scale.apply(values)[:, None]  # [L+1, 1, N, H]
        # x [1, D, H, C]: all layers and decays are one batched product, [L+1, D, N, C].
        return tf.matmul(standard, parameters["kernel"]) + parameters["bias"]

    examples = {
        name: LabeledWords(part.values, labels[name].astype(np.int32))
        for name, part in vectors.items()
    }
    # Convex, so that zeros are as good a start as any.
    shape = (*decays.shape, scale.mean.shape[-1], classes)
    start = {
        "kernel": np.zeros(shape, np.float32),
        "bias": np.zeros((*decays.shape, 1, classes), np.float32),
    }
    fitted = fitting.fit(
        logits,
        start,
        examples["train"],
        examples["development"],
        batch_size=options.probe_batch_size or DEFAULT_BATCH,
        learning_rate=options.learning_rate,
        max_epochs=options.max_epochs,
        seed=options.seed,
        description=description,
        decayed="kernel",
        decays=decays.astype(np.float32),
    )
    chosen = fitted.losses.argmin(axis=1)  # [L + 1]
    layers = np.arange(len(chosen))
    # [L+1, D, ...] -> [L+1, 1, ...]
    best = {name: value[layers, chosen][:, None] for name, value in fitted.parameters.items()}
    found = fitting.predict(logits, best, examples["measured"])
    return LinearProbes(decays[layers, chosen], fitted.losses[layers, chosen], found[:, 0])
