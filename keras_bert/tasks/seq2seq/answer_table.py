"""Columns of a generated text in a table. Imports no TensorFlow."""

from collections.abc import Mapping
from typing import Any

from keras_bert.storage.tables import number_text

GENERATED_TEXT = "generated_text"
COLUMNS = (GENERATED_TEXT, "score")


def text_row(text: str, score: float) -> list[str]:
    """Returns the fields of `COLUMNS`."""
    return [text, number_text(score)]


def served(answer: Mapping[str, Any]) -> tuple[list[str], list[list[str]]] | None:
    """Returns columns and rows of the outputs of `Seq2SeqSignatures` for one example, else None."""
    if GENERATED_TEXT not in answer:
        return None
    return list(COLUMNS), [text_row(answer[GENERATED_TEXT], answer["score"])]
