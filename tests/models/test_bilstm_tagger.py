"""BertBiLSTMTagger: what learns and what does not, masks, configs and presets."""

import keras
import numpy as np
import pytest

from keras_bert import BertConfig, BertEncoder, ModernBertConfig, create_encoder
from keras_bert.models.bilstm_tagger import BertBiLSTMTagger
from tests.tolerances import REORDERED

CONFIG = BertConfig(
    vocab_size=20,
    hidden_size=8,
    num_hidden_layers=4,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=12,
)


def features(rows):
    length = max(map(len, rows))
    ids = np.array([row + [0] * (length - len(row)) for row in rows], "int32")
    mask = np.array([[1] * len(row) + [0] * (length - len(row)) for row in rows], "int32")
    return {"input_ids": ids, "input_mask": mask, "segment_ids": np.zeros_like(ids)}


def tagger(**arguments):
    keras.utils.set_random_seed(1)
    return BertBiLSTMTagger(CONFIG, num_classes=3, lstm_width=5, **arguments)


def test_only_what_stands_on_the_encoder_learns():
    model = tagger()
    encoder_paths = {weight.path for weight in model.encoder.weights}
    assert not encoder_paths & {weight.path for weight in model.trainable_weights}
    # Twice two LSTMs of three variables, and the output layer. The first reads four layers of 8.
    assert len(model.trainable_weights) == 2 * 2 * 3 + 2
    assert model.trainable_weights[0].shape == (4 * 8, 4 * 5)


def test_features_have_no_dropout():
    model = tagger()
    states = keras.Model(model.inputs, model.get_layer("bilstm_0").input[0])
    inputs = features([[5, 6, 7]])
    first, second = (np.array(states(inputs, training=True)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    encoder = BertEncoder(CONFIG, output_hidden_states=True)
    encoder.set_weights(model.encoder.get_weights())
    told = [np.array(state) for state in encoder(inputs)["hidden_states"]]
    np.testing.assert_allclose(first, np.concatenate(told[1:], axis=-1), **REORDERED)


def test_features_of_a_modernbert_have_no_dropout():
    size = {field: getattr(CONFIG, field) for field in ("vocab_size", "hidden_size")}
    config = ModernBertConfig(
        **size,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        pad_token_id=0,
        hidden_dropout_prob=0.4,
        embedding_dropout=0.5,
    )
    model = BertBiLSTMTagger(config, num_classes=3, lstm_width=5, features_from="last")
    assert model.config == config  # what files keep
    states = keras.Model(model.inputs, model.get_layer("bilstm_0").input[0])
    inputs = features([[5, 6, 7]])
    first, second = (np.array(states(inputs, training=True)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    encoder = create_encoder(config.replace(hidden_dropout_prob=0.0), output_hidden_states=True)
    with pytest.raises(ValueError, match=r"has dropout \(embedding_dropout 0.5\).*dropout 0$"):
        BertBiLSTMTagger(encoder, num_classes=3, features_from="last")


def test_padding_changes_nothing():
    model = tagger()
    both = np.array(model(features([[5, 6, 7], [8, 9, 10, 11, 12]])))
    alone = np.array(model(features([[5, 6, 7]])))
    assert both.shape == (2, 5, 3)
    np.testing.assert_allclose(both[0, :3], alone[0], **REORDERED)


def test_config_and_preset_come_back(tmp_path):
    model = tagger(labels=["O", "B", "I"], features_from="sum_all", seed=3)
    inputs = features([[5, 6, 7]])
    told = np.array(model(inputs))
    again = BertBiLSTMTagger.from_config(model.get_config())
    assert again.get_config() == model.get_config()
    assert "trainable_layers" not in model.get_config()  # they are those of every tagger
    assert BertConfig.from_dict(model.get_config()["config"]) == CONFIG
    model.save_to_preset(tmp_path)
    assert BertConfig.from_file(tmp_path) == CONFIG
    loaded = BertBiLSTMTagger.from_preset(tmp_path)
    assert loaded.head_config() == {
        "num_classes": 3,
        "labels": ["O", "B", "I"],
        "features_from": "sum_all",
        "lstm_width": 5,
    }
    np.testing.assert_array_equal(np.array(loaded(inputs)), told)
    # In 16 bits, too, in which there is no QR for initial weights.
    narrow = BertBiLSTMTagger.from_preset(tmp_path, dtype="bfloat16")
    np.testing.assert_allclose(np.float32(narrow(inputs)), told, atol=0.05)
    # Under another strategy the encoder is taken over, and what fits of the rest.
    other = BertBiLSTMTagger.from_preset(tmp_path, features_from="concat_last_4")
    for weight, source in zip(other.encoder.weights, model.encoder.weights, strict=True):
        np.testing.assert_array_equal(np.array(weight), np.array(source))


def test_an_encoder_that_learns_after_all_comes_back_so():
    model = tagger()
    model.encoder.trainable = True
    again = BertBiLSTMTagger.from_config(model.get_config())
    assert len(again.trainable_weights) == len(again.weights)
