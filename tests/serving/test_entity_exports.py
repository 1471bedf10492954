"""Exports that find entities: asked in a process without the package.

Oracle: `EntityRecognizer`, which tests/tasks/test_entity_recognition.py compares with single rows.
"""

import csv

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import EntityRecognizer, ExportOptions, export_litert, export_saved_model
from keras_bert.entity_recognizer import recognize_file
from keras_bert.serving.client import ServerError, connect
from keras_bert.serving.remote_prediction import predict_labels_remotely
from keras_bert.tasks.named_labels import CandidateLabels, EntityLabels
from tests.conftest import write_csv
from tests.serving import model_server
from tests.serving.fresh_process import ask_fresh_process
from tests.signatures.tiny_models import random_texts
from tests.tasks.entity_models import LABELS, entity_model, entity_tokenizer
from tests.tolerances import REORDERED

pytestmark = pytest.mark.slow

TEXTS = ["", *random_texts(4, seed=9, longest=25), "Zo\u00eb the film"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A model folder and its export."""
    root = tmp_path_factory.mktemp("entities")
    entity_model().save_to_preset(root / "model", entity_tokenizer())
    export_saved_model(root / "model", root / "export", options=ExportOptions(max_batch=50))
    return root / "model", root / "export" / "1"


def entities(answer):
    """Entities of each text out of the outputs of a signature."""
    names = ("entities", "labels", "starts", "ends", "scores")
    rows = zip(*(answer[name].tolist() for name in names), strict=True)
    return [[found for found in zip(*row, strict=True) if found[1]] for row in rows]


def read(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def find(folders):
    """What a server of the export finds, named "ner"."""
    return model_server.saved_models({"ner": folders[1].parent})


@pytest.fixture(scope="module")
def live(folders, tmp_path_factory):
    """A table, and the rows that are written of the folder."""
    files = [tmp_path_factory.mktemp("live") / name for name in ("in.csv", "out.csv")]
    write_csv(files[0], ["id", "text"], list(enumerate(TEXTS)))
    assert recognize_file(folders[0], *files, LABELS) == len(TEXTS)
    return files[0], read(files[1])


@pytest.mark.parametrize("kind", ["rest", pytest.param("grpc", marks=pytest.mark.oracle)])
def test_a_server_writes_the_file_that_the_folder_writes(kind, find, live, tmp_path):
    table, expected = live
    start = model_server.grpc_server if kind == "grpc" else model_server.rest_server
    with start(find) as port:
        client = connect(f"{'grpc://' if kind == 'grpc' else ''}127.0.0.1:{port}", "ner")
        # The most probable spans are taken first, so that others do not stand against them.
        for threshold in (0.5, 0.6):
            named = EntityLabels(LABELS, threshold)
            files = (table, tmp_path / "out.csv")
            assert predict_labels_remotely(client, named, *files, 4) == len(TEXTS)
            above = [row for row in expected if float(row["score"]) > threshold]
            found = read(files[1])
            for ours, theirs in zip(found, above, strict=True):
                assert [*ours] == [*theirs]
                scores = [float(row["score"]) for row in (ours, theirs)]
                np.testing.assert_allclose(*scores, **REORDERED)
                assert {**ours, "score": ""} == {**theirs, "score": ""}
        assert len(expected) > len(found) > 0
        with pytest.raises(
            ServerError, match='"serve_zero_shot" not found.*: candidate labels are asked of'
        ):
            predict_labels_remotely(client, CandidateLabels(["a", "b"]), *files, 4)
        with pytest.raises(ServerError, match="leave no room for a word: send fewer"):
            predict_labels_remotely(client, EntityLabels(["z" * 50]), *files, 4)


def test_an_export_answers_as_the_live_model(folders, tmp_path):
    model, export = folders
    texts = [*TEXTS, "the film", "ab ab"]
    labels = [LABELS] * len(TEXTS) + [["ab", "", ""], ["", "", ""]]
    threshold = [0.5] * len(TEXTS) + [0.0, 0.0]
    request = {"text": texts, "labels": labels}
    example = tf.train.Example()
    example.features.feature["text"].bytes_list.value.append(TEXTS[1].encode())
    example.features.feature["labels"].bytes_list.value.extend(name.encode() for name in LABELS)
    usual, asked = ask_fresh_process(
        tmp_path,
        [
            (export, "serving_default", request),
            (export, "serve_threshold", {**request, "threshold": threshold}),
        ],
    )
    recognizer = EntityRecognizer.from_preset(model)
    found = recognizer.recognize(TEXTS, LABELS)
    for answer in (usual, asked):
        for one, other in zip(found, entities(answer), strict=False):
            assert [(e.text, e.label, e.start, e.end) for e in one] == [e[:4] for e in other]
            scores = [e[4] for e in other]
            np.testing.assert_allclose([e.score for e in one], scores, **REORDERED)
    assert any(found)
    # Labels of its own, and none.
    (alone,) = recognizer.recognize(["the film"], ["ab"], threshold=0.0)
    *_, one, none = entities(asked)
    assert [e[:2] for e in one] == [(e.text, e.label) for e in alone] and alone and not none
    signatures = tf.saved_model.load(export).signatures
    served = signatures["serve_examples"](examples=tf.constant([example.SerializeToString()]))
    expected = [name.encode() for name in usual["entities"][1].tolist() if name]
    assert served["entities"].numpy()[0].tolist() == expected
    signature = signatures["serving_default"]
    nothing = signature(text=tf.constant([], tf.string), labels=tf.zeros([0, 2], tf.string))
    assert all(value.shape[0] == 0 for value in nothing.values())
    with pytest.raises(
        ValueError, match="a BertEntityMatcher is no model for files of LiteRT or O"
    ):
        export_litert(model, tmp_path / "litert")
    with pytest.raises(tf.errors.InvalidArgumentError, match="leave no room for a word: send few"):
        signature(text=tf.constant(["a"]), labels=tf.constant([["z" * 50]]))
