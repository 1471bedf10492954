"""Predictions of a split as a CSV file: what was asked and what was answered."""

import csv
import os
from collections.abc import Iterable, Sequence
from typing import Any

from keras_bert.finetuning.head import AnswerTable, PerExample
from keras_bert.storage.files import atomic_file
from keras_bert.storage.tables import check_columns


def write_predictions(
    path: str | os.PathLike,
    head: AnswerTable,
    examples: Any,
    predictions: PerExample,
    table: tuple[list[str], list[list[str]]] | None = None,
) -> int:
    """Writes a CSV of the examples and the predictions; returns the number of its rows.

    Args:
        path: the file.
        head: the kind of head; names the columns.
        examples: the split.
        predictions: what the model predicts, one for each example.
        table: names of the columns before the predictions, none of which these add
            (`check_columns`), and their values for each example; None takes the head's own.
    """
    columns, values = head.example_table(examples) if table is None else table
    if table is None:  # of a file that is read, `predict_file` checks them before it predicts
        check_columns(path, columns, head.answer_columns())
    answers = (
        head.answer_rows(prediction, example)
        for prediction, example in zip(predictions, examples, strict=True)
    )
    return write_answers(path, [*columns, *head.answer_columns()], values, answers)


def write_answers(
    path: str | os.PathLike,
    columns: Sequence[str],
    values: Iterable[Sequence[str]],
    answers: Iterable[Sequence[Sequence[str]]],
) -> int:
    """Writes a CSV of examples and the answers to them; returns the number of its rows.

    Args:
        path: the file.
        columns: names of all columns.
        values: the first fields of each example.
        answers: the others of each example, in any number of rows.
    """
    rows = 0
    with (
        atomic_file(path) as temporary,
        open(temporary, "w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(columns)
        for before, found in zip(values, answers, strict=True):
            for answer in found:
                writer.writerow([*before, *answer])
                rows += 1
    return rows
