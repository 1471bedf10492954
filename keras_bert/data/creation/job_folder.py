"""The folder of an unfinished job: what is complete stays when the job is killed.

Shards grow in `.unfinished` by one chunk after the other, in the order of the corpus. A small file
says how far they are complete; it is replaced as a whole after each chunk. Started again, a job
cuts the shards back to what this file says and goes on behind it. When files of the corpus have
changed, it does so only if the text of the complete chunks is the same. Files get their place when
all are complete, the manifest last.

Chunks are not kept as files of their own and joined at the end: that would take twice the room on
the disk, and fill it when all the work is done.
"""

import contextlib
import dataclasses
import errno
import fcntl
import itertools
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_bert.data.creation.chunk_processing import ChunkCounts, ChunkResult
from keras_bert.data.creation.chunks import Chunk
from keras_bert.data.records import manifest as manifest_module
from keras_bert.data.records.manifest import Shard, shard_name
from keras_bert.storage import files

FOLDER_NAME = ".unfinished"
_STATE = "state.json"
# What the records follow from through the text of the chunks alone.
_MAY_CHANGE = {"files of the corpus", "errors"}
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclasses.dataclass(frozen=True)
class JobState:
    """How far a job is: what state.json says.

    Attributes:
        told: all that the bytes of the records follow from, as JSON gives it back.
        shards: what the files hold.
        chunks: number of chunks that are complete.
        group: group of the last of them.
        number: its number in the group; -1 before the first chunk.
        position: bytes of the corpus that were read for them.
        documents: documents of these chunks.
        counts: sums over these chunks.
        digest: of the last chunk, see `Chunk.digest`.
    """

    told: dict[str, Any]
    shards: tuple[Shard, ...]
    chunks: int = 0
    group: int = 0
    number: int = -1
    position: int = 0
    documents: int = 0
    counts: ChunkCounts = ChunkCounts()
    digest: str = ""

    def after(self, chunk: Chunk, result: ChunkResult) -> "JobState":
        """Returns the state after one more chunk."""
        grown = zip(self.shards, result.shard_examples, result.shard_bytes, strict=True)
        return JobState(
            self.told,
            tuple(
                Shard(shard.name, shard.examples + more, shard.bytes + size)
                for shard, more, size in grown
            ),
            self.chunks + 1,
            chunk.group,
            chunk.number,
            chunk.end_position,
            self.documents + chunk.new_documents,
            self.counts.plus(result.counts),
            chunk.digest(self.digest),
        )


@contextlib.contextmanager
def open_job(output: Path, told: Mapping[str, Any], num_shards: int) -> Iterator["JobFolder"]:
    """Yields the folder of a job, begun or to go on. One process at a time may hold it.

    After an error the job can go on where it was, if it has made anything.

    Args:
        output: the folder of the records.
        told: all that the bytes of the records follow from, ready for JSON. A job that is told
            something else is another one.
        num_shards: how many files.

    Raises:
        FileExistsError: another job is unfinished or under way there.
        OSError: the disk is full; what is complete stays.
    """
    output.mkdir(parents=True, exist_ok=True)
    with _locked(output):
        job = JobFolder(output, json.loads(json.dumps(told)), num_shards)
        try:
            yield job
        except ValueError as error:
            if not job.state.counts.examples:
                shutil.rmtree(job.folder, ignore_errors=True)
                raise
            raise ValueError(
                f"{error}; {job.state.chunks} complete chunk(s) are kept: then start again, which "
                "goes on there"
            ) from None
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            raise OSError(
                f"no room left for {output} after {job.state.chunks} chunk(s) ({error.strerror}): "
                "make room and start the same job again, which goes on there"
            ) from None
        shutil.rmtree(job.folder, ignore_errors=True)


