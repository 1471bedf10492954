"""Answers of a served model for the rows of a table, as `predict.py` writes them."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_bert.progress import Progress
from keras_bert.serving.client import Client
from keras_bert.storage.growing_csv import growing_csv
from keras_bert.storage.tables import Row, Table, json_list, read_table

# The columns that are sent, by the name of the first of them.
_INPUTS = (("question", "context"), ("context", "choices"), ("text", "text_pair"), ("text",))
_CHOICE = "choice"

Answers = Mapping[str, Any]


def predict_remotely(
    client: Client, input_path: str | os.PathLike, output_path: str | os.PathLike, batch_size: int
) -> int:
    """Writes a CSV of the input's columns and the server's answers; returns the number of rows.

    Args:
        client: of the server.
        input_path: a .csv, .tsv or .jsonl file with the columns `text` (and `text_pair`),
            `question` and `context`, or `context` and `choice0`, `choice1` and so on (in JSON lines
            also a list `choices`).
        output_path: the CSV to write. Taggers write a row for each entity or word. Answers go to
            `<output_path>.partial` as they come, which an error leaves behind.
        batch_size: rows of a request.

    Raises:
        FileNotFoundError: there is no input.
        FileExistsError: an earlier call left its answers.
        ValueError: it lacks the columns or has one that the answers add, the model is one without
            such answers, or the server refused.
        ConnectionError: there is no server.
        TimeoutError: there is one, but no answer in time.
    """
    table = read_table(Path(input_path))
    inputs = _inputs(table)
    count = len(table.rows)
    with (
        growing_csv(output_path, count) as output,
        Progress(count, "row", "asking the server") as progress,
    ):
        for start in range(0, count, batch_size):
            part = slice(start, start + batch_size)
            answers = client.predict({name: values[part] for name, values in inputs.items()})
            asked = table.rows[part]
            output.add(*_answered_rows(table, asked, answers), len(asked))
            progress.update(len(asked))
    return count


def _answered_rows(
    table: Table, asked: Sequence[Row], answers: Mapping[str, Sequence[Any]]
) -> tuple[list[str], list[list[str]]]:
    """Returns names and values of all columns of some rows of the table."""
    header: list[str] = []
    rows: list[list[str]] = []
    for index, row in enumerate(asked):
        header, found = _answer_rows({name: values[index] for name, values in answers.items()})
        _check_columns(table, header)
        known = [row.values.get(name, "") for name in table.columns]
        rows += [known + answer for answer in found]
    return [*table.columns, *header], rows


def _inputs(table: Table) -> dict[str, Sequence[Any]]:
    columns = {*table.columns, *(["choices"] if any(map(_is_choice, table.columns)) else [])}
    names = next((names for names in _INPUTS if columns.issuperset(names)), None)
    if names is None:
        raise ValueError(
            f"{table.path} has the columns {', '.join(table.columns)}; expected are text, text and "
            "text_pair, question and context, or context and choice0, choice1, ...: rename them"
        )
    remedy = "every row needs what the others have"
    return {
        name: _choices(table) if name == "choices" else table.column(name, remedy) for name in names
    }


def _choices(table: Table) -> list[list[str]]:
    """Returns the choices of each row, as many for all: empty strings at the end are none."""
    numbered = sorted(filter(_is_choice, table.columns), key=_number_of_choice)
    found = []
    for row in table.rows:
        listed = row.values.get("choices")
        choices = [row.values.get(name, "") for name in numbered]
        if listed is not None:
            parsed = json_list(listed)
            if parsed is None:
                raise ValueError(
                    f"{table.path}, line {row.line}: choices is {listed[:60]!r}: expected a JSON "
                    "list of strings"
                )
            choices = parsed
        found.append(choices)
    most = max(map(len, found))
    return [[*choices, *[""] * (most - len(choices))] for choices in found]


def _is_choice(column: str) -> bool:
    return column.startswith(_CHOICE) and column.removeprefix(_CHOICE).isdecimal()


def _number_of_choice(column: str) -> int:
    return int(column.removeprefix(_CHOICE))


def _check_columns(table: Table, header: Sequence[str]) -> None:
    for name in header:
        if name in table.columns:
            raise ValueError(
                f"{table.path} has a column {name!r}, which the predictions add: rename it"
            )


def _answer_rows(answers: Answers) -> tuple[list[str], list[list[str]]]:
    """Returns names and values of the columns that one answer adds, as `predict.py` has them."""
    for name, write in _WRITERS.items():
        if name in answers:
            return write(answers)
    # One output comes without its name, and only a regression has one.
    score = answers.get("score", answers.get(""))
    if score is None:
        raise ValueError(
            f"the served model answers with {', '.join(answers)}, which make no table: ask it with "
            "keras_bert.serving.client"
        )
    return ["predicted_value"], [[_number(score)]]


def _labels(answers: Answers) -> tuple[list[str], list[list[str]]]:
    several = "likely_labels" in answers
    header = [
        "predicted_labels" if several else "predicted_label",
        *(f"score_{label}" for label in answers["labels"]),
    ]
    said = answers["likely_labels" if several else "label"]
    return header, [[said, *map(_number, answers["scores"])]]


def _span(answers: Answers) -> tuple[list[str], list[list[str]]]:
    header = ["answer", "score", "start", "end", "null_score"]
    return header, [[_text(answers[name]) for name in header]]


def _entries(what: str) -> Callable[[Answers], tuple[list[str], list[list[str]]]]:
    def rows(answers: Answers) -> tuple[list[str], list[list[str]]]:
        names = [what, "labels", "starts", "ends", "scores"]
        values = zip(*(answers[name] for name in names), strict=True)
        header = [what.removesuffix("s").replace("entitie", "entity"), "predicted_label"]
        kept = [list(map(_text, row)) for row in values if row[1]]
        return [*header, "start", "end", "score"], kept

    return rows


def _choice(answers: Answers) -> tuple[list[str], list[list[str]]]:
    scores = " ".join(map(_number, answers["scores"]))
    row = [_text(answers["choice"]), answers["choice_text"], scores]
    return ["predicted_choice", "predicted_text", "scores"], [row]


def _text(value: Any) -> str:
    return _number(value) if isinstance(value, float) else str(value)


def _number(value: float) -> str:
    return f"{value:.6g}"


_WRITERS: Mapping[str, Callable[[Answers], tuple[list[str], list[list[str]]]]] = {
    "label": _labels,
    "likely_labels": _labels,
    "answer": _span,
    "entities": _entries("entities"),
    "words": _entries("words"),
    "choice_text": _choice,
}
