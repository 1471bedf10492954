"""Answers of a served model for the rows of a table, as `predict.py` writes them.

Nothing here imports TensorFlow, so that asking a server needs none and starts at once.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_bert.counts import needed_count
from keras_bert.progress import Progress
from keras_bert.serving.client import Client
from keras_bert.storage.growing_csv import growing_csv
from keras_bert.storage.paths import check_file, check_output
from keras_bert.storage.tables import EXTENSIONS, Table, check_columns, read_table
from keras_bert.tasks.classification import answer_table as classification
from keras_bert.tasks.multiple_choice import answer_table as multiple_choice
from keras_bert.tasks.multiple_choice.choice_columns import CHOICES, has_choices, row_choices
from keras_bert.tasks.question_answering import answer_table as question_answering
from keras_bert.tasks.seq2seq import answer_table as seq2seq
from keras_bert.tasks.tagging import answer_table as tagging

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
    # Batch after batch: the answers to those before an interruption stay in the file.
    count = len(table.rows)
    with (
        growing_csv(output_path, count) as output,
        Progress(count, "row", "asking the server") as progress,
    ):
        for start in range(0, count, batch_size):
            part = slice(start, start + batch_size)
            answers = client.predict({name: values[part] for name, values in inputs.items()})
            asked = table.rows[part]
            header: list[str] = []
            rows: list[list[str]] = []
            for index, row in enumerate(asked):
                # The answer to one row; its outputs tell which kind of task the server has.
                answer = {name: values[index] for name, values in answers.items()}
                if counts is not None and "choice_text" in answer:
                    answer["scores"] = answer["scores"][: counts[start + index]]
                kinds = (classification, question_answering, tagging, multiple_choice, seq2seq)
                served = next(filter(None, (kind.served(answer) for kind in kinds)), None)
                if served is None:
                    raise ValueError(
                        f"the served model answers with {', '.join(answer)}, which make no table: "
                        "ask it with keras_bert.serving.client"
                    )
                header, found = served
                check_columns(table.path, table.columns, header)
                known = [row.values.get(name, "") for name in table.columns]
                rows += [known + fields for fields in found]
            output.add([*table.columns, *header], rows, len(asked))
            progress.update(len(asked))
    return count


def _inputs(table: Table, columns: Mapping[str, str]) -> tuple[dict[str, Any], list[int] | None]:
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
    inputs: dict[str, Any] = {
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
