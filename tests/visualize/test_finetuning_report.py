"""The table, the pictures and the model card of a fine-tuning run, read as a person reads them."""

import json
import re
import shutil
import sys
import warnings

import pytest

from keras_bert.finetuning.result import FinetuningResult
from keras_bert.finetuning.search import Run, SearchResult
from keras_bert.finetuning.task import TASK_FILE, TaskData
from keras_bert.tasks.classification.delimited import csv_task
from keras_bert.visualize.finetuning_report import results_table, write_report

PNG = b"\x89PNG"


def measured(accuracy, collapsed=None, **confusion):
    epochs = (
        {"epoch": 1, "train_loss": 0.7, "validation": {"accuracy": 0.5, "loss": 0.7}},
        {"epoch": 2, "train_loss": 0.4, "validation": {"accuracy": accuracy, "loss": 0.5}},
    )
    metrics = {"validation": {"accuracy": accuracy, "loss": 0.5}}
    confusion = confusion or {"validation": [[3, 1], [0, 4]]}
    return FinetuningResult(2, metrics, epochs, confusion, collapsed, 60, 99)


def runs(*results):
    made = tuple(
        Run({}, seed, result, "the loss is nan" if result is None else result.collapsed)
        for seed, result in enumerate(results)
    )
    return SearchResult(made, made[0])


def test_one_run_is_a_line_for_each_metric():
    lines = results_table(csv_task(), runs(measured(0.75))).splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["split", "metric", "value"],
        ["validation", "accuracy", "0.7500"],
        ["validation", "loss", "0.5000"],
    ]
    assert lines[3] == "best epoch: 2 of 2; 60 s of training, 99 real tokens/s"


def test_collapsed_runs_are_named_and_count_in_no_mean():
    one_class = "all 8 predictions are 'no'"
    result = runs(measured(0.75), measured(0.85), measured(0.5, one_class), None)
    lines = results_table(csv_task(), result).splitlines()
    assert lines[0].split() == "runs split metric mean std median best n".split()
    assert lines[1].split() == "all validation accuracy 0.8000 0.0707 0.8000 0.8500 2".split()
    assert lines[2:5] == [
        "kept: seed=0",
        f"collapsed: seed=2: {one_class}",
        "collapsed: seed=3: the loss is nan",
    ]
    assert "count in no mean; try a lower learning rate" in lines[5]


@pytest.mark.parametrize("with_validation", [True, False])
def test_the_model_card(
    sentiment_run, sentiment_folder, tmp_path, monkeypatch, capsys, with_validation
):
    task = csv_task()
    data = task.read(sentiment_folder)
    if not with_validation:
        data = TaskData({"train": data.splits["train"]}, data.labels)
    shutil.copy(sentiment_run[0] / TASK_FILE, tmp_path)
    monkeypatch.setattr(sys, "argv", ["tools/run_finetuning.py", "--data=my reviews"])
    write_report(tmp_path, task, runs(measured(0.75), None), "my reviews", data)
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "# BERT fine-tuned on csv" in card
    assert "- Data: `my reviews` (768 train" in card
    assert "- Labels: `neg`, `pos`" in card
    assert "- Command: `python tools/run_finetuning.py '--data=my reviews'`" in card
    assert "- Seeds: 0, 1; kept: seed=0" in card
    assert "collapsed: seed=1: the loss is nan" in card
    assert ("those of the best epoch by accuracy on the validation data" in card) == with_validation
    assert ("The weights are those of the last epoch." in card) != with_validation
    for picture in ("learning_curves.png", "confusion_validation.png"):
        assert f"]({picture})" in card
        assert (tmp_path / picture).read_bytes().startswith(PNG)


def test_a_picture_that_cannot_be_drawn_is_named_and_costs_no_other(
    sentiment_run, sentiment_folder, tmp_path, capsys
):
    description = json.loads((sentiment_run[0] / TASK_FILE).read_text(encoding="utf-8"))
    # No formula that matplotlib knows, and none is meant.
    description["labels"] = [r"$\cheap$", "d" + "ea" * 90 + "r"]
    (tmp_path / TASK_FILE).write_text(json.dumps(description), encoding="utf-8")
    task = csv_task()
    result = runs(measured(0.75, train=[[1], [0, 4]], test=[[3, 1], [0, 4]]))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # matplotlib's, where a label takes all room
        write_report(tmp_path, task, result, "prices", task.read(sentiment_folder))
    assert capsys.readouterr().err.startswith("no confusion_train.png: ")
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    drawn = ["learning_curves.png", "confusion_test.png"]
    assert re.findall(r"\]\((\w+\.png)\)", card) == drawn
    assert sorted(drawn) == sorted(path.name for path in tmp_path.glob("*.png"))
