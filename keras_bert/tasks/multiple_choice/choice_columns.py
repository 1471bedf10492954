"""The choices of a row of a table. Imports no TensorFlow, as servers are asked without it."""

import re

from keras_bert.storage.tables import Row, Table, json_list

CHOICES = "choices"
_CHOICE = re.compile(r"choice(\d+)$")


def has_choices(table: Table) -> bool:
    """Tells whether a table has a column `choices`, or some of `choice0`, `choice1` and so on."""
    return CHOICES in table.columns or any(map(_CHOICE.match, table.columns))


def row_choices(table: Table, row: Row) -> tuple[str, ...]:
    """Returns the choices of a row; empty ones at its end are none.

    Args:
        table: has them as columns `choice0`, `choice1` and so on, or in JSON lines as `choices`.
        row: one of its rows.

    Raises:
        ValueError: `choices` is no list of strings, or the columns are not numbered from 0 on.
    """
    if CHOICES in row.values:
        found = json_list(row.values[CHOICES])
        if found is None:
            raise ValueError(
                f"{table.path}, line {row.line}: choices is {row.values[CHOICES][:60]!r}: "
                "expected a JSON list of strings"
            )
        texts = list(found)
    else:
        numbered = sorted(
            (int(match[1]), name) for name in table.columns if (match := _CHOICE.match(name))
        )
        names = [name for _, name in numbered]
        if [number for number, _ in numbered] != list(range(len(names))):
            raise ValueError(
                f"{table.path} has the columns {', '.join(names)}: name them choice0, choice1, "
                "choice2 and so on, as labels count"
            )
        texts = [row.values.get(name, "") for name in names]
    while texts and not texts[-1]:
        texts.pop()
    return tuple(texts)
