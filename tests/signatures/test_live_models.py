"""Served answers of every kind against the live Keras model: see live_models.py for the oracle."""

import math

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.serving.served_folder import open_signatures
from keras_bert.signatures.options import ExportOptions
from tests.graph_order import operations_beside_the_check
from tests.markers import some_slow
from tests.serving.fresh_process import as_text, ask_fresh_process
from tests.signatures import live_models
from tests.signatures.live_models import (
    live_answers,
    live_model,
    packed,
    padded,
    pieces_of,
    request_of,
    softmax,
)
from tests.signatures.tiny_models import (
    EXPORTED,
    MAX_SEQ_LENGTH,
    MODELS,
    ask,
    graph,
    write_model,
)
from tests.tolerances import REORDERED


def compare(found, expected):
    assert found.keys() == expected.keys()
    for output, values in expected.items():
        if values.dtype.kind == "U":
            assert found[output].astype("S").tolist() == np.char.encode(values, "utf-8").tolist()
        elif values.dtype.kind == "i":
            np.testing.assert_array_equal(found[output], values, output)
        else:
            assert found[output].dtype == np.float32
            np.testing.assert_allclose(found[output], values, **REORDERED, err_msg=output)


# Taggers, spans and windows have another oracle in the fast suite, the live head; of several labels
# the fast suite asks ensembles.
FAST = ("number", "pairs", "choices", "masked_lm", "encoder")
OTHERS = [name for name in MODELS if name not in FAST]
SLOW = ("classes", "tags", "spans")


@pytest.mark.parametrize("name", [*FAST, *some_slow(OTHERS, SLOW)])
def test_answers_are_those_of_the_live_model(name, model_folder):
    request = request_of(name)
    found = ask(model_folder(name), **request)
    expected = live_answers(model_folder(name), name, **request)
    if name == "encoder":
        expected = {key: expected[key] for key in ("pooled_output", "mean_pooled")}
    compare(found, expected)
    # The comparison is worth something only where not everything is the same.
    for output in ("label", "likely_labels", "answer", "choice", "tokens"):
        if output in expected:
            assert len(np.unique(expected[output])) > 1, output
    for output in ("entities", "words"):
        if output in expected:
            assert (expected[output] != "").sum() > 20


@pytest.mark.parametrize("name", some_slow(("tags", "spans", "masked_lm"), ("tags", "spans")))
def test_heads_of_a_modernbert_answer_as_the_live_model(name, tmp_path):
    """Tokens are read through its pooler; windows of attention are narrower than the texts."""
    changes = {"model_type": "modernbert", "pad_token_id": 0, "num_hidden_layers": 3}
    changes |= {"attention_window": 3, "initializer_range": 0.5}
    folder, request = write_model(tmp_path, name, **changes), request_of(name)
    compare(ask(folder, **request), live_answers(folder, name, **request))


@pytest.mark.parametrize("name", some_slow(("tags", "spans", "masked_lm"), ("tags", "spans")))
def test_heads_of_a_deberta_answer_as_the_live_model(name, tmp_path):
    changes = {"model_type": "deberta-v2", "position_buckets": 4, "initializer_range": 0.5}
    folder, request = write_model(tmp_path, name, **changes), request_of(name)
    compare(ask(folder, **request), live_answers(folder, name, **request))


@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("gte", "masked_lm"),
        pytest.param("nomic_bert", "spans", marks=pytest.mark.slow),
        *(("eurobert", "masked_lm"), ("eurobert", "number")),  # untied words; the mean of a pooler
    ],
)
def test_heads_on_gates_behind_norms_answer_as_the_live_model(family, name, tmp_path):
    changes = {"model_type": family, "initializer_range": 0.5}
    changes |= {"type_vocab_size": 1, "pad_token_id": 0} if family == "gte" else {}
    if family == "eurobert":
        changes |= {"type_vocab_size": 0, "pad_token_id": 0, "num_key_value_heads": 1}
    folder, request = write_model(tmp_path, name, **changes), request_of(name)
    compare(ask(folder, **request), live_answers(folder, name, **request))


@pytest.mark.parametrize("name", some_slow(("tags", "spans", "masked_lm"), ("tags", "spans")))
def test_heads_of_a_mobilebert_answer_as_the_live_model(name, tmp_path, monkeypatch):
    """It reads a word with the one behind it: padding, where a text does not fill its row."""

    def filled(rows, **more):
        batch = padded(rows)
        missing = MAX_SEQ_LENGTH - batch["input_ids"].shape[1]
        return {key: np.pad(rows, [(0, 0), (0, missing)]) for key, rows in batch.items()} | more

    monkeypatch.setattr(live_models, "padded", filled)
    changes = {"model_type": "mobilebert", "embedding_size": 6, "intra_bottleneck_size": 8}
    changes |= {"num_feedforward_networks": 2, "initializer_range": 0.4}
    folder, request = write_model(tmp_path, name, **changes), request_of(name)
    compare(ask(folder, **request), live_answers(folder, name, **request))


