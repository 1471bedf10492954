import itertools
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.config import BertConfig
from keras_bert.data.records import pipeline
from keras_bert.data.records.pipeline import (
    evaluation_batches,
    stored_batches,
    training_batches,
)
from keras_bert.data.records.record_set import PretrainingData
from keras_bert.data.records.writing import write_records
from keras_bert.pretraining.checks import check_data
from keras_bert.text.masking import MaskedLanguageModelMasking
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.data.test_records import masked_example

BATCH = 50


@pytest.fixture(scope="module")
def data(records):
    return PretrainingData(records)


@pytest.fixture(scope="module")
def masking(vocab):
    return MaskedLanguageModelMasking(Vocabulary.from_file(vocab), 10)


@pytest.fixture(scope="module")
def stream(data, masking):
    """The batches of a bit more than two epochs."""
    count = 2 * data.num_examples // BATCH + 5
    return take(training_batches(data, masking, BATCH, seed=3), count)


def take(dataset, count):
    return list(itertools.islice(dataset.as_numpy_iterator(), count))


def unmasked_rows(batches):
    """The sequences as they were before masking, as tuples."""
    rows = []
    for batch in batches:
        ids = batch["input_ids"].copy()
        row, slot = np.nonzero(batch["masked_lm_weights"])
        ids[row, batch["masked_lm_positions"][row, slot]] = batch["masked_lm_ids"][row, slot]
        rows += map(tuple, ids.tolist())
    return rows


def assert_equal(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.keys() == other.keys()
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])


def test_shapes_are_static_and_as_the_schema_says(data, masking):
    expected = {
        "input_ids": ([BATCH, 64], tf.int32),
        "input_mask": ([BATCH, 64], tf.int32),
        "segment_ids": ([BATCH, 64], tf.int32),
        "masked_lm_positions": ([BATCH, 10], tf.int32),
        "masked_lm_ids": ([BATCH, 10], tf.int32),
        "masked_lm_weights": ([BATCH, 10], tf.float32),
        "next_sentence_labels": ([BATCH], tf.int32),
    }
    training = training_batches(data, masking, BATCH, 0).element_spec
    assert {n: (s.shape.as_list(), s.dtype) for n, s in training.items()} == expected
    evaluation = evaluation_batches(data, masking, BATCH, 0).element_spec
    assert {n: (s.shape.as_list(), s.dtype) for n, s in evaluation.items()} == expected | {
        "example_weights": ([BATCH], tf.float32)
    }


def test_each_epoch_holds_every_example_once_in_another_order(data, stream):
    rows, epoch = unmasked_rows(stream), data.num_examples
    stored = []
    for batch in stored_batches(data, 500).as_numpy_iterator():
        stored += map(tuple, batch["input_ids"].tolist())
    first, second = rows[:epoch], rows[epoch : 2 * epoch]
    assert sorted(first) == sorted(second) == sorted(stored)
    assert len({tuple(order) for order in (map(hash, part) for part in (first, second, stored))})
    assert first != second and first != stored
    assert rows[2 * epoch : 2 * epoch + 100] != first[:100]


def test_masks_of_an_example_are_new_in_each_epoch(data, stream):
    positions = {}
    for batch in stream:
        for row, places in zip(unmasked_rows([batch]), batch["masked_lm_positions"], strict=True):
            positions.setdefault(row, []).append(tuple(places))
    pairs = [found[:2] for found in positions.values() if len(found) >= 2]
    assert len(pairs) > 1000
    assert np.mean([first == second for first, second in pairs]) < 0.05


def test_the_same_seed_gives_the_same_batches_whatever_the_global_seed(data, masking, stream):
    tf.random.set_seed(99)
    assert_equal(take(training_batches(data, masking, BATCH, seed=3), 5), stream[:5])
    other = take(training_batches(data, masking, BATCH, seed=4), 1)
    assert unmasked_rows(other) != unmasked_rows(stream[:1])


