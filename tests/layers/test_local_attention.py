"""Attention in a window against full attention with a mask: the same for every position."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.layers.local_attention import LocalEncoderBlock, LocalSelfAttention
from keras_bert.layers.self_attention import SelfAttention
from tests.markers import some_fast
from tests.tolerances import BFLOAT16, REORDERED

HEADS, WIDTH = 2, 8
of_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="takes TensorFlow's gradient or graph"
)


def band(length, window, global_tokens):
    """Who sees whom, 0 or 1, [S, S]; written out with two loops."""
    mask = np.zeros([length, length], np.int32)
    for query in range(length):
        for key in range(length):
            near = abs(query - key) <= window
            mask[query, key] = near or query < global_tokens or key < global_tokens
    return mask


def layers(window, global_tokens, **arguments):
    """Local and full attention with the same weights, large enough that scores differ."""
    keras.utils.set_random_seed(1)
    full = SelfAttention(HEADS, 0.0, 0.7, **arguments)
    local = LocalSelfAttention(HEADS, window, global_tokens, 0.0, 0.7, **arguments)
    for layer in (full, local):
        layer.build((None, None, WIDTH))
    local.set_weights(full.get_weights())
    return local, full


def hidden_and_mask(length, padding):
    hidden = np.random.default_rng(length).normal(size=(2, length, WIDTH)).astype("float32")
    mask = np.ones([2, length], np.int32)
    mask[1, length - padding :] = 0
    return hidden, mask


@pytest.mark.parametrize("global_tokens", [0, 1, 3])
@pytest.mark.parametrize("window", some_fast([1, 2, 4, 30], (1, 4)))
def test_every_position_gets_what_the_mask_gives_it(window, global_tokens):
    local, full = layers(window, global_tokens)
    for length in (1, 2, 8, 9, 17):
        hidden, mask = hidden_and_mask(length, padding=length // 3)
        visible = band(length, window, global_tokens)[None] * mask[:, None]
        found, expected = np.array(local(hidden, mask)), np.array(full(hidden, visible))
        # What stands at padding is looked at by nobody, and a window there may be empty.
        real = mask.astype(bool)
        np.testing.assert_allclose(found[real], expected[real], **REORDERED)
        if window < length - 1 and global_tokens == 0:
            assert np.abs(found - np.array(full(hidden, mask)))[0].max() > 1e-3


@of_tensorflow
def test_gradients_are_those_of_the_mask():
    local, full = layers(2, 1)
    hidden, mask = hidden_and_mask(9, padding=2)
    upstream = np.random.default_rng(1).normal(size=hidden.shape) * mask[:, :, None]
    gradients = []
    for layer, visible in ((local, mask), (full, band(9, 2, 1)[None] * mask[:, None])):
        inputs = tf.constant(hidden)
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            loss = tf.reduce_sum(layer(inputs, visible, training=True) * upstream)
        variables = [weight.value for weight in layer.trainable_weights]
        gradients.append(tape.gradient(loss, [inputs, *variables]))
    for found, expected in zip(*gradients, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.half_precision
def test_bfloat16_keeps_padding_and_what_is_outside_away():
    exact, _ = layers(2, 1)
    local = LocalSelfAttention(HEADS, 2, 1, 0.0, 0.7, dtype="mixed_bfloat16")
    local.build((None, None, WIDTH))
    local.set_weights(exact.get_weights())
    hidden, mask = hidden_and_mask(17, padding=6)
    found = np.array(local(hidden, mask), np.float32)
    expected = np.array(exact(hidden, mask))
    real = mask.astype(bool)
    # The tolerance is for numbers of the order of 1; these large weights make them larger.
    size = expected[real].std()
    np.testing.assert_allclose(found[real] / size, expected[real] / size, **BFLOAT16)
    # What is not seen changes nothing: padding, and the last position for the second.
    hidden[1, 11:], hidden[0, 16] = 3.0, 3.0
    again = np.array(local(hidden, mask), np.float32)
    np.testing.assert_array_equal(again[1, :11], found[1, :11])
    np.testing.assert_array_equal(again[0, 1:14], found[0, 1:14])


def largest_tensor(length):
    """Numbers of the largest tensor of the graph for sequences of a fixed length."""
    local, _ = layers(4, 1)
    graph = tf.function(lambda hidden, mask: local(hidden, mask)).get_concrete_function(
        tf.TensorSpec([2, length, WIDTH]), tf.TensorSpec([2, length], tf.int32)
    )
    shapes = [output.shape for op in graph.graph.get_operations() for output in op.outputs]
    assert all(shape.is_fully_defined() for shape in shapes)  # as a TPU asks
    return max(shape.num_elements() for shape in shapes)


@of_tensorflow
def test_no_tensor_grows_with_the_square_of_the_length():
    # [2, HEADS, S / 4, 4, 1 + 12] scores.
    assert largest_tensor(256) == 2 * HEADS * 256 * 13
    assert largest_tensor(1024) == 4 * largest_tensor(256)


@of_tensorflow
@pytest.mark.parametrize("length", [1, 5, 12, 13, 30])
def test_lengths_that_are_not_known_cost_no_more_than_full_attention(length):
    local, full = layers(4, 1)
    shapes = []

    def seen(probs, training):
        shapes.append(tf.shape(probs))
        return probs

    local.dropout = seen
    specs = tf.TensorSpec([None, None, WIDTH]), tf.TensorSpec([None, None], tf.int32)
    graph = tf.function(
        lambda hidden, mask: (local(hidden, mask), shapes.pop()), input_signature=specs
    )
    hidden, mask = hidden_and_mask(length, padding=length // 3)
    found, shape = graph(hidden, mask)
    real = mask.astype(bool)
    expected = np.array(full(hidden, band(length, 4, 1)[None] * mask[:, None]))
    np.testing.assert_allclose(found[real], expected[real], **REORDERED)
    # Up to three windows one block that meets itself and [CLS]; then blocks of a window.
    blocks = (1, length, 1 + length) if length <= 12 else (-(-length // 4), 4, 13)
    assert shape.numpy().tolist() == [2, HEADS, *blocks]


@of_tensorflow
def test_it_compiles_with_xla():
    local, _ = layers(4, 1)
    hidden, mask = hidden_and_mask(18, padding=3)
    compiled = tf.function(lambda *inputs: local(*inputs), jit_compile=True)
    found = compiled(tf.constant(hidden), tf.constant(mask))
    np.testing.assert_allclose(found, local(hidden, mask), **REORDERED)


def test_dropout_drops_in_training_alone():
    arguments = {"num_attention_heads": HEADS, "attention_window": 2, "seed": 3}
    layer = LocalSelfAttention(dropout_rate=0.5, **arguments)
    hidden, mask = hidden_and_mask(9, padding=2)
    np.testing.assert_array_equal(layer(hidden, mask), layer(hidden, mask))
    apart = np.abs(np.array(layer(hidden, mask, training=True) - layer(hidden, mask)))
    assert apart[:, 0].max() > 0 and apart[:, 1:].max() > 0


def test_a_table_of_all_pairs_is_refused():
    local, _ = layers(2, 1)
    block = LocalEncoderBlock(HEADS, 12)
    hidden, mask = hidden_and_mask(9, padding=2)
    symbols = keras.KerasTensor([2, 9, WIDTH]), keras.KerasTensor([2, 9], "int32")
    for layer, inputs in ((local, (hidden, mask)), (block, (hidden, mask)), (local, symbols)):
        with pytest.raises(ValueError, match="LocalSelfAttention does not compute all pairs"):
            layer(*inputs, return_probs=True)


def test_a_mask_with_rows_is_refused():
    local, _ = layers(2, 1)
    hidden, mask = hidden_and_mask(9, padding=2)
    with pytest.raises(ValueError, match="neither packed sequences nor attention from left to"):
        local(hidden, keras.ops.convert_to_tensor(mask[:, None] * band(9, 2, 1)[None]))
