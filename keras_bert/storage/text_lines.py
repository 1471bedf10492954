"""A file of texts, one a line, never more than one of them in memory."""

import gzip
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from keras_bert.progress import Progress
from keras_bert.storage.paths import check_file
from keras_bert.storage.surrogates import without_lone_surrogates
from keras_bert.storage.tables import Row, Table, read_table


class TextLines:
    """The texts of a file, read afresh each time.

    `.jsonl`: a JSON object a line, the text in its field "text"; empty lines are passed over. Any
    other ending: UTF-8, each line a text, an empty one too. Both also with `.gz` behind.

    Args:
        path: the file.

    Attributes:
        total_bytes: size of the file.
        bytes_read: how much of it was read so far.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is a folder.
    """

    def __init__(self, path: str | os.PathLike):
        self._path = Path(path)
        check_file(path, "a file with a text a line")
        self.total_bytes = self._path.stat().st_size
        self.bytes_read = 0
        suffixes = [suffix.lower() for suffix in self._path.suffixes if suffix.lower() != ".gz"]
        self._is_json = suffixes[-1:] == [".jsonl"]

    def __iter__(self) -> Iterator[str]:
        """Yields the texts.

        Raises:
            ValueError: a line is not UTF-8 or not JSON with a text, a .gz is damaged, or all is one
                line with carriage returns in it, the line ends of old Macs.
        """
        with open(self._path, "rb") as file:
            lines = gzip.open(file) if self._path.suffix.lower() == ".gz" else file
            try:
                for number, line in enumerate(lines, start=1):
                    self.bytes_read = file.tell()
                    place = f"{self._path}, line {number}"
                    try:
                        text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                    except UnicodeDecodeError:
                        raise ValueError(
                            f"{place} is not UTF-8: convert the file to UTF-8"
                        ) from None
                    if number == 1 and "\r" in text and not line.endswith(b"\n"):
                        raise ValueError(
                            f"{place} is all of the file and has carriage returns that no line "
                            "feed follows: write line ends as \\n or \\r\\n"
                        )
                    if not self._is_json:
                        yield text
                    elif text.strip():  # as in `read_table`
                        yield _text_field(place, text)
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise ValueError(
                    f"{self._path} is a damaged .gz ({error}): fetch it again"
                ) from None

    def watched(self, progress: Progress) -> Iterator[str]:
        """Yields the texts and tells `progress` the bytes of the file that they took."""
        told = 0
        for text in self:
            progress.update(self.bytes_read - told)
            told = self.bytes_read
            yield text


class FileTexts:
    """The texts of a file and how far reading them is: a table's column "text", else its lines.

    Args:
        path: .csv or .tsv, or what `TextLines` reads.

    Attributes:
        table: the table, where it is one; it is read as a whole.
        total: what there is to read.
        unit: of what: "B", or "text" of a table.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is a folder, a packed table, or one without such a column.
    """

    def __init__(self, path: str | os.PathLike):
        self.table: Table | None = None
        if is_table(path):
            self.table = read_table(Path(path))
            self._column = _texts_of(self.table)
            self.total, self.unit = len(self._column), "text"
        else:
            self._lines = TextLines(path)
            self.total, self.unit = self._lines.total_bytes, "B"

    def watched(self, progress: Progress) -> Iterator[str]:
        """Yields the texts and tells `progress` of each."""
        if self.table is None:
            yield from self._lines.watched(progress)
            return
        for text in self._column:
            progress.update(1)
            yield text


def _texts_of(table: Table, column: str = "text") -> list[str]:
    asked = "name the right one" if column != "text" else f"name the column of the texts {column!r}"
    return table.texts(column, asked)


def _text_field(place: str, line: str) -> str:
    try:
        text = json.loads(line)["text"]
    except (ValueError, RecursionError, KeyError, TypeError):
        text = None
    if not isinstance(text, str):
        raise ValueError(f'{place} is no JSON object with a text in its field "text": fix it')
    return without_lone_surrogates(text)


def check_listed(values: Any, name: str, wanted: str) -> None:
    """Refuses what cannot be looped over, such as None.

    Args:
        values: what was given.
        name: what the error calls it.
        wanted: what to give, "a list of texts"; ends the error's sentence.

    Raises:
        ValueError: it is none.
    """
    if not hasattr(values, "__iter__") and not hasattr(values, "__getitem__"):
        raise ValueError(f"{name} is {values!r}: give {wanted}")


def check_several(texts: Iterable[str]) -> None:
    """Refuses what is no list of texts.

    Raises:
        ValueError: it is one string, whose letters would be texts, or a table or a dictionary,
            whose names would be; or it cannot be looped over.
    """
    check_listed(texts, "texts", "a list of texts")
    if isinstance(texts, str | bytes):
        raise ValueError("texts is one string, which would be read letter by letter: give [text]")
    if isinstance(texts, Mapping) or hasattr(texts, "columns"):  # such as a DataFrame
        raise ValueError(
            f"texts is a {type(texts).__name__}, of which the names of its columns would be read: "
            "give one of the columns"
        )


