"""Runs tools and Python code in processes that have TensorFlow loaded when they start.

Loading it takes longer than most commands at this size. Python's fork server loads it once and
runs nothing of it; each command is a fork of that, with its own flags, folder and devices.
"""

import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path

_SECONDS = 900
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tensorflow", "tensorflow_text", "keras"])


class Started:
    """A process of `start`, with those methods of subprocess.Popen that tests use."""

    def __init__(
        self,
        arguments: Sequence[str | Path],
        folder: Path | None,
        environment: Mapping[str, str] | None,
        joined: bool,
    ):
        self._logs = tempfile.TemporaryDirectory()
        names = ("out", "out") if joined else ("out", "err")
        self._paths = [Path(self._logs.name) / name for name in names]
        for path in self._paths:
            path.touch()
        self._process = _CONTEXT.Process(
            target=_work,
            args=(
                str(folder or Path.cwd()),
                [*map(str, self._paths)],
                [*map(str, arguments)],
                # A fork runs no exit handlers: what AutoGraph would remove then goes with the logs.
                dict(os.environ) | {"TMPDIR": self._logs.name} | dict(environment or {}),
            ),
        )
        self._process.start()
        # What a failed test leaves running would keep pytest from ending.
        weakref.finalize(self, self._process.kill)

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("a tool", timeout or 0)
        return self._process.exitcode

    def printed(self) -> tuple[str, str]:
        """Returns what was written to the two streams so far."""
        out, err = (path.read_text(encoding="utf-8", errors="replace") for path in self._paths)
        return out, err

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Waits and returns what was written to the two streams."""
        self.wait(timeout)
        return self.printed()


def start(
    arguments: Sequence[str | Path],
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    joined: bool = False,
) -> Started:
    """Begins what `python ARGUMENTS` does in a folder, with more variables in the environment.

    `python FILE ...` and `python -c CODE ...` are known. What TensorFlow and Keras read of the
    environment when they are loaded is that of the fork server, whatever `environment` says. Both
    streams are one text where they are joined.
    """
    return Started(arguments, folder, environment, joined)


def run(
    arguments: Sequence[str | Path],
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess:
    """Does what `start` begins, to its end."""
    process = start(arguments, folder, environment)
    try:
        out, err = process.communicate(_SECONDS)
    finally:  # also where the test's own time is over
        process.kill()
    return subprocess.CompletedProcess(list(arguments), process.wait(), out, err)


def _work(
    folder: str, logs: Sequence[str], arguments: list[str], environment: dict[str, str]
) -> None:
    os.chdir(folder)
    os.environ.clear()  # of the fork server: that of the first start
    os.environ.update(environment)
    for stream, log in zip((1, 2), logs, strict=True):
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    if arguments[0] == "-c":
        sys.path.insert(0, "")
        sys.argv = ["-c", *arguments[2:]]
        exec(compile(arguments[1], "<a document>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = arguments
        sys.path.insert(0, os.path.dirname(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")
