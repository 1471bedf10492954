"""Multiple choice: files written here in the published formats, and a task that can be learned."""

import csv
import json
import random

import numpy as np
import pytest
import tensorflow_datasets as tfds

from keras_bert.finetuning.finetune import finetune
from keras_bert.finetuning.options import FinetuningOptions
from keras_bert.tasks.multiple_choice.choice_files import (
    choice_task,
    read_choices,
    read_choices_to_predict,
    swag_task,
)
from keras_bert.tasks.multiple_choice.head import ChoiceCrossentropy, ChoiceExample, ChoiceHead
from keras_bert.tasks.predict import predict_file
from tests.tasks.tfds_on_disk import write_data_set
from tests.tolerances import FORMULA, approx

SWAG = (
    ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label\n"
    '0,v1,7,"Someone sits, he",Someone sits down.,He,gold,stands.,"sings, loud.",eats.,runs.,1\n'
)


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_swag_is_read_as_distributed(tmp_path):
    write(tmp_path / "train.csv", SWAG)
    write(tmp_path / "val.csv", SWAG)
    without_label = "\n".join(line.rpartition(",")[0] for line in SWAG.splitlines())
    write(tmp_path / "test.csv", without_label)
    data = swag_task().read(tmp_path)
    choices = ("He stands.", "He sings, loud.", "He eats.", "He runs.")
    example = ChoiceExample("Someone sits down.", choices, 1)
    assert data.splits["train"] == data.splits["validation"] == [example]
    assert data.splits["test"] == [ChoiceExample("Someone sits down.", choices)]


def test_one_string_is_no_choices():
    with pytest.raises(ValueError, match="choices is the string 'ab', which would be"):
        ChoiceExample("c", "ab", 0)
    with pytest.raises(ValueError, match="choice 1 .counted from 0. is a NoneType: give strings"):
        ChoiceExample("c", ("a", None))
    assert ChoiceExample("c", ["a", "b"]) == ChoiceExample("c", ("a", "b"))


def test_rows_have_their_own_number_of_choices(tmp_path):
    table = write(
        tmp_path / "a.csv", "context,choice0,choice1,choice2,label\nc,x,y,,1\nd,x,y,z,2\n"
    )
    assert read_choices(table) == [
        ChoiceExample("c", ("x", "y"), 1),
        ChoiceExample("d", ("x", "y", "z"), 2),
    ]
    rows = [
        {"context": "c", "choices": ["x", "y", "z"], "label": 0},
        {"context": "d", "choices": ["x", "y", ""], "label": 1},
    ]
    lines = write(tmp_path / "b.jsonl", "\n".join(json.dumps(row) for row in rows))
    assert read_choices(lines) == [
        ChoiceExample("c", ("x", "y", "z"), 0),
        ChoiceExample("d", ("x", "y"), 1),
    ]


@pytest.mark.parametrize("label", ["", "7", "no"])
def test_labels_of_choices_to_predict_are_not_looked_at(tmp_path, label):
    table = write(tmp_path / "a.csv", f"context,choice0,choice1,label\nc,x,y,{label}\n")
    assert read_choices_to_predict(table, None).examples == [ChoiceExample("c", ("x", "y"))]
    swag = write(tmp_path / "swag.csv", SWAG.replace(",1\n", f",{label}\n"))
    (example,) = swag_task().read_for_prediction(swag, None).examples
    assert example.label is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("context,choice0,label\nc,x,0\n", "line 2: there are 1 choices: give at least two"),
        ("context,choice0,choice1,label\nc,x,y,2\n", "line 2: the label is '2' but the choices"),
        ("context,choice0,choice1,label\nc,x,y,b\n", "line 2: the label is 'b' but the choices"),
        ("context,choice0,choice1,label\nc,x,y,\n", "line 2: the label is empty"),
        ("context,choice0,choice1,choice2,label\nc,x,,y,0\n", "line 2: choice 1 is empty but"),
        ("context,choice0,choice1\nc,x,y\n", "there is no column 'label'"),
        ("text,choice0,choice1,label\nc,x,y,0\n", "there is no column 'context'"),
        ("context,choices,label\nc,x,0\n", "line 2: choices is 'x': expected a JSON list"),
        ("context,choice1,choice2,label\nc,x,y,1\n", "has the columns choice1, choice2: name them"),
        ("context,choice0,choice_1,choice2,label\nc,x,y,z,1\n", "columns choice0, choice2: name"),
    ],
)
def test_broken_tables_are_refused(tmp_path, text, sentence):
    write(tmp_path / "train.csv", text)
    with pytest.raises(ValueError, match=f"train.csv.*{sentence}"):
        choice_task().read(tmp_path)


