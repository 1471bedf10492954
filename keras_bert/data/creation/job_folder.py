"""The folder of an unfinished job: what is complete stays when the job is killed.

Shards grow in `.unfinished` by one unit after the other, in the order of the corpus. A small file
says how far they are complete; it is replaced as a whole after each unit. Started again, a job cuts
the shards back to what this file says and goes on behind it. When files of the corpus have changed,
it does so only if the text of the complete units is the same. Files get their place when all are
complete, the manifest last.
"""

import dataclasses
import errno
import fcntl
import itertools
import json
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from keras_bert.data.creation.unit_pool import unit_path
from keras_bert.data.creation.units import Unit, UnitCounts, UnitResult
from keras_bert.data.records import manifest as manifest_module
from keras_bert.data.records.manifest import Shard, shard_name
from keras_bert.storage import files

FOLDER_NAME = ".unfinished"
_JOB = "job.json"
_STATE = "state.json"
# What the records follow from through the text of the units alone.
_MAY_CHANGE = {"files of the corpus", "errors"}
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclasses.dataclass(frozen=True)
class JobState:
    """How far a job is.

    Attributes:
        units: units that are complete.
        group: group of the last of them.
        number: its number in the group; -1 before the first unit.
        position: bytes of the corpus that were read for them.
        documents: documents of these units.
        counts: sums over these units.
        shard_examples: records of each shard.
        shard_bytes: bytes of each shard.
        digest: of the last unit, see `Unit.digest`.
    """

    units: int
    group: int
    number: int
    position: int
    documents: int
    counts: UnitCounts
    shard_examples: tuple[int, ...]
    shard_bytes: tuple[int, ...]
    digest: str

    @classmethod
    def start(cls, num_shards: int) -> Self:
        """Returns the state before the first unit."""
        nothing = (0,) * num_shards
        return cls(0, 0, -1, 0, 0, UnitCounts(), nothing, nothing, "")

    def after(self, unit: Unit, result: UnitResult) -> "JobState":
        """Returns the state after one more unit."""
        return JobState(
            self.units + 1,
            unit.group,
            unit.number,
            unit.end_position,
            self.documents + unit.new_documents,
            self.counts.plus(result.counts),
            _added(self.shard_examples, result.shard_examples),
            _added(self.shard_bytes, result.shard_bytes),
            unit.digest(self.digest),
        )

    def is_before(self, unit: Unit) -> bool:
        """Whether a unit is still to be done."""
        return (unit.group, unit.number) > (self.group, self.number)


