"""Pretraining runs: they learn, resume exactly, and refuse what does not fit."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertClassifier
from keras_bert.pretraining import pretrain, run
from keras_bert.pretraining.pretrain import create_optimizer_and_schedule
from keras_bert.pretraining.run import PretrainingRun
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.training.checkpointing import TrainingCheckpoint
from keras_bert.training.strategy import create_strategy
from tests.pretraining.pretraining_runs import (
    metrics_of,
    run_options,
    run_pretraining,
    tiny_config,
    weights_of,
    without_dropout,
)
from tests.tolerances import FORMULA, REORDERED, REORDERED_UPDATES, approx
from tests.training.test_rematerialization import operations_of


def test_a_run_learns_and_leaves_a_model_folder(corpus, tmp_path, capsys):
    records = str(corpus / "records")
    metrics = run_pretraining(
        corpus,
        tmp_path,
        eval_data_dir=records,
        train_steps=240,
        warmup_steps=24,
        eval_steps=80,
        learning_rate=3e-3,
    )
    # Of six words two are "the" and certain, four are one of three: at best 1/3 + 2/3 * 1/3 = 0.56.
    assert metrics["masked_lm_accuracy"] > metrics["most_frequent_piece_accuracy"] + 0.1
    assert 0.3 < metrics["most_frequent_piece_accuracy"] < 0.4  # two pieces "the" of six a sentence
    held_out = metrics_of(tmp_path, "eval")
    assert [line["step"] for line in held_out] == [80, 160, 240]
    assert held_out[-1]["masked_lm_loss"] < held_out[0]["masked_lm_loss"]
    # By hand in test_baselines.py; said once, at the first evaluation below it.
    below = [
        line["step"]
        for line in held_out
        if line["masked_lm_loss"] < line["masked_lm_loss_without_context"]
    ]
    shown = capsys.readouterr()
    told = re.findall(r"step (\d+): the plateau is left", shown.out + shown.err)
    assert told == [str(below[0])]
    assert len(below) > 1
    assert metrics["perplexity"] == approx(np.exp(metrics["masked_lm_loss"]), REORDERED)
    classifier = BertClassifier.from_preset(tmp_path / "preset", num_classes=2)
    pretrained = weights_of(tmp_path)
    for variable in classifier.encoder.weights:
        if variable.path in pretrained:
            np.testing.assert_array_equal(variable.numpy(), pretrained[variable.path])
    assert BertTokenizer.from_preset(tmp_path / "preset")(["the cat"]).to_list() == [[5, 7]]
    assert list((tmp_path / "tensorboard").rglob("events*"))


def test_a_resumed_run_equals_one_that_was_never_stopped(corpus, tmp_path, monkeypatch):
    run_pretraining(corpus, tmp_path / "whole", checkpoint_steps=7)
    save = TrainingCheckpoint.save
    saves = []

    def stop_after_second_save(self):
        path = save(self)
        saves.append(path)
        if len(saves) == 2:
            raise KeyboardInterrupt
        return path

    monkeypatch.setattr(TrainingCheckpoint, "save", stop_after_second_save)
    with pytest.raises(KeyboardInterrupt):
        run_pretraining(corpus, tmp_path / "stopped", checkpoint_steps=7)
    monkeypatch.undo()
    run_pretraining(corpus, tmp_path / "stopped", checkpoint_steps=7)
    whole, stopped = weights_of(tmp_path / "whole"), weights_of(tmp_path / "stopped")
    for path, value in whole.items():
        np.testing.assert_array_equal(value, stopped[path], err_msg=path)
    assert metrics_of(tmp_path / "stopped", "train")[-1]["step"] == 20


@pytest.mark.long
def test_two_replicas_read_and_learn_what_one_does(corpus, tmp_path):
    config = without_dropout()
    run_pretraining(corpus, tmp_path / "one", config=config)
    run_pretraining(corpus, tmp_path / "two", "mirrored", config=config)
    one, two = weights_of(tmp_path / "one"), weights_of(tmp_path / "two")
    for path, value in one.items():
        np.testing.assert_allclose(value, two[path], **REORDERED_UPDATES, err_msg=path)


@pytest.mark.slow
def test_the_rate_follows_the_clock_to_zero_at_the_end_of_a_time_budget(corpus, tmp_path):
    # A tenth of the time for the warmup, as train_steps and warmup_steps say; then down in a
    # straight line to zero at 4 s. A call, of five steps at most, takes the rate of its first
    # moment, which is where the line before ended.
    run_pretraining(
        corpus, tmp_path, time_budget=4.0, train_steps=100, warmup_steps=10, steps_per_loop=5
    )
    lines = metrics_of(tmp_path, "train")
    assert lines[0]["step"] == 1  # nobody knows yet how long a step takes
    begun = [0.0, *(line["seconds"] for line in lines)]
    by_hand = [1e-3 * min(t / 0.4, (4.0 - t) / 3.6) for t in begun[:-1]]
    np.testing.assert_allclose([line["learning_rate"] for line in lines], by_hand, atol=1e-9)
    assert begun[-2] < 4.0 <= begun[-1]  # no call begins after the time, when the rate is zero


def test_a_time_budget_shortens_the_calls_of_the_loop(corpus, tmp_path, monkeypatch):
    """Their one rate is that of their first moment; the clock of this machine ticks by steps."""
    now = [0.0]

    class Loop:
        def __init__(self, loop):
            self.loop = loop
            self.get_concrete_function = loop.get_concrete_function

        def __call__(self, batches, steps):
            now[0] += 0.002 * int(steps)
            return self.loop(batches, steps)

    made = pretrain.make_training_loop
    monkeypatch.setattr(pretrain, "make_training_loop", lambda *given: Loop(made(*given)))
    monkeypatch.setattr(run, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    run_pretraining(corpus, tmp_path, time_budget=0.41, steps_per_loop=100_000)
    lines = metrics_of(tmp_path, "train")
    steps = [line["step"] for line in lines]
    assert steps[:3] == [1, 3, 5]  # a hundredth of the time is two steps, and first nobody knows
    assert steps[-1] == 205
    begun = np.array([0.0, *(line["seconds"] for line in lines[:-1])])
    by_hand = 1e-3 * np.minimum(begun / 0.041, (0.41 - begun) / 0.369)
    np.testing.assert_allclose([line["learning_rate"] for line in lines], by_hand, atol=1e-9)


def test_a_warmup_of_its_own_is_one_in_a_hundred_steps(corpus, tmp_path):
    """As the paper's 10,000 of 1,000,000; of a schedule, not of the part that a run does."""
    for name, steps, changes in [
        ("short", 1, {"train_steps": 3}),
        ("whole", 10_000, {"train_steps": 1_000_000}),
        ("phase", 9, {"train_steps": 3, "schedule_steps": 900}),
    ]:
        options = run_options(corpus / "records", tmp_path, **({"warmup_steps": None} | changes))
        _, schedule = create_optimizer_and_schedule(options)
        assert schedule.warmup_steps == steps, name
    run_pretraining(corpus, tmp_path, train_steps=3, steps_per_loop=1, warmup_steps=None)
    # The rate is 0 at step 0, at its peak behind the one step of warmup, and falls in a line.
    rates = [line["learning_rate"] for line in metrics_of(tmp_path, "train")]
    assert rates == pytest.approx([0.0, 1e-3 * 2 / 3, 1e-3 / 3])
    assert json.loads((tmp_path / "run.json").read_text())["options"]["warmup_steps"] == 1
    budget = run_options(corpus / "records", "", time_budget=9.0, train_steps=1, warmup_steps=None)
    _, schedule = create_optimizer_and_schedule(budget)
    assert schedule.warmup_proportion == 0.01


