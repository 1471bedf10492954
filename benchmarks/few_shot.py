"""A few labelled texts a class: few-shot training beside fine-tuning and frozen vectors.

    make benchmark NAME=few_shot ARGS='--texts_a_class=8,16 --seeds=3'

MiniLM of six layers and mails of spam.py, cut at 128 pieces. Each seed draws other training mails;
all sides of a seed have the same ones, and are measured on the same test mails. "Frozen" is a
logistic regression on the vectors as they are, "few-shot" is train_few_shot, "fine-tuning" a
classifier by --task=csv whose pooling is that of the others. The classes of spam are not equally
many in the test: all ham would have an accuracy of 0.69.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import packages
import spam
from absl import app, flags

from keras_bert import (
    FewShotOptions,
    FinetuningOptions,
    LabeledTexts,
    SentenceEncoder,
    TaskData,
    create_task,
    finetune,
    fit_logistic_regression,
    train_few_shot,
)

LABELS = ("ham", "spam")
LENGTH = 128
SIDES = ("frozen", "few-shot", "fine-tuning")

flags.DEFINE_list("texts_a_class", ["8", "16"], "How many training texts a class has.")
flags.DEFINE_integer("seeds", 3, "Draws of training texts.", lower_bound=1)
flags.DEFINE_integer("test_texts", 600, "How many test texts.", lower_bound=10)
flags.DEFINE_enum("split", "test", ["test", "dev"], "Which mails are measured on.")
flags.DEFINE_integer("epochs", 20, "Epochs of fine-tuning.", lower_bound=1)
flags.DEFINE_integer("pair_epochs", 1, "Epochs over the pairs of few-shot training.", lower_bound=1)
flags.DEFINE_multi_enum("sides", SIDES, SIDES, "Which sides; all by default.")


def drawn(count: int, seed: int, measured: str) -> TaskData:
    """Returns training mails, so many of each class, and mails to measure on."""
    generator = np.random.default_rng(seed)
    by_label: dict[str, list[str]] = {label: [] for label in LABELS}
    others = []
    for text, label, split in spam.mails():
        if split == "train":
            by_label[label].append(text)
        elif split == measured:
            others.append((text, label))
    few = [
        (texts[place], label)
        for label, texts in by_label.items()
        for place in generator.choice(len(texts), count, replace=False)
    ]
    order = np.random.default_rng(0).permutation(len(others))[: flags.FLAGS.test_texts]
    splits = {
        name: LabeledTexts(
            [text for text, _ in rows],
            labels=np.array([LABELS.index(label) for _, label in rows], np.int32),
        )
        for name, rows in {"train": few, "test": [others[place] for place in order]}.items()
    }
    return TaskData(splits, LABELS)


def frozen(data: TaskData, source: Path, _: Path, __: int) -> float:
    """Returns the accuracy of a logistic regression on the vectors as they are."""
    encoder = SentenceEncoder.from_preset(source, max_seq_length=LENGTH)
    few, test = data.splits["train"], data.splits["test"]
    fitted = fit_logistic_regression(encoder.encode(few.texts), few.labels, len(LABELS))
    logits = encoder.encode(test.texts) @ fitted.kernel + fitted.bias
    return float((logits.argmax(axis=1) == test.labels).mean())


def few_shot(data: TaskData, source: Path, folder: Path, seed: int) -> float:
    """Returns the accuracy of train_few_shot."""
    options = FewShotOptions(epochs=flags.FLAGS.pair_epochs, seed=seed, max_seq_length=LENGTH)
    return train_few_shot(data, source, folder, options).metrics["test"]["accuracy"]


def fine_tuning(data: TaskData, source: Path, folder: Path, seed: int) -> float:
    """Returns the accuracy of a classifier that is trained as a whole."""
    options = FinetuningOptions(
        epochs=flags.FLAGS.epochs,
        batch_size=8,
        learning_rate=5e-5,
        max_seq_length=LENGTH,
        seed=seed,
    )
    task = create_task("csv", pooling="mean")
    return finetune(task, data, source, folder, options).metrics["test"]["accuracy"]


def main(_: list[str]) -> None:
    """Measures and prints a table."""
    source = packages.minilm()
    work: dict[str, Callable[[TaskData, Path, Path, int], float]] = dict(
        zip(SIDES, (frozen, few_shot, fine_tuning), strict=True)
    )
    work = {side: work[side] for side in SIDES if side in flags.FLAGS.sides}
    print("| texts a class | side | accuracy, mean | of each seed | s |")
    print("|---|---|---|---|---|")
    for count in map(int, flags.FLAGS.texts_a_class):
        found: dict[str, list[float]] = {side: [] for side in work}
        seconds: dict[str, list[float]] = {side: [] for side in work}
        for seed in range(flags.FLAGS.seeds):
            data = drawn(count, seed, flags.FLAGS.split)
            for side, measure in work.items():
                keras.backend.clear_session()
                start = time.perf_counter()
                with tempfile.TemporaryDirectory() as folder:
                    found[side].append(measure(data, source, Path(folder) / "run", seed))
                seconds[side].append(time.perf_counter() - start)
        for side in work:
            each = ", ".join(f"{value:.3f}" for value in found[side])
            mean, took = statistics.mean(found[side]), statistics.median(seconds[side])
            print(f"| {count} | {side} | {mean:.3f} | {each} | {took:.0f} |", flush=True)


if __name__ == "__main__":
    app.run(main)
