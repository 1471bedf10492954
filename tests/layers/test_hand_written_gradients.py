"""Layers in training: gradients written by hand against automatic ones of Keras."""

import functools

import keras
import numpy as np
import pytest
from keras import ops

from keras_bert.layers import one_loop
from keras_bert.layers.activations import activation_function
from keras_bert.layers.dense import Dense
from keras_bert.layers.dropout import Dropout
from keras_bert.layers.embeddings import WordEmbedding
from keras_bert.layers.layer_norm import LayerNormalization, RMSNormalization
from tests.tolerances import FORMULA, REORDERED

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="takes TensorFlow's gradient"
)
ACCELERATED = any(device.device_type != "CPU" for device in tf.config.list_logical_devices())
# bfloat16: rounded to 8 significant bits once.
TOLERANCES = {"float32": REORDERED, "bfloat16": {"rtol": 2**-8, "atol": 2e-2}}
# Sums of float32 numbers in another order, to a hundredth of one of them.
SUMS = {"rtol": 1e-5, "atol": 1e-2}
# bfloat16: computed in float32 and rounded once, to 8 significant bits.
GELU_TOLERANCES = {"float32": REORDERED, "bfloat16": {"rtol": 2**-8, "atol": 1e-5}}


def value_and_gradients(function, inputs, upstream, variables=()):
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = function(inputs)
    found = tape.gradient(outputs, [inputs, *variables], upstream)
    return [ops.convert_to_numpy(ops.cast(value, "float32")) for value in (outputs, *found)]


def learned_in_a_graph(function, inputs, upstream, variables=()):
    @tf.function
    def learn(inputs, upstream):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = function(inputs)
        return outputs, *tape.gradient(outputs, [inputs, *variables], upstream)

    return [ops.convert_to_numpy(ops.cast(x, "float32")) for x in learn(inputs, upstream)]


def numbers(dtype, shape, seed):
    values = np.random.default_rng(seed).normal(0.5, 1.5, shape)
    return tf.constant(values, tf.as_dtype(dtype))


@pytest.mark.parametrize(
    "dtype", ["float32", pytest.param("bfloat16", marks=pytest.mark.half_precision)]
)
@pytest.mark.parametrize("shape", [(4, 24), (2, 3, 24), (32, 16, 256)])
def test_layer_norm_learns_as_that_of_keras(shape, dtype, monkeypatch):
    monkeypatch.setattr(one_loop, "_threads", lambda: 1)
    monkeypatch.delenv(one_loop.SWITCH, raising=False)
    policy = {"float32": "float32", "bfloat16": "mixed_bfloat16"}[dtype]
    ours = LayerNormalization(epsilon=1e-12, dtype=policy)
    theirs = keras.layers.LayerNormalization(epsilon=1e-12, dtype="float32")
    width = shape[-1]
    for layer in (ours, theirs):
        layer.build(shape)
        layer.set_weights([numbers("float32", width, seed).numpy() for seed in (1, 2)])
    inputs, upstream = numbers(dtype, shape, 3), numbers(dtype, shape, 4)
    variables = [v.value for v in ours.variables]
    # The largest shape, of 2**17 elements: value, gradient of the inputs, those of the parameters.
    loops = 3 if width == 256 and not ACCELERATED else 0
    assert (
        compiled_functions(lambda x: ours(x, training=True), inputs, variables=variables) == loops
    )

    found = learned_in_a_graph(lambda x: ours(x, training=True), inputs, upstream, variables)
    expected = value_and_gradients(
        theirs,
        tf.cast(inputs, "float32"),
        tf.cast(upstream, "float32"),
        [v.value for v in theirs.variables],
    )

    for value, other in zip(found[:2], expected[:2], strict=True):
        np.testing.assert_allclose(value, other, **TOLERANCES[dtype])
    for value, other in zip(found[2:], expected[2:], strict=True):  # sums over up to 512 tokens
        np.testing.assert_allclose(value, other, **SUMS)


