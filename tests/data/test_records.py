import tempfile
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keras_bert.data.records import writing
from keras_bert.data.records.encoding import encode_examples
from keras_bert.data.records.examples import Examples
from keras_bert.data.records.parsing import (
    count_records,
    parse_examples,
    parse_masked_examples,
    read_first_example,
)
from keras_bert.data.records.writing import frame_records, write_records


def make_examples(rows):
    """Examples of (ids, length of the first segment, label)."""
    segments = [[0] * first + [1] * (len(ids) - first) for ids, first, _ in rows]
    return Examples(
        np.array([i for ids, _, _ in rows for i in ids], np.int32),
        np.array([s for row in segments for s in row], np.uint8),
        np.cumsum([0, *(len(ids) for ids, _, _ in rows)]),
        np.array([label for _, _, label in rows]),
    )


def rows_of(draw):
    ids = draw(st.lists(st.integers(0, (1 << 21) - 1), min_size=1, max_size=300))
    return ids, draw(st.integers(1, len(ids))), draw(st.integers(0, 1))


# The oracle is protobuf itself.
@settings(max_examples=50, deadline=None)
@given(st.lists(st.composite(rows_of)(), min_size=1, max_size=5))
def test_the_bytes_are_those_of_tf_train_example(rows):
    examples = make_examples(rows)
    for encoded, (ids, first, label) in zip(encode_examples(examples), rows, strict=True):
        found = tf.train.Example.FromString(encoded).features.feature
        assert set(found) == {"input_ids", "segment_ids", "next_sentence_labels"}
        assert list(found["input_ids"].int64_list.value) == ids
        expected = [0] * first + [1] * (len(ids) - first)
        assert list(found["segment_ids"].int64_list.value) == expected
        assert list(found["next_sentence_labels"].int64_list.value) == [label]


def test_varints_change_length_at_the_powers_of_128():
    ids = [0, 127, 128, 16383, 16384, (1 << 21) - 1]
    encoded = encode_examples(make_examples([(ids, 6, 0)]))[0]
    feature = tf.train.Example.FromString(encoded).features.feature["input_ids"]
    assert list(feature.int64_list.value) == ids


def test_an_id_that_is_too_large_is_refused():
    with pytest.raises(ValueError, match="piece id 2097152 is too large"):
        encode_examples(make_examples([([1 << 21], 1, 0)]))


def test_a_long_sequence_travels_too():
    ids = list(range(20_000))
    encoded = encode_examples(make_examples([(ids, 9, 1)]))[0]
    feature = tf.train.Example.FromString(encoded).features.feature["input_ids"]
    assert list(feature.int64_list.value) == ids


@pytest.mark.parametrize("pad_id", [0, 9])
def test_parsed_examples_are_padded(pad_id):
    rows = [([5, 6, 7], 2, 1), ([8, 0, 0, 0, 9], 5, 0)]
    serialized = tf.constant(encode_examples(make_examples(rows)))
    batch = {k: v.numpy() for k, v in parse_examples(serialized, 6, pad_id).items()}
    p = pad_id
    assert batch["input_ids"].tolist() == [[5, 6, 7, p, p, p], [8, 0, 0, 0, 9, p]]
    assert batch["input_mask"].tolist() == [[1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 0]]
    assert batch["segment_ids"].tolist() == [[0, 0, 1, 0, 0, 0], [0] * 6]
    assert batch["next_sentence_labels"].tolist() == [1, 0]
    assert {value.dtype for value in batch.values()} == {np.dtype(np.int32)}


