"""BertDocumentClassifier against BertClassifier and against NumPy on separate calls."""

import keras
import numpy as np
import pytest

from keras_bert import BertClassifier, BertConfig, BertDocumentClassifier, BertEncoder
from keras_bert.checkpoints import folder as checkpoints
from keras_bert.models import preset
from tests.tolerances import REORDERED

POOLINGS = ("mean", "max", "attention")
CONFIG = BertConfig(
    vocab_size=19,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=6,
    initializer_range=0.5,
)


def features(batch, windows, seed=0):
    """Random ids in which the last window of the first text is padding."""
    ids = np.random.default_rng(seed).integers(1, 19, (batch, windows, 6)).astype("int32")
    mask = np.ones_like(ids)
    mask[:, -1, 4:] = 0
    if windows > 1:
        mask[0, -1] = 0
    return {"input_ids": ids * mask, "input_mask": mask, "segment_ids": np.zeros_like(ids)}


def alone(inputs, text, window):
    return {name: values[text, window : window + 1] for name, values in inputs.items()}


@pytest.fixture(scope="module")
def models():
    """A model for each pooling on one encoder, with a query large enough to prefer a window."""
    keras.utils.set_random_seed(1)
    encoder = BertEncoder(CONFIG, seed=1)
    found = {name: BertDocumentClassifier(encoder, 3, name) for name in POOLINGS}
    query = found["attention"].get_layer("window_pooling").query
    query.assign(3 * np.random.default_rng(2).normal(size=8))
    return found


@pytest.mark.parametrize("pooling", POOLINGS)
def test_one_window_is_a_row_of_the_classifier(models, pooling):
    model, inputs = models[pooling], features(4, 1)
    plain = BertClassifier(model.encoder, 3)
    plain.get_layer("classifier").set_weights(model.get_layer("classifier").get_weights())
    rows = {name: values[:, 0] for name, values in inputs.items()}
    np.testing.assert_array_equal(model(inputs), plain(rows))


@pytest.mark.parametrize("pooling", POOLINGS)
def test_windows_are_pooled_as_by_hand(models, pooling):
    model, inputs = models[pooling], features(2, 3)
    kernel, bias = model.get_layer("classifier").get_weights()
    expected = []
    for text, count in enumerate((2, 3)):  # the third window of the first text is padding
        calls = [model.encoder(alone(inputs, text, window)) for window in range(count)]
        vectors = np.concatenate([call["pooled_output"] for call in calls])  # [windows, H]
        if pooling == "attention":
            odds = np.exp(vectors @ np.array(model.get_layer("window_pooling").query))
            assert odds.max() / odds.sum() > 1.2 / count
            vector = odds / odds.sum() @ vectors
        else:
            vector = {"mean": np.mean, "max": np.max}[pooling](vectors, axis=0)
        expected.append(vector @ kernel + bias)
    np.testing.assert_allclose(model(inputs), expected, **REORDERED)


def test_presets_keep_the_pooling_and_take_weights_of_a_classifier(models, tmp_path):
    model, inputs = models["attention"], features(2, 3)
    model.save_to_preset(tmp_path / "windows")
    again = BertDocumentClassifier.from_preset(tmp_path / "windows")
    assert again.window_pooling == "attention"
    np.testing.assert_array_equal(again(inputs), model(inputs))

    plain = BertClassifier(CONFIG, 3, labels=["x", "y", "z"])
    plain.save_to_preset(tmp_path / "rows")
    grown = BertDocumentClassifier.from_preset(
        tmp_path / "rows", num_classes=3, window_pooling="max"
    )
    first = {name: values[:, :1] for name, values in inputs.items()}
    rows = {name: values[:, 0] for name, values in inputs.items()}
    np.testing.assert_array_equal(grown(first), plain(rows))


def test_other_formats_have_no_windows(models, tmp_path):
    models["mean"].save_to_preset(tmp_path / "windows")
    (tmp_path / "hf").mkdir()
    with pytest.raises(ValueError, match="BertDocumentClassifier"):
        checkpoints.write(preset.read_checkpoint(tmp_path / "windows"), tmp_path / "hf", "hf")


def test_an_unknown_pooling_is_refused():
    with pytest.raises(ValueError, match="pooling is 'sum': choose one of mean, max, attention"):
        BertDocumentClassifier(CONFIG, 3, "sum")
