"""Pretraining runs: they learn, resume exactly, and refuse what does not fit."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertClassifier, BertConfig, BertPretrainer
from keras_bert.data.creation import CreationOptions, create_pretraining_data
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from keras_bert.training.pretraining import PretrainingOptions, pretrain
from keras_bert.training.strategy import create_strategy

ROOT = Path(__file__).parents[2]
WORDS = "the a cat dog bird sat ran flew on under over mat tree house and then it was".split()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Records of sentences with a simple grammar, a vocabulary, a config."""
    folder = tmp_path_factory.mktemp("corpus")
    random = np.random.default_rng(0)
    sentences = [
        f"the {random.choice(['cat', 'dog', 'bird'])} {random.choice(['sat', 'ran', 'flew'])} "
        f"{random.choice(['on', 'under', 'over'])} the {random.choice(['mat', 'tree', 'house'])}"
        for _ in range(600)
    ]
    documents = ["\n".join(sentences[i : i + 20]) for i in range(0, 600, 20)]
    (folder / "text.txt").write_text("\n\n".join(documents))
    tokenizer = BertTokenizer(Vocabulary([*SPECIAL_TOKENS, *WORDS]))
    tokenizer.save(folder)
    create_pretraining_data(
        CreationOptions(
            inputs=(str(folder / "text.txt"),),
            vocab=str(folder / "vocab.txt"),
            output_dir=str(folder / "records"),
            max_seq_length=24,
            dupe_factor=2,
            num_shards=2,
        )
    )
    return folder


def _config(**changes):
    fields = {
        "vocab_size": len(SPECIAL_TOKENS) + len(WORDS),
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "max_position_embeddings": 32,
    }
    return BertConfig(**(fields | changes))


def _options(corpus, model_dir, **changes):
    fields = {
        "data_dir": str(corpus / "records"),
        "model_dir": str(model_dir),
        "train_steps": 20,
        "batch_size": 16,
        "learning_rate": 1e-3,
        "warmup_steps": 2,
        "mixed_precision": "float32",
        "seed": 3,
    }
    return PretrainingOptions(**(fields | changes))


def _pretrain(corpus, model_dir, strategy="cpu", config=None, **changes):
    options = _options(corpus, model_dir, **changes)
    return pretrain(config or _config(), options, create_strategy(strategy))


def _weights(model_dir):
    model = BertPretrainer.from_preset(model_dir / "preset")
    return {v.path: v.numpy() for v in model.trainable_variables}


def _metrics(model_dir, split):
    lines = (model_dir / "metrics.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, lines) if line["split"] == split]


def test_a_run_learns_and_leaves_a_model_folder(corpus, tmp_path):
    records = str(corpus / "records")
    metrics = _pretrain(
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
    held_out = _metrics(tmp_path, "eval")
    assert [line["step"] for line in held_out] == [80, 160, 240]
    assert held_out[-1]["masked_lm_loss"] < held_out[0]["masked_lm_loss"]
    assert metrics["perplexity"] == pytest.approx(np.exp(metrics["masked_lm_loss"]), rel=1e-5)
    classifier = BertClassifier.from_preset(tmp_path / "preset", num_classes=2)
    pretrained = _weights(tmp_path)
    for variable in classifier.encoder.weights:
        if variable.path in pretrained:
            np.testing.assert_array_equal(variable.numpy(), pretrained[variable.path])
    assert BertTokenizer.from_preset(tmp_path / "preset")(["the cat"]).to_list() == [[5, 7]]
    assert list((tmp_path / "tensorboard").rglob("events*"))


def test_a_resumed_run_equals_one_that_was_never_stopped(corpus, tmp_path, monkeypatch):
    _pretrain(corpus, tmp_path / "whole", checkpoint_steps=7)
    from keras_bert.training.checkpointing import TrainingCheckpoint

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
        _pretrain(corpus, tmp_path / "stopped", checkpoint_steps=7)
    monkeypatch.undo()
    _pretrain(corpus, tmp_path / "stopped", checkpoint_steps=7)
    whole, stopped = _weights(tmp_path / "whole"), _weights(tmp_path / "stopped")
    for path, value in whole.items():
        np.testing.assert_array_equal(value, stopped[path], err_msg=path)
    assert _metrics(tmp_path / "stopped", "train")[-1]["step"] == 20


def test_two_replicas_read_and_learn_what_one_does(corpus, tmp_path):
    config = _config(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    _pretrain(corpus, tmp_path / "one", config=config)
    _pretrain(corpus, tmp_path / "two", "mirrored", config=config)
    one, two = _weights(tmp_path / "one"), _weights(tmp_path / "two")
    for path, value in one.items():
        np.testing.assert_allclose(value, two[path], atol=1e-5, err_msg=path)


def test_a_time_budget_ends_the_run_with_a_rate_of_zero(corpus, tmp_path):
    _pretrain(corpus, tmp_path, time_budget=4.0, train_steps=100, warmup_steps=10, steps_per_loop=5)
    rates = [line["learning_rate"] for line in _metrics(tmp_path, "train")]
    assert max(rates) <= 1e-3
    assert rates[-1] < 0.3 * max(rates)
    assert _metrics(tmp_path, "train")[-1]["seconds"] >= 4.0


def test_a_finished_run_is_not_trained_again(corpus, tmp_path):
    records = str(corpus / "records")
    first = _pretrain(corpus, tmp_path, eval_data_dir=records)
    before = _weights(tmp_path)
    again = _pretrain(corpus, tmp_path, eval_data_dir=records)
    assert again == pytest.approx(first)
    for path, value in _weights(tmp_path).items():
        np.testing.assert_array_equal(value, before[path])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"batch_size": 15, "accumulation_steps": 2}, "batch_size 15 is not divisible by 2"),
        ({"warmup_steps": 30}, "warmup_steps is 30 and train_steps is 20"),
        ({"time_budget": -1.0}, "time_budget is -1.0"),
        ({"mixed_precision": "float8"}, "precision 'float8' is unknown"),
        ({"config": _config(max_position_embeddings=16)}, "model has 16 positions"),
        ({"config": _config(vocab_size=99)}, "entries but config.vocab_size is 99"),
        ({"data_dir": "nowhere"}, "nowhere"),
    ],
)
def test_what_does_not_fit_is_refused_before_training(corpus, tmp_path, changes, sentence):
    config = changes.pop("config", _config())
    with pytest.raises((ValueError, FileNotFoundError), match=sentence):
        _pretrain(corpus, tmp_path / "run", config=config, **changes)
    assert not (tmp_path / "run").exists()


