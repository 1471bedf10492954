"""Files and folders that are written whole or not at all."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike) -> Iterator[Path]:
    """Yields a temporary path beside `path` and renames it over `path` on success.

    When the body raises, the temporary file is removed and what was at `path` stays as it was.

    Args:
        path: the file to write; its folder is created when missing.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _scratch_folder(path) as scratch:
        temporary = scratch / path.name
        yield temporary
        os.replace(temporary, path)


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike) -> Iterator[Path]:
    """Yields an empty temporary folder that takes the place of `path` on success.

    When the body raises, the temporary folder is removed and what was at `path` stays as it was.

    Args:
        path: the folder to write; one that exists is replaced as a whole.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _scratch_folder(path) as scratch:
        temporary = scratch / path.name
        temporary.mkdir()
        yield temporary
        if path.exists():
            os.replace(path, scratch / "replaced")
        os.replace(temporary, path)


@contextlib.contextmanager
def _scratch_folder(path: Path) -> Iterator[Path]:
    # Beside the target, because a rename is atomic only within one file system.
    scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
