"""Folders of vectors, read back by TensorBoard's own projector plugin."""

import json
from pathlib import Path

import numpy as np
import pytest
from tensorboard.plugins.base_plugin import TBContext
from tensorboard.plugins.projector.projector_plugin import ProjectorPlugin
from werkzeug.test import Client
from werkzeug.wrappers import Response

from keras_bert import write_projector
from keras_bert.tasks.feature_extraction.extraction import TextFeatures
from keras_bert.tasks.feature_extraction.projector import write_feature_projector


def shown(folder):
    """What TensorBoard serves of a folder: names and shape, vectors, metadata."""
    apps = ProjectorPlugin(TBContext(logdir=str(folder))).get_plugin_apps()

    def get(route, **query):
        answer = Client(apps[f"/{route}"], Response).get("/", query_string={"run": ".", **query})
        assert answer.status_code == 200, answer.text
        return answer

    (found,) = json.loads(get("info").text)["embeddings"]
    name = found["tensorName"]
    vectors = np.frombuffer(get("tensor", name=name).data, np.float32)
    metadata = get("metadata", name=name).text.splitlines()
    return found, vectors.reshape(found["tensorShape"]), metadata


def test_tensorboard_shows_what_was_written(tmp_path):
    vectors = np.random.default_rng(1).normal(size=[5, 3]).astype("float32")
    words = ["film", "a\tb\nc", "", 'qu"ote', "長い" * 100]
    write_projector(tmp_path / "made", vectors, {"word": words, "number": range(5)}, 'the "words"')
    found, read, metadata = shown(tmp_path / "made")
    assert found["tensorName"] == 'the "words"'
    np.testing.assert_allclose(read, vectors, rtol=1e-6)
    assert metadata == [
        "word\tnumber",
        "film\t0",
        "a b c\t1",
        "(empty)\t2",
        'qu"ote\t3',
        f"{'長い' * 60}\t4",
    ]


def test_one_column_has_no_name_and_zeros_are_vectors(tmp_path):
    # Bytes of zeros are text to TensorBoard: a reason to write numbers as text.
    write_projector(tmp_path, np.zeros([2, 2]), {"word": ["film", "book"]})
    _, read, metadata = shown(tmp_path)
    assert read.tolist() == [[0, 0], [0, 0]]
    assert metadata == ["film", "book"]


def test_features_of_texts_with_labels(tmp_path):
    spans = np.array([0, 4], np.int32), np.array([3, 8], np.int32)
    texts = [
        TextFeatures("the film", np.array([[1, 2], [3, 4]], np.float16), *spans, None),
        TextFeatures("", np.zeros([0, 2], np.float16), spans[0][:0], spans[1][:0], None),
        TextFeatures("bad", np.array([[5, 6]], np.float16), spans[0][:1], spans[1][:1], None),
    ]
    write_feature_projector(tmp_path / "made", texts, ["pos", "x", "neg"])
    _, read, metadata = shown(tmp_path / "made")
    assert read.tolist() == [[1, 2], [3, 4], [5, 6]]
    rows = ["unit\ttext\tlabel", "the\tthe film\tpos", "film\tthe film\tpos", "bad\tbad\tneg"]
    assert metadata == rows
    # Made again, it takes the place of the first.
    write_feature_projector(tmp_path / "made", texts[:1])
    assert shown(tmp_path / "made")[2] == ["unit\ttext", "the\tthe film", "film\tthe film"]
    assert {path.name for path in tmp_path.iterdir()} == {"made"}


@pytest.mark.parametrize(
    ("labels", "number", "sentence"),
    [
        (["pos"], 1.0, "^there are 1 labels but more texts: give one for each$"),
        (["pos", "neg", "pos"], 1.0, "^there are 3 labels but 2 texts: give one for each$"),
        (["pos", "neg"], np.nan, "^a vector holds a number that is not finite: look at the model$"),
    ],
)
def test_what_are_no_features_of_texts(labels, number, sentence, tmp_path):
    span = np.array([0], np.int32), np.array([4], np.int32)
    values = [np.array([[value, 2]], np.float32) for value in (0.0, number)]
    texts = [TextFeatures("film", one, *span, None) for one in values]
    with pytest.raises(ValueError, match=sentence):
        write_feature_projector(tmp_path / "made", texts, labels)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("vectors", "metadata", "sentence"),
    [
        (np.zeros([0, 2]), {"word": []}, r"vectors have the shape \(0, 2\)"),
        (np.zeros([2]), {"word": ["a", "b"]}, r"vectors have the shape \(2,\)"),
        (np.zeros([2, 1]), {}, "metadata has no column"),
        (np.zeros([2, 1]), {"word": ["a"]}, "'word' has 1 values but there are 2"),
        ([[1, np.inf]], {"word": ["a"]}, "a vector holds a number that is not finite"),
    ],
)
def test_what_is_no_set_of_vectors(vectors, metadata, sentence, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        write_projector(tmp_path / "made", vectors, metadata)
    assert not (tmp_path / "made").exists()


def test_other_files_are_not_replaced(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="holds no vectors for the projector: choose another name"):
        write_projector(tmp_path, np.zeros([1, 1]), {"word": ["a"]})
    assert Path(tmp_path / "notes.txt").read_text() == "mine"
    with pytest.raises(ValueError, match="there is no vector to show"):
        write_feature_projector(tmp_path / "made", [])
    assert not (tmp_path / "made").exists()
