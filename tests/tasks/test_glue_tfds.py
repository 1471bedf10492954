"""Texts of TensorFlow Datasets, from small data sets with the features of GLUE's on disk."""

import numpy as np
import pytest
import tensorflow_datasets as tfds

from keras_bert.tasks.classification.delimited import csv_task
from keras_bert.tasks.classification.glue import glue_task
from tests.tasks.tfds_on_disk import write_data_set

TEXT = tfds.features.Text()
SENTIMENT = tfds.features.ClassLabel(names=["negative", "positive"])
INFERENCE = tfds.features.ClassLabel(names=["entailment", "neutral", "contradiction"])


def pairs(*labels):
    """Entries of MNLI in an order that is not that of the original file."""
    entries = [
        {"premise": f"p{i}", "hypothesis": f"h{i}", "label": label, "idx": i}
        for i, label in enumerate(labels)
    ]
    return entries[::-1]


@pytest.fixture(scope="module", autouse=True)
def data_sets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tfds")
    sentences = {
        split: [{"sentence": f"é {split}", "label": label}] * 2
        for split, label in {"train": 1, "validation": 0, "test": -1}.items()
    }
    write_data_set(folder, "tiny_sst", {"sentence": TEXT, "label": SENTIMENT}, sentences)
    features = {"premise": TEXT, "hypothesis": TEXT, "label": INFERENCE, "idx": np.int32}
    splits = {
        "train": pairs(2, 0, 1),
        "validation_matched": pairs(0),
        "validation_mismatched": pairs(1),
        "test_matched": pairs(-1, -1),
        "test_mismatched": pairs(-1, -1, -1),
    }
    write_data_set(folder, "tiny_glue/mnli", features, splits)
    write_data_set(folder, "tiny_glue/ax", features, {"test": pairs(-1, -1)})
    write_data_set(folder, "tiny_snli", features, {"train": pairs(0, -1, 2), "test": pairs(1)})
    scored = {"sentence1": TEXT, "sentence2": TEXT, "label": np.float32, "idx": np.int32}
    scores = {
        split: [{"sentence1": "a", "sentence2": "b", "label": score, "idx": 0}]
        for split, score in {"train": 4.75, "validation": 0.0, "test": -1.0}.items()
    }
    write_data_set(folder, "tiny_stsb", scored, scores)


@pytest.mark.parametrize("task", [glue_task("sst2"), csv_task(text_column="sentence")])
def test_texts_and_classes(task):
    data = task.read("tfds:tiny_sst")
    assert data.labels == ("negative", "positive")
    assert list(data.splits["train"].texts) == ["é train"] * 2
    assert data.splits["train"].labels.tolist() == [1, 1]
    assert data.splits["validation"].labels.tolist() == [0, 0]
    assert data.splits["test"].labels is None  # -1: the benchmark keeps them


def test_entries_come_in_the_order_of_the_original_files(tmp_path):
    task = glue_task("mnli")
    data = task.read("tfds:tiny_glue/mnli")
    assert set(data.splits) == {
        "train",
        "validation",
        "validation_mismatched",
        "test",
        "test_mismatched",
    }
    assert list(data.splits["train"].text_pairs) == ["h0", "h1", "h2"]
    assert data.splits["train"].labels.tolist() == [2, 0, 1]
    # So that the leaderboard reads each answer beside its own index.
    assert list(data.splits["test_mismatched"].texts) == ["p0", "p1", "p2"]
    paths = task.write_submission(tmp_path, data, {"test_mismatched": np.eye(3)[[1, 2, 0]]})
    assert [path.read_text() for path in paths] == [
        "index\tprediction\n0\tneutral\n1\tcontradiction\n2\tentailment\n"
    ]


@pytest.mark.parametrize("source", ["tfds:tiny_glue/mnli", "tfds:tiny_glue/ax"])
def test_the_diagnostic_set_is_answered_by_a_model_of_mnli(source):
    data = glue_task("ax").read(source)
    assert data.splits["train"].labels.tolist() == [2, 0, 1]
    assert list(data.splits["ax"].texts) == ["p0", "p1"]
    assert data.splits["ax"].labels is None


def test_hidden_scores_are_no_scores():
    data = glue_task("stsb").read("tfds:tiny_stsb")
    assert data.labels == ()
    assert data.splits["train"].labels.tolist() == [4.75]
    assert data.splits["validation"].labels.tolist() == [0.0]
    assert data.splits["test"].labels is None


def test_examples_without_a_class_are_left_out_and_counted(capsys):
    data = csv_task("premise", "hypothesis").read("tfds:tiny_snli")
    assert list(data.splits["train"].texts) == ["p0", "p2"]
    assert list(data.splits["train"].text_pairs) == ["h0", "h2"]
    assert data.splits["train"].labels.tolist() == [0, 2]
    assert data.splits["test"].labels.tolist() == [1]
    assert "tfds:tiny_snli, split train: 1 of 3 examples have no label and are left out" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("task", "source", "sentence"),
    [
        (glue_task("rte"), "tiny_sst", "has no feature 'sentence1' among label, sentence: name"),
        (glue_task("rte"), "no_such_set", "TensorFlow Datasets knows no such data set"),
        (glue_task("mnli"), "tiny_glue/ax", "has no split 'train' among test: choose a data set"),
        (csv_task("sentence", labels=["a", "b"]), "tiny_sst", "names its classes itself"),
        (
            csv_task("label", label_column="sentence"),
            "tiny_sst",
            "feature 'label' is no text: name",
        ),
        (csv_task("sentence1"), "tiny_stsb", "the feature 'label' is no class"),
        (
            csv_task("sentence1", label_column="sentence2", label_type="regression"),
            "tiny_stsb",
            "the feature 'sentence2' is no number",
        ),
    ],
)
def test_data_sets_that_do_not_fit_are_refused(task, source, sentence):
    with pytest.raises(ValueError, match=f"tfds:{source}.*{sentence}"):
        task.read(f"tfds:{source}")
