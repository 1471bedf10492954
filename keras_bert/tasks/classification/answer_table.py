"""Columns of answers in a table: a class, several classes, or a number. Imports no TensorFlow."""

import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from keras_bert.storage.tables import number_text

PREDICTED_LABEL = "predicted_label"
PREDICTED_LABELS = "predicted_labels"
PREDICTED_VALUE = "predicted_value"
# Labels of one text, in one field.
LABEL_SEPARATOR = "|"


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


def scored_row(labels: Sequence[str], scores: Sequence[float], several: bool) -> list[str]:
    """Returns the fields of `label_columns` of probabilities alone.

    Args:
        labels: C names.
        scores: C probabilities, finite; a list or an array.
        several: False: the text has the label with the highest score, the first of equal ones.
            True: it has those above one half.
    """
    if several:
        likely = (label for label, score in zip(labels, scores, strict=True) if score > 0.5)
        return label_row(LABEL_SEPARATOR.join(likely), scores)
    return label_row(labels[max(range(len(scores)), key=scores.__getitem__)], scores)


def check_separable(labels: Iterable[str], place: str) -> None:
    """Refuses names that could not be told apart where several labels stand in one field.

    Args:
        labels: the names.
        place: where they stand, with a verb; begins the error's sentence.

    Raises:
        ValueError: a name holds the separator.
    """
    for label in labels:
        if LABEL_SEPARATOR in label:
            raise ValueError(
                f"{place} the label {label!r}, but {LABEL_SEPARATOR!r} separates the labels of a "
                "text: give it another name"
            )


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
