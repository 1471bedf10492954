"""Every head of transformers into ours and back, and PyTorch's two `.bin` layouts."""

import json

import numpy as np
import pytest

from keras_bert import (
    BertClassifier,
    BertEncoder,
    BertMaskedLM,
    BertMultipleChoice,
    BertPretrainer,
    BertSpanLabeler,
    BertTokenClassifier,
)
from keras_bert.checkpoints import folder as checkpoints
from keras_bert.models import preset

pytestmark = pytest.mark.oracle

_HEADS = {
    "BertModel": BertEncoder,
    "BertForPreTraining": BertPretrainer,
    "BertForMaskedLM": BertMaskedLM,
    "BertForSequenceClassification": BertClassifier,
    "BertForTokenClassification": BertTokenClassifier,
    "BertForMultipleChoice": BertMultipleChoice,
    "BertForQuestionAnswering": BertSpanLabeler,
}
_WITH_LABELS = ("BertForSequenceClassification", "BertForTokenClassification")
_POSITIONS = np.array([[0, 3, 6], [2, 1, 2]])


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


def _features(name):
    shape = (2, 4, 7) if name == "BertForMultipleChoice" else (2, 7)
    random = np.random.default_rng(0)
    return {
        "input_ids": random.integers(0, 31, shape),
        "input_mask": np.ones(shape, int),
        "segment_ids": random.integers(0, 2, shape),
    }


def _their_outputs(model, name):
    import torch

    features = {key: torch.tensor(value) for key, value in _features(name).items()}
    with torch.no_grad():
        out = model(
            input_ids=features["input_ids"],
            attention_mask=features["input_mask"],
            token_type_ids=features["segment_ids"],
        )
    rows = np.arange(2)[:, None]
    if name == "BertModel":
        return {
            "sequence_output": out.last_hidden_state.numpy(),
            "pooled_output": out.pooler_output.numpy(),
        }
    if name == "BertForPreTraining":
        return {
            "mlm_logits": out.prediction_logits.numpy()[rows, _POSITIONS],
            "nsp_logits": out.seq_relationship_logits.numpy(),
        }
    if name == "BertForMaskedLM":
        return {"logits": out.logits.numpy()[rows, _POSITIONS]}
    if name == "BertForQuestionAnswering":
        return {
            "start_logits": out.start_logits.numpy(),
            "end_logits": out.end_logits.numpy(),
        }
    return {"logits": out.logits.numpy()}


def _our_outputs(model, name):
    features = _features(name)
    if name in ("BertForPreTraining", "BertForMaskedLM"):
        features["masked_lm_positions"] = _POSITIONS
    outputs = model(features)
    outputs = outputs if isinstance(outputs, dict) else {"logits": outputs}
    return {key: np.asarray(value) for key, value in outputs.items()}


@pytest.mark.filterwarnings("error")  # nothing random may be made up on the way
@pytest.mark.parametrize("name", _HEADS)
def test_there_and_back(name, tmp_path):
    import transformers

    theirs = _their_model(name)
    theirs.save_pretrained(tmp_path / "theirs")
    ours = _HEADS[name].from_preset(tmp_path / "theirs")
    expected = _their_outputs(theirs, name)
    outputs = _our_outputs(ours, name)
    assert outputs.keys() == expected.keys()
    for key in expected:
        np.testing.assert_allclose(outputs[key], expected[key], atol=1e-5)

    checkpoint = checkpoints.read(tmp_path / "theirs")
    (tmp_path / "back").mkdir()
    checkpoints.write(checkpoint, tmp_path / "back", "hf")
    again, loading = getattr(transformers, name).from_pretrained(
        tmp_path / "back", output_loading_info=True
    )
    assert not any(loading.values()), loading
    for key, value in _their_outputs(again.eval(), name).items():
        np.testing.assert_array_equal(value, expected[key])
    assert again.config.id2label == theirs.config.id2label


@pytest.mark.parametrize("name", _WITH_LABELS)
def test_labels(name, tmp_path):
    _their_model(name).save_pretrained(tmp_path)
    assert _HEADS[name].from_preset(tmp_path).labels == ["no", "maybe", "yes"]


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
    expected = _their_outputs(theirs, "BertForMaskedLM")["logits"]
    np.testing.assert_allclose(_our_outputs(ours, "BertForMaskedLM")["logits"], expected, atol=1e-5)


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
    ours = _our_outputs(BertEncoder.from_preset(tmp_path), "BertModel")
    for key, value in _their_outputs(theirs, "BertModel").items():
        np.testing.assert_allclose(ours[key], value, atol=1e-5)


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
        _our_outputs(model, name)["logits"],
        _their_outputs(theirs.eval(), name)["logits"],
        atol=1e-5,
    )