def test_a_folder_with_another_run_is_refused(corpus, tmp_path):
    _pretrain(corpus, tmp_path, train_steps=4)
    with pytest.raises(ValueError, match=r"holds a run with config.hidden_size=32, now it is 64"):
        _pretrain(corpus, tmp_path, train_steps=4, config=_config(hidden_size=64))
    with pytest.raises(ValueError, match=r"options.learning_rate=0.001, now it is 0.1"):
        _pretrain(corpus, tmp_path, train_steps=4, learning_rate=0.1)


def test_an_exploding_run_stops_with_a_sentence(corpus, tmp_path):
    with pytest.raises(
        ValueError,
        match=r"11 steps in a row had a loss or a gradient that is not finite, up to step \d+ "
        r"\(learning rate .*, last good loss",
    ):
        _pretrain(corpus, tmp_path, learning_rate=1e30, warmup_steps=0, steps_per_loop=5)


def test_unknown_strategy_is_refused():
    with pytest.raises(ValueError, match="strategy 'gpu' is unknown: choose one of auto"):
        create_strategy("gpu")


@pytest.mark.slow
def test_a_killed_process_goes_on_from_its_last_checkpoint(corpus, tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps(_config().to_dict()))

    def command(model_dir):
        return [
            sys.executable,
            str(ROOT / "tools" / "run_pretraining.py"),
            f"--data_dir={corpus / 'records'}",
            f"--model_dir={model_dir}",
            f"--model={config}",
            "--train_steps=400",
            "--warmup_steps=10",
            "--batch_size=16",
            "--learning_rate=1e-3",
            "--mixed_precision=float32",
            "--checkpoint_steps=25",
            "--steps_per_loop=5",
        ]

    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run(command(tmp_path / "whole"), check=True, env=environment)
    killed = tmp_path / "killed"
    for kills in range(3):
        process = subprocess.Popen(command(killed), env=environment)
        wanted = 2 + kills
        while len(list(killed.glob("checkpoints/*.index"))) < min(wanted, 3):
            assert process.poll() is None
            time.sleep(0.05)
        time.sleep(0.1 * kills)
        process.send_signal(signal.SIGKILL)
        process.wait()
    result = subprocess.run(
        command(killed), check=True, env=environment, capture_output=True, text=True
    )
    assert "resumed at step" in result.stdout
    whole, resumed = _weights(tmp_path / "whole"), _weights(killed)
    for path, value in whole.items():
        np.testing.assert_array_equal(value, resumed[path], err_msg=path)
    assert tf.train.latest_checkpoint(str(killed / "checkpoints")).endswith("step-400")
