"""The TF-Hub form, loaded and used as TF-Hub's own instructions use those models."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertEncoder, BertPreprocessor, BertTokenizer
from keras_bert.export.hub_form import export_hub_form

TEXTS = ["the film abc", "", "d's (e) " * 9]
NAMES = {"input_ids": "input_word_ids", "input_mask": "input_mask", "segment_ids": "input_type_ids"}


@pytest.fixture(scope="module")
def hub(model_folder, tmp_path_factory):
    folder = export_hub_form(model_folder("encoder"), tmp_path_factory.mktemp("hub") / "bert")
    return [tf.saved_model.load(str(folder / part)) for part in ("preprocess", "encoder")]


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
        np.testing.assert_allclose(found[name], expected[name], atol=1e-5)
    assert len(found["encoder_outputs"]) == 2
    np.testing.assert_allclose(found["encoder_outputs"][0], expected["hidden_states"][1], atol=1e-5)


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


def test_what_there_is_is_not_replaced(model_folder, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="exists already: give another --export_dir"):
        export_hub_form(model_folder("encoder"), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    for length, sentence in ((4, "at least 5"), (25, "the model has 24 positions")):
        with pytest.raises(ValueError, match=sentence):
            export_hub_form(model_folder("encoder"), tmp_path / "hub", length)
