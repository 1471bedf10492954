"""What a run did: in a notebook, as a page, as numbers."""

import os
from pathlib import Path

from keras_bert.storage.paths import with_name
from keras_bert.visualize.report_page import Report
from keras_bert.visualize.runs.page import run_page
from keras_bert.visualize.runs.record import RunRecord, read_run


class RunReport(Report):
    """One run, or two beside each other; a notebook shows it as a page.

    Attributes:
        title: names the runs.
        names: short names of the runs.
        runs: what their folders say, see `RunRecord`.
    """

    def __init__(self, runs: tuple[RunRecord, ...]):
        self.runs = runs
        # "1" and "2" of runs/seeds/1 and runs/seeds/2: as many folders as tell them apart.
        paths = [with_name(run.path) for run in runs]
        depth = 1
        while len({path.parts[-depth:] for path in paths}) < len(runs):
            depth += 1
        self.names = tuple("/".join(path.parts[-depth:]) for path in paths)
        self.title = f"Run {' and '.join(self.names)}"

    def html(self) -> str:
        """Returns the page: one HTML text that needs no other file, no script and no network."""
        return run_page(self)

    def __repr__(self) -> str:
        return f"RunReport({', '.join(str(run.path) for run in self.runs)})"


def show_run(run: str | os.PathLike, other: str | os.PathLike | None = None) -> RunReport:
    """Shows the curves, figures and settings of a run, or of two runs side by side.

    Args:
        run: the `--model_dir` of pretraining, also one in a bucket, or of fine-tuning; the run may
            still go on.
        other: another one of the same kind, to compare.

    Returns:
        A report, which a notebook displays; `save` writes the page, `runs` holds the numbers.

    Raises:
        FileNotFoundError: a folder holds no run.
        ValueError: both are the same folder, one run is of pretraining and the other of
            fine-tuning, or a file is damaged.

    Example:
        show_run("runs/mini", "runs/mini_lamb").save("runs.html")
    """
    first = read_run(run)
    if other is None:
        return RunReport((first,))
    if Path(run).resolve() == Path(other).resolve():
        raise ValueError(f"{other} is the same run as {run}: give another one to compare it with")
    second = read_run(other)
    if first.kind != second.kind:
        raise ValueError(
            f"{run} is a run of {first.kind} and {other} one of {second.kind}: compare runs of one "
            "kind"
        )
    return RunReport((first, second))