class JobFolder:
    """The files of records while they grow. One process at a time may hold it.

    Used as a context: after an error the job can go on where it was, if it has made anything.

    Args:
        output: the folder of the records.
        job: all that the bytes of the records follow from, ready for JSON. A job that is told
            something else is another one.
        num_shards: how many files.

    Attributes:
        folder: where units are written before they are appended.
        state: how far the job is.
        changed: what the job was told otherwise than before and may be, as long as the text of the
            complete units is the same: see `check_text`.

    Raises:
        FileExistsError: another job is unfinished or under way there.
        OSError: the disk is full; what is complete stays.
    """

    state: JobState

    def __init__(self, output: Path, job: Mapping[str, Any], num_shards: int):
        self._output = output
        self._job = json.loads(json.dumps(job))
        self._names = [shard_name(index, num_shards) for index in range(num_shards)]
        self.folder = output / FOLDER_NAME

    def __enter__(self) -> Self:
        self._output.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(self._output)
        try:
            self._begin()
        except BaseException:
            os.close(self._lock)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        if kind is None or not self.state.counts.examples and issubclass(kind, ValueError):
            shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)
        if isinstance(error, ValueError) and self.state.counts.examples:
            raise ValueError(
                f"{error}; {self.state.units} complete unit(s) are kept: then start again, which "
                "goes on there"
            ) from None
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            raise OSError(
                f"no room left for {self._output} after {self.state.units} unit(s) "
                f"({error.strerror}): make room and start the same job again, which goes on there"
            ) from None

    def append(self, unit: Unit, result: UnitResult) -> None:
        """Moves the records of a unit from its file to the ends of the shards."""
        path = unit_path(self.folder, unit)
        with open(path, "rb") as records:
            for name, size in zip(self._names, result.shard_bytes, strict=True):
                if size:
                    with open(self.folder / name, "ab") as shard:
                        shard.write(records.read(size))
        # On the disk before the state says so: a power cut must not leave less than it tells.
        sizes = zip(self._names, result.shard_bytes, strict=True)
        files.flush([self.folder / name for name, size in sizes if size])
        self.state = self.state.after(unit, result)
        self._write_state()
        path.unlink()

    def check_text(self, divided: Iterable[Unit]) -> None:
        """Makes sure that what has changed did not change the text of the complete units.

        Args:
            divided: the units of the corpus as it is now, from the first on.

        Raises:
            FileExistsError: it did, so that this is another job.
        """
        digest = ""
        for unit in itertools.islice(divided, self.state.units):
            digest = unit.digest(digest)
        if digest != self.state.digest:
            raise self._told_otherwise(self.changed)
        self._write_job()

    def shards(self) -> tuple[Shard, ...]:
        """Returns what the shards hold."""
        rows = zip(self._names, self.state.shard_examples, self.state.shard_bytes, strict=True)
        return tuple(Shard(*row) for row in rows)

    def finish(self, others: Sequence[str]) -> None:
        """Moves all files to their place, the manifest when the others are on the disk.

        Args:
            others: names of further files that were written to `folder`.
        """
        named = [*self._names, *others]
        files.flush([self.folder / name for name in named])
        for name in named:
            os.replace(self.folder / name, self._output / name)
        files.flush([self._output])
        os.replace(
            self.folder / manifest_module.FILE_NAME, self._output / manifest_module.FILE_NAME
        )
        files.flush([self._output])

    def _begin(self) -> None:
        if not self._can_go_on():
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir()
            self.state = JobState.start(len(self._names))
            self._write_job()
            self._write_state()
        self.state = self._read_state()
        self.changed = self._find_changes()
        self._remove_incomplete()
        for name, size in zip(self._names, self.state.shard_bytes, strict=True):
            self._cut_back(name, size)

    def _can_go_on(self) -> bool:
        """Whether there are notes of a job; a power cut may have emptied them."""
        if not (self.folder / _STATE).is_file():
            return False
        for name, read in ((_JOB, self._read_job), (_STATE, self._read_state)):
            try:
                read()
            except (ValueError, TypeError, KeyError):
                print(
                    f"{self.folder / name} is damaged or of another version: beginning anew",
                    file=sys.stderr,
                )
                return False
        return True

    def _read_job(self) -> dict[str, Any]:
        return json.loads((self.folder / _JOB).read_text(encoding="utf-8"))

    def _find_changes(self) -> list[str]:
        before = self._read_job()
        changed = {
            name: f"{name}: {before.get(name)} then, {self._job.get(name)} now"
            for name in sorted(before.keys() | self._job.keys())
            if before.get(name) != self._job.get(name)
        }
        if changed.keys() - _MAY_CHANGE:
            raise self._told_otherwise(list(changed.values()))
        return list(changed.values())

    def _told_otherwise(self, changes: list[str]) -> FileExistsError:
        return FileExistsError(
            f"{self._output} holds an unfinished job that was told something else "
            f"({'; '.join(changes)}): start it as it was to finish it, or remove "
            f"{self.folder} to begin anew"
        )

    def _read_state(self) -> JobState:
        values = json.loads((self.folder / _STATE).read_text(encoding="utf-8"))
        values["counts"] = UnitCounts(**values["counts"])
        for name in ("shard_examples", "shard_bytes"):
            values[name] = tuple(values[name])
        return JobState(**values)

    def _write_job(self) -> None:
        with files.atomic_file(self.folder / _JOB) as temporary:
            temporary.write_text(json.dumps(self._job), encoding="utf-8")

    def _write_state(self) -> None:
        values = {
            field.name: getattr(self.state, field.name) for field in dataclasses.fields(JobState)
        }
        values["counts"] = self.state.counts._asdict()
        with files.atomic_file(self.folder / _STATE) as temporary:
            temporary.write_text(json.dumps(values), encoding="utf-8")

    def _remove_incomplete(self) -> None:
        kept = {_JOB, _STATE, *self._names}
        for path in self.folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name not in kept:
                path.unlink()

    def _cut_back(self, name: str, size: int) -> None:
        path = self.folder / name
        if not path.exists() and (self._output / name).exists() and size:
            os.replace(self._output / name, path)  # the job was killed while it moved its files
        path.touch()
        if path.stat().st_size < size:
            raise FileExistsError(
                f"{path} has {path.stat().st_size} bytes, but {size} were written: it was changed; "
                f"remove {self.folder} to begin anew"
            )
        os.truncate(path, size)


def _lock(folder: Path) -> int:
    """Locks a folder for as long as this process lives or holds the descriptor open."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise FileExistsError(
            f"another process is writing records into {folder}: wait for it, or choose another "
            "--output_dir"
        ) from None
    except OSError:
        pass  # a file system without locks
    return descriptor


def _added(sums: Sequence[int], more: Sequence[int]) -> tuple[int, ...]:
    return tuple(one + other for one, other in zip(sums, more, strict=True))
