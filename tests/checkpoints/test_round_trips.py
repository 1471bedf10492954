"""Every head through every format that knows it: bit-equal, with labels and config."""

import dataclasses
import json

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
)
from keras_bert.checkpoints import folder as checkpoints
from keras_bert.checkpoints.checkpoint import PROBLEM_TYPES
from keras_bert.checkpoints.variables import POOLER, variable_shapes
from keras_bert.models import preset

# No two sizes alike, so that no transposed or swapped array can pass.
_CONFIG = BertConfig(
    vocab_size=19,
    hidden_size=8,
    num_hidden_layers=3,
    num_attention_heads=2,
    intermediate_size=14,
    max_position_embeddings=11,
    type_vocab_size=3,
    hidden_act="gelu_tanh",
)
_HEADS = [
    (BertEncoder, {}),
    (BertPretrainer, {}),
    (BertMaskedLM, {}),
    (BertClassifier, {"num_classes": 5}),
    (BertSpanLabeler, {}),
    (BertTokenClassifier, {"num_classes": 4}),
    (BertMultipleChoice, {}),
]
_NOT_KNOWN = {
    "google": (BertTokenClassifier, BertMultipleChoice),
    "garden": (BertMultipleChoice,),
    "hf": (),
}
_CASES = [
    pytest.param(format, *head, id=f"{format}-{head[0].__name__}")
    for format in _NOT_KNOWN
    for head in _HEADS
    if head[0] not in _NOT_KNOWN[format]
]


def _random_model(model_class, arguments, config=_CONFIG):
    model = model_class(config, **arguments)
    random = np.random.default_rng(7)
    for variable in model.weights:
        variable.assign(random.normal(size=variable.shape))
    return model


@pytest.mark.parametrize(("model_class", "arguments"), _HEADS, ids=lambda head: str(head))
def test_shapes_are_those_of_the_models(model_class, arguments):
    model = model_class(_CONFIG, **arguments)
    assert variable_shapes(_CONFIG, model_class.__name__, model.head_config()) == {
        variable.path: tuple(variable.shape) for variable in model.weights
    }


@pytest.mark.parametrize(("format", "model_class", "arguments"), _CASES)
def test_there_and_back(format, model_class, arguments, tmp_path):
    model = _random_model(model_class, arguments)
    checkpoints.write(preset.as_checkpoint(model), tmp_path, format)
    assert checkpoints.format_of(tmp_path) == format
    again = model_class.from_preset(tmp_path)
    assert again.config == model.config
    assert again.head_config() == model.head_config()
    for ours, theirs in zip(again.weights, model.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=ours.path)


@pytest.mark.parametrize(
    ("format", "model_class"),
    [(format, model_class) for format, classes in _NOT_KNOWN.items() for model_class in classes],
)
def test_heads_that_a_format_does_not_know_are_refused(format, model_class, tmp_path):
    arguments = {"num_classes": 4} if model_class is BertTokenClassifier else {}
    checkpoint = preset.as_checkpoint(model_class(_CONFIG, **arguments))
    with pytest.raises(ValueError, match=f"{model_class.__name__}: convert the encoder alone"):
        checkpoints.write(checkpoint, tmp_path, format)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format", ["google", "hf", "garden"])
