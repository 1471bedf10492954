"""Exports that are one folder never replace what is there."""

import os
from pathlib import Path


def check_nothing_there(folder: str | os.PathLike) -> None:
    """Checks that a folder is empty or does not exist.

    Raises:
        FileExistsError: there is something.
    """
    path = Path(folder)
    if path.is_file() or path.is_dir() and any(path.iterdir()):
        raise FileExistsError(f"{folder} exists already: give another --export_dir or remove it")
