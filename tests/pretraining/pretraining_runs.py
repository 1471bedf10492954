"""Tiny pretraining runs for the tests: their configuration, options and what they leave."""

import json
import socket
import sys
from pathlib import Path

from keras_bert import BertConfig, BertPretrainer
from keras_bert.pretraining.options import PretrainingOptions
from keras_bert.pretraining.pretrain import pretrain
from keras_bert.text.vocabulary import SPECIAL_TOKENS
from keras_bert.training.strategy import create_strategy
from tests import command_process

ROOT = Path(__file__).parents[2]
WORDS = "the a cat dog bird sat ran flew on under over mat tree house and then it was".split()


def tiny_config(**changes):
    fields = {
        "vocab_size": len(SPECIAL_TOKENS) + len(WORDS),
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "max_position_embeddings": 32,
    }
    return BertConfig(**(fields | changes))


def without_dropout(**changes):
    return tiny_config(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **changes)


def run_options(records, model_dir, **changes):
    fields = {
        "data_dir": str(records),
        "model_dir": str(model_dir),
        "train_steps": 20,
        "batch_size": 16,
        "learning_rate": 1e-3,
        "warmup_steps": 2,
        "mixed_precision": "float32",
        "seed": 3,
    }
    return PretrainingOptions(**(fields | changes))


def run_pretraining(corpus, model_dir, strategy="cpu", config=None, **changes):
    """Trains in this process on the records of the corpus, or on `data_dir`."""
    records = changes.pop("data_dir", corpus / "records")
    options = run_options(records, model_dir, **changes)
    return pretrain(config or tiny_config(), options, create_strategy(strategy))


def command(corpus, model_dir, config=None, **changes):
    """Returns the command line of a run of the tool."""
    path = corpus / "config.json"
    path.write_text(json.dumps((config or tiny_config()).to_dict()))
    flags = {
        "data_dir": corpus / "records",
        "model_dir": model_dir,
        "model": path,
        "train_steps": 400,
        "warmup_steps": 10,
        "batch_size": 16,
        "learning_rate": 1e-3,
        "mixed_precision": "float32",
        "checkpoint_steps": 25,
        "steps_per_loop": 5,
    }
    tool = str(ROOT / "tools" / "run_pretraining.py")
    return [sys.executable, tool, *(f"--{name}={v}" for name, v in (flags | changes).items())]


def start(arguments, **environment):
    """Starts a process of the tool; its output is one text."""
    return command_process.start(arguments[1:], environment=environment, joined=True)


def finish(arguments):
    """Runs the tool to its end, which is a good one."""
    process = start(arguments)
    output, _ = process.communicate(timeout=900)
    assert process.returncode == 0, output


def free_ports(count):
    sockets = [socket.create_server(("localhost", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def weights_of(model_dir, preset="preset"):
    model = BertPretrainer.from_preset(model_dir / preset)
    return {v.path: v.numpy() for v in model.trainable_variables}


def metrics_of(model_dir, split):
    lines = (model_dir / "metrics.jsonl").read_text().splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines.pop()  # still being written
    return [line for line in map(json.loads, lines) if line["split"] == split]
