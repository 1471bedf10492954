"""Exports are whole folders, and none takes the place of what is there."""

import contextlib
import errno
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from keras_bert.storage.files import write_errors
from keras_bert.storage.paths import check_local

# TF Serving takes a folder for a version only where its name is a number.
_UNFINISHED = ".unfinished_export_"
# What a rename says of a target that is a folder with something in it, or a file.
_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)


def check_nothing_there(folder: str | os.PathLike, name: str = "export_dir") -> None:
    """Checks that a folder is empty or does not exist.

    Args:
        folder: the folder.
        name: of the argument, for the error.

    Raises:
        FileExistsError: there is something.
        ValueError: it is an address, such as gs://bucket/folder.
    """
    check_local(name, folder)
    path = Path(folder)
    if path.is_file() or path.is_dir() and any(path.iterdir()):
        raise _taken(path, name)


@contextlib.contextmanager
def new_folder(path: str | os.PathLike, name: str = "export_dir") -> Iterator[Path]:
    """Yields an empty folder that gets the name `path` on success; see `unfinished_folder`.

    Args:
        path: the folder.
        name: of the argument, for the error.

    Raises:
        FileExistsError: something came to be there meanwhile; it stays as it is.
        OSError: the disk refused a write; the sentence names the folder, through links.
        ValueError: it is an address, such as gs://bucket/folder.
    """
    check_local(name, path)
    path = Path(path)
    target = path.resolve()  # a link to an empty folder stays one
    with write_errors(target), unfinished_folder(target.parent) as folder:
        yield folder
        if not rename_new(folder, target):
            raise _taken(path, name)


@contextlib.contextmanager
def unfinished_folder(parent: Path) -> Iterator[Path]:
    """Yields an empty folder inside `parent`, removed at the end if it is still there.

    Those that killed exports left are told on stderr and stay: they may belong to one that runs.

    Args:
        parent: created when missing.
    """
    for left in sorted(parent.glob(f"{_UNFINISHED}*")):
        print(
            f"{left} is left of an export that was killed, or another export is writing it now: "
            "remove it if none is",
            file=sys.stderr,
        )
    parent.mkdir(parents=True, exist_ok=True)
    temporary = tempfile.TemporaryDirectory(
        prefix=_UNFINISHED, dir=parent, ignore_cleanup_errors=True
    )
    with temporary as scratch:
        # The scratch folder itself is closed to other users, whom the server may be one of.
        folder = Path(scratch) / "export"
        folder.mkdir()
        yield folder


def rename_new(folder: Path, target: Path) -> bool:
    """Renames a folder, unless there is something of that name: then False.

    One step for the file system, so of two exports at the same moment one gets the name.
    """
    try:
        os.rename(folder, target)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise
    return True


def _taken(path: Path, name: str) -> FileExistsError:
    return FileExistsError(f"{path} exists already: give another --{name} or remove it")
