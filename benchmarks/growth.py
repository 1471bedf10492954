"""How the time of a training step grows with batch, length, layers and width.

    make benchmark NAME=growth ARGS='--picture=growth.png'

One of the four is changed at a time, around a BERT of 4 layers of 256, batch 16, length 128. Beside
what is measured stands what the operations of the matrix products let expect: the time of the
middle point times the ratio of the operations.
"""

import os
import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import contest
import numpy as np
import tensorflow as tf
from absl import app, flags

from keras_bert import BertConfig, BertPretrainer, create_optimizer
from keras_bert.pretraining.objectives.masked_lm import MaskedLanguageModel
from keras_bert.pretraining.step import PretrainingStep, make_training_loop
from keras_bert.training.flops import pretraining_flops
from keras_bert.training.precision import dtype_policy
from keras_bert.training.strategy import compiles_step
from keras_bert.visualize.figure import new_figure

flags.DEFINE_enum("dtype", "bfloat16", ["bfloat16", "float32"], "Number format of the products.")
flags.DEFINE_integer("steps", 5, "Steps of a round.", lower_bound=1)
flags.DEFINE_integer("rounds", 3, "Rounds of each point.", lower_bound=1)
flags.DEFINE_string("picture", None, "The .png to draw.")

FLAGS = flags.FLAGS
VOCABULARY = 8_000


class Size(NamedTuple):
    """What a step is asked to do."""

    batch: int = 16
    length: int = 128
    layers: int = 4
    width: int = 256

    @property
    def predictions(self) -> int:
        """Positions of a sequence that are predicted."""
        return max(1, 20 * self.length // 128)

    @property
    def config(self) -> BertConfig:
        """The model."""
        return BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=self.width,
            num_hidden_layers=self.layers,
            num_attention_heads=self.width // 64,
            intermediate_size=4 * self.width,
        )

    @property
    def flops(self) -> int:
        """Operations of the matrix products of a step."""
        return pretraining_flops(self.config, self.batch, self.length, self.predictions)


# Of each line of points the middle one is `Size()`.
LINES = {
    "batch": (4, 8, 16, 32, 64),
    "length": (32, 64, 128, 256, 512),
    "layers": (1, 2, 4, 8, 12),
    "width": (64, 128, 256, 512, 768),
}


def step_of(size: Size) -> Callable[[], object]:
    """Returns the step of tools/run_pretraining.py on full sequences of random pieces."""
    random = np.random.default_rng(0)
    shape, predicted = (size.batch, size.length), (size.batch, size.predictions)
    positions = np.stack(
        [np.sort(random.permutation(size.length)[: size.predictions]) for _ in range(size.batch)]
    )
    integers = {
        "input_ids": random.integers(5, VOCABULARY, shape),
        "input_mask": np.ones(shape),
        "segment_ids": np.zeros(shape),
        "masked_lm_positions": positions,
        "masked_lm_ids": random.integers(5, VOCABULARY, predicted),
        "next_sentence_labels": random.integers(0, 2, [size.batch, 1]),
    }
    batch = {name: tf.constant(values, tf.int32) for name, values in integers.items()}
    batch["masked_lm_weights"] = tf.ones(predicted)
    model = BertPretrainer(size.config, seed=0, dtype=dtype_policy(FLAGS.dtype))
    optimizer = create_optimizer(1e-4, train_steps=1000, warmup_steps=10)
    optimizer.build(model.trainable_variables)
    step = PretrainingStep(
        model, optimizer, MaskedLanguageModel(), seed=0, compiled=compiles_step()
    )
    loop = make_training_loop(step, tf.distribute.get_strategy())
    data = iter(tf.data.Dataset.from_tensors(batch).repeat())
    loop(data, tf.constant(1))
    return lambda: loop(data, tf.constant(FLAGS.steps)).losses.numpy()


def main(_: Sequence[str]) -> None:
    """Prints a table for each of the four, and draws them."""
    tf.get_logger().setLevel("ERROR")  # each size is a graph of its own, as it should be
    found: dict[str, list[tuple[int, float, float]]] = {}
    for name, values in LINES.items():
        sizes = [Size(**{name: value}) for value in values]
        steps = [step_of(size) for size in sizes]
        rounds = [
            [contest.measured(step)["seconds"] / FLAGS.steps for step in steps]
            for _ in range(FLAGS.rounds)
        ]
        seconds = [statistics.median(point) for point in zip(*rounds, strict=True)]
        middle = seconds[values.index(getattr(Size(), name))] / Size().flops
        found[name] = [
            (value, time, middle * size.flops)
            for value, time, size in zip(values, seconds, sizes, strict=True)
        ]
        print(f"\n| {name} | a step, ms | by its operations, ms | ratio |\n|---|---|---|---|")
        for value, time, expected in found[name]:
            print(
                f"| {value} | {1000 * time:.1f} | {1000 * expected:.1f} | {time / expected:.2f} |",
                flush=True,
            )
    if FLAGS.picture:
        draw(found, FLAGS.picture)


def draw(found: dict[str, list[tuple[int, float, float]]], path: str) -> None:
    """Draws the four lines, both axes logarithmic."""
    figure = new_figure(12, 3.4)
    for axes, (name, points) in zip(figure.subplots(1, 4), found.items(), strict=True):
        values, seconds, expected = zip(*points, strict=True)
        axes.loglog(values, [1000 * time for time in seconds], "o-", label="measured")
        axes.loglog(values, [1000 * time for time in expected], "k--", label="by its operations")
        axes.set(xlabel=name, ylabel="a step, ms")
        axes.set_xticks(values, [str(value) for value in values])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    app.run(main)
