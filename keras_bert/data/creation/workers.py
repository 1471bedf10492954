"""Works on chunks in this process or in several, and gives the results in order."""

import collections
import contextlib
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import tempfile
import threading
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from keras_bert.data.creation.chunk_processing import ChunkProcessor, ChunkResult, ChunkSettings
from keras_bert.data.creation.chunks import Chunk

# Chunks submitted and not yet yielded, for each worker, so that none is ever idle.
_CHUNKS_AHEAD = 2


def process_chunks(
    chunks: Iterable[Chunk], settings: ChunkSettings, folder: Path, num_workers: int
) -> Generator[tuple[Chunk, ChunkResult], None, None]:
    """Yields each chunk with its result, in the order of the chunks.

    Results come as files: a worker that is killed while it sends something large through a pipe
    leaves the other end waiting for ever.

    Args:
        chunks: the chunks.
        settings: what every chunk is worked on with.
        folder: where the files of records go, one for each chunk.
        num_workers: number of processes; 1 works in this one.

    Raises:
        OSError: a worker was killed.
    """
    if num_workers == 1:
        processor = ChunkProcessor(settings)
        for chunk in chunks:
            yield chunk, processor.process(chunk, folder)
        return
    waiting: collections.deque[tuple[Chunk, Future[ChunkResult]]] = collections.deque()
    # A file, because a worker that ends before it has read more than a pipe holds leaves this
    # process waiting for ever.
    given = tempfile.NamedTemporaryFile(prefix="keras_bert_", suffix=".pickle")
    pickle.dump(settings, given)
    given.flush()
    # "spawn", because a process that has loaded TensorFlow may hang when it is forked.
    pool = ProcessPoolExecutor(
        num_workers, multiprocessing.get_context("spawn"), _start_worker, (given.name,)
    )
    try:
        for chunk in chunks:
            with _interrupts_held_back():  # this may start a worker
                waiting.append((chunk, pool.submit(_process_in_worker, chunk, folder)))
            if len(waiting) > num_workers * _CHUNKS_AHEAD:
                chunk, future = waiting.popleft()
                yield chunk, future.result()
        while waiting:
            chunk, future = waiting.popleft()
            yield chunk, future.result()
    except BrokenProcessPool:
        raise OSError(
            f"a worker process ended without a word at chunk {chunk.group}-{chunk.number}: most "
            "likely memory ran out, then start again with fewer --num_workers, which goes on from "
            'here; or a script starts this without `if __name__ == "__main__":`'
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)
        given.close()


def check_starts_workers(num_workers: int) -> None:
    """Refuses a script that every worker runs anew, and that starts workers wherever it is run.

    Raises:
        RuntimeError: this is such a worker.
    """
    # What Python itself looks at; its own sentence would come after others that mislead.
    if num_workers > 1 and getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RuntimeError(
            f"num_workers is {num_workers}, and each worker runs this script from its top: put "
            'what it does under `if __name__ == "__main__":`'
        )


@contextlib.contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Holds Ctrl-C back from this thread, and from the processes it starts until they let it in.

    A worker that is interrupted while it still starts would print a traceback.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_worker: Any = None  # the ChunkProcessor of a worker process, or why there is none


def _start_worker(settings_file: str) -> None:
    """Makes the processor of a worker; what goes wrong is told when there is work for it.

    An error that leaves this function would show as a broken pool, without its reason.
    """
    global _worker
    # Ctrl-C reaches the workers, too: they end at once, and the parent tells.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        _worker = ChunkProcessor(pickle.loads(Path(settings_file).read_bytes()))
    except Exception as error:
        _worker = error


def _end_with_parent() -> None:
    """Ends a worker whose parent was killed: it would wait for work for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(1)


def _process_in_worker(chunk: Chunk, folder: Path) -> ChunkResult:
    if isinstance(_worker, Exception):
        raise _worker
    return _worker.process(chunk, folder)
