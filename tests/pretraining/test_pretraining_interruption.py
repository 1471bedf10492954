"""Runs that are interrupted: killed, terminated, damaged, moved to other machines."""

import json
import os
import random
import shutil
import signal
import time

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.data.records.writing import write_records
from keras_bert.pretraining import evaluation, pretrain
from tests.pretraining.pretraining_runs import (
    command,
    finish,
    metrics_of,
    run_pretraining,
    start,
    weights_of,
    without_dropout,
)
from tests.tolerances import EXACT, REORDERED_UPDATES


def _assert_same_weights(left, right, tolerance=EXACT, preset="preset"):
    left, right = weights_of(left, preset), weights_of(right, preset)
    assert left.keys() == right.keys()
    for path, value in left.items():
        np.testing.assert_allclose(value, right[path], **tolerance, err_msg=path)


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory):
    """A run of twenty steps with checkpoints at 5, 10, 15 and 20."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    run_pretraining(corpus, folder, checkpoint_steps=5, keep_checkpoints=4)
    return folder


def _stopped_at(whole, folder, step):
    """Makes a copy of a run as it was after the checkpoint of a step."""
    shutil.copytree(whole, folder)
    shutil.rmtree(folder / "preset")
    for path in (folder / "checkpoints").glob("step-*"):
        if int(path.name.split("-")[1].split(".")[0]) > step:
            path.unlink()
    return folder


def _cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _change_a_byte(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x40
    path.write_bytes(bytes(content))


@pytest.mark.parametrize(
    ("suffix", "damage"),
    [
        pytest.param(".data-00000-of-00001", _cut, marks=pytest.mark.long),
        (".data-00000-of-00001", _change_a_byte),
        pytest.param(".data-00000-of-00001", lambda path: path.unlink(), marks=pytest.mark.long),
        (".index", _cut),
    ],
    ids=["cut data", "changed data", "no data", "cut index"],
)
def test_a_damaged_checkpoint_falls_back_to_the_one_before(
    corpus, whole, tmp_path, capsys, suffix, damage
):
    folder = _stopped_at(whole, tmp_path / "run", 15)
    damage(folder / "checkpoints" / f"step-15{suffix}")
    run_pretraining(corpus, folder, checkpoint_steps=5, keep_checkpoints=4)
    shown = capsys.readouterr()
    assert "step-15 cannot be restored" in shown.err
    assert "going back to step 10" in shown.err
    assert "resumed at step 10" in shown.out
    _assert_same_weights(whole, folder)


def test_a_run_without_a_whole_checkpoint_is_not_begun_anew(corpus, whole, tmp_path):
    folder = _stopped_at(whole, tmp_path / "run", 10)
    for path in (folder / "checkpoints").glob("*.data*"):
        _cut(path)
    with pytest.raises(ValueError, match=r"step-10 cannot be restored: .*; nor can any other in"):
        run_pretraining(corpus, folder, checkpoint_steps=5)


@pytest.mark.slow
def test_a_checkpoint_out_of_reach_is_not_a_damaged_one(corpus, whole, tmp_path, monkeypatch):
    # A bucket that does not answer, which nothing on one machine can bring about.
    def out_of_reach(checkpoint, path, options):
        raise tf.errors.UnavailableError(None, None, "the service is overloaded")

    folder = _stopped_at(whole, tmp_path / "run", 15)
    with monkeypatch.context() as patched:
        patched.setattr(tf.train.Checkpoint, "restore", out_of_reach)
        with pytest.raises(ValueError, match=r"step-15 cannot be reached: .*; start the same"):
            run_pretraining(corpus, folder, checkpoint_steps=5)
    run_pretraining(corpus, folder, checkpoint_steps=5)
    _assert_same_weights(whole, folder)


def test_the_list_of_checkpoints_may_be_lost(corpus, whole, tmp_path, capsys):
    folder = _stopped_at(whole, tmp_path / "run", 15)
    (folder / "checkpoints" / "checkpoint").unlink()
    run_pretraining(corpus, folder, checkpoint_steps=5)
    assert "resumed at step 15" in capsys.readouterr().out
    _assert_same_weights(whole, folder)


def test_the_latest_checkpoints_stay(corpus, tmp_path):
    run_pretraining(corpus, tmp_path, checkpoint_steps=4, keep_checkpoints=2)
    names = {path.name for path in (tmp_path / "checkpoints").glob("*.index")}
    assert names == {"step-16.index", "step-20.index"}
    with pytest.raises(ValueError, match="keep_checkpoints is 0"):
        run_pretraining(corpus, tmp_path / "none", keep_checkpoints=0)


def test_what_a_killed_run_was_writing_does_not_stay(corpus, whole, tmp_path):
    folder = _stopped_at(whole, tmp_path / "run", 15)
    checkpoints = folder / "checkpoints"
    listed = {path.name for path in (whole / "checkpoints").iterdir()}
    # The names are those of TensorFlow's runs that were killed: a part of a checkpoint, the data of
    # one whose index was missing, and the list of the checkpoints.
    part = checkpoints / "step-20_temp" / "part-00000-of-00001.data-00000-of-00001.tempstate294"
    part.parent.mkdir()
    for path in (
        part,
        checkpoints / "step-17.data-00000-of-00001",
        checkpoints / "step-20.index.tempstate12",
        checkpoints / f"checkpoint.tmp{'7a1c' * 8}",
    ):
        path.write_bytes(b"half")
    # These are the user's.
    kept = {"notes", "checkpoint.tmp_backup", "step-9_temp"}
    for name in ("notes/mine", "checkpoint.tmp_backup"):
        (checkpoints / name).parent.mkdir(exist_ok=True)
        (checkpoints / name).touch()
    (checkpoints / "step-9_temp").symlink_to(checkpoints / "notes")
    run_pretraining(corpus, folder, checkpoint_steps=5, keep_checkpoints=4)
    assert {path.name for path in checkpoints.iterdir()} == listed | kept
    assert (checkpoints / "notes" / "mine").exists()
    _assert_same_weights(whole, folder)


@pytest.mark.parametrize("name", ["rate[1e-3]", "run?", "*"])
def test_a_folder_that_would_be_a_pattern_is_refused(name, corpus, tmp_path):
    """TensorFlow would find none of its checkpoints again."""
    with pytest.raises(ValueError, match=r"has \[, \], \* or \? in its path: .*rename it"):
        run_pretraining(corpus, tmp_path / name)
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize(
    ("strategy", "accumulation_steps"),
    [
        pytest.param("mirrored", 1, marks=pytest.mark.slow),
        pytest.param("cpu", 4, marks=pytest.mark.long),
    ],
)
def test_a_run_goes_on_with_other_replicas_or_micro_batches(
    corpus, tmp_path, strategy, accumulation_steps
):
    config = without_dropout()
    folder = tmp_path / "run"
    run_pretraining(corpus, tmp_path / "whole", config=config, checkpoint_steps=10)
    _stopped_at(tmp_path / "whole", folder, 10)
    run_pretraining(
        corpus,
        folder,
        strategy,
        config=config,
        checkpoint_steps=10,
        accumulation_steps=accumulation_steps,
    )
    _assert_same_weights(tmp_path / "whole", folder, REORDERED_UPDATES)
    assert [line["step"] for line in metrics_of(folder, "train")][-1] == 20


@pytest.mark.slow
def test_what_a_kill_after_the_last_checkpoint_left_out_is_made_up_for(corpus, tmp_path):
    run = {"eval_data_dir": str(corpus / "records"), "eval_steps": 10, "preset_steps": 20}
    run_pretraining(corpus, tmp_path / "whole", **run)
    folder = tmp_path / "run"
    shutil.copytree(tmp_path / "whole", folder)
    for name in ("preset", "best_preset", "kept_presets"):
        shutil.rmtree(folder / name)
    run_pretraining(corpus, folder, **run)
    _assert_same_weights(tmp_path / "whole", folder)
    _assert_same_weights(tmp_path / "whole", folder, preset="kept_presets/step_20")
    assert metrics_of(folder, "eval") == metrics_of(tmp_path / "whole", "eval")


@pytest.mark.slow
def test_the_best_stays_where_a_run_goes_on_with_other_evaluations(corpus, tmp_path):
    run = {"eval_data_dir": str(corpus / "records"), "checkpoint_steps": 10}
    run_pretraining(corpus, tmp_path, eval_steps=10, **run)
    # As if it had been stopped behind step 10, whose evaluation was the best.
    for path in (tmp_path / "checkpoints").glob("step-20*"):
        path.unlink()
    lines = [*metrics_of(tmp_path, "train"), *metrics_of(tmp_path, "eval")]
    lines = [line | {"loss": -1.0} for line in lines if line["step"] <= 10]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    best = tmp_path / "best_preset" / "model.weights.h5"
    before = best.stat().st_mtime_ns
    run_pretraining(corpus, tmp_path, eval_steps=20, **run)
    assert best.stat().st_mtime_ns == before
    assert [line["step"] for line in metrics_of(tmp_path, "eval")] == [10, 20]


@pytest.mark.slow
def test_the_best_is_chosen_anew_on_other_held_out_records(corpus, tmp_path, monkeypatch, capsys):
    losses = iter([1.0, 3.0, 3.0, 3.0])  # at steps 5, 10, 15 and 20
    monkeypatch.setattr(pretrain, "create_evaluation", lambda *_: lambda: {"loss": next(losses)})
    run = {"eval_steps": 5, "checkpoint_steps": 5, "keep_checkpoints": 4}
    folder, best = tmp_path / "run", tmp_path / "run" / "best_preset" / "model.weights.h5"
    run_pretraining(corpus, folder, eval_data_dir=str(corpus / "records"), **run)
    # As many records of the same size, in another order.
    other = shutil.copytree(corpus / "records", tmp_path / "other")
    shard = min(other.glob("*.tfrecord"))
    records = list(tf.data.TFRecordDataset(str(shard)).as_numpy_iterator())
    write_records(shard, records[::-1])
    told = []
    # The second time as if the first had been killed before it wrote a checkpoint: that of step 10
    # knows the best of the records before.
    for _ in range(2):
        for path in (folder / "checkpoints").glob("step-[12][50]*"):
            if not path.name.startswith("step-10"):
                path.unlink()
        before = best.stat().st_mtime_ns
        losses = iter([2.0, 2.5, 2.5])  # again at step 10, then at 15 and 20
        run_pretraining(corpus, folder, eval_data_dir=str(other), **run)
        assert best.stat().st_mtime_ns > before
        told.append(capsys.readouterr().out.count("are others than before: the best model is"))
    assert told == [1, 0]
    # Those that are left: the best of these records stays the best.
    before = best.stat().st_mtime_ns
    for path in (folder / "checkpoints").glob("step-20*"):
        path.unlink()
    losses = iter([2.5, 2.5])
    run_pretraining(corpus, folder, eval_data_dir=str(other), **run)
    assert best.stat().st_mtime_ns == before


@pytest.mark.slow
def test_a_run_that_is_killed_while_it_evaluates_loses_no_step(corpus, tmp_path, monkeypatch):
    run = {"eval_data_dir": str(corpus / "records"), "eval_steps": 10}
    run_pretraining(corpus, tmp_path / "whole", **run)

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(evaluation, "make_evaluation_step", lambda *_: killed)
    with pytest.raises(KeyboardInterrupt):
        run_pretraining(corpus, tmp_path / "run", **run)
    monkeypatch.undo()
    assert (tmp_path / "run" / "checkpoints" / "step-10.index").exists()
    run_pretraining(corpus, tmp_path / "run", **run)
    _assert_same_weights(tmp_path / "whole", tmp_path / "run")
    assert metrics_of(tmp_path / "run", "eval") == metrics_of(tmp_path / "whole", "eval")


def test_sigterm_is_heeded_after_an_evaluation(corpus, tmp_path, monkeypatch, capfd):
    def evaluates():
        os.kill(os.getpid(), signal.SIGTERM)
        return {"loss": 1.0}

    monkeypatch.setattr(pretrain, "create_evaluation", lambda *_: evaluates)
    run = {"eval_data_dir": str(corpus / "records"), "eval_steps": 5, "train_steps": 20}
    assert run_pretraining(corpus, tmp_path, **run) is None
    assert [line["step"] for line in metrics_of(tmp_path, "train")][-1] == 5
    assert "stopped by SIGTERM at step 5, which is saved" in "".join(capfd.readouterr())


def _wait_for_step(process, folder, step):
    while not (folder / "metrics.jsonl").exists() or not any(
        line["step"] >= step for line in metrics_of(folder, "train")
    ):
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.05)


@pytest.mark.slow
def test_sigterm_loses_no_step(corpus, tmp_path):
    # No checkpoint is due before the end: what is saved is saved because of the signal.
    arguments = command(corpus, tmp_path, train_steps=2000, checkpoint_steps=100_000)
    process = start(arguments)
    _wait_for_step(process, tmp_path, 20)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM  # whoever watches it must start it again
    done = metrics_of(tmp_path, "train")[-1]["step"]
    assert f"stopped by SIGTERM at step {done}" in output
    assert tf.train.latest_checkpoint(str(tmp_path / "checkpoints")).endswith(f"step-{done}")
    assert not (tmp_path / "preset").exists()


@pytest.mark.slow
def test_a_terminated_run_ends_as_if_nothing_had_been(corpus, tmp_path):
    changes = {"train_steps": 300, "checkpoint_steps": 100_000}
    finish(command(corpus, tmp_path / "whole", **changes))
    step = 20
    for _ in range(2):
        process = start(command(corpus, tmp_path / "run", **changes))
        _wait_for_step(process, tmp_path / "run", step)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
        # Behind what this process has written, so that the next one has begun to train.
        step = metrics_of(tmp_path / "run", "train")[-1]["step"] + 20
    finish(command(corpus, tmp_path / "run", **changes))
    _assert_same_weights(tmp_path / "whole", tmp_path / "run")


def _is_to_save(run):
    # The metrics of a step are written just before its checkpoint.
    path = run / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    if not lines or not lines[-1].endswith("\n"):
        return False
    last = json.loads(lines[-1])
    return last["split"] == "train" and last["step"] % 10 == 0


# What of a process tells that it has come so far: something it prints, or a file it is writing.
# "restore" comes when there is a checkpoint.
MOMENTS = {
    "start-up": lambda run, printed: True,
    "first step": lambda run, printed: "pretraining " in printed,
    "checkpoint": lambda run, printed: _is_to_save(run),
    "evaluation": lambda run, printed: ": held-out " in printed,
    "restore": lambda run, printed: "resumed at step" in printed,
    "preset": lambda run, printed: any(run.glob("preset/.*/*")),
    "best preset": lambda run, printed: any(run.glob("best_preset/.*/*")),
    "kept preset": lambda run, printed: any(run.glob("kept_presets/*/.*/*")),
    "next checkpoint": lambda run, printed: printed.count(": held-out ") > 1,
}


def _last_step(run):
    lines = metrics_of(run, "train") if (run / "metrics.jsonl").exists() else []
    return lines[-1]["step"] if lines else 0


def _killed_at(moment, arguments, run, delay):
    """Starts the tool and kills it a little after a moment; tells whether it was still alive.

    A fast machine would come to the end of the run within the delay: the kill comes 20 steps after
    the moment at the latest.
    """
    process = start(arguments)
    while process.poll() is None and not MOMENTS[moment](run, process.printed()[0]):
        time.sleep(0.001)
    end, last = time.monotonic() + delay, _last_step(run) + 20
    while process.poll() is None and time.monotonic() < end and _last_step(run) < last:
        time.sleep(0.001)
    alive = process.poll() is None
    process.kill()
    process.wait()
    return alive


def _assert_killed_anywhere_it_ends_the_same(corpus, tmp_path, moments, steps):
    # Evaluations and presets are frequent, and each step of the host is short.
    changes = {
        **{"train_steps": steps, "checkpoint_steps": 10, "steps_per_loop": 5, "eval_steps": 10},
        **{"eval_data_dir": corpus / "records", "preset_steps": steps // 4},
    }
    whole, run = tmp_path / "whole", tmp_path / "run"
    finish(command(corpus, whole, **changes))
    draw = random.Random(7)
    killed = []
    for moment in moments:
        delay = draw.choice([0.0, 0.01, 0.1, 1.0]) * draw.random()
        arguments = command(corpus, run, **changes)
        killed.append(_killed_at(moment, arguments, run, delay))
    assert all(killed), f"the run ended before {moments[killed.index(False)]!r}: give more steps"
    assert not (run / "report.md").exists()
    finish(command(corpus, run, **changes))
    _assert_same_weights(whole, run)
    _assert_same_weights(whole, run, preset="best_preset")
    for part in range(1, 5):
        _assert_same_weights(whole, run, preset=f"kept_presets/step_{part * steps // 4}")
    lines = metrics_of(run, "train")
    assert [line["step"] for line in lines] == sorted({line["step"] for line in lines})
    timed = ("tokens_per_second", "seconds")
    for split in ("train", "eval"):
        expected, found = metrics_of(whole, split), metrics_of(run, split)
        for line in (*expected, *found):
            for name in timed:
                line.pop(name, None)
        assert found == expected
    assert not [path for path in run.rglob("*") if "tempstate" in path.name]


@pytest.mark.slow
@pytest.mark.timeout(1800)  # six runs, on a busy machine
def test_a_kill_at_any_moment_changes_nothing(corpus, tmp_path):
    # The other moments are among the fifty. Before "restore" comes one that leaves a checkpoint.
    moments = ["checkpoint", "evaluation", "restore", "best preset"]
    _assert_killed_anywhere_it_ends_the_same(corpus, tmp_path, moments, 200)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_fifty_kills_change_nothing(corpus, tmp_path):
    moments = ["evaluation", *random.Random(11).choices(list(MOMENTS), k=49)]
    _assert_killed_anywhere_it_ends_the_same(corpus, tmp_path, moments, 4000)
