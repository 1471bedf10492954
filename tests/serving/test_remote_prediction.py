"""predict.py of a server. Oracles: predict.py of the folder, and the graph asked directly."""

import csv
import subprocess
import sys

import pytest

from keras_bert.serving.client import RestClient
from keras_bert.serving.remote_prediction import predict_labels_remotely, predict_remotely
from keras_bert.tasks.named_labels import CandidateLabels, EntityLabels
from keras_bert.tasks.predict import predict_file
from tests.conftest import write_csv
from tests.markers import some_long
from tests.serving.rest_server import rest_server
from tests.signatures.tiny_models import ask, random_texts


def read(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def predict(folder, tmp_path, header, rows, batch_size=4):
    write_csv(tmp_path / "in.csv", header, rows)
    with rest_server(folder) as address:
        client = RestClient(address, "tiny")
        predict_remotely(client, tmp_path / "in.csv", tmp_path / "out.csv", batch_size)
    return read(tmp_path / "out.csv")


@pytest.mark.parametrize(
    "name", some_long(["classes", "several", "number", "pairs"], ("several", "number", "pairs"))
)
def test_columns_are_those_of_the_live_model(name, model_folder, tmp_path):
    texts = [f"the {text}" for text in random_texts(9, seed=6)]
    header = ["id", "text", "text_pair"] if name == "pairs" else ["id", "text"]
    rows = [[str(i), text, texts[-i]][: len(header)] for i, text in enumerate(texts)]
    found = predict(model_folder(name), tmp_path, header, rows)
    predict_file(model_folder(name), tmp_path / "in.csv", tmp_path / "live.csv")
    live = read(tmp_path / "live.csv")
    assert len(found) == len(live) == len(rows)
    for ours, theirs in zip(found, live, strict=True):
        assert list(ours) == list(theirs)
        for column, value in theirs.items():
            if column.startswith("score_") or column == "predicted_value":
                assert float(ours[column]) == pytest.approx(float(value), abs=1e-4)
            else:
                assert ours[column] == value


def test_an_entity_is_a_row(model_folder, tmp_path):
    texts = [f"the film {text}" for text in random_texts(9, seed=7)]
    found = predict(model_folder("tags"), tmp_path, ["text"], [[text] for text in texts])
    served = ask(model_folder("tags"), text=texts)
    expected = [
        (text, entity.decode(), label.decode(), str(start), str(end))
        for text, *columns in zip(
            texts, *(served[n] for n in ("entities", "labels", "starts", "ends")), strict=True
        )
        for entity, label, start, end in zip(*columns, strict=True)
        if label
    ]
    columns = ("text", "entity", "predicted_label", "start", "end")
    assert [tuple(row[column] for column in columns) for row in found] == expected
    assert len(expected) > 10


@pytest.mark.slow
def test_answers_and_choices(model_folder, tmp_path):
    header = ["question", "context"]
    found = predict(model_folder("spans"), tmp_path, header, [["the", "a film b"], ["a", "x yy"]])
    served = ask(model_folder("spans"), question=["the", "a"], context=["a film b", "x yy"])
    assert [row["answer"] for row in found] == [answer.decode() for answer in served["answer"]]
    # A column of another name that ends in a number is no choice.
    header = ["context", "choice0", "choice1", "2024"]
    found = predict(model_folder("choices"), tmp_path, header, [["the", "a", "film", "no"]])
    served = ask(model_folder("choices"), context=["the"], choices=[["a", "film"]])
    assert found[0]["predicted_choice"] == str(served["choice"][0])
    assert found[0]["predicted_text"] == served["choice_text"][0].decode()
    assert len(found[0]["scores"].split()) == 2


def test_words_and_an_unanswerable_question_by_hand(tmp_path):
    (tmp_path / "in.csv").write_text("context,choice0\nc,a\n")
    tagged = {"words": ["a", "b", ""], "labels": ["X", "Y", ""], "starts": [0, 2, -1]}
    client = OneAnswer(**tagged, ends=[1, 3, -1], scores=[0.25, 1.0, 0.0])
    predict_remotely(client, tmp_path / "in.csv", tmp_path / "words.csv", 8)
    assert (tmp_path / "words.csv").read_text().split() == [
        "context,choice0,word,predicted_label,start,end,score",
        "c,a,a,X,0,1,0.25",
        "c,a,b,Y,2,3,1",
    ]
    client = OneAnswer(answer="", start=-1, end=-1, score=2 / 3, null_score=12.5)
    predict_remotely(client, tmp_path / "in.csv", tmp_path / "spans.csv", 8)
    assert (tmp_path / "spans.csv").read_text().split() == [
        "context,choice0,answer,score,start,end,null_score",
        "c,a,,0.666667,-1,-1,12.5",
    ]


def test_a_server_is_asked_without_tensorflow():
    script = """
import sys
sys.modules.update(dict.fromkeys(("tensorflow", "keras", "numpy")))  # as if not installed
import keras_bert.serving.client, keras_bert.serving.remote_prediction
"""
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("name", ["a.txt", "a.conll", "a.json"])
def test_other_files_than_tables_are_refused(name, tmp_path):
    (tmp_path / name).write_text("the film\n")
    with pytest.raises(
        ValueError, match=rf"{name} is none of .*: write one with the columns text, "
    ):
        predict_remotely(None, tmp_path / name, tmp_path / "out.csv", 4)
    with pytest.raises(FileNotFoundError, match=r"no.txt does not exist: give a file of .csv, "):
        predict_remotely(None, tmp_path / "no.txt", tmp_path / "out.csv", 4)


def test_other_columns_are_refused(model_folder, tmp_path):
    with pytest.raises(ValueError, match="has the columns a, b; expected are text"):
        predict(model_folder("classes"), tmp_path, ["a", "b"], [["1", "2"]])


@pytest.mark.parametrize(
    ("columns", "sent"),
    [
        ({"context": "body", "question": "title"}, {"question": ["q"], "context": ["b"]}),
        ({"context": "body"}, {"context": ["b"], "question": ["own"]}),
        ({"text": "body"}, {"text": ["b"]}),
        ({"text": "body", "text_pair": "text"}, {"text": ["b"], "text_pair": ["unasked"]}),
    ],
)
def test_columns_of_other_names_are_sent_as_the_inputs(columns, sent, tmp_path):
    (tmp_path / "in.csv").write_text("title,body,text,question,text_pair\nq,b,unasked,own,two\n")
    client = OneAnswer(answer="a", score=1.0, start=0, end=1, null_score=0.0)
    predict_remotely(client, tmp_path / "in.csv", tmp_path / "out.csv", 8, columns)
    assert client.asked == [sent]
    header, row = (tmp_path / "out.csv").read_text().splitlines()
    assert header.startswith("title,body,text,question,text_pair,answer")
    assert row.startswith("q,b,unasked,own,two,a")


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"text": "body"}, "there is no column 'body' among 'a', 'b': name one that is there"),
        ({"label": "a"}, "no column is sent as 'label': .* text, text_pair, question"),
        ({"question": "a"}, "has the columns a, b; expected are text"),
    ],
)
def test_columns_that_make_no_input_are_refused(columns, sentence, tmp_path):
    (tmp_path / "in.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=sentence):
        predict_remotely(OneAnswer(), tmp_path / "in.csv", tmp_path / "out.csv", 8, columns)


def test_a_list_is_no_text_and_no_batch_has_no_row(tmp_path):
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n{"text": ["b", "c"]}\n')
    with pytest.raises(ValueError, match="in.jsonl, line 2: text is a list: give each of its"):
        predict_remotely(OneAnswer(), tmp_path / "in.jsonl", tmp_path / "out.csv", 8)
    for size in (0, -1):
        with pytest.raises(ValueError, match=f"batch_size is {size}: it must be at least 1"):
            predict_remotely(OneAnswer(), tmp_path / "in.jsonl", tmp_path / "out.csv", size)
    assert not (tmp_path / "out.csv").exists()


class OneAnswer:
    """A client that keeps what it is asked and gives every row the same answer."""

    def __init__(self, **answer):
        self.answer, self.asked = answer, []

    def predict(self, inputs, signature="serving_default"):
        self.asked.append(inputs)
        return {
            name: [value] * len(next(iter(inputs.values()))) for name, value in self.answer.items()
        }


def test_labels_are_asked_of_every_text_and_answered_by_hand(tmp_path):
    (tmp_path / "in.txt").write_text("Ada was here\n\n")
    files = (tmp_path / "in.txt", tmp_path / "out.csv")
    scores = {"scores": [0.5, 0.5, 0.0], "multi_label_scores": [0.5, 0.75, 1 / 3]}
    client = OneAnswer(label="a", **scores)
    asked = {"text": ["Ada was here", ""], "labels": [["a", "b", "c"]] * 2}
    for multi_label, expected in (
        (False, "predicted_label,score_a,score_b,score_c\n{},a,0.5,0.5,0"),  # the first of equals
        (True, "predicted_labels,score_a,score_b,score_c\n{},b,0.5,0.75,0.333333"),
    ):
        named = CandidateLabels(["a", "b", "c"], multi_label)
        assert predict_labels_remotely(client, named, *files, 8) == 2
        header, row = expected.split("\n")
        rows = [row.format(text) for text in asked["text"]]
        assert files[1].read_text().splitlines() == [f"text,{header}", *rows]
        assert client.asked.pop() == asked
    found = {"entities": ["Ada", "x", ""], "labels": ["b", "a", ""], "scores": [0.75, 1 / 3, 0.0]}
    client = OneAnswer(starts=[0, 4, -1], ends=[3, 5, -1], **found)
    assert predict_labels_remotely(client, EntityLabels(["a", "b"], 0), *files, 1) == 2
    assert files[1].read_text().splitlines() == [
        "text,entity,predicted_label,start,end,score",
        "Ada was here,Ada,b,0,3,0.75",
        "Ada was here,x,a,4,5,0.333333",
        ",Ada,b,0,3,0.75",
        ",x,a,4,5,0.333333",
    ]
    # A float, which gRPC sends as such.
    assert repr(client.asked[1]) == repr({"text": [""], "labels": [["a", "b"]], "threshold": [0.0]})


def test_scores_that_are_no_numbers_are_refused(tmp_path):
    (tmp_path / "in.txt").write_text("the film\n")
    nan, names = float("nan"), ("entities", "labels", "starts", "ends")
    for named, answer in (
        (CandidateLabels(["a", "b"]), {"scores": [nan, nan], "multi_label_scores": [0.0, 0.0]}),
        (EntityLabels(["a"]), {**dict.fromkeys(names, ["a"]), "scores": [nan]}),
    ):
        with pytest.raises(ValueError, match="the served model answers nan, which is no number"):
            files = (tmp_path / "in.txt", tmp_path / "out.csv")
            predict_labels_remotely(OneAnswer(**answer), named, *files, 8)
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("in.jsonl", '{"context": "c", "choices": ["a", "b"]}\n{"context": "d", "choices": ["e"]}'),
        ("in.csv", "context,choice1,choice0\nc,b,a\nd,,e"),
    ],
)
def test_choices_are_sent_in_the_order_of_their_numbers(name, content, tmp_path):
    (tmp_path / name).write_text(content)
    client = OneAnswer(choice=0, choice_text="a", scores=[0.5, 0.5])
    predict_remotely(client, tmp_path / name, tmp_path / "out.csv", 8)
    assert client.asked == [{"context": ["c", "d"], "choices": [["a", "b"], ["e", ""]]}]
    # A probability for each choice of the row.
    rows = (tmp_path / "out.csv").read_text().splitlines()[1:]
    assert [row.rpartition(",")[2] for row in rows] == ["0.5 0.5", "0.5"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"answer": "a", "score": 1.0, "start": 0, "end": 1, "null_score": 0.0}, "column 'answer'"),
        ({"pooled_output": [0.0], "mean_pooled": [0.0]}, "pooled_output, mean_pooled, which make"),
    ],
)
def test_answers_that_do_not_fit_the_table_are_refused(answer, message, tmp_path):
    (tmp_path / "in.csv").write_text("question,context,answer\nq,c,a")
    with pytest.raises(ValueError, match=message):
        predict_remotely(OneAnswer(**answer), tmp_path / "in.csv", tmp_path / "out.csv", 8)
    assert not (tmp_path / "out.csv").exists()


