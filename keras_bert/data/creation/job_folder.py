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
import errno
import itertools
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

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


class JobState(NamedTuple):
    """How far a job is: what state.json says.

    Attributes:
        told: all that the bytes of the records follow from, as JSON gives it back.
        shards: what the files hold.
        counts: sums over the chunks that are complete.
        last: the last of them, without its documents.
        digest: of the last, see `Chunk.digest`.
    """

    told: dict[str, Any]
    shards: tuple[Shard, ...]
    counts: ChunkCounts = ChunkCounts()
    last: Chunk = Chunk(0, -1, [], 0, 0)
    digest: str = ""


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
    busy = FileExistsError(
        f"another process is writing records into {output}: wait for it, or choose another "
        "--output_dir"
    )
    with files.locked(output, busy):
        job = JobFolder(output, json.loads(json.dumps(told)), num_shards)
        try:
            yield job
        except ValueError as error:
            if not job.state.counts.examples:
                shutil.rmtree(job.folder, ignore_errors=True)
                raise
            raise ValueError(
                f"{error}; {job.state.counts.chunks} complete chunk(s) are kept: then start again, "
                "which goes on there"
            ) from None
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            raise OSError(
                f"no room left for {output} after {job.state.counts.chunks} chunk(s) "
                f"({error.strerror}): make room and start the same job again, which goes on there"
            ) from None
        shutil.rmtree(job.folder, ignore_errors=True)


class JobFolder:
    """The files of records while they grow; see `open_job`, which makes it.

    Attributes:
        folder: where chunks are written before they are appended.
        state: how far the job is.
        changes: what the job was told otherwise than before and may be, as long as the text of the
            complete chunks is the same: see `check_text`. "" for nothing.
    """

    def __init__(self, output: Path, told: dict[str, Any], num_shards: int):
        self._output = output
        self._told = told
        self.folder = output / FOLDER_NAME
        state = self._read_state()
        if state is None:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir()
            empty = (Shard(shard_name(index, num_shards), 0, 0) for index in range(num_shards))
            state = JobState(told, tuple(empty))
            self._write_state(state)
        self.state = state
        before = state.told
        names = sorted(before.keys() | told.keys())
        changed = [name for name in names if before.get(name) != told.get(name)]
        self.changes = "; ".join(
            f"{name}: {before.get(name)} then, {told.get(name)} now" for name in changed
        )
        if set(changed) - _MAY_CHANGE:
            raise self._told_otherwise()
        # The folder holds what the state says and no more.
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

    def append(self, chunk: Chunk, result: ChunkResult) -> None:
        """Moves the records of a chunk from its file to the ends of the shards."""
        grown = []
        with open(result.path, "rb") as records:
            for part in filter(lambda part: part.bytes, result.shards):
                grown.append(self.folder / part.name)
                with open(grown[-1], "ab") as shard:
                    shard.write(records.read(part.bytes))
        # On the disk before the state says so: a power cut must not leave less than it tells.
        files.flush(grown)
        shards = tuple(
            Shard(shard.name, shard.examples + part.examples, shard.bytes + part.bytes)
            for shard, part in zip(self.state.shards, result.shards, strict=True)
        )
        state = self.state._replace(
            shards=shards,
            counts=self.state.counts.plus(result.counts),
            last=chunk._replace(documents=[]),
            digest=chunk.digest(self.state.digest),
        )
        self._write_state(state)
        os.unlink(result.path)

    def check_text(self, divided: Iterable[Chunk]) -> None:
        """Makes sure that what has changed did not change the text of the complete chunks.

        Args:
            divided: the chunks of the corpus as it is now, from the first on.

        Raises:
            FileExistsError: it did, so that this is another job.
        """
        digest = ""
        for chunk in itertools.islice(divided, self.state.counts.chunks):
            digest = chunk.digest(digest)
        if digest != self.state.digest:
            raise self._told_otherwise()
        self._write_state(self.state._replace(told=self._told))

    def finish(self, tokenizer_files: Iterable[str]) -> None:
        """Moves all files of the folder to their place, the manifest when the others are there.

        Args:
            tokenizer_files: names of those that the tokenizer consists of.
        """
        last = manifest_module.FILE_NAME
        names = [shard.name for shard in self.state.shards]
        names += tokenizer_files
        files.flush([self.folder / name for name in names])
        for moved in (names, [last]):
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
            values["shards"] = tuple(Shard(**shard) for shard in values["shards"])
            values["counts"] = ChunkCounts(**values["counts"])
            values["last"] = Chunk(**values["last"])
            return JobState(**values)
        except (ValueError, TypeError, KeyError):
            print(f"{path} is damaged or of another version: beginning anew", file=sys.stderr)
            return None

    def _write_state(self, state: JobState) -> None:
        values = state._asdict() | {
            "shards": [vars(shard) for shard in state.shards],
            "counts": state.counts._asdict(),
            "last": state.last._asdict(),
        }
        with files.atomic_file(self.folder / _STATE) as temporary:
            temporary.write_text(json.dumps(values), encoding="utf-8")
        self.state = state

    def _told_otherwise(self) -> FileExistsError:
        return FileExistsError(
            f"{self._output} holds an unfinished job that was told something else "
            f"({self.changes}): start it as it was to finish it, or remove {self.folder} to begin "
            "anew"
        )
