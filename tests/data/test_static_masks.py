"""Masks that are stored: the examples are those of unmasked records of the same seed."""

import shutil
from collections import Counter
from typing import get_args

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.choices import MaskingStrategy
from keras_bert.data.creation.options import CreationOptions
from keras_bert.data.records.encoding import encode_masked_examples
from keras_bert.data.records.pipeline import stored_batches, training_batches
from keras_bert.data.records.record_set import PretrainingData
from keras_bert.pretraining.inputs import open_records, tokenizer_folder
from keras_bert.text.masking import MaskedLanguageModelMasking
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary

STRATEGIES = get_args(MaskingStrategy)


@pytest.fixture(scope="module")
def static(make_records):
    """A folder of masked records for each strategy."""
    return {
        strategy: make_records(static_masking=True, masking=strategy) for strategy in STRATEGIES
    }


def read(folder):
    batches = list(stored_batches(PretrainingData(folder), 1000).as_numpy_iterator())
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def restored(rows):
    ids = rows["input_ids"].copy()
    row, slot = np.nonzero(rows["masked_lm_weights"])
    ids[row, rows["masked_lm_positions"][row, slot]] = rows["masked_lm_ids"][row, slot]
    return ids


def as_examples(rows, ids):
    columns = zip(ids, rows["segment_ids"], rows["next_sentence_labels"], strict=True)
    return Counter((a.tobytes(), b.tobytes(), int(label)) for a, b, label in columns)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_under_the_masks_are_the_unmasked_examples(static, records, strategy):
    masked, plain = read(static[strategy]), read(records)
    assert as_examples(masked, restored(masked)) == as_examples(plain, plain["input_ids"])
    np.testing.assert_array_equal(masked["input_mask"], plain["input_mask"])
    chosen, lengths = masked["masked_lm_weights"].sum(axis=1), masked["input_mask"].sum(axis=1)
    room = np.clip(np.round(lengths * 0.15), 1, 10)
    assert (chosen <= room).all()
    if strategy == "token":
        assert (chosen == room).all()
    assert chosen.sum() > 0.97 * room.sum()
    assert len(np.unique(masked["masked_lm_positions"], axis=0)) > 0.95 * len(lengths)


def test_the_schema_is_googles(static):
    path = next(static["token"].glob("*.tfrecord"))
    for record in tf.data.TFRecordDataset(str(path)).take(3).as_numpy_iterator():
        features = tf.train.Example.FromString(record).features.feature
        kinds = {name: feature.WhichOneof("kind") for name, feature in features.items()}
        lengths = {
            name: (kind, len(getattr(features[name], kind).value)) for name, kind in kinds.items()
        }
        assert lengths == {
            "input_ids": ("int64_list", 64),
            "input_mask": ("int64_list", 64),
            "segment_ids": ("int64_list", 64),
            "masked_lm_positions": ("int64_list", 10),
            "masked_lm_ids": ("int64_list", 10),
            "masked_lm_weights": ("float_list", 10),
            "next_sentence_labels": ("int64_list", 1),
        }


def test_the_files_alone_are_records_of_google(static):
    """Without their manifest they are read as what the original's script writes."""
    data = PretrainingData(str(static["ngram"] / "*.tfrecord"))
    assert (data.max_seq_length, data.max_predictions_per_seq, data.manifest) == (64, 10, None)


def test_pretraining_takes_the_stored_masks(static, vocab):
    data = PretrainingData(static["whole_word"])
    assert data.max_predictions_per_seq == 10
    masking = MaskedLanguageModelMasking(Vocabulary.from_file(vocab), 5)  # not used
    batch = next(iter(training_batches(data, masking, 8, seed=0)))
    assert batch["masked_lm_positions"].shape == (8, 10)
    stored = read(static["whole_word"])
    rows = {ids.tobytes() for ids in stored["input_ids"]}
    assert all(ids.tobytes() in rows for ids in batch["input_ids"].numpy())


@pytest.mark.parametrize("workers", [pytest.param(2, marks=pytest.mark.slow), 1])
def test_the_bytes_do_not_depend_on_the_number_of_workers(static, make_records, workers):
    again = make_records(static_masking=True, masking="ngram", num_workers=workers)
    for path in static["ngram"].iterdir():
        assert (again / path.name).read_bytes() == path.read_bytes()


def test_copies_of_a_document_are_masked_differently(make_records):
    rows = read(
        make_records(
            static_masking=True, sentence_task="none", short_seq_prob=0, dupe_factor=3, num_shards=1
        )
    )
    long = rows["input_mask"].sum(axis=1) > 40  # few pieces may well be chosen alike
    rows = {name: values[long] for name, values in rows.items()}
    masks: dict[bytes, set] = {}
    for ids, positions in zip(restored(rows), rows["masked_lm_positions"], strict=True):
        masks.setdefault(ids.tobytes(), set()).add(positions.tobytes())
    copies = [len(found) for found in masks.values()]
    assert sum(copies) > 0.99 * len(rows["input_ids"])
    assert np.mean(copies) > 2  # though copies are not all cut alike