def test_the_loss_leaves_missing_choices_out():
    # Two choices of three, scores 0 and log 3: probabilities 1/4 and 3/4.
    scores = np.array([[0.0, np.log(3.0), 99.0]], np.float32)
    targets = np.array([[1, 0, -1]])
    assert float(ChoiceCrossentropy()(targets, scores)) == approx(np.log(4.0), FORMULA)
    # Smoothed by 0.2: 0.9 of the first and 0.1 of the second.
    expected = -0.9 * np.log(0.25) - 0.1 * np.log(0.75)
    assert float(ChoiceCrossentropy(0.2)(targets, scores)) == approx(expected, FORMULA)


def test_one_choice_alone_teaches_nothing():
    examples = [ChoiceExample("c", ("a", "b"), 1), ChoiceExample("c", ("a",), 0)]
    with pytest.raises(ValueError, match="example 1 .* of the split 'train' has one choice: give"):
        ChoiceHead().check_labels(examples, "train")


def test_guessing_has_a_loss_where_all_have_as_many_choices():
    four = ChoiceExample("c", ("a", "b", "c", "d"), 0)
    assert ChoiceHead().chance_loss([four] * 3) == pytest.approx(np.log(4))
    assert ChoiceHead().chance_loss([four, ChoiceExample("c", ("a", "b"), 0)]) is None


def examples(count, seed):
    """The right choice is the only kind one."""
    draw = random.Random(seed)
    for _ in range(count):
        size = draw.randint(2, 4)
        choices = [f"a {draw.choice(['bad', 'awful', 'sad'])} film" for _ in range(size)]
        label = draw.randrange(size)
        choices[label] = f"a {draw.choice(['good', 'great'])} film"
        yield [" ".join(["it was"] * draw.randint(1, 3)), *choices, *[""] * (4 - size), label]


@pytest.fixture(scope="module")
def run(pretrained_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("choices")
    header = ["context", "choice0", "choice1", "choice2", "choice3", "label"]
    for seed, (split, count) in enumerate({"train": 256, "dev": 64, "test": 32}.items()):
        with open(folder / f"{split}.csv", "w", encoding="utf-8", newline="") as file:
            rows = [row if split != "test" else row[:-1] for row in examples(count, seed)]
            csv.writer(file).writerows([header if split != "test" else header[:-1], *rows])
    task = choice_task()
    options = FinetuningOptions(
        epochs=5, batch_size=16, learning_rate=3e-3, mixed_precision="float32"
    )
    result = finetune(task, task.read(folder), pretrained_folder, folder / "run", options)
    return folder, result


def test_choices_are_learned(run):
    folder, result = run
    assert result.validation["accuracy"] > 0.9
    assert result.collapsed is None
    assert "test" not in result.metrics  # it has no labels
    with open(folder / "run" / "predictions_test.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 32
    kind = [row["predicted_text"].split()[1] in ("good", "great") for row in rows]
    assert np.mean(kind) > 0.9


def test_a_file_of_choices_is_answered(run, tmp_path):
    folder, _ = run
    source = write(tmp_path / "in.csv", "id,context,choice0,choice1,choice2\n9,it was,bad,good,\n")
    predict_file(folder / "run", source, tmp_path / "out.csv")
    with open(tmp_path / "out.csv", encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["id"], row["predicted_choice"], row["predicted_text"]) == ("9", "1", "good")
    assert sum(map(float, row["scores"].split())) == pytest.approx(1.0, abs=1e-4)
    assert len(row["scores"].split()) == 2


def test_swag_of_tensorflow_datasets(tmp_path):
    names = ("sent1", "sent2", "ending0", "ending1", "ending2", "ending3")
    features = {name: tfds.features.Text() for name in names}
    features["label"] = tfds.features.ClassLabel(names=["0", "1", "2", "3"])
    entry = dict(zip(names, ["She sits.", "She", "é", "b", "c", "d"], strict=True))
    splits = {"train": [entry | {"label": 2}], "test": [entry | {"label": -1}]}
    write_data_set(tmp_path, "tiny_swag", features, splits)
    choices = ("She é", "She b", "She c", "She d")
    assert swag_task().read("tfds:tiny_swag").splits == {
        "train": [ChoiceExample("She sits.", choices, 2)],
        "test": [ChoiceExample("She sits.", choices)],
    }


def test_predictions_of_swag_are_indices(tmp_path):
    scores = [np.array([0.1, 0.2, 0.6, 0.1]), np.array([0.7, 0.1, 0.1, 0.1])]
    (path,) = swag_task().write_submission(tmp_path, None, {"test": scores})
    assert path.name == "pred_test.csv"
    assert path.read_text() == "pred\n2\n0\n"
