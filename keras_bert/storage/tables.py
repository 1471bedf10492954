"""Tables of strings in CSV, TSV and JSONL files, with the line of every row."""

import csv
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from keras_bert.storage.paths import check_file
from keras_bert.storage.surrogates import without_lone_surrogates

# A document may be longer than the 131,072 characters that Python allows a field by default.
csv.field_size_limit(sys.maxsize)
_LARGEST_FLOAT32 = (2 - 2**-23) * 2.0**127


class Row(NamedTuple):
    """One row.

    Attributes:
        line: the line of the file where it begins.
        values: its values by column.
        lists: the columns whose value is a list of JSON, not a string that looks like one.
        objects: the same of objects.
    """

    line: int
    values: dict[str, str]
    lists: frozenset[str] = frozenset()
    objects: frozenset[str] = frozenset()


class Table(NamedTuple):
    """The content of a file.

    Attributes:
        path: the file.
        columns: names in the order of the file (of their first appearance in JSONL).
        rows: at least one.
    """

    path: Path
    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    def fields(self, row: Row) -> list[str]:
        """Returns the values of one of the rows in the order of the columns, missing ones empty."""
        return [row.values.get(name, "") for name in self.columns]

    def column(self, name: str, remedy: str) -> list[str]:
        """Returns the values of a column.

        Args:
            name: the column.
            remedy: what to do where it is missing; ends the error's sentence.

        Raises:
            ValueError: the file, or a row of it, has no such column.
        """
        if name not in self.columns:
            remedy = _other_separator(self.path, self.columns) or remedy
            raise ValueError(
                f"{self.path}: there is no column {name!r} among {_listed(self.columns)}: {remedy}"
            )
        for row in self.rows:
            if name not in row.values:
                raise ValueError(
                    f"{self.path}, line {row.line}: there is no {name!r} among "
                    f"{_listed(row.values)}: every row needs one"
                )
        return [row.values[name] for row in self.rows]

    def texts(self, name: str, remedy: str) -> list[str]:
        """Returns the values of a column of texts, see `column`.

        Raises:
            ValueError: there is no such column, or a value is a list or an object, whose JSON would
                be the text.
        """
        texts = self.column(name, remedy)
        self.check_no_objects(name)
        for row in self.rows:
            if name in row.lists:
                raise ValueError(
                    f"{self.path}, line {row.line}: {name} is a list: give each of its texts a row"
                )
        return texts

    def check_no_objects(self, name: str) -> None:
        """Refuses objects of JSON in a column, whose JSON would be a text or a label.

        Args:
            name: the column.

        Raises:
            ValueError: a value is one.
        """
        for row in self.rows:
            if name in row.objects:
                raise ValueError(
                    f"{self.path}, line {row.line}: {name} is a JSON object, "
                    f"{row.values[name][:60]}: give what is meant of it in a field of its own"
                )


def read_table(path: Path) -> Table:
    """Reads a table; the extension of the file tells its format.

    `.csv` and `.tsv` begin with a line of column names; fields may be quoted with `"` and then
    hold separators, line ends and doubled quotes; a field of a `.tsv` not both tabs and line ends.
    `.jsonl` has one JSON object a line; values that are not strings are kept as their JSON text,
    null as an empty string; NaN, infinite numbers and two fields of one name are refused. Files are
    UTF-8, with or without a byte order mark; empty lines are passed over.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is a folder, of another format, empty, not UTF-8 or damaged; the
            sentence names the line.
    """
    path = Path(path)
    check_file(path, f"a file of {', '.join(_READERS)}")
    if path.suffix not in _READERS:
        raise ValueError(f"{path} is not one of {', '.join(_READERS)}: {_as_table(path.suffix)}")
    columns, rows = _READERS[path.suffix](path, _decode(path))
    if not rows:
        raise ValueError(f"{path} has no rows: give a file with at least one example")
    return Table(path, columns, tuple(rows))


