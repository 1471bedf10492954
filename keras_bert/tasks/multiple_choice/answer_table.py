"""Columns of the choice that fits in a table. Imports no TensorFlow."""

from collections.abc import Iterable, Mapping
from typing import Any

from keras_bert.storage.tables import number_text

COLUMNS = ("predicted_choice", "predicted_text", "scores")


def choice_row(index: int, text: str, scores: Iterable[float]) -> list[str]:
    """Returns the fields of `COLUMNS`; all probabilities stand in one, separated by spaces."""
    return [str(index), text, " ".join(map(number_text, scores))]


def served(answer: Mapping[str, Any]) -> tuple[list[str], list[list[str]]] | None:
    """Returns columns and rows of the outputs of `ChoiceSignatures` for one example, else None."""
    if "choice_text" not in answer:
        return None
    return list(COLUMNS), [choice_row(answer["choice"], answer["choice_text"], answer["scores"])]
