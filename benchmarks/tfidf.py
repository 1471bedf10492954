"""TF-IDF with logistic regression: what a fine-tuned model has to beat."""

import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, PredefinedSplit
from sklearn.pipeline import Pipeline

from keras_bert import TaskData
from keras_bert.finetuning.task import TEST, TRAIN, VALIDATION

# What the baseline chooses from: words or pairs of them too, counts or their logarithms, penalty.
_BASELINE_GRID: Mapping[str, list[Any]] = {
    "vectors__ngram_range": [(1, 1), (1, 2)],
    "vectors__sublinear_tf": [False, True],
    "classes__C": [1, 10, 100],
}


def baseline(folder: str | None = None) -> Pipeline:
    """Returns TF-IDF with logistic regression in scikit-learn's default settings.

    Args:
        folder: where vectors are kept for further fits to the same texts.
    """
    return Pipeline(
        [("vectors", TfidfVectorizer()), ("classes", LogisticRegression(max_iter=1000))],
        memory=folder,
    )


def tuned_baseline(data: TaskData) -> Pipeline:
    """Chooses settings by the development texts, prints test accuracies and returns the model.

    Once its settings are chosen it learns from the development texts too.
    """
    train, dev, test = (data.splits[name] for name in (TRAIN, VALIDATION, TEST))
    texts = [*train.texts, *dev.texts]
    labels = np.concatenate([train.labels, dev.labels])
    is_dev = PredefinedSplit([-1] * len(train) + [0] * len(dev))
    with tempfile.TemporaryDirectory() as folder:
        grid_search = GridSearchCV(baseline(folder), _BASELINE_GRID, cv=is_dev, verbose=3)
        grid_search.fit(texts, labels)
    default = baseline().fit(texts, labels)
    print(f"TF-IDF, default settings: test {default.score(test.texts, test.labels):.4f}")
    print(
        f"TF-IDF, {grid_search.best_params_}: dev {grid_search.best_score_:.4f}, "
        f"test {grid_search.score(test.texts, test.labels):.4f}",
        flush=True,
    )
    return clone(grid_search.best_estimator_).set_params(memory=None)
