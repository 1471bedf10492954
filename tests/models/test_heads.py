"""What each head computes from the encoder's outputs, against plain NumPy."""

import keras
import numpy as np
import pytest

from keras_bert import (
    BertClassifier,
    BertConfig,
    BertEncoder,
    BertMaskedLM,
    BertMultipleChoice,
    BertPretrainer,
    BertSpanLabeler,
    BertTokenClassifier,
    extend_positions,
    grow_vocabulary,
    with_local_attention,
)
from tests.tolerances import REORDERED

_CONFIG = BertConfig(
    vocab_size=19,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=10,
    hidden_act="relu",
    initializer_range=0.5,
)


def _features(shape=(2, 6)):
    ids = np.random.default_rng(0).integers(0, 19, shape).astype("int32")
    return {
        "input_ids": ids,
        "input_mask": np.ones(shape, "int32"),
        "segment_ids": np.zeros(shape, "int32"),
    }


def _encoded(model, features):
    return {key: np.asarray(value) for key, value in model.encoder(features).items()}


def _dense(model, name, inputs):
    kernel, bias = model.get_layer(name).get_weights()
    return inputs @ kernel + bias


def _with_random_biases(model):
    """Zero biases would hide that one is left out."""
    random = np.random.default_rng(1)
    for variable in model.weights:
        if variable.path.endswith(("bias", "beta")):
            variable.assign(random.normal(size=variable.shape))
    return model


def test_classifier():
    model = _with_random_biases(BertClassifier(_CONFIG, num_classes=3))
    pooled = _encoded(model, _features())["pooled_output"]
    np.testing.assert_allclose(model(_features()), _dense(model, "classifier", pooled), **REORDERED)


def test_token_classifier():
    model = _with_random_biases(BertTokenClassifier(_CONFIG, num_classes=3))
    sequence = _encoded(model, _features())["sequence_output"]
    np.testing.assert_allclose(
        model(_features()), _dense(model, "classifier", sequence), **REORDERED
    )


def test_span_labeler():
    model = _with_random_biases(BertSpanLabeler(_CONFIG))
    logits = _dense(model, "span", _encoded(model, _features())["sequence_output"])
    outputs = model(_features())
    np.testing.assert_allclose(outputs["start_logits"], logits[..., 0], **REORDERED)
    np.testing.assert_allclose(outputs["end_logits"], logits[..., 1], **REORDERED)


def test_multiple_choice_scores_each_choice_alone():
    model = _with_random_biases(BertMultipleChoice(_CONFIG))
    features = _features((2, 3, 6))
    logits = np.asarray(model(features))
    assert logits.shape == (2, 3)
    for choice in range(3):
        one = {key: value[:, choice] for key, value in features.items()}
        scores = _dense(model, "classifier", _encoded(model, one)["pooled_output"])
        np.testing.assert_allclose(logits[:, choice], scores[:, 0], **REORDERED)


def _masked_lm_by_hand(model, sequence, positions):
    picked = np.stack([row[places] for row, places in zip(sequence, positions, strict=True)])
    dense_kernel, dense_bias, gamma, beta = (
        np.asarray(variable)
        for suffix in ("dense/kernel", "dense/bias", "layer_norm/gamma", "layer_norm/beta")
        for variable in model.get_layer("masked_lm_transform").weights
        if variable.path.endswith(suffix)
    )
    hidden = np.maximum(picked @ dense_kernel + dense_bias, 0)
    hidden = (hidden - hidden.mean(-1, keepdims=True)) / hidden.std(-1, keepdims=True)
    table = np.asarray(model.encoder.word_embeddings.embeddings)
    return (hidden * gamma + beta) @ table.T + np.asarray(model.get_layer("masked_lm_bias").bias)


def test_masked_lm_scores_predicted_positions_with_the_word_embeddings():
    model = _with_random_biases(BertMaskedLM(_CONFIG))
    positions = np.array([[5, 0, 3], [1, 1, 2]], "int32")
    expected = _masked_lm_by_hand(model, _encoded(model, _features())["sequence_output"], positions)
    logits = model({**_features(), "masked_lm_positions": positions})
    np.testing.assert_allclose(logits, expected, **REORDERED)


