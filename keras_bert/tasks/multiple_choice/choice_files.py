"""Multiple choice: the files of SWAG, and tables of contexts and choices."""

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.finetuning.task import (
    TRAIN,
    VALIDATION,
    PredictionInput,
    Task,
    TaskData,
    TaskDescription,
)
from keras_bert.storage.data_sets import is_tfds, open_data_set
from keras_bert.storage.files import atomic_file
from keras_bert.storage.tables import EXTENSIONS, Row, Table, read_table
from keras_bert.tasks.multiple_choice.choice_columns import row_choices
from keras_bert.tasks.multiple_choice.head import ChoiceExample, ChoiceHead
from keras_bert.tasks.splits import find_splits
from keras_bert.tasks.tfds_source import check_features, read_splits

CONTEXT, LABEL = "context", "label"
_SWAG_ENDINGS = ("ending0", "ending1", "ending2", "ending3")


def accuracy(predictions: Sequence[np.ndarray], references: Sequence[int]) -> float:
    """Returns the fraction of examples whose likeliest choice is the right one."""
    pairs = zip(predictions, references, strict=True)
    return float(np.mean([scores.argmax() == label for scores, label in pairs]))


# Section 4.4 of the paper.
_DEFAULTS = {"epochs": 3, "batch_size": 16, "learning_rate": 2e-5}


def choice_task() -> Task:
    """Returns the task of tables with columns `context`, `choice0`, `choice1`... and `label`.

    In JSON lines the choices may also be a list, `choices`. Empty choices are none, so rows may
    have different numbers of them. The label is the index of the right one.
    """
    return Task("choice", ChoiceHead(), _read_tables, {"accuracy": accuracy}, _DEFAULTS)


def swag_task() -> Task:
    """Returns the task of SWAG's `train.csv`, `val.csv` and `test.csv`, or of `tfds:swag`.

    The context is the first sentence; each choice is the beginning of the second with an ending.
    """
    metrics = {"accuracy": accuracy}
    return Task(
        "swag",
        ChoiceHead(),
        _read_swag,
        metrics,
        _DEFAULTS,
        _write_submission,
        functools.partial(read_choices_to_predict, read=read_swag),
    )


def _read_tables(folder: str | os.PathLike) -> TaskData:
    splits = find_splits(Path(folder), EXTENSIONS)
    return TaskData(
        {
            split: read_choices(path, label_needed=split in (TRAIN, VALIDATION))
            for split, path in splits.items()
        }
    )


def read_choices(
    path: Path, label_needed: bool = False, label_ignored: bool = False
) -> list[ChoiceExample]:
    """Reads a table of contexts and choices.

    Args:
        path: CSV, TSV or JSONL.
        label_needed: whether rows without a label are refused.
        label_ignored: whether no label is looked at, whatever stands in the column.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a column is missing, a row has fewer than two choices, or a label names none of
            its choices. The sentence names the line.
    """
    table = read_table(path)
    contexts = table.texts(CONTEXT, "multiple choice reads context, choice0, choice1... and label")
    labels = _label_column(table, label_needed, label_ignored)
    return [
        _example(table, row, context, row_choices(table, row), label)
        for row, context, label in zip(table.rows, contexts, labels, strict=True)
    ]


def read_choices_to_predict(
    path: Path,
    description: TaskDescription,
    read: Callable[..., list[ChoiceExample]] = read_choices,
) -> PredictionInput:
    """Reads contexts and choices; labels are not looked at.

    Args:
        path: the table.
        description: the model's task; nothing of the file depends on it.
        read: `read_choices` or `read_swag`.
    """
    return PredictionInput.of_table(read(path, label_ignored=True), read_table(path))


def _label_column(table: Table, needed: bool, ignored: bool) -> list[str | None]:
    if ignored or (not needed and LABEL not in table.columns):
        return [None] * len(table.rows)
    return [*table.column(LABEL, "name the index of the right choice there")]


def _example(
    table: Table, row: Row, context: str, choices: tuple[str, ...], label: str | None
) -> ChoiceExample:
    place = f"{table.path}, line {row.line}"
    if "" in choices:
        raise ValueError(
            f"{place}: choice {choices.index('')} is empty but others follow: move them up"
        )
    if len(choices) < 2:
        raise ValueError(
            f"{place}: there are {len(choices)} choices: give at least two (choice0, choice1, ...)"
        )
    if label is None:
        return ChoiceExample(context, choices)
    if not label.strip():
        raise ValueError(f"{place}: the label is empty: name the right choice, from 0")
    if not label.isdecimal() or int(label) >= len(choices):
        raise ValueError(
            f"{place}: the label is {label!r} but the choices are 0 to {len(choices) - 1}: fix it"
        )
    return ChoiceExample(context, choices, int(label))


def _read_swag(data: str | os.PathLike) -> TaskData:
    if is_tfds(data):
        source = os.fspath(data)
        builder = open_data_set(source)
        check_features(
            source,
            builder,
            ("sent1", "sent2", *_SWAG_ENDINGS, LABEL),
            "it is no data set like SWAG",
        )

        def example(entry: Mapping[str, Any]) -> ChoiceExample:
            first, second, *endings = (
                entry[name].decode() for name in ("sent1", "sent2", *_SWAG_ENDINGS)
            )
            label = int(entry[LABEL])
            return ChoiceExample(first, _joined(second, endings), label if label >= 0 else None)

        return TaskData(
            {
                split: [example(entry) for entry in entries]
                for split, entries in read_splits(source, builder).items()
            }
        )
    return TaskData(
        {
            split: read_swag(path, label_needed=split in (TRAIN, VALIDATION))
            for split, path in find_splits(Path(data), (".csv",)).items()
        }
    )


def read_swag(
    path: Path, label_needed: bool = False, label_ignored: bool = False
) -> list[ChoiceExample]:
    """Reads a file of SWAG as it is distributed; see `read_choices`."""
    table = read_table(path)
    column = functools.partial(
        table.column, remedy="give the files of SWAG as they are distributed"
    )
    first, second = column("sent1"), column("sent2")
    endings = zip(*(column(name) for name in _SWAG_ENDINGS), strict=True)
    labels = _label_column(table, label_needed, label_ignored)
    rows = zip(table.rows, first, second, endings, labels, strict=True)
    return [
        _example(table, row, context, _joined(begun, several), label)
        for row, context, begun, several, label in rows
    ]


def _joined(begun: str, endings: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{begun} {ending}" for ending in endings)


def _write_submission(
    folder: Path, data: TaskData, predictions: Mapping[str, Sequence[np.ndarray]]
) -> list[Path]:
    """Writes `pred_<split>.csv`: the index of the predicted ending, a line for each example."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for split, scores in predictions.items():
        written.append(folder / f"pred_{split}.csv")
        lines = ["pred", *(str(int(values.argmax())) for values in scores)]
        with atomic_file(written[-1]) as path:
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return written
