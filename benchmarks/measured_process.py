"""Runs a command and measures what it took."""

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class Cost(NamedTuple):
    """What a command took.

    Attributes:
        seconds: on the clock.
        cpu_seconds: of all its processes that have ended.
        peak_bytes: resident memory of its processes together at the worst moment, looked at every
            20 ms; shared pages count in each of them.
    """

    seconds: float
    cpu_seconds: float
    peak_bytes: int


def run_measured(command: Sequence[str | Path], **environment: str) -> Cost:
    """Runs a command to its end.

    Args:
        command: program and arguments.
        **environment: variables to set.

    Raises:
        RuntimeError: it failed; holds what it printed.
    """
    before, start = os.times(), time.perf_counter()
    process = subprocess.Popen(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | environment,
        # A group, not a session: that would not inherit the priority of this one.
        process_group=0,
    )
    output, peak = b"", 0
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    while process.poll() is None:
        output += process.stdout.read() or b""
        peak = max(peak, _resident_bytes(process.pid))
        time.sleep(0.02)
    seconds, after = time.perf_counter() - start, os.times()
    output += process.stdout.read() or b""
    if process.returncode:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}:\n{output.decode()}")
    cpu = after.children_user + after.children_system
    cpu -= before.children_user + before.children_system
    return Cost(seconds, cpu, peak)


def _resident_bytes(group: int) -> int:
    """Returns the resident memory of all processes of a group."""
    pages = 0
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue  # it has ended
            if int(fields[2]) == group:
                pages += int(fields[21])
    return pages * os.sysconf("SC_PAGE_SIZE")
