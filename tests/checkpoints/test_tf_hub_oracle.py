"""SavedModels in TF-Hub's form, written by Model Garden's own export code, random weights.

Oracle: the SavedModel itself. Needs tf-models-official; see test_model_garden_oracle.py.
"""

import json

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertEncoder, BertMaskedLM, BertTokenizer
from keras_bert.checkpoints import folder as checkpoints
from keras_bert.models.conversion import convert as conversion
from tests.tolerances import ORACLE

pytestmark = pytest.mark.oracle

_PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz"]
_NUMBERS = {
    "vocab_size": 31,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 9,
    "type_vocab_size": 2,
}
_POSITIONS = np.array([[0, 3, 6], [2, 1, 2]], "int32")
_RANDOM = np.random.default_rng(0)
_FEATURES = {
    "input_ids": _RANDOM.integers(0, 31, (2, 7)).astype("int32"),
    "input_mask": np.array([[1] * 7, [1] * 4 + [0] * 3], "int32"),
    "segment_ids": _RANDOM.integers(0, 2, (2, 7)).astype("int32"),
}
_THEIR_FEATURES = {
    "input_word_ids": tf.constant(_FEATURES["input_ids"]),
    "input_mask": tf.constant(_FEATURES["input_mask"]),
    "input_type_ids": tf.constant(_FEATURES["segment_ids"]),
}


@pytest.fixture
def exported(tmp_path):
    """Returns a function that exports a random model and returns the folder of the SavedModel."""
    from official.nlp.modeling import layers, models
    from official.nlp.tools import export_tfhub_lib

    vocabulary = tmp_path / "vocabulary.txt"
    vocabulary.write_text("\n".join(_PIECES) + "\n", encoding="utf-8")

    def export(with_mlm=False, copy_pooler=False, do_lower_case=True, **configs):
        model, restored = export_tfhub_lib._create_model(with_mlm=with_mlm, **configs)
        if copy_pooler:
            head = layers.ClassificationHead(inner_dim=12, num_classes=2, name="next_sentence")
            encoder, transform = restored.encoder_network, restored.masked_lm.dense.activation
            restored = models.BertPretrainerV2(encoder, transform, classification_heads=[head])
            restored(restored.inputs)
        random = np.random.default_rng(5)
        for variable in restored.weights:
            variable.assign(random.normal(scale=0.4, size=variable.shape))
        names = {"model": restored, "encoder": restored}
        items = restored.checkpoint_items if with_mlm else names
        checkpoint = tf.train.Checkpoint(**items).save(str(tmp_path / "checkpoint"))
        export_tfhub_lib.export_model(
            str(tmp_path / "hub"),
            with_mlm=with_mlm,
            model_checkpoint_path=checkpoint,
            copy_pooler_dense_to_encoder=copy_pooler,
            vocab_file=str(vocabulary),
            do_lower_case=do_lower_case,
            **configs,
        )
        return tmp_path / "hub"

    return export


def _bert_config(hidden_act="gelu", **changes):
    from official.legacy.bert import configs

    return {"bert_config": configs.BertConfig(hidden_act=hidden_act, **_NUMBERS | changes)}


def _encoder_config(**changes):
    from official.nlp.configs import encoders

    names = {"num_hidden_layers": "num_layers"}
    numbers = {names.get(key, key): value for key, value in _NUMBERS.items()} | changes
    return {"encoder_config": encoders.EncoderConfig(bert=encoders.BertEncoderConfig(**numbers))}


def _check_encoder(folder):
    theirs = tf.saved_model.load(str(folder))(_THEIR_FEATURES)
    ours = BertEncoder.from_preset(folder)(_FEATURES)
    for name in ("sequence_output", "pooled_output"):
        np.testing.assert_allclose(ours[name], theirs[name], **ORACLE, err_msg=name)


def _check_conversion(folder, target):
    target.mkdir()
    report = conversion.convert(folder, target, "hf")
    assert "the SavedModel (source) and " in str(report)
    assert report.difference < 1e-5
    assert report.equal_arrays == 5 + 2 * 12 + 2
    values = json.loads((target / "config.json").read_text(encoding="utf-8"))
    assert (values["hidden_act"], values["num_attention_heads"]) == ("gelu_new", 3)


@pytest.mark.parametrize("kind", ["bert_config", "encoder_config", "relu"])
def test_encoders(kind, exported, tmp_path):
    configs = {
        "bert_config": _bert_config,
        "encoder_config": lambda: _encoder_config(hidden_activation="gelu"),
        "relu": lambda: _bert_config("relu"),
    }[kind]()
    folder = exported(do_lower_case=kind != "relu", **configs)
    assert not list(folder.glob("*.json"))  # the config is that of shapes and graph
    checkpoint = checkpoints.read(folder)
    found = {name: getattr(checkpoint.config, name) for name in _NUMBERS}
    assert found == _NUMBERS
    assert checkpoint.config.hidden_act == ("relu" if kind == "relu" else "gelu_tanh")
    assert checkpoint.config.layer_norm_eps == 1e-12
    assert set(checkpoint.report.dropped.values()) == {"a setting of the tokenizer"}
    _check_encoder(folder)
    tokenizer = BertTokenizer.from_preset(folder)
    assert tokenizer.vocabulary.tokens == tuple(_PIECES)
    assert tokenizer.settings["lowercase"] is (kind != "relu")
    if kind == "bert_config":
        _check_conversion(folder, tmp_path / "converted")


@pytest.mark.parametrize("copy_pooler", [pytest.param(False, marks=pytest.mark.long), True])
def test_with_the_masked_lm_head(copy_pooler, exported):
    folder = exported(with_mlm=True, copy_pooler=copy_pooler, **_bert_config())
    _check_encoder(folder)
    theirs = tf.saved_model.load(str(folder)).mlm(
        {**_THEIR_FEATURES, "masked_lm_positions": tf.constant(_POSITIONS)}
    )
    ours = BertMaskedLM.from_preset(folder)({**_FEATURES, "masked_lm_positions": _POSITIONS})
    np.testing.assert_allclose(ours, theirs["mlm_logits"], **ORACLE)


def test_other_saved_models_are_refused(exported, tmp_path):
    from official.nlp.tools import export_tfhub_lib

    export_tfhub_lib.export_preprocessing(
        str(tmp_path / "preprocess"),
        vocab_file=str(tmp_path / "vocabulary.txt"),
        do_lower_case=True,
        default_seq_length=8,
        tokenize_with_offsets=False,
    )
    with pytest.raises(ValueError, match="no variable word_embeddings/embeddings; it turns texts"):
        BertEncoder.from_preset(tmp_path / "preprocess")
    folder = exported(**_encoder_config(norm_first=True))
    with pytest.raises(ValueError, match="norm_first: layer norms before attention are another"):
        BertEncoder.from_preset(folder)


def test_other_activations_are_refused(exported):
    with pytest.raises(ValueError, match="the activation cannot be told from its operations"):
        BertEncoder.from_preset(exported(**_bert_config("softplus")))
