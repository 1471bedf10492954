"""What is asked of an encoder at some positions is what it says of all, and costs less."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import (
    BertClassifier,
    BertConfig,
    BertDocumentClassifier,
    BertEncoder,
    BertMaskedLM,
    BertMultipleChoice,
    BertPretrainer,
    BertSentenceEmbedder,
    BertTokenClassifier,
    create_encoder,
)
from keras_bert.layers.encoder_block import EncoderBlock
from keras_bert.layers.self_attention import SelfAttention
from keras_bert.training.rematerialization import rematerialize
from tests.models.test_families import BATCH, CONFIGS, NUMBERS
from tests.tolerances import REORDERED

# In any order, twice, the first, and the last real one of every row.
POSITIONS = np.array([[7, 2, 2, 0], [4, 1, 0, 0], [0, 2, 1, 2]], np.int32)
ALL_CONFIGS = {
    "bert": BertConfig(**NUMBERS),
    "left_to_right": BertConfig(**NUMBERS, left_to_right=True),
    **CONFIGS,
    "mean": CONFIGS["modernbert"].replace(classifier_pooling="mean"),
}
PACKING = {
    "pack_ids": np.tile([1, 1, 1, 2, 2, 2, 2, 2], (3, 1)).astype(np.int32),
    "position_ids": np.tile([0, 1, 2, 0, 1, 2, 3, 4], (3, 1)).astype(np.int32),
}


def outputs_and_gradients(encoder, batch, positions, training=False):
    """States at positions, the pooled output, and gradients of both by variable path."""
    with tf.GradientTape() as tape:
        if positions is None:
            found = encoder(batch, training=training)
            states = tf.gather(found["sequence_output"], POSITIONS, batch_dims=1)
        else:
            found = encoder(batch, output_positions=positions, training=training)
            states = found["sequence_output"]
        pooled = found["pooled_output"]
        # Weights that no symmetry of the states makes vanish.
        weights = tf.reshape(tf.cos(tf.range(tf.size(states), dtype=tf.float32)), states.shape)
        loss = tf.reduce_sum(weights * states) + tf.reduce_sum(weights[:, 0] * pooled)
    variables = encoder.trainable_variables
    gradients = tape.gradient(loss, [v.value for v in variables], unconnected_gradients="zero")
    by_path = {v.path: tf.convert_to_tensor(g) for v, g in zip(variables, gradients, strict=True)}
    return states, pooled, by_path


def assert_same(found, expected):
    for one, other in zip(found[:2], expected[:2], strict=True):
        np.testing.assert_allclose(one, other, **REORDERED)
    for path, gradient in expected[2].items():
        scale = np.abs(gradient).max() + 1e-6
        np.testing.assert_allclose(found[2][path] / scale, gradient / scale, **REORDERED)


@pytest.mark.parametrize("name", ALL_CONFIGS)
def test_it_is_what_it_says_of_all_positions(name):
    encoder = create_encoder(ALL_CONFIGS[name], seed=1)
    expected = outputs_and_gradients(encoder, BATCH, None)
    assert_same(outputs_and_gradients(encoder, BATCH, POSITIONS), expected)
    np.testing.assert_allclose(encoder.pooled(BATCH), expected[1], **REORDERED)


@pytest.mark.parametrize("name", ["bert", "left_to_right", "modernbert"])
def test_documents_of_one_sequence_stay_apart(name):
    config = ALL_CONFIGS[name]
    if name == "modernbert":  # a window refuses a mask with a row for each query
        config = config.replace(global_attention_every=1)
    encoder = create_encoder(config, packed=True, seed=1)
    batch = BATCH | PACKING
    expected = outputs_and_gradients(encoder, batch, None)
    assert_same(outputs_and_gradients(encoder, batch, POSITIONS), expected)


def test_rematerialized_blocks_do_so_with_the_same_dropout():
    encoder = BertEncoder(BertConfig(**NUMBERS), seed=1)
    generators = [(v, v.numpy()) for v in encoder.non_trainable_variables]
    assert generators
    expected = outputs_and_gradients(encoder, BATCH, POSITIONS, training=True)
    for variable, start in generators:
        variable.assign(start)
    rematerialize(encoder)
    assert_same(outputs_and_gradients(encoder, BATCH, POSITIONS, training=True), expected)


class KeywordBlock(EncoderBlock):
    def call(self, hidden, input_mask, *, training=False, return_probs=False):
        return super().call(hidden, input_mask, training, return_probs)


def test_a_rematerialized_block_is_called_as_keras_calls_it():
    block = KeywordBlock(2, 24, name="layer_0")
    hidden = np.random.default_rng(0).normal(size=(3, 8, 16)).astype(np.float32)
    expected = block(hidden, BATCH["input_mask"])
    rematerialize(SimpleNamespace(encoder_blocks=lambda: [block]))
    for training in (False, True):
        found = block(hidden, BATCH["input_mask"], training=training)
        assert found.shape == expected.shape
    np.testing.assert_array_equal(block(hidden, BATCH["input_mask"]), expected)


def computed_tokens(model, batch):
    """Rows of the products with the last feed-forward matrix [I, H] in a graph of the model."""
    specs = {name: tf.TensorSpec(value.shape, tf.int32) for name, value in batch.items()}
    graph = tf.function(lambda inputs: model(inputs)).get_concrete_function(specs).graph
    return [
        operation.outputs[0].shape[0]
        for operation in graph.get_operations()
        if operation.type == "MatMul"
        and "/layer_1" in operation.name
        and operation.inputs[1].shape == (24, 16)
    ]


ROWS = {name: values[None] for name, values in BATCH.items()}  # one example of three rows
WORDS = BATCH | {"masked_lm_positions": POSITIONS}
CONFIG = BertConfig(**NUMBERS)


@pytest.mark.parametrize(
    ("head", "arguments", "batch", "tokens"),
    [
        (BertClassifier, {"num_classes": 2}, BATCH, 3),  # [CLS] of three rows
        (BertMultipleChoice, {}, ROWS, 3),
        (BertDocumentClassifier, {"num_classes": 2}, ROWS, 3),
        (BertMaskedLM, {}, WORDS, 3 * (1 + 4)),
        (BertSentenceEmbedder, {"pooling": "cls"}, ROWS, 3 * (1 + 1)),
        (BertSentenceEmbedder, {"pooling": "mean"}, ROWS, 3 * 8),
        (BertTokenClassifier, {"num_classes": 2}, BATCH, 3 * 8),
    ],
)
def test_heads_compute_the_last_block_where_they_read_it(head, arguments, batch, tokens):
    model = head(CONFIG, **arguments)
    assert computed_tokens(model, batch) == [tokens]
    found = model(batch)
    model.encoder.narrows_last_block = False
    np.testing.assert_allclose(found, model(batch), **REORDERED)


def test_it_can_be_turned_off():
    config = BertConfig(**NUMBERS)
    pretrainer = BertPretrainer(config)
    batch = BATCH | {"masked_lm_positions": POSITIONS}
    assert computed_tokens(pretrainer, batch) == [3 * (1 + 4)]
    logits = pretrainer(batch)
    pretrainer.encoder.narrows_last_block = False
    assert computed_tokens(pretrainer, batch) == [3 * 8]
    for name, expected in pretrainer(batch).items():
        np.testing.assert_allclose(logits[name], expected, **REORDERED)


@pytest.mark.parametrize("asked", ["output_hidden_states", "output_attention_probs"])
def test_outputs_of_all_positions_are_as_always(asked):
    encoder = BertEncoder(BertConfig(**NUMBERS), seed=1, **{asked: True})
    expected, found = encoder(BATCH), encoder(BATCH, output_positions=POSITIONS)
    assert found.keys() == expected.keys()
    states = tf.gather(expected["sequence_output"], POSITIONS, batch_dims=1)
    np.testing.assert_array_equal(found["sequence_output"], states)
    name = asked.removeprefix("output_")
    for one, other in zip(found[name], expected[name], strict=True):
        np.testing.assert_array_equal(one, other)


@keras.saving.register_keras_serializable("test_output_positions")
class OwnCall(SelfAttention):
    def call(self, hidden, input_mask, training=False, return_probs=False):
        return super().call(hidden, input_mask, training, return_probs)


class WideAttention(SelfAttention):
    """Query, key and value of twice the heads, all of which are read."""

    projected_heads = 4

    def build(self, hidden_shape, input_mask_shape=None):
        super().build(hidden_shape)
        self.output_dense = self._dense(hidden_shape[-1], "wide_output")
        self.output_dense.build((*hidden_shape[:-1], 2 * hidden_shape[-1]))


def test_heads_that_are_projected_are_asked():
    attention = WideAttention(2)
    random = np.random.default_rng(0)
    hidden = random.normal(size=(3, 8, 16)).astype(np.float32)
    expected = tf.gather(attention(hidden, BATCH["input_mask"]), POSITIONS, batch_dims=1)
    found = attention(hidden, BATCH["input_mask"], query_positions=POSITIONS)
    np.testing.assert_allclose(found, expected, **REORDERED)


class OwnBlock(EncoderBlock):
    def create_attention(self):
        return OwnCall(self.num_attention_heads, dtype=self.dtype_policy, name="attention")


def test_an_attention_that_knows_nothing_of_positions_is_asked_at_all(monkeypatch):
    def create_block(config, index, seed, dtype):
        numbers = (config.num_attention_heads, config.intermediate_size)
        return OwnBlock(*numbers, seed=seed, dtype=dtype, name=f"layer_{index}")

    monkeypatch.setattr(BertEncoder, "create_block", staticmethod(create_block))
    encoder = BertEncoder(BertConfig(**NUMBERS), seed=1)
    states = tf.gather(encoder(BATCH)["sequence_output"], POSITIONS, batch_dims=1)
    found = encoder(BATCH, output_positions=POSITIONS)
    np.testing.assert_array_equal(found["sequence_output"], states)


@pytest.mark.parametrize("position", [-1, 8])
def test_no_other_position_answers_for_one_outside(position):
    encoder = BertEncoder(BertConfig(**NUMBERS))
    positions = np.array([[0], [position], [0]], np.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="is not in"):
        encoder(BATCH, output_positions=positions)
    compiled = tf.function(encoder, jit_compile=True)
    found = compiled(BATCH, output_positions=positions)["sequence_output"].numpy()
    assert np.isnan(found[1]).all()
    assert np.isfinite(found[[0, 2]]).all()


def test_dropout_is_on_without_the_calls_of_keras():
    """As a loop of one's own calls a model on JAX."""
    encoder = BertEncoder(BertConfig(**NUMBERS), seed=1)
    states = [[v.value for v in encoder.trainable_variables]]
    states.append([v.value for v in encoder.non_trainable_variables])
    found = {
        training: encoder.stateless_call(
            *states, BATCH, training=training, output_positions=POSITIONS
        )[0]["sequence_output"]
        for training in (True, False)
    }
    assert np.abs(found[True] - found[False]).max() > 0.1


def test_the_shapes_of_a_graph_are_known():
    encoder = BertEncoder(BertConfig(**NUMBERS))
    positions = keras.Input((5,), dtype="int32")
    found = encoder(encoder.input, output_positions=positions)
    assert found["sequence_output"].shape == (None, 5, 16)
    assert found["pooled_output"].shape == (None, 16)
    assert encoder.pooled(encoder.input).shape == (None, 16)
    # Layers of their own.
    block, attention = encoder.get_layer("layer_0"), encoder.get_layer("layer_0").attention
    hidden, mask = keras.KerasTensor((2, 8, 16)), keras.KerasTensor((2, 8), dtype="int32")
    asking = keras.KerasTensor((2, 3), dtype="int32")
    for layer in (block, attention):
        assert layer(hidden, mask, query_positions=asking).shape == (2, 3, 16)


def test_probabilities_of_some_queries_are_refused():
    attention = BertEncoder(BertConfig(**NUMBERS)).get_layer("layer_0").attention
    hidden, mask = np.ones((1, 8, 16), np.float32), np.ones((1, 8), np.int32)
    with pytest.raises(ValueError, match="return_probs is True beside query_positions"):
        attention(hidden, mask, return_probs=True, query_positions=np.zeros((1, 2), np.int32))