class JobFolder:
    """The files of records while they grow; see `open_job`, which makes it.

    Attributes:
        folder: where chunks are written before they are appended.
        state: how far the job is.
        changed: what the job was told otherwise than before and may be, as long as the text of the
            complete chunks is the same: see `check_text`.
    """

    def __init__(self, output: Path, told: dict[str, Any], num_shards: int):
        self._output = output
        self._told = told
        self.folder = output / FOLDER_NAME
        state = self._read_state()
        if state is None:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir()
            names = (shard_name(index, num_shards) for index in range(num_shards))
            state = JobState(told, tuple(Shard(name, 0, 0) for name in names))
            self._write_state(state)
        self.state = state
        self.changed = self._find_changes()
        self._remove_incomplete()

    def append(self, chunk: Chunk, result: ChunkResult) -> None:
        """Moves the records of a chunk from its file to the ends of the shards."""
        grown = []
        with open(result.path, "rb") as records:
            for shard, size in zip(self.state.shards, result.shard_bytes, strict=True):
                if size:
                    grown.append(self.folder / shard.name)
                    with open(grown[-1], "ab") as file:
                        file.write(records.read(size))
        # On the disk before the state says so: a power cut must not leave less than it tells.
        files.flush(grown)
        self._write_state(self.state.after(chunk, result))
        os.unlink(result.path)

    def check_text(self, divided: Iterable[Chunk]) -> None:
        """Makes sure that what has changed did not change the text of the complete chunks.

        Args:
            divided: the chunks of the corpus as it is now, from the first on.

        Raises:
            FileExistsError: it did, so that this is another job.
        """
        digest = ""
        for chunk in itertools.islice(divided, self.state.chunks):
            digest = chunk.digest(digest)
        if digest != self.state.digest:
            raise self._told_otherwise(self.changed)
        self._write_state(dataclasses.replace(self.state, told=self._told))

    def finish(self, others: Sequence[str]) -> None:
        """Moves all files to their place, the manifest when the others are on the disk.

        Args:
            others: names of further files that were written to `folder`.
        """
        names = [*(shard.name for shard in self.state.shards), *others]
        files.flush([self.folder / name for name in names])
        for moved in (names, [manifest_module.FILE_NAME]):
            for name in moved:
                os.replace(self.folder / name, self._output / name)
            files.flush([self._output])

    def _read_state(self) -> JobState | None:
        """Returns how far the job is; None if there is none. A power cut may have emptied it."""
        path = self.folder / _STATE
        if not path.is_file():
            return None
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            values["counts"] = ChunkCounts(**values["counts"])
            values["shards"] = tuple(Shard(**shard) for shard in values["shards"])
            return JobState(**values)
        except (ValueError, TypeError, KeyError):
            print(f"{path} is damaged or of another version: beginning anew", file=sys.stderr)
            return None

    def _write_state(self, state: JobState) -> None:
        values = dataclasses.asdict(state) | {"counts": state.counts._asdict()}
        with files.atomic_file(self.folder / _STATE) as temporary:
            temporary.write_text(json.dumps(values), encoding="utf-8")
        self.state = state

    def _find_changes(self) -> list[str]:
        before, now = self.state.told, self._told
        changed = {
            name: f"{name}: {before.get(name)} then, {now.get(name)} now"
            for name in sorted(before.keys() | now.keys())
            if before.get(name) != now.get(name)
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

    def _remove_incomplete(self) -> None:
        """Leaves what the state says and no more."""
        kept = {_STATE, *(shard.name for shard in self.state.shards)}
        for path in self.folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name not in kept:
                path.unlink()
        for shard in self.state.shards:
            path = self.folder / shard.name
            if not path.exists() and (self._output / shard.name).exists() and shard.bytes:
                os.replace(self._output / shard.name, path)  # killed while it moved its files
            path.touch()
            size = path.stat().st_size
            if size < shard.bytes:
                raise FileExistsError(
                    f"{path} has {size} bytes, but {shard.bytes} were written: it was changed; "
                    f"remove {self.folder} to begin anew"
                )
            os.truncate(path, shard.bytes)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Locks a folder; the lock ends with this process, too."""
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
    try:
        yield
    finally:
        os.close(descriptor)