@pytest.mark.parametrize("shape", [(4, 24), (32, 16, 256)])
def test_root_mean_square_norm_learns_as_that_of_keras(shape, monkeypatch):
    monkeypatch.setattr(one_loop, "_threads", lambda: 1)
    monkeypatch.delenv(one_loop.SWITCH, raising=False)
    ours, theirs = RMSNormalization(epsilon=1e-3), keras.layers.RMSNormalization(epsilon=1e-3)
    for layer in (ours, theirs):
        layer.build(shape)
        layer.set_weights([numbers("float32", shape[-1], 1).numpy()])
    inputs, upstream = numbers("float32", shape, 3), numbers("float32", shape, 4)

    def values(layer, **arguments):
        variables = [v.value for v in layer.variables]
        return learned_in_a_graph(lambda x: layer(x, **arguments), inputs, upstream, variables)

    found, expected = values(ours, training=True), values(theirs)
    for value, other in zip(found[:2], expected[:2], strict=True):
        np.testing.assert_allclose(value, other, **TOLERANCES["float32"])
    np.testing.assert_allclose(found[2], expected[2], **SUMS)
    np.testing.assert_allclose(ours(inputs), expected[0], **TOLERANCES["float32"])


def test_layer_norm_of_rows_that_hardly_vary():
    # With an epsilon of 0.001, which a kernel of TensorFlow has, these would come out near zero.
    layer = LayerNormalization(epsilon=1e-12)
    layer.build((2, 4))
    rows = tf.constant([[1.0, 1.0, 1.0, 1.0001], [0.0, 1e-4, 0.0, 1e-4]])

    for training in (False, True):
        found = ops.convert_to_numpy(layer(rows, training=training))
        # (0 - 1/4) / sqrt(3/16) and (1 - 1/4) / sqrt(3/16); half below the mean, half above it.
        # 1.0001 has 7 digits in float32, which leaves 3 of its distance to 1.
        np.testing.assert_allclose(found[0], [-0.5774, -0.5774, -0.5774, 1.7321], rtol=2e-3)
        np.testing.assert_allclose(found[1], [-1, 1, -1, 1], rtol=1e-3)


@pytest.mark.parametrize(
    "dtype", ["float32", pytest.param("bfloat16", marks=pytest.mark.half_precision)]
)
@pytest.mark.parametrize("shape", [(3, 5, 16), (512, 256)], ids=["operations", "one_loop"])
@pytest.mark.parametrize("name", ["gelu", "gelu_tanh"])
def test_gelu_learns_as_that_of_keras(name, shape, dtype, monkeypatch):
    monkeypatch.setattr(one_loop, "_threads", lambda: 1)
    monkeypatch.delenv(one_loop.SWITCH, raising=False)
    inputs, upstream = numbers(dtype, shape, 5), numbers(dtype, shape, 6)
    gelu = activation_function(name)
    # The larger shape, of 2**17 elements, is computed in one loop and its gradient in another.
    loops = 2 if shape == (512, 256) and not ACCELERATED else 0
    assert compiled_functions(lambda x: gelu(x, training=True), inputs) == loops

    found = learned_in_a_graph(lambda x: gelu(x, training=True), inputs, upstream)
    expected = value_and_gradients(
        lambda x: ops.gelu(x, approximate=name == "gelu_tanh"),
        tf.cast(inputs, "float32"),
        tf.cast(upstream, "float32"),
    )

    for value, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, other, **GELU_TOLERANCES[dtype])


