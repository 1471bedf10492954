"""Model Garden's own classes, random weights: into ours and back, outputs equal both ways.

Needs tf-models-official; its modeling code runs without most of its dependencies:
`pip install --no-deps tf-models-official==2.20.0 tf_keras==2.20.1 gin-config`.
"""

import json

import numpy as np
import pytest

from keras_bert import (
    BertClassifier,
    BertEncoder,
    BertMaskedLM,
    BertPretrainer,
    BertSpanLabeler,
    BertTokenClassifier,
)
from keras_bert.checkpoints import folder as checkpoints
from tests.tolerances import ORACLE

pytestmark = pytest.mark.oracle

_CONFIG = {
    "vocab_size": 31,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 9,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
}
_POSITIONS = np.array([[0, 3, 6], [2, 1, 2]], "int32")
_RANDOM = np.random.default_rng(0)
_FEATURES = {
    "input_ids": _RANDOM.integers(0, 31, (2, 7)).astype("int32"),
    "input_mask": np.array([[1] * 7, [1] * 4 + [0] * 3], "int32"),
    "segment_ids": _RANDOM.integers(0, 2, (2, 7)).astype("int32"),
}


def _their_encoder(functional=False):
    from official.nlp.modeling import networks

    network = networks.BertEncoder if functional else networks.BertEncoderV2
    encoder = network(
        vocab_size=31,
        hidden_size=12,
        num_layers=2,
        num_attention_heads=3,
        max_sequence_length=9,
        type_vocab_size=2,
        inner_dim=20,
        **({"dict_outputs": True} if functional else {}),
    )
    encoder(encoder.inputs)
    return encoder


def _with_random_weights(model):
    random = np.random.default_rng(5)
    for variable in model.weights:
        variable.assign(random.normal(scale=0.4, size=variable.shape))
    return model


def _their_features(**more):
    return {
        "input_word_ids": _FEATURES["input_ids"],
        "input_mask": _FEATURES["input_mask"],
        "input_type_ids": _FEATURES["segment_ids"],
        **more,
    }


def _save(folder, **objects):
    import tensorflow as tf

    folder.mkdir()
    tf.train.Checkpoint(**objects).write(str(folder / "bert_model.ckpt"))
    (folder / "bert_config.json").write_text(json.dumps(_CONFIG), encoding="utf-8")
    return folder


def _write_back(source, folder):
    folder.mkdir()
    checkpoints.write(checkpoints.read(source), folder, "garden")
    return folder


def _restore(folder, **objects):
    import tensorflow as tf

    status = tf.train.Checkpoint(**objects).read(str(folder / "bert_model.ckpt"))
    status.expect_partial().assert_nontrivial_match()


def _assert_close(ours, theirs):
    np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), **ORACLE)


@pytest.mark.parametrize("functional", [False, True], ids=["BertEncoderV2", "BertEncoder"])
@pytest.mark.parametrize("name", ["encoder", "model"])
def test_encoder(functional, name, tmp_path):
    theirs = _with_random_weights(_their_encoder(functional))
    expected = theirs(_their_features())
    source = _save(tmp_path / "theirs", **{name: theirs})
    assert checkpoints.format_of(source) == "garden"
    ours = BertEncoder.from_preset(source)(_FEATURES)
    _assert_close(ours["sequence_output"], expected["sequence_output"])
    _assert_close(ours["pooled_output"], expected["pooled_output"])

    again = _their_encoder(functional)
    _restore(_write_back(source, tmp_path / "back"), encoder=again)
    for restored, original in zip(again.weights, theirs.weights, strict=True):
        np.testing.assert_array_equal(restored, original, err_msg=original.name)
    np.testing.assert_array_equal(
        again(_their_features())["sequence_output"], expected["sequence_output"]
    )


def _their_pretrainer(next_sentence):
    from official.modeling import tf_utils
    from official.nlp.modeling import layers, models

    heads = [layers.ClassificationHead(12, 2, name="next_sentence")] if next_sentence else []
    model = models.BertPretrainerV2(
        _their_encoder(),
        mlm_activation=tf_utils.get_activation("gelu"),
        classification_heads=heads,
    )
    model(model.inputs)
    return model


