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
from collections.abc import Mapping, Sequence
from pathlib import Path

_SECONDS = 900
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tensorflow", "tensorflow_text", "keras"])


def run(
    arguments: Sequence[str | Path],
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess:
    """Does what `python ARGUMENTS` does in a folder, with more variables in the environment.

    `python FILE ...` and `python -c CODE ...` are known. What TensorFlow and Keras read of the
    environment when they are loaded is that of the fork server, whatever `environment` says.
    """
    with tempfile.TemporaryDirectory() as logs:
        paths = [os.path.join(logs, name) for name in ("out", "err")]
        process = _CONTEXT.Process(
            target=_work,
            args=(
                str(folder or Path.cwd()),
                paths,
                [*map(str, arguments)],
                dict(environment or {}),
            ),
        )
        for path in paths:
            Path(path).touch()
        process.start()
        try:
            process.join(_SECONDS)
        finally:  # also where the test's own time is over
            process.kill()
            process.join()
        out, err = (Path(path).read_text(encoding="utf-8", errors="replace") for path in paths)
    return subprocess.CompletedProcess(list(arguments), process.exitcode, out, err)


def _work(
    folder: str, logs: Sequence[str], arguments: list[str], environment: dict[str, str]
) -> None:
    os.chdir(folder)
    os.environ.update(environment)
    for stream, log in zip((1, 2), logs, strict=True):
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    if arguments[0] == "-c":
        sys.path.insert(0, "")
        sys.argv = ["-c", *arguments[2:]]
        exec(compile(arguments[1], "<a document>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = arguments
        sys.path.insert(0, os.path.dirname(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")
