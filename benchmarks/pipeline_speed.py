"""The input pipeline of pretraining alone, and the training step that it feeds.

    make benchmark NAME=pipeline_speed ARGS='--model=bert_base'

Records of the sample novels, read, shuffled and masked as tools/run_pretraining.py does it.
"""

import os
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import contest
import tensorflow as tf
from absl import app, flags

from keras_bert import (
    BertConfig,
    BertPretrainer,
    BertTokenizer,
    CreationOptions,
    create_optimizer,
    create_pretraining_data,
    train_vocabulary,
)
from keras_bert.data.corpus.reading import Corpus
from keras_bert.data.records.pipeline import training_batches
from keras_bert.data.records.record_set import PretrainingData
from keras_bert.pretraining.objectives.masked_lm import MaskedLanguageModel
from keras_bert.pretraining.step import PretrainingStep, make_training_loop
from keras_bert.text.masking import MaskedLanguageModelMasking
from keras_bert.training.precision import dtype_policy
from keras_bert.training.strategy import compiles_step

flags.DEFINE_enum("model", "bert_base", ["bert_tiny", "bert_small", "bert_base"], "Size.")
flags.DEFINE_enum("dtype", "bfloat16", ["bfloat16", "float32"], "Number format of the products.")
flags.DEFINE_integer("batch_size", 8, "Sequences in a batch.", lower_bound=1)
flags.DEFINE_integer("length", 128, "Pieces of a sequence.", lower_bound=8)
flags.DEFINE_integer("batches", 500, "Batches of a round of the pipeline.", lower_bound=1)
flags.DEFINE_integer("rounds", 3, "Rounds of each.", lower_bound=1)

FLAGS = flags.FLAGS
_CORPUS = Path(__file__).resolve().parents[1] / "tools" / "sample_data" / "austen.txt.gz"


def make_records(folder: Path) -> PretrainingData:
    """Writes a vocabulary of 8,000 pieces and records of the novels into a folder."""
    vocabulary = train_vocabulary(Corpus([str(_CORPUS)]).paragraphs(), 8_000)
    BertTokenizer(vocabulary).save(folder)
    create_pretraining_data(
        CreationOptions(
            inputs=(str(_CORPUS),),
            vocab=str(folder / "vocab.txt"),
            dupe_factor=2,
            output_dir=str(folder / "records"),
            max_seq_length=FLAGS.length,
        )
    )
    return PretrainingData(folder / "records")


def main(_: Sequence[str]) -> None:
    """Prints the table of the pipeline and of the step."""
    with tempfile.TemporaryDirectory() as folder:
        records = make_records(Path(folder))
        vocabulary = BertTokenizer.from_preset(folder).vocabulary
        targets = MaskedLanguageModelMasking(vocabulary, max(1, 20 * FLAGS.length // 128))
        batches = iter(training_batches(records, targets, FLAGS.batch_size, seed=0))
        next(batches)
        sides = {"input pipeline": (read(batches), FLAGS.batches), "step": (train(batches), 1)}
        rounds = {name: [] for name in sides}
        for _ in range(FLAGS.rounds):
            for name, (work, repetitions) in sides.items():
                rounds[name].append(contest.measured(work, repetitions))
    median = {name: statistics.median(found["seconds"] for found in rounds[name]) for name in sides}
    print(
        f"\n{FLAGS.model}, {FLAGS.dtype}, batch {FLAGS.batch_size}, length {FLAGS.length}\n\n"
        "| | a batch, ms | sequences/s | pieces/s | x what the step consumes |\n"
        "|---|---|---|---|---|"
    )
    for name, seconds in median.items():
        rate = FLAGS.batch_size / seconds
        print(
            f"| {name} | {1000 * seconds:.2f} | {rate:,.1f} | {rate * FLAGS.length:,.0f} "
            f"| {median['step'] / seconds:,.1f} |"
        )


def read(batches: tf.data.Iterator) -> Callable[[], object]:
    """Returns what takes a batch and throws it away."""
    return lambda: next(batches)


def train(batches: tf.data.Iterator) -> Callable[[], object]:
    """Returns the step of tools/run_pretraining.py on one batch that stays."""
    config = BertConfig.from_name(FLAGS.model)
    model = BertPretrainer(config, seed=0, dtype=dtype_policy(FLAGS.dtype))
    optimizer = create_optimizer(1e-4, train_steps=1000, warmup_steps=10)
    optimizer.build(model.trainable_variables)
    step = PretrainingStep(
        model, optimizer, MaskedLanguageModel(), seed=0, compiled=compiles_step()
    )
    loop = make_training_loop(step, tf.distribute.get_strategy())
    same = iter(tf.data.Dataset.from_tensors(next(batches)).repeat())
    loop(same, tf.constant(1))
    return lambda: loop(same, tf.constant(1)).losses.numpy()


if __name__ == "__main__":
    app.run(main)
