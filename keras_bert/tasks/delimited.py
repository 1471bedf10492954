"""The generic `csv` task: columns of text and label in CSV, TSV or JSONL files."""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from keras_bert.tasks.splits import find_splits
from keras_bert.tasks.tables import EXTENSIONS, Table, read_table
from keras_bert.text.preprocessor import TEXT, TEXT_PAIR
from keras_bert.training import task_metrics
from keras_bert.training.task import LabeledTexts, LabelType, Task, TaskData


@dataclasses.dataclass(frozen=True)
class Columns:
    """Names of the columns.

    Attributes:
        text: the (first) text.
        text_pair: the second text; None takes "text_pair" where the training data has it.
        label: the label.
    """

    text: str = "text"
    text_pair: str | None = None
    label: str = "label"


def csv_task(
    columns: Columns = Columns(),  # noqa: B008 (frozen)
    label_type: LabelType = "class",
    labels: Sequence[str] | None = None,
) -> Task:
    """Returns the task of learning the label column from the text columns.

    Args:
        columns: names of the columns.
        label_type: "class", or "regression" for labels that are numbers.
        labels: names of the classes in the order wanted; None takes those of the training data,
            sorted.

    Raises:
        ValueError: labels are named twice, are fewer than two or given for a regression.
    """
    if labels is not None:
        _check_labels(labels, label_type)
    metrics = {"accuracy": task_metrics.accuracy}
    if label_type == "regression":
        metrics = {
            "pearson": task_metrics.pearson,
            "mean_squared_error": task_metrics.mean_squared_error,
        }
    read = functools.partial(_read, columns=columns, label_type=label_type, labels=labels)
    return Task("csv", label_type, read, metrics)


def _check_labels(labels: Sequence[str], label_type: LabelType) -> None:
    if label_type == "regression":
        raise ValueError(f"a regression has no labels, but {list(labels)} are given: leave them")
    if len(labels) < 2 or len(set(labels)) < len(labels):
        raise ValueError(f"the labels are {list(labels)}: give at least two different ones")


def _read(
    folder: Path, columns: Columns, label_type: LabelType, labels: Sequence[str] | None
) -> TaskData:
    paths = find_splits(folder, EXTENSIONS)
    tables = {split: read_table(path) for split, path in paths.items()}
    train = tables["train"]
    text_columns = {TEXT: columns.text}
    if columns.text_pair is not None or TEXT_PAIR in train.columns:
        text_columns[TEXT_PAIR] = columns.text_pair or TEXT_PAIR
    if label_type == "class" and labels is None:
        labels = _labels_of(train, columns.label)
    classes = None if labels is None else {label: index for index, label in enumerate(labels)}
    splits = {
        split: _labeled_texts(table, text_columns, columns.label, classes)
        for split, table in tables.items()
    }
    return TaskData(
        splits["train"],
        splits.get("validation"),
        splits.get("test"),
        tuple(labels or ()),
        text_columns,
    )


def _labels_of(train: Table, column: str) -> list[str]:
    labels = sorted(set(_label_column(train, column)))
    if len(labels) < 2:
        raise ValueError(
            f"{train.path}: every label is {labels[0]!r}: classes are learned from at least two; "
            "numbers with --regression"
        )
    return labels


def _labeled_texts(
    table: Table, text_columns: Mapping[str, str], label: str, classes: dict[str, int] | None
) -> LabeledTexts:
    texts, pairs = read_texts(table, text_columns)
    values = _label_column(table, label)
    if classes is None:
        return LabeledTexts(texts, pairs, _numbers(table, values))
    for row, value in zip(table.rows, values, strict=True):
        if value not in classes:
            raise ValueError(
                f"{table.path}, line {row.line}: the label {value!r} is not one of "
                f"{', '.join(map(repr, classes))}: mend it, or name all with --labels"
            )
    return LabeledTexts(texts, pairs, np.array([classes[value] for value in values], np.int32))


def read_texts(table: Table, text_columns: Mapping[str, str]) -> tuple[list[str], list[str] | None]:
    """Returns the texts and second texts (or None) of a table.

    Args:
        table: the table.
        text_columns: which column holds "text" and, for pairs, "text_pair".

    Raises:
        ValueError: a column is missing.
    """
    columns = [
        table.column(name, f"name the right one with --{field}_column")
        for field, name in text_columns.items()
    ]
    return columns[0], columns[1] if len(columns) == 2 else None


def _label_column(table: Table, name: str) -> list[str]:
    values = table.column(name, "name the right one with --label_column")
    for row, value in zip(table.rows, values, strict=True):
        if not value.strip():
            raise ValueError(
                f"{table.path}, line {row.line}: the label is empty: label or remove the row"
            )
    return values


def _numbers(table: Table, values: Sequence[str]) -> np.ndarray:
    numbers = []
    for row, value in zip(table.rows, values, strict=True):
        number = _number(value)
        if not math.isfinite(number):
            raise ValueError(
                f"{table.path}, line {row.line}: the label {value!r} is not a number: "
                "a regression learns numbers; leave out --regression for classes"
            )
        numbers.append(number)
    return np.array(numbers, np.float32)


def _number(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        return math.nan