def graph_of_learning(function, *inputs, variables=()):
    """Returns the graph of a function and its gradient."""

    @tf.function
    def learn(*inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = function(*inputs)
        return tape.gradient(outputs, [*inputs, *variables])

    return learn.get_concrete_function(*inputs).graph


def compiled_functions(function, *inputs, variables=()):
    """How many functions XLA compiles in the graph of a function and its gradient."""
    functions = graph_of_learning(function, *inputs, variables=variables)._functions.values()
    return sum("_XlaMustCompile" in str(found.definition.attr) for found in functions)


@pytest.mark.skipif(ACCELERATED, reason="accelerators join operations by themselves")
def test_one_loop_is_for_large_tensors_of_known_shape_and_can_be_turned_off(monkeypatch):
    def gelus(x):
        for _ in range(3):  # blocks of a model
            x = activation_function("gelu")(x, training=True)
        return x

    large = numbers("float16", (512, 256), 7)
    # One for the values of all blocks, one for their gradients.
    assert compiled_functions(gelus, large) == 2
    assert compiled_functions(gelus, large[:511]) == 0
    assert compiled_functions(gelus, tf.TensorSpec([None, 256], tf.float16)) == 0
    with one_loop.graph_of_accelerator():
        assert compiled_functions(gelus, large) == 0
    monkeypatch.setenv(one_loop.SWITCH, "0")
    assert compiled_functions(gelus, large) == 0


@pytest.mark.parametrize(
    "dtype", ["float32", pytest.param("bfloat16", marks=pytest.mark.half_precision)]
)
@pytest.mark.skipif(ACCELERATED, reason="accelerators join operations by themselves")
def test_dropout_in_one_loop_drops_the_same_units(dtype, monkeypatch):
    monkeypatch.setattr(one_loop, "_threads", lambda: 1)
    monkeypatch.delenv(one_loop.SWITCH, raising=False)
    inputs, upstream = numbers(dtype, (2, 64, 1024), 10), numbers(dtype, (2, 64, 1024), 11)
    policy = {"float32": "float32", "bfloat16": "mixed_bfloat16"}[dtype]
    # The gradient is the same function.
    layer = Dropout(0.1, seed=12, dtype=policy)
    assert compiled_functions(lambda x: layer(x, training=True), inputs) == 1

    def learned():  # a new layer begins with the same draws
        layer = Dropout(0.1, seed=12, dtype=policy)
        return learned_in_a_graph(lambda x: layer(x, training=True), inputs, upstream)

    found = learned()
    monkeypatch.setenv(one_loop.SWITCH, "0")
    for value, expected in zip(found, learned(), strict=True):
        np.testing.assert_array_equal(value, expected)


@pytest.mark.parametrize(
    "dtype", ["float32", pytest.param("bfloat16", marks=pytest.mark.half_precision)]
)
@pytest.mark.parametrize("length", [5, None])
@pytest.mark.parametrize("shape", [(10, 6), (2, 5, 6)])
def test_a_dense_layer_learns_as_that_of_keras(shape, length, dtype):
    policy = {"float32": "float32", "bfloat16": "mixed_bfloat16"}[dtype]
    ours, theirs = (
        kind(4, activation="tanh", dtype=policy) for kind in (Dense, keras.layers.Dense)
    )
    for layer in (ours, theirs):
        layer.build(shape)
        layer.set_weights([numbers("float32", size, 13).numpy() for size in ((6, 4), (4,))])
    inputs, upstream = numbers(dtype, shape, 14), numbers(dtype, (*shape[:-1], 4), 15)

    found, expected = (
        learned_in_a_graph(
            functools.partial(layer, training=True),
            inputs,
            upstream,
            [v.value for v in layer.variables],
        )
        for layer in (ours, theirs)
    )
    for value, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, other, **TOLERANCES[dtype])

    # Of TensorFlow's own operation nothing is left, of a known number of tokens or not.
    spec = tf.TensorSpec([length, *shape[1:]], dtype)
    operations = graph_of_learning(
        lambda x: ours(x, training=True), spec, variables=[v.value for v in ours.variables]
    ).get_operations()
    assert not [found.name for found in operations if found.type in ("BiasAddGrad", "Sum")]


@pytest.mark.half_precision
@pytest.mark.skipif(ACCELERATED, reason="of processors")
def test_the_gradient_of_a_bias_adds_up_in_float32():
    layer = Dense(4, dtype="mixed_bfloat16")
    layer.build((None, 6))
    upstream = tf.abs(numbers("bfloat16", (4096, 4), 17))
    _, _, found = learned_in_a_graph(
        functools.partial(layer, training=True),
        numbers("bfloat16", (4096, 6), 18),
        upstream,
        [layer.bias.value],
    )
    # Rounded once, where TensorFlow's own sum is a quarter of it.
    np.testing.assert_allclose(found, np.float64(upstream).sum(axis=0), rtol=2**-7)


