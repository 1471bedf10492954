"""Full and local attention over lengths: time and memory of a training step of an encoder.

    make benchmark NAME=long_attention ARGS='--picture=long_attention.png'

Each length and side is a process of its own, which makes an encoder of random weights and runs
forward and backward passes on a batch of full sequences in float32. Time is the median of the
passes but the first; memory is the most that the process had resident, less what it had before the
first pass. The sides take turns.
"""

import os
import resource
import statistics
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from absl import app, flags

flags.DEFINE_list("lengths", ["512", "1024", "2048", "4096"], "Pieces of a sequence.")
flags.DEFINE_string("model", "mini", "Named size of the encoder.")
flags.DEFINE_integer("window", 128, "How far local attention sees to each side.", lower_bound=1)
flags.DEFINE_integer("batch_size", 1, "Sequences in a batch.", lower_bound=1)
flags.DEFINE_integer("passes", 5, "Passes of each process.", lower_bound=2)
flags.DEFINE_string("picture", None, "The .png to draw.")
flags.DEFINE_string("side", None, "Of the processes that this starts: full or local.")

FLAGS = flags.FLAGS
_SIDES = ("full", "local")


def measure(side: str, length: int) -> None:
    """Prints milliseconds of a pass and megabytes that the passes took."""
    import numpy as np
    import tensorflow as tf

    from keras_bert import BertConfig, LocalBertConfig, create_encoder

    arguments = {"max_position_embeddings": length}
    config = BertConfig.from_name(FLAGS.model, **arguments)
    if side == "local":
        name = f"local_bert_{FLAGS.model}"
        config = LocalBertConfig.from_name(name, attention_window=FLAGS.window, **arguments)
    encoder = create_encoder(config, seed=0)
    ids = np.ones([FLAGS.batch_size, length], np.int32)
    inputs = {"input_ids": ids, "input_mask": ids, "segment_ids": 0 * ids}
    inputs = {key: tf.constant(values) for key, values in inputs.items()}

    @tf.function
    def step(inputs: dict[str, tf.Tensor]) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(encoder(inputs, training=True)["sequence_output"] ** 2)
        weights = [weight.value for weight in encoder.trainable_weights]
        found = tape.gradient(loss, weights, unconnected_gradients="zero")
        return [tf.reduce_sum(tf.convert_to_tensor(gradient)) for gradient in found]

    before, seconds = _peak(), []
    for _ in range(FLAGS.passes):
        start = time.perf_counter()
        for tensor in step(inputs):
            tensor.numpy()
        seconds.append(time.perf_counter() - start)
    print(1000 * statistics.median(seconds[1:]), (_peak() - before) / 1e6)


def _peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(arguments: list[str]) -> None:
    """Prints a table, a row for each length."""
    if FLAGS.side:
        return measure(FLAGS.side, int(FLAGS.lengths[0]))
    given = [argument for argument in sys.argv[1:] if not argument.startswith("--lengths")]
    print("| pieces | full, ms | local, ms | ratio | full, MB | local, MB | ratio |")
    print("|---|---|---|---|---|---|---|")
    measured = []
    for length in FLAGS.lengths:
        found = []
        for side in _SIDES:
            command = [sys.executable, __file__, *given, f"--lengths={length}", f"--side={side}"]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            found.append([float(number) for number in done.stdout.split()[-2:]])
        measured.append(found)
        cells = []
        for full, local in zip(*found, strict=True):
            cells += [f"{full:,.0f}", f"{local:,.0f}", f"{full / local:.2f}"]
        print(f"| {length} | {' | '.join(cells)} |", flush=True)
    if FLAGS.picture:
        draw([int(length) for length in FLAGS.lengths], measured, FLAGS.picture)


def draw(lengths: list[int], measured: list[list[list[float]]], path: str) -> None:
    """Draws time and memory over lengths, both axes logarithmic.

    Args:
        lengths: pieces of a sequence, rising.
        measured: of each length and side, milliseconds and megabytes.
        path: the .png.
    """
    from keras_bert.visualize.figure import new_figure

    figure = new_figure(9, 3.4)
    for index, (axes, unit) in enumerate(zip(figure.subplots(1, 2), ("ms", "MB"), strict=True)):
        for side, name in enumerate(_SIDES):
            values = [found[side][index] for found in measured]
            axes.loglog(lengths, values, "o-", label=f"{name} attention")
        # Through the longest sequence of the local side.
        linear = [values[-1] * length / lengths[-1] for length in lengths]
        axes.loglog(lengths, linear, "k:", label="with the length")
        axes.set(xlabel="pieces", ylabel=f"forward and backward, {unit}")
        axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
        axes.set_yscale("log", base=2)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    app.run(main)
