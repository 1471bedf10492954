"""Records that Apache Beam makes against those of the local processes."""

from collections import Counter

import pytest
import tensorflow as tf

from keras_bert.data import corpus as corpus_module
from keras_bert.data.creation import create_pretraining_data
from keras_bert.data.creation_options import CreationOptions

pytestmark = pytest.mark.beam


@pytest.fixture
def make(novels, vocab, tmp_path, monkeypatch):
    """Makes records of three files in two groups, on Beam or here."""
    from keras_bert.data.beam import create_pretraining_data_with_beam

    text = novels.read_text(encoding="utf-8")
    paths = [str(tmp_path / f"{number}.txt") for number in range(3)]
    for number in range(3):
        part = text[number * 300_000 : (number + 1) * 300_000]
        (tmp_path / f"{number}.txt").write_text(part, encoding="utf-8")
    monkeypatch.setattr(corpus_module, "GROUP_BYTES", 500_000)

    def run(on_beam, **changes):
        output = tmp_path / ("beam" if on_beam else "local")
        options = CreationOptions(
            tuple(paths), str(vocab), str(output), 64, dupe_factor=2, num_shards=3, **changes
        )
        if on_beam:
            create_pretraining_data_with_beam(options, ["--direct_running_mode=in_memory"])
        else:
            create_pretraining_data(options)
        return output

    return run


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"static_masking": True, "masking": "ngram"},
        {"sentence_task": "none", "pack": True},
    ],
)
def test_beam_makes_the_same_examples_and_the_same_files(make, changes):
    local, on_beam = make(False, **changes), make(True, **changes)
    assert examples(on_beam) == examples(local)
    assert {path.name for path in on_beam.iterdir()} == {path.name for path in local.iterdir()}
    for path in local.iterdir():
        assert (on_beam / path.name).read_bytes() == path.read_bytes()


def test_finished_records_are_not_touched_and_nothing_comes_of_an_empty_corpus(make, tmp_path):
    make(True)
    with pytest.raises(FileExistsError, match="holds finished records already"):
        make(True)
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text("\n", encoding="utf-8")
    (tmp_path / "beam" / "manifest.json").rename(tmp_path / "beam" / "mine.json")
    with pytest.raises(ValueError, match="is empty or too short for one example"):
        make(True)
    left = {path.name for path in (tmp_path / "beam").iterdir()}
    assert left == {"mine.json", "vocab.txt", "tokenizer_config.json"}


def examples(folder):
    paths = [str(path) for path in folder.glob("*.tfrecord")]
    return Counter(tf.data.TFRecordDataset(paths).as_numpy_iterator())
