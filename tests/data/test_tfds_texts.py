"""Corpora of TensorFlow Datasets, from a small data set in its format on disk."""

import sys

import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from keras_bert.data.corpus.documents import Document
from keras_bert.data.corpus.reading import Corpus

TEXTS = [
    ["One. Two.\n\nThree.", "Four."],
    ["Fünf.", " \n", "x" * (1_000_005)],
    [b"bad \xff byte"],
]


def prepare(folder, name, texts, split="train"):
    features = tfds.features.FeaturesDict(
        {"text": tfds.features.Text(), "id": tf.int64, "tags": tfds.features.Sequence(tf.string)}
    )
    version = folder / name / "1.0.0"
    version.mkdir(parents=True)
    for shard, rows in enumerate(texts):
        path = version / f"{name}-{split}.tfrecord-{shard:05}-of-{len(texts):05}"
        with tf.io.TFRecordWriter(str(path)) as writer:
            for row in rows:
                writer.write(features.serialize_example({"text": row, "id": shard, "tags": []}))
    lengths = [len(rows) for rows in texts]
    tfds.folder_dataset.write_metadata(
        data_dir=version,
        features=features,
        split_infos=[tfds.core.SplitInfo(name=split, shard_lengths=lengths, num_bytes=600)],
        filename_template="{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
    )
    return f"tfds:{name}"


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tfds")
    tfds.core.add_data_dir(folder)
    return {
        "good": prepare(folder, "tiny_texts", TEXTS[:2]),
        "bad": prepare(folder, "broken_texts", TEXTS),
        "test_only": prepare(folder, "test_texts", TEXTS[:1], "test"),
    }


def test_each_example_is_a_document_in_the_order_of_the_files(corpora):
    corpus = Corpus([corpora["good"]])
    documents = list(corpus)
    assert documents[:3] == [
        Document(0, ["One. Two.", "Three."]),
        Document(1, ["Four."]),
        Document(2, ["Fünf."]),
    ]
    # The text of white space is no document; the long one comes in two parts.
    assert [sum(map(len, part.paragraphs)) for part in documents[3:]] == [1_000_000, 5]
    assert len({part.number for part in documents[3:]}) == 1
    assert list(corpus) == list(Corpus([f"{corpora['good']}:1.0.0"])) == documents
    # Two examples of five are 240 of 600 bytes.
    assert [source.size for source in corpus.sources] == [240, 360]
    assert corpus.bytes_read == corpus.total_bytes == 600
    assert corpus.paths == ["tfds:tiny_texts, train[0shard]", "tfds:tiny_texts, train[1shard]"]


def test_a_data_set_and_files_make_one_corpus(corpora, tmp_path):
    (tmp_path / "a.txt").write_text("First.\n")
    corpus = Corpus([tmp_path / "a.txt", corpora["good"]])
    assert [document.paragraphs for document in corpus][:2] == [["First."], ["One. Two.", "Three."]]


def test_bytes_that_are_not_utf8_are_named_or_replaced(corpora):
    with pytest.raises(ValueError, match=r"broken_texts, train\[2shard\], example 0 is not UTF-8"):
        list(Corpus([corpora["bad"]]))
    assert list(Corpus([corpora["bad"]], errors="replace"))[-1].paragraphs == ["bad \ufffd byte"]


def test_what_cannot_be(corpora, monkeypatch):
    with pytest.raises(ValueError, match="tfds:no_such_texts: TensorFlow Datasets knows no such"):
        Corpus(["tfds:no_such_texts"])
    with pytest.raises(ValueError, match=r"no text in feature 'body' \(its features: .*--text_f"):
        Corpus([corpora["good"]], text_field="body")
    with pytest.raises(
        ValueError, match=r"feature 'id' holds no text .*: name another with --text"
    ):
        Corpus([corpora["good"]], text_field="id")
    with pytest.raises(ValueError, match=r"feature 'tags' holds no text .*: name another with"):
        Corpus([corpora["good"]], text_field="tags")
    with pytest.raises(ValueError, match=r"has no split 'train' \(its splits: test\)"):
        Corpus([corpora["test_only"]])
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(ValueError, match="needs the package tensorflow-datasets .* pip install"):
        Corpus([corpora["good"]])
