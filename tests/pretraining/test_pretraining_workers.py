"""The same ten steps on one replica, on two, on two workers and in micro-batches."""

import json
import shutil
import signal
import time

import numpy as np
import pytest

from keras_bert.data.creation.create import create_pretraining_data
from keras_bert.data.creation.options import CreationOptions
from tests.pretraining.pretraining_runs import (
    command,
    free_ports,
    metrics_of,
    run_pretraining,
    start,
    weights_of,
    without_dropout,
)
from tests.tolerances import REORDERED, REORDERED_UPDATES, approx

STEPS = 10


def _start_workers(commands):
    workers = [f"localhost:{port}" for port in free_ports(len(commands))]
    return [
        start(
            [*arguments, "--strategy=multi_worker"],
            TF_CONFIG=json.dumps(
                {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
            ),
        )
        for index, arguments in enumerate(commands)
    ]


def _finish(processes, status=0):
    outputs = [process.communicate(timeout=240)[0] for process in processes]
    for process, output in zip(processes, outputs, strict=True):
        assert process.returncode == status, output
    return outputs


def _arguments(corpus, folder, **changes):
    flags = {
        "eval_data_dir": corpus / "records",
        "train_steps": STEPS,
        "warmup_steps": 2,
        "checkpoint_steps": 5,
        "seed": 3,
    }
    return command(corpus, folder, without_dropout(), **(flags | changes))


@pytest.fixture(scope="module")
def one_replica(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    records = str(corpus / "records")
    config = without_dropout()
    metrics = run_pretraining(
        corpus, folder, config=config, train_steps=STEPS, eval_data_dir=records
    )
    return folder, metrics


def _assert_same_run(one_replica, folder, metrics):
    expected, expected_metrics = one_replica
    weights = weights_of(folder)
    for path, value in weights_of(expected).items():
        np.testing.assert_allclose(weights[path], value, **REORDERED_UPDATES, err_msg=path)
    assert metrics == approx(expected_metrics, REORDERED)


@pytest.mark.parametrize(
    ("strategy", "accumulation_steps"),
    [
        pytest.param("mirrored", 2, marks=pytest.mark.slow),
        pytest.param("mirrored", 1, marks=pytest.mark.long),
        pytest.param("cpu", 2, marks=pytest.mark.long),
    ],
)
def test_replicas_and_micro_batches_make_one_batch(
    corpus, one_replica, tmp_path, strategy, accumulation_steps
):
    metrics = run_pretraining(
        corpus,
        tmp_path,
        strategy,
        config=without_dropout(),
        train_steps=STEPS,
        eval_data_dir=str(corpus / "records"),
        accumulation_steps=accumulation_steps,
    )
    _assert_same_run(one_replica, tmp_path, metrics)


@pytest.mark.slow
def test_two_workers_equal_one_replica_and_one_of_them_writes(corpus, one_replica, tmp_path):
    # Given folders of their own to tell who wrote what; real workers share one.
    chief, other = tmp_path / "chief", tmp_path / "other"
    processes = _start_workers([_arguments(corpus, folder) for folder in (chief, other)])
    outputs = _finish(processes)
    assert "2 replica(s)" in outputs[0]
    assert not other.exists()
    metrics = {k: v for k, v in metrics_of(chief, "eval")[-1].items() if k not in ("split", "step")}
    _assert_same_run(one_replica, chief, metrics)


@pytest.mark.slow
def test_workers_meet_before_records_that_are_named_one_by_one_are_read(corpus, tmp_path):
    records = tmp_path / "records"
    create_pretraining_data(
        CreationOptions(
            inputs=(str(corpus / "text.txt"),),
            vocab=str(corpus / "vocab.txt"),
            output_dir=str(records),
            max_seq_length=24,
            static_masking=True,
        )
    )
    told = _arguments(corpus, tmp_path / "run", data_dir=f"{records}/*.tfrecord")
    told = [flag for flag in told if not flag.startswith("--eval_data_dir")]
    [output] = _finish(_start_workers([told]))
    assert "1 replica(s)" in output


@pytest.mark.slow
def test_workers_that_do_not_share_a_folder_are_refused(corpus, one_replica, tmp_path):
    # The first would go on from its checkpoint, the other begin: two models, averaged.
    folders = tmp_path / "chief", tmp_path / "other"
    shutil.copytree(one_replica[0], folders[0])
    processes = _start_workers([_arguments(corpus, folder) for folder in folders])
    for process in processes:
        output, _ = process.communicate(timeout=240)
        assert process.returncode == 1
        assert "the workers stand at different steps (10, 0): give all of them one" in output


@pytest.mark.slow
@pytest.mark.parametrize("name", ["accumulation_steps", "model"])
def test_workers_with_different_options_are_refused(corpus, tmp_path, name):
    folder, config = tmp_path / "run", tmp_path / "config.json"
    # Of another model the workers could not even make the variables together.
    config.write_text(json.dumps(without_dropout(num_hidden_layers=2).to_dict()))
    # The other one is an option that a resumed run may change, so nothing else would notice it.
    more = {name: {"accumulation_steps": 2, "model": config}[name]}
    commands = [_arguments(corpus, folder, **changes) for changes in ({}, more)]
    for process in _start_workers(commands):
        output, _ = process.communicate(timeout=240)
        assert process.returncode == 1
        assert "the workers were started with different options" in output
    assert not (folder / "metrics.jsonl").exists()


@pytest.mark.slow
def test_two_workers_stop_together_and_go_on(corpus, tmp_path):
    folder = tmp_path / "run"
    changes = {"train_steps": 150, "checkpoint_steps": 100_000}
    arguments = _arguments(corpus, folder, **changes)
    processes = _start_workers([arguments] * 2)
    while not (folder / "metrics.jsonl").exists() or not metrics_of(folder, "train"):
        assert processes[0].poll() is None, processes[0].communicate()[0]
        time.sleep(0.05)
    processes[1].send_signal(signal.SIGTERM)  # one of them is told, both stop
    outputs = _finish(processes, 128 + signal.SIGTERM)
    done = metrics_of(folder, "train")[-1]["step"]
    assert all(f"stopped by SIGTERM at step {done}" in output for output in outputs)
    outputs = _finish(_start_workers([arguments] * 2))
    assert f"resumed at step {done}" in outputs[0]
    # Both workers add the same two numbers, so nothing may differ: not by a step, not by a bit.
    whole = tmp_path / "whole"
    _finish(_start_workers([_arguments(corpus, whole, **changes)] * 2))
    weights = weights_of(folder)
    for path, value in weights_of(whole).items():
        np.testing.assert_array_equal(weights[path], value, err_msg=path)
