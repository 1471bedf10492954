"""Vocabularies that are not of the embedding's size. Oracle: the live Keras model's own logits."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertTokenizer
from keras_bert.models.encoder import BertEncoder
from keras_bert.models.masked_lm import BertMaskedLM
from keras_bert.serving.formats.tf_hub import export_hub_form
from keras_bert.serving.saved_model import export_saved_model
from keras_bert.serving.served_folder import open_signatures
from keras_bert.signatures.options import ExportOptions
from keras_bert.tasks.fill_mask.guesses import fill_mask
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.signatures.tiny_models import PIECES, ask, tiny_config
from tests.tolerances import INT8_PROBABILITIES, REORDERED

SIZE = len(SPECIAL_TOKENS) + len(PIECES)


def write(folder, model_class, rows):
    """Writes a model with so many rows of embeddings, and the vocabulary of `SIZE` pieces."""
    keras.utils.set_random_seed(5)
    model = model_class(tiny_config(vocab_size=rows))
    if model_class is BertMaskedLM:
        bias = np.zeros(rows, np.float32)
        bias[SIZE:] = 9.0  # what no training pushed down may be the likeliest
        model.get_layer("masked_lm_bias").bias.assign(bias)
    model.save_to_preset(folder)
    BertTokenizer(Vocabulary([*SPECIAL_TOKENS, *PIECES])).save(folder)
    return model


@pytest.mark.parametrize("export", [export_saved_model, export_hub_form])
def test_pieces_without_a_row_are_refused(export, tmp_path):
    write(tmp_path / "model", BertEncoder, SIZE - 1)
    message = f"has {SIZE} pieces but the embedding of .* {SIZE - 1} rows"
    with pytest.raises(ValueError, match=message):
        export(tmp_path / "model", tmp_path / "served")
    assert not (tmp_path / "served").exists()


@pytest.mark.parametrize("dtype", ["float32", pytest.param("int8", marks=pytest.mark.long)])
def test_rows_without_a_piece_are_no_guess(dtype, tmp_path):
    live = write(tmp_path / "model", BertMaskedLM, SIZE + 8)
    family = open_signatures(tmp_path / "model", ExportOptions(dtype, top_k=SIZE + 8))
    found = family.answer(text=tf.constant(["the [MASK] film"]))
    tokens = [token.decode() for token in found["tokens"].numpy()[0, 0]]
    assert sorted(tokens) == sorted([*SPECIAL_TOKENS, *PIECES])
    inputs = {name: values[:1] for name, values in family.preprocess(["the [MASK] film"]).items()}
    inputs["masked_lm_positions"] = tf.constant([[2]])
    logits = live(inputs).numpy()[0, 0]
    assert logits.argmax() >= SIZE  # else the test shows nothing
    odds = np.exp(logits[:SIZE] - logits[:SIZE].max())
    expected = np.sort(odds / odds.sum())[::-1]
    close = REORDERED if dtype == "float32" else INT8_PROBABILITIES
    np.testing.assert_allclose(found["probabilities"][0, 0], expected, **close)
    few = open_signatures(tmp_path / "model", ExportOptions(dtype, top_k=3))
    fewer = few.answer(text=tf.constant(["the [MASK] film"]))
    assert fewer["tokens"].numpy()[0, 0].tolist() == found["tokens"].numpy()[0, 0, :3].tolist()
    reading = BertTokenizer.from_preset(tmp_path / "model", keep_special_tokens=True)
    (guesses,) = fill_mask(live, reading, "the [MASK] film", SIZE)
    np.testing.assert_allclose([guess.probability for guess in guesses], expected, **REORDERED)
    # On token ids too, whatever the file that holds them.
    assert family.ids(**inputs)["logits"].numpy()[0, 0].argmax() < SIZE


def test_rows_without_a_piece_do_not_disturb_vectors(tmp_path):
    live = write(tmp_path / "model", BertEncoder, SIZE + 8)
    batch = BertTokenizer.from_preset(tmp_path / "model")(["the film"]).to_list()
    ids = tf.constant([[2, *batch[0], 3]])
    inputs = dict(input_ids=ids, input_mask=tf.ones_like(ids), segment_ids=tf.zeros_like(ids))
    found = ask(tmp_path / "model", text=["the film"])
    np.testing.assert_allclose(found["pooled_output"], live(inputs)["pooled_output"], **REORDERED)
