"""Many small classifiers learned at once, each with a learning rate and an end of its own.

All probes see the same examples in the same order, and each step computes all of them with a few
batched products. What one learns does not depend on the others: gradients are those of its own
loss, Adam's moments belong to single numbers, and each probe halves its learning rate by itself.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf

from keras_bert.progress import Progress

# A probe stops after so many epochs in a row that did not better its development loss.
_PATIENCE = 3
# What counts as better, as a fraction of the loss.
_LEAST_GAIN = 1e-3
_EXAMPLES_AT_ONCE = 512
# Adam (Kingma and Ba 2015).
_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-8

Parameters = Mapping[str, Any]


class Examples(Protocol):
    """Labeled examples, by number."""

    def __len__(self) -> int:
        """Returns how many there are."""

    def batch(self, numbers: np.ndarray) -> tuple[np.ndarray, ...]:
        """Returns the arrays of some examples: inputs, and last their labels, int32 [N]."""


# Parameters and the inputs of N examples -> logits [*P, N, C].
LogitFunction = Callable[..., tf.Tensor]


class Fitted(NamedTuple):
    """What was learned.

    Attributes:
        parameters: float32 [*P, ...] each, of the epoch with the least development loss.
        losses: float64 [*P], that loss, in nats.
    """

    parameters: dict[str, np.ndarray]
    losses: np.ndarray


def fit(
    logits: LogitFunction,
    start: Mapping[str, np.ndarray],
    train: Examples,
    development: Examples,
    *,
    batch_size: int,
    learning_rate: float,
    max_epochs: int,
    seed: int,
    description: str,
    decayed: str | None = None,
    decays: np.ndarray | None = None,
    faster: Mapping[str, float] | None = None,
) -> Fitted:
    """Learns probes by Adam on cross-entropy.

    Args:
        logits: of all probes, [*P, N, C].
        start: the parameters to start from, float32 [*P, ...] each.
        train: what is learned from.
        development: what tells when to stop.
        batch_size: examples of a step.
        learning_rate: the first learning rate.
        max_epochs: the most passes over `train`.
        seed: seed of the order.
        description: what the progress line says.
        decayed: the parameter that is decayed; None decays nothing.
        decays: float32 [*P], what half of the sum of its squares is multiplied with in the loss.
        faster: parameters that learn so many times as fast.

    Raises:
        ValueError: no probe of a layer, the first axis of P, had a finite loss on development data.
    """
    probes = decays.shape if decays is not None else next(iter(start.values())).shape[:1]
    variables = {name: tf.Variable(value) for name, value in start.items()}
    moments = {
        name: (tf.Variable(np.zeros_like(value)), tf.Variable(np.zeros_like(value)))
        for name, value in start.items()
    }

    def spread(values: Any, like: tf.Tensor) -> tf.Tensor:
        """[*P] to [*P, 1, 1, ...]: a number of each probe, for all numbers of a parameter."""
        return tf.reshape(values, [*probes, *[1] * (like.shape.rank - len(probes))])

    # One trace for batches of every size.
    specs = [tf.TensorSpec([None] * part.ndim, part.dtype) for part in train.batch(np.arange(1))]

    @tf.function(input_signature=specs)
    def losses(*batch: tf.Tensor) -> tf.Tensor:
        *inputs, labels = batch
        found = logits(variables, *inputs)  # [*P, N, C]
        labels = tf.broadcast_to(labels, tf.shape(found)[:-1])
        by_example = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, found)  # [*P, N]
        return tf.reduce_sum(by_example, axis=-1)  # [*P]

    of_step = [tf.TensorSpec([], tf.float32), tf.TensorSpec(probes, tf.float32)]

    @tf.function(input_signature=[*of_step, *specs])
    def step(number: tf.Tensor, rates: tf.Tensor, *batch: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            # A sum over probes: the gradient of each parameter is that of its own probe's loss.
            count = tf.cast(tf.shape(batch[-1])[0], tf.float32)
            total = tf.reduce_sum(losses(*batch)) / count
        gradients = tape.gradient(total, variables)
        for name, variable in variables.items():
            gradient = tf.convert_to_tensor(gradients[name])
            if name == decayed:
                gradient += spread(decays, variable) * variable
            first, second = moments[name]
            first.assign(_BETA_1 * first + (1 - _BETA_1) * gradient)
            second.assign(_BETA_2 * second + (1 - _BETA_2) * gradient**2)
            mean = first / (1 - _BETA_1**number)
            deviation = tf.sqrt(second / (1 - _BETA_2**number)) + _EPSILON
            factor = (faster or {}).get(name, 1.0)
            variable.assign_sub(factor * spread(rates, variable) * mean / deviation)

    best_losses = np.full(probes, np.inf)
    best = {name: value.copy() for name, value in start.items()}
    rates = np.full(probes, learning_rate, np.float32)
    epochs_without_gain = np.zeros(probes, np.int64)
    number = 0
    with Progress(max_epochs, "epoch", description) as progress:
        for epoch in range(max_epochs):
            order = np.random.default_rng((seed, epoch)).permutation(len(train))
            for first in range(0, len(order), batch_size):
                number += 1
                chosen = np.sort(order[first : first + batch_size])  # files are read forwards
                step(tf.constant(float(number)), tf.constant(rates), *train.batch(chosen))
            found = _mean_losses(losses, development, probes)
            better = found < best_losses * (1 - _LEAST_GAIN)
            for name, variable in variables.items():
                best[name][better] = variable.numpy()[better]
            best_losses = np.where(better, found, best_losses)
            epochs_without_gain = np.where(better, 0, epochs_without_gain + 1)
            learning = epochs_without_gain < _PATIENCE
            # One that has stopped keeps still, whatever the others do.
            rates = np.where(better, rates, np.where(learning, rates / 2, 0)).astype(np.float32)
            progress.update(1, learning=f"{learning.sum()} of {learning.size} probes")
            if not learning.any():
                break
    # The best weight decay is chosen of each layer: one that is left will do.
    lost = ~np.isfinite(best_losses).reshape(len(best_losses), -1).any(axis=1)
    if lost.any():
        raise ValueError(
            f"{description}: in {lost.sum()} of {len(lost)} layers no loss was finite after an "
            f"epoch at a learning rate of {learning_rate:g}: lower it, or the weight decays"
        )
    return Fitted(best, best_losses)


def predict(logits: LogitFunction, parameters: Parameters, examples: Examples) -> np.ndarray:
    """Returns the likeliest class of each example, int64 [*P, N]."""
    fixed = {name: tf.constant(value) for name, value in parameters.items()}
    found = []
    for part in _parts(len(examples)):
        *inputs, _ = examples.batch(part)
        found.append(tf.argmax(logits(fixed, *inputs), axis=-1).numpy())
    return np.concatenate(found, axis=-1)


def _mean_losses(
    losses: Callable[..., tf.Tensor], examples: Examples, probes: tuple[int, ...]
) -> np.ndarray:
    total = np.zeros(probes)  # float64
    for part in _parts(len(examples)):
        total += losses(*examples.batch(part)).numpy()
    return total / len(examples)


def _parts(count: int) -> list[np.ndarray]:
    """Returns the numbers of all examples, in parts that a computation takes at once."""
    starts = range(0, count, _EXAMPLES_AT_ONCE)
    return [np.arange(start, min(start + _EXAMPLES_AT_ONCE, count)) for start in starts]
