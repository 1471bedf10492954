"""Dropout from bytes: how many units it drops, and what stays the same."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_bert.layers.dropout import Dropout, scale_and_threshold


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_the_mean_stays_and_the_rate_is_that_of_the_argument(rate, dtype):
    inputs = ops.ones((64, 64, 256), dtype)
    outputs = ops.convert_to_numpy(
        ops.cast(Dropout(rate, seed=1, dtype=dtype)(inputs, training=True), "float32")
    )
    # A million units: the standard deviation of the rate is at most 0.0005. Five of them.
    assert (outputs == 0).mean() == pytest.approx(rate, abs=0.0025 + 0.0025 * (dtype != "float32"))
    assert outputs.mean(dtype=np.float64) == pytest.approx(1.0, abs=0.0025 / (1 - rate))
    assert len(np.unique(outputs)) == 2  # 0 and one factor


def test_factor_and_threshold_fit_each_other():
    # 256 x 0.1 = 25.6: of 256 bytes 26 are dropped in 60 % of the rows, 25 in the others.
    assert scale_and_threshold(0.1, "float32") == (
        pytest.approx(1 / 0.9, rel=1e-6),
        pytest.approx(25.6, rel=1e-5),  # 1 / 0.9 has seven digits in float32
    )
    # 1 / 0.9 in bfloat16 is 1 + 14/128; 1 - 1 / 1.109375 = 7/71, times 256 is 25.2394.
    scale, threshold = scale_and_threshold(0.1, "bfloat16")
    assert scale == 1.109375
    assert threshold == pytest.approx(256 * 7 / 71, rel=1e-12)


def test_rows_have_one_of_two_thresholds():
    # Of 256 bytes 254.1 are dropped: one is kept in 10 % of the rows, two in the others.
    dropout = Dropout(254.1 / 256, seed=8)
    outputs = ops.convert_to_numpy(dropout(ops.ones((500, 2**15)), training=True))
    kept = (outputs != 0).sum(axis=1)
    fewer = kept < 192  # 128 and 256 expected, with standard deviations of 11 and 16
    assert fewer.mean() == pytest.approx(0.1, abs=0.067)  # five standard deviations
    assert kept[fewer].mean() == pytest.approx(128, abs=5)
    assert kept[~fewer].mean() == pytest.approx(256, abs=5)


def test_rates_that_bytes_cannot_tell_from_one():
    assert Dropout(255 / 256).rate == 255 / 256
    with pytest.raises(ValueError, match="dropout rate is 0.998: expected at most 255/256"):
        Dropout(0.998)


@pytest.mark.parametrize("width", [1, 7, 8])
def test_widths_that_four_does_not_divide(width):
    outputs = ops.convert_to_numpy(Dropout(0.5, seed=2)(ops.ones((1000, width)), training=True))
    assert outputs.shape == (1000, width)
    # 0.5 +- five standard deviations in every column: none is always kept, nor a copy of another.
    assert (abs((outputs == 0).mean(axis=0) - 0.5) < 0.08).all()
    assert len({column.tobytes() for column in outputs.T}) == width


def test_neighbours_are_dropped_independently():
    dropped = ops.convert_to_numpy(Dropout(0.5, seed=3)(ops.ones((4000, 64)), training=True)) == 0
    for distance in (1, 2, 3):  # bytes of one drawn word
        both = (dropped[:, 0::4] & dropped[:, distance::4]).mean()
        assert both == pytest.approx(0.25, abs=0.009)  # five standard deviations of 64,000 pairs
    both = (dropped[0::2] & dropped[1::2]).mean()  # rows
    assert both == pytest.approx(0.25, abs=0.007)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="takes TensorFlow's gradient")
def test_a_gradient_passes_where_a_unit_passed():
    import tensorflow as tf

    inputs = tf.ones((50, 10))
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = Dropout(0.3, seed=4)(inputs, training=True)
    np.testing.assert_array_equal(tape.gradient(outputs, inputs), outputs)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="takes TensorFlow's graph")
def test_the_mask_is_the_same_where_no_length_is_known():
    import tensorflow as tf

    inputs = tf.ones((3, 5, 7))
    layer = Dropout(0.3, seed=8)
    graph = tf.function(
        lambda x: layer(x, training=True), input_signature=[tf.TensorSpec((None, None, None))]
    )
    np.testing.assert_array_equal(graph(inputs), Dropout(0.3, seed=8)(inputs, training=True))


def test_without_training_or_rate_nothing_changes():
    inputs = ops.ones((3, 4))
    assert Dropout(0.5, seed=5)(inputs, training=False) is inputs
    assert Dropout(0.0)(inputs, training=True) is inputs


def test_seeds_decide():
    draws = [
        ops.convert_to_numpy(Dropout(0.5, seed=seed)(ops.ones((8, 8)), training=True))
        for seed in (6, 6, 7)
    ]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0] != draws[2]).any()
    layer = Dropout(0.5, seed=6)
    first, second = (ops.convert_to_numpy(layer(ops.ones((8, 8)), training=True)) for _ in range(2))
    assert (first != second).any()


def test_rows_and_columns_are_left_to_keras():
    with pytest.raises(ValueError, match="noise_shape is not known here: take keras.layers.Drop"):
        Dropout(0.5, noise_shape=(1, 4))
