"""New tokens in a model: old activations stay, new rows are means, worked out with NumPy."""

import keras
import numpy as np
import pytest

from keras_bert import (
    BertClassifier,
    BertConfig,
    BertEncoder,
    BertMaskedLM,
    BertPretrainer,
    grow_vocabulary,
)
from keras_bert.models.bilstm_tagger import BertBiLSTMTagger
from keras_bert.models.entities.entity_matcher import BertEntityMatcher
from tests.tolerances import FORMULA, REORDERED

CONFIG = BertConfig(
    vocab_size=12,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=16,
)
# Token 3 takes an unused slot, 12 and 13 are appended.
PIECES = {3: (5, 6), 12: (7,), 13: (5, 6, 11)}
IDS = np.array([[2, 4, 5, 6, 11, 1]], np.int32)


def randomized(model):
    draw = np.random.default_rng(0)
    for weight in model.weights:
        weight.assign(draw.normal(size=weight.shape))
    return model


def inputs(model, ids=IDS):
    features = {
        "input_ids": ids,
        "input_mask": np.ones_like(ids),
        "segment_ids": np.zeros_like(ids),
        "masked_lm_positions": np.array([[1, 3]], np.int32),
    }
    names = {tensor.name for tensor in model.inputs}
    return {name: value for name, value in features.items() if name in names}


def outputs(model, ids=IDS):
    answer = model(inputs(model, ids), training=False)
    return [keras.ops.convert_to_numpy(value) for value in keras.tree.flatten(answer)]


@pytest.mark.parametrize(
    "make",
    [
        BertEncoder,
        BertPretrainer,
        lambda config: BertClassifier(config, num_classes=3, labels=["a", "b", "c"]),
        lambda config: BertBiLSTMTagger(config, num_classes=3, features_from="last"),
    ],
)
def test_old_tokens_mean_what_they_meant(make):
    model = randomized(make(CONFIG))
    grown = grow_vocabulary(model, PIECES, 14)
    assert type(grown) is type(model)
    assert grown.config == CONFIG.replace(vocab_size=14)
    for before, after in zip(outputs(model), outputs(grown), strict=True):
        if before.shape[-1] != 12:
            np.testing.assert_array_equal(after, before)
            continue
        # Logits of the old entries but the unused slot; a product of another width may round
        # otherwise.
        kept = [0, 1, 2, *range(4, 12)]
        np.testing.assert_allclose(after[..., kept], before[..., kept], **REORDERED)


def test_all_but_the_vocabulary_is_built_as_before():
    model = BertClassifier(
        CONFIG, num_classes=2, labels=["a", "b"], seed=3, dtype="mixed_bfloat16", name="mine"
    )
    before = model.get_config()
    after = grow_vocabulary(model, PIECES, 14).get_config()
    assert after.pop("config") == before.pop("config") | {"vocab_size": 14}
    assert after == before
    assert after["dtype"] == "mixed_bfloat16"


def test_new_rows_and_biases_are_means():
    model = randomized(BertMaskedLM(CONFIG))
    grown = {weight.path: weight.numpy() for weight in grow_vocabulary(model, PIECES, 14).weights}
    for path in ("word_embeddings/embeddings", "masked_lm_bias/bias"):
        rows = next(weight.numpy() for weight in model.weights if weight.path == path)
        assert len(grown[path]) == 14
        np.testing.assert_allclose(grown[path][3], (rows[5] + rows[6]) / 2, **FORMULA)
        np.testing.assert_array_equal(grown[path][12], rows[7])
        np.testing.assert_allclose(grown[path][13], (rows[5] + rows[6] + rows[11]) / 3, **FORMULA)
        untouched = [*range(3), *range(4, 12)]
        np.testing.assert_array_equal(grown[path][untouched], rows[untouched])


def test_the_model_it_grew_from_is_left_alone():
    model = randomized(BertEncoder(CONFIG))
    before = [weight.numpy() for weight in model.weights]
    grown = grow_vocabulary(model, {3: (5,)}, 12)
    for weight, value in zip(model.weights, before, strict=True):
        np.testing.assert_array_equal(weight.numpy(), value)
    changed = outputs(grown, np.array([[2, 3, 1]], np.int32))[0]
    assert np.abs(changed - outputs(model, np.array([[2, 3, 1]], np.int32))[0]).max() > 1e-3


@pytest.mark.parametrize(
    ("pieces", "size", "sentence"),
    [
        ({}, 11, "vocab_size is 11 but the model has 12 entries"),
        ({14: (5,)}, 14, "the new token has the id 14, but the grown vocabulary has 14"),
        ({3: ()}, 12, "the new token 3 has no pieces to start from"),
        ({3: (5, 12)}, 13, "the piece 12 of the new token 3 is none of the model's 12"),
        ({12: (5,)}, 14, "the appended token 13 has no pieces given"),
        ({12: (5,)}, "13", "vocab_size is '13': it must be a whole number, at least 1"),
    ],
)
def test_what_does_not_fit_is_refused(pieces, size, sentence):
    with pytest.raises(ValueError, match=sentence):
        grow_vocabulary(BertEncoder(CONFIG), pieces, size)


def test_words_do_not_take_the_rows_of_markers():
    model = BertEntityMatcher(CONFIG)  # its <<ENT>> is 13
    rows = model.config.vocab_size
    with pytest.raises(ValueError, match="id 12, which is that of a marker of BertEntityMatcher"):
        grow_vocabulary(model, {12: np.array([5, 6])}, rows)
    grown = grow_vocabulary(model, {3: np.array([5, 6])}, rows)
    assert grown.head_config() == model.head_config()


def test_a_folder_is_no_model():
    with pytest.raises(ValueError, match="the model is a str: .* such as load_model of its folder"):
        grow_vocabulary("runs/bert", {3: (5,)}, 12)
