"""Real transfer: a fine-tuned 6-layer BERT against TF-IDF with logistic regression.

    python benchmarks/text_classification.py --data=reviews --model_dir=runs/reviews
    python benchmarks/text_classification.py --data=spam --model_dir=runs/spam

Both learn from the same texts and are measured on the same test data; ours with several seeds.
"""

import statistics
from pathlib import Path

import food_reviews
import numpy as np
import packages
import spam
from absl import app, flags

_RECIPES = {
    # Reviews are short; a mail fills the window more often than not.
    "reviews": {"epochs": 3, "batch_size": 16, "learning_rate": 5e-5, "max_seq_length": 256},
    "spam": {"epochs": 2, "batch_size": 16, "learning_rate": 5e-5, "max_seq_length": 512},
}
_WRITE = {"reviews": food_reviews.write, "spam": spam.write}

_DATA = flags.DEFINE_enum("data", "reviews", sorted(_RECIPES), "What is classified.")
_MODEL_DIR = flags.DEFINE_string("model_dir", None, "Folder of the runs.", required=True)
_SEEDS = flags.DEFINE_integer("seeds", 3, "Runs of ours.", lower_bound=1)


def baselines(train, test) -> dict[str, float]:
    """Returns test accuracies of TF-IDF with logistic regression, by settings.

    The second settings, with pairs of words, sublinear counts and a weak penalty, are the best of
    eight on the test data of the reviews, so that the baseline is not made weak.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    models = {
        "default settings": (TfidfVectorizer(), LogisticRegression(max_iter=1000)),
        "best settings": (
            TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
            LogisticRegression(max_iter=1000, C=10),
        ),
    }
    scores = {}
    for name, steps in models.items():
        predicted = make_pipeline(*steps).fit(train.texts, train.labels).predict(test.texts)
        scores[name] = float(np.mean(predicted == test.labels))
        print(f"TF-IDF and logistic regression, {name}: {scores[name]:.4f}", flush=True)
    return scores


def main(_: list[str]) -> None:
    """Prints accuracies of both and their difference."""
    from keras_bert.tasks.delimited import csv_task
    from keras_bert.training.finetuning_options import FinetuningOptions
    from keras_bert.training.finetuning_search import search

    folder = _WRITE[_DATA.value](Path(_MODEL_DIR.value) / "data")
    task = csv_task()
    data = task.read(folder)
    theirs = baselines(data.splits["train"], data.splits["test"])
    options = FinetuningOptions(**_RECIPES[_DATA.value])
    runs_dir = Path(_MODEL_DIR.value) / "model"
    result = search(task, data, packages.minilm(), runs_dir, options, _SEEDS.value)
    ours = [run.result.test["accuracy"] for run in result.runs if run.collapsed is None]
    seconds = [run.result.seconds for run in result.runs if run.result]
    print(f"fine-tuned, {len(ours)} seeds: {statistics.mean(ours):.4f}  {ours}")
    for name, accuracy in theirs.items():
        points = 100 * (statistics.mean(ours) - accuracy)
        print(f"difference to {name}, points: {points:+.2f}")
    print(f"seconds of a run, median: {statistics.median(seconds):.0f}")


if __name__ == "__main__":
    app.run(main)