def test_pretrainer_has_both_objectives():
    model = _with_random_biases(BertPretrainer(_CONFIG))
    positions = np.array([[5, 0, 3], [1, 1, 2]], "int32")
    encoded = _encoded(model, _features())
    outputs = model({**_features(), "masked_lm_positions": positions})
    expected = _masked_lm_by_hand(model, encoded["sequence_output"], positions)
    np.testing.assert_allclose(outputs["mlm_logits"], expected, **REORDERED)
    next_sentence = _dense(model, "next_sentence", encoded["pooled_output"])
    np.testing.assert_allclose(outputs["nsp_logits"], next_sentence, **REORDERED)


def test_no_extra_vocabulary_matrix():
    # Transform H*H + H + 2H, bias V; next sentence 2H + 2.
    width, vocabulary = 8, 19
    encoder = BertMaskedLM(_CONFIG).encoder.count_params()
    head = width * width + width + 2 * width + vocabulary
    assert BertMaskedLM(_CONFIG).count_params() == encoder + head
    assert BertPretrainer(_CONFIG).count_params() == encoder + head + 2 * width + 2


def test_models_train_with_fit():
    no_dropout = _CONFIG.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = BertClassifier(no_dropout, num_classes=2)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    losses = model.fit(_features(), np.array([0, 1]), epochs=8, verbose=0).history["loss"]
    assert losses[-1] < losses[0]


def _learning(model):
    return [weight.path for weight in model.trainable_weights]


def _freeze(encoder, names):
    """Freezes the encoder or a layer of it; a name behind "but" learns again."""
    for name in names.split():
        layer = encoder if name == "encoder" else encoder.get_layer(name.removeprefix("but_"))
        layer.trainable = name.startswith("but_")


@pytest.mark.parametrize(
    ("frozen", "paths"),
    [  # of 5 variables of embeddings, 12 of the block, 2 of the pooler and 2 of the head
        ("encoder", 2),
        ("layer_0", 9),
        ("encoder but_pooler", 4),
        ("word_embeddings embeddings layer_0 pooler", 2),
    ],
)
def test_frozen_layers_come_back_from_a_file(frozen, paths, tmp_path):
    encoder = BertEncoder(_CONFIG, name="of_my_own")
    model = BertClassifier(encoder, num_classes=2)
    _freeze(model.encoder, frozen)
    assert len(_learning(model)) == paths
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(_features(), np.array([0, 1]), verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert _learning(again) == _learning(model)
    for layer in ("word_embeddings", "embeddings", "layer_0", "pooler"):
        assert again.encoder.get_layer(layer).trainable is encoder.get_layer(layer).trainable
    assert again.encoder.trainable is encoder.trainable
    assert len(again.optimizer.variables) == len(model.optimizer.variables) == 2 + 2 * paths
    for mine, theirs in zip(again.optimizer.variables, model.optimizer.variables, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("kind", [BertEncoder, BertPretrainer])
def test_copies_keep_what_is_frozen(kind):
    model = kind(_CONFIG)
    assert not {"trainable", "trainable_layers"} & model.get_config().keys()
    getattr(model, "encoder", model).get_layer("layer_0").trainable = False
    assert len(_learning(model)) == len(model.weights) - 12
    for copy in (
        extend_positions(model, 12),
        grow_vocabulary(model, {19: [3, 4]}, 20),
        with_local_attention(model, 2),
    ):
        assert _learning(copy) == _learning(model)


def test_a_frozen_encoder_stays_so_wherever_it_is(tmp_path):
    encoder = BertEncoder(_CONFIG, trainable=False)
    assert encoder.get_config()["trainable"] is False
    assert not _learning(BertClassifier(encoder, num_classes=2).encoder)
    output = keras.layers.Dense(2, name="output")(encoder(encoder.input)["pooled_output"])
    model = keras.Model(encoder.input, output)
    assert _learning(model) == ["output/kernel", "output/bias"]
    model.save(tmp_path / "model.keras")
    assert _learning(keras.saving.load_model(tmp_path / "model.keras")) == _learning(model)
    whole = BertClassifier(_CONFIG, num_classes=2, trainable=False)
    assert not _learning(BertClassifier.from_config(whole.get_config()))
