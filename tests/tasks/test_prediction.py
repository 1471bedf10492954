"""Predictions for a file. Oracle: the model called by hand on one text at a time."""

import csv
import json
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert import (
    BertClassifier,
    BertPreprocessor,
    BertTokenizer,
    FinetunedEnsemble,
    FinetunedModel,
    TaskData,
    create_task,
)
from keras_bert.serving.remote_prediction import predict_remotely
from keras_bert.tasks.classification.head import LabeledTexts
from keras_bert.tasks.kinds import KINDS
from keras_bert.tasks.multiple_choice.head import ChoiceExample
from keras_bert.tasks.predict import predict_file
from keras_bert.tasks.question_answering.questions import Answer, Question
from keras_bert.tasks.tagging.sentences import TaggedSentence
from tests.signatures.tiny_models import write_model
from tests.tolerances import REORDERED

TEXTS = ["it was a good film", "the book was very very awful and it was a sad book", "", "bad"]


def read(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def logits_one_by_one(folder, texts):
    model = BertClassifier.from_preset(folder, dtype="float32")
    preprocess = BertPreprocessor(BertTokenizer.from_preset(folder), max_seq_length=64)
    return np.concatenate([model(preprocess(text), training=False) for text in texts])


def test_classes_get_their_label_and_a_score_for_each(sentiment_run, tmp_path):
    folder, _ = sentiment_run
    source, target = tmp_path / "new.tsv", tmp_path / "out.csv"
    lines = [f"{i}\t{text}\n" for i, text in enumerate(TEXTS)]
    source.write_text("id\ttext\n" + "".join(lines))
    assert predict_file(folder, source, target, batch_size=3) == 4
    rows = read(target)
    assert list(rows[0]) == ["id", "text", "predicted_label", "score_neg", "score_pos"]
    assert [(row["id"], row["text"]) for row in rows] == list(zip("0123", TEXTS, strict=True))
    assert [rows[i]["predicted_label"] for i in (0, 1, 3)] == ["pos", "neg", "neg"]
    scores = [[float(row["score_neg"]), float(row["score_pos"])] for row in rows]
    odds = np.exp(logits_one_by_one(folder, [[text] for text in TEXTS]))
    expected = odds / odds.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(scores, expected, **REORDERED)


def test_a_text_file_has_a_text_a_line(single, pair_regression_run, model_folder, tmp_path):
    source, target = tmp_path / "new.txt", tmp_path / "out.csv"
    source.write_text("the film\n\na, b\n")
    assert predict_file(model_folder("classes"), source, target) == 3
    rows = read(target)
    assert [row["text"] for row in rows] == ["the film", "", "a, b"]
    scores = [[float(row[f"score_{label}"]) for label in ("bad", "fine", "good")] for row in rows]
    np.testing.assert_allclose(scores, single.predict(["the film", "", "a, b"]), rtol=1e-5)
    with pytest.raises(ValueError, match="new.txt is not one of .csv, .tsv, .jsonl: write a table"):
        predict_file(pair_regression_run, source, target)
    with pytest.raises(ValueError, match=" is a folder: give a file of .csv, .tsv, .jsonl"):
        predict_file(model_folder("classes"), tmp_path, target)


def test_regression_of_pairs_gets_a_value(pair_regression_run, tmp_path):
    source, target = tmp_path / "new.jsonl", tmp_path / "out.csv"
    source.write_text(
        '{"text": "it was good", "text_pair": "a sad, sad book"}\n'
        '{"text": "the film", "text_pair": "nice", "note": [1]}\n'
    )
    predict_file(pair_regression_run, source, target)
    rows = read(target)
    assert list(rows[0]) == ["text", "text_pair", "note", "predicted_value"]
    assert [row["note"] for row in rows] == ["", "[1]"]
    pairs = [(["it was good"], ["a sad, sad book"]), (["the film"], ["nice"])]
    expected = logits_one_by_one(pair_regression_run, pairs)[:, 0]
    np.testing.assert_allclose(
        [float(row["predicted_value"]) for row in rows], expected, **REORDERED
    )


@pytest.fixture(scope="module")
def single(model_folder):
    return FinetunedModel.load(model_folder("classes"))


def test_a_string_is_no_list_of_texts(single, tmp_path):
    with pytest.raises(ValueError, match="texts is the string 'film': give a list, also of one"):
        single.predict("film")
    assert single.predict(["film"]).shape == (1, 3)
    pairs = FinetunedModel.load(write_model(tmp_path / "pairs", "pairs"))
    with pytest.raises(ValueError, match="text_pairs is the string 'good': give a list"):
        pairs.predict(["film", "book", "it", "was"], "good")
    with pytest.raises(
        ValueError, match="words is the string 'A film', which would be read letter"
    ):
        TaggedSentence("A film")
    with pytest.raises(ValueError, match="tags is the string 'OO', .*: give a list of tags"):
        TaggedSentence(("A", "film"), "OO")


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        # Letters would be choices, and other spellings of an answer: "sang" four of them.
        (lambda: ChoiceExample("She", "sang"), "choices is the string 'sang', which would be read"),
        (lambda: ChoiceExample("She", ()), "^'She' has no choices: give at least two$"),
        (lambda: ChoiceExample("She", ("a", None)), r"^choice 1 .* is a NoneType: give strings$"),
        (lambda: ChoiceExample(None, ("a", "b")), "^the context is a NoneType: give a string$"),
        (lambda: TaggedSentence(()), "^the sentence has no words: give at least one"),
        (lambda: TaggedSentence(("A", 3)), r"^word 1 \(counted from 0\) is a int: give strings$"),
        (lambda: Question("1", "Who?", None), "^the context is a NoneType: give a string$"),
        (lambda: Question("1", ["Who?"], "A film"), "^the question is a list: give a string$"),
        (lambda: Question("1", "Who?", "A film", aliases="film"), "aliases is the string 'film', "),
        (lambda: Question("1", "Who?", "A film", Answer("A", 0)), "^answers is one Answer: give a"),
        (
            lambda: Question("1", "Who?", "A film", [("A", 0)]),
            r"^answer 0 .* is a tuple: give Answer\(text, start\), with the character",
        ),
    ],
)
def test_what_is_no_example_is_named(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_examples_are_read_as_files_are():
    # A half of a pair of surrogates is U+FFFD, bytes are UTF-8, lists are tuples.
    half, read = "a\ud800", "a\ufffd"
    assert ChoiceExample(half, [b"a", half]) == ChoiceExample(read, ("a", read))
    assert TaggedSentence([half, b"a"], ["O", "O"]) == ((read, "a"), ("O", "O"), 0, 0)
    expected = Question("1", read, read, (Answer("a", 0),), (read,))
    assert Question("1", half, half, [Answer("a", 0)], [half]) == expected


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        (
            [("film", "book")],
            r"^text 0 \(counted from 0\) is a tuple: give strings; .* text_pairs$",
        ),
        (["film", ["a", "b"]], r"^text 1 .* is a list: give strings; .* go in text_pairs$"),
        (np.array([["a", "b"]]), r"^text 0 .* is a ndarray: give strings; .* go in text_pairs$"),
        (tf.constant([["a", "b"]]), r"^text 0 .* is a list: give strings; .* go in text_pairs$"),
        (["film", None], r"^text 1 \(counted from 0\) is a NoneType: give strings$"),
        ([3], r"^text 0 \(counted from 0\) is a int: give strings$"),
        (tf.constant("film"), "^texts is one string, which would be read letter by letter"),
    ],
)
def test_what_is_no_text_is_named(texts, sentence, single):
    with pytest.raises(ValueError, match=sentence):
        single.predict(texts)
    with pytest.raises(ValueError, match=sentence.replace("^text ", "^second text ")):
        LabeledTexts(["film", "book"], texts)


