"""Model folders and `.keras` files: every head there and back, damaged folders refused."""

import json
import warnings

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
    load_tokenizer,
)
from keras_bert.models import preset
from keras_bert.models.bilstm_tagger import BertBiLSTMTagger
from keras_bert.models.document_classifier import BertDocumentClassifier
from tests.tolerances import REORDERED

_CONFIG = BertConfig(
    vocab_size=19,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=10,
    hidden_act="gelu_tanh",
    classifier_dropout=0.25,
)
_HEADS = [
    (BertEncoder, {}),
    (BertPretrainer, {}),
    (BertMaskedLM, {}),
    (BertClassifier, {"num_classes": 3, "labels": ["no", "maybe", "yes"]}),
    (BertClassifier, {"num_classes": 1}),
    (BertMultipleChoice, {}),
    (BertTokenClassifier, {"num_classes": 2, "labels": ["O", "B-PER"]}),
    (BertSpanLabeler, {}),
]
_EVERY_HEAD = pytest.mark.parametrize(
    ("model_class", "arguments"), _HEADS, ids=[f"{head[0].__name__}-{head[1]}" for head in _HEADS]
)


def _features(model):
    random = np.random.default_rng(0)
    shape = (2, 3, 6) if isinstance(model, BertMultipleChoice) else (2, 6)
    features = {
        "input_ids": random.integers(0, 19, shape).astype("int32"),
        "input_mask": np.ones(shape, "int32"),
        "segment_ids": np.zeros(shape, "int32"),
    }
    if isinstance(model, (BertPretrainer, BertMaskedLM)):
        features["masked_lm_positions"] = np.array([[1, 2], [0, 5]], "int32")
    return features


def _assert_same_outputs(model, again):
    expected, answer = model(_features(model)), again(_features(model))
    keras.tree.map_structure(np.testing.assert_array_equal, answer, expected)


@_EVERY_HEAD
def test_preset_round_trip(model_class, arguments, tmp_path):
    model = model_class(_CONFIG, **arguments)
    model.save_to_preset(tmp_path)
    again = model_class.from_preset(tmp_path)
    assert again.config == _CONFIG
    assert again.head_config() == model.head_config()
    _assert_same_outputs(model, again)


@_EVERY_HEAD
def test_keras_file_round_trip(model_class, arguments, tmp_path):
    model = model_class(_CONFIG, seed=3, **arguments)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert type(again) is model_class
    assert again.get_config() == model.get_config()
    _assert_same_outputs(model, again)


@_EVERY_HEAD
def test_every_head_takes_over_a_pretrained_encoder(model_class, arguments, tmp_path):
    pretrainer = BertPretrainer(_CONFIG)
    pretrainer.save_to_preset(tmp_path)
    model = model_class.from_preset(tmp_path, **arguments)
    encoder = getattr(model, "encoder", model)
    for theirs, ours in zip(pretrainer.encoder.weights, encoder.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_masked_lm_takes_over_the_head_of_a_pretrainer(tmp_path):
    pretrainer = BertPretrainer(_CONFIG)
    pretrainer.get_layer("masked_lm_bias").bias.assign(np.arange(19, dtype="float32"))
    pretrainer.save_to_preset(tmp_path)
    model = BertMaskedLM.from_preset(tmp_path)
    np.testing.assert_array_equal(
        model(_features(model)), pretrainer(_features(model))["mlm_logits"]
    )


def test_another_number_of_classes_starts_a_fresh_head(tmp_path):
    BertClassifier(_CONFIG, num_classes=3).save_to_preset(tmp_path)
    with pytest.warns(UserWarning, match="3 classes apart, not 5: the last layer starts with"):
        model = BertClassifier.from_preset(tmp_path, num_classes=5)
    assert model.output_shape == (None, 5)


_LABELED = pytest.mark.parametrize(
    ("model_class", "arguments"),
    [
        (BertClassifier, {}),
        (BertClassifier, {"problem_type": "multi_label_classification"}),
        (BertDocumentClassifier, {"window_pooling": "mean"}),
        (BertTokenClassifier, {}),
        (BertBiLSTMTagger, {"features_from": "last", "lstm_width": 3}),
    ],
)


def _labeled(model_class, labels, arguments, folder=None):
    """A model of these labels, fresh or from a folder, whose logits of one input are given."""
    given = arguments | {"num_classes": len(labels), "labels": labels}
    if folder is None:
        model = model_class(_CONFIG, **given)
        model.get_layer("classifier").bias.assign(np.arange(len(labels), dtype="float32"))
    else:
        model = model_class.from_preset(folder, **given)
    features = _features(model)
    if model_class is BertDocumentClassifier:
        features = {name: values[:, None] for name, values in features.items()}
    return model, np.asarray(model(features))


@_LABELED
def test_classes_in_another_order_keep_their_weights(model_class, arguments, tmp_path):
    model, logits = _labeled(model_class, ["no", "maybe", "yes"], arguments)
    model.save_to_preset(tmp_path)
    again, found = _labeled(model_class, ["yes", "no", "maybe"], arguments, tmp_path)
    assert again.labels == ["yes", "no", "maybe"]
    np.testing.assert_allclose(found, logits[..., [2, 0, 1]], **REORDERED)


@_LABELED
def test_classes_of_other_labels_start_fresh(model_class, arguments, tmp_path):
    model, _ = _labeled(model_class, ["no", "maybe", "yes"], arguments)
    model.save_to_preset(tmp_path)
    with pytest.warns(UserWarning, match="labels no, maybe, yes apart, not no, yes, unsure: the"):
        again, _ = _labeled(model_class, ["no", "yes", "unsure"], arguments, tmp_path)
    layer, stored = again.get_layer("classifier"), model.get_layer("classifier")
    assert not np.any(layer.bias)
    assert not np.any(np.isclose(layer.kernel, stored.kernel))


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        (None, ["no", "yes"]),
        (["LABEL_0", "LABEL_1"], ["no", "yes"]),
        (["no", "yes"], ["LABEL_0", "LABEL_1"]),
    ],
)
def test_classes_without_names_count_as_they_stand(stored, asked, tmp_path, recwarn):
    model = BertClassifier(_CONFIG, num_classes=2, labels=stored)
    model.save_to_preset(tmp_path)
    again = BertClassifier.from_preset(tmp_path, num_classes=2, labels=asked)
    np.testing.assert_array_equal(model(_features(model)), again(_features(again)))
    assert not [warning for warning in recwarn if "labels" in str(warning.message)]


