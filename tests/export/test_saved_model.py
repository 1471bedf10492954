"""Exports answered in a fresh process that has TensorFlow and its text operations alone.

Oracle: the same graph in this process, to the last bit, and the live model.
"""

import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertPreprocessor
from keras_bert.export.options import ExportOptions
from keras_bert.export.saved_model import export_saved_model
from keras_bert.training.choice_head import ChoiceExample
from keras_bert.training.finetuned_model import FinetunedModel
from tests.export.tiny_models import MODELS, ask, random_texts
from tests.markers import some_fast

TEXTS = [
    "it was a GOOD film",
    "the book was very very awful and it was a sad book and a bad film",
    "",
    "naïve \u4e2d\u6587 🙂 [SEP] " + "very " * 200,
]

# Runs outside the repository, isolated from its path.
FRESH_PROCESS = """
import json, sys
import numpy as np, tensorflow as tf, tensorflow_text
folder, requests, answers = sys.argv[1:]
model = tf.saved_model.load(folder)
results = {}
for index, (signature, inputs) in enumerate(json.load(open(requests))):
    tensors = {k: tf.constant(v, tf.int32 if signature == "serve_ids" else tf.string)
               for k, v in inputs.items()}
    for name, value in model.signatures[signature](**tensors).items():
        results[f"{index}/{name}"] = value.numpy()
assert not any(name.split(".")[0] == "keras_bert" for name in sys.modules)
np.savez(answers, **{k: np.char.decode(v.astype("S")) if v.dtype == object else v
                     for k, v in results.items()})
"""
# Strings that each kind of model takes.
REQUESTS = {
    "pairs": {"text": TEXTS, "text_pair": TEXTS[::-1]},
    "choices": {"context": TEXTS, "choices": [["a", "b", ""], ["", "", ""], ["x"] * 3, TEXTS[:3]]},
    "masked_lm": {"text": ["the [MASK] film [MASK]", "none", "", "[MASK] " * 60]},
} | {
    name: {"question": TEXTS, "context": random_texts(3, 1)} for name in ("spans", "spans_or_none")
}


