"""Runs tools and Python blocks in processes that have TensorFlow loaded when they start.

Loading it takes longer than most commands at this size. Python's fork server loads it once and
runs nothing of it; each command is a fork of that, with its own flags, folder and devices.
"""

import multiprocessing
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

_SECONDS = 900


def start_server() -> multiprocessing.context.ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tensorflow", "tensorflow_text", "keras"])
    return context


def run(
    context: multiprocessing.context.ForkServerContext, folder: Path, arguments: Sequence[str]
) -> tuple[int, str]:
    """Does what `python ARGUMENTS` does in a folder; returns the exit status and the output."""
    log = folder / ".output"
    process = context.Process(target=_work, args=(str(folder), str(log), list(arguments)))
    process.start()
    process.join(_SECONDS)
    if process.exitcode is None:
        process.kill()
        process.join()
    return process.exitcode, log.read_text(encoding="utf-8", errors="replace")


def _work(folder: str, log: str, arguments: list[str]) -> None:
    os.chdir(folder)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(output, stream)
    if arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        exec(compile(arguments[1], "<a document>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")
