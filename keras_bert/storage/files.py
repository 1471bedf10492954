"""Files and folders that are written whole or not at all."""

import contextlib
import errno
import fcntl
import hashlib
import json
import math
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from keras_bert.storage.paths import check_local, check_output, check_replaceable

_FLUSHES_AT_ONCE = 16
# What some network file systems say of a folder.
_CANNOT_FLUSH = (errno.EINVAL, errno.ENOTSUP)
# What a disk may refuse a write with, and what its owner can do. Libraries in C++ and Rust raise
# exceptions of their own kinds for it, in whose text the system's words stand.
_NO_ROOM = "make room and run the same command again"
_REMEDIES = {
    errno.ENOSPC: _NO_ROOM,
    errno.EDQUOT: _NO_ROOM,
    errno.EFBIG: _NO_ROOM,
    errno.EROFS: "choose a folder that can be written to",
    errno.EACCES: "choose a folder that you may write to",
    errno.EIO: "the disk or its connection has a fault",
}


def disk_error(error: BaseException) -> tuple[int, str] | None:
    """Tells whether an exception of any library comes from a disk that refused a write.

    Args:
        error: an `OSError`, or what TensorFlow, safetensors or h5py raise in its place.

    Returns:
        The error number and a remedy; None for every other exception.
    """
    if isinstance(error, OSError) and error.errno is not None:
        codes = [error.errno]
    else:
        codes = [code for code in _REMEDIES if os.strerror(code) in str(error)]
    return next(((code, _REMEDIES[code]) for code in codes if code in _REMEDIES), None)


@contextlib.contextmanager
def write_errors(path: str | os.PathLike) -> Iterator[None]:
    """Turns what a full or closed disk makes any library raise into an `OSError`.

    Args:
        path: what is being written, for the sentence.

    Raises:
        OSError: the disk refused a write; the sentence names `path` and what can be done. An error
            that names another file, such as one that is read for it, stays as it is.
    """
    try:
        yield
    except Exception as error:
        refused = disk_error(error)
        if refused is None or _is_of_another_file(error, Path(path)):
            raise
        code, remedy = refused
        raise OSError(
            f"{os.fspath(path)} cannot be written: {os.strerror(code)}: {remedy}"
        ) from error


def _is_of_another_file(error: BaseException, path: Path) -> bool:
    name = getattr(error, "filename", None)
    if not isinstance(name, str):
        return False
    named, target = Path(name).absolute(), path.absolute()
    if named == target.parent or named in target.parents:
        return False
    if not named.is_relative_to(target.parent):
        return True
    # Beside the target stands a hidden folder in which it is made.
    first = named.relative_to(target.parent).parts[0]
    own = (f".{target.name}.", ".unfinished_export_")
    return first != target.name and not first.startswith(own)


def make_parent(path: str | os.PathLike) -> None:
    """Makes the folder that a file or folder is to be written into.

    Raises:
        OSError: it cannot be made; the sentence names `path`.
        ValueError: it is an address, such as gs://bucket/file, or begins with "~".
    """
    check_local("the output", path)
    path = Path(path)
    with write_errors(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError, FileNotFoundError) as error:
            raise OSError(
                f"{path} cannot be written: there can be no folder {path.parent} "
                f"({error.strerror}): choose another place"
            ) from None


def check_room(path: str | os.PathLike, size: int) -> None:
    """Checks that a file of `size` bytes fits, before a library that a full disk crashes.

    HDF5 ends the process with a segmentation fault when it cannot flush a file.

    Raises:
        OSError: it does not fit.
    """
    if not hasattr(os, "posix_fallocate"):  # macOS
        return
    with open(path, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)


