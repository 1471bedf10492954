"""All tasks of GLUE one after the other, and the benchmark's table (arXiv:1804.07461).

    <data>/CoLA, SST-2, MRPC, ...      the published folders, those that are there
      --search-->  <model_dir>/CoLA, SST-2, ...   the best run of each task, on its development data
      --table--->  <model_dir>/glue.json, glue.md
      --collect->  <model_dir>/submission/CoLA.tsv, ..., AX.tsv, and submission.zip of all

A finished task stands in `glue.json` and is not read again; a search that was stopped goes on.
"""

import dataclasses
import json
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from keras_bert.config import read_json
from keras_bert.finetuning.finetune import SUBMISSION_FOLDER
from keras_bert.finetuning.options import FREE_OPTIONS, FinetuningOptions
from keras_bert.finetuning.search import SearchResult, search
from keras_bert.finetuning.task import TRAIN, VALIDATION, Task, TaskData
from keras_bert.storage.files import atomic_file, nan_for_null, null_for_nan, write_json
from keras_bert.storage.paths import check_folder
from keras_bert.storage.text_lines import check_parts
from keras_bert.tasks.classification.glue import GLUE, MISMATCHED_VALIDATION, glue_task
from keras_bert.training.cluster import is_chief
from keras_bert.training.run_folder import default_values, difference
from keras_bert.training.strategy import create_strategy

GLUE_FILE, TABLE_FILE, ARCHIVE_FILE = "glue.json", "glue.md", "submission.zip"
# What the paper chose from for each task, on development data (section 4.1); batches of 32 examples
# and 3 epochs are the defaults of `FinetuningOptions`.
PAPER_LEARNING_RATES: Mapping[str, tuple[float, ...]] = {"learning_rate": (5e-5, 4e-5, 3e-5, 2e-5)}

# Task -> its folder as published, in the order of the paper's table 1.
FOLDERS: Mapping[str, str] = {
    "mnli": "MNLI",
    "qqp": "QQP",
    "qnli": "QNLI",
    "sst2": "SST-2",
    "cola": "CoLA",
    "stsb": "STS-B",
    "mrpc": "MRPC",
    "rte": "RTE",
    "wnli": "WNLI",
}
# What the benchmark counts, and what table 1 of the paper shows, where it is not accuracy.
_SCORED = {
    "cola": ("matthews_correlation",),
    "stsb": ("pearson", "spearman"),
    "mrpc": ("accuracy", "f1"),
    "qqp": ("accuracy", "f1"),
}
_ACCURACY = ("accuracy",)
_PAPER_SHOWS = {
    "cola": "matthews_correlation",
    "stsb": "spearman",
    "mrpc": "f1",
    "qqp": "f1",
}
# "The problematic WNLI set", on which no system was above guessing then.
_NOT_IN_PAPER = "wnli"
_SUBMISSIONS = tuple(
    dict.fromkeys(file for name in FOLDERS for file in GLUE[name].submissions.values())
)

Report = Callable[[Path, Task, TaskData, SearchResult, Path], None]


@dataclasses.dataclass(frozen=True)
class GlueTaskResult:
    """What the best run of a task measured on development data.

    Attributes:
        metrics: values by split ("validation", of MNLI also "validation_mismatched") and metric.
        kept: name of the run: its point of the grid and its seed.
        examples: how many it learned from.
        collapsed: how many of the runs learned nothing, and what is wrong with the kept one, if it
            is one of them.
    """

    metrics: Mapping[str, Mapping[str, float]]
    kept: str
    examples: int
    collapsed: tuple[int, str | None] = (0, None)

    def values(self, metric: str) -> list[float]:
        """Returns a metric on each development set; MNLI has two of them, matched and not."""
        splits = (VALIDATION, MISMATCHED_VALIDATION)
        return [self.metrics[split][metric] for split in splits if split in self.metrics]


