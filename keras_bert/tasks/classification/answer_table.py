"""Columns of answers in a table: a class, several classes, or a number. Imports no TensorFlow."""

import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from keras_bert.storage.tables import number_text

PREDICTED_LABEL = "predicted_label"
PREDICTED_LABELS = "predicted_labels"
PREDICTED_VALUE = "predicted_value"


def label_columns(labels: Sequence[str], several: bool) -> list[str]:
    """Returns what is predicted, then a score for each label.

    Args:
        labels: names of the classes.
        several: whether a text may have several of them.
    """
    first = PREDICTED_LABELS if several else PREDICTED_LABEL
    return [first, *(f"score_{label}" for label in labels)]


def label_row(label: str, scores: Iterable[float]) -> list[str]:
    """Returns the fields of `label_columns`: the label or labels, and all probabilities."""
    return [label, *map(number_text, scores)]


def served(answer: Mapping[str, Any]) -> tuple[list[str], list[list[str]]] | None:
    """Returns columns and rows of the outputs of `TextSignatures` for one example, else None."""
    for name, several in (("label", False), ("likely_labels", True)):
        if name in answer:
            row = label_row(answer[name], answer["scores"])
            return label_columns(answer["labels"], several), [row]
    # Over REST one output comes without its name.
    if answer.keys() in ({"score"}, {""}):
        (value,) = answer.values()
        is_number = isinstance(value, numbers.Real)  # no vector of an encoder
        return ([PREDICTED_VALUE], [[number_text(value)]]) if is_number else None
    return None
