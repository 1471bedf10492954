"""Folders in a bucket, such as gs://bucket/runs/base: copied to and from the local disk.

Checkpoints and nothing else are written to their place directly, by TensorFlow. Everything else is
small or read from end to end, and the rest of the package knows local files only.
"""

import functools
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from keras_bert.storage.paths import gfile, is_remote


@functools.cache
def local_copy(path: str) -> str:
    """Returns a local copy of a remote file or folder, and any other path as it is.

    The copy is made once a process.

    Raises:
        FileNotFoundError: the path is remote and nothing is there.
    """
    if not is_remote(path):
        return path
    path = path.rstrip("/")
    target = _new_folder() / os.path.basename(path)
    if gfile().isdir(path):
        _copy_folder(path, target)
    elif gfile().exists(path):
        gfile().copy(path, str(target))
    else:
        raise FileNotFoundError(f"{path} does not exist: give a file or folder that does")
    return str(target)


def local_files(folder: str, names: Iterable[str]) -> str:
    """Returns a local folder with those of some files that a remote folder holds.

    Any other folder comes back as it is.
    """
    if not is_remote(folder):
        return folder
    target = _new_folder()
    for name in names:
        if gfile().exists(f"{folder}/{name}"):
            gfile().copy(f"{folder}/{name}", str(target / name))
    return str(target)


# What a run reads again when it goes on, and a report of it.
RUN_FILES = ("run.json", "metrics.jsonl", "starts.jsonl")


class RunLocation:
    """Where a run's files are written, and where they belong.

    Args:
        model_dir: the run folder, local or remote.

    Attributes:
        local: the folder to write to; of a remote run a temporary one that starts with what the
            run has left so far.
        checkpoints: where checkpoints go, without a detour.
    """

    # What becomes ever more and is not written again: gone from the local disk when it is uploaded.
    _MOVED = "kept_presets"

    def __init__(self, model_dir: str):
        self._remote = model_dir.rstrip("/") if is_remote(model_dir) else None
        self.local = Path(model_dir)
        if self._remote:
            self.local = _new_folder()
            for name in RUN_FILES:
                if gfile().exists(f"{self._remote}/{name}"):
                    gfile().copy(f"{self._remote}/{name}", str(self.local / name))
        self.checkpoints = f"{self._remote or model_dir}/checkpoints"
        self._uploaded: dict[Path, tuple[int, int]] = {}

    def upload(self) -> None:
        """Copies what has changed to where it belongs; does nothing for a local run."""
        if not self._remote:
            return
        for path in sorted(self.local.rglob("*")):
            state = path.stat().st_mtime_ns, path.stat().st_size
            if path.is_file() and self._uploaded.get(path) != state:
                target = f"{self._remote}/{path.relative_to(self.local).as_posix()}"
                gfile().makedirs(os.path.dirname(target))
                # Under another name first, so that a reader meets whole files only.
                gfile().copy(str(path), f"{target}.partial", overwrite=True)
                gfile().rename(f"{target}.partial", target, overwrite=True)
                self._uploaded[path] = state
                if path.relative_to(self.local).parts[0] == self._MOVED:
                    path.unlink()


@functools.cache
def run_location(model_dir: str) -> RunLocation:
    """Returns the location of a run, the same one for all callers in a process."""
    return RunLocation(model_dir)


@functools.cache
def _scratch() -> tempfile.TemporaryDirectory:
    # Removed when the process ends: records are large and a run may be started many times.
    return tempfile.TemporaryDirectory(prefix="keras_bert.")


def _new_folder() -> Path:
    return Path(tempfile.mkdtemp(dir=_scratch().name))


def _copy_folder(source: str, target: Path) -> None:
    target.mkdir()
    for name in gfile().listdir(source):
        name = name.rstrip("/")
        if gfile().isdir(f"{source}/{name}"):
            _copy_folder(f"{source}/{name}", target / name)
        else:
            gfile().copy(f"{source}/{name}", str(target / name))
