"""Several documents in one sequence: each must come out as it does alone."""

import keras
import numpy as np
import pytest

from keras_bert import BertConfig, BertEncoder, BertMaskedLM, BertPretrainer
from tests.tolerances import REORDERED

_CONFIG = BertConfig(
    vocab_size=40,
    hidden_size=16,
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=24,
    max_position_embeddings=20,
    initializer_range=0.5,  # large enough for a leak to be seen
)
_LENGTHS = [(5, 9, 3), (12, 4), (1, 2, 8, 6)]
_WIDTH = 18


def _documents():
    draw = np.random.default_rng(0)
    return [[draw.integers(1, 40, length) for length in row] for row in _LENGTHS]


def _packed(rows):
    """Sequences of the documents of each row, one behind the other, padded."""
    names = ("input_ids", "input_mask", "segment_ids", "pack_ids", "position_ids")
    batch = {name: np.zeros((len(rows), _WIDTH), "int32") for name in names}
    for row, documents in enumerate(rows):
        start = 0
        for number, ids in enumerate(documents, start=1):
            place = (row, slice(start, start + len(ids)))
            batch["input_ids"][place] = ids
            batch["input_mask"][place] = 1
            batch["pack_ids"][place] = number
            batch["position_ids"][place] = np.arange(len(ids))
            start += len(ids)
    return batch


def _alone(ids):
    ids = np.asarray(ids, "int32")[None]
    return {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)}


def _pair(cls, **arguments):
    """A packed model and an ordinary one with the same weights."""
    packed, ordinary = cls(_CONFIG, packed=True, **arguments), cls(_CONFIG, **arguments)
    assert [w.path for w in packed.weights if "seed" not in w.path] == [
        w.path for w in ordinary.weights if "seed" not in w.path
    ]
    ordinary.set_weights(packed.get_weights())
    return packed, ordinary


def _array(tensor):
    return keras.ops.convert_to_numpy(tensor)


def test_a_document_packed_has_the_activations_that_it_has_alone():
    packed, ordinary = _pair(BertEncoder, output_hidden_states=True, output_attention_probs=True)
    found = packed(_packed(_documents()))
    for row, documents in enumerate(_documents()):
        start = 0
        for ids in documents:
            place = slice(start, start + len(ids))
            alone = ordinary(_alone(ids))
            for state, expected in zip(found["hidden_states"], alone["hidden_states"], strict=True):
                np.testing.assert_allclose(
                    _array(state)[row, place], _array(expected)[0], **REORDERED
                )
            for probs, expected in zip(
                found["attention_probs"], alone["attention_probs"], strict=True
            ):
                probs = _array(probs)[row, :, place]
                np.testing.assert_allclose(probs[..., place], _array(expected)[0], **REORDERED)
                assert (np.delete(probs, np.r_[place], axis=-1) == 0).all()
            start += len(ids)


def test_what_stands_in_one_document_does_not_reach_another():
    packed = BertEncoder(_CONFIG, packed=True)
    batch = _packed(_documents())
    before = _array(packed(batch)["sequence_output"])
    changed = {name: value.copy() for name, value in batch.items()}
    second = batch["pack_ids"] == 2
    changed["input_ids"][second] = (batch["input_ids"][second] + 7) % 40
    after = _array(packed(changed)["sequence_output"])
    others = ~second & (batch["input_mask"] == 1)
    np.testing.assert_array_equal(after[others], before[others])
    assert np.abs(after[second] - before[second]).min(axis=-1).max() > 1e-4


def test_without_pack_ids_the_documents_do_see_each_other():
    packed, ordinary = _pair(BertEncoder)
    batch = _packed(_documents())
    inputs = {name: batch[name] for name in ("input_ids", "input_mask", "segment_ids")}
    difference = np.abs(
        _array(ordinary(inputs)["sequence_output"]) - _array(packed(batch)["sequence_output"])
    )
    assert difference[batch["pack_ids"] > 1].max() > 0.1


@pytest.mark.parametrize(("cls", "logits"), [(BertMaskedLM, None), (BertPretrainer, "mlm_logits")])
def test_predictions_of_packed_documents_are_those_of_each_alone(cls, logits):
    packed, ordinary = _pair(cls)
    rows = _documents()
    positions = np.array([[4, 13], [11, 15], [0, 12]], "int32")  # two documents of each row
    found = packed({**_packed(rows), "masked_lm_positions": positions})
    found = _array(found[logits] if logits else found)
    for row, slot, document, position in [
        (0, 0, 0, 4), (0, 1, 1, 8), (1, 0, 0, 11), (1, 1, 1, 3), (2, 0, 0, 0), (2, 1, 3, 1),
    ]:  # fmt: skip
        alone = {**_alone(rows[row][document]), "masked_lm_positions": np.array([[position]])}
        expected = ordinary(alone)
        expected = _array(expected[logits] if logits else expected)[0, 0]
        np.testing.assert_allclose(found[row, slot], expected, **REORDERED)


def test_the_ordinary_model_has_three_inputs_and_the_packed_one_five(tmp_path):
    names = ["input_ids", "input_mask", "segment_ids"]
    assert sorted(BertEncoder(_CONFIG).input) == names
    packed = BertEncoder(_CONFIG, packed=True)
    assert sorted(packed.input) == sorted([*names, "pack_ids", "position_ids"])
    for model in (packed, BertMaskedLM(_CONFIG, packed=True), BertPretrainer(_CONFIG, packed=True)):
        model.save(tmp_path / "model.keras")
        again = keras.saving.load_model(tmp_path / "model.keras")
        assert sorted(again.input) == sorted(model.input)


def test_a_preset_of_a_packed_model_opens_as_either(tmp_path):
    model = BertPretrainer(_CONFIG, packed=True)
    model.save_to_preset(tmp_path / "preset")
    for packed in (False, True):
        again = BertPretrainer.from_preset(tmp_path / "preset", packed=packed)
        assert ("pack_ids" in again.input) == packed
        for one, other in zip(model.trainable_variables, again.trainable_variables, strict=True):
            np.testing.assert_array_equal(_array(one), _array(other))
