"""Predictions of a fine-tuned model for a file: what it holds and the answers beside it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from keras_bert.finetuning.prediction_table import write_predictions
from keras_bert.finetuning.task import TaskDescription
from keras_bert.storage.tables import Table, read_table, read_unquoted
from keras_bert.tasks.classification.delimited import read_texts
from keras_bert.tasks.classification.glue import GLUE
from keras_bert.tasks.classification.head import LabeledTexts
from keras_bert.tasks.finetuned_model import FinetunedModel
from keras_bert.tasks.multiple_choice.choice_files import read_choices, read_swag
from keras_bert.tasks.question_answering.squad_files import read_questions
from keras_bert.tasks.tagging.column_files import WordColumns, read_sentences


class Questions(NamedTuple):
    """What a file asks.

    Attributes:
        examples: what the head of the model encodes.
        table: names of the file's columns and their values for each example; None where the head
            shows the examples itself.
    """

    examples: Any
    table: tuple[list[str], list[list[str]]] | None = None


def predict_file(
    model_dir: str | os.PathLike,
    input_path: str | os.PathLike,
    output_path: str | os.PathLike,
    batch_size: int = 32,
) -> int:
    """Writes a CSV of the input's columns and the predictions; returns the number of examples.

    Classes: `predicted_label` and `score_<label>`, the probability of each label. Several labels:
    `predicted_labels` and the same scores. Regression: `predicted_value`. Questions: `answer` and
    where it stands. Tags: a row for each entity. Multiple choice: `predicted_choice` and scores.

    Args:
        model_dir: the folder of a fine-tuning run.
        input_path: a file in the format that the model was trained on; labels are not needed.
        output_path: the CSV to write.
        batch_size: rows per call of the model.

    Raises:
        FileNotFoundError: model or input do not exist.
        ValueError: the input lacks a column, or has one that the output adds.
    """
    description = TaskDescription.load(model_dir)
    questions = _READERS[description.head.kind](Path(input_path), description)
    _check_columns(questions, description, input_path)
    predictions = FinetunedModel.load(model_dir).predict_examples(questions.examples, batch_size)
    write_predictions(
        output_path,
        description.head,
        questions.examples,
        predictions,
        description.labels,
        questions.table,
    )
    return len(questions.examples)


def _check_columns(
    questions: Questions, description: TaskDescription, path: str | os.PathLike
) -> None:
    if questions.table is None:
        return
    for name in description.head.answer_columns(description.labels):
        if name in questions.table[0]:
            raise ValueError(f"{path} has a column {name!r}, which the predictions add: rename it")


def _read_texts(path: Path, description: TaskDescription) -> Questions:
    glue = description.task in GLUE and path.suffix == ".tsv"
    table = read_unquoted(path) if glue else read_table(path)
    remedy = "the model was trained on a column of this name; rename yours"
    texts = LabeledTexts(*read_texts(table, description.text_columns, remedy))
    return Questions(texts, _columns_and_rows(table))


def _columns_and_rows(table: Table) -> tuple[list[str], list[list[str]]]:
    rows = [[row.values.get(name, "") for name in table.columns] for row in table.rows]
    return list(table.columns), rows


def _read_sentences(path: Path, description: TaskDescription) -> Questions:
    columns = WordColumns(int(description.text_columns["word"]), None)
    return Questions(read_sentences(path, columns))


def _read_spans(path: Path, description: TaskDescription) -> Questions:
    questions, table = read_questions(path)
    return Questions(questions, None if table is None else _columns_and_rows(table))


def _read_choices(path: Path, description: TaskDescription) -> Questions:
    if description.task == "swag":
        return Questions(read_swag(path), _columns_and_rows(read_table(path)))
    return Questions(read_choices(path), _columns_and_rows(read_table(path)))


_READERS: dict[str, Callable[[Path, TaskDescription], Questions]] = {
    "text": _read_texts,
    "tag": _read_sentences,
    "span": _read_spans,
    "choice": _read_choices,
}