def read_unquoted(
    path: Path, columns: Sequence[str] | None = None, skip_broken: bool = False
) -> Table:
    """Reads tab-separated values in which quotes mean nothing, as GLUE distributes its files.

    Args:
        path: the file; UTF-8 with or without a byte order mark.
        columns: names of the columns where the file has no line of them.
        skip_broken: leave lines with another number of columns out and say how many there were.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is empty, not UTF-8, or a line has another number of columns.
    """
    lines = [line.rstrip("\r") for line in _decode(Path(path)).split("\n")]
    numbered = [(number, line) for number, line in enumerate(lines, start=1) if line]
    header = tuple(columns or (numbered.pop(0)[1].split("\t") if numbered else ()))
    rows, broken = [], []
    for number, line in numbered:
        fields = line.split("\t")
        if len(fields) == len(header):
            rows.append(Row(number, dict(zip(header, fields, strict=True))))
            continue
        broken.append(number)
        if not skip_broken:
            raise ValueError(
                f"{path}, line {number} has {len(fields)} columns; expected are {len(header)} "
                f"({_listed(header)}): give the file as it is distributed"
            )
    if broken:
        print(
            f"{path}: {len(broken):,} of {len(numbered):,} lines have not {len(header)} columns "
            f"and are left out; the first is line {broken[0]}",
            file=sys.stderr,
        )
    if not rows:
        raise ValueError(f"{path} has no rows: give a file with at least one example")
    return Table(Path(path), header, tuple(rows))


def _as_table(suffix: str) -> str:
    """Returns how a file with another ending becomes a table."""
    if suffix.lower() in _READERS:
        return f"write its ending {suffix.lower()}"
    if suffix.lower() == ".json":
        return "write a JSON object a line, in a .jsonl"
    if suffix.lower() == ".gz":
        return "unpack it first"
    return "write a table, such as a .csv that begins with a line of column names"


def _decode(path: Path) -> str:
    check_file(path, f"a file of {', '.join(_READERS)}")
    content = path.read_bytes()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}, line {line} is not UTF-8: convert the file to UTF-8") from None


def _read_delimited(path: Path, text: str, delimiter: str) -> tuple[tuple[str, ...], list[Row]]:
    records = _records(path, text, delimiter)
    line, header = next(records, (1, []))
    for name in header:
        if header.count(name) > 1:
            raise ValueError(
                f"{path}, line {line}: the column {name!r} is named twice: rename one of them"
            )
    rows = []
    for line, fields in records:
        if len(fields) != len(header):
            remedy = _other_separator(path, header) or "quote fields that hold separators"
            raise ValueError(
                f"{path}, line {line} has {len(fields)} columns but the header names "
                f"{len(header)} ({_listed(header)}): {remedy}"
            )
        rows.append(Row(line, dict(zip(header, fields, strict=True))))
    return tuple(header), rows


