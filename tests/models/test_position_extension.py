"""Longer tables of positions: rows worked out by hand, and what the first positions still say."""

import json

import numpy as np
import pytest

from keras_bert import (
    AlbertConfig,
    BertConfig,
    BertEncoder,
    BertEncoderDecoder,
    DistilBertConfig,
    ElectraConfig,
    RobertaConfig,
    create_encoder,
    extend_positions,
)
from keras_bert.models.conversion.convert import convert
from tests.markers import some_fast
from tests.tolerances import FORMULA

SIZE = dict(
    vocab_size=19,
    hidden_size=2,
    num_hidden_layers=1,
    num_attention_heads=1,
    intermediate_size=3,
    max_position_embeddings=3,
)
FAMILIES = {
    "bert": BertConfig(**SIZE),
    "roberta": RobertaConfig(**SIZE),
    "distilbert": DistilBertConfig(**SIZE),
    "electra": ElectraConfig(**SIZE, embedding_size=2),
    "albert": AlbertConfig(**SIZE, embedding_size=2),
}
ROWS = [[0.0, 9.0], [3.0, 6.0], [6.0, 0.0]]
LONGER = {
    "copy": [*ROWS, *ROWS, ROWS[0]],
    # Thirds of the way from row to row.
    "interpolate": [[0, 9], [1, 8], [2, 7], [3, 6], [4, 4], [5, 2], [6, 0]],
}


def table_of(encoder):
    return encoder.get_layer("embeddings").position_embeddings


@pytest.mark.parametrize("extension", LONGER)
@pytest.mark.parametrize("family", some_fast(FAMILIES, ("bert", "roberta")))
def test_rows_are_those_worked_out_by_hand(family, extension):
    encoder = create_encoder(FAMILIES[family])
    before = [[7.0, 7.0], [8.0, 8.0]] if family == "roberta" else []  # its rows of the padding
    table_of(encoder).assign([*before, *ROWS])
    longer = extend_positions(encoder, 7, extension)
    assert type(longer) is type(encoder)
    assert longer.config == encoder.config.replace(max_position_embeddings=7)
    found = np.array(table_of(longer))
    np.testing.assert_array_equal(found[: len(before)], np.reshape(before, [-1, 2]))
    np.testing.assert_allclose(found[len(before) :], LONGER[extension], **FORMULA)
    others = [
        [np.array(weight) for weight in model.weights if "position" not in weight.path]
        for model in (encoder, longer)
    ]
    for old, new in zip(*others, strict=True):
        np.testing.assert_array_equal(old, new)
    # Texts that fitted are read as before where rows are copied, and longer ones are read.
    ids = np.array([[5, 6, 7, 8, 9, 10, 11]], np.int32)
    inputs = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": 0 * ids}
    short = {name: values[:, :3] for name, values in inputs.items()}
    assert longer(inputs)["sequence_output"].shape == (1, 7, 2)
    if extension == "copy":
        np.testing.assert_array_equal(
            longer(short)["sequence_output"], encoder(short)["sequence_output"]
        )


def test_a_table_never_shrinks():
    encoder = create_encoder(FAMILIES["bert"])
    for positions in (2, 3):
        with pytest.raises(ValueError, match=f"is {positions} but the model has 3 .* only grow"):
            extend_positions(encoder, positions)
    with pytest.raises(ValueError, match="is '9': it must be a whole number, at least 1"):
        extend_positions(encoder, "9")
    assert extend_positions(encoder, np.int64(9)).config.max_position_embeddings == 9
    with pytest.raises(ValueError, match="position_extension is 'zeros': choose one of copy"):
        extend_positions(encoder, 4, "zeros")
    with pytest.raises(ValueError, match="the model is a str: .* such as load_model of its folder"):
        extend_positions("runs/bert", 4)


def test_the_table_of_a_decoder_grows_too(tmp_path):
    model = BertEncoderDecoder(FAMILIES["bert"])
    tables = [weight for weight in model.weights if "position_embeddings" in weight.path]
    assert len(tables) == 2
    for table in tables:
        table.assign(ROWS)
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
    model.save_to_preset(tmp_path / "before")
    convert(tmp_path / "before", tmp_path / "after", "keras", (), 7, "interpolate")
    for longer in (
        BertEncoderDecoder.from_preset(tmp_path / "after"),
        extend_positions(model, 7, "interpolate"),
    ):
        found = [np.array(weight) for weight in longer.weights if "position_emb" in weight.path]
        np.testing.assert_allclose(found, [LONGER["interpolate"]] * 2, **FORMULA)


def test_conversion_writes_the_longer_table(tmp_path):
    for name in ("roberta", "ours", "hf"):
        (tmp_path / name).mkdir()
    encoder = create_encoder(FAMILIES["roberta"])
    encoder.save_to_preset(tmp_path / "roberta")
    report = convert(tmp_path / "roberta", tmp_path / "hf", "hf", (), 7, "interpolate")
    assert "positions:       3 -> 7\n" in str(report)
    # transformers counts the rows of the table.
    assert json.loads((tmp_path / "hf" / "config.json").read_text())["max_position_embeddings"] == 9
    longer = extend_positions(encoder, 7, "interpolate")
    again = BertEncoder.from_preset(tmp_path / "hf")
    for ours, theirs in zip(longer.weights, again.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(ValueError, match="max_position_embeddings is 3 but the model has 3"):
        convert(tmp_path / "roberta", tmp_path / "ours", "keras", (), 3)
