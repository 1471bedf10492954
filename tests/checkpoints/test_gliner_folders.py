"""Folders of GLiNER: what is read, what is refused, and that writing and reading lose nothing.

`tests/tasks/test_entity_recognition_oracle.py` compares scores with those of the package gliner.
"""

import json
import shutil

import numpy as np
import pytest

from keras_bert import BertEncoder, BertTokenizer, load_tokenizer
from keras_bert.checkpoints import folder as checkpoints
from keras_bert.models import preset
from keras_bert.models.entities.entity_matcher import BertEntityMatcher
from tests.tasks.entity_models import entity_model, entity_tokenizer

CONFIG = "gliner_config.json"


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    """A preset of two LSTMs, as `save_to_preset` writes it."""
    path = tmp_path_factory.mktemp("ours")
    entity_model(num_rnn_layers=2).save_to_preset(path, entity_tokenizer())
    return path


@pytest.fixture(scope="module")
def theirs(ours, tmp_path_factory):
    """The same in GLiNER's format, as convert_checkpoint.py writes it."""
    path = tmp_path_factory.mktemp("theirs")
    checkpoints.write(preset.read_checkpoint(ours), path, "gliner")
    entity_tokenizer().save(path)
    return path


@pytest.fixture
def changed(theirs, tmp_path):
    """Returns a function: a copy of the folder, with other values in its config."""

    def change(**values):
        folder = shutil.copytree(theirs, tmp_path / "changed")
        stored = json.loads((folder / CONFIG).read_text())
        (folder / CONFIG).write_text(json.dumps(stored | values))
        return folder

    return change


def test_writing_and_reading_lose_nothing(ours, theirs):
    before, after = preset.read_checkpoint(ours), preset.read_checkpoint(theirs)
    assert after.config == before.config and after.head == before.head
    assert after.variables.keys() == before.variables.keys()
    pieces = len(entity_tokenizer().vocabulary)
    for path, value in before.variables.items():
        if path == "word_embeddings/embeddings":  # rows behind the markers only pad the table
            value[pieces + 3 :] = 0
        np.testing.assert_array_equal(after.variables[path], value, err_msg=path)
    assert checkpoints.format_of(theirs) == "gliner"
    model = BertEntityMatcher.from_preset(theirs)
    assert model.head_config() == BertEntityMatcher.from_preset(ours).head_config()


def test_markers_in_the_files_of_the_tokenizer_are_no_pieces(changed):
    folder = changed()
    pieces = len(entity_tokenizer().vocabulary)
    ids = {"[FLERT]": pieces, "<<ENT>>": pieces + 1, "<<SEP>>": pieces + 2}
    (folder / "added_tokens.json").write_text(json.dumps(ids))
    stored = json.loads((folder / "tokenizer_config.json").read_text())
    stored["added_tokens_decoder"] = {str(i): {"content": token} for token, i in ids.items()}
    (folder / "tokenizer_config.json").write_text(json.dumps(stored))
    assert load_tokenizer(folder).vocabulary == entity_tokenizer().vocabulary
    BertEntityMatcher.from_preset(folder)
    (folder / "added_tokens.json").write_text(json.dumps({**ids, "<<SEP>>": 7}))
    with pytest.raises(ValueError, match=rf"<<SEP>> has the id 7, but {pieces + 2} by gliner_conf"):
        BertEntityMatcher.from_preset(folder)


def test_config_and_tokenizer_may_lie_in_the_folder_of_the_encoder(changed, tmp_path):
    """As in the folders of version 2.1, which name the encoder alone."""
    encoder = tmp_path / "encoder"
    encoder.mkdir()
    folder = changed(model_name=str(encoder))
    stored = json.loads((folder / CONFIG).read_text())
    values = stored.pop("encoder_config")
    (folder / CONFIG).write_text(json.dumps(stored))
    for name in ("vocab.txt", "tokenizer_config.json"):
        shutil.move(folder / name, encoder / name)
    values["vocab_size"] = len(entity_tokenizer().vocabulary)
    (encoder / "config.json").write_text(json.dumps(values))
    assert isinstance(load_tokenizer(folder), BertTokenizer)
    model = BertEntityMatcher.from_preset(folder)
    assert model.entity_token_id == len(entity_tokenizer().vocabulary) + 1


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"span_mode": "token_level"}, "the model has span_mode 'token_level', which cannot be"),
        ({"labels_encoder": "bert"}, "a bi-encoder, with an encoder of its own for labels, which"),
        ({"labels_decoder": "gpt2"}, "the model has a decoder that writes labels, which cannot"),
        ({"relations_layer": "dot"}, "the model has relations between entities, which cannot"),
        ({"model_type": "gliner_streaming_span"}, "has a decoder that reads from left to right"),
        ({"fuse_layers": True}, "a sum over the layers of the encoder, which cannot"),
        ({"subtoken_pooling": "mean"}, "subtoken_pooling is 'mean', which cannot be reproduced"),
        ({"words_splitter_type": "spacy"}, "words_splitter_type is 'spacy', which cannot be"),
        ({"max_width": 0}, "max_width is 0: expected a whole number, 1 or more"),
        ({"dropout": 1}, "dropout is 1: expected a number from 0 to below 1"),
        ({"class_token_index": 500}, "class_token_index is 500, but the table of the weights has"),
        ({"num_rnn_layers": 1}, "does not fit its config. Tensors unknown: rnn.lstm.bias_hh_l1 "),
        ({"encoder_config": {"model_type": "t5"}}, "encoder_config: model_type is 't5': expected"),
    ],
)
def test_other_kinds_and_damaged_files_are_refused(changed, values, sentence):
    with pytest.raises(ValueError, match=sentence):
        preset.read_checkpoint(changed(**values))


def test_no_preset_is_written_where_it_would_not_be_opened(theirs, ours, model_folder, tmp_path):
    before = (theirs / "model.safetensors").read_bytes()
    with pytest.raises(ValueError, match=r"is a folder of GLiNER \(gliner_config.json\), as which"):
        BertEntityMatcher.from_preset(ours).save_to_preset(theirs)
    inner = shutil.copytree(model_folder("encoder"), tmp_path / "0_BERT")
    modules = [{"type": "sentence_transformers.models.BERT", "path": "0_BERT"}]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ValueError, match=f"whose encoder is opened from {inner}, not what is wr"):
        BertEncoder.from_preset(tmp_path).save_to_preset(tmp_path, entity_tokenizer())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0_BERT", "modules.json"]
    assert (theirs / "model.safetensors").read_bytes() == before


def test_only_what_scores_spans_is_written(model_folder, tmp_path):
    checkpoint = preset.read_checkpoint(model_folder("tags"))
    with pytest.raises(ValueError, match="the model is a BertTokenClassifier, but GLiNER's format"):
        checkpoints.write(checkpoint, tmp_path, "gliner")
    moved = preset.as_checkpoint(entity_model(separator_token_id=9))
    with pytest.raises(ValueError, match="and 9 for <<ENT>> and <<SEP>>, which GLiNER wants behin"):
        checkpoints.write(moved, tmp_path, "gliner")