@pytest.mark.parametrize(
    "name, request_, sentence",
    [
        ("pairs", dict(text=["a", "b"], text_pair=["c"]), "every text needs its text_pair"),
        ("spans", dict(question=["a", "b"], context=["c"]), "every question needs its context"),
        ("spans", dict(question=["a"], context=["c", "d"]), "every question needs its context"),
        ("choices", dict(context=["a", "b"], choices=[["c"]]), "every context needs its choices"),
    ],
)
def test_a_text_without_its_partner_is_refused(name, request_, sentence, model_folder):
    with pytest.raises(tf.errors.InvalidArgumentError, match=sentence):
        ask(model_folder(name), **request_)
    # That sentence and no other, whichever operation is the first to run.
    assert not operations_beside_the_check(graph(model_folder(name)), sentence)


def test_rows_of_ids_without_their_masks_are_refused(model_folder):
    family = open_signatures(model_folder("number"), ExportOptions())
    traced = tf.function(family.guarded(family.ids), autograph=False)
    rows = {name: tf.ones([2, 4], tf.int32) for name in family.id_inputs()}
    with pytest.raises(tf.errors.InvalidArgumentError, match="every input_ids needs its input_mas"):
        traced(**rows | {"input_mask": tf.ones([1, 4], tf.int32)})
    assert traced(**rows)["logits"].shape == (2, 1)
    # What TensorFlow would take: a mask for all positions, ids from the end of the vocabulary.
    for feature, values, sentence in (
        ("input_mask", tf.ones([2, 1], tf.int32), "a row of input_mask has another length"),
        ("segment_ids", tf.zeros([2, 1], tf.int32), "a row of segment_ids has another length"),
        ("segment_ids", 2 * rows["segment_ids"], "segment_ids has numbers of 2 or above"),
        ("input_ids", 500 * rows["input_ids"], "input_ids has numbers of 71 or above"),
        ("input_ids", -rows["input_ids"], "input_ids has numbers below 0: give 0 and above"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=sentence):
            traced(**rows | {feature: values})
    assert traced(**{name: ids[:0] for name, ids in rows.items()})["logits"].shape == (0, 1)


def test_tokens_are_those_of_the_live_encoder(model_folder):
    family = open_signatures(model_folder("encoder"), ExportOptions())
    request = request_of("encoder")
    found = family.more_answers()["serve_tokens"](tf.constant(request["text"]))
    expected = live_answers(model_folder("encoder"), "encoder", **request)
    compare({key: values.numpy() for key, values in found.items()}, expected)
    assert len({tokens.count("") for tokens in expected["tokens"].tolist()}) > 3  # lengths


BFLOAT16 = ("classes", "plain_tags", "spans", "choices", "masked_lm", "encoder")


@pytest.fixture(scope="module")
def fresh_answers(request, exported, tmp_path_factory):
    """Returns a function: what an export says in a process without this package; one for all."""
    asked = [
        item
        for item in request.session.items
        if item.path == request.path and "fresh_answers" in item.fixturenames
    ]
    keys = [(item.callspec.params["name"], "float32") for item in asked]
    keys += [
        (name, "bfloat16")
        for (name, _), item in zip(keys, asked, strict=True)
        if item.originalname.startswith("test_bfloat16")
    ]
    keys = list(dict.fromkeys(keys))
    requests = [
        (exported(name, dtype), "serving_default", request_of(name)) for name, dtype in keys
    ]
    answers = ask_fresh_process(tmp_path_factory.mktemp("fresh"), requests)
    found = dict(zip(keys, answers, strict=True))
    return lambda name, dtype="float32": found[name, dtype]


@pytest.mark.parametrize("name", some_slow(MODELS, EXPORTED))
def test_exports_say_what_the_graph_says_here(name, fresh_answers, model_folder):
    found, expected = fresh_answers(name), ask(model_folder(name), **request_of(name))
    assert found.keys() == expected.keys()
    for output, values in expected.items():
        np.testing.assert_array_equal(found[output], as_text(values), output)


# Of values of the order of 1. Where products are rounded to 8 bits depends on the processor and on
# shapes, and random weights carry it on: seen on two numbers of a hundred are 0.09 to 0.14, and on
# two of the 21 scores of questions 0.12. Which of two labels or answers wins may depend on it, so
# that numbers alone are compared.
MOST, ALL = 0.1, 0.5


@pytest.mark.half_precision
@pytest.mark.parametrize("name", some_slow(BFLOAT16, ("classes", "masked_lm")))
def test_bfloat16_exports_say_what_the_live_model_in_bfloat16_says(
    name, fresh_answers, exported, model_folder
):
    found, request = fresh_answers(name, "bfloat16"), request_of(name)
    if name == "masked_lm":
        compare_guesses(found, model_folder(name), request)
    else:
        expected = live_answers(model_folder(name), name, "bfloat16", **request)
        numbers = {"spans": ["null_score"], "encoder": ["pooled_output", "mean_pooled"]}
        for output in numbers.get(name, ["scores"]):
            apart = np.abs(np.float32(found[output]) - np.float32(expected[output]))
            assert np.quantile(apart, 0.9) < MOST and apart.max() < ALL, output
            assert not np.array_equal(found[output], fresh_answers(name)[output])
    assert not [output for output, values in found.items() if values.dtype.kind not in "Uif"]
    sizes = [
        sum(file.stat().st_size for file in exported(name, dtype).glob("variables/*.data*"))
        for dtype in ("bfloat16", "float32")
    ]
    # Two bytes less for each weight; those of heads that end in float32 stay.
    model, _ = live_model(model_folder(name), name, "bfloat16")
    halved = sum(math.prod(w.shape) for w in model.weights if w.dtype == "bfloat16")
    assert halved > 4000
    assert sizes[1] - sizes[0] == pytest.approx(2 * halved, rel=0.05)


# The kit of an export in bfloat16 or for oneDNN sets this variable. oneDNN then takes what a matrix
# is multiplied by from the first request for all others: were it none of the weights, the second
# answer would be wrong (seen on a graph that multiplies two inputs and adds a bias).
FROZEN = {"TF_ONEDNN_ASSUME_FROZEN_WEIGHTS": "1"}
EXPORTS_TAKEN_AS_FROZEN = [("classes", "int8_onednn"), ("classes", "bfloat16_onednn")]
EXPORTS_TAKEN_AS_FROZEN += [(name, "bfloat16") for name in BFLOAT16]


@pytest.mark.half_precision
@pytest.mark.parametrize("export", some_slow(EXPORTS_TAKEN_AS_FROZEN, EXPORTS_TAKEN_AS_FROZEN[:1]))
def test_a_second_request_is_answered_where_weights_are_taken_as_frozen(export, exported, tmp_path):
    name, dtype = export
    version, request = exported(name, dtype), request_of(name)
    rows = min(map(len, request.values()))
    first = {key: values[::-1][:rows] for key, values in request.items()}
    both = [(version, "serving_default", {k: v[:rows] for k, v in first.items()})]
    both += [(version, "serving_default", {k: v[:rows] for k, v in request.items()})]
    [before, found] = ask_fresh_process(tmp_path, both, environment=FROZEN)
    [expected] = ask_fresh_process(tmp_path, both[1:])
    for output, values in expected.items():
        if values.dtype.kind == "f":
            apart = np.abs(found[output] - values)
            assert np.quantile(apart, 0.9) < MOST and apart.max() < ALL, output
            # Answers to the first request are others.
            if found[output].shape == before[output].shape:
                assert np.abs(found[output] - before[output]).max() > apart.max(), output


def compare_guesses(found, folder, request):
    """Each guess has the probability of its own token, and is among the likeliest."""
    model, tokenizer = live_model(folder, "masked_lm", "bfloat16")
    for row, text in enumerate(request["text"]):
        ids = packed(tokenizer, pieces_of(tokenizer, [text])[0])
        places = np.flatnonzero(np.equal(ids[0], tokenizer.vocabulary.mask_id))
        assert (found["tokens"][row] != "").any(axis=-1).sum() == len(places)
        if len(places):
            batch = padded([ids], masked_lm_positions=np.int32(places[None]))
            live = softmax(np.float32(model(batch))[0])  # [masks, V]
            for mask, shares in enumerate(live):
                said = [tokenizer.vocabulary.id_of(t) for t in found["tokens"][row, mask]]
                np.testing.assert_allclose(
                    found["probabilities"][row, mask], shares[said], atol=MOST
                )
                assert shares[said].min() > np.sort(shares)[-len(said)] - 0.05
