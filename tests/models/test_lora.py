"""Low-rank adaptation: Keras' own, which adds A B to W first, is the oracle; sums by NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import (
    AlbertConfig,
    BertClassifier,
    BertConfig,
    BertEncoder,
    BertTokenizer,
    DebertaV2Config,
    EuroBertConfig,
    GteConfig,
    MobileBertConfig,
    ModernBertConfig,
    Vocabulary,
    create_encoder,
    enable_lora,
    extend_positions,
    grow_vocabulary,
    save_lora_adapter,
    with_local_attention,
)
from keras_bert.checkpoints import hugging_face
from keras_bert.models import preset
from keras_bert.tasks.opened_encoder import open_encoder
from keras_bert.text.framing import BERT_TOKENS
from tests.tolerances import FORMULA, REORDERED

NUMBERS = {
    "vocab_size": 12,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 16,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
CONFIG = BertConfig(**NUMBERS)
FAMILIES = {
    "bert": CONFIG,
    "albert": AlbertConfig(**NUMBERS, embedding_size=4),  # layers of one set of weights
    "modernbert": ModernBertConfig(**NUMBERS, pad_token_id=0),  # no biases
    "deberta": DebertaV2Config(**NUMBERS, position_buckets=8),  # reads a part of W by itself
    "gte": GteConfig(**NUMBERS),  # some biases
    # Layers inside of layers.
    "mobilebert": MobileBertConfig(
        **NUMBERS, embedding_size=4, intra_bottleneck_size=4, num_feedforward_networks=2
    ),
    "eurobert": EuroBertConfig(**NUMBERS, pad_token_id=0, num_key_value_heads=1),
}
IDS = np.array([[2, 4, 5, 6, 11, 1], [3, 1, 7, 0, 0, 0]], np.int32)
BATCH = {
    "input_ids": IDS,
    "input_mask": np.array([[1] * 6, [1, 1, 1, 0, 0, 0]], np.int32),
    "segment_ids": np.zeros_like(IDS),
}


class Doubled(keras.layers.Dense):
    def call(self, inputs, training=None):
        return 2 * super().call(inputs, training)


def low_rank(model):
    return [variable for variable in model.weights if variable.name.startswith("lora_kernel")]


def set_low_rank(model):
    """Gives all A and B numbers, so that both count."""
    draw = np.random.default_rng(0)
    for variable in low_rank(model):
        variable.assign(draw.normal(size=variable.shape) * 0.3)


def outputs_and_gradients(encoder):
    with tf.GradientTape() as tape:
        outputs = encoder(BATCH, training=True)
        states, pooled = outputs["sequence_output"], outputs["pooled_output"]
        loss = tf.reduce_mean(tf.sin(states)) + tf.reduce_mean(pooled)
    variables = low_rank(encoder)
    gradients = tape.gradient(loss, [variable.value for variable in variables])
    return outputs, {v.path: g for v, g in zip(variables, gradients, strict=True)}


@pytest.mark.parametrize("config", FAMILIES.values(), ids=FAMILIES)
def test_outputs_and_gradients_are_those_of_keras(config):
    ours, theirs = create_encoder(config, seed=0), create_encoder(config, seed=0)
    theirs.set_weights(ours.get_weights())
    enable_lora(ours, rank=3, alpha=6)
    seen = set()
    for block in theirs.encoder_blocks():
        for layer in block._flatten_layers():
            if isinstance(layer, keras.layers.Dense) and id(layer) not in seen:
                seen.add(id(layer))
                layer.enable_lora(3, lora_alpha=6)
    for model in (ours, theirs):
        set_low_rank(model)
    (expected, slopes), (found, found_slopes) = map(outputs_and_gradients, (theirs, ours))
    for name in ("sequence_output", "pooled_output"):
        np.testing.assert_allclose(found[name], expected[name], **REORDERED)
    assert found_slopes.keys() == slopes.keys() and len(slopes) >= 8
    for path, slope in slopes.items():
        np.testing.assert_allclose(found_slopes[path], slope, **REORDERED, err_msg=path)


@pytest.mark.parametrize(("of_keras", "expected"), [(False, 0), (True, 8)])
def test_gradients_of_frozen_matrices_are_not_computed(of_keras, expected):
    """Products of their shapes in a step: those of Keras' own are A B and a gradient of each."""
    encoder = BertEncoder(CONFIG)
    if of_keras:
        for block in encoder.encoder_blocks():
            for layer in (block.attention.query_key_value, block.intermediate):
                layer.enable_lora(3)
    else:
        enable_lora(encoder, rank=3)
    step = tf.function(lambda: list(outputs_and_gradients(encoder)[1].values()))
    waiting = [tensor.op for tensor in step.get_concrete_function().outputs]
    needed = {}
    while waiting:
        operation = waiting.pop()
        if operation.name not in needed:
            needed[operation.name] = operation
            waiting += [tensor.op for tensor in operation.inputs]
    products = [one.outputs[0].shape for one in needed.values() if one.type == "MatMul"]
    assert len(products) > 20
    # Query, key and value, and the first feed-forward layer; no other product has such a shape.
    assert sum(shape in ((8, 24), (8, 12)) for shape in products) == expected