class LostConnection:
    """A client that answers so many requests and then finds no server."""

    def __init__(self, requests):
        self.left = requests

    def predict(self, inputs, signature="serving_default"):
        if not self.left:
            raise ConnectionError("the server is gone")
        self.left -= 1
        return {"score": [float(text) for text in inputs["text"]]}


def write_numbers(tmp_path):
    write_csv(tmp_path / "in.csv", ["text"], [[str(number)] for number in range(10)])
    return tmp_path / "in.csv", tmp_path / "out" / "out.csv", 4


def test_answers_before_a_lost_connection_are_kept(tmp_path, capsys):
    paths = write_numbers(tmp_path)
    with pytest.raises(ConnectionError, match="the server is gone"):
        predict_remotely(LostConnection(2), *paths)
    assert not paths[1].exists()
    kept = tmp_path / "out" / "out.csv.partial"
    assert [(row["text"], row["predicted_value"]) for row in read(kept)] == [
        (str(number), str(number)) for number in range(8)
    ]
    assert f"{kept} keeps the answers to the first 8 of 10 rows" in capsys.readouterr().err
    # They are not lost by asking again either.
    with pytest.raises(FileExistsError, match="out.csv.partial .* earlier call: move it away"):
        predict_remotely(LostConnection(3), *paths)
    assert len(read(kept)) == 8
    kept.unlink()
    assert predict_remotely(LostConnection(3), *paths) == 10
    assert [path.name for path in paths[1].parent.iterdir()] == ["out.csv"]
    assert len(read(paths[1])) == 10


def test_no_answer_leaves_no_file(tmp_path):
    paths = write_numbers(tmp_path)
    with pytest.raises(ConnectionError):
        predict_remotely(LostConnection(0), *paths)
    assert not any(paths[1].parent.iterdir())
