"""8-bit products of served models by oneDNN. Oracle: NumPy in float64, up to rounding."""

import gc
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertConfig, create_encoder
from keras_bert.serving.int8_products import quantize, quantize_for_onednn
from tests.models.test_families import CONFIGS, NUMBERS

# Among the numbers that 8 bits stand for, each may lie half a step from its neighbour.
WEIGHT_STEPS, INPUT_STEPS = 64, 255


def dense_model(kernel, bias=None, activation=None):
    """A model of one dense layer, and as it is in 8 bits."""
    layer = keras.layers.Dense(
        kernel.shape[1], activation=activation, use_bias=bias is not None, name="dense"
    )
    model = keras.Sequential([keras.Input([kernel.shape[0]]), layer])
    layer.set_weights([kernel] if bias is None else [kernel, bias])
    quantize_for_onednn(model)
    return layer


def largest_error(inputs, kernel):
    """How far rounding of weights and inputs can move each product, [..., O]."""
    weight_error = np.abs(kernel).max(axis=0) / WEIGHT_STEPS / 2
    input_error = np.ptp(inputs, axis=-1, keepdims=True) / INPUT_STEPS / 2
    of_weights = np.abs(inputs).sum(axis=-1, keepdims=True) * weight_error
    # A smallest value is multiplied with the rounded weights, too.
    sizes = np.abs(kernel) + weight_error
    return of_weights + input_error * sizes.sum(axis=0) + 1e-4


@pytest.mark.parametrize("shape", [[5, 19], [2, 3, 19], [0, 19]])
@pytest.mark.parametrize("with_bias", [True, False])
def test_products_are_right_up_to_rounding(shape, with_bias):
    draw = np.random.default_rng(3)
    kernel = draw.normal(size=[19, 7]).astype(np.float32)
    bias = draw.normal(size=7).astype(np.float32) if with_bias else None
    # Positive, negative and mixed rows of three sizes: none is at zero.
    inputs = draw.normal(size=shape) * 10.0 ** draw.integers(-2, 2, [*shape[:-1], 1])
    inputs = (inputs + draw.integers(-3, 4, [*shape[:-1], 1])).astype(np.float32)
    found = dense_model(kernel, bias)(tf.constant(inputs)).numpy()
    expected = inputs.astype(np.float64) @ kernel + (0 if bias is None else bias)
    assert found.shape == expected.shape
    assert np.all(np.abs(found - expected) <= largest_error(inputs, kernel))


def test_rows_of_one_value_and_columns_of_zeros():
    kernel = np.array([[1.0, 0.0], [-2.0, 0.0], [0.5, 0.0]], np.float32)
    inputs = np.array([[0.0, 0.0, 0.0], [3.0, 3.0, 3.0], [-1.0, -1.0, -1.0]], np.float32)
    found = dense_model(kernel, np.array([1.0, 4.0], np.float32))(tf.constant(inputs)).numpy()
    # The kernel sums to -0.5. Steps of 3 / 127 (2 and 1 may meet in 16 bits): three halves of them.
    np.testing.assert_allclose(found, [[1, 4], [-0.5, 4], [1.5, 4]], atol=3 * 3 * 3 / 127 / 2)


def test_an_answer_does_not_depend_on_its_neighbors():
    draw = np.random.default_rng(5)
    layer = dense_model(draw.normal(size=[16, 8]).astype(np.float32), activation="tanh")
    inputs = tf.constant(
        draw.normal(size=[6, 16]) * [[1], [100], [0.01], [1], [5], [0]], tf.float32
    )
    together = layer(inputs).numpy()
    alone = np.concatenate([layer(inputs[row : row + 1]).numpy() for row in range(6)])
    np.testing.assert_allclose(together, alone, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("model_type", [None, *CONFIGS])
@pytest.mark.parametrize("library", ["oneDNN", "Keras"])
def test_encoders_of_every_family_are_close_to_float32(model_type, library):
    config = CONFIGS[model_type] if model_type else BertConfig(**NUMBERS)
    # Of weights as large as in those, rounding is more than a thousandth where gates multiply.
    sizes = {"hidden_size": 32, "intermediate_size": 64, "initializer_range": 0.1}
    encoder = create_encoder(config.replace(**sizes), seed=1)
    draw = np.random.default_rng(5)
    for weight in encoder.weights:  # biases and norms, too, are no longer what they start as
        weight.assign_add(draw.normal(0, 0.1, weight.shape))
    inputs = {
        "input_ids": draw.integers(5, config.vocab_size, [4, 8], np.int32),
        "input_mask": np.ones([4, 8], np.int32),
        "segment_ids": np.zeros([4, 8], np.int32),
    }
    expected = encoder(inputs)["sequence_output"].numpy()
    if library == "oneDNN":
        quantize_for_onednn(encoder)
    else:
        quantize(encoder)
    found = encoder(inputs)["sequence_output"].numpy()
    assert not np.array_equal(found, expected)
    assert np.corrcoef(found.ravel(), expected.ravel())[0, 1] > 0.999


@pytest.mark.parametrize("froze", [False, True])
def test_garbage_is_collected_as_before(froze):
    if froze:
        gc.freeze()
    try:
        held = gc.get_freeze_count()
        dense_model(np.ones([8, 4], np.float32))  # quantizes
        assert (gc.get_freeze_count() > 0) == (held > 0)
    finally:
        gc.unfreeze()


ALL_THE_LARGEST = """
import numpy as np
import tensorflow as tf
from tests.serving.test_int8_products import dense_model
inputs = np.zeros([3, 512], np.float32)
inputs[1], inputs[2, ::2] = 1, 1
inputs[:2, 0] = 0  # the smallest value of the row, so that all others are 255
signs = np.ones([512, 4], np.float32)
signs[:, 1], signs[::2, 2], signs[1::4, 3] = -1, -1, 0
found = dense_model(signs)(tf.constant(inputs)).numpy()
# Rounding: 64 in place of 63.5. A sum that ends at 32,767 is a half too small, with weights of 127.
np.testing.assert_allclose(found, inputs @ signs, atol=512 / 127)
"""


# Instructions of every processor that TensorFlow runs on, those before VNNI among them.
@pytest.mark.slow
@pytest.mark.parametrize("instructions", ["AVX2", "AVX512_CORE", "ALL"])
def test_sums_do_not_overflow_on_older_processors(instructions):
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": instructions}
    subprocess.run([sys.executable, "-c", ALL_THE_LARGEST], check=True, env=environment)


@pytest.mark.slow
def test_tensorflow_without_onednn_is_told(model_folder, tmp_path):
    command = [sys.executable, "tools/export_saved_model.py", "--dtype=int8_onednn"]
    command += [f"--model_dir={model_folder('classes')}", f"--export_dir={tmp_path / 'served'}"]
    environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "0"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(
        "error: dtype is 'int8_onednn', and this TensorFlow has no products of 8-bit integers by "
    )
    assert not (tmp_path / "served").exists()
