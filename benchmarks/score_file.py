"""Scores of finished runs in a file of JSON lines, so that a table grows over days and machines.

A line has what a run is known by, what it reached, and the processor that it ran on:

    {"recipe": "bert", "seed": 0, "steps": 6000, "scores": {"pairs": 0.61}, "processor": "AMD EPYC"}

Two halves of a benchmark may add to one file at the same time: each adds whole lines at its end.
"""

import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

Known = str | int | float


class ScoreFile(NamedTuple):
    """A file of scores.

    Attributes:
        path: of the file; it need not exist.
    """

    path: Path

    def find(self, **known: Known) -> dict[str, float] | None:
        """Returns the latest scores of the run that is known by these values; None if missing."""
        if not self.path.is_file():
            return None
        for line in reversed(self.path.read_text(encoding="utf-8").splitlines()):
            try:
                run = json.loads(line)
            except json.JSONDecodeError:
                continue  # a process was killed as it wrote
            if all(run.get(key) == value for key, value in known.items()):
                return run["scores"]
        return None

    def add(self, scores: Mapping[str, float], **known: Known) -> None:
        """Adds a run at the end of the file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps({**known, "scores": dict(scores), "processor": _processor()})
        with open(self.path, "ab+") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                cut_short = file.read(1) != b"\n"
                line = "\n" + line if cut_short else line
            file.write(line.encode() + b"\n")  # at the end, wherever was read


def _processor() -> str:
    info = Path("/proc/cpuinfo")  # Linux
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