def masked_example(label=1, padding=2):
    """An example in the schema of create_pretraining_data.py of google-research/bert."""
    integers = {
        "input_ids": [2, 5, 4, 3, *[0] * padding],
        "input_mask": [1, 1, 1, 1, *[0] * padding],
        "segment_ids": [0, 0, 1, 1, *[0] * padding],
        "masked_lm_positions": [2, 0],
        "masked_lm_ids": [7, 0],
        "next_sentence_labels": [label],
    }
    feature = {
        name: tf.train.Feature(int64_list=tf.train.Int64List(value=value))
        for name, value in integers.items()
    }
    weights = tf.train.FloatList(value=[1.0, 0.0])
    feature["masked_lm_weights"] = tf.train.Feature(float_list=weights)
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def test_masked_examples_are_read_as_they_are(tmp_path):
    path = str(tmp_path / "masked.tfrecord")
    write_records(path, [masked_example(1), masked_example(0)])
    assert count_records(path) == 2
    assert read_first_example(path)["masked_lm_positions"] == 2
    serialized = tf.constant([masked_example(1), masked_example(0)])
    batch = parse_masked_examples(serialized, 6, 2)
    assert batch["input_ids"].numpy().tolist() == [[2, 5, 4, 3, 0, 0]] * 2
    assert batch["masked_lm_positions"].numpy().tolist() == [[2, 0]] * 2
    assert batch["masked_lm_ids"].numpy().tolist() == [[7, 0]] * 2
    assert batch["masked_lm_weights"].numpy().tolist() == [[1.0, 0.0]] * 2
    assert batch["next_sentence_labels"].numpy().tolist() == [1, 0]


def test_foreign_and_damaged_files_are_named(tmp_path):
    good = tmp_path / "good.tfrecord"
    write_records(good, encode_examples(make_examples([([5, 6], 1, 0)] * 3)))

    text = tmp_path / "text.tfrecord"
    text.write_text("this is a text and no record of any kind\n" * 10)
    with pytest.raises(ValueError, match=r"text\.tfrecord is damaged, cut off or no TFRecord"):
        read_first_example(str(text))

    cut = tmp_path / "cut.tfrecord"
    cut.write_bytes(good.read_bytes()[:-5])
    with pytest.raises(ValueError, match=r"cut\.tfrecord is damaged, cut off or no TFRecord"):
        count_records(str(cut))

    other = tmp_path / "other.tfrecord"
    feature = {"image": tf.train.Feature(int64_list=tf.train.Int64List(value=[1]))}
    write_records(
        other,
        [tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()],
    )
    with pytest.raises(
        ValueError,
        match=r"other\.tfrecord lack input_ids, next_sentence_labels, segment_ids \(they hold ima",
    ):
        read_first_example(str(other))

    raw = tmp_path / "raw.tfrecord"
    write_records(raw, [b"\xff\xff\xff"])
    with pytest.raises(ValueError, match=r"raw\.tfrecord holds records that are no tf\.train\.Ex"):
        read_first_example(str(raw))

    with pytest.raises(FileNotFoundError, match="there are no records at"):
        read_first_example(str(tmp_path / "absent"))


# The oracle is TensorFlow's own writer, which asks the processor for checksums.
@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=300), max_size=20))
@example([b"", b"a", b"abc", b"abcd", b"x" * 7, b"x" * 8, b"x" * 9])
@example([b"\0" * 50, b"\xff" * 17, b"\0" * 3])
def test_a_file_is_what_tensorflow_writes(records):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "theirs"
        with tf.io.TFRecordWriter(str(path)) as writer:
            for record in records:
                writer.write(record)
        assert frame_records(records) == path.read_bytes()


def test_many_records_and_long_ones(tmp_path, monkeypatch):
    # More than are worked on at once, and one that is larger than what they may take together.
    monkeypatch.setattr(writing, "_RECORDS_AT_ONCE", 100)
    monkeypatch.setattr(writing, "_BYTES_AT_ONCE", 2000)
    draw = np.random.default_rng(0)
    records = [draw.bytes(int(size)) for size in draw.integers(0, 40, 450)]
    records[250] = draw.bytes(2500)
    write_records(tmp_path / "ours", records)
    with tf.io.TFRecordWriter(str(tmp_path / "theirs")) as writer:
        for record in records:
            writer.write(record)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
