"""Scores of finished runs in a file of JSON lines, so that a table grows over days and machines.

A line has what a run is known by, what it reached, and the processor that it ran on:

    {"recipe": "bert", "seed": 0, "steps": 6000, "scores": {"pairs": 0.61}, "processor": "AMD EPYC"}

Two halves of a benchmark may add to one file at the same time: each adds whole lines at its end.
"""

import json
import os
import platform
from collections.abc import Callable, Collection, Mapping
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

    def measured(
        self, names: Collection[str], measure: Callable[[], Mapping[str, float]], **known: Known
    ) -> dict[str, float]:
        """Returns the scores of a run, from the file or, where it lacks them, measured and added.

        Args:
            names: the scores that must be there, so that a line of before one was added is passed
                over; there may be others.
            measure: makes the run and returns its scores.
            **known: what the run is known by.
        """
        scores = self.find(**known)
        if scores is None or not set(names) <= scores.keys():
            scores = dict(measure())
            self.add(scores, **known)
        return scores

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