def test_only_the_matrices_and_the_pooler_learn():
    encoder = BertEncoder(CONFIG)
    enable_lora(encoder, rank=2)
    learning = {variable.path: variable.shape for variable in encoder.trainable_variables}
    # A [I, r] and B [r, O] of four layers in each of two blocks.
    sizes = {"attention/query_key_value": (8, 24), "attention/output": (8, 8)}
    sizes |= {"intermediate": (8, 12), "output": (12, 8)}
    expected = {"pooler/kernel": (8, 8), "pooler/bias": (8,)}
    for index in range(2):
        for name, (inputs, outputs) in sizes.items():
            expected[f"layer_{index}/{name}/lora_kernel_a"] = (inputs, 2)
            expected[f"layer_{index}/{name}/lora_kernel_b"] = (2, outputs)
    assert learning == expected


def test_a_model_begins_as_it_was_and_learns_by_fit():
    model = BertClassifier(CONFIG, num_classes=2, seed=0)
    before = {weight.path: weight.numpy() for weight in model.weights}
    logits = model(BATCH).numpy()
    enable_lora(model.encoder, rank=2, seed=0)
    np.testing.assert_allclose(model(BATCH), logits, **REORDERED)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.05), loss)
    losses = model.fit(BATCH, np.array([0, 1]), epochs=8, verbose=0).history["loss"]
    assert losses[-1] < 0.5 * losses[0]
    changed = {w.path for w in model.weights if not np.array_equal(w, before.get(w.path))}
    assert changed - {variable.path for variable in low_rank(model)} == {
        "pooler/kernel",
        "pooler/bias",
        "classifier/kernel",
        "classifier/bias",
    }


def sums(held):
    """W + A B / 2 of all dense layers with such matrices, and all other weights, by path."""
    expected = {}
    for path, value in held.items():
        if "lora" not in path:
            name = path.removesuffix("kernel")
            if f"{name}lora_kernel_a" in held:
                value = value + held[f"{name}lora_kernel_a"] @ held[f"{name}lora_kernel_b"] / 2
            expected[path] = value
    return expected


@pytest.mark.half_precision
@pytest.mark.parametrize(
    ("family", "dtype"),
    [("bert", "float32"), ("bert", "mixed_bfloat16"), ("albert", "float32")],
)
def test_files_hold_the_sums_in_float32(tmp_path, family, dtype):
    model = BertClassifier(FAMILIES[family], num_classes=2, dtype=dtype, seed=0)
    model.encoder.save_to_preset(tmp_path / "base")
    enable_lora(model.encoder, rank=2, alpha=1)
    set_low_rank(model)
    held = {weight.path: weight.numpy() for weight in model.weights}
    expected = sums(held)  # alpha / r = 1 / 2
    logits = model(BATCH).numpy()
    model.save_to_preset(tmp_path / "ours")
    (tmp_path / "theirs").mkdir()
    hugging_face.write(preset.as_checkpoint(model), tmp_path / "theirs")
    # PEFT asks for pairs of its own for query, key and value; test_peft_oracle.py asks PEFT.
    save_lora_adapter(model, tmp_path / "adapter", base=tmp_path / "base")
    for folder in ("ours", "theirs", "adapter"):
        stored = BertClassifier.from_preset(str(tmp_path / folder))
        assert [weight.path for weight in stored.weights] == list(expected)
        for weight in stored.weights:
            np.testing.assert_allclose(weight, expected[weight.path], **FORMULA)
    # Writing leaves the model as it was.
    for weight in model.weights:
        np.testing.assert_array_equal(weight, held[weight.path])
    np.testing.assert_array_equal(model(BATCH), logits)


