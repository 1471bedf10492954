"""A corpus of several chunks and its records, made once for all tests of this folder."""

import gzip
from pathlib import Path

import pytest

from keras_bert.data.creation.create import create_pretraining_data
from keras_bert.data.creation.options import CreationOptions
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.vocabulary_training import train_vocabulary

NOVELS = Path(__file__).parents[2] / "tools" / "sample_data" / "austen.txt.gz"


@pytest.fixture(scope="session")
def novels(tmp_path_factory):
    """1.55 million characters with blank lines between chapters: two chunks."""
    text = gzip.open(NOVELS, "rt", encoding="utf-8").read()[:1_550_000]
    path = tmp_path_factory.mktemp("corpus") / "novels.txt"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def vocab(novels, tmp_path_factory):
    """The path of a vocab.txt of 1200 pieces."""
    texts = novels.read_text(encoding="utf-8")[:300_000].split("\n")
    folder = tmp_path_factory.mktemp("vocabulary")
    BertTokenizer(train_vocabulary(texts, 1200)).save(folder)
    return folder / "vocab.txt"


@pytest.fixture(scope="session")
def make_records(novels, vocab, tmp_path_factory):
    """Makes records of the novels with other options; returns their folder."""

    def make(**changes):
        folder = tmp_path_factory.mktemp("records") / "made"
        options = {
            "inputs": (str(novels),),
            "vocab": str(vocab),
            "max_seq_length": 64,
            "dupe_factor": 1,
            "num_shards": 3,
            "seed": 1,
        }
        create_pretraining_data(CreationOptions(output_dir=str(folder), **(options | changes)))
        return folder

    return make


@pytest.fixture(scope="session")
def records(make_records):
    """The folder of records with the default changes."""
    return make_records()
