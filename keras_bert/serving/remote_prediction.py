"""Answers of a served model for the rows of a table, as `predict.py` writes them.

Nothing here imports TensorFlow, so that asking a server needs none and starts at once.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from keras_bert.counts import needed_count
from keras_bert.progress import Progress
from keras_bert.serving.client import Client, ServerError
from keras_bert.storage.growing_csv import growing_csv
from keras_bert.storage.paths import check_file, check_output
from keras_bert.storage.tables import EXTENSIONS, Table, check_columns, read_table
from keras_bert.tasks.classification import answer_table as classification
from keras_bert.tasks.multiple_choice import answer_table as multiple_choice
from keras_bert.tasks.multiple_choice.choice_columns import CHOICES, has_choices, row_choices
from keras_bert.tasks.named_labels import NamedLabels
from keras_bert.tasks.question_answering import answer_table as question_answering
from keras_bert.tasks.seq2seq import answer_table as seq2seq
from keras_bert.tasks.tagging import answer_table as tagging

# The outputs of one row by name, and the columns and rows that show them.
_Answer = dict[str, Any]
_Shown = tuple[list[str], list[list[str]]]

_TEXT = "text"
# The columns that are sent, by the name of the first of them.
_INPUTS = (
    *(("question", "context"), ("context", "choices")),
    *(("text", "text_pair"), ("text",), ("source",)),
)

# The same in words.
_COLUMNS = (
    "text, text and text_pair, question and context, context and choice0, choice1, ..., or source"
)


def predict_remotely(
    client: Client,
    input_path: str | os.PathLike,
    output_path: str | os.PathLike,
    batch_size: int,
    columns: Mapping[str, str] | None = None,
) -> int:
    """Writes a CSV of the input's columns and the server's answers; returns the number of rows.

    Args:
        client: of the server.
        input_path: a .csv, .tsv or .jsonl file with the columns `text` (and `text_pair`),
            `question` and `context`, `context` and `choice0`, `choice1` and so on (in JSON lines
            also a list `choices`), or `source`.
        output_path: the CSV to write. Taggers write a row for each entity or word. Answers go to
            `<output_path>.partial` as they come, which an error leaves behind.
        batch_size: rows of a request.
        columns: what columns of other names are sent as, {"text": "body"}; where a model may read
            these alone nothing else is sent.

    Raises:
        FileNotFoundError: there is no input.
        FileExistsError: an earlier call left its answers.
        ValueError: it is no table, lacks the columns, has lists in them or has one that the answers
            add, `batch_size` is below 1, the model is one without such answers, or the server
            refused.
        ConnectionError: there is no server.
        TimeoutError: there is one, but no answer in time.
    """
    needed_count("batch_size", batch_size)
    check_output(output_path, input_path)
    path = Path(input_path)
    check_file(path, f"a file of {', '.join(EXTENSIONS)}")
    if path.suffix not in EXTENSIONS:
        raise ValueError(
            f"{path} is none of {', '.join(EXTENSIONS)}, and a server is asked with tables alone: "
            f"write one with the columns {_COLUMNS}"
        )
    table = read_table(path)
    inputs, counts = _inputs(table, columns or {})

    def shown(number: int, answer: _Answer) -> _Shown:
        if counts is not None and "choice_text" in answer:
            answer["scores"] = answer["scores"][: counts[number]]
        # Its outputs tell which kind of task the server has.
        kinds = (classification, question_answering, tagging, multiple_choice, seq2seq)
        served = next(filter(None, (kind.served(answer) for kind in kinds)), None)
        if served is None:
            raise ValueError(
                f"the served model answers with {', '.join(answer)}, which make no table: "
                "ask it with keras_bert.serving.client"
            )
        check_columns(table.path, table.columns, served[0])
        return served

    return _ask(client, table, inputs, output_path, batch_size, shown)


def predict_labels_remotely(
    client: Client,
    named: NamedLabels,
    input_path: str | os.PathLike,
    output_path: str | os.PathLike,
    batch_size: int,
    columns: Mapping[str, str] | None = None,
) -> int:
    """Writes what a server says of labels that are named with the texts; returns their number.

    The file is that of `classify_file` or `recognize_file` for the model that is served, written
    as `predict_remotely` writes.

    Args:
        client: of the server.
        named: the labels, and what is asked about them.
        input_path: a table with the column `text`, or a .txt with a text a line.
        output_path: the CSV to write.
        batch_size: texts of a request.
        columns: {"text": "body"} where the column of the texts has another name.

    Raises:
        FileNotFoundError: there is no input.
        FileExistsError: an earlier call left its answers.
        ValueError: `NamedLabels.read` refuses the input, `columns` names another than `text`,
            `batch_size` is below 1, a score is not finite, or the server refused, also because its
            model has no such signature.
        ConnectionError: there is no server.
        TimeoutError: there is one, but no answer in time.
    """
    needed_count("batch_size", batch_size)
    columns = columns or {}
    for name in columns.keys() - {_TEXT}:
        raise ValueError(
            f"no column is sent as {name!r} where labels are named: the one with another name is "
            "sent as text"
        )
    table, texts = named.read(input_path, output_path, columns.get(_TEXT, _TEXT))

    def shown(_: int, answer: _Answer) -> _Shown:
        return named.columns, named.served_rows(answer)

    inputs, signature = named.request(texts), named.signature
    try:
        return _ask(client, table, inputs, output_path, batch_size, shown, signature)
    except ServerError as error:
        # 'Serving signature name: "..." not found in signature def' over REST, 'Serving signature
        # key "..." not found.' over gRPC.
        if f'"{signature}" not found' not in str(error):
            raise
        raise ServerError(f"{str(error).rstrip('.')}: {named.served_by}") from None


def _ask(
    client: Client,
    table: Table,
    inputs: Mapping[str, list],
    output_path: str | os.PathLike,
    batch_size: int,
    shown: Callable[[int, _Answer], _Shown],
    signature: str = "serving_default",
) -> int:
    """Writes the answers to all rows of a table as they come; returns the number of rows.

    Args:
        client: of the server.
        table: the rows.
        inputs: of the signature, a value for each row.
        output_path: the CSV to write.
        batch_size: rows of a request.
        shown: from the number of a row and its answer to the columns that are added, and the fields
            of the rows that it becomes.
        signature: what is asked.
    """
    # Batch after batch: the answers to those before an interruption stay in the file.
    count = len(table.rows)
    with (
        growing_csv(output_path, count) as output,
        Progress(count, "row", "asking the server") as progress,
    ):
        for start in range(0, count, batch_size):
            part = slice(start, start + batch_size)
            sent = {name: values[part] for name, values in inputs.items()}
            answers = client.predict(sent, signature)
            asked = table.rows[part]
            header: list[str] = []
            rows: list[list[str]] = []
            for index, row in enumerate(asked):
                answer = {name: values[index] for name, values in answers.items()}
                header, found = shown(start + index, answer)
                rows += [[*table.fields(row), *fields] for fields in found]
            output.add([*table.columns, *header], rows, len(asked))
            progress.update(len(asked))
    return count


def _inputs(table: Table, columns: Mapping[str, str]) -> tuple[dict[str, list], list[int] | None]:
    """Returns the values of each input, a list of all rows, and how many choices each row has."""
    # The inputs of a signature are columns of the table; choice0, choice1, ... are one of them.
    for name, column in columns.items():
        if name == CHOICES or not any(name in names for names in _INPUTS):
            raise ValueError(
                f"no column is sent as {name!r}: those with another name are sent as text, "
                "text_pair, question, context or source"
            )
        table.column(column, "name one that is there")
    present = {*table.columns, *columns, *([CHOICES] if has_choices(table) else [])}
    # Those that were named decide: what needs no others is sent alone.
    possible = [names for names in _INPUTS if present.issuperset(names)]
    possible = [names for names in possible if columns.keys() <= {*names}]
    names = next(
        (names for names in possible if columns.keys() == {*names}), next(iter(possible), None)
    )
    if names is None:
        raise ValueError(
            f"{table.path} has the columns {', '.join(table.columns)}; expected are {_COLUMNS}: "
            "rename them, or say which they are (--column=text=body)"
        )
    remedy = "every row needs what the others have"
    inputs: dict[str, list] = {
        name: table.texts(columns.get(name, name), remedy) for name in names if name != CHOICES
    }
    counts = None  # of the choices of each row
    if CHOICES in names:
        choices = [row_choices(table, row) for row in table.rows]
        counts = list(map(len, choices))
        # Tensors are rectangular, [rows, most choices]: empty strings at the end are none.
        most = max(counts)
        inputs[CHOICES] = [[*found, *[""] * (most - len(found))] for found in choices]
    return inputs, counts
