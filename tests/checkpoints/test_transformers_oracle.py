"""Every head of transformers into ours and back, and PyTorch's two `.bin` layouts."""

import dataclasses
import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from keras_bert import (
    BertClassifier,
    BertEncoder,
    BertMaskedLM,
)
from keras_bert.checkpoints import folder as checkpoints
from keras_bert.checkpoints import hugging_face_families
from keras_bert.checkpoints.name_table import SAME
from keras_bert.models import preset
from keras_bert.models.conversion.convert import convert
from tests.checkpoints.transformers_models import HEADS, our_outputs, their_outputs
from tests.tolerances import ORACLE

pytestmark = pytest.mark.oracle

_WITH_LABELS = ("BertForSequenceClassification", "BertForTokenClassification")


def _their_model(name):
    import torch
    import transformers

    torch.manual_seed(0)
    labels = ["no", "maybe", "yes"] if name in _WITH_LABELS else ["LABEL_0", "LABEL_1"]
    config = transformers.BertConfig(
        vocab_size=31,
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=20,
        max_position_embeddings=9,
        initializer_range=0.4,
        id2label=dict(enumerate(labels)),
        label2id={label: index for index, label in enumerate(labels)},
    )
    model = getattr(transformers, name)(config).eval()
    with torch.no_grad():  # zero biases would hide that one is lost
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


@pytest.mark.filterwarnings("error")  # nothing random may be made up on the way
@pytest.mark.parametrize("name", HEADS)
def test_there_and_back(name, tmp_path):
    import transformers

    theirs = _their_model(name)
    theirs.save_pretrained(tmp_path / "theirs")
    ours = HEADS[name].from_preset(tmp_path / "theirs")
    expected = their_outputs(theirs, name)
    outputs = our_outputs(ours, name)
    assert outputs.keys() == expected.keys()
    for key in expected:
        np.testing.assert_allclose(outputs[key], expected[key], **ORACLE)

    checkpoint = checkpoints.read(tmp_path / "theirs")
    (tmp_path / "back").mkdir()
    checkpoints.write(checkpoint, tmp_path / "back", "hf")
    again, loading = getattr(transformers, name).from_pretrained(
        tmp_path / "back", output_loading_info=True
    )
    assert not any(loading.values()), loading
    for key, value in their_outputs(again.eval(), name).items():
        np.testing.assert_array_equal(value, expected[key])
    assert again.config.id2label == theirs.config.id2label


@pytest.mark.parametrize("name", _WITH_LABELS)
def test_labels(name, tmp_path):
    _their_model(name).save_pretrained(tmp_path)
    assert HEADS[name].from_preset(tmp_path).labels == ["no", "maybe", "yes"]


@pytest.mark.parametrize("zipped", [True, False])
def test_bin_files(zipped, tmp_path):
    import torch

    theirs = _their_model("BertForMaskedLM")
    theirs.config.save_pretrained(tmp_path)
    torch.save(
        theirs.state_dict(),
        tmp_path / "pytorch_model.bin",
        _use_new_zipfile_serialization=zipped,
    )
    ours = BertMaskedLM.from_preset(tmp_path)
    expected = their_outputs(theirs, "BertForMaskedLM")["logits"]
    np.testing.assert_allclose(our_outputs(ours, "BertForMaskedLM")["logits"], expected, **ORACLE)


@pytest.mark.parametrize("zipped", [True, False])
def test_bin_files_with_views_parameters_and_half_precision(zipped, tmp_path):
    import torch

    from keras_bert.checkpoints import torch_file

    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    state = {
        "whole": base,
        "transposed view": base.T,
        "view with offset": base[1:3, 2:5],
        "parameter": torch.nn.Parameter(base * 2),
        "half": base.half(),
        "brain": base.bfloat16(),
        "integers": torch.arange(5),
        "scalar": torch.tensor(3.5),
        "empty": torch.zeros(0, 3),
    }
    path = tmp_path / "x.bin"
    torch.save(state, path, _use_new_zipfile_serialization=zipped)
    tensors = torch_file.read(path)
    assert set(tensors.shapes) == set(state)
    for name, tensor in state.items():
        assert tensors.shapes[name] == tuple(tensor.shape)
        value = tensors.read(name)
        np.testing.assert_array_equal(value.astype("float32"), tensor.detach().float().numpy())
        assert value.dtype.name == str(tensor.dtype).removeprefix("torch.")


