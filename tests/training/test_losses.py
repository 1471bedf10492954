"""The cross-entropy of large vocabularies against its formula in float64 of NumPy."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.layers import one_loop
from keras_bert.training.losses import (
    SmoothedCrossentropy,
    best_classes,
    crossentropy_and_best_classes,
    smoothed_crossentropy,
)
from tests.tolerances import FORMULA

LARGE = 1200  # classes: above the number from which on the loss is computed by the softmax
ACCELERATED = any(device.device_type != "CPU" for device in tf.config.list_logical_devices())


def expected_losses(logits, labels, smoothing):
    """Returns losses and their gradients, of logits [N, C]."""
    logits = logits.astype(np.float64)
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    probabilities = exponentials / exponentials.sum(axis=-1, keepdims=True)
    target = np.eye(logits.shape[-1])[labels] * (1 - smoothing) + smoothing / logits.shape[-1]
    logs = logits - logits.max(axis=-1, keepdims=True)
    logs -= np.log(exponentials.sum(axis=-1, keepdims=True))
    return -(target * logs).sum(axis=-1), probabilities - target


@pytest.mark.parametrize("rows", ["known", "unknown", "large"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("classes", [7, LARGE])
def test_losses_and_gradients(classes, smoothing, rows, monkeypatch):
    monkeypatch.setattr(one_loop, "_threads", lambda: 1)
    monkeypatch.delenv(one_loop.SWITCH, raising=False)
    if rows == "large":
        monkeypatch.setattr(one_loop, "LEAST_ELEMENTS", 1)
    generator = np.random.default_rng(0)
    logits = generator.normal(0, 5, (2, 3, classes)).astype(np.float32)
    labels = generator.integers(0, classes, (2, 3))
    logits[0, 0] = np.where(np.arange(classes) == labels[0, 0], 1e4, -1e4)  # as sure as can be
    logits[0, 1] = np.where(np.arange(classes) == labels[0, 1], -1e4, 1e4)  # sure of all others
    logits[1, 2] = 3.0  # of none
    upstream = generator.normal(size=(2, 3)).astype(np.float32)
    spec = tf.TensorSpec([None, None, classes] if rows == "unknown" else logits.shape, tf.float32)

    @tf.function(input_signature=[spec])
    def learn(logits):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            losses, best = crossentropy_and_best_classes(logits, labels, smoothing)
        return losses, best, tape.gradient(losses, logits, upstream)

    graph = learn.get_concrete_function().graph
    by_softmax = classes == LARGE and not ACCELERATED
    assert ("Softmax" in {found.type for found in graph.get_operations()}) == by_softmax
    loops = [str(found.definition.attr) for found in graph._functions.values()]
    compiled = any("_XlaMustCompile" in attributes for attributes in loops)
    assert compiled == (by_softmax and rows == "large")
    losses, best, gradient = (values.numpy() for values in learn(logits))

    expected, derivative = expected_losses(logits.reshape(6, -1), labels.reshape(6), smoothing)
    np.testing.assert_allclose(losses.reshape(6), expected, rtol=2e-6, atol=2e-6)
    scaled = derivative * upstream.reshape(6, 1)
    np.testing.assert_allclose(gradient.reshape(6, -1), scaled, rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(best, logits.argmax(axis=-1))


def test_a_loss_by_hand():
    # log(2.718282 + 1 + 1198 * 0.00012341) = log(3.866127) = 1.352253.
    logits = np.full((1, LARGE), -9.0, np.float32)
    logits[0, :2] = 1.0, 0.0
    find = tf.function(smoothed_crossentropy)
    np.testing.assert_allclose(find(logits, [0]), [0.352253], **FORMULA)
    np.testing.assert_allclose(find(logits, [1]), [1.352253], **FORMULA)
    # The mean is (1 - 1198 * 9) / 1200 = -8.984167: 1.352253 - 0.8 * 1 + 0.2 * 8.984167.
    np.testing.assert_allclose(
        tf.function(functools.partial(smoothed_crossentropy, label_smoothing=0.2))(logits, [0]),
        [2.349087],
        **FORMULA,
    )


def test_the_first_of_equal_classes_is_the_best():
    logits = tf.constant([[1.0, 3.0, 3.0, -0.0], [-0.0, 0.0, -1.0, 0.0], [0.0, -0.0, -1.0, 0.0]])
    np.testing.assert_array_equal(best_classes(logits), [1, 0, 0])


@pytest.mark.parametrize("classes", [7, LARGE])
def test_what_is_not_finite_shows(classes):
    logits = np.zeros((2, classes), np.float32)
    logits[1, 3] = np.nan
    losses = tf.function(smoothed_crossentropy)(logits, [0, 0]).numpy()
    assert np.isfinite(losses[0])
    assert not np.isfinite(losses[1])


def test_large_vocabularies_under_fit_learn_as_under_the_loss_of_keras():
    def learned(loss):
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.layers.Dense(LARGE)])
        model.compile("sgd", loss)
        inputs = np.random.default_rng(1).normal(size=(8, 4))
        model.fit(inputs, np.arange(8) * 100, epochs=2, batch_size=4, shuffle=False, verbose=0)
        return model.get_weights()

    expected = learned(keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    for weights, others in zip(learned(SmoothedCrossentropy()), expected, strict=True):
        np.testing.assert_allclose(weights, others, rtol=1e-5, atol=1e-6)