def ask_fresh_process(tmp_path, export, requests, python=sys.executable):
    (tmp_path / "requests.json").write_text(json.dumps(requests))
    files = [tmp_path / "requests.json", tmp_path / "answers.npz"]
    command = [python, "-I", "-c", FRESH_PROCESS, export, *files]
    done = subprocess.run([*map(str, command)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dict(np.load(tmp_path / "answers.npz"))


def as_text(values):
    return np.char.decode(values.astype("S")) if values.dtype == object else values


def live_logits(finetuned, inputs):
    length = finetuned.description.max_seq_length
    batch = BertPreprocessor(finetuned.tokenizer, length, pad_to="longest")(inputs)
    # As a graph for any batch and length, like the signatures: TensorFlow fuses operations by what
    # it knows of the shapes, which changes the last bit.
    signature = {name: tf.TensorSpec([None, None], tf.int32) for name in batch}
    graph = tf.function(lambda ids: finetuned.model(ids, training=False), [signature])
    return batch, graph(batch).numpy()


def test_classes_of_a_trained_model_are_the_live_models(sentiment_run, tmp_path):
    finetuned = FinetunedModel.load(sentiment_run[0])
    export = export_saved_model(sentiment_run[0], tmp_path / "served")
    batch, logits = live_logits(finetuned, TEXTS)
    ids = {name: values.numpy().tolist() for name, values in batch.items()}
    requests = [
        ("serving_default", {"text": TEXTS}),
        ("serve_ids", ids),
        ("serving_default", {"text": []}),
    ]
    answers = ask_fresh_process(tmp_path, export, requests)
    np.testing.assert_array_equal(answers["1/logits"], logits)
    scores = finetuned.description.head.postprocess(logits).numpy()
    np.testing.assert_allclose(answers["0/scores"], scores, atol=1e-6)
    assert answers["0/label"].tolist() == np.array(["neg", "pos"])[logits.argmax(-1)].tolist()
    assert answers["0/label"][:2].tolist() == ["pos", "neg"]
    assert answers["0/labels"].tolist() == [["neg", "pos"]] * 4
    assert answers["2/scores"].shape == (0, 2)
    assert answers["2/label"].shape == (0,)


@pytest.mark.slow  # loads each export in a process of its own
@pytest.mark.parametrize("name", MODELS)
def test_a_fresh_process_answers_as_this_one(name, model_folder, tmp_path):
    request = REQUESTS.get(name, {"text": TEXTS})
    export = export_saved_model(model_folder(name), tmp_path / "served")
    answers = ask_fresh_process(tmp_path, export, [("serving_default", request)])
    for output, values in ask(model_folder(name), **request).items():
        np.testing.assert_array_equal(answers[f"0/{output}"], as_text(values))


def test_several_labels_are_those_above_one_half(model_folder):
    texts = random_texts(30, seed=2)
    live = FinetunedModel.load(model_folder("several")).predict(texts)
    served = ask(model_folder("several"), text=texts)
    np.testing.assert_allclose(served["scores"], live, atol=1e-5)
    names = ("bad", "fine", "good")
    expected = ["|".join(n for n, s in zip(names, row, strict=True) if s > 0.5) for row in live]
    assert [label.decode() for label in served["likely_labels"]] == expected
    assert "label" not in served  # which is one of `labels` where a text has one
    assert {0, 1, 2} <= {label.count("|") + bool(label) for label in expected}


def test_numbers_and_pairs_are_the_live_models(model_folder):
    texts = random_texts(30, seed=2)
    number = FinetunedModel.load(model_folder("number")).predict(texts)
    np.testing.assert_allclose(
        ask(model_folder("number"), text=texts)["score"], number, rtol=1e-5, atol=1e-5
    )
    pairs = FinetunedModel.load(model_folder("pairs")).predict(texts, texts[::-1])
    served = ask(model_folder("pairs"), text=texts, text_pair=texts[::-1])
    np.testing.assert_allclose(served["scores"], pairs, atol=1e-5)
    assert len(set(served["label"])) == 2


def test_choices_are_the_live_models(model_folder):
    contexts = random_texts(20, seed=4)
    choices = [random_texts(2, seed)[1:] + [f"a {seed}"] for seed in range(len(contexts))]
    choices = [[choice for choice in row if choice] for row in choices]
    live = FinetunedModel.load(model_folder("choices")).predict_examples(
        [ChoiceExample(*pair) for pair in zip(contexts, map(tuple, choices), strict=True)]
    )
    padded = [row + [""] * (4 - len(row)) for row in choices]
    served = ask(model_folder("choices"), context=contexts, choices=padded)
    for row, scores in enumerate(live):
        np.testing.assert_allclose(served["scores"][row, : len(scores)], scores, atol=1e-5)
        assert not served["scores"][row, len(scores) :].any()
        assert served["choice"][row] == scores.argmax()
        assert served["choice_text"][row].decode() == choices[row][scores.argmax()]
    none = ask(model_folder("choices"), context=["a"], choices=[["", ""]])
    assert (none["choice"][0], none["choice_text"][0]) == (-1, b"")


@pytest.mark.parametrize("name", some_fast(MODELS, ("classes", "tags", "spans_or_none")))
def test_a_batch_of_mixed_lengths_answers_as_its_members(name, model_folder):
    texts = random_texts(6, seed=9)
    request = {"text": texts}
    if name in REQUESTS:
        request = REQUESTS[name]
    if name.startswith("spans"):
        request = {"question": texts[::-1], "context": texts}
    together = ask(model_folder(name), **request)
    for row in range(len(next(iter(request.values())))):
        alone = ask(model_folder(name), **{key: [texts[row]] for key, texts in request.items()})
        for output, value in alone.items():
            same = (slice(row, row + 1), *(slice(size) for size in value.shape[1:]))
            cut = together[output][same]
            if value.dtype == object:
                assert cut.tolist() == value.tolist()
            else:
                np.testing.assert_allclose(cut, value, rtol=1e-5, atol=1e-5)


def tf_example(**texts):
    """A serialized tf.Example."""
    features = {
        name: tf.train.Feature(
            bytes_list=tf.train.BytesList(
                value=[t.encode() for t in ([text] if isinstance(text, str) else text)]
            )
        )
        for name, text in texts.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


@pytest.mark.slow
def test_questions_of_tf_examples_are_answered_alike(model_folder, tmp_path):
    export = export_saved_model(model_folder("choices"), tmp_path)
    serve = tf.saved_model.load(str(export)).signatures["serve_examples"]
    example = tf_example(context="the film", choices=["a b", "c"])
    expected = ask(model_folder("choices"), context=["the film"], choices=[["a b", "c"]])
    found = serve(examples=tf.constant([example]))
    np.testing.assert_array_equal(found["scores"].numpy(), expected["scores"])


def test_guards_refuse_what_is_too_much(model_folder, tmp_path):
    options = ExportOptions(max_batch=2, max_text_bytes=8)
    export = export_saved_model(model_folder("spans"), tmp_path, options=options)
    model = tf.saved_model.load(str(export))
    serve = model.signatures["serving_default"]

    def answer(questions, contexts):
        return serve(question=tf.constant(questions), context=tf.constant(contexts))

    assert answer(["a"] * 2, ["12345678"] * 2)["answer"].shape == (2,)
    with pytest.raises(tf.errors.InvalidArgumentError, match="holds more than 2 examples"):
        answer(["a"] * 3, ["b"] * 3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="a context is longer than 8 bytes"):
        answer(["a"] * 2, ["b", "\u4e2d\u4e2d\u4e2d"])
    ids = {name: tf.ones([3, 5], tf.int32) for name in ("input_ids", "input_mask", "segment_ids")}
    with pytest.raises(tf.errors.InvalidArgumentError, match="holds more than 2 examples"):
        model.signatures["serve_ids"](**ids)
    ids = {name: tf.ones([2, 25], tf.int32) for name in ids}
    with pytest.raises(tf.errors.InvalidArgumentError, match="has more than 24 positions: cut"):
        model.signatures["serve_ids"](**ids)
    ids = {name: values[:, :24] for name, values in ids.items()}
    assert model.signatures["serve_ids"](**ids)["start_logits"].shape == (2, 24)
    for contexts, sentence in ((["b"] * 3, "more than 2 examples"), (["b" * 9], "than 8 bytes")):
        examples = tf.constant([tf_example(question="a", context=text) for text in contexts])
        with pytest.raises(tf.errors.InvalidArgumentError, match=sentence):
            model.signatures["serve_examples"](examples=examples)


def test_versions_count_up_and_are_never_overwritten(model_folder, tmp_path):
    folder = model_folder("number")
    assert export_saved_model(folder, tmp_path, version=4).name == "4"
    before = (tmp_path / "4" / "saved_model.pb").stat().st_mtime_ns
    with pytest.raises(ValueError, match="holds version 4: give another --version"):
        export_saved_model(folder, tmp_path, version=4)
    with pytest.raises(ValueError, match="version is 0"):
        export_saved_model(folder, tmp_path, version=0)
    assert export_saved_model(folder, tmp_path).name == "5"
    assert (tmp_path / "4" / "saved_model.pb").stat().st_mtime_ns == before


def test_only_folders_of_exports_are_exported_to(model_folder, tmp_path):
    for name in ("number", "encoder"):
        before = sorted(path.name for path in model_folder(name).iterdir())
        with pytest.raises(FileExistsError, match="holds something else than exports"):
            export_saved_model(model_folder("number"), model_folder(name))
        assert sorted(path.name for path in model_folder(name).iterdir()) == before
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError, match="holds something else than exports"):
        export_saved_model(model_folder("number"), tmp_path / "file")
    for odd in ("my reviews", "r\u00e9views", 'a"b'):
        with pytest.raises(ValueError, match="names the served model"):
            export_saved_model(model_folder("number"), tmp_path / odd)


def test_a_text_without_its_pair_is_refused(model_folder):
    with pytest.raises(tf.errors.InvalidArgumentError, match="every text needs its text_pair"):
        ask(model_folder("pairs"), text=["a", "b"], text_pair=["c"])


def test_lengths_without_room_for_a_context_are_refused(model_folder, tmp_path):
    with pytest.raises(ValueError, match="leave no room for the context"):
        export_saved_model(
            model_folder("spans"), tmp_path / "served", options=ExportOptions(max_seq_length=9)
        )


def test_what_cannot_be_exported_is_refused(model_folder, tmp_path):
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        export_saved_model(tmp_path / "nothing", tmp_path / "served")
    with pytest.raises(ValueError, match="BertEncoder, which has no masked language model head"):
        export_saved_model(model_folder("encoder"), tmp_path / "served", head="masked_lm")
    with pytest.raises(ValueError, match="max_seq_length is 25 but .* 24 positions"):
        export_saved_model(
            model_folder("encoder"), tmp_path / "served", options=ExportOptions(max_seq_length=25)
        )
    with pytest.raises(
        ValueError, match="dtype is 'float16': choose one of float32, bfloat16, int8"
    ):
        ExportOptions(dtype="float16")
    assert not (tmp_path / "served").exists()
