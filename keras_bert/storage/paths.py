"""Files that flags name: globs, sizes and opening, on the local disk and in remote storage.

Remote storage is what `tf.io.gfile` opens: docs/design.md says why not etils.epath.
"""

import glob
import hashlib
import io
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

_FINGERPRINT_BYTES = 1 << 16

# Characters that have a meaning where TensorFlow looks for the files of a checkpoint.
_PATTERN = frozenset("[]*?")


def find_files(inputs: Sequence[str | os.PathLike]) -> list[str]:
    """Returns the files that paths and globs name, each once, those of a glob in sorted order.

    A file that is named in several ways, such as a.txt and ./a.txt, has the first of its names.

    Args:
        inputs: paths or globs; addresses such as gs://bucket/file go through tf.io.gfile.

    Raises:
        FileNotFoundError: an input matches no file.
        ValueError: an input is a folder, a pipe or a device, or there is none.
    """
    if not inputs:
        raise ValueError("--input is empty: give at least one file or glob")
    found: dict[str, str] = {}
    for pattern in [os.fspath(path) for path in inputs]:
        if is_remote(pattern):
            matches = sorted(gfile().glob(pattern))
        else:  # a file whose name holds a bracket is that file, not a glob
            exists = os.path.exists(pattern)
            matches = [pattern] if exists else sorted(glob.glob(pattern, recursive=True))
        if not matches:
            raise FileNotFoundError(f"no file matches --input {pattern!r}: check the path")
        for path in matches:
            # A request to the bucket each: files have an ending.
            if os.path.isdir(path) or (
                is_remote(path) and not os.path.splitext(path)[1] and gfile().isdir(path)
            ):
                raise ValueError(
                    f"--input {path} is a folder: give its files, such as {path.rstrip('/')}/*.txt"
                )
            if not is_remote(path) and os.path.exists(path) and not os.path.isfile(path):
                raise ValueError(
                    f"--input {path} is a pipe or a device, and files are read more than once: "
                    "write its content to a file"
                )
            found.setdefault(file_identity(path), path)
    return list(found.values())


def file_identity(path: str) -> str:
    """Returns what all names of a file share: its path without links; an address is its own."""
    return path if is_remote(path) else os.path.realpath(path)


def is_remote(path: str | os.PathLike) -> bool:
    """Returns whether only TensorFlow opens a path, such as one in gs://; hf:// is not remote."""
    scheme, separator, _ = os.fspath(path).partition("://")
    return bool(separator) and scheme != "hf"


def with_name(path: str | os.PathLike) -> Path:
    """Returns a path whose last part is a name: "." and ".." are what they stand for."""
    path = Path(path)
    return path.resolve() if path.name in ("", "..") else path


def short_name(path: str | os.PathLike) -> str:
    """Returns what headings call a folder or file: "mini/preset" of "runs/mini/preset".

    The last name alone may say nothing; of hf://org/name it is org/name.
    """
    return "/".join(with_name(path).parts[-2:])


def check_local(name: str, path: str | os.PathLike) -> None:
    """Refuses an address such as gs://bucket/folder where files are written to the disk alone.

    Args:
        name: of the argument.
        path: its value.

    Raises:
        ValueError: it is no path of this machine, empty, or begins with "~".
    """
    check_written_out(name, path)
    # `Path` makes one slash of two.
    if re.match(r"\w{2,}:/", os.fspath(path)):
        raise ValueError(
            f"{name} is {os.fspath(path)}, but this is written to the disk of this machine: give a "
            "path there, and copy it afterwards"
        )


def check_written_out(name: str, path: str | os.PathLike) -> None:
    """Refuses "", which a shell makes of a variable that is not set, and "~/runs".

    Shells leave "~" as it is behind "=", and Python always does.

    Args:
        name: of the argument.
        path: its value.

    Raises:
        ValueError: it is one of these.
    """
    shown = os.fspath(path)
    if not shown:
        raise ValueError(
            f"{name} is empty, which would be the working directory: name a path, or give . for it"
        )
    if shown == "~" or shown.startswith("~/"):
        raise ValueError(
            f"{name} is {shown}, whose ~ nothing has expanded, so that a folder of this name would "
            f"be made: give {os.path.expanduser(shown)}"
        )


def check_replaceable(path: str | os.PathLike) -> None:
    """Refuses a folder whose place another cannot take, as whoever works in it would stay behind.

    Raises:
        ValueError: it is the working directory, one above it, or the root.
    """
    if Path(path).name in ("", ".."):
        raise ValueError(
            f"{os.fspath(path)} is the working directory or one above it, and a new folder takes "
            "the place of the old one: name a folder in it"
        )


