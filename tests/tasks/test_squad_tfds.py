"""Questions of TensorFlow Datasets, from small data sets in its format on disk."""

import types

import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from keras_bert.tasks.question_answering.questions import Answer, Question
from keras_bert.tasks.question_answering.squad import squad2_task, squad_task
from tests.tasks.tfds_on_disk import write_data_set

CONTEXT = "Zoë 😀 lives in 東京, they say."
ENTRIES = [
    {
        "id": "q1",
        "title": "Zoë",
        "question": "Wo?",
        "context": CONTEXT,
        "answers": {"text": ["東京", "in 東京"], "answer_start": [15, 12]},
    },
    {
        "id": "q2",
        "title": "Zoë",
        "question": "Wann?",
        "context": CONTEXT,
        "answers": {"text": [], "answer_start": []},
    },
]
TEXT = tfds.features.Text()


@pytest.fixture(scope="module")
def data_sets(tmp_path_factory):
    """The data sets "tiny_squad", with the features of "squad", and "tiny_strings"."""
    folder = tmp_path_factory.mktemp("tfds")
    answers = tfds.features.Sequence({"text": TEXT, "answer_start": tf.int32})
    features = {
        "id": tf.string,
        "title": TEXT,
        "question": TEXT,
        "context": TEXT,
        "answers": answers,
    }
    write_data_set(folder, "tiny_squad", features, {"train": ENTRIES, "validation": ENTRIES[:1]})
    write_data_set(folder, "tiny_strings", {"id": TEXT}, {"train": [{"id": "a"}]})


def test_questions_are_those_of_the_splits(data_sets):
    data = squad2_task().read("tfds:tiny_squad")
    first = Question("q1", "Wo?", CONTEXT, (Answer("東京", 15), Answer("in 東京", 12)))
    assert data.splits == {
        "train": [first, Question("q2", "Wann?", CONTEXT, ())],
        "validation": [first],
    }
    assert [CONTEXT[a.start :].startswith(a.text) for a in first.answers] == [True, True]


def test_what_cannot_be(data_sets):
    with pytest.raises(ValueError, match="train: the question 'q2' has no answer: use --task=squ"):
        squad_task().read("tfds:tiny_squad")
    with pytest.raises(ValueError, match="tfds:tiny_strings has no feature 'question' among id"):
        squad2_task().read("tfds:tiny_strings")
    with pytest.raises(ValueError, match="tfds:no_such_set: .* knows no such data set"):
        squad2_task().read("tfds:no_such_set")


def test_a_set_that_cannot_be_prepared_is_told(monkeypatch):
    def prepare():
        raise AssertionError("Manual directory /data\n  does not exist")

    builder = types.SimpleNamespace(download_and_prepare=prepare)
    monkeypatch.setattr(tfds, "builder", lambda name: builder)
    sentence = "^tfds:by_hand cannot be prepared by .*: Manual directory /data does not exist$"
    with pytest.raises(ValueError, match=sentence):
        squad2_task().read("tfds:by_hand")