def test_saving_keeps_other_files_of_the_folder(tmp_path):
    (tmp_path / "metrics.json").write_text("{}", encoding="utf-8")
    BertEncoder(_CONFIG).save_to_preset(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "config.json",
        "metrics.json",
        "model.weights.h5",
    ]


def _edit_config(folder, **changes):
    path = folder / "config.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(content | changes), encoding="utf-8")


def test_folder_that_is_none(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere is not a folder"):
        BertEncoder.from_preset(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="holds neither config.json nor bert_config.json"):
        BertEncoder.from_preset(tmp_path)


def test_folder_without_weights(tmp_path):
    BertEncoder(_CONFIG).save_to_preset(tmp_path)
    (tmp_path / "model.weights.h5").unlink()
    with pytest.raises(FileNotFoundError, match="model.weights.h5 does not exist"):
        BertEncoder.from_preset(tmp_path)


def test_damaged_weights(tmp_path):
    BertEncoder(_CONFIG).save_to_preset(tmp_path)
    path = tmp_path / "model.weights.h5"
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(ValueError, match="model.weights.h5 does not fit"):
        BertEncoder.from_preset(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [{"hidden_size": 16}, {"num_hidden_layers": 3}, {"num_hidden_layers": 1}, {"vocab_size": 20}],
    ids=str,
)
def test_weights_of_another_config(changes, tmp_path):
    BertEncoder(_CONFIG).save_to_preset(tmp_path)
    _edit_config(tmp_path, config=_CONFIG.replace(**changes).to_dict())
    with pytest.raises(ValueError, match="model.weights.h5 does not fit the config beside it"):
        BertEncoder.from_preset(tmp_path)


def test_unknown_architecture(tmp_path):
    BertEncoder(_CONFIG).save_to_preset(tmp_path)
    _edit_config(tmp_path, architecture="BertTranslator")
    with pytest.raises(ValueError, match="architecture 'BertTranslator': expected one of BertEnc"):
        BertEncoder.from_preset(tmp_path)


def test_unknown_config_key(tmp_path):
    BertEncoder(_CONFIG).save_to_preset(tmp_path)
    _edit_config(tmp_path, config={**_CONFIG.to_dict(), "hidden_sise": 3})
    with pytest.raises(ValueError, match="config.json: unknown config key 'hidden_sise'"):
        BertEncoder.from_preset(tmp_path)


def test_missing_head_argument(tmp_path):
    BertEncoder(_CONFIG).save_to_preset(tmp_path)
    with pytest.raises(ValueError, match="the classes are not told: give num_classes, or their na"):
        BertClassifier.from_preset(tmp_path)


def test_arguments_that_there_are_not_are_refused(tmp_path):
    """Keras passes over them, and a misspelled one would do nothing."""
    with pytest.raises(TypeError, match="BertClassifier has no argument 'lables': did you mean la"):
        BertClassifier(_CONFIG, num_classes=2, lables=["a", "b"])
    with pytest.raises(TypeError, match="BertEncoder has no argument 'output_hidden_state': did"):
        BertEncoder(_CONFIG, output_hidden_state=True)
    BertClassifier(_CONFIG, num_classes=2, trainable=False, name="named").save_to_preset(tmp_path)
    with pytest.raises(ValueError, match="from_preset: .* has no argument 'num_labels'"):
        BertClassifier.from_preset(tmp_path, num_labels=5)
    with pytest.raises(ValueError, match="from_preset: BertEncoder has no argument 'dtypes'"):
        BertEncoder.from_preset(tmp_path, dtypes="bfloat16")


def test_quantized_weights_are_not_saved_over_others(tmp_path):
    model = BertClassifier(_CONFIG, num_classes=2)
    model.save_to_preset(tmp_path)
    before = (tmp_path / "model.weights.h5").read_bytes()
    # One layer of many, which Keras takes long for.
    model.encoder.encoder_blocks()[0].intermediate.quantize("int8")
    with pytest.raises(ValueError, match=r"the model is quantized \(int8\), and a preset holds"):
        model.save_to_preset(tmp_path)
    assert (tmp_path / "model.weights.h5").read_bytes() == before


def test_a_name_of_the_hub_is_known_as_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for make in (BertEncoder.from_preset, load_tokenizer):
        with pytest.raises(FileNotFoundError, match="on the Hugging Face Hub is given as hf://a/b"):
            make("a/b")
        with pytest.raises(
            FileNotFoundError, match="hf://org/name, for example hf://google-bert/b"
        ):
            make("bert-base-uncased")
        (tmp_path / "runs").mkdir(exist_ok=True)
        with pytest.raises(FileNotFoundError, match="runs/b is not a folder: .* of a model$"):
            make("runs/b")


def test_labels_must_be_as_many_as_classes():
    with pytest.raises(ValueError, match="num_classes is 3 but 2 labels are named"):
        BertClassifier(_CONFIG, num_classes=3, labels=["a", "b"])
    with pytest.raises(ValueError, match="num_classes is 0: it must be at least 1"):
        BertClassifier(_CONFIG, num_classes=0)
    with pytest.raises(ValueError, match="labels is the string 'ab': give a list of names"):
        BertClassifier(_CONFIG, labels="ab")


@pytest.mark.parametrize("make", [BertClassifier, BertTokenClassifier, BertDocumentClassifier])
def test_labels_tell_the_number_of_classes(make, tmp_path):
    BertEncoder(_CONFIG).save_to_preset(tmp_path / "encoder")
    for folder, labels in (("encoder", ["a", "b", "c"]), ("three", ["x", "y"])):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the last layer of the second starts anew
            model = make.from_preset(tmp_path / folder, labels=labels)
        assert (model.num_classes, model.labels) == (len(labels), labels)
        model.save_to_preset(tmp_path / "three")


def test_weights_tell_whose_a_config_is_where_it_does_not(tmp_path):
    values = {"hidden_size": 24, "num_attention_heads": 2, "hidden_act": "gelu", "num_beams": 1}
    (tmp_path / "config.json").write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(ValueError, match="unknown config key 'num_beams': the valid keys are"):
        preset.read_config(tmp_path)
    (tmp_path / "model.ckpt.index").touch()  # what Google calls gelu is the tanh form
    assert preset.read_config(tmp_path).hidden_act == "gelu_tanh"
    (tmp_path / "pytorch_model.bin").touch()
    assert preset.read_config(tmp_path).hidden_act == "gelu"
    values["colour"] = "red"
    (tmp_path / "config.json").write_text(json.dumps(values), encoding="utf-8")
    assert preset.read_config(tmp_path, ["colour"]).hidden_size == 24


def test_an_adapter_is_not_passed_over(tmp_path):
    BertEncoder(_CONFIG).save_to_preset(tmp_path)
    (tmp_path / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    with pytest.raises(FileNotFoundError, match="holds none of adapter_model.safetensors, adapter"):
        BertEncoder.from_preset(tmp_path)
    with pytest.raises(ValueError, match=r"a folder of an adapter of PEFT \(adapter_config.json\)"):
        BertEncoder(_CONFIG).save_to_preset(tmp_path / "." / ".")
