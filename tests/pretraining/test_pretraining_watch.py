"""Runs on records with numbers that are not finite, and what a run leaves to be read."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertTokenizer
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from keras_bert.visualize.pretraining_report import write_pretraining_report
from tests.pretraining.pretraining_runs import (
    WORDS,
    metrics_of,
    run_pretraining,
    tiny_config,
    weights_of,
)

EXAMPLES, LENGTH, PREDICTIONS = 64, 12, 3
KNOWN = len(WORDS)


def _masked_example(random, weight, words):
    ids = random.integers(5, 5 + words, LENGTH)
    positions = np.sort(random.choice(LENGTH, PREDICTIONS, replace=False))
    integers = {
        "input_ids": ids,
        "input_mask": np.ones(LENGTH, int),
        "segment_ids": np.zeros(LENGTH, int),
        "masked_lm_positions": positions,
        "masked_lm_ids": ids[positions],
        "next_sentence_labels": [0],
    }
    features = {
        name: tf.train.Feature(int64_list=tf.train.Int64List(value=value))
        for name, value in integers.items()
    }
    weights = tf.train.FloatList(value=[1.0, 1.0, weight])
    features["masked_lm_weights"] = tf.train.Feature(float_list=weights)
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def _write_records(folder, bad, words=KNOWN):
    """Writes Google's records, of which `bad` have a weight that is no number."""
    folder.mkdir()
    BertTokenizer(Vocabulary([*SPECIAL_TOKENS, *WORDS[:words]])).save(folder)
    random = np.random.default_rng(2)
    with tf.io.TFRecordWriter(str(folder / "records-0.tfrecord")) as writer:
        for number in range(EXAMPLES):
            weight = float("nan") if number < bad else 1.0
            writer.write(_masked_example(random, weight, words))
    return folder / "*.tfrecord"


@pytest.mark.parametrize(
    ("strategy", "accumulation_steps"),
    [("cpu", 1), pytest.param("mirrored", 2, marks=pytest.mark.long)],
)
def test_a_nan_in_the_data_is_skipped_and_counted(tmp_path, capsys, strategy, accumulation_steps):
    # Each of two epochs of four batches holds the one bad example once.
    records = _write_records(tmp_path / "records", bad=1)
    run_pretraining(
        tmp_path,
        tmp_path / "run",
        strategy,
        data_dir=str(records),
        train_steps=8,
        steps_per_loop=4,
        accumulation_steps=accumulation_steps,
    )
    assert metrics_of(tmp_path / "run", "train")[-1]["skipped_steps"] == 2
    events = metrics_of(tmp_path / "run", "event")
    assert len(events) == 2
    for event in events:
        assert event["message"].startswith(f"step {event['step']} skipped, loss nan")
    assert "skipped, loss nan" in capsys.readouterr().err
    assert all(np.isfinite(value).all() for value in weights_of(tmp_path / "run").values())
    assert all(np.isfinite(line["loss"]) for line in metrics_of(tmp_path / "run", "train"))


@pytest.mark.slow
@pytest.mark.parametrize("held_out", [False, True])
def test_a_damaged_file_of_records_is_named(corpus, tmp_path, held_out):
    shutil.copytree(corpus / "records", tmp_path / "records")
    file = max((tmp_path / "records").glob("*.tfrecord"))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0x40
    file.write_bytes(content)
    folders = {"data_dir": str(tmp_path / "records")}
    if held_out:
        folders = {"eval_data_dir": str(tmp_path / "records")}
    with pytest.raises(ValueError, match=f"{file} is damaged, cut off .*corrupted record at"):
        run_pretraining(corpus, tmp_path / "run", train_steps=40, **folders)


def test_nothing_but_nan_stops_the_run(tmp_path):
    records = _write_records(tmp_path / "records", bad=EXAMPLES)
    message = r"4 steps in a row .* up to step 4 \(learning rate .*there was no good step\)"
    with pytest.raises(ValueError, match=message):
        run_pretraining(tmp_path, tmp_path / "run", data_dir=str(records), max_skipped_steps=3)
    # One call of the loop may hold all of them: each is told before the run ends.
    events = [line["message"] for line in metrics_of(tmp_path / "run", "event")]
    assert [event.split(",")[0] for event in events] == [f"step {n} skipped" for n in range(1, 5)]


def test_ids_that_the_vocabulary_lacks_are_named(tmp_path):
    """On an accelerator the embedding of such an id is an arbitrary one and no error."""
    records = _write_records(tmp_path / "records", bad=0)
    BertTokenizer(Vocabulary([*SPECIAL_TOKENS, *WORDS[:-1]])).save(tmp_path / "records")
    config = tiny_config(vocab_size=len(SPECIAL_TOKENS) + KNOWN - 1)
    message = (
        r"records-0\.tfrecord: record \d+ has the id 22 in input_ids, but the vocabulary has 22 "
        "entries: put the one"
    )
    for name in ("data_dir", "eval_data_dir"):
        good = _write_records(tmp_path / name, bad=0, words=KNOWN - 1)
        folders = {"data_dir": str(good), "eval_data_dir": str(good), name: str(records)}
        with pytest.raises(ValueError, match=message):
            run_pretraining(tmp_path, tmp_path / "run", config=config, **folders)