@dataclasses.dataclass(frozen=True)
class GlueResult:
    """What all tasks measured.

    Attributes:
        tasks: by name, in the order of `FOLDERS`.
    """

    tasks: Mapping[str, GlueTaskResult]

    def task_score(self, name: str) -> float:
        """Returns a task's part of the score: the mean of its metrics (and of MNLI's two sets)."""
        metrics = _SCORED.get(name, _ACCURACY)
        return float(np.mean([np.mean(self.tasks[name].values(metric)) for metric in metrics]))

    def score(self, without: Sequence[str] = ()) -> float | None:
        """Returns the benchmark's score: the mean over tasks, each of which counts alike.

        Args:
            without: tasks to leave out.

        Returns:
            From 0 to 1, of the tasks that there are; None where there are none.
        """
        scores = [self.task_score(name) for name in self.tasks if name not in without]
        return float(np.mean(scores)) if scores else None

    def paper_average(self) -> float | None:
        """Returns the last column of the paper's table 1.

        It is the mean of nine numbers: accuracy on both sets of MNLI (which count as two), F1 of
        QQP and MRPC, Spearman's correlation of STS-B, Matthews' of CoLA and accuracy of the others;
        WNLI does not count.

        Returns:
            From 0 to 1; None where one of the eight tasks or a set of MNLI is missing.
        """
        names = [name for name in FOLDERS if name != _NOT_IN_PAPER]
        if any(name not in self.tasks for name in names):
            return None
        found = [self.tasks[name].values(_PAPER_SHOWS.get(name, "accuracy")) for name in names]
        values = [value for of_task in found for value in of_task]
        return float(np.mean(values)) if len(values) == len(names) + 1 else None

    def table(self) -> str:
        """Returns all numbers as a Markdown table, in percent."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield "| task | examples | development data | score | kept run |"
        yield "|---|---|---|---|---|"
        for name, folder in FOLDERS.items():
            if name not in self.tasks:
                yield f"| {folder} | | not there | | |"
                continue
            task = self.tasks[name]
            shown = "; ".join(
                f"{metric.replace('_', ' ')} {' / '.join(_percent(v) for v in task.values(metric))}"
                for metric in _SCORED.get(name, _ACCURACY)
            )
            count, wrong = task.collapsed
            notes = [task.kept, f"{count} collapsed" if count else "", wrong or ""]
            yield (
                f"| {folder} | {task.examples:,} | {shown} | {_percent(self.task_score(name))} | "
                f"{'; '.join(filter(None, notes))} |"
            )
        yield ""
        found = [name for name in FOLDERS if name in self.tasks]
        counted = [name for name in found if name != _NOT_IN_PAPER]
        yield (
            f"- GLUE score: **{_percent(self.score())}**, the mean over {len(found)} of "
            f"{len(FOLDERS)} tasks; two metrics of a task, and both sets of MNLI (matched / "
            "mismatched), are averaged first."
        )
        yield (
            f"- Without WNLI: **{_percent(self.score([_NOT_IN_PAPER]))}**, the mean over "
            f"{len(counted)} of {len(FOLDERS) - 1} tasks."
        )
        yield (
            f"- As in table 1 of the paper: **{_percent(self.paper_average())}**; MNLI counts "
            "twice, of QQP and MRPC F1, of STS-B Spearman's correlation, WNLI not at all. The "
            "paper's numbers are those of the test data."
        )
        yield "- Runs were chosen on the development data: these numbers are a little favourable."


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def find_glue_tasks(data: str | os.PathLike) -> dict[str, Path]:
    """Returns the folder of each task that is there.

    Args:
        data: holds the folders as they are published: CoLA, SST-2, MRPC and so on.

    Raises:
        FileNotFoundError: it holds none of them.
    """
    folders = {name: Path(data) / folder for name, folder in FOLDERS.items()}
    found = {name: folder for name, folder in folders.items() if folder.is_dir()}
    if not found:
        raise FileNotFoundError(
            f"{data} holds none of the folders {', '.join(FOLDERS.values())}: give the folder in "
            "which the archives of GLUE were unpacked"
        )
    return found


def run_glue(
    data: str | os.PathLike,
    init_from: str | os.PathLike,
    model_dir: str | os.PathLike,
    options: FinetuningOptions = FinetuningOptions(),  # noqa: B008 (frozen)
    seeds: int = 1,
    grid: Mapping[str, Sequence[float]] | None = PAPER_LEARNING_RATES,
    tasks: Sequence[str] = (),
    report: Report | None = None,
) -> GlueResult | None:
    """Fine-tunes a model on each task of GLUE, as section 4.1 of the paper did.

    The smallest tasks come first. What is finished stands in `glue.json` and is not done again; the
    same call goes on with a run that was stopped.

    Args:
        data: holds the published folders of the tasks.
        init_from: the model folder that all of them start from.
        model_dir: receives a folder for each task, `glue.json`, `glue.md`, and the files of the
            leaderboard in `submission/`.
        options: those of all runs.
        seeds: how many runs for each point of the grid.
        grid: see `search`; None for the options as they are.
        tasks: names of those to do, of those that are there; empty for all.
        report: called with folder, task, data, runs and the folder of the data when a task is done.

    Returns:
        What all finished tasks measured; None when SIGTERM ended a run early.

    Raises:
        FileNotFoundError: there is no such data, or no such model.
        ValueError: a task is unknown or not there, its data are damaged, an option is not one for
            all tasks, `model_dir` holds results of another call, or every run of a task failed.
    """
    # 1. What can be refused is refused before hours of training; workers meet first.
    check_folder("model_dir", model_dir)
    strategy = create_strategy(options.strategy)
    if options.class_weights is not None or options.teacher is not None:
        raise ValueError(
            "class_weights and a teacher belong to the labels of one task, and these are several: "
            "leave them out, or fine-tune with run_finetuning"
        )
    if options.lora_rank is not None and dict(grid or {}) == PAPER_LEARNING_RATES:
        raise ValueError(
            "the grid has the paper's learning rates, which are those of whole models, and "
            "lora_rank learns at about ten times these: give others, such as "
            "learning_rate=5e-4,4e-4,3e-4,2e-4, or no grid"
        )
    folders = find_glue_tasks(data)
    tasks = check_parts(tasks, "tasks", "task")
    for name in tasks:
        if name not in folders:
            known = "is no task of GLUE" if name not in FOLDERS else f"is not in {data}"
            raise ValueError(f"the task {name} {known}: choose from {', '.join(folders)}")
    target = Path(model_dir)
    results = _Results.open(target, _settings(init_from, options, seeds, grid))
    waiting = [name for name in folders if name not in results.tasks and name in (tasks or folders)]
    for name in waiting:
        found = _read(name, folders[name])
        task_head = glue_task(name).head.with_labels(found.labels)
        task_head.loss(options.label_smoothing)  # which knows whether it can

    # 2. A search for each task, the smallest one first, so that a mistake shows early.
    waiting.sort(key=lambda name: sum(f.stat().st_size for f in folders[name].glob("*.*")))
    for number, name in enumerate(waiting, start=1):
        print(f"GLUE, task {number} of {len(waiting)}: {FOLDERS[name]}", flush=True)
        task, task_data = glue_task(name), _read(name, folders[name])
        folder = target / FOLDERS[name]
        runs = search(task, task_data, init_from, folder, options, seeds, grid, keep_finished=True)
        if runs is None:
            return None
        results = results.with_task(name, _result(task_data, runs))
        if is_chief(strategy):
            if report is not None:
                report(folder, task, task_data, runs, folders[name])
            results.save(target)

    # 3. The files of the leaderboard side by side.
    if is_chief(strategy):
        results.save(target)
        _collect(target, results.tasks)
    return GlueResult(results.tasks)


def _read(name: str, folder: Path) -> TaskData:
    data = glue_task(name).read(folder)
    if VALIDATION not in data.splits:
        raise ValueError(
            f"{folder} has no {GLUE[name].files[VALIDATION]}: a run is chosen by development data, "
            "so give the folder as GLUE distributes it, or leave the task out"
        )
    return data


def _result(data: TaskData, found: SearchResult) -> GlueTaskResult:
    collapsed = sum(run.collapsed is not None for run in found.runs)
    return GlueTaskResult(
        found.best.measured.metrics,
        found.best.name,
        len(data.splits[TRAIN]),
        (collapsed, found.best.collapsed),
    )


def _settings(
    init_from: str | os.PathLike,
    options: FinetuningOptions,
    seeds: int,
    grid: Mapping[str, Sequence[float]] | None,
) -> dict[str, Any]:
    """Returns what all tasks of a table must have in common."""
    values = dataclasses.asdict(options)
    settings = {
        "init_from": os.fspath(init_from),
        "seeds": seeds,
        "grid": {name: list(points) for name, points in (grid or {}).items()},
        "options": {name: value for name, value in values.items() if name not in FREE_OPTIONS},
    }
    return json.loads(json.dumps(settings))  # as it is read again


@dataclasses.dataclass(frozen=True)
class _Results:
    """The content of `glue.json`."""

    settings: Mapping[str, Any]
    tasks: Mapping[str, GlueTaskResult]

    @classmethod
    def open(cls, folder: Path, settings: Mapping[str, Any]) -> Self:
        path = folder / GLUE_FILE
        if not path.is_file():
            return cls(settings, {})
        content = read_json(path)
        results = cls(settings, {})
        try:
            # Options that are newer than the file had their defaults.
            newer = json.loads(json.dumps(default_values(FinetuningOptions)))
            newer = {key: newer[key] for key in settings["options"].keys() & newer.keys()}
            before = {**content["settings"], "options": newer | content["settings"]["options"]}
            for name, fields in content["tasks"].items():
                fields["metrics"] = nan_for_null(fields["metrics"])
                fields["collapsed"] = tuple(fields["collapsed"])
                results = results.with_task(name, GlueTaskResult(**fields))
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(
                f"{path} is no table of run_glue ({error!r}): choose another --model_dir"
            ) from None
        for name, value in settings.items():
            if before.get(name) != value:
                raise ValueError(
                    f"{path} was begun with {difference(name, before.get(name), value)}: give the "
                    "same, or another --model_dir"
                )
        return results

    def with_task(self, name: str, result: GlueTaskResult) -> Self:
        tasks = {**self.tasks, name: result}
        ordered = {known: tasks[known] for known in FOLDERS if known in tasks}
        return dataclasses.replace(self, tasks=ordered)

    def save(self, folder: Path) -> None:
        result = GlueResult(self.tasks)
        content = {
            "settings": self.settings,
            "score": result.score(),
            "score_without_wnli": result.score([_NOT_IN_PAPER]),
            "paper_average": result.paper_average(),
            "tasks": {name: dataclasses.asdict(task) for name, task in self.tasks.items()},
        }
        write_json(folder / GLUE_FILE, null_for_nan(content))
        with atomic_file(folder / TABLE_FILE) as path:
            path.write_text(result.table(), encoding="utf-8")


def _collect(model_dir: Path, tasks: Mapping[str, GlueTaskResult]) -> None:
    """Copies the leaderboard's files of all tasks into one folder; all of them make an archive."""
    target = model_dir / SUBMISSION_FOLDER
    target.mkdir(parents=True, exist_ok=True)
    for name in tasks:
        for file in (model_dir / FOLDERS[name] / SUBMISSION_FOLDER).glob("*.tsv"):
            with atomic_file(target / file.name) as path:
                shutil.copyfile(file, path)
    missing = [file for file in _SUBMISSIONS if not (target / file).is_file()]
    if missing:
        print(f"no {ARCHIVE_FILE}: the leaderboard also asks for {', '.join(missing)}", flush=True)
        return
    with (
        atomic_file(model_dir / ARCHIVE_FILE) as path,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for name in _SUBMISSIONS:
            archive.write(target / name, name)