def test_a_dense_layer_without_training_is_that_of_keras():
    layer = Dense(4, activation="tanh")
    layer.build((None, 6))
    other = keras.layers.Dense(4, activation="tanh")
    other.build((None, 6))
    other.set_weights(layer.get_weights())
    inputs = numbers("float32", (3, 6), 16)
    np.testing.assert_array_equal(layer(inputs), other(inputs))
    for each in (layer, other):
        keras.Sequential([keras.Input((6,)), each]).quantize(
            "int8"
        )  # which asks layers of other classes nothing
    assert layer.quantization_mode == "int8"
    np.testing.assert_array_equal(layer(inputs), other(inputs))
    unbiased = Dense(4, use_bias=False)
    np.testing.assert_allclose(
        unbiased(inputs, training=True), inputs @ unbiased.get_weights()[0], **REORDERED
    )


@pytest.mark.parametrize(
    ("name", "values", "derivatives"),
    [
        # Phi(1) = 0.841345, phi(1) = 0.241971; Phi(-2) = 0.022750, phi(-2) = 0.053991.
        ("gelu", [0.841345, -0.045500, 0.0], [1.083316, -0.085232, 0.5]),
        # u(1) = 0.833562 with tanh 0.682384; u(-2) = -1.881188 with tanh -0.954598.
        # u'(1) = 0.904917; u'(-2) = 1.226013.
        ("gelu_tanh", [0.841192, -0.045402, 0.0], [1.082964, -0.086099, 0.5]),
    ],
)
def test_gelus_by_hand(name, values, derivatives):
    inputs = tf.constant([1.0, -2.0, 0.0])
    value, gradient = value_and_gradients(
        lambda x: activation_function(name)(x, training=True), inputs, tf.ones(3)
    )
    np.testing.assert_allclose(value, values, **FORMULA)
    np.testing.assert_allclose(gradient, derivatives, **FORMULA)


def test_logits_have_the_gradients_of_the_product():
    layer = WordEmbedding(11, 4)
    layer.build((None, None))
    vectors, upstream = numbers("float32", (2, 3, 4), 8), numbers("float32", (2, 3, 11), 9)
    logits, of_vectors, of_table = value_and_gradients(
        lambda x: layer(x, reverse=True), vectors, upstream, [v.value for v in layer.variables]
    )
    [table] = layer.get_weights()  # [V, H]
    rows, given = vectors.numpy().reshape(6, 4), upstream.numpy().reshape(6, 11)
    np.testing.assert_allclose(logits.reshape(6, 11), rows @ table.T, **REORDERED)
    np.testing.assert_allclose(of_vectors.reshape(6, 4), given @ table, **REORDERED)
    np.testing.assert_allclose(of_table, given.T @ rows, **REORDERED)


@pytest.mark.half_precision
def test_layer_norm_under_a_policy_that_keeps_variables_in_bfloat16():
    layer = LayerNormalization(dtype="bfloat16")
    layer.build((2, 4))
    rows = tf.constant([[1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 4.0]], tf.bfloat16)

    values = value_and_gradients(
        lambda x: layer(x, training=True), rows, rows, [v.value for v in layer.variables]
    )

    # (x - 2.5) / sqrt(1.25) and (x - 1) / sqrt(3)
    expected = [[-1.3416, -0.4472, 0.4472, 1.3416], [-0.5774, -0.5774, -0.5774, 1.7321]]
    np.testing.assert_allclose(values[0], expected, atol=1e-2)
    np.testing.assert_allclose(values[3], [1, 2, 3, 8])  # of the offset: the sum over rows


def test_other_norms_are_left_to_keras():
    with pytest.raises(ValueError, match="only the last axis is normalized, with a scale"):
        LayerNormalization(axis=1)