def test_arrays_and_tensors_are_texts_as_lists_are(single):
    expected = single.predict(["film", "a"])
    for given in (np.array(["film", "a"]), tf.constant(["film", "a"]), [b"film", "a"]):
        np.testing.assert_array_equal(single.predict(given), expected)
    assert single.predict(tf.constant([], tf.string)).shape == (0, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_other_examples_than_those_of_a_head_are_named(kind):
    head = KINDS[kind].head()
    form = re.escape(head.example_form)
    name = re.match(r"\w+", head.example_form)[0]
    assert hasattr(keras_bert, name)
    for wrong in (["film"], [["film"]], [{"text": "film"}], [None]):
        with pytest.raises(ValueError, match=f"is a .*: give (a list of )?{form}$"):
            head.check_examples(wrong)


def test_examples_are_checked_before_they_are_read(
    single, model_folder, pretrained_folder, tmp_path
):
    tagger = FinetunedModel.load(model_folder("tags"))
    both = [model_folder("tags"), write_model(tmp_path, "tags", seed=1)]
    expected = r"example 0 \(counted from 0\) is a list: give a list of TaggedSentence\(words\)"
    for model in (tagger, FinetunedEnsemble.load(both)):
        with pytest.raises(ValueError, match=expected):
            model.predict_examples([["a", "film"]])
        with pytest.raises(
            ValueError, match=r"^predict answers texts, .* of TaggedSentence\(words\)"
        ):
            model.predict(["a film"])
    data = TaskData({"test": [["a", "film"]]}, labels=tagger.description.labels)
    with pytest.raises(ValueError, match=expected):
        tagger.measure({}, data)
    with pytest.raises(
        ValueError, match="examples is one TaggedSentence: give a list, also of one"
    ):
        tagger.predict_examples(TaggedSentence(("a", "film")))
    data = TaskData({"train": [["a", "film"]]}, labels=("O", "B-PER"))
    with pytest.raises(ValueError, match=expected):
        FinetunedModel.from_task(create_task("conll"), data, pretrained_folder)
    with pytest.raises(ValueError, match=r"^examples is a list: give LabeledTexts\(texts\)$"):
        single.predict_examples(["a film"])


def test_pairs_are_asked_of_models_of_pairs(pair_regression_run, sentiment_run):
    with pytest.raises(ValueError, match="trained on pairs of texts: give text_pairs"):
        FinetunedModel.load(pair_regression_run).predict(["the film"])
    with pytest.raises(ValueError, match="trained on texts: leave out text_pairs"):
        FinetunedModel.load(sentiment_run[0]).predict(["the film"], ["it was good"])


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("body\na\n", "there is no column 'text' among 'body': the model was trained on"),
        ("text,score_pos\na,1\n", "has a column 'score_pos', which the predictions add"),
    ],
)
def test_a_refused_input_leaves_the_output_as_it_was(sentiment_run, tmp_path, content, sentence):
    source, target = tmp_path / "new.csv", tmp_path / "out.csv"
    source.write_text(content)
    target.write_text("before")
    with pytest.raises(ValueError, match=sentence):
        predict_file(sentiment_run[0], source, target)
    assert target.read_text() == "before"


