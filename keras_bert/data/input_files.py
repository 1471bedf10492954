"""Files that flags name: globs, sizes and opening, here and in remote storage."""

import glob
import os
from collections.abc import Sequence
from typing import BinaryIO


def find_files(inputs: Sequence[str | os.PathLike]) -> list[str]:
    """Returns the files that paths and globs name, each once, those of a glob in sorted order.

    Args:
        inputs: paths or globs; addresses such as gs://bucket/file go through tf.io.gfile.

    Raises:
        FileNotFoundError: an input matches no file.
        ValueError: an input is a folder, or there is none.
    """
    if not inputs:
        raise ValueError("--input is empty: give at least one file or glob")
    found: dict[str, None] = {}
    for pattern in [os.fspath(path) for path in inputs]:
        matches = _glob(pattern)
        if not matches:
            raise FileNotFoundError(f"no file matches --input {pattern!r}: check the path")
        for path in matches:
            if os.path.isdir(path):
                raise ValueError(
                    f"--input {path} is a folder: give its files, such as {path.rstrip('/')}/*.txt"
                )
            found[path] = None
    return list(found)


def is_remote(path: str) -> bool:
    """Whether a path is an address that goes through tf.io.gfile."""
    return "://" in path


def file_size(path: str) -> int:
    """Returns the bytes of a file."""
    if not is_remote(path):
        return os.path.getsize(path)
    import tensorflow as tf

    return tf.io.gfile.stat(path).length


def open_file(path: str) -> BinaryIO:
    """Opens a file for reading bytes."""
    if not is_remote(path):
        return open(path, "rb")
    import tensorflow as tf

    return tf.io.gfile.GFile(path, "rb")


def _glob(pattern: str) -> list[str]:
    if not is_remote(pattern):
        # A file whose name holds a bracket is that file, not a glob.
        return [pattern] if os.path.exists(pattern) else sorted(glob.glob(pattern, recursive=True))
    import tensorflow as tf  # only for remote files: it takes seconds to load

    return sorted(tf.io.gfile.glob(pattern))