def _records(path: Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yields the fields of each record with the line where it begins."""
    # Strict, because a stray quote would otherwise swallow rows in silence.
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise ValueError(
                f"{path}, line {line}: {error}: a field that holds quotes must itself be quoted, "
                'its quotes doubled ("")'
            ) from None
        if fields is None:
            return
        # Tab-separated values are often written without quoting: a quotation that one row opens and
        # a later one closes would make one row of all of them.
        if delimiter == "\t" and any("\t" in field and {"\n", "\r"} & {*field} for field in fields):
            raise ValueError(
                f"{path}, line {line}: a quoted field holds a tab and a line end, as if it had "
                "swallowed a row: a field that begins with a quote must itself be quoted, its "
                'quotes doubled (""), or write the table as .csv'
            )
        if fields:
            yield line, fields


def _read_json_lines(path: Path, text: str) -> tuple[tuple[str, ...], list[Row]]:
    # Not splitlines: JSON strings may hold other line ends, such as U+2028, as they are.
    rows = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            values = json.loads(line, object_pairs_hook=_without_doubles)
        except _DoubledFieldError as error:
            raise ValueError(f"{path}, line {number}: {error}: rename one of them") from None
        except (ValueError, RecursionError) as error:  # also numbers of thousands of digits
            raise ValueError(f"{path}, line {number} is not valid JSON: {error}") from None
        if not isinstance(values, dict):
            raise ValueError(
                f"{path}, line {number} holds a {type(values).__name__}: expected a JSON object"
            )
        fields = {}
        for name, value in values.items():
            try:
                shown = (
                    value
                    if isinstance(value, str)
                    else json.dumps(value, ensure_ascii=False, allow_nan=False)
                )
            except ValueError:  # NaN, Infinity and 1e999, which Python's JSON reads
                raise ValueError(
                    f"{path}, line {number}: {name} is {str(value)[:60]}, which is no number of "
                    "JSON: write null where there is none, or leave the row out"
                ) from None
            fields[name] = "" if value is None else without_lone_surrogates(shown)
        lists = frozenset(name for name, value in values.items() if isinstance(value, list))
        objects = frozenset(name for name, value in values.items() if isinstance(value, dict))
        rows.append(Row(number, fields, lists, objects))
    columns = dict.fromkeys(name for row in rows for name in row.values)
    return tuple(columns), rows


class _DoubledFieldError(ValueError):
    """An object of JSON that has two fields of one name."""


def _without_doubles(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns an object of JSON, of which Python by itself keeps the last of two equal fields."""
    found = dict(fields)
    if len(found) < len(fields):
        names = [name for name, _ in fields]
        name = next(name for name in names if names.count(name) > 1)
        raise _DoubledFieldError(f"the field {name!r} is named twice")
    return found


def check_different_columns(**columns: str | None) -> None:
    """Refuses one column for two things, such as what is read and what is learned from it.

    Args:
        **columns: names of columns by the options that give them; None where one is left out.

    Raises:
        ValueError: two options name the same column.
    """
    option_of: dict[str, str] = {}
    for option, column in columns.items():
        if column is not None and option_of.setdefault(column, option) != option:
            raise ValueError(
                f"{option_of[column]} and {option} are both {column!r}: name a column for each"
            )


def finite_number(field: str) -> float | None:
    """Returns the number that a field is; None where it is none, or not finite in float32."""
    try:
        number = float(field)
    except ValueError:
        return None
    return number if abs(number) <= _LARGEST_FLOAT32 else None  # nor is NaN


def json_list(field: str) -> list[str] | None:
    """Returns the strings of a field that is a JSON list of strings or numbers; else None.

    Numbers are as they are written: [1, "a"] is "1" and "a".
    """
    try:
        found = json.loads(field, parse_int=str, parse_float=str)
    except (json.JSONDecodeError, RecursionError):
        return None
    is_list = isinstance(found, list) and all(isinstance(entry, str) for entry in found)
    return found if is_list else None


def _other_separator(path: Path, header: Sequence[str]) -> str | None:
    """Returns the remedy for a header that looks as if another character parted its names."""
    own = {".csv": (",", "commas"), ".tsv": ("\t", "tabs")}.get(path.suffix)
    if own is None or len(header) != 1:
        return None
    for separator in "\t;,|":
        if separator != own[0] and separator in header[0]:
            return f"{separator!r} seems to separate them: write {own[1]}, which {path.suffix} has"
    return None


def _listed(names: Any) -> str:
    return ", ".join(repr(name) for name in names) or "no columns"


_READERS: dict[str, Callable[[Path, str], tuple[tuple[str, ...], list[Row]]]] = {
    ".csv": lambda path, text: _read_delimited(path, text, ","),
    ".tsv": lambda path, text: _read_delimited(path, text, "\t"),
    ".jsonl": _read_json_lines,
}
EXTENSIONS = tuple(_READERS)


def check_columns(
    path: str | os.PathLike, columns: Sequence[str], answer_columns: Sequence[str]
) -> None:
    """Refuses a table that has a column already which predictions add.

    Args:
        path: the table.
        columns: its columns.
        answer_columns: those that are added.

    Raises:
        ValueError: there is such a column.
    """
    for name in answer_columns:
        if name in columns:
            raise ValueError(f"{path} has a column {name!r}, which the predictions add: rename it")


def number_text(number: float) -> str:
    """Returns a number as tables of predictions show it, with six digits."""
    return f"{number:.6g}"
