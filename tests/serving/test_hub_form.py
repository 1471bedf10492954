"""The TF-Hub form, loaded and used as TF-Hub's own instructions use those models."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertEncoder, BertPreprocessor, BertTokenizer
from keras_bert.checkpoints import folder as checkpoints
from keras_bert.models import preset
from keras_bert.models.conversion import convert as conversion
from keras_bert.serving.formats.tf_hub import export_hub_form
from tests.tolerances import REORDERED

TEXTS = ["the film abc", "", "d's (e) " * 9]
NAMES = {"input_ids": "input_word_ids", "input_mask": "input_mask", "segment_ids": "input_type_ids"}


@pytest.fixture(scope="module")
def hub_folder(model_folder, tmp_path_factory):
    return export_hub_form(model_folder("encoder"), tmp_path_factory.mktemp("hub") / "bert")


@pytest.fixture(scope="module")
def hub(hub_folder):
    return [tf.saved_model.load(str(hub_folder / part)) for part in ("preprocess", "encoder")]


def test_preprocessing_is_ours_under_their_names(hub, model_folder):
    tokenizer = BertTokenizer.from_preset(model_folder("encoder"))
    expected = BertPreprocessor(tokenizer, 24)(TEXTS)
    found = hub[0](tf.constant(TEXTS))
    assert found.keys() == set(NAMES.values())
    for ours, theirs in NAMES.items():
        np.testing.assert_array_equal(found[theirs], expected[ours])


def test_tokens_are_packed_to_any_length(hub, model_folder):
    tokenizer = BertTokenizer.from_preset(model_folder("encoder"))
    first, second = (hub[0].tokenize(tf.constant(texts)) for texts in (TEXTS, TEXTS[::-1]))
    assert tokenizer.detokenize(first[0]).numpy().tolist() == [b"the", b"film", b"abc"]
    found = hub[0].bert_pack_inputs([first, second], 16)
    expected = BertPreprocessor(tokenizer, 16)((TEXTS, TEXTS[::-1]))
    for ours, theirs in NAMES.items():
        np.testing.assert_array_equal(found[theirs], expected[ours])


def test_the_encoder_says_what_ours_says(hub, model_folder):
    encoder = BertEncoder.from_preset(model_folder("encoder"), output_hidden_states=True)
    batch = hub[0](tf.constant(TEXTS))
    expected = encoder({ours: batch[theirs] for ours, theirs in NAMES.items()})
    found = hub[1](batch)
    np.testing.assert_array_equal(found["default"], found["pooled_output"])
    for name in ("pooled_output", "sequence_output"):
        np.testing.assert_allclose(found[name], expected[name], **REORDERED)
    assert len(found["encoder_outputs"]) == 2
    np.testing.assert_allclose(
        found["encoder_outputs"][0], expected["hidden_states"][1], **REORDERED
    )


def test_the_encoder_can_be_trained_on(hub, model_folder):
    batch = hub[0](tf.constant(TEXTS))
    weights = hub[1].trainable_variables
    assert len(weights) == len(BertEncoder.from_preset(model_folder("encoder")).trainable_weights)
    with tf.GradientTape() as tape:
        outputs = hub[1](batch, training=True)
        loss = tf.reduce_sum(outputs["sequence_output"][:, 0, 0])
    assert tape.gradient(loss, weights[0]) is not None
    dropped = hub[1](batch, training=True)["pooled_output"].numpy()
    assert not np.allclose(dropped, hub[1](batch)["pooled_output"])


def test_an_export_is_read_back(hub_folder, hub, model_folder, tmp_path):
    folder, source = hub_folder / "encoder", model_folder("encoder")
    expected, found = preset.read_checkpoint(source), checkpoints.read(folder)
    assert (found.architecture, found.config) == (expected.architecture, expected.config)
    assert found.variables.keys() == expected.variables.keys()
    for path, value in expected.variables.items():
        np.testing.assert_array_equal(found.variables[path], value, err_msg=path)
    tokenizers = [BertTokenizer.from_preset(path) for path in (folder, source)]
    assert tokenizers[0].settings == tokenizers[1].settings
    assert tokenizers[0].vocabulary == tokenizers[1].vocabulary
    # Under the names of TF-Hub's models, for code written for those.
    assert hub[1].vocab_file.asset_path.numpy().endswith(b"assets/vocab.txt")
    assert bool(hub[1].do_lower_case) is tokenizers[1].settings["lowercase"]
    report = conversion.convert(folder, tmp_path, "google")
    assert report.compared == ("the SavedModel", "keras_bert")
    assert report.difference < 1e-5


def test_saved_models_that_are_no_encoder_are_refused(hub_folder, tmp_path):
    with pytest.raises(ValueError, match="no variable word_embeddings/embeddings; it turns texts"):
        BertEncoder.from_preset(hub_folder / "preprocess")
    tf.saved_model.save(tf.Module(), str(tmp_path / "other"))
    with pytest.raises(ValueError, match="only BERT encoders in the form of Model Garden's"):
        BertEncoder.from_preset(tmp_path / "other")
    with pytest.raises(FileNotFoundError, match="is a SavedModel without a vocab_file"):
        BertTokenizer.from_preset(tmp_path / "other")
    (tmp_path / "other" / "saved_model.pb").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="saved_model.pb is no readable SavedModel"):
        BertEncoder.from_preset(tmp_path / "other")


def test_what_there_is_is_not_replaced(model_folder, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="exists already: give another --export_dir"):
        export_hub_form(model_folder("encoder"), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    for length, sentence in ((4, "at least 5"), (25, "the model has 24 positions")):
        with pytest.raises(ValueError, match=sentence):
            export_hub_form(model_folder("encoder"), tmp_path / "hub", length)
