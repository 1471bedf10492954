"""The cross-entropy that heads of several kinds of tasks learn by, in float32."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_bert.layers.one_loop import (
    gains_from_one_loop,
    is_graph_of_processor,
    one_loop,
    with_gradient,
)

# Classes from which on the softmax of a processor is worth what is done around it.
_LARGE_VOCABULARY = 1000


def best_classes(logits: Any) -> Any:
    """Returns the class with the largest logit, the first of several: [..., C] to int32 [...]."""
    # Keras goes through all logits some ten times first, for zeros with different signs.
    return tf.argmax(logits, axis=-1, output_type=tf.int32)


def smoothed_crossentropy(logits: Any, labels: Any, label_smoothing: float = 0.0) -> Any:
    """Returns the cross-entropy of each example, float32 [...].

    Args:
        logits: [..., C].
        labels: the right classes, integers [...].
        label_smoothing: the fraction s of the target that is spread evenly over all classes
            (Szegedy et al. 2016, arXiv:1512.00567, section 7).
    """
    return crossentropy_and_best_classes(logits, labels, label_smoothing)[0]


def crossentropy_and_best_classes(
    logits: Any, labels: Any, label_smoothing: float = 0.0
) -> tuple[Any, Any]:
    """Returns `smoothed_crossentropy` and `best_classes`, [...] each.

    With p = softmax(l), the target t = (1 - s) one_hot(label) + s / C, and m the best class:

        loss = log(sum(exp(l))) - (1 - s) l_label - s mean(l)
             = l_m - log(p_m)   - (1 - s) l_label - s mean(l)
        d l  = upstream (p - t)

    The second line is computed on a processor for a large vocabulary: TensorFlow's softmax takes a
    small part of the time of its other sums of exponentials.
    """
    logits = ops.cast(logits, "float32")  # [..., C]
    labels = ops.reshape(ops.cast(labels, "int32"), ops.shape(logits)[:-1])  # [...]
    classes = logits.shape[-1] or 0  # not known of positions
    if classes >= _LARGE_VOCABULARY and is_graph_of_processor():
        rows = ops.reshape(logits, (-1, logits.shape[-1]))  # [N, C]
        found = _by_softmax(rows, ops.reshape(labels, (-1,)), label_smoothing)  # [N] each
        losses, best = (ops.reshape(values, ops.shape(labels)) for values in found)
        return losses, best
    best = best_classes(logits)  # [...]
    if not label_smoothing:
        losses = keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
        return losses, best
    log_probabilities = ops.log_softmax(logits)  # [..., C]
    told = ops.take_along_axis(log_probabilities, labels[..., None], axis=-1)[..., 0]  # [...]
    return smoothed(told, ops.mean(log_probabilities, axis=-1), label_smoothing), best


def smoothed(told: Any, mean: Any, label_smoothing: float) -> Any:
    """Returns the cross-entropy with a smoothed target, [...].

    Args:
        told: log probabilities of the right classes, float32 [...].
        mean: of the log probabilities of the classes that an example has, float32 [...].
        label_smoothing: the fraction of the target that is spread evenly.
    """
    # The target is 1 - s at the right class and s / C at each of all C: their sum is 1.
    return (label_smoothing - 1) * told - label_smoothing * mean


def _by_softmax(logits: Any, labels: Any, label_smoothing: float) -> tuple[Any, Any]:
    """Returns losses and best classes [N] of logits float32 [N, C] and labels int32 [N]."""
    best = best_classes(logits)  # [N]
    of_logits = _gradient_in_one_loop if gains_from_one_loop(logits) else _gradient

    @with_gradient
    def losses(logits: Any) -> tuple[Any, Callable]:
        probabilities = tf.nn.softmax(logits)  # [N, C]
        largest = tf.gather(probabilities, best, batch_dims=1)  # [N], at least 1 / C
        normalizer = tf.gather(logits, best, batch_dims=1) - tf.math.log(largest)  # [N]
        told = tf.gather(logits, labels, batch_dims=1) - normalizer  # [N]
        mean = 0.0
        if label_smoothing:
            mean = tf.reduce_mean(logits, axis=-1) - normalizer  # [N]

        def gradient(upstream: Any) -> Any:
            return of_logits(probabilities, labels, upstream, tf.constant(label_smoothing))

        return smoothed(told, mean, label_smoothing), gradient

    return losses(logits), best


def _gradient(probabilities: Any, labels: Any, upstream: Any, label_smoothing: Any) -> Any:
    """Returns upstream (p - t), [N, C], of p [N, C], labels [N], upstream [N] and s []."""
    classes = probabilities.shape[-1]
    right = tf.one_hot(labels, classes) * (1 - label_smoothing)  # [N, C]
    return (probabilities - right - label_smoothing / classes) * upstream[:, None]


_gradient_in_one_loop = one_loop(_gradient)


@keras.saving.register_keras_serializable("keras_bert")
class SmoothedCrossentropy(keras.losses.Loss):
    """Cross-entropy of logits [B, C] and class indices [B], see `smoothed_crossentropy`.

    Args:
        label_smoothing: the fraction of the target that is spread evenly over all classes.
    """

    def __init__(self, label_smoothing: float = 0.0, name: str = "crossentropy", **kwargs: Any):
        super().__init__(name=name, **kwargs)
        self.label_smoothing = label_smoothing

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Returns the loss of each example, [B]."""
        return smoothed_crossentropy(y_pred, y_true, self.label_smoothing)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {"label_smoothing": self.label_smoothing}
