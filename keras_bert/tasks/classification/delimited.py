"""The generic `csv` task: columns of text and label in CSV, TSV or JSONL files."""

import dataclasses
import functools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from keras_bert.choices import TokenPooling, WindowPoolingChoice
from keras_bert.finetuning import metrics
from keras_bert.finetuning.task import (
    TRAIN,
    UNLABELED,
    VALIDATION,
    Metric,
    PredictionInput,
    Task,
    TaskData,
    TaskDescription,
)
from keras_bert.storage.data_sets import is_tfds
from keras_bert.storage.tables import (
    EXTENSIONS,
    Row,
    Table,
    check_different_columns,
    finite_number,
    json_list,
    read_table,
)
from keras_bert.storage.text_lines import check_parts, texts_table
from keras_bert.tasks.classification.answer_table import LABEL_SEPARATOR, check_separable
from keras_bert.tasks.classification.head import LabeledTexts, LabelType, TextHead
from keras_bert.tasks.classification.tfds_texts import read_tfds_texts
from keras_bert.tasks.splits import find_splits
from keras_bert.text.preprocessor import TEXT, TEXT_PAIR

_METRICS: Mapping[LabelType, Mapping[str, Metric]] = {
    "class": {"accuracy": metrics.accuracy},
    "multi_label": {
        "micro_f1": metrics.micro_f1,
        "macro_f1": metrics.macro_f1,
    },
    "regression": {
        "pearson": metrics.pearson,
        "spearman": metrics.spearman,
        "mean_squared_error": metrics.mean_squared_error,
    },
}

# A name, and no list of JSON or Python.
_IN_BRACKETS = re.compile(r"\[(?!(true|false|null|-?[0-9.]+)\])[^][,'\"]+\]")


def csv_task(
    text_column: str = TEXT,
    text_pair_column: str | None = None,
    label_column: str = "label",
    label_type: LabelType = "class",
    labels: Sequence[str] | None = None,
    window_pooling: WindowPoolingChoice | None = None,
    doc_stride: int | None = None,
    max_windows: int | None = None,
    pooling: TokenPooling | None = None,
) -> Task:
    """Returns the task of learning the label column from the text columns.

    Args:
        text_column: column of the (first) text.
        text_pair_column: column of the second text; None takes "text_pair" where the training data
            has it.
        label_column: column of the label.
        label_type: "class"; "multi_label" for any number of classes in one field, separated by
            "|" or in a JSON list; "regression" for labels that are numbers.
        labels: names of the classes in the order wanted; None takes those of the training data,
            sorted, whole numbers by their size.
        window_pooling: read texts longer than a row in windows and pool these, see `TextHead`; None
            reads their beginning.
        doc_stride: by how many pieces the next window begins later; None takes half a window.
        max_windows: the most windows of a text; None takes 8.
        pooling: "mean", "cls" or "max" of the vectors of a text's tokens in place of the pooled
            output, see `BertClassifier`; None takes what the model folder has.

    Raises:
        ValueError: labels are named twice, are fewer than two, no strings, given for a regression,
            or one of several has "|" in its name; windows are described that nothing pools, or
            pooled beside tokens; or a column is named twice.
    """
    check_different_columns(
        text_column=text_column, text_pair_column=text_pair_column, label_column=label_column
    )
    if labels is not None:
        if label_type == "regression":
            raise ValueError(
                f"a regression has no labels, but {list(labels)} are given: leave them"
            )
        # Without blanks around them, as those of a file.
        labels = [label.strip() for label in check_parts(labels, "labels", "label")]
        if len(labels) < 2 or len(set(labels)) < len(labels):
            raise ValueError(f"the labels are {list(labels)}: give at least two different ones")
        if label_type == "multi_label":
            check_separable(labels, "--labels has")
    columns = _Columns(text_column, text_pair_column, label_column)
    read = functools.partial(_read, columns=columns, label_type=label_type, labels=labels)
    head = TextHead(label_type, window_pooling, doc_stride, max_windows, pooling)
    return Task("csv", head, read, _METRICS[label_type])


@dataclasses.dataclass(frozen=True)
class _Columns:
    """Names of the columns."""

    text: str
    text_pair: str | None
    label: str


def _read(
    folder: str | os.PathLike,
    columns: _Columns,
    label_type: LabelType,
    labels: Sequence[str] | None,
) -> TaskData:
    if is_tfds(folder):
        if labels is not None or label_type == "multi_label":
            raise ValueError(
                f"{folder} names its classes itself: leave out --labels, --multi_label"
            )
        names = {TEXT: columns.text} | ({TEXT_PAIR: columns.text_pair} if columns.text_pair else {})
        return read_tfds_texts(os.fspath(folder), names, columns.label, label_type)
    tables = {
        split: read_table(path) for split, path in find_splits(Path(folder), EXTENSIONS).items()
    }
    train = tables[TRAIN]
    text_columns = {TEXT: columns.text}
    others = {*train.columns} - {columns.text, columns.label}
    if columns.text_pair is not None or TEXT_PAIR in others:
        text_columns[TEXT_PAIR] = columns.text_pair or TEXT_PAIR
    if label_type != "regression" and labels is None:
        fields = _label_column(train, columns.label, label_type)
        if label_type == "multi_label":
            rows = zip(train.rows, fields, strict=True)
            fields = [label for row, field in rows for label in _several(train, row, field)]
        labels = _in_order(set(fields))
        if len(labels) < 2:
            raise ValueError(
                f"{train.path}: every label is {labels[0] if labels else ''!r}: classes are "
                "learned from at least two; numbers with --regression"
            )
    reader = _LabelReader(columns.label, label_type, tuple(labels or ()))
    splits = {}
    for split, table in tables.items():
        # What is to be predicted may come without labels.
        labeled = split in (TRAIN, VALIDATION) or (
            split != UNLABELED and columns.label in table.columns
        )
        classes = reader(table) if labeled else None
        splits[split] = LabeledTexts(*read_texts(table, text_columns), classes)
    return TaskData(splits, reader.labels, text_columns)