@pytest.mark.parametrize("whole", [True, False], ids=["model", "checkpoint_items"])
def test_masked_lm(whole, tmp_path):
    theirs = _with_random_weights(_their_pretrainer(next_sentence=False))
    expected = theirs(_their_features(masked_lm_positions=_POSITIONS))["mlm_logits"]
    objects = {"model": theirs} if whole else theirs.checkpoint_items
    source = _save(tmp_path / "theirs", **objects)
    ours = BertMaskedLM.from_preset(source)
    _assert_close(ours({**_FEATURES, "masked_lm_positions": _POSITIONS}), expected)

    again = _their_pretrainer(next_sentence=False)
    objects = {"model": again} if whole else again.checkpoint_items
    _restore(_write_back(source, tmp_path / "back"), **objects)
    np.testing.assert_array_equal(
        again(_their_features(masked_lm_positions=_POSITIONS))["mlm_logits"], expected
    )


def test_pretrainer(tmp_path):
    theirs = _with_random_weights(_their_pretrainer(next_sentence=True))
    features = _their_features(masked_lm_positions=_POSITIONS)
    expected = theirs(features)
    source = _save(tmp_path / "theirs", model=theirs, **theirs.checkpoint_items)
    ours = BertPretrainer.from_preset(source)({**_FEATURES, "masked_lm_positions": _POSITIONS})
    _assert_close(ours["mlm_logits"], expected["mlm_logits"])
    _assert_close(ours["nsp_logits"], expected["next_sentence"])
    assert set(checkpoints.read(source).report.dropped.values()) == {
        "idle: the next sentence head has its own pooler"
    }

    again = _their_pretrainer(next_sentence=True)
    _restore(_write_back(source, tmp_path / "back"), model=again)
    outputs = again(features)
    # Not "pooled_output": that of the idle pooler, which carries the head's weights afterwards.
    for key in ("sequence_output", "mlm_logits", "next_sentence"):
        np.testing.assert_array_equal(outputs[key], expected[key], err_msg=key)


def _their_task_model(kind):
    from official.nlp.modeling import models

    if kind == "classifier":
        return models.BertClassifier(_their_encoder(), num_classes=3)
    if kind == "token_classifier":
        return models.BertTokenClassifier(_their_encoder(), num_classes=3, output="logits")
    return models.BertSpanLabeler(_their_encoder())


@pytest.mark.parametrize(
    ("kind", "our_class"),
    [
        ("classifier", BertClassifier),
        ("token_classifier", BertTokenClassifier),
        ("span_labeler", BertSpanLabeler),
    ],
)
def test_task_models(kind, our_class, tmp_path):
    theirs = _with_random_weights(_their_task_model(kind))
    expected = theirs(_their_features())
    source = _save(tmp_path / "theirs", model=theirs)
    ours = our_class.from_preset(source)(_FEATURES)
    if kind == "span_labeler":
        _assert_close(ours["start_logits"], expected[0])
        _assert_close(ours["end_logits"], expected[1])
    elif kind == "token_classifier":
        _assert_close(ours, expected["logits"])
    else:
        _assert_close(ours, expected)

    again = _their_task_model(kind)
    _restore(_write_back(source, tmp_path / "back"), model=again)
    for restored, original in zip(again.weights, theirs.weights, strict=True):
        np.testing.assert_array_equal(restored, original, err_msg=original.name)


def test_training_state_is_dropped(tmp_path):
    import tensorflow as tf
    import tf_keras

    theirs = _their_task_model("classifier")
    optimizer = tf_keras.optimizers.Adam()
    optimizer.build(theirs.trainable_variables)
    source = _save(
        tmp_path / "theirs",
        model=theirs,
        optimizer=optimizer,
        global_step=tf.Variable(7, dtype=tf.int64),
    )
    report = checkpoints.read(source).report
    assert set(report.dropped.values()) == {"state of the training run"}
    assert BertClassifier.from_preset(source).num_classes == 3
