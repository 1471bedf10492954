"""Works on units in this process or in several, and gives the results in order."""

import collections
import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from keras_bert.data.creation.unit_processing import UnitProcessor
from keras_bert.data.creation.units import Unit, UnitResult, UnitSettings

# Units that wait for a worker, so that none is ever idle, for each worker.
_UNITS_AHEAD = 2


def process_units(
    divided: Iterable[Unit], settings: UnitSettings, folder: Path, num_workers: int
) -> Generator[tuple[Unit, UnitResult], None, None]:
    """Yields each unit with its result, in the order of the units.

    Args:
        divided: the units.
        settings: what every unit is worked on with.
        folder: where the files of records go, see `unit_path`.
        num_workers: number of processes; 1 works in this one.

    Raises:
        OSError: a worker was killed.
    """
    process = _process_here if num_workers == 1 else _process_in_pool
    return process(divided, settings, folder, num_workers)


def unit_path(folder: Path, unit: Unit) -> Path:
    """Returns where the records of a unit are written."""
    return folder / f"unit-{unit.group}-{unit.number}"


def _process_here(
    divided: Iterable[Unit], settings: UnitSettings, folder: Path, _: int
) -> Generator[tuple[Unit, UnitResult], None, None]:
    processor = UnitProcessor(settings)
    for unit in divided:
        yield unit, processor.process(unit, unit_path(folder, unit))


def _process_in_pool(
    divided: Iterable[Unit], settings: UnitSettings, folder: Path, num_workers: int
) -> Generator[tuple[Unit, UnitResult], None, None]:
    """Yields the results in the order of the units."""
    waiting: collections.deque[tuple[Unit, Future]] = collections.deque()
    # "spawn", because a process that has loaded TensorFlow may hang when it is forked.
    pool = ProcessPoolExecutor(
        num_workers, multiprocessing.get_context("spawn"), _start_worker, (settings,)
    )
    with contextlib.ExitStack() as stack:
        stack.callback(pool.shutdown, cancel_futures=True)
        for unit in divided:
            waiting.append((unit, _submitted(pool, unit, unit_path(folder, unit))))
            if len(waiting) > num_workers * _UNITS_AHEAD:
                yield _finished(*waiting.popleft())
        while waiting:
            yield _finished(*waiting.popleft())


def _submitted(pool: ProcessPoolExecutor, unit: Unit, path: Path) -> Future:
    try:
        with _interrupts_held_back():  # this may start a worker
            return pool.submit(_process_in_worker, unit, path)
    except BrokenProcessPool:
        raise _worker_lost(unit) from None


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


def _finished(unit: Unit, future: Future) -> tuple[Unit, UnitResult]:
    try:
        return unit, future.result()
    except BrokenProcessPool:
        raise _worker_lost(unit) from None


def _worker_lost(unit: Unit) -> OSError:
    return OSError(
        f"a worker process ended without a word at unit {unit.group}-{unit.number}; most "
        "likely memory ran out: start again with fewer --num_workers, which goes on from here"
    )


def _start_worker(settings: UnitSettings) -> None:
    """Makes the processor of a worker; what goes wrong is told when there is work for it.

    An error that leaves this function would show as a broken pool, without its reason.
    """
    global _worker
    # Ctrl-C reaches the workers, too: they end at once, and the parent tells.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        _worker = UnitProcessor(settings)
    except Exception as error:
        _worker = error


def _end_with_parent() -> None:
    """Ends a worker whose parent was killed: it would wait for work for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(1)


_worker: Any = None  # the UnitProcessor of a worker process, or why there is none


def _process_in_worker(unit: Unit, path: Path) -> UnitResult:
    if isinstance(_worker, Exception):
        raise _worker
    return _worker.process(unit, path)
