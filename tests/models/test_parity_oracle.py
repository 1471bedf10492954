"""The activations of the parity report. Oracle: transformers, asked without this package's help."""

import dataclasses
from pathlib import Path

import keras
import numpy as np
import pytest
import safetensors.numpy

from keras_bert import BertConfig, BertEncoder
from keras_bert.checkpoints import hugging_face_families, name_table
from keras_bert.models import preset
from keras_bert.models.conversion import parity
from keras_bert.models.conversion.convert import convert

pytestmark = pytest.mark.oracle  # transformers

CONFIG = BertConfig(
    vocab_size=40,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=24,
    max_position_embeddings=20,
    initializer_range=0.3,
)
FEATURES = parity.random_features(CONFIG)


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    """A folder of ours and its encoder."""
    keras.utils.set_random_seed(1)
    encoder, folder = BertEncoder(CONFIG), tmp_path_factory.mktemp("parity") / "ours"
    encoder.save_to_preset(folder)
    return folder, encoder


def convert_to(source, target, format):
    target.mkdir()
    return convert(source, target, format)


def outputs(encoder):
    found = encoder(FEATURES)
    return [np.array(found[name]) for name in ("sequence_output", "pooled_output")]


def transformers_outputs(folder):
    import torch
    import transformers

    model = transformers.BertModel.from_pretrained(folder).eval()
    ids, mask, segments = (torch.tensor(values).long() for values in FEATURES.values())
    with torch.no_grad():
        found = model(input_ids=ids, attention_mask=mask, token_type_ids=segments)
    return [found.last_hidden_state.numpy(), found.pooler_output.numpy()]


def largest(left, right):
    """The largest difference of sequence outputs, padding left out, and pooled outputs."""
    real = FEATURES["input_mask"] == 1
    differences = [np.abs(a - b) for a, b in zip(left, right, strict=True)]
    return max(differences[0][real].max(), differences[1].max())


def test_equal_models_are_reported_as_equal_with_the_figure(ours, tmp_path):
    import transformers

    library = f"transformers {transformers.__version__}"
    there = convert_to(ours[0], tmp_path / "hf", "hf")
    back = convert_to(tmp_path / "hf", tmp_path / "back", "keras")
    expected = largest(transformers_outputs(tmp_path / "hf"), outputs(ours[1]))
    assert 0 < expected < 1e-5
    for report, (source, result) in (
        (there, ("keras_bert", library)),
        (back, (library, "keras_bert")),
    ):
        assert report.compared == (source, result)
        # Two runs of one library, each free to sum in another order.
        assert report.difference == pytest.approx(expected, abs=2e-6)
        sentence = f"{source} (source) and {result} (result) differ by at most "
        assert f"activations:     {sentence}{report.difference:.1e}" in str(report).splitlines()


def test_a_matrix_turned_both_ways_is_seen_in_the_activations(ours, tmp_path, monkeypatch):
    # A mistake in the name table: a square matrix is written as it is and read back as it is, so
    # that every array is equal and only the other library tells.
    path = "layer_{layer}/attention/output/kernel"
    rows = [
        name_table.Row(row.ours, row.theirs) if row.ours == path else row
        for row in hugging_face_families.BERT.encoder
    ]
    assert rows != hugging_face_families.BERT.encoder
    family = dataclasses.replace(hugging_face_families.BERT, encoder=rows)
    monkeypatch.setitem(hugging_face_families.FAMILIES, "bert", family)
    with pytest.raises(ValueError, match="more than rounding explains") as caught:
        convert_to(ours[0], tmp_path / "hf", "hf")
    expected = largest(transformers_outputs(tmp_path / "hf"), outputs(ours[1]))
    assert expected > 0.1
    assert f"activations that differ by {expected:.1e}" in str(caught.value)


def test_a_result_with_another_config_is_seen_in_the_activations(ours, tmp_path, monkeypatch):
    # A mistake in the writer: the weights are right and the activation function is another.
    convert_to(ours[0], tmp_path / "hf", "hf")
    save = preset.save

    def save_with_relu(model, folder):
        save(model, folder)
        config = Path(folder) / "config.json"
        assert '"gelu"' in config.read_text()
        config.write_text(config.read_text().replace('"gelu"', '"relu"'))

    monkeypatch.setattr(preset, "save", save_with_relu)
    with pytest.raises(ValueError, match="more than rounding explains") as caught:
        convert_to(tmp_path / "hf", tmp_path / "back", "keras")
    result = BertEncoder.from_preset(str(tmp_path / "back"))
    expected = largest(transformers_outputs(tmp_path / "hf"), outputs(result))
    assert expected > 0.01
    assert f"activations that differ by {expected:.1e}" in str(caught.value)


@pytest.mark.parametrize(
    "name", ["encoder.layer.1.output.dense.weight", "pooler.dense.weight"], ids=["layer", "pooler"]
)
def test_one_changed_weight_is_a_difference(name, ours, tmp_path):
    convert_to(ours[0], tmp_path / "hf", "hf")
    weights = safetensors.numpy.load_file(tmp_path / "hf" / "model.safetensors")
    (name,) = (key for key in weights if key.endswith(name))
    weights[name] = weights[name].copy()
    weights[name][3, 5] += 0.5
    safetensors.numpy.save_file(
        weights, tmp_path / "hf" / "model.safetensors", metadata={"format": "pt"}
    )
    theirs = parity.library_activations(tmp_path / "hf", "hf", CONFIG, FEATURES)
    found = parity.largest_difference(parity.our_activations(ours[1], FEATURES), theirs, FEATURES)
    expected = largest(transformers_outputs(tmp_path / "hf"), outputs(ours[1]))
    assert expected > 0.01
    assert found == pytest.approx(expected, abs=1e-5)
    # What one of the two does not have cannot differ.
    without = parity.largest_difference(
        parity.our_activations(ours[1], FEATURES), theirs._replace(pooled_output=None), FEATURES
    )
    assert (without < 1e-5) == name.startswith(("pooler", "bert.pooler"))