@pytest.mark.parametrize("name", ["adamw", "lamb"])
def test_the_optimizer_has_the_numbers_of_the_options(name):
    changes = {"weight_decay_rate": 0.03, "beta_2": 0.98, "bias_correction": True}
    options = run_options("", "", optimizer=name, **changes)
    optimizer, schedule = create_optimizer_and_schedule(options, ["kernel$"])
    found = optimizer.get_config()
    assert {key: found.get(key, True) for key in changes} == changes  # LAMB always corrects
    assert found["name"] == {"adamw": "bert_adamw", "lamb": "lamb"}[name]
    assert "kernel$" in found["not_decayed"]
    rates = {"learning_rate": 1e-3, "train_steps": 20, "warmup_steps": 2}
    assert schedule.get_config() == rates


# The attention of the one block has a softmax. A call has a loop over steps, and a step that is cut
# one over its parts.
@pytest.mark.parametrize(
    ("changes", "softmaxes", "loops"),
    [({}, 1, 1), ({"remat": True, "accumulation_steps": 2}, 2, 2)],
    ids=["plain", "saving_memory"],
)
def test_the_step_saves_memory_where_it_is_asked_to(
    changes, softmaxes, loops, corpus, tmp_path, monkeypatch
):
    runs = []
    monkeypatch.setattr(PretrainingRun, "train", lambda run: runs.append(run))
    run_pretraining(corpus, tmp_path, **changes)
    [run] = runs
    found = operations_of(run.loop.get_concrete_function(run.batches, tf.constant(1)))
    assert (found["Softmax"], found["While"] + found["StatelessWhile"]) == (softmaxes, loops)