def test_the_input_is_not_written_over(sentiment_run, tmp_path):
    source = tmp_path / "new.csv"
    source.write_text("text\ngood\n")
    (tmp_path / "link.csv").symlink_to(source)
    (tmp_path / "hard.csv").hardlink_to(source)
    for name in ("new.csv", "link.csv", "hard.csv", "../" + tmp_path.name + "/new.csv"):
        with pytest.raises(ValueError, match=r"output is .*, the same file as .*new.csv: choose"):
            predict_file(sentiment_run[0], source, tmp_path / name)
        with pytest.raises(ValueError, match=r"output is .*, the same file as .*new.csv: choose"):
            predict_remotely(None, source, tmp_path / name, 8)
    assert source.read_text() == "text\ngood\n"


# One of each form of outputs: of texts, of positions, of a dict, of choices.
ASKED = {
    "classes": ["a film", "ab"],
    "tags": [TaggedSentence(("the", "film")), TaggedSentence(("ab",))],
    "spans": [Question("1", "a film", "the film ab")],
    "choices": [ChoiceExample("a", ("b", "c")), ChoiceExample("a", ("b", "c", "the film"))],
}


@pytest.mark.parametrize("name", ASKED)
def test_answers_that_are_no_numbers_are_refused(name, model_folder):
    model = FinetunedModel.load(model_folder(name))
    examples = LabeledTexts(ASKED[name]) if name == "classes" else ASKED[name]
    assert len(model.predict_examples(examples)) == len(examples)
    weight = model.model.trainable_weights[-1]  # the bias of the head
    for value in (np.nan, np.inf):
        weight.assign(np.full(weight.shape, value))
        with pytest.raises(ValueError, match=f"^the model answers {value}, which is no number"):
            model.predict_examples(examples)