@dataclasses.dataclass(frozen=True)
class _LabelReader:
    """Turns the label column of a table into what the head learns from."""

    column: str
    label_type: LabelType
    labels: tuple[str, ...]

    def __call__(self, table: Table) -> np.ndarray:
        fields = _label_column(table, self.column, self.label_type)
        if self.label_type == "regression":
            numbers = []
            for source, value in zip(table.rows, fields, strict=True):
                number = finite_number(value)
                if number is None:
                    raise ValueError(
                        f"{table.path}, line {source.line}: the label {value!r} is not a number: "
                        "a regression learns numbers; leave out --regression for classes"
                    )
                numbers.append(number)
            return np.array(numbers, np.float32)
        index = {label: i for i, label in enumerate(self.labels)}
        several = self.label_type == "multi_label"
        found = []
        for row, field in zip(table.rows, fields, strict=True):
            names = _several(table, row, field) if several else [field]
            for label in names:
                if label not in index:
                    raise ValueError(
                        f"{table.path}, line {row.line}: the label {label!r} is not one of "
                        f"{', '.join(map(repr, index))}: fix it, or name all with --labels"
                    )
            found.append([index[label] for label in names])
        if not several:
            return np.array([classes[0] for classes in found], np.int32)
        hot = np.zeros([len(found), len(index)], np.float32)
        for number, classes in enumerate(found):
            hot[number, classes] = 1.0
        return hot


def _in_order(labels: set[str]) -> list[str]:
    # As strings, 10 would stand before 2, and a list of class weights would meet other classes.
    if all(re.fullmatch("-?[0-9]+", label) for label in labels):
        return sorted(labels, key=lambda label: (int(label), label))
    return sorted(labels)


def _several(table: Table, row: Row, field: str) -> list[str]:
    found = json_list(field)  # how JSON lines may hold them
    if found is None:
        bare = field.strip()
        names = map(str.strip, bare.split(LABEL_SEPARATOR))
        # Python's ['a', 'b'] would silently become one class of that name; [joy] is a name.
        if re.fullmatch(r"\[.*\]", bare, re.DOTALL) and not all(map(_IN_BRACKETS.fullmatch, names)):
            raise ValueError(
                f"{table.path}, line {row.line}: the labels are {bare[:60]!r}: expected a JSON "
                f"list of strings, or names separated by {LABEL_SEPARATOR}"
            )
        found = field.split(LABEL_SEPARATOR)
    check_separable(found, f"{table.path}, line {row.line} has")  # in a JSON list they may be
    return [label for label in map(str.strip, found) if label]


def read_texts(
    table: Table,
    text_columns: Mapping[str, str],
    remedy: str = "name the right one with --{field}_column",
) -> tuple[list[str], list[str] | None]:
    """Returns the texts and second texts (or None) of a table.

    Args:
        table: the table.
        text_columns: which column holds "text" and, for pairs, "text_pair".
        remedy: what to do where "{field}" is missing; ends the error's sentence.

    Raises:
        ValueError: a column is missing, or a value is a list.
    """
    columns = [
        table.texts(name, remedy.format(field=field)) for field, name in text_columns.items()
    ]
    return columns[0], columns[1] if len(columns) == 2 else None


def read_texts_to_predict(
    path: Path, description: TaskDescription, read: Callable[[Path], Table] = read_table
) -> PredictionInput:
    """Reads a table with the columns of text that a model was trained on.

    Models of single texts also take a `.txt` with a text a line.

    Args:
        path: the file; labels are not needed.
        description: the model's task.
        read: opens the table.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it lacks a column.
    """
    columns = description.text_columns
    is_single = len(columns) == 1
    table = texts_table(path, next(iter(columns.values())), read) if is_single else read(path)
    remedy = "the model was trained on a column of this name; rename yours"
    texts = LabeledTexts(*read_texts(table, columns, remedy))
    return PredictionInput.of_table(texts, table)


def _label_column(table: Table, name: str, label_type: LabelType) -> list[str]:
    values = table.column(name, "name the right one with --label_column")
    table.check_no_objects(name)
    if label_type == "multi_label":
        return values  # an empty field means none of the labels
    # Blanks around a label make no other class.
    values = [value.strip() for value in values]
    for row, value in zip(table.rows, values, strict=True):
        if name in row.lists:
            raise ValueError(
                f"{table.path}, line {row.line}: {name} is a list: give one label, or learn "
                "several with --multi_label"
            )
        if not value:
            raise ValueError(
                f"{table.path}, line {row.line}: the label is empty: label or remove the row"
            )
    return values
