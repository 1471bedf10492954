"""Columns of entities and words in a table. Imports no TensorFlow.

A sentence that is given word by word is answered with numbers of words, from 1; running text, which
a served model is given, with characters.
"""

from collections.abc import Mapping
from typing import Any

from keras_bert.storage.tables import number_text

PREDICTED_LABEL = "predicted_label"
WORD_COLUMNS = ("word_number", "word", PREDICTED_LABEL, "score")


def span_columns(what: str, first: str, last: str) -> list[str]:
    """Returns the columns of entities, or of words of running text.

    Args:
        what: "entity" or "word".
        first: the name of where it begins.
        last: the name of where it ends.
    """
    return [what, PREDICTED_LABEL, first, last, "score"]


def span_row(text: str, label: str, first: int, last: int, score: float) -> list[str]:
    """Returns the fields of `span_columns`."""
    return [text, label, str(first), str(last), number_text(score)]


def word_row(number: int, word: str, label: str, score: float) -> list[str]:
    """Returns the fields of `WORD_COLUMNS`."""
    return [str(number), word, label, number_text(score)]


def served(answer: Mapping[str, Any]) -> tuple[list[str], list[list[str]]] | None:
    """Returns columns and rows of the outputs of `TagSignatures` for one example, else None."""
    for output, what in (("entities", "entity"), ("words", "word")):
        if output in answer:
            names = (output, "labels", "starts", "ends", "scores")
            spans = zip(*(answer[name] for name in names), strict=True)
            # Those without a label fill texts that have fewer than another of the request.
            return span_columns(what, "start", "end"), [span_row(*s) for s in spans if s[1]]
    return None
