"""Tagged sentences of TensorFlow Datasets, from a small data set in its format on disk."""

import pytest
import tensorflow_datasets as tfds

from keras_bert.tasks.tagging.conll import conll_task
from keras_bert.tasks.tagging.sentences import TaggedSentence
from tests.tasks.tfds_on_disk import write_data_set

SENTENCES = [
    {"tokens": ["Rita", "Lee", "é"], "ner": [1, 2, 0], "text": "Rita Lee é"},
    {"tokens": [], "ner": [], "text": ""},
    {"tokens": ["Oslo"], "ner": [3], "text": "Oslo"},
]


@pytest.fixture(scope="module")
def tiny_ner(tmp_path_factory):
    """The data set "tiny_ner", where tensorflow_datasets looks for it."""
    folder = tmp_path_factory.mktemp("tfds")
    names = tfds.features.ClassLabel(names=["O", "B-PER", "I-PER", "B-LOC"])
    text = tfds.features.Text()
    features = {
        "tokens": tfds.features.Sequence(text),
        "ner": tfds.features.Sequence(names),
        "text": text,
    }
    splits = {"train": SENTENCES, "dev": SENTENCES[:1]}
    write_data_set(folder, "tiny_ner", features, splits)
    return "tfds:tiny_ner"


def test_splits_and_names_of_labels(tiny_ner):
    data = conll_task().read(tiny_ner)
    assert data.labels == ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
    assert {name: [s.words for s in split] for name, split in data.splits.items()} == {
        "train": [("Rita", "Lee", "é"), ("Oslo",)],
        "validation": [("Rita", "Lee", "é")],
    }
    assert data.splits["train"][1] == TaggedSentence(("Oslo",), ("B-LOC",), 3, 3)


def test_what_cannot_be(tiny_ner):
    with pytest.raises(ValueError, match="tfds:tiny_ner has no feature 'pos' among"):
        conll_task(label_feature="pos").read(tiny_ner)
    with pytest.raises(ValueError, match="'text' is no list of classes"):
        conll_task(label_feature="text").read(tiny_ner)
    with pytest.raises(ValueError, match="has features, not columns: leave out --word_index and"):
        conll_task(label_index=2).read(tiny_ner)
    with pytest.raises(ValueError, match="does not tell where documents begin"):
        conll_task(document_context=True).read(tiny_ner)
    with pytest.raises(ValueError, match="tfds:no_such_set: .* knows no such data set"):
        conll_task().read("tfds:no_such_set")
    with pytest.raises(ValueError, match="split train, sentence 1: the label 'B-PER' is not among"):
        conll_task(labels=["LOC"]).read(tiny_ner)
