"""Real transfer: a fine-tuned 6-layer BERT against TF-IDF with logistic regression.

    make benchmark NAME=text_classification ARGS='--data=reviews --model_dir=runs/reviews'
    make benchmark NAME=text_classification ARGS='--data=spam --model_dir=runs/spam'

Both learn from the training texts. Both choose their settings by accuracy on the development texts:
the baseline out of a grid; ours the epoch, and with one run each out of --max_seq_lengths and
--learning_rates. Only what was chosen is measured on the test texts. With --fractions both also
learn from parts of the training texts, measured on the development texts: a learning curve. The
same command goes on where it was stopped.
"""

import dataclasses
import functools
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path

import food_reviews
import numpy as np
import packages
import spam
from absl import app, flags
from tfidf import tuned_baseline

from keras_bert import FinetuningOptions, LabeledTexts, TaskData, create_task, search
from keras_bert.finetuning.search import SearchResult
from keras_bert.finetuning.task import TRAIN, VALIDATION

_WRITE: Mapping[str, Callable[[Path], Path]] = {
    "reviews": lambda folder: food_reviews.write(folder, validation=400),
    "spam": spam.write,
}
_DATA = flags.DEFINE_enum("data", "reviews", sorted(_WRITE), "What is classified.")
_MODEL_DIR = flags.DEFINE_string("model_dir", None, "Folder of the runs.", required=True)
_SEEDS = flags.DEFINE_integer("seeds", 3, "Runs of ours with what was chosen.", lower_bound=1)
_EPOCHS = flags.DEFINE_integer(
    "epochs", 3, "Passes of ours; the best by the dev texts is kept.", lower_bound=1
)
_LENGTHS = flags.DEFINE_list("max_seq_lengths", ["256"], "Ours chooses one of them.")
_RATES = flags.DEFINE_list("learning_rates", ["5e-5"], "Ours chooses one of them.")
_FRACTIONS = flags.DEFINE_list("fractions", [], "Parts of the training texts for a learning curve.")


def part(data: TaskData, fraction: float) -> TaskData:
    """Returns a fraction of the training texts, drawn at random, without the test texts."""
    train = data.splits[TRAIN]
    rows = np.sort(np.random.default_rng(0).permutation(len(train))[: round(fraction * len(train))])
    fewer = LabeledTexts([train.texts[row] for row in rows], labels=train.labels[rows])
    return dataclasses.replace(data, splits={TRAIN: fewer, VALIDATION: data.splits[VALIDATION]})


def report(result: SearchResult) -> None:
    """Prints the accuracies of all healthy runs."""
    runs = [run.result for run in result.runs if run.collapsed is None]
    for run in runs:
        curve = ", ".join(f"{epoch['validation']['accuracy']:.4f}" for epoch in run.epochs)
        print(f"dev after each epoch {curve}; epoch {run.best_epoch} kept: test {run.test}")
    test = [run.test["accuracy"] for run in runs]
    print(
        f"fine-tuned, {len(runs)} of {len(result.runs)} runs: test {statistics.mean(test):.4f}, "
        f"median seconds of a run {statistics.median(run.seconds for run in runs):.0f}"
    )


def main(_: list[str]) -> None:
    """Chooses, measures and prints both sides."""
    model_dir, task = Path(_MODEL_DIR.value), create_task("csv")
    data = task.read(_WRITE[_DATA.value](model_dir / "data"))
    theirs = tuned_baseline(data)

    grid = {
        "max_seq_length": [int(length) for length in _LENGTHS.value],
        "learning_rate": [float(rate) for rate in _RATES.value],
    }
    options = FinetuningOptions(epochs=_EPOCHS.value, batch_size=16)
    run = functools.partial(search, task, init_from=packages.minilm(), options=options)
    trials = run(data=data, model_dir=model_dir / "model", grid=grid)
    if trials is None:  # SIGTERM; the same command goes on
        return
    for trial in trials.runs:
        if trial.result is not None:
            print(f"{trial.name}: dev {trial.result.validation['accuracy']:.4f}")
    # A grid of one point: its trial is the first seed and not done again.
    chosen = {name: (value,) for name, value in trials.best.point.items()}
    result = run(data=data, model_dir=model_dir / "model", grid=chosen, seeds=_SEEDS.value)
    if result is None:
        return
    report(result)

    for fraction in map(float, _FRACTIONS.value):
        fewer = part(data, fraction)
        train, dev = fewer.splits[TRAIN], fewer.splits[VALIDATION]
        accuracy = theirs.fit(train.texts, train.labels).score(dev.texts, dev.labels)
        result = run(data=fewer, model_dir=model_dir / f"fraction_{fraction:g}", grid=chosen)
        if result is None:
            return
        ours = result.best.result.validation["accuracy"]
        print(
            f"{len(train):,} training texts: dev {accuracy:.4f} TF-IDF, {ours:.4f} fine-tuned",
            flush=True,
        )


if __name__ == "__main__":
    app.run(main)