def test_other_heads_take_over_the_encoder(format, tmp_path):
    pretrainer = _random_model(BertPretrainer, {})
    checkpoints.write(preset.as_checkpoint(pretrainer), tmp_path, format)
    classifier = BertClassifier.from_preset(tmp_path, num_classes=3)
    for ours, theirs in zip(classifier.encoder.weights, pretrainer.encoder.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    masked_lm = BertMaskedLM.from_preset(tmp_path)
    np.testing.assert_array_equal(
        masked_lm.get_layer("masked_lm_bias").bias, pretrainer.get_layer("masked_lm_bias").bias
    )


def test_labels_travel_through_hugging_face(tmp_path):
    labels = ["O", "B-PER", "I-PER"]
    model = BertTokenClassifier(_CONFIG, num_classes=3, labels=labels)
    checkpoints.write(preset.as_checkpoint(model), tmp_path, "hf")
    values = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert values["id2label"] == {"0": "O", "1": "B-PER", "2": "I-PER"}
    assert values["label2id"] == {"O": 0, "B-PER": 1, "I-PER": 2}
    assert values["architectures"] == ["BertForTokenClassification"]
    assert BertTokenClassifier.from_preset(tmp_path).labels == labels


@pytest.mark.parametrize("problem_type", [None, *PROBLEM_TYPES])
def test_what_the_logits_mean_travels_with_the_model(problem_type, tmp_path):
    config = _CONFIG.replace(num_hidden_layers=1)
    model = BertClassifier(config, num_classes=2, problem_type=problem_type)
    model.save_to_preset(tmp_path)
    checkpoint = preset.read_checkpoint(tmp_path)  # ours -> theirs -> ours
    assert checkpoint.head["problem_type"] == problem_type
    checkpoints.write(checkpoint, tmp_path, "hf")
    values = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert values.get("problem_type") == problem_type
    assert BertClassifier.from_preset(tmp_path).problem_type == problem_type
    with pytest.raises(ValueError, match="problem_type is 'guess': choose one of regression"):
        BertClassifier(config, num_classes=2, problem_type="guess")


@pytest.mark.parametrize(
    ("format", "activation", "written"),
    [  # google-research/bert and Model Garden mean tanh by "gelu", transformers means erf
        ("google", "gelu_tanh", "gelu"),
        ("google", "gelu", "gelu_erf"),
        ("garden", "gelu_tanh", "gelu"),
        ("hf", "gelu_tanh", "gelu_new"),
        ("hf", "gelu", "gelu"),
    ],
)
def test_the_activation_is_written_in_the_words_of_the_format(
    format, activation, written, tmp_path
):
    model = BertEncoder(_CONFIG.replace(hidden_act=activation))
    checkpoints.write(preset.as_checkpoint(model), tmp_path, format)
    name = "config.json" if format == "hf" else "bert_config.json"
    assert json.loads((tmp_path / name).read_text(encoding="utf-8"))["hidden_act"] == written
    assert BertEncoder.from_preset(tmp_path).config.hidden_act == activation


@pytest.mark.parametrize("format", ["google", "garden"])
def test_what_google_cannot_say_is_refused(format, tmp_path):
    checkpoint = preset.as_checkpoint(BertEncoder(_CONFIG.replace(layer_norm_eps=1e-5)))
    with pytest.raises(ValueError, match="cannot hold layer_norm_eps 1e-05: .* choose the format"):
        checkpoints.write(checkpoint, tmp_path, format)


def test_half_precision_weights_become_float32(tmp_path):
    import ml_dtypes
    from safetensors.numpy import load_file, save_file

    model = _random_model(BertEncoder, {})
    checkpoints.write(preset.as_checkpoint(model), tmp_path, "hf")
    path = tmp_path / "model.safetensors"
    for dtype in (np.float16, ml_dtypes.bfloat16):
        halved = {name: value.astype(dtype) for name, value in load_file(path).items()}
        save_file(halved, path, metadata={"format": "pt"})
        again = BertEncoder.from_preset(tmp_path)
        for ours, exact in zip(again.weights, model.weights, strict=True):
            expected = keras.ops.convert_to_numpy(exact).astype(np.float16)
            expected = expected if dtype is np.float16 else expected.astype(dtype)
            np.testing.assert_array_equal(ours, expected.astype(np.float32))


def test_folder_without_weights(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}', encoding="utf-8")
    with pytest.raises(FileNotFoundError, match="holds no weights: expected model.weights.h5, one"):
        BertEncoder.from_preset(tmp_path)


def test_checkpoint_without_its_data(tmp_path):
    checkpoints.write(preset.as_checkpoint(BertEncoder(_CONFIG)), tmp_path, "google")
    next(tmp_path.glob("*.data-*")).unlink()
    with pytest.raises(FileNotFoundError, match="bert_model.ckpt.data-.* does not exist"):
        BertEncoder.from_preset(tmp_path)


def test_several_checkpoints_in_one_folder(tmp_path):
    checkpoints.write(preset.as_checkpoint(BertEncoder(_CONFIG)), tmp_path, "google")
    for path in list(tmp_path.glob("bert_model.ckpt.*")):
        (tmp_path / path.name.replace("bert_model.ckpt", "model.ckpt-7")).write_bytes(
            path.read_bytes()
        )
    with pytest.raises(
        ValueError, match="several checkpoints .*bert_model.ckpt.index, model.ckpt-7"
    ):
        BertEncoder.from_preset(tmp_path)
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-7"\n')
    assert BertEncoder.from_preset(tmp_path).config == _CONFIG


def test_model_garden_checkpoint_that_numbers_its_layers(tmp_path):
    """Older functional encoders are stored under Keras's own names for their sub-layers."""
    from keras_bert.checkpoints import tensorflow_file

    model = _random_model(BertEncoder, {})
    checkpoints.write(preset.as_checkpoint(model), tmp_path, "garden")
    numbers = {
        "_embedding_layer": 0,
        "_position_embedding_layer": 1,
        "_type_embedding_layer": 2,
        "_embedding_norm_layer": 3,
        "_transformer_layers/0": 4,
        "_transformer_layers/1": 5,
        "_transformer_layers/2": 6,
        "_pooler_layer": 7,
    }
    opened = tensorflow_file.ObjectGraph(tmp_path / "bert_model.ckpt").tensors([])
    tensors = {}
    for key in opened.shapes:
        path = key.removesuffix("/.ATTRIBUTES/VARIABLE_VALUE").removeprefix("encoder/")
        attribute = next(name for name in numbers if path.startswith(f"{name}/"))
        rest = path.removeprefix(attribute)
        tensors[f"model/layer_with_weights-{numbers[attribute]}{rest}"] = opened.read(key)
    tensorflow_file.write_object_graph(tensors, {}, tmp_path / "bert_model.ckpt")
    again = BertEncoder.from_preset(tmp_path)
    for ours, theirs in zip(again.weights, model.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=ours.path)


@pytest.mark.parametrize("format", ["google", "garden", "hf"])
@pytest.mark.parametrize("model_class", [BertMaskedLM, BertSpanLabeler])
def test_a_head_without_a_pooler_stays_without_one(model_class, format, tmp_path):
    """As transformers saves both; and positions that began as sinusoids are positions."""
    config = _CONFIG.replace(position_initializer="sinusoids")
    whole = preset.as_checkpoint(_random_model(model_class, {}, config))
    kept = {path: value for path, value in whole.variables.items() if path not in POOLER}
    checkpoints.write(dataclasses.replace(whole, variables=kept), tmp_path, format)
    again = checkpoints.read(tmp_path)
    assert again.architecture == model_class.__name__
    assert again.config == _CONFIG
    assert again.variables.keys() == kept.keys()
    for path, value in kept.items():
        np.testing.assert_array_equal(again.variables[path], value, err_msg=path)