def test_no_table_is_written_of_what_is_no_number(sentiment_run, tmp_path):
    folder, source, target = tmp_path / "run", tmp_path / "new.csv", tmp_path / "out.csv"
    shutil.copytree(sentiment_run[0], folder)
    model = FinetunedModel.load(folder)
    model.model.encoder.get_layer("embeddings").trainable_weights[0].assign_add(
        np.full([1, 1], np.nan)
    )
    model.save(folder, overwrite=True)
    source.write_text("text\nit was good\n")
    with pytest.raises(ValueError, match="^the model answers nan, which is no number"):
        predict_file(folder, source, target)
    assert not target.exists()


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("task", None, "task is None; expected is a string: "),
        ("head", None, "head is None; expected is an object: "),
        ("head", {"kind": ["x"]}, r"names the kind of head \['x'\]; expected one of text, "),
        ("head", {"kind": "text", "label_type": "zzz"}, "text head: label_type is 'zzz': choose"),
        ("head", {"kind": "tag", "lstm_width": "x"}, "tag head: lstm_width is 'x': it must be a "),
        ("head", {"kind": "tag", "width": 8}, "tag head: .*unexpected keyword argument 'width'"),
        ("labels", None, "labels is None; expected is a list of strings: "),
        ("labels", "ab", "labels is 'ab'; expected is a list of strings: "),
        ("labels", [1, 2], r"labels is \[1, 2\]; expected is a list of strings: "),
        ("text_columns", None, "text_columns is None; expected is an object of strings: "),
        ("text_columns", {"text": 1}, "text_columns is {'text': 1}; expected is an object of "),
        ("max_seq_length", "x", "max_seq_length is 'x'; expected is a whole number above 0: "),
        ("max_seq_length", 0, "max_seq_length is 0; expected is a whole number above 0: "),
        ("max_seq_length", True, "max_seq_length is True; expected is a whole number above 0: "),
    ],
)
def test_a_damaged_description_is_told_with_its_field(
    sentiment_run, tmp_path, field, value, sentence
):
    content = json.loads((sentiment_run[0] / "task.json").read_text())
    (tmp_path / "task.json").write_text(json.dumps(content | {field: value}))
    with pytest.raises(ValueError, match=rf"task\.json\W+{sentence}.*fine-tune the model anew$"):
        FinetunedModel.load(tmp_path)


def test_a_folder_that_is_not_a_finished_run_is_refused(pretrained_folder, tmp_path):
    source = tmp_path / "new.csv"
    source.write_text("text\na\n")
    with pytest.raises(FileNotFoundError, match="task.json does not exist: give the --model_dir"):
        predict_file(pretrained_folder, source, tmp_path / "out.csv")