def each_string(texts: Iterable[Any]) -> Iterator[str]:
    """Yields texts as strings that UTF-8 can write, one after the other, see `check_strings`.

    Args:
        texts: strings, which are read as a stream.

    Raises:
        ValueError: one of them is none.
    """
    for text in texts:
        if not isinstance(text, str):
            raise ValueError(f"a text is a {type(text).__name__}: give strings")
        yield without_lone_surrogates(text)


def check_strings(texts: Iterable[Any], name: str = "text", for_several: str = "") -> list[str]:
    """Returns texts as strings that UTF-8 can write.

    Bytes that are not UTF-8, and halves of surrogate pairs, are U+FFFD, as in files.

    Args:
        texts: strings, or bytes in UTF-8; a list, an array [N] or a tensor of TensorFlow.
        name: what the error calls one of them.
        for_several: ends the error's sentence where one of them is a list or the like.

    Raises:
        ValueError: one of them is none, or `texts` is a set or what `check_several` refuses.
    """
    if hasattr(texts, "numpy"):  # a tensor; of one string it gives bytes
        array: Any = texts.numpy()
        texts = array if isinstance(array, bytes) else array.tolist()
    check_several(texts)
    if isinstance(texts, set | frozenset):
        raise ValueError("texts is a set, which has no order for answers to follow: give a list")
    found = []
    for number, text in enumerate(texts):
        if not isinstance(text, str | bytes):
            remedy = f"give strings{for_several if hasattr(text, '__len__') else ''}"
            raise ValueError(
                f"{name} {number} (counted from 0) is a {type(text).__name__}: {remedy}"
            )
        found.append(_as_utf8_writes(text))
    return found


def check_string(text: Any, name: str) -> str:
    """Returns one text as `check_strings` returns several.

    Args:
        text: a string, or bytes in UTF-8.
        name: what the error calls it.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(text, str | bytes):
        raise ValueError(f"{name} is a {type(text).__name__}: give a string")
    return _as_utf8_writes(text)


def check_parts(parts: Iterable[Any], name: str, one: str) -> tuple[str, ...]:
    """Returns the strings that an example is made of, such as its words.

    Args:
        parts: what `check_strings` takes.
        name: what errors call them, such as "words".
        one: what errors call one of them, such as "word".

    Raises:
        ValueError: one of them is none, or they are one string or no list.
    """
    if isinstance(parts, str | bytes):
        raise ValueError(
            f"{name} is the string {parts[:60]!r}, which would be read letter by letter: give a "
            f"list of {name}"
        )
    check_listed(parts, name, f"a list of {name}")
    return tuple(check_strings(parts, one))


def check_distinct_labels(labels: Iterable[Any], purpose: str) -> tuple[str, ...]:
    """Returns labels that a model is asked about.

    Args:
        labels: what `check_parts` takes.
        purpose: what errors say they are for, such as "to classify by".

    Raises:
        ValueError: there are none, they are one string, or one of them is none, blank or named
            twice.
    """
    found = check_parts(labels, "labels", "label")
    if not found:
        raise ValueError(f"there are no labels {purpose}: give at least one")
    for number, label in enumerate(found):
        if not label.strip():
            raise ValueError(f"label {number} (counted from 0) is blank: name it, or leave it out")
        if label in found[:number]:
            raise ValueError(f"the label {label!r} is there twice: name each once")
    return found


def _as_utf8_writes(text: str | bytes) -> str:
    decoded = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return without_lone_surrogates(decoded)


def read_texts(path: str | os.PathLike, column: str = "text") -> list[str]:
    """Returns the texts of a file: a table's column, else its lines.

    Args:
        path: .csv, .tsv or .jsonl; or what `TextLines` reads.
        column: column of the texts where it is a table, or their field.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it has no such column, or lists in it, is a packed table or a folder, or is
            damaged.
    """
    if is_table(path) or Path(path).suffix.lower() == ".jsonl":
        return _texts_of(read_table(Path(path)), column)
    if column != "text":
        raise ValueError(
            f"{path} is no .csv, .tsv or .jsonl, so it has no column {column!r}: leave the column "
            "out, or give a table"
        )
    return list(TextLines(path))


def lines_table(path: str | os.PathLike, column: str) -> Table:
    """Returns the lines of a file as a table of one column.

    Args:
        path: what `TextLines` reads.
        column: the name of the column.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is empty, a folder, or a line is not UTF-8.
    """
    rows = [Row(number, {column: text}) for number, text in enumerate(TextLines(path), start=1)]
    if not rows:
        raise ValueError(f"{path} has no lines: give a file with a text a line")
    return Table(Path(path), (column,), tuple(rows))


def texts_table(path: Path, column: str, read: Callable[[Path], Table] = read_table) -> Table:
    """Reads a table, or the lines of a `.txt` as one of a single column.

    Args:
        path: the file.
        column: the name of that column.
        read: opens what is no `.txt`.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: see `lines_table` and `read_table`.
    """
    return lines_table(path, column) if Path(path).suffix == ".txt" else read(path)


def is_table(path: str | os.PathLike) -> bool:
    """Whether a file is a table by its name, whose lines are not its texts.

    Raises:
        ValueError: it is a packed one, which is not read.
    """
    kind = "".join(Path(path).suffixes).lower()
    if kind.endswith((".csv.gz", ".tsv.gz")):
        raise ValueError(f"{path} is a packed table: unpack it first")
    return kind.endswith((".csv", ".tsv"))
