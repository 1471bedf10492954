"""BertEncoder: sizes, shapes, padding, precision, saving."""

import keras
import numpy as np
import pytest

from keras_bert import BertClassifier, BertConfig, BertEncoder, BertPretrainer
from tests.tolerances import BFLOAT16, FORMULA, REORDERED

_CONFIG = BertConfig(
    vocab_size=19,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=10,
)


def _features(batch=2, length=6, real=6, seed=0):
    random = np.random.default_rng(seed)
    ids = random.integers(0, _CONFIG.vocab_size, (batch, length))
    mask = np.broadcast_to(np.arange(length) < real, (batch, length))
    segments = random.integers(0, 2, (batch, length))
    features = {"input_ids": ids, "input_mask": mask, "segment_ids": segments}
    return {key: value.astype("int32") for key, value in features.items()}


@pytest.mark.parametrize(
    ("name", "parameters"),
    # The sizes published with the original release, pooler included.
    [("bert_base", 109_482_240), pytest.param("bert_large", 335_141_888, marks=pytest.mark.long)],
)
def test_parameter_count(name, parameters):
    assert BertEncoder(BertConfig.from_name(name)).count_params() == parameters


def test_shapes_and_dtypes():
    encoder = BertEncoder(_CONFIG, output_hidden_states=True, output_attention_probs=True)
    outputs = encoder(_features(batch=3, length=5))
    assert outputs["sequence_output"].shape == (3, 5, 8)
    assert outputs["pooled_output"].shape == (3, 8)
    assert [state.shape for state in outputs["hidden_states"]] == [(3, 5, 8)] * 3
    assert [probs.shape for probs in outputs["attention_probs"]] == [(3, 2, 5, 5)] * 2


def test_attention_probabilities_sum_to_one_over_real_positions():
    encoder = BertEncoder(_CONFIG, output_attention_probs=True)
    for probs in encoder(_features(real=4))["attention_probs"]:
        probs = keras.ops.convert_to_numpy(probs)
        np.testing.assert_allclose(probs[..., :4].sum(-1), 1, **FORMULA)
        np.testing.assert_array_equal(probs[..., 4:], 0)


def test_padding_does_not_change_real_positions():
    encoder = BertEncoder(_CONFIG, seed=1)
    short = encoder(_features(length=4, real=4))
    features = _features(length=9, real=4, seed=5)  # other ids and segments behind the padding
    for key, value in _features(length=4, real=4).items():
        features[key][:, :4] = value
    padded = encoder(features)
    np.testing.assert_allclose(
        padded["sequence_output"][:, :4], short["sequence_output"], **REORDERED
    )
    np.testing.assert_allclose(padded["pooled_output"], short["pooled_output"], **REORDERED)


def test_too_long_a_sequence_is_refused():
    with pytest.raises(ValueError, match="11 pieces is longer than the model's 10 positions"):
        BertEncoder(_CONFIG)(_features(length=11))


@pytest.mark.parametrize(
    "policy", [pytest.param("mixed_bfloat16", marks=pytest.mark.half_precision), "float32"]
)
def test_logits_are_float32_under_every_policy(policy):
    features = _features()
    logits = BertClassifier(_CONFIG, num_classes=3, dtype=policy)(features)
    outputs = BertPretrainer(_CONFIG, dtype=policy)(
        {**features, "masked_lm_positions": np.zeros((2, 1), "int32")}
    )
    for tensor in (logits, outputs["mlm_logits"], outputs["nsp_logits"]):
        assert keras.backend.standardize_dtype(tensor.dtype) == "float32"


@pytest.mark.half_precision
def test_bfloat16_stays_near_float32():
    exact = BertEncoder(_CONFIG)
    rough = BertEncoder(_CONFIG, dtype="mixed_bfloat16")
    rough.set_weights(exact.get_weights())
    np.testing.assert_allclose(
        np.asarray(rough(_features())["sequence_output"]).astype("float32"),
        exact(_features())["sequence_output"],
        **BFLOAT16,
    )


# Places of dropout and the rate of the config that each takes.
_DROPOUTS = {
    "embeddings": "hidden_dropout_prob",
    "attention probabilities": "attention_probs_dropout_prob",
    "attention output": "hidden_dropout_prob",
    "feed-forward output": "hidden_dropout_prob",
    "classifier": "classifier_dropout",
}


@pytest.mark.parametrize("place", _DROPOUTS)
def test_each_dropout_has_its_rate_and_acts_in_training_only(place):
    rates = dict.fromkeys(_DROPOUTS.values(), 0.0) | {_DROPOUTS[place]: 0.5}
    config = _CONFIG.replace(num_hidden_layers=1, initializer_range=0.5, **rates)
    model = BertClassifier(config, num_classes=2, seed=1)
    block = model.encoder.get_layer("layer_0")
    dropouts = {
        "embeddings": model.encoder.get_layer("embeddings").dropout,
        "attention probabilities": block.attention.dropout,
        "attention output": block.attention_dropout,
        "feed-forward output": block.feed_forward_dropout,
        "classifier": model.get_layer("output_dropout"),
    }
    found = {name: dropout.rate for name, dropout in dropouts.items()}
    assert found == {name: rates[option] for name, option in _DROPOUTS.items()}
    for name, dropout in dropouts.items():
        dropout.rate = dropout.rate if name == place else 0.0

    still = np.asarray(model(_features()))

    np.testing.assert_array_equal(model(_features()), still)
    assert np.abs(np.asarray(model(_features(), training=True)) - still).max() > 0.1


def test_same_seed_same_dropout_and_other_seed_other_dropout():
    weights = BertEncoder(_CONFIG).get_weights()

    def run(seed):
        encoder = BertEncoder(_CONFIG, seed=seed)
        encoder.set_weights(weights)
        return np.asarray(encoder(_features(), training=True)["sequence_output"])

    np.testing.assert_array_equal(run(3), run(3))
    assert np.abs(run(3) - run(4)).max() > 0.1


def test_initial_weights_are_truncated_normal():
    encoder = BertEncoder(BertConfig.from_name("tiny", initializer_range=0.05))
    for variable in encoder.weights:
        values = keras.ops.convert_to_numpy(variable)
        if variable.path.endswith(("beta", "bias")):
            np.testing.assert_array_equal(values, 0)
        elif variable.path.endswith("gamma"):
            np.testing.assert_array_equal(values, 1)
        else:  # cut at two standard deviations: a spread of 0.88 of the untruncated
            assert np.abs(values).max() <= 0.1 + 1e-6
            assert 0.04 < values.std() < 0.048 or values.size < 1000


def test_encoder_keeps_every_argument(tmp_path):
    encoder = BertEncoder(
        _CONFIG.replace(hidden_act="silu"),
        output_hidden_states=True,
        output_attention_probs=True,
        seed=5,
        dtype="mixed_bfloat16",
        name="mine",
    )
    assert BertEncoder.from_config(encoder.get_config()).get_config() == encoder.get_config()
    encoder.save(tmp_path / "encoder.keras")
    again = keras.models.load_model(tmp_path / "encoder.keras")
    assert again.get_config() == encoder.get_config()
    assert again.config == encoder.config


def test_wrong_config_types_are_refused():
    with pytest.raises(ValueError, match="config is a str: give a BertConfig"):
        BertEncoder("bert_base")
    with pytest.raises(ValueError, match="'hidden_siz': did you mean 'hidden_size'"):
        BertEncoder({"hidden_siz": 3})