def test_any_rate_and_any_split(make_records, vocab):
    mask_id = Vocabulary.from_file(vocab).mask_id
    rows = read(
        make_records(
            static_masking=True, masked_lm_prob=0.4, mask_token_rate=0.5, random_token_rate=0.0
        )
    )
    assert rows["masked_lm_positions"].shape[1] == 26  # 0.4 * 64, rounded up
    used = rows["masked_lm_weights"] > 0
    wanted = np.round(rows["input_mask"].sum(axis=1) * 0.4)
    np.testing.assert_array_equal(used.sum(axis=1), wanted)
    shown = np.take_along_axis(rows["input_ids"], rows["masked_lm_positions"], axis=1)[used]
    assert abs((shown == mask_id).mean() - 0.5) < 0.01
    assert (shown[shown != mask_id] == rows["masked_lm_ids"][used][shown != mask_id]).all()
    few = read(make_records(static_masking=True, max_predictions_per_seq=2))
    assert few["masked_lm_positions"].shape[1] == 2


# The oracle is protobuf itself.
def test_the_bytes_are_those_of_tf_train_example():
    batch = {
        "input_ids": np.array([[101, 30000, 5, 0], [127, 128, 16383, 16384]]),
        "input_mask": np.array([[1, 1, 1, 0], [1, 1, 1, 1]]),
        "segment_ids": np.array([[0, 0, 1, 0], [0, 1, 1, 1]]),
        "masked_lm_positions": np.array([[1, 0], [2, 300]]),
        "masked_lm_ids": np.array([[7, 0], [9, 20000]]),
        "masked_lm_weights": np.array([[1.0, 0.0], [1.0, 0.25]]),
        "next_sentence_labels": np.array([1, 0]),
    }
    for row, encoded in enumerate(encode_masked_examples(batch)):
        features = tf.train.Example.FromString(encoded).features.feature
        assert set(features) == set(batch)
        for name, values in batch.items():
            kind = "float_list" if name == "masked_lm_weights" else "int64_list"
            found = list(getattr(features[name], kind).value)
            assert found == np.atleast_1d(values[row]).tolist()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"masking": "ngram"}, "masking is 'ngram', but masks are drawn when the records are read"),
        ({"masked_lm_prob": 0.2}, "masked_lm_prob is 0.2, but masks are drawn when the records"),
        ({"max_predictions_per_seq": 20}, "max_predictions_per_seq is 20, but masks are drawn"),
        (
            {"static_masking": True, "max_predictions_per_seq": 129},
            "max_predictions_per_seq is 129: it must be at most max_seq_length, 128",
        ),
        ({"static_masking": True, "masking": "words"}, "masking is 'words': choose one of token"),
        ({"static_masking": True, "masked_lm_prob": 0}, "masked_lm_prob is 0: it must be above 0"),
        ({"static_masking": True, "max_predictions_per_seq": 0}, "max_predictions_per_seq is 0"),
        (
            {"static_masking": True, "mask_token_rate": 1.1},
            "mask_token_rate is 1.1: it must be from",
        ),
        (
            {"static_masking": True, "pack": True, "sentence_task": "none"},
            "which has no pack_ids: leave out --pack or --static_masking",
        ),
    ],
)
def test_options_that_do_not_go_together_are_refused(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        CreationOptions(**({"inputs": ("a",), "vocab": "b", "output_dir": "c"} | changes))


@pytest.fixture(scope="module")
def alone(make_records):
    """A folder of masked records without pairs."""
    return make_records(static_masking=True, sentence_task="none", num_shards=2)


def test_files_of_ours_are_what_the_manifest_beside_them_says(static, alone, tmp_path, vocab):
    for names in ([f"{alone}/*.tfrecord"], [min(alone.glob("*.tfrecord"))]):
        data = PretrainingData(names)
        assert data.sentence_task == PretrainingData(alone).sentence_task == "none"
        data.check_vocabulary(Vocabulary.from_file(vocab))
        with pytest.raises(ValueError, match="were made with another vocabulary"):
            data.check_vocabulary(Vocabulary([*SPECIAL_TOKENS, "other"]))
    with pytest.raises(ValueError, match="has the sentence task nsp .* files of one kind"):
        PretrainingData([f"{alone}/*.tfrecord", f"{static['token']}/*.tfrecord"])
    # Files of others have none, or one of theirs that is not of this kind.
    for path in alone.glob("*.tfrecord"):
        shutil.copy(path, tmp_path / path.name.replace("examples", "tf_examples"))
    (tmp_path / "manifest.json").write_text("{}")
    assert PretrainingData([f"{tmp_path}/*.tfrecord"]).sentence_task == "nsp"


def test_files_are_named_by_a_pattern_or_one_by_one(static):
    """As run_pretraining gives them; their tokenizer lies beside them."""
    folder = static["ngram"]
    files = sorted(map(str, folder.glob("*.tfrecord")))
    strategy = tf.distribute.get_strategy()
    whole = open_records(str(folder), strategy).num_examples
    for names in (f"{folder}/*.tfrecord", ",".join(files)):
        assert open_records(names, strategy).num_examples == whole
        assert tokenizer_folder(names) == str(folder)
    assert open_records(files[0], strategy).num_examples < whole
    assert tokenizer_folder(files[0]) == tokenizer_folder(str(folder)) == str(folder)
