"""Reranking: passages of a text as choices, measured by ranks worked out by hand."""

import csv
import json
import math

import numpy as np
import pytest

from keras_bert import CrossEncoder, FinetuningOptions, create_task, finetune
from keras_bert.finetuning.task import TaskData
from keras_bert.tasks.multiple_choice.head import ChoiceExample
from keras_bert.tasks.predict import predict_file
from tests.conftest import FILLER, NEGATIVE, POSITIVE, write_csv

COLUMNS = ["text", "positive", "negative0", "negative1"]


def read(folder, rows, columns=COLUMNS, **arguments):
    write_csv(folder / "train.csv", columns, rows)
    return create_task("reranking", **arguments).read(folder).splits["train"]


def test_the_right_passage_stands_at_every_place(tmp_path):
    rows = [("a", "b", "c", "d"), ("e", "f", "g", "h"), ("m", "n", "o", ""), ("i", "j", "k", "l")]
    assert read(tmp_path, [*rows, ("p", "q", "r", "")]) == [
        ChoiceExample("a", ("b", "c", "d"), 0),
        ChoiceExample("e", ("g", "f", "h"), 1),
        ChoiceExample("m", ("n", "o"), 0),  # the first row of two passages
        ChoiceExample("i", ("k", "l", "j"), 2),
        ChoiceExample("p", ("r", "q"), 1),
    ]


def test_another_answer_of_the_text_is_not_wrong(tmp_path):
    rows = [("a", "b", "c", "d"), ("a", "c", "d", "d"), ("e", "c", "b", "d")]
    assert read(tmp_path, rows) == [
        ChoiceExample("a", ("b", "d"), 0),
        ChoiceExample("a", ("d", "c"), 1),
        ChoiceExample("e", ("c", "b", "d"), 0),
    ]


def test_columns_have_other_names_and_lists(tmp_path):
    row = {"question": "a", "answer": "b", "negative": ["c", "d"]}
    (tmp_path / "train.jsonl").write_text(json.dumps(row) + "\n")
    task = create_task("reranking", text_column="question", positive_column="answer")
    assert task.read(tmp_path).splits["train"] == [ChoiceExample("a", ("b", "c", "d"), 0)]


@pytest.mark.parametrize(
    ("columns", "row", "sentence"),
    [
        (COLUMNS, ("a", "b", "", ""), "train.csv, line 2: there is no wrong answer"),
        (COLUMNS, ("a", "b", "b", ""), "train.csv, line 2: there is no wrong answer"),
        (
            COLUMNS[:2],
            ("a", "b"),
            "there is no wrong answer .* fill a column negative, or let",
        ),
        (COLUMNS, ("a", "", "c", ""), "line 2: positive is empty"),
        (["text", "negative0"], ("a", "b"), "positive"),
    ],
)
def test_bad_tables_are_refused(columns, row, sentence, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        read(tmp_path, [row], columns)
    with pytest.raises(ValueError, match="is a TFDS set: this task reads files"):
        create_task("reranking").read("tfds:swag")


def test_metrics_of_ranks():
    metrics = create_task("reranking").metrics
    assert [*metrics] == ["ndcg_at_10", "mrr_at_10", "accuracy"]
    # Ranks of the right one: 1, 3, 2 (of two equal ones it is the last), and 12.
    last = np.linspace(0.9, 0.1, 12)
    scores = [np.array([0.7, 0.2, 0.1]), np.array([0.5, 0.2, 0.3]), np.array([0.5, 0.5]), last]
    right = [0, 1, 0, 11]
    found = {name: metric(scores, right) for name, metric in metrics.items()}
    assert found["mrr_at_10"] == pytest.approx((1 + 1 / 3 + 1 / 2 + 0) / 4)
    assert found["ndcg_at_10"] == pytest.approx((1 + 1 / 2 + 1 / math.log2(3) + 0) / 4)
    assert found["accuracy"] == 0.25
    assert metrics["mrr_at_10"]([np.array([math.nan, 0.1])], [0]) == 0.5


def matches(count, seed):
    """Texts, passages with a good word, and two with a bad one."""
    draw = np.random.default_rng(seed)
    return [
        (
            f"a film was {draw.choice(FILLER)}",
            f"the book {draw.choice(POSITIVE)}",
            *(f"the book {word}" for word in draw.choice(NEGATIVE, 2, replace=False)),
        )
        for _ in range(count)
    ]


def test_a_run_learns_which_passage_answers(without_dropout, tmp_path):
    data = tmp_path / "data"
    for split, count in {"train": 200, "dev": 30, "test": 60}.items():
        write_csv(data / f"{split}.csv", COLUMNS, matches(count, seed=count + len(split)))
    task = create_task("reranking")
    options = FinetuningOptions(
        epochs=3,
        batch_size=16,
        learning_rate=3e-3,
        max_seq_length=16,
        mixed_precision="float32",
        seed=5,
    )
    result = finetune(task, task.read(data), without_dropout, tmp_path / "run", options)
    assert result.metrics["test"]["accuracy"] > 0.9
    assert result.metrics["test"]["ndcg_at_10"] > 0.9
    # A file to be predicted keeps the order of its columns: the positive is choice 0.
    predict_file(tmp_path / "run", data / "test.csv", tmp_path / "found.csv")
    with open(tmp_path / "found.csv", newline="") as file:
        rows = [*csv.DictReader(file)]
    chosen = [row["predicted_choice"] for row in rows]
    assert chosen.count("0") / len(chosen) == pytest.approx(result.metrics["test"]["accuracy"])
    # And the same model scores pairs.
    cross_encoder = CrossEncoder.from_preset(tmp_path / "run")
    texts = [row["text"] for row in rows for _ in COLUMNS[1:]]
    scores = cross_encoder.scores(texts, [row[name] for row in rows for name in COLUMNS[1:]])
    best = scores.reshape(-1, 3).argmax(axis=1)
    assert [str(place) for place in best] == chosen


def test_a_row_of_one_passage_is_not_predicted(without_dropout, tmp_path):
    task = create_task("reranking")
    examples = [ChoiceExample("a film", ("good", "bad"), 0)] * 4
    data = TaskData({"train": examples}, text_columns={"text": "text", "positive": "positive"})
    options = FinetuningOptions(epochs=1, batch_size=4, max_seq_length=16)
    finetune(task, data, without_dropout, tmp_path / "run", options)
    write_csv(tmp_path / "one.csv", COLUMNS, [("a", "b", "", "")])
    with pytest.raises(ValueError, match="line 2: there is one passage alone: add a column"):
        predict_file(tmp_path / "run", tmp_path / "one.csv", tmp_path / "found.csv")
