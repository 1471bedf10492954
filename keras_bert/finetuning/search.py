"""Several runs of one task: seeds for a mean that can be trusted, a grid for the best options.

Every run has its folder under `<model_dir>/runs`; the best one is copied to `<model_dir>`.
"""

import dataclasses
import functools
import itertools
import numbers
import os
import shutil
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_bert.config import read_json
from keras_bert.counts import check_count
from keras_bert.finetuning.finetune import finetune
from keras_bert.finetuning.metrics import goodness
from keras_bert.finetuning.options import FinetuningOptions
from keras_bert.finetuning.plan import RunPlan, holds_model
from keras_bert.finetuning.result import FinetuningResult
from keras_bert.finetuning.run import DivergenceError
from keras_bert.finetuning.task import TEST, VALIDATION, Task, TaskData
from keras_bert.models.preset import check_opens_as_preset
from keras_bert.storage.files import null_for_nan, write_json
from keras_bert.storage.paths import check_folder
from keras_bert.training.cluster import is_chief
from keras_bert.training.run_folder import RUN_FILE
from keras_bert.training.strategy import create_strategy
from keras_bert.training.termination import Termination

RUNS_FOLDER = "runs"
RESULTS_FILE = "results.json"

# What the paper searched (section A.3): 18 runs.
PAPER_GRID: Mapping[str, tuple[float, ...]] = {
    "batch_size": (16, 32),
    "learning_rate": (5e-5, 3e-5, 2e-5),
    "epochs": (2, 3, 4),
}


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of a search.

    Attributes:
        point: the values of the grid, by option.
        seed: seed of the run.
        result: what it measured; None where its loss was lost on the way.
        collapsed: what is wrong with it; None for a healthy run.
    """

    point: Mapping[str, float]
    seed: int
    result: FinetuningResult | None
    collapsed: str | None

    @property
    def name(self) -> str:
        """Its folder below `runs`."""
        values = {**self.point, "seed": self.seed}
        return ",".join(f"{key}={_digits(value)}" for key, value in values.items())

    @property
    def measured(self) -> FinetuningResult:
        """What it measured, of a run that kept its loss.

        Raises:
            ValueError: it did not.
        """
        if self.result is None:
            raise ValueError(f"run {self.name} measured nothing: {self.collapsed}")
        return self.result


def _digits(value: float) -> str:
    short = f"{value:g}"  # 2e-05, but 2.02401e+07 for 20240101
    return short if float(short) == value else repr(value)


class Summary(NamedTuple):
    """A metric over the healthy runs of one point of the grid.

    Attributes:
        mean: mean over the runs.
        standard_deviation: of the runs (n - 1); 0 for one run.
        median: median over the runs.
        best: the highest, or the lowest where lower is better.
    """

    mean: float
    standard_deviation: float
    median: float
    best: float


@dataclasses.dataclass(frozen=True)
class SearchResult:
    """All runs, and which of them lies in `model_dir`.

    Attributes:
        runs: in the order they were made.
        best: the run that was kept: of the point with the best mean, the best.
    """

    runs: tuple[Run, ...]
    best: Run

    def points(self) -> list[Mapping[str, float]]:
        """Returns the points of the grid, in order."""
        found: list[Mapping[str, float]] = []
        for run in self.runs:
            if run.point not in found:
                found.append(run.point)
        return found

    def summary(self, point: Mapping[str, float], split: str, metric: str) -> Summary | None:
        """Returns a metric over the healthy runs of a point that have it; None for no such run."""
        healthy = [run for run in self.runs if run.point == point and run.collapsed is None]
        # A run that was finished before a package was there has no metric of that package.
        measured = [run.measured.metrics.get(split, {}) for run in healthy]
        values = [values[metric] for values in measured if metric in values]
        if not values:
            return None
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
        best = max(values, key=functools.partial(goodness, metric))
        return Summary(float(np.mean(values)), deviation, float(np.median(values)), best)


def parse_grid(text: str, given: Collection[str] = ()) -> dict[str, tuple[float, ...]]:
    """Reads a grid: "paper", or "learning_rate=2e-5,5e-5;epochs=2,3".

    Args:
        text: the grid.
        given: names of the flags of the same command; their values would be lost in the grid's.

    Raises:
        ValueError: it is neither, names something else than the options of `PAPER_GRID`, an option
            or a value twice, or an option that is given; or it is the paper's beside LoRA.
    """
    if text == "paper" and "lora_rank" in given:
        raise ValueError(
            "--grid=paper has learning rates of whole models, and --lora_rank learns at about ten "
            "times these: name them, such as --grid='learning_rate=5e-4,2e-4;epochs=2,3,4'"
        )
    grid = dict(PAPER_GRID) if text == "paper" else _parsed(text)
    for name in grid:
        if name in given:
            raise ValueError(
                f"--{name} and --grid={text} both give {name}: leave out the first, or give "
                "--grid= for no grid"
            )
    return grid


def _parsed(text: str) -> dict[str, tuple[float, ...]]:
    grid: dict[str, tuple[float, ...]] = {}
    for part in text.split(";"):
        name, _, values = part.partition("=")
        name = name.strip()
        if name in grid:
            raise ValueError(f"the grid names {name} twice: give all its values at once")
        if name not in PAPER_GRID:
            raise ValueError(
                f"the grid names {name!r}: it may hold {', '.join(PAPER_GRID)}, for example "
                "learning_rate=2e-5,5e-5;epochs=2,3, or be 'paper'"
            )
        kind = float if name == "learning_rate" else int
        found: list[float] = []
        for value in values.split(","):
            try:
                found.append(kind(value))
            except ValueError:
                raise ValueError(
                    f"the grid gives {name} the value {value!r}: give numbers"
                ) from None
        grid[name] = tuple(found)
        _check_once(name, found, values)
    return grid


def _check_once(name: str, values: Sequence[float], shown: object) -> None:
    if len(set(values)) < len(values):
        raise ValueError(f"the grid gives {name} a value twice ({shown}): a run counts once")


def _points(
    grid: Mapping[str, Iterable[float]], options: FinetuningOptions, last_seed: int
) -> list[dict[str, Any]]:
    """Returns the points of a grid; a value out of range shows before the first run.

    Args:
        grid: see `search`.
        options: those of all runs.
        last_seed: the highest seed of a run.

    Raises:
        ValueError: the grid names no option, or gives one no value, one twice or one out of range.
    """
    known = {field.name for field in dataclasses.fields(FinetuningOptions)} - {"seed"}
    lists: dict[str, list[float]] = {}
    for name, values in grid.items():
        if name not in known:
            raise ValueError(
                f"the grid names {name!r}: it may hold options that are numbers, such as "
                f"{', '.join(PAPER_GRID)}; seeds are counted by `seeds`"
            )
        if not isinstance(values, Iterable) or isinstance(values, str):
            raise ValueError(f"the grid gives {name} {values!r}: give a list of numbers")
        lists[name] = [*values]
        if not all(isinstance(value, numbers.Real) for value in lists[name]):
            raise ValueError(f"the grid gives {name} {lists[name]}: give numbers")
        _check_once(name, lists[name], lists[name])
    if not all(lists.values()):
        raise ValueError("the grid gives an option no value: give each at least one")
    points = []
    for values in itertools.product(*lists.values()):
        told: dict[str, Any] = dict(zip(lists, values, strict=True))
        taken = dataclasses.replace(options, **{**told, "seed": last_seed})
        # As the options take them: of NumPy's numbers folders and JSON make something else.
        points.append({name: getattr(taken, name) for name in told})
    return points


def search(
    task: Task,
    data: TaskData,
    init_from: str | os.PathLike,
    model_dir: str | os.PathLike,
    options: FinetuningOptions,
    seeds: int = 1,
    grid: Mapping[str, Sequence[float]] | None = None,
    keep_finished: bool = False,
) -> SearchResult | None:
    """Fine-tunes once for every point of the grid and every seed.

    Runs that were finished before are taken as they are, and one that was stopped goes on. A run
    that collapsed counts in no mean.

    Args:
        task: what is learned.
        data: what `task.read` returned.
        init_from: the model folder to start from.
        model_dir: receives the best run, `results.json` and the folder `runs`; a single run is
            made in it.
        options: those of all runs; the grid and the seeds, counted up from `options.seed`, replace
            theirs.
        seeds: how many runs for each point.
        grid: values by the name of the option; None for the options as they are.
        keep_finished: a single run that was finished before is taken as it is, as those of several
            are; else it is made again.

    Returns:
        All runs; None when SIGTERM ended one of them early: see `finetune`.

    Raises:
        ValueError: nothing can be chosen by (a grid without validation data), the grid names no
            option, or gives one a value twice or one that is out of its range, `model_dir` holds
            something else, runs of other data or another model, or one of these runs with other
            options; or every run failed.
    """
    check_count("seeds", seeds)
    if grid and VALIDATION not in data.splits:
        raise ValueError("a grid chooses by validation data, but there is none: add a dev file")
    if seeds == 1 and not grid:
        measured = finetune(task, data, init_from, model_dir, options, keep_finished=keep_finished)
        if measured is None:
            return None
        single = Run({}, options.seed, measured, measured.collapsed)
        return SearchResult((single,), single)
    points = _points(grid or {}, options, options.seed + seeds - 1)
    check_folder("model_dir", model_dir)
    folder = Path(model_dir)
    if holds_model(folder) and not (folder / RESULTS_FILE).exists():
        raise ValueError(
            f"{folder} holds a model that no search wrote: choose another --model_dir, or remove it"
        )
    check_opens_as_preset(folder)
    first = folder / RUNS_FOLDER / Run(points[0], options.seed, None, None).name
    told = dataclasses.replace(options, **points[0])
    plan = RunPlan.checked(task, data, init_from, first, told)
    planned = {
        Run(point, seed, None, None).name: {**point, "seed": seed}
        for point, seed in itertools.product(points, range(options.seed, options.seed + seeds))
    }
    _check_runs(plan, folder / RUNS_FOLDER, planned)
    strategy = create_strategy(options.strategy)
    runs: list[Run] = []
    together = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
    with Termination() as termination:
        for point, seed in itertools.product(points, range(options.seed, options.seed + seeds)):
            # Between two runs; workers may not all know of it, and agree in the next one.
            if termination.requested and not together:
                print("stopped by SIGTERM between two runs", file=sys.stderr)
                return None
            run = Run(point, seed, None, None)
            print(f"run {run.name}", flush=True)
            keras.backend.clear_session()
            try:
                measured = finetune(
                    task,
                    data,
                    init_from,
                    folder / RUNS_FOLDER / run.name,
                    dataclasses.replace(options, **point, seed=seed),
                    keep_finished=True,
                )
            except DivergenceError as error:
                runs.append(dataclasses.replace(run, collapsed=str(error)))
                continue
            if measured is None:
                return None
            runs.append(dataclasses.replace(run, result=measured, collapsed=measured.collapsed))
    result = SearchResult(tuple(runs), runs[0])
    result = dataclasses.replace(result, best=_best(task, result))
    if is_chief(strategy):
        _keep(folder, task, result)
    return result


def _check_runs(plan: RunPlan, folder: Path, planned: Mapping[str, Mapping[str, float]]) -> None:
    """Refuses before the first run what would be refused hours later, or mixed with other data.

    Args:
        plan: of any run of this search.
        folder: what holds the runs of all searches.
        planned: the options of each run of this search, by its name.
    """
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if (path / RUN_FILE).is_file():
            plan.check_beside(path, planned.get(path.name))


def _best(task: Task, result: SearchResult) -> Run:
    metric = next(iter(task.metrics))
    kept = [run for run in result.runs if run.result is not None]
    if not kept:
        raise ValueError(f"all {len(result.runs)} runs lost their loss: lower --learning_rate")
    split = VALIDATION if VALIDATION in kept[0].measured.metrics else None
    if split is None:
        return next((run for run in kept if run.collapsed is None), kept[0])

    def mean(point: Mapping[str, float]) -> float:
        summary = result.summary(point, split, metric)
        return -np.inf if summary is None else goodness(metric, summary.mean)

    best_point = max(result.points(), key=mean)
    return max(
        kept,
        key=lambda run: (
            run.collapsed is None,
            run.point == best_point,
            goodness(metric, run.measured.metrics[split][metric]),
        ),
    )


def _keep(model_dir: Path, task: Task, result: SearchResult) -> None:
    content: dict[str, Any] = {
        "best": result.best.name,
        "runs": [
            {
                "name": run.name,
                "collapsed": run.collapsed,
                "metrics": run.result.metrics if run.result else None,
            }
            for run in result.runs
        ],
        "summary": [
            {"point": point, "split": split, "metric": metric, **summary._asdict()}
            for point in result.points()
            for split in (VALIDATION, TEST)
            for metric in task.metrics
            if split in result.best.measured.metrics
            and (summary := result.summary(point, split, metric)) is not None
        ],
    }
    _remove_best(model_dir)
    write_json(model_dir / RESULTS_FILE, null_for_nan(content))
    # Last: results.json tells the next search that the folder, even half copied, is its own.
    source = model_dir / RUNS_FOLDER / result.best.name
    shutil.copytree(source, model_dir, dirs_exist_ok=True)


def _remove_best(model_dir: Path) -> None:
    """Removes what an earlier search copied here: two runs must not lie in one folder."""
    results = model_dir / RESULTS_FILE
    if not results.exists():
        return
    source = model_dir / RUNS_FOLDER / str(read_json(results).get("best"))
    for path in source.iterdir() if source.is_dir() else ():
        copy = model_dir / path.name
        if copy.is_dir() and path.is_dir():
            shutil.rmtree(copy)
        else:
            copy.unlink(missing_ok=True)