def test_shards_of_transformers(tmp_path):
    theirs = _their_model("BertModel")
    theirs.save_pretrained(tmp_path, max_shard_size="5KB")
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text(encoding="utf-8"))
    assert len(set(index["weight_map"].values())) > 1
    ours = our_outputs(BertEncoder.from_preset(tmp_path), "BertModel")
    for key, value in their_outputs(theirs, "BertModel").items():
        np.testing.assert_allclose(ours[key], value, **ORACLE)


def test_preset_to_transformers(tmp_path):
    """A model that was made here, with labels of its own, opens there."""
    import transformers

    source = _their_model("BertForSequenceClassification")
    source.save_pretrained(tmp_path / "source")
    model = BertClassifier.from_preset(tmp_path / "source", num_classes=2, labels=["a", "b"])
    (tmp_path / "written").mkdir()
    checkpoints.write(preset.as_checkpoint(model), tmp_path / "written", "hf")
    theirs = transformers.BertForSequenceClassification.from_pretrained(tmp_path / "written")
    assert theirs.config.id2label == {0: "a", 1: "b"}
    name = "BertForSequenceClassification"
    np.testing.assert_allclose(
        our_outputs(model, name)["logits"],
        their_outputs(theirs.eval(), name)["logits"],
        **ORACLE,
    )


def _transposed_squares(tensors):
    """Turns every square matrix of the attention, whose shape stays as it was."""
    return {
        name: np.ascontiguousarray(value.T) if "attention" in name and value.ndim == 2 else value
        for name, value in tensors.items()
    }


def test_a_square_matrix_that_we_turn_the_wrong_way_ends_the_conversion(tmp_path, monkeypatch):
    _their_model("BertModel").save_pretrained(tmp_path / "source")
    (tmp_path / "target").mkdir()
    # A name table with a mistake that no shape shows: [12, 12] read as it is.
    wrong = [
        dataclasses.replace(row, form=SAME) if row.ours.endswith("attention/output/kernel") else row
        for row in hugging_face_families.BERT.encoder
    ]
    assert wrong != hugging_face_families.BERT.encoder
    family = dataclasses.replace(hugging_face_families.BERT, encoder=wrong)
    monkeypatch.setitem(hugging_face_families.FAMILIES, "bert", family)
    with pytest.raises(ValueError, match=r"transformers .* and keras_bert .* differ by"):
        convert(tmp_path / "source", tmp_path / "target", "keras")


def test_a_file_that_holds_square_matrices_transposed_is_another_model(tmp_path):
    """What README says: every library reads the same from it, so that no report can show it."""
    source, target = tmp_path / "source", tmp_path / "target"
    target.mkdir()
    theirs = _their_model("BertModel")
    theirs.save_pretrained(source)
    tensors = _transposed_squares(load_file(source / "model.safetensors"))
    save_file(tensors, source / "model.safetensors", metadata={"format": "pt"})
    report = convert(source, target, "google")
    assert report.compared[0].startswith("transformers") and report.difference < 1e-5
    found = our_outputs(BertEncoder.from_preset(target), "BertModel")["sequence_output"]
    assert np.abs(found - their_outputs(theirs, "BertModel")["sequence_output"]).max() > 0.1


@pytest.mark.parametrize("kind", ["equal", "differing"])
def test_untied_output_matrix(kind, tmp_path):
    """`tie_word_embeddings: false` concerns the masked language model's head alone."""
    import torch
    import transformers

    config = _their_model("BertForMaskedLM").config
    config.tie_word_embeddings = False
    theirs = transformers.BertForMaskedLM(config).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
        head = theirs.cls.predictions
        if kind == "equal":
            head.decoder.weight.copy_(theirs.bert.embeddings.word_embeddings.weight)
            head.decoder.bias.copy_(head.bias)
    theirs.save_pretrained(tmp_path)
    name = "BertForMaskedLM"
    if kind == "equal":
        found = our_outputs(BertMaskedLM.from_preset(tmp_path), name)
        np.testing.assert_allclose(found["logits"], their_outputs(theirs, name)["logits"], **ORACLE)
        return
    with pytest.raises(ValueError, match="decoder.weight differs from word_embeddings/embeddings"):
        BertMaskedLM.from_preset(tmp_path)
    encoder = BertEncoder.from_preset(tmp_path)
    outputs = our_outputs(encoder, "BertModel")["sequence_output"]
    their_encoder = transformers.BertModel(config, add_pooling_layer=True).eval()
    their_encoder.load_state_dict(theirs.bert.state_dict(), strict=False)
    expected = their_outputs(their_encoder, "BertModel")["sequence_output"]
    np.testing.assert_allclose(outputs, expected, **ORACLE)