@pytest.mark.slow
def test_a_run_without_next_sentences_leaves_their_head_alone(corpus, tmp_path):
    run_pretraining(corpus, tmp_path / "none", train_steps=2, learning_rate=1e-9)
    # Decay alone would take a third of them.
    run_pretraining(
        corpus, tmp_path / "run", train_steps=6, next_sentence=False, weight_decay_rate=30.0
    )
    trained = weights_of(tmp_path / "run")
    fresh = weights_of(tmp_path / "none")
    changed = {path for path in fresh if np.abs(fresh[path] - trained[path]).max() > 1e-6}
    assert not any("next_sentence" in path or "pooler" in path for path in changed)
    assert any("masked_lm" in path for path in changed)
    assert "next_sentence_loss" not in metrics_of(tmp_path / "run", "train")[-1]


@pytest.mark.slow
def test_the_best_model_is_kept_beside_the_latest(corpus, tmp_path):
    # The rate grows until the model is destroyed: the best evaluation is not the last one.
    run_pretraining(
        corpus,
        tmp_path,
        eval_data_dir=str(corpus / "records"),
        train_steps=60,
        warmup_steps=60,
        eval_steps=20,
        checkpoint_steps=20,
        learning_rate=0.3,
    )
    losses = [line["loss"] for line in metrics_of(tmp_path, "eval")]
    assert min(losses) < losses[-1]
    step = 20 * (1 + losses.index(min(losses)))
    saved = tf.train.load_checkpoint(str(tmp_path / "checkpoints" / f"step-{step}"))
    [kernel] = [
        saved.get_tensor(name)
        for name in saved.get_variable_to_shape_map()
        if name.startswith("model/") and "pooler" in name and "kernel" in name
    ]
    np.testing.assert_array_equal(weights_of(tmp_path, "best_preset")["pooler/kernel"], kernel)
    best, latest = weights_of(tmp_path, "best_preset"), weights_of(tmp_path)
    assert np.abs(best["pooler/kernel"] - latest["pooler/kernel"]).max() > 0.1


def test_presets_on_the_way_stay_and_are_those_of_their_steps(corpus, tmp_path):
    arguments = {"warmup_steps": 2, "checkpoint_steps": 4, "preset_steps": 2}
    run_pretraining(corpus, tmp_path / "whole", train_steps=6, **arguments)
    names = sorted(path.name for path in (tmp_path / "whole" / "kept_presets").iterdir())
    assert names == ["step_2", "step_4", "step_6"]
    # The oracle: a run that ended there, with the rates of the longer one.
    arguments |= {"preset_steps": 0, "schedule_steps": 6}
    run_pretraining(corpus, tmp_path / "short", train_steps=2, **arguments)
    found = weights_of(tmp_path / "whole", "kept_presets/step_2")
    for path, weights in weights_of(tmp_path / "short").items():
        np.testing.assert_array_equal(found[path], weights, err_msg=path)
    last = weights_of(tmp_path / "whole")
    for path, weights in weights_of(tmp_path / "whole", "kept_presets/step_6").items():
        np.testing.assert_array_equal(last[path], weights, err_msg=path)
    assert np.abs(last["pooler/kernel"] - found["pooler/kernel"]).max() > 0
    assert (tmp_path / "whole" / "kept_presets" / "step_2" / "vocab.txt").is_file()


def test_the_run_folder_tells_what_was_done(corpus, tmp_path):
    run_pretraining(
        corpus, tmp_path, eval_data_dir=str(corpus / "records"), eval_steps=10, peak_tflops=0.5
    )
    run_pretraining(corpus, tmp_path, eval_data_dir=str(corpus / "records"), peak_tflops=0.5)
    starts = [json.loads(line) for line in (tmp_path / "starts.jsonl").read_text().splitlines()]
    assert [start["step"] for start in starts] == [0, 20]
    assert starts[0]["versions"]["tensorflow"] == tf.__version__
    assert {device["type"] for device in starts[0]["devices"]} == {"CPU"}
    report = write_pretraining_report(tmp_path).read_text()
    assert "1 layers of 32 hidden units" in report
    assert "| masked lm loss |" in report
    assert starts[0]["command"] in report
    assert "![Learning curves](learning_curves.png)" in report
    assert (tmp_path / "learning_curves.png").read_bytes().startswith(b"\x89PNG")


def test_utilization_is_operations_over_what_the_devices_could_make(corpus, tmp_path):
    run_pretraining(corpus, tmp_path, peak_tflops=0.5, steps_per_loop=20)
    line = metrics_of(tmp_path, "train")[0]
    batch, length, hidden, inner, predictions, pieces = 16, 24, 32, 64, 4, 23
    # By hand: a product of [M, K] and [K, N] is 2MKN, three times that with both gradients.
    # The only block is the last, whose outputs are read at predicted positions and [CLS].
    read = 1 + predictions
    layer = 2 * batch * (length * 3 * hidden**2 + read * (hidden**2 + 2 * hidden * inner))
    attention = 2 * 2 * batch * read * length * hidden
    head = 2 * batch * predictions * (hidden**2 + hidden * pieces)
    pooler = 2 * batch * (hidden**2 + 2 * hidden)
    flops = 3 * 20 * (layer + attention + head + pooler)
    used = line["model_flop_utilization"] * 0.5e12 * line["seconds"]
    assert used == pytest.approx(flops, rel=0.02)


def test_a_report_needs_a_run(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no run: run.json is missing"):
        write_pretraining_report(tmp_path)
