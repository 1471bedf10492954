"""Columns of an answer to a question in a table. Imports no TensorFlow."""

from collections.abc import Mapping
from typing import Any

from keras_bert.storage.tables import number_text

# As the outputs of a served model; the last one where questions may have no answer.
COLUMNS = ("answer", "score", "start", "end", "null_score")


def answer_row(
    answer: str, probability: float, start: int, end: int, null_score: float
) -> list[str]:
    """Returns the fields of `COLUMNS`."""
    return [answer, number_text(probability), str(start), str(end), number_text(null_score)]


def served(answer: Mapping[str, Any]) -> tuple[list[str], list[list[str]]] | None:
    """Returns columns and rows of the outputs of `SpanSignatures` for one example, else None."""
    if "answer" not in answer:
        return None
    return list(COLUMNS), [answer_row(*(answer[name] for name in COLUMNS))]