def check_no_pattern(name: str, path: str | os.PathLike) -> None:
    """Refuses a path in which TensorFlow, which takes it for a pattern, would find no checkpoint.

    Args:
        name: of the option.
        path: local or remote.

    Raises:
        ValueError: it is one.
    """
    if _PATTERN.intersection(os.fspath(path)):
        raise ValueError(
            f"{name} {path} has [, ], * or ? in its path: TensorFlow takes it for a pattern and "
            "would find no checkpoint there again; rename it, or choose another"
        )


def check_output(
    output: str | os.PathLike, *others: str | os.PathLike, name: str = "output"
) -> None:
    """Refuses to write to an address, a folder, a device, or over a file that is for another thing.

    Args:
        output: what is written.
        *others: paths of the other files.
        name: of the argument.

    Raises:
        ValueError: it is one of these, perhaps by another name, a folder, a pipe or a device, or no
            path of this machine.
    """
    check_local(name, output)
    if os.path.isdir(output):
        raise ValueError(f"{name} is {os.fspath(output)}, which is a folder: name a file in it")
    if os.path.exists(output) and not os.path.isfile(output):
        raise ValueError(
            f"{name} is {os.fspath(output)}, which is a pipe or a device, and a file would take "
            "its place: name a file"
        )
    for other in others:
        exist = os.path.exists(output) and os.path.exists(other)
        linked = exist and os.path.samefile(output, other)
        if linked or os.path.realpath(output) == os.path.realpath(other):
            raise ValueError(
                f"{name} is {os.fspath(output)}, the same file as {os.fspath(other)}: choose "
                "another name"
            )


def check_ending(name: str, path: str | os.PathLike, ending: str) -> None:
    """Refuses to write a file under a name that tells of another format.

    Args:
        name: of the flag.
        path: its value.
        ending: of the one format that is written, ".csv".

    Raises:
        ValueError: the name has another ending.
    """
    if os.path.splitext(path)[1] != ending:
        raise ValueError(f"{name}={os.fspath(path)} does not end in {ending}: rename it")


def check_file(path: str | os.PathLike, wanted: str) -> None:
    """Makes sure that a path is that of a file on the disk.

    Args:
        path: the path.
        wanted: what to give where it is none, "a file with a text a line"; ends the sentence.

    Raises:
        FileNotFoundError: there is no such file; a pattern such as `*.txt` names none.
        ValueError: it is a folder.
    """
    if os.path.isfile(path):
        return
    shown = os.fspath(path)
    if os.path.isdir(path):
        raise ValueError(f"{shown} is a folder: give {wanted}")
    pattern = "one file, not a pattern: " if glob.has_magic(shown) else ""
    raise FileNotFoundError(f"{shown} does not exist: give {pattern}{wanted}")


def check_folder(name: str, path: str | os.PathLike) -> None:
    """Refuses an address, or a file where a folder is to be written, before any work is done.

    Args:
        name: of the argument.
        path: its value.

    Raises:
        ValueError: it is no path of a folder.
    """
    check_local(name, path)
    if os.path.exists(path) and not os.path.isdir(path):
        raise ValueError(f"{name} is {os.fspath(path)}, which is a file: name a folder")


def check_no_file(name: str, path: str | os.PathLike) -> None:
    """Refuses a file where a folder is to be written, or to be gone on with.

    Args:
        name: of the option.
        path: its value, local; an address is passed over.

    Raises:
        FileExistsError: it is one.
        ValueError: it is empty, or begins with "~".
    """
    check_written_out(name, path)
    if os.path.exists(path) and not os.path.isdir(path):
        raise FileExistsError(f"{os.fspath(path)} is a file: choose another --{name}")


def gfile() -> Any:
    """Returns `tf.io.gfile`: local work does without TensorFlow, which takes seconds to load."""
    import tensorflow as tf

    return tf.io.gfile


def file_size(path: str) -> int:
    """Returns the bytes of a file."""
    return gfile().stat(path).length if is_remote(path) else os.path.getsize(path)


def open_file(path: str) -> BinaryIO:
    """Opens a file for reading bytes."""
    if not is_remote(path):
        return open(path, "rb")
    return io.BufferedReader(_RemoteFile(path))


def fingerprint(path: str, size: int) -> str:
    """Returns a hash of a file's size, beginning and end, which tells a changed file at once."""
    with open_file(path) as file:
        ends = file.read(_FINGERPRINT_BYTES)
        file.seek(max(0, size - _FINGERPRINT_BYTES))
        ends += file.read(_FINGERPRINT_BYTES)
    return f"{size}/{hashlib.sha256(ends).hexdigest()}"


class _RemoteFile(io.RawIOBase):
    """A file of remote storage with the methods of a local one, which other libraries look for."""

    def __init__(self, path: str):
        self._file = gfile().GFile(path, "rb")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._file.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._file.seek(offset, whence)
        return self._file.tell()

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        self._file.close()
        super().close()