@pytest.mark.slow
def test_a_finished_run_is_not_trained_again(corpus, tmp_path):
    records = str(corpus / "records")
    first = run_pretraining(corpus, tmp_path, eval_data_dir=records)
    before = weights_of(tmp_path)
    # As a version wrote it that did not have the option yet.
    settings = json.loads((tmp_path / "run.json").read_text())
    assert settings["options"].pop("beta_2") == 0.999
    (tmp_path / "run.json").write_text(json.dumps(settings))
    with pytest.raises(ValueError, match=r"options\.beta_2=0\.999, now it is 0\.98"):
        run_pretraining(corpus, tmp_path, eval_data_dir=records, beta_2=0.98)
    again = run_pretraining(corpus, tmp_path, eval_data_dir=records)
    assert again == approx(first, FORMULA)
    for path, value in weights_of(tmp_path).items():
        np.testing.assert_array_equal(value, before[path])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"batch_size": 15, "accumulation_steps": 2}, "batch_size 15 is not divisible by 2"),
        ({"warmup_steps": 30}, "warmup_steps is 30 and train_steps is 20"),
        ({"warmup_steps": 0.1}, "warmup_steps is 0.1: it must be a whole number, 0 or more"),
        ({"keep_checkpoints": 2.5}, "keep_checkpoints is 2.5: it must be a whole number"),
        ({"masked_lm_prob": float("nan")}, "masked_lm_prob is nan: it must be above 0"),
        ({"time_budget": -1.0}, "time_budget is -1.0"),
        ({"seed": -1}, "seed is -1: it must be from 0 to 4,294,967,295"),
        ({"seed": 2**32}, "seed is 4294967296: it must be from 0"),
        ({"seed": 1.5}, "seed is 1.5: it must be a whole number"),
        ({"beta_2": 0.99999999}, "beta_2 is 0.99999999: .* rounded to float32"),
        ({"peak_tflops": 0.0}, "peak_tflops is 0.0: it must be above 0"),
        ({"peak_tflops": float("inf")}, "peak_tflops is inf: it must be above 0 and finite"),
        ({"mixed_precision": "float8"}, "mixed_precision is 'float8': choose one of auto"),
        ({"config": tiny_config(max_position_embeddings=16)}, "model has 16 positions"),
        (
            {"config": tiny_config(type_vocab_size=1)},
            "are pairs .* type_vocab_size is 1: it needs 2",
        ),
        ({"config": tiny_config(vocab_size=99)}, "entries but config.vocab_size is 99"),
        ({"data_dir": "nowhere"}, "nowhere"),
        ({"data_dir": "/,/"}, "/, / names a folder among other records: give one"),
    ],
)
def test_what_does_not_fit_is_refused_before_training(corpus, tmp_path, changes, sentence):
    config = changes.pop("config", tiny_config())
    with pytest.raises((ValueError, FileNotFoundError), match=sentence):
        run_pretraining(corpus, tmp_path / "run", config=config, **changes)
    assert not (tmp_path / "run").exists()


def test_a_file_in_the_place_of_the_run_folder_is_refused(corpus, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError, match="file is a file: choose another --model_dir"):
        run_pretraining(corpus, tmp_path / "file")


def test_a_folder_with_another_run_is_refused(corpus, tmp_path):
    run_pretraining(corpus, tmp_path, train_steps=4)
    with pytest.raises(ValueError, match=r"holds a run with config.hidden_size=32, now it is 64"):
        run_pretraining(corpus, tmp_path, train_steps=4, config=tiny_config(hidden_size=64))
    with pytest.raises(ValueError, match=r"options.learning_rate=0.001, now it is 0.1"):
        run_pretraining(corpus, tmp_path, train_steps=4, learning_rate=0.1)


def test_an_exploding_run_stops_with_a_sentence(corpus, tmp_path):
    with pytest.raises(
        ValueError,
        match=r"11 steps in a row had a loss or a gradient that is not finite, up to step \d+ "
        r"\(learning rate .*, last good loss",
    ):
        run_pretraining(corpus, tmp_path, learning_rate=1e30, warmup_steps=0, steps_per_loop=5)


def test_unknown_strategy_is_refused():
    with pytest.raises(ValueError, match="strategy is 'gpu': choose one of auto"):
        create_strategy("gpu")


@pytest.mark.parametrize("tpu", ["local", "a-name-that-nobody-has"])
def test_a_tpu_that_does_not_answer_is_named(tpu, capsys):
    with pytest.raises(ValueError, match=f"no TPU answers at '{tpu}': "):
        create_strategy("tpu", tpu)
    assert f"connecting to the TPU '{tpu}'" in capsys.readouterr().err


def test_workers_must_know_each_other(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(ValueError, match="multi_worker needs the environment variable TF_CONFIG"):
        create_strategy("multi_worker")


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("{", "TF_CONFIG is not JSON"),
        ('["localhost:1"]', "TF_CONFIG must hold a cluster of workers and a task"),
        ('{"cluster": {"worker": ["a:1", "b:1"]}}', "must hold a cluster of workers and a task"),
        (
            '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}',
            "TF_CONFIG names task worker 1, but its cluster has 1 of them",
        ),
        (
            '{"cluster": {"worker": ["a:1"]}, "task": {"type": "ps", "index": 0}}',
            "TF_CONFIG names a task of type 'ps'",
        ),
    ],
)
def test_a_damaged_description_of_the_workers_is_told(monkeypatch, value, sentence):
    monkeypatch.setenv("TF_CONFIG", value)
    with pytest.raises(ValueError, match=sentence):
        create_strategy("multi_worker")