def behind_links(path: str | os.PathLike) -> Path:
    """Returns what a link leads to, there or not: a rename would take the place of the link.

    Args:
        path: of a link, or of anything else, which is returned as it is.

    Raises:
        OSError: it is a link that leads back to itself.
    """
    if not os.path.islink(path):
        return Path(path)
    target = os.path.realpath(path)
    if os.path.islink(target):  # only a circle of links ends at one
        raise OSError(
            f"{os.fspath(path)} cannot be written: it is a link that leads back to itself: "
            "choose another place"
        )
    return Path(target)


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike) -> Iterator[Path]:
    """Yields a temporary path beside `path` and renames it over `path` on success.

    When the body raises, the temporary file is removed and what was at `path` stays as it was.

    Args:
        path: the file to write; its folder is created when missing. Of a link it is the file behind
            it, which may lie on another disk: the link stays one.

    Raises:
        OSError: the disk refused a write; the sentence names `path`, through links.
        ValueError: it is a folder, a pipe or a device, or no path of this machine.
    """
    check_output(path, name="the output")
    path = behind_links(path)
    with write_errors(path), _scratch_folder(path) as scratch:
        temporary = scratch / path.name
        yield temporary
        # Else a power cut may leave the new name with nothing, or a part, behind it.
        flush([temporary])
        os.replace(temporary, path)


def write_json(path: str | os.PathLike, content: Any, ensure_ascii: bool = True) -> None:
    """Writes indented JSON, whole or not at all.

    Args:
        path: the file to write; its folder is created when missing.
        content: what `json.dumps` takes.
        ensure_ascii: write other characters as escapes; names of files may hold what is no UTF-8.

    Raises:
        OSError: the disk refused a write; the sentence names `path`.
    """
    text = json.dumps(content, indent=2, ensure_ascii=ensure_ascii)
    with atomic_file(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def null_for_nan(content: Any) -> Any:
    """Returns measurements for a JSON file: NaN and infinities, which JSON lacks, as None.

    Args:
        content: numbers, and dictionaries and lists of them.
    """
    if isinstance(content, Mapping):
        return {name: null_for_nan(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [null_for_nan(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def nan_for_null(content: Any) -> Any:
    """Returns measurements of a JSON file with NaN for each None, see `null_for_nan`.

    Args:
        content: numbers, and dictionaries and lists of them.
    """
    if isinstance(content, dict):
        return {name: nan_for_null(value) for name, value in content.items()}
    if isinstance(content, list):
        return [nan_for_null(value) for value in content]
    return math.nan if content is None else content


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike) -> Iterator[Path]:
    """Yields an empty temporary folder that takes the place of `path` on success.

    When the body raises, the temporary folder is removed and what was at `path` stays as it was.

    Args:
        path: the folder to write; one that exists is replaced as a whole. Of a link it is the
            folder behind it, which may lie on another disk: the link stays one.

    Raises:
        OSError: the disk refused a write; the sentence names `path`, through links.
        ValueError: it is the working directory, one above it, or no path of this machine.
    """
    check_replaceable(path)
    path = behind_links(path)
    with write_errors(path), _scratch_folder(path) as scratch:
        temporary = scratch / path.name
        temporary.mkdir()
        yield temporary
        flush([*temporary.rglob("*"), temporary])
        if path.exists():
            os.replace(path, scratch / "replaced")
        os.replace(temporary, path)


@contextlib.contextmanager
def locked(folder: str | os.PathLike, busy: Exception) -> Iterator[None]:
    """Locks a folder while the body runs; the end of this process, too, ends the lock.

    Args:
        folder: the folder; it is created when missing.
        busy: what is raised if another process has locked it.
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    # The lock is on the folder itself: no file that a killed process would leave.
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise busy from None
        except OSError:
            pass  # a file system without locks
        yield
    finally:
        os.close(descriptor)


def sha256(path: str | os.PathLike) -> str:
    """Returns the SHA-256 of a file's content, in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def flush(paths: Iterable[str | os.PathLike]) -> None:
    """Returns when the contents of files and the entries of folders are on the disk.

    Several are waited for at once, which a disk does in little more time than one.

    Args:
        paths: files and folders.
    """
    with ThreadPoolExecutor(_FLUSHES_AT_ONCE) as pool:
        for _ in pool.map(_flush, paths):
            pass


def _flush(path: str | os.PathLike) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_FLUSH:
            raise
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _scratch_folder(path: Path) -> Iterator[Path]:
    make_parent(path)
    # Beside the target, because a rename is atomic only within one file system.
    scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
