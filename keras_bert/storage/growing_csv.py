"""A CSV whose rows come over hours: complete under its name, or as far as it came beside it."""

import contextlib
import csv
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from keras_bert.storage.files import behind_links, make_parent, write_errors

_PARTIAL = ".partial"


class GrowingCsv:
    """Rows go to the disk as they come.

    Args:
        file: the open file.
        path: what it is called on success, for errors.

    Attributes:
        answered: to how many rows of the input there are answers.
    """

    def __init__(self, file: IO[str], path: str | os.PathLike):
        self.answered = 0
        self._file = file
        self._path = path
        self._writer = csv.writer(file)

    def add(self, header: Sequence[str], rows: Sequence[Sequence[str]], answered: int) -> None:
        """Writes the answers to `answered` more rows; before the first of them the header.

        Raises:
            OSError: the disk refused a write; the sentence names the file.
        """
        with write_errors(self._path):
            if not self.answered:
                self._writer.writerow(header)
            self._writer.writerows(rows)
            self._file.flush()
        self.answered += answered


@contextlib.contextmanager
def growing_csv(path: str | os.PathLike, total: int) -> Iterator[GrowingCsv]:
    """Yields what writes `<path>.partial`, which is renamed to `path` on success.

    After an error the file stays, if there is an answer in it, and is told on stderr.

    Args:
        path: the file to write; its folder is created when missing. A link stays one.
        total: rows of the input.

    Raises:
        FileExistsError: an earlier call left its answers.
        OSError: there can be no such folder; the sentence names `path`.
    """
    path = behind_links(path)
    partial = Path(f"{os.fspath(path)}{_PARTIAL}")
    make_parent(path)
    if partial.exists():
        raise FileExistsError(
            f"{partial} keeps the answers of an earlier call: move it away or remove it"
        )
    with open(partial, "x", encoding="utf-8", newline="") as file:
        table = GrowingCsv(file, path)
        try:
            yield table
        except BaseException:
            if table.answered:
                print(
                    f"{partial} keeps the answers to the first {table.answered:,} of {total:,} "
                    "rows: ask for the others alone",
                    file=sys.stderr,
                )
            else:
                partial.unlink()
            raise
    os.replace(partial, path)
