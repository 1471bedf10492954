"""Fine-tuning in processes of its own: killed, terminated, several that train one model."""

import glob
import json
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from keras_bert import BertClassifier, BertConfig, BertEncoder, BertTokenizer
from tests.conftest import sentiment_rows, write_csv
from tests.pretraining.pretraining_runs import ROOT, free_ports, start
from tests.tolerances import REORDERED

TERMINATED = 128 + signal.SIGTERM


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reviews")
    for seed, (name, count) in enumerate({"train": 300, "dev": 30, "test": 30}.items()):
        write_csv(folder / f"{name}.csv", ["text", "label"], sentiment_rows(count, seed))
    return folder


def command(data, init_from, model_dir, **changes):
    flags = {
        "data": data,
        "init_from": init_from,
        "model_dir": model_dir,
        "epochs": 6,
        "batch_size": 8,
        "learning_rate": 1e-3,
        "mixed_precision": "float32",
        "strategy": "cpu",
    }
    tool = str(ROOT / "tools" / "run_finetuning.py")
    return [sys.executable, tool, *(f"--{name}={v}" for name, v in (flags | changes).items())]


def files(model_dir, pattern):
    # Hidden files are left out: they are being written, and may be gone when looked at.
    return set(map(Path, glob.glob(str(model_dir / "**" / pattern), recursive=True)))


def epochs_done(model_dir):
    """Counts the epochs of all runs that are logged."""
    logs = [file.read_text() for file in files(model_dir, "metrics.jsonl")]
    return sum(log.count('"split": "validation"') for log in logs)


def wait_for(process, condition):
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.01)


def finished(process):
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output
    return output


def weights_of(folder):
    return {weight.path: weight.numpy() for weight in BertClassifier.from_preset(folder).weights}


def measured(folder):
    content = json.loads((folder / "metrics.json").read_text())
    return {n: v for n, v in content.items() if n not in ("seconds", "real_tokens_per_second")}


@pytest.mark.slow
@pytest.mark.timeout(1800)  # several runs, on a busy machine
@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.long)])
def test_kills_and_terminations_change_nothing(kills, reviews, pretrained_folder, tmp_path):
    arguments = reviews, pretrained_folder
    changes = {"seeds": 2, "checkpoint_steps": 20}
    whole, run = tmp_path / "whole", tmp_path / "run"
    finished(start(command(*arguments, whole, **changes)))
    draw = random.Random(3)
    # At any moment after a new checkpoint: between steps, within them, while saving, evaluating.
    for _ in range(kills):
        before = files(run, "step-*.index")
        process = start(command(*arguments, run, **changes))
        wait_for(process, lambda: files(run, "step-*.index") - before)  # noqa: B023
        time.sleep(draw.uniform(0.0, 0.3))
        process.kill()
        process.communicate()
    # What is saved now is saved because of the signal.
    before, known = files(run, "step-*.index"), epochs_done(run)
    process = start(command(*arguments, run, **changes | {"checkpoint_steps": 100_000}))
    wait_for(process, lambda: epochs_done(run) > known)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == TERMINATED, output
    assert "stopped by SIGTERM at step" in output
    assert files(run, "step-*.index") - before
    assert not (run / "README.md").exists()
    assert "resumed at step" in finished(start(command(*arguments, run, **changes)))
    assert measured(run) == measured(whole)
    assert measured(run / "runs" / "seed=1") == measured(whole / "runs" / "seed=1")
    left, right = weights_of(whole), weights_of(run)
    assert left.keys() == right.keys()
    for path, value in left.items():
        np.testing.assert_array_equal(right[path], value, err_msg=path)
    assert not list(run.rglob("checkpoints"))


@pytest.mark.slow
@pytest.mark.timeout(1800)  # several runs, on a busy machine
def test_two_workers_learn_as_one_process_and_stop_together(reviews, pretrained_folder, tmp_path):
    config = BertConfig.from_file(pretrained_folder)
    config = config.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    tokenizer = BertTokenizer.from_preset(pretrained_folder)
    BertEncoder(config).save_to_preset(tmp_path / "start", tokenizer)
    one, two = tmp_path / "one", tmp_path / "two"
    finished(start(command(reviews, tmp_path / "start", one)))

    def workers():
        arguments = command(reviews, tmp_path / "start", two, strategy="multi_worker")
        cluster = {"worker": [f"localhost:{port}" for port in free_ports(2)]}
        return [
            start(
                arguments,
                TF_CONFIG=json.dumps(
                    {"cluster": cluster, "task": {"type": "worker", "index": index}}
                ),
            )
            for index in range(2)
        ]

    processes = workers()
    wait_for(processes[0], lambda: epochs_done(two))
    processes[1].send_signal(signal.SIGTERM)  # one of them is told, both stop
    for process in processes:
        output, _ = process.communicate(timeout=300)
        assert process.returncode == TERMINATED, output
        assert "stopped by SIGTERM at step" in output
    outputs = [finished(process) for process in workers()]
    assert all("resumed at step" in output for output in outputs)
    # The first one alone writes, and says what it wrote.
    assert ["model folder:" in output for output in outputs] == [True, False]
    assert measured(two)["best_epoch"] == measured(one)["best_epoch"]
    assert measured(two)["metrics"]["test"] == pytest.approx(
        measured(one)["metrics"]["test"], abs=1e-4
    )
    left, right = weights_of(one), weights_of(two)
    for path, value in left.items():
        np.testing.assert_allclose(right[path], value, **REORDERED, err_msg=path)
