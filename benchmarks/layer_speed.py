"""Layers whose training this package computes itself, beside those of Keras.

    make benchmark NAME=layer_speed ARGS='--dtype=bfloat16'

Forward and backward of one layer, the shapes of bert_base: dropout and layer norm on
[batch, length, 768], both GELUs on [batch * length, 3072], also where the graph is made for any
length; a dense layer from 768 to 3072; the cross-entropy of 20 words of each sequence, of a
vocabulary of 30,522. Both sides are graphs of TensorFlow and take turns. Processor time counts all
threads.
"""

import os
import statistics
from collections.abc import Callable
from typing import NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import contest
import keras
import tensorflow as tf
from absl import app, flags

from keras_bert.layers.activations import activation_function
from keras_bert.layers.dense import Dense
from keras_bert.layers.dropout import Dropout
from keras_bert.layers.layer_norm import LayerNormalization
from keras_bert.training.losses import smoothed_crossentropy

flags.DEFINE_enum("dtype", "bfloat16", ["bfloat16", "float32"], "Number format of the layer.")
flags.DEFINE_integer("batch_size", 8, "Sequences in a batch.", lower_bound=1)
flags.DEFINE_integer("length", 128, "Pieces of a sequence.", lower_bound=1)
flags.DEFINE_integer("repetitions", 20, "Runs of a layer in a round.", lower_bound=1)
flags.DEFINE_integer("rounds", 5, "Rounds of each side.", lower_bound=1)

FLAGS = flags.FLAGS
VOCABULARY = 30522
Apply = Callable[[tf.Tensor], tf.Tensor]
Norm = keras.layers.LayerNormalization


class Case(NamedTuple):
    """A row of the table.

    Attributes:
        shape: of the inputs.
        ours: ours in training.
        theirs: that of Keras.
        any_length: whether the graph is made for any number of tokens.
    """

    shape: tuple[int, ...]
    ours: Apply
    theirs: Apply
    any_length: bool = False


def cases(policy: str) -> dict[str, Case]:
    """Returns the rows by the name of the layer."""
    own_norm, norm = LayerNormalization(1e-12, dtype=policy), Norm(epsilon=1e-12, dtype=policy)
    own_dropout = Dropout(0.1, seed=0, dtype=policy)
    dropout = keras.layers.Dropout(0.1, seed=0, dtype=policy)
    own_dense, dense = Dense(3072, dtype=policy), keras.layers.Dense(3072, dtype=policy)
    rows, tokens = (FLAGS.batch_size, FLAGS.length), FLAGS.batch_size * FLAGS.length
    words = FLAGS.batch_size * 20
    labels = tf.random.uniform((words,), 0, VOCABULARY, tf.int32, seed=2)

    def gelu(name: str, any_length: bool) -> Case:
        own_gelu = activation_function(name)
        return Case(
            (tokens, 3072),  # as in a block: a list of tokens
            lambda x: own_gelu(x, training=True),
            lambda x: keras.activations.gelu(x, approximate=name == "gelu_tanh"),
            any_length,
        )

    return {
        "dropout": Case(
            (*rows, 768),
            lambda x: own_dropout(x, training=True),
            lambda x: dropout(x, training=True),
        ),
        "layer norm": Case((*rows, 768), lambda x: own_norm(x, training=True), norm),
        "dense": Case((tokens, 768), lambda x: own_dense(x, training=True), dense),
        "exact GELU": gelu("gelu", False),
        "exact GELU, any length": gelu("gelu", True),
        "GELU by tanh": gelu("gelu_tanh", False),
        "GELU by tanh, any length": gelu("gelu_tanh", True),
        "cross-entropy of words": Case(
            (words, VOCABULARY),
            lambda x: smoothed_crossentropy(x, labels),
            lambda x: keras.losses.sparse_categorical_crossentropy(
                labels, tf.cast(x, tf.float32), from_logits=True
            ),
        ),
    }


def forward_and_backward(
    apply: Apply, inputs: tf.Tensor, any_length: bool = False
) -> Callable[[], None]:
    """Returns what runs a layer and its gradient once."""
    outputs = apply(inputs)
    upstream = tf.cast(tf.random.normal(outputs.shape, seed=1), outputs.dtype)
    specs = [
        tf.TensorSpec([None, *tensor.shape[1:]] if any_length else tensor.shape, tensor.dtype)
        for tensor in (inputs, upstream)
    ]

    @tf.function(input_signature=specs)
    def step(inputs: tf.Tensor, upstream: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = apply(inputs)
        sources = [inputs, *tape.watched_variables()]
        return [outputs, *tape.gradient(outputs, sources, upstream, unconnected_gradients="zero")]

    def run() -> None:
        for tensor in step(inputs, upstream):
            tensor.numpy()

    run()
    return run


def main(_: list[str]) -> None:
    """Prints a table, a row for each layer."""
    policy = "mixed_bfloat16" if FLAGS.dtype == "bfloat16" else "float32"
    print("| layer | ours, ms | Keras, ms | ratio | processor: ours, ms | Keras, ms | ratio |")
    print("|---|---|---|---|---|---|---|")
    for name, case in cases(policy).items():
        inputs = tf.cast(tf.random.normal(case.shape, seed=0), FLAGS.dtype)
        sides = (case.ours, case.theirs)
        runs = [forward_and_backward(apply, inputs, case.any_length) for apply in sides]
        rounds = [
            [contest.measured(run, FLAGS.repetitions) for run in runs] for _ in range(FLAGS.rounds)
        ]
        cells = []
        for quantity in ("seconds", "processor"):
            own, peer = (
                1000 * statistics.median(found[side][quantity] for found in rounds)
                for side in range(2)
            )
            cells += [f"{own:.1f}", f"{peer:.1f}", f"{peer / own:.2f}"]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    app.run(main)
