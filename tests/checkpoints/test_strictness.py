"""A checkpoint that is not exactly what its config says is refused, with the tensor's name."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from keras_bert import (
    BertClassifier,
    BertConfig,
    BertEncoder,
    BertMaskedLM,
    BertPretrainer,
    BertTokenClassifier,
)
from keras_bert.checkpoints import folder as checkpoints
from keras_bert.checkpoints import tensorflow_file
from keras_bert.models import preset
from keras_bert.models.conversion.convert import convert

_CONFIG = BertConfig(
    vocab_size=19,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=14,
    max_position_embeddings=11,
)


class _SafetensorsFolder:
    format = "hf"
    dense = "bert.encoder.layer.0.intermediate.dense.weight"
    words = "bert.embeddings.word_embeddings.weight"
    dense_shape, transposed_shape = r"\[14, 8\]", r"\[8, 14\]"

    @staticmethod
    def edit(folder, change):
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        tensors = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


class _GoogleFolder:
    format = "google"
    dense = "bert/encoder/layer_0/intermediate/dense/kernel"
    words = "bert/embeddings/word_embeddings"
    dense_shape, transposed_shape = r"\[8, 14\]", r"\[14, 8\]"

    @staticmethod
    def edit(folder, change):
        prefix = folder / "bert_model.ckpt"
        opened = tensorflow_file.read_flat(prefix)
        tensors = {name: opened.read(name) for name in opened.shapes}
        change(tensors)
        tensorflow_file.write_flat(tensors, prefix)


class _GardenFolder:
    format = "garden"
    dense = "encoder/_transformer_layers/0/_intermediate_dense/kernel"
    words = "encoder/_embedding_layer/embeddings"
    dense_shape, transposed_shape = r"\[8, 14\]", r"\[14, 8\]"

    @staticmethod
    def edit(folder, change):
        prefix = folder / "bert_model.ckpt"
        suffix = "/.ATTRIBUTES/VARIABLE_VALUE"
        opened = tensorflow_file.ObjectGraph(prefix).tensors([])
        tensors = {name.removesuffix(suffix): opened.read(name) for name in opened.shapes}
        tensors = {name.replace(".S", "|"): value for name, value in tensors.items()}
        # Stored once for both of its owners.
        tensors[_GardenFolder.words] = tensors.pop("masked_lm/embedding_table")
        change(tensors)
        tensorflow_file.write_object_graph(tensors, {}, prefix)


_FORMATS = pytest.mark.parametrize(
    "layout", [_SafetensorsFolder, _GoogleFolder, _GardenFolder], ids=lambda layout: layout.format
)


@pytest.fixture
def edited(tmp_path):
    """Returns a function that writes a masked LM in a layout and then changes its tensors."""

    def write_and_edit(layout, change, model_class=BertMaskedLM):
        checkpoint = preset.as_checkpoint(model_class(_CONFIG))
        checkpoints.write(checkpoint, tmp_path, layout.format)
        layout.edit(tmp_path, change)
        return tmp_path

    return write_and_edit


@_FORMATS
def test_unchanged_tensors_are_read(layout, edited):
    # So the edits below are the only reason why reading fails there.
    assert BertMaskedLM.from_preset(edited(layout, lambda tensors: None)).config.vocab_size == 19


@_FORMATS
def test_missing_tensor(layout, edited):
    folder = edited(layout, lambda tensors: tensors.pop(layout.dense))
    with pytest.raises(ValueError, match=rf"missing: {layout.dense} {layout.dense_shape}"):
        BertMaskedLM.from_preset(folder)


@_FORMATS
def test_tensor_too_many(layout, edited):
    folder = edited(
        layout, lambda tensors: tensors.update({"stranger/w": np.zeros((2, 3), "float32")})
    )
    with pytest.raises(ValueError, match=r"unknown: stranger/w\S* \[2, 3\]"):
        BertMaskedLM.from_preset(folder)


@_FORMATS
def test_transposed_tensor(layout, edited):
    folder = edited(
        layout, lambda tensors: tensors.update({layout.dense: tensors[layout.dense].T.copy()})
    )
    expected = rf"{layout.dense} is {layout.transposed_shape}, expected {layout.dense_shape}"
    with pytest.raises(ValueError, match=f"of another shape: {expected}"):
        BertMaskedLM.from_preset(folder)


@_FORMATS
def test_tensor_of_another_width(layout, edited):
    folder = edited(
        layout, lambda tensors: tensors.update({layout.words: np.zeros((19, 9), "float32")})
    )
    with pytest.raises(ValueError, match=rf"{layout.words} is \[19, 9\], expected \[19, 8\]"):
        BertMaskedLM.from_preset(folder)


@_FORMATS
def test_tensor_of_integers(layout, edited):
    folder = edited(
        layout,
        lambda tensors: tensors.update({layout.dense: tensors[layout.dense].astype("int32")}),
    )
    with pytest.raises(ValueError, match=f"{layout.dense} is int32, expected float32"):
        BertMaskedLM.from_preset(folder)


@_FORMATS
def test_a_whole_layer_too_many(layout, tmp_path):
    checkpoint = preset.as_checkpoint(BertEncoder(_CONFIG.replace(num_hidden_layers=2)))
    checkpoints.write(checkpoint, tmp_path, layout.format)
    name = "config.json" if layout.format == "hf" else "bert_config.json"
    values = json.loads((tmp_path / name).read_text(encoding="utf-8"))
    (tmp_path / name).write_text(json.dumps(values | {"num_hidden_layers": 1}), encoding="utf-8")
    with pytest.raises(ValueError, match="unknown: .* and 11 more"):
        BertEncoder.from_preset(tmp_path)


def test_untied_output_matrix(edited):
    def untie(tensors):
        tensors["cls.predictions.decoder.weight"] = tensors[_SafetensorsFolder.words] + 1

    folder = edited(_SafetensorsFolder, untie)
    sentence = "decoder.weight differs from word_embeddings/embeddings; this BERT ties the two"
    for model_class in (BertMaskedLM, BertPretrainer):
        with pytest.raises(ValueError, match=sentence):
            model_class.from_preset(folder)
    (folder / "target").mkdir()
    with pytest.raises(ValueError, match=sentence):
        convert(folder, folder / "target", "google")
    # It matters to that head only.
    expected = checkpoints.read(folder).variables["word_embeddings/embeddings"]
    for other in (
        BertEncoder.from_preset(folder),
        BertClassifier.from_preset(folder, num_classes=2),
    ):
        words = next(v for v in other.weights if v.path == "word_embeddings/embeddings")
        np.testing.assert_array_equal(words, expected)


@pytest.mark.parametrize("stored", [True, False])
def test_untied_by_the_config(stored, edited):
    def store(tensors):
        tensors["cls.predictions.decoder.weight"] = tensors[_SafetensorsFolder.words]

    folder = edited(_SafetensorsFolder, store if stored else lambda tensors: None)
    path = folder / "config.json"
    values = json.loads(path.read_text(encoding="utf-8")) | {"tie_word_embeddings": False}
    path.write_text(json.dumps(values), encoding="utf-8")
    if stored:  # its output matrix is the word embedding all the same
        assert BertMaskedLM.from_preset(folder).config.vocab_size == 19
        return
    with pytest.raises(ValueError, match="tie_word_embeddings is false, and there is no cls.pred"):
        BertMaskedLM.from_preset(folder)
    assert BertEncoder.from_preset(folder).config.vocab_size == 19


def test_tied_copies_and_constants_are_dropped_with_a_reason(edited):
    def add(tensors):
        tensors["cls.predictions.decoder.weight"] = tensors[_SafetensorsFolder.words]
        tensors["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"]
        tensors["bert.embeddings.position_ids"] = np.arange(11)[None]
        tensors["fit_dense.weight"] = np.zeros((13, 8), "float32")

    report = checkpoints.read(edited(_SafetensorsFolder, add)).report
    assert report.dropped == {
        "bert.embeddings.position_ids": "constant numbers, not weights",
        "cls.predictions.decoder.bias": "a copy of masked_lm_bias/bias",
        "cls.predictions.decoder.weight": "a copy of word_embeddings/embeddings",
        "fit_dense.weight": "a layer that only TinyBERT's distillation used",
    }
    # 5 embeddings, 16 of the one layer, 2 of the pooler, 5 of the head.
    assert (report.tensors_mapped, report.tensors_read, report.new) == (28, 32, ())


def test_google_training_state_is_dropped_with_a_reason(edited):
    def add(tensors):
        tensors["global_step"] = np.int64(7)
        tensors[f"{_GoogleFolder.dense}/adam_m"] = tensors[_GoogleFolder.dense]

    report = checkpoints.read(edited(_GoogleFolder, add)).report
    assert report.dropped == {
        "global_step": "counter of the training run",
        f"{_GoogleFolder.dense}/adam_m": "state of the optimizer",
    }


def test_hugging_face_without_pooler(edited):
    def drop_pooler(tensors):
        del tensors["bert.pooler.dense.weight"], tensors["bert.pooler.dense.bias"]

    folder = edited(_SafetensorsFolder, drop_pooler)
    assert checkpoints.read(folder).report.new == ("pooler/kernel", "pooler/bias")
    BertMaskedLM.from_preset(folder)
    with pytest.warns(UserWarning, match="no pooler, which BertEncoder uses"):
        BertEncoder.from_preset(folder)


def test_half_a_pooler_is_no_pooler(edited):
    folder = edited(_SafetensorsFolder, lambda tensors: tensors.pop("bert.pooler.dense.bias"))
    with pytest.raises(ValueError, match=r"missing: bert.pooler.dense.bias \[8\]"):
        BertMaskedLM.from_preset(folder)


def test_hugging_face_names_of_2018(edited):
    def rename(tensors):
        for name in list(tensors):
            old = name.replace("LayerNorm.weight", "LayerNorm.gamma")
            tensors[old.replace("LayerNorm.bias", "LayerNorm.beta")] = tensors.pop(name)

    folder = edited(_SafetensorsFolder, rename, BertPretrainer)
    report = checkpoints.read(folder).report
    assert report.mapped["embeddings/layer_norm/gamma"] == ("bert.embeddings.LayerNorm.gamma",)
    assert BertPretrainer.from_preset(folder).config.hidden_size == 8


def test_classifier_of_unknown_kind(tmp_path):
    checkpoint = preset.as_checkpoint(BertTokenClassifier(_CONFIG, num_classes=3))
    checkpoints.write(checkpoint, tmp_path, "hf")
    path = tmp_path / "config.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(values | {"architectures": ["Mine"]}), encoding="utf-8")
    with pytest.raises(ValueError, match=r"classifier.weight, but .* \['Mine'\] do not say of wh"):
        BertTokenClassifier.from_preset(tmp_path)
    path.write_text(json.dumps(values | {"architectures": 1}), encoding="utf-8")
    with pytest.raises(ValueError, match="architectures is 1: it must be a list of names"):
        BertTokenClassifier.from_preset(tmp_path)
    values["id2label"] = {"0": "a", "1": "b"}
    path.write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(ValueError, match="has 3 rows, but the config's id2label names .* 0, 1"):
        BertTokenClassifier.from_preset(tmp_path)
    for names in (["a", "b", "c"], {"a": 0, "b": 1, "c": 2}, "abc"):
        path.write_text(json.dumps(values | {"id2label": names}), encoding="utf-8")
        with pytest.raises(ValueError) as error:
            BertTokenClassifier.from_preset(tmp_path)
        assert str(error.value).startswith(f"{path}: id2label is {names!r}: it must be an object")
    path.write_text(json.dumps(values | {"id2label": {"0": "a", "1": None, "2": "b"}}))
    with pytest.raises(ValueError, match="id2label calls class 1 None: give it a name"):
        checkpoints.read(tmp_path)
    # As YAML reads such names.
    path.write_text(json.dumps(values | {"id2label": {"0": 7, "1": True, "2": "b"}}))
    assert checkpoints.read(tmp_path).head["labels"] == ["7", "true", "b"]
    path.write_text(json.dumps(values | {"id2label": {"2": "c", "00": "a", "1": "b"}}))
    assert BertTokenClassifier.from_preset(tmp_path).labels == ["a", "b", "c"]


def test_damaged_safetensors(edited):
    folder = edited(_SafetensorsFolder, lambda tensors: None)
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match="model.safetensors is not a readable safetensors file"):
        BertMaskedLM.from_preset(folder)


def test_shards(edited, tmp_path):
    folder = edited(_SafetensorsFolder, lambda tensors: None)
    tensors = load_file(folder / "model.safetensors")
    expected = checkpoints.read(folder).variables
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    places = {name: f"part-{place % 2}.safetensors" for place, name in enumerate(names)}
    for shard in set(places.values()):
        part = {name: tensors[name] for name in names if places[name] == shard}
        save_file(part, folder / shard)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": places}), encoding="utf-8")
    for path, value in checkpoints.read(folder).variables.items():
        np.testing.assert_array_equal(value, expected[path])

    index.write_text(json.dumps({"weight_map": {**places, "x": "part-0.safetensors"}}))
    with pytest.raises(ValueError, match="part-0.safetensors does not hold x"):
        checkpoints.read(folder)
    (folder / "part-1.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="part-1.safetensors does not exist"):
        checkpoints.read(folder)
