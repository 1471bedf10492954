import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.data.records.inspection import decoded_examples, describe, measure
from keras_bert.data.records.manifest import Manifest
from keras_bert.data.records.record_set import PretrainingData
from keras_bert.data.records.writing import write_records
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests import command_process
from tests.data.test_records import masked_example

INSPECT = Path(__file__).parents[2] / "tools" / "inspect_records.py"
SMALL = Vocabulary([*SPECIAL_TOKENS, "five", "six", "seven"])


@pytest.fixture(scope="module")
def lines(records, vocab):
    """The report as a dict, and the pieces of each example as protobuf reads them."""
    vocabulary = Vocabulary.from_file(vocab)
    data = PretrainingData(records)
    report = describe(data, measure(data, vocabulary), vocabulary)
    examples = []
    for path in sorted(records.glob("*.tfrecord")):
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            feature = tf.train.Example.FromString(record).features.feature["input_ids"]
            examples.append(list(feature.int64_list.value))
    return {line[:14].strip(): line[14:] for line in report}, examples, vocabulary


def test_the_report_counts_what_is_there(lines, records):
    report, examples, vocabulary = lines
    lengths = np.array([len(ids) for ids in examples])
    counts = Counter(piece for ids in examples for piece in ids)
    assert report["examples"] == f"{len(examples):,} in 3 file(s)"
    share = 100 * counts[vocabulary.unk_id] / lengths.sum()
    assert report["pieces"] == f"{lengths.sum():,}, {share:.2f} % of them [UNK]"
    assert report["fill rate"] == f"{100 * lengths.sum() / (64 * len(lengths)):.2f} % of 64"
    assert f"50 %: {int(np.median(lengths))}, " in report["lengths"]
    full = 100 * (lengths == 64).mean()
    assert report["lengths"].endswith(f"; {full:.2f} % are full")
    ordinary = Counter({p: n for p, n in counts.items() if p not in vocabulary.special_ids})
    (first, count), *_ = ordinary.most_common(1)
    expected = f"{vocabulary.tokens[first]} {100 * count / ordinary.total():.2f} %, "
    assert report["most frequent"].startswith(expected)
    assert report["most frequent"].count(" %") == 15
    assert report["vocabulary"] == f"1,200 entries, sha256 {vocabulary.sha256}"
    manifest = Manifest.read(records)
    assert report["label 1"].startswith(f"{manifest.label_counts[1]:,} (")


def test_truncation_is_told(lines, records, make_records, novels):
    manifest = Manifest.read(records)
    report, _, _ = lines
    examples = 100 * manifest.truncated_examples / manifest.examples
    pieces = 100 * manifest.truncated_tokens / (manifest.tokens + manifest.truncated_tokens)
    assert report["truncation"] == (
        f"{examples:.2f} % of the examples lost {pieces:.2f} % of all pieces"
    )
    # Ordered pairs hold every sentence once, save the last of a document where it is alone.
    sop = Manifest.read(make_records(sentence_task="sop"))
    kept = sop.tokens - 3 * sop.examples
    alone = sop.corpus_tokens - kept - sop.truncated_tokens
    assert 0 <= alone < 60 * sop.documents
    assert sop.truncated_tokens > 0
    # Single segments are never cut.
    assert Manifest.read(make_records(sentence_task="none")).truncated_tokens == 0


def test_hidden_pieces_stand_out_in_colour(tmp_path):
    write_records(tmp_path / "masked.tfrecord", [masked_example()])
    data = PretrainingData(str(tmp_path / "masked.tfrecord"))
    assert list(decoded_examples(data, SMALL, 1)) == [
        "[CLS] five {[MASK]|seven} [SEP]\n  (4 pieces, label 1: b is from another document)"
    ]
    (colored,) = decoded_examples(data, SMALL, 1, colored=True)
    assert "{\x1b[1;31m[MASK]\x1b[0m|\x1b[32mseven\x1b[0m}" in colored
    assert "\x1b[2m[CLS]\x1b[0m" in colored


def test_what_is_damaged_is_named(tmp_path, records):
    """By the commands, which tell the file: TensorFlow tells an offset."""
    folder = shutil.copytree(records, tmp_path / "records")
    path = next(folder.glob("*.tfrecord"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    done = command_process.run([INSPECT, f"--input={folder}", "--count=1"])
    assert done.returncode == 1
    assert f"{path.name} is damaged, cut off or no TFRecord file" in done.stderr
    write_records(tmp_path / "a.tfrecord", [masked_example(), masked_example(padding=5)])
    SMALL.save(tmp_path / "vocab.txt")
    done = command_process.run([INSPECT, f"--input={tmp_path / 'a.tfrecord'}", "--count=1"])
    assert done.returncode == 1
    assert "a.tfrecord: record 2 has 9 input_ids, the first one 6: give files" in done.stderr


def test_segments_and_packed_documents_are_told_apart_by_colour(records, make_records, vocab):
    vocabulary = Vocabulary.from_file(vocab)
    (pair,) = decoded_examples(PretrainingData(records), vocabulary, 1, colored=True)
    assert "\x1b[0m" in pair and "\x1b[36m" in pair
    data = PretrainingData(make_records(sentence_task="none", pack=True))
    statistics = measure(data, vocabulary)
    packed = list(decoded_examples(data, vocabulary, 200))
    assert any("document(s))" in text and text.count("[CLS]") > 1 for text in packed)
    for text in packed:
        assert f"{text.count('[CLS]')} document(s))" in text
    everything = decoded_examples(data, vocabulary, 10**9)
    assert statistics.documents == sum(text.count("[CLS]") for text in everything)


def test_records_of_another_vocabulary_are_refused(tmp_path, records):
    with pytest.raises(ValueError, match="the vocabulary has 8 entries: give the vocabulary that"):
        measure(PretrainingData(records), SMALL)
