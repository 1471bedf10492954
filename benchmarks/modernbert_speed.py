"""ModernBERT beside transformers: forward, and forward and backward, over lengths, in float32.

    make benchmark NAME=modernbert_speed

Both compute with the same weights, random ones of the numbers of `modernbert_base` and a small
vocabulary, from full rows of random ids. Each side is a process of its own, and they take turns;
a time is the median over rounds. Before the first round both tell the mean of their states, which
must agree. PyTorch runs its attention in the form that transformers chooses (sdpa), eagerly.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from absl import app, flags

flags.DEFINE_list("lengths", ["128", "512", "2048"], "Pieces of a row.")
flags.DEFINE_integer("tokens", 2048, "Pieces of a batch: as many rows as make them.", lower_bound=1)
flags.DEFINE_integer("layers", 22, "Layers of the encoder.", lower_bound=1)
flags.DEFINE_integer("rounds", 5, "Rounds, in which both sides measure every length once.")

FLAGS = flags.FLAGS
_VOCABULARY = 1000
_SIDES = ("keras_bert", "transformers")
_AGREE = 1e-3  # of means of random states around 1


def _ids(length: int) -> np.ndarray:
    rows = max(FLAGS.tokens // length, 1)
    return np.random.default_rng(length).integers(5, _VOCABULARY, (rows, length))


def _write_weights(folder: str) -> None:
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.ModernBertConfig(
        vocab_size=_VOCABULARY,
        num_hidden_layers=FLAGS.layers,
        **{f"{name}_token_id": 0 for name in ("pad", "bos", "eos", "cls", "sep")},
    )
    transformers.ModernBertModel(config).save_pretrained(folder)


def _ours(folder: str) -> tuple[Callable, Callable]:
    import tensorflow as tf

    from keras_bert import load_encoder

    encoder = load_encoder(folder)
    weights = [w.value for w in encoder.trainable_weights if not w.path.startswith("pooler/")]

    @tf.function
    def forward(inputs: dict[str, tf.Tensor]) -> tf.Tensor:
        return tf.reduce_mean(tf.abs(encoder(inputs)["sequence_output"]))

    @tf.function
    def both(inputs: dict[str, tf.Tensor]) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.abs(encoder(inputs, training=True)["sequence_output"]))
        found = tape.gradient(loss, weights)
        return tf.add_n([tf.reduce_sum(tf.convert_to_tensor(gradient)) for gradient in found])

    def run(step: Callable, ids: np.ndarray) -> float:
        names = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": 0 * ids}
        return float(step({name: tf.constant(part, tf.int32) for name, part in names.items()}))

    return lambda ids: run(forward, ids), lambda ids: run(both, ids)


def _theirs(folder: str) -> tuple[Callable, Callable]:
    import torch
    import transformers

    model = transformers.ModernBertModel.from_pretrained(folder)

    def states(ids: np.ndarray) -> Any:
        ids = torch.tensor(ids)
        return model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state

    def forward(ids: np.ndarray) -> float:
        model.eval()
        with torch.inference_mode():
            return float(states(ids).abs().mean())

    def both(ids: np.ndarray) -> float:
        model.train()
        model.zero_grad()
        states(ids).abs().mean().backward()
        return float(sum(p.grad.sum() for p in model.parameters()))

    return forward, both


def serve(side: str, folder: str) -> None:
    """Answers each line, a step and a length, with milliseconds and what came out."""
    forward, both = (_ours if side == _SIDES[0] else _theirs)(folder)
    for line in sys.stdin:
        name, length = line.split()
        step, ids = forward if name == "forward" else both, _ids(int(length))
        start = time.perf_counter()
        value = step(ids)
        print(1000 * (time.perf_counter() - start), value, flush=True)


def _ask(process: subprocess.Popen, name: str, length: str) -> tuple[float, float]:
    process.stdin.write(f"{name} {length}\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    if not answer:
        raise RuntimeError(f"{' '.join(process.args[1:4])} ended: run it alone to see why")
    milliseconds, value = answer.split()
    return float(milliseconds), float(value)


def main(arguments: list[str]) -> None:
    """Prints a table, a row for each length and step."""
    if len(arguments) > 1:
        return serve(*arguments[1:])
    with tempfile.TemporaryDirectory() as folder:
        _write_weights(folder)
        processes = [
            subprocess.Popen(
                [sys.executable, __file__, side, folder, *sys.argv[1:]],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            for side in _SIDES
        ]
        print("| pieces | rows | step | keras_bert, ms | transformers, ms | ratio |")
        print("|---|---|---|---|---|---|")
        for name in ("forward", "forward and backward"):
            for length in FLAGS.lengths:
                step = name.split()[-1]
                # The first answer of each side, for which graphs are made, is not timed.
                first = [_ask(process, step, length)[1] for process in processes]
                if step == "forward" and abs(first[0] - first[1]) > _AGREE:
                    raise ValueError(f"the sides compute {first[0]} and {first[1]}")
                rounds = [
                    [_ask(process, step, length)[0] for process in processes]
                    for _ in range(FLAGS.rounds)
                ]
                ours, theirs = (statistics.median(times) for times in zip(*rounds, strict=True))
                print(
                    f"| {int(length):,} | {len(_ids(int(length)))} | {name} | {ours:,.0f} | "
                    f"{theirs:,.0f} | {theirs / ours:.2f} |",
                    flush=True,
                )
        for process in processes:
            process.stdin.close()
            process.wait()


if __name__ == "__main__":
    app.run(main)