def test_a_model_whose_weights_are_loaded_goes_on_learning(tmp_path):
    """Keras makes zeros of A and B, whose gradients are then zero as well."""
    model = BertClassifier(CONFIG, num_classes=2, seed=0)
    enable_lora(model.encoder, rank=2, alpha=1, seed=0)
    set_low_rank(model)
    logits = model(BATCH).numpy()
    model.save_weights(tmp_path / "model.weights.h5")
    again = BertClassifier(CONFIG, num_classes=2, seed=1)
    enable_lora(again.encoder, rank=2, alpha=1, seed=1)
    again.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_allclose(again(BATCH), logits, **REORDERED)
    again.compile(keras.optimizers.Adam(0.05), keras.losses.SparseCategoricalCrossentropy())
    again.fit(BATCH, np.array([0, 1]), epochs=2, verbose=0)
    for variable in low_rank(again):
        assert np.abs(variable.numpy()).max() > 0.01, variable.path


def test_copies_have_the_sums():
    """Made of a model that learns: longer, with more words, local, with other outputs."""
    model = BertClassifier(CONFIG, num_classes=2, seed=0)
    enable_lora(model.encoder, rank=2, alpha=1)
    set_low_rank(model)
    logits = model(BATCH)
    for copy in (
        extend_positions(model, 20),
        grow_vocabulary(model, {12: (3,)}, 13),
        with_local_attention(model, attention_window=8),
    ):
        assert not low_rank(copy)
        np.testing.assert_allclose(copy(BATCH), logits, **REORDERED)
    tokenizer = BertTokenizer(Vocabulary([*BERT_TOKENS, *"abcdefg"]))
    encoder, _ = open_encoder(model.encoder, "hidden_states", tokenizer)
    states = model.encoder(BATCH)["sequence_output"]
    np.testing.assert_allclose(encoder(BATCH)["sequence_output"], states, **REORDERED)


def test_what_cannot_be_is_told():
    encoder = BertEncoder(CONFIG)
    with pytest.raises(ValueError, match="rank is 0: it must be at least 1"):
        enable_lora(encoder, rank=0)
    with pytest.raises(ValueError, match="rank is None: it must be a whole number, at least 1"):
        enable_lora(encoder, rank=None)
    with pytest.raises(ValueError, match="seed is -1: it must be"):
        enable_lora(encoder, seed=-1)
    for alpha in (0, -1, float("nan"), float("inf"), "8"):
        with pytest.raises(ValueError, match=f"alpha is {alpha!r}: it must be a number above 0"):
            enable_lora(encoder, alpha=alpha)
    with pytest.raises(ValueError, match="encoder is a BertClassifier: give a BertEncoder, such"):
        enable_lora(BertClassifier(CONFIG, num_classes=2))
    encoder.trainable = False
    with pytest.raises(ValueError, match="bert_encoder is frozen, and would learn nothing"):
        enable_lora(encoder)
    encoder.trainable = True
    enable_lora(encoder)
    with pytest.raises(ValueError, match="layer_0/attention/output has low-rank matrices already"):
        enable_lora(encoder)
    doubling = BertEncoder(CONFIG)
    doubling.encoder_blocks()[0].intermediate.__class__ = Doubled
    with pytest.raises(ValueError, match="layer_0/intermediate is a Doubled with a call of its"):
        enable_lora(doubling)
    quantized = BertEncoder(CONFIG)
    quantized.encoder_blocks()[1].intermediate.quantize("int8")  # one: Keras takes long for all
    with pytest.raises(ValueError, match="layer_1/intermediate is quantized .int8.: enable LoRA"):
        enable_lora(quantized)
