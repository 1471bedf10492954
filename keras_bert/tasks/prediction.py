"""Predictions of a fine-tuned model for a file: its columns and the answers beside them."""

import csv
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from keras_bert.files import atomic_file
from keras_bert.tasks.delimited import read_texts
from keras_bert.tasks.tables import Table, read_table
from keras_bert.training.finetuned_model import FinetunedModel
from keras_bert.training.task import TaskDescription

PREDICTED_LABEL = "predicted_label"
PREDICTED_VALUE = "predicted_value"


def predict_file(
    model_dir: str | os.PathLike,
    input_path: str | os.PathLike,
    output_path: str | os.PathLike,
    batch_size: int = 32,
) -> int:
    """Writes a CSV of the input's columns and the predictions; returns the number of rows.

    Classes: `predicted_label` and `score_<label>`, the probability of each label. Regression:
    `predicted_value`.

    Args:
        model_dir: the folder of a fine-tuning run.
        input_path: CSV, TSV or JSONL with the text columns the model was trained on.
        output_path: the CSV to write.
        batch_size: texts per call of the model.

    Raises:
        FileNotFoundError: model or input do not exist.
        ValueError: the input lacks a column, or has one that the output adds.
    """
    table = read_table(Path(input_path))
    description = TaskDescription.load(model_dir)
    texts, pairs = read_texts(table, description.text_columns)
    added = _added_columns(description)
    for name in added:
        if name in table.columns:
            raise ValueError(
                f"{table.path} has a column {name!r}, which the predictions add: rename it"
            )
    outputs = FinetunedModel.load(model_dir).predict(texts, pairs, batch_size)
    _write(Path(output_path), table, added, _added_values(description, outputs))
    return len(texts)


def _added_columns(description: TaskDescription) -> list[str]:
    if description.label_type == "regression":
        return [PREDICTED_VALUE]
    return [PREDICTED_LABEL, *(f"score_{label}" for label in description.labels)]


def _added_values(description: TaskDescription, outputs: np.ndarray) -> list[list[str]]:
    if description.label_type == "regression":
        return [[_as_text(value)] for value in outputs]
    return [[description.labels[scores.argmax()], *map(_as_text, scores)] for scores in outputs]


def _as_text(number: np.float32) -> str:
    return f"{number:.6g}"


def _write(path: Path, table: Table, added: Sequence[str], values: list[list[str]]) -> None:
    with (
        atomic_file(path) as temporary,
        open(temporary, "w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.writer(file)
        writer.writerow([*table.columns, *added])
        for row, new in zip(table.rows, values, strict=True):
            writer.writerow([*(row.values.get(name, "") for name in table.columns), *new])