def test_resuming_is_skipping(data, masking, stream):
    epoch = data.num_examples // BATCH
    for first in (1, epoch - 1, epoch, epoch + 1, 2 * epoch + 1):
        resumed = training_batches(data, masking, BATCH, seed=3, first_batch=first)
        assert_equal(take(resumed, 3), stream[first : first + 3])


def test_replicas_and_pipelines_share_the_same_global_batches(data, masking, stream):
    first = data.num_examples // BATCH - 2
    pipelines = [
        take(training_batches(data, masking, BATCH // 10, 3, first, number, 5, 2), 8)
        for number in range(5)
    ]
    for step in range(4):
        parts = [part for found in pipelines for part in found[2 * step : 2 * step + 2]]
        whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        assert_equal([whole], [stream[first + step]])


def test_evaluation_is_one_pass_with_fixed_masks(data, masking):
    batches = take(evaluation_batches(data, masking, BATCH, seed=3), None)
    assert_equal(take(evaluation_batches(data, masking, BATCH, seed=3), None), batches)
    weights = np.concatenate([batch["example_weights"] for batch in batches])
    assert len(weights) == -(-data.num_examples // BATCH) * BATCH
    assert weights.sum() == data.num_examples
    assert (np.diff(weights) <= 0).all()
    rows = np.array(unmasked_rows(batches))[weights > 0]
    stored = [batch["input_ids"] for batch in stored_batches(data, 500).as_numpy_iterator()]
    np.testing.assert_array_equal(rows, np.concatenate(stored))
    last = batches[-1]
    filled_up = last["example_weights"] == 0
    assert filled_up.any() and last["masked_lm_weights"][filled_up].sum() == 0
    assert (last["input_mask"].sum(axis=1) > 0).all()


def test_no_thread_tunes_the_pipelines(data, masking):
    # TensorFlow may not wake it when they end: see prefetching.py. A race cannot be tested.
    pipelines = [
        make(data, masking, BATCH, seed=3) for make in (training_batches, evaluation_batches)
    ]
    assert [p.options().autotune.enabled for p in pipelines] == [False, False]


def test_masks_of_evaluation_do_not_depend_on_the_batch_size(data, masking):
    small = take(evaluation_batches(data, masking, 10, seed=3), 5)
    large = take(evaluation_batches(data, masking, 50, seed=3), 1)[0]
    joined = {name: np.concatenate([batch[name] for batch in small]) for name in large}
    assert_equal([joined], [large])


def test_fifteen_percent_of_the_stream_are_hidden(stream):
    for batch in stream:
        lengths = batch["input_mask"].sum(axis=1)
        hidden = batch["masked_lm_weights"].sum(axis=1)
        assert hidden.tolist() == np.clip(np.round(lengths * 0.15), 1, 10).tolist()


def test_many_more_records_than_a_block_are_shuffled_and_resumed(
    tmp_path, records, vocab, monkeypatch
):
    # 20,000 copies of one record, told apart by their masks.
    folder = tmp_path / "many"
    shutil.copytree(records, folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    shard = folder / manifest["shards"][0]["name"]
    record = next(iter(tf.data.TFRecordDataset(str(shard)).as_numpy_iterator()))
    write_records(shard, [record] * 20_000)
    manifest["shards"] = [{"name": shard.name, "examples": 20_000, "bytes": shard.stat().st_size}]
    manifest["examples"] = 20_000
    (folder / "manifest.json").write_text(json.dumps(manifest))
    data = PretrainingData(folder)
    assert data.num_bytes == shard.stat().st_size
    # Blocks of 16,384 records, to cross the end of one.
    monkeypatch.setattr(pipeline, "_BYTES_PER_BLOCK", (1 << 14) * data.num_bytes / 20_000)
    masking = MaskedLanguageModelMasking(Vocabulary.from_file(vocab), 10)
    whole = take(training_batches(data, masking, 500, seed=0), 45)
    for first in (32, 33, 41):
        resumed = training_batches(data, masking, 500, seed=0, first_batch=first)
        assert_equal(take(resumed, 3), whole[first : first + 3])
    positions = np.concatenate([batch["masked_lm_positions"] for batch in whole])
    assert len(np.unique(positions, axis=0)) > 0.95 * len(positions)


def test_masked_records_feed_pretraining_as_they_are(tmp_path):
    for name, labels in {"a": (0, 1), "b": (1,)}.items():
        write_records(tmp_path / f"{name}.tfrecord", list(map(masked_example, labels)))
    (tmp_path / "c.tfrecord").touch()
    data = PretrainingData(str(tmp_path / "*.tfrecord"))
    assert (data.num_examples, data.max_seq_length, data.max_predictions_per_seq) == (3, 6, 2)
    masking = MaskedLanguageModelMasking(Vocabulary([*SPECIAL_TOKENS, "a", "b", "c"]), 5)
    batch = take(evaluation_batches(data, masking, 4, seed=0), None)
    assert len(batch) == 1
    assert batch[0]["next_sentence_labels"].tolist() == [0, 1, 1, 1]
    assert batch[0]["example_weights"].tolist() == [1, 1, 1, 0]
    assert batch[0]["masked_lm_weights"].tolist() == [[1, 0]] * 3 + [[0, 0]]
    trained = take(training_batches(data, masking, 3, seed=0), 1)[0]
    assert sorted(trained["next_sentence_labels"].tolist()) == [0, 1, 1]
    assert trained["input_ids"].tolist() == [[2, 5, 4, 3, 0, 0]] * 3


def test_records_know_their_vocabulary(data, vocab):
    data.check_vocabulary(Vocabulary.from_file(vocab))
    with pytest.raises(ValueError, match="were made with another vocabulary"):
        data.check_vocabulary(Vocabulary([*SPECIAL_TOKENS, "a"]))


def test_pretraining_refuses_records_of_another_vocabulary(records, make_records, vocab, tmp_path):
    config = BertConfig(vocab_size=1200, max_position_embeddings=64)
    check_data(config, PretrainingData(records), PretrainingData(records))
    pieces = list(Vocabulary.from_file(vocab).tokens)
    pieces[-1], pieces[-2] = pieces[-2], pieces[-1]  # the same pieces with other ids
    Vocabulary(pieces).save(tmp_path / "vocab.txt")
    other = make_records(vocab=str(tmp_path / "vocab.txt"))
    with pytest.raises(ValueError, match=rf"{other} were made with another vocabulary"):
        check_data(config, PretrainingData(records), PretrainingData(other))
    swapped = shutil.copytree(records, tmp_path / "swapped")
    shutil.copy(other / "vocab.txt", swapped)
    with pytest.raises(ValueError, match=rf"{swapped} were made with another vocabulary"):
        check_data(config, PretrainingData(swapped), None)


@pytest.mark.parametrize(
    ("damage", "error", "sentence"),
    [
        (lambda p: p.unlink(), FileNotFoundError, "is missing, but manifest.json lists it"),
        (lambda p: p.write_bytes(p.read_bytes()[:-1]), ValueError, r"it is cut off or was changed"),
        (
            lambda p: p.write_bytes(b"x" * p.stat().st_size),
            ValueError,
            "is damaged, cut off or no TFRecord",
        ),
    ],
)
def test_damaged_records_are_named_when_opened(records, tmp_path, damage, error, sentence):
    folder = tmp_path / "copy"
    shutil.copytree(records, folder)
    damage(folder / "examples-00001-of-00003.tfrecord")
    with pytest.raises(error, match=rf"examples-00001-of-00003\.tfrecord.*{sentence}"):
        PretrainingData(folder)


def test_records_of_another_kind_are_named(records, tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no manifest.json"):
        PretrainingData(tmp_path)
    with pytest.raises(FileNotFoundError, match="there are no records at"):
        PretrainingData(tmp_path / "absent")
    with pytest.raises(ValueError, match="are not masked and come with a manifest.json"):
        PretrainingData([records / "*.tfrecord"])
    (tmp_path / "empty.tfrecord").touch()
    with pytest.raises(ValueError, match="hold no example"):
        PretrainingData(tmp_path / "empty.tfrecord")
