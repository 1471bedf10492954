"""What the folder of a run of pretraining or fine-tuning says: settings, curves, figures, mistakes.

run.json        what defines the run           metrics.json   what fine-tuning measured at its end
metrics.jsonl   a line for each measurement    results.json   all runs of a search
starts.jsonl    commands, versions, devices    task.json      the labels
"""

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_bert.config import read_json
from keras_bert.finetuning.result import FinetuningResult
from keras_bert.finetuning.search import RESULTS_FILE
from keras_bert.finetuning.task import TASK_FILE
from keras_bert.storage.files import nan_for_null
from keras_bert.storage.paths import is_remote
from keras_bert.storage.remote_folders import RUN_FILES, local_files
from keras_bert.training.run_folder import FINETUNING, PRETRAINING, RunFolder, run_kind
from keras_bert.visualize.curves import BASELINES, curve_names, points
from keras_bert.visualize.pretraining_report import final_figures, median_speed

# Splits of metrics.jsonl, as a reader calls them.
SPLITS = {"train": "training", "eval": "held out", "validation": "validation"}
# What a line says besides measurements, and what is drawn as a line of another curve.
_NO_CURVES = {"split", "step", "epoch", "seconds", *(key for key, _ in BASELINES.values())}

Curve = list[tuple[float, float]]


@dataclasses.dataclass(frozen=True)
class RunRecord:
    """A run as its folder tells it.

    Attributes:
        path: the folder, or its address.
        kind: "pretraining" or "fine-tuning".
        settings: what defines the run, by names such as "options.batch_size".
        curves: by metric and split; each a list of step and value.
        figures: the last numbers: by column ("held out, best", "test") and metric.
        speed: real tokens per second of training, or None.
        seconds: how long it trained, or None.
        labels: names of the classes of a classification.
        confusion: by split how often each class (rows) was predicted as each (columns).
        calibration: by split bins of confidence, see `keras_bert.finetuning.metrics`.
        events: what a person should know, such as skipped steps, with the step.
        starts: command, versions and devices of each start.
        warnings: that it is not finished, or learned nothing.
        searched: metrics of all runs of a search by name; the folder is that of the best of them.
    """

    path: str | Path
    kind: str
    settings: Mapping[str, Any]
    curves: Mapping[str, Mapping[str, Curve]]
    figures: Mapping[str, Mapping[str, float]]
    speed: float | None
    seconds: float | None
    labels: tuple[str, ...]
    confusion: Mapping[str, Sequence[Sequence[int]]]
    calibration: Mapping[str, Sequence[Sequence[float]]]
    events: tuple[tuple[int, str], ...]
    starts: tuple[Mapping[str, Any], ...]
    warnings: tuple[str, ...]
    searched: Mapping[str, Mapping[str, Mapping[str, float]] | None]


def read_run(folder: str | os.PathLike) -> RunRecord:
    """Reads the folder of a run; one that is still going on, too.

    Args:
        folder: local, or of pretraining in a bucket, whose files are copied to the local disk.

    Raises:
        FileNotFoundError: the folder holds no run.
        ValueError: a file in it is damaged.
    """
    remote = os.fspath(folder).rstrip("/") if is_remote(folder) else None
    local = Path(local_files(remote, RUN_FILES) if remote else folder)
    if remote and not (local / RUN_FILES[0]).is_file():
        raise FileNotFoundError(f"{remote} holds no run of pretraining: {RUN_FILES[0]} is missing")
    run = RunFolder.open(local)
    metrics = run.read_metrics()
    kind = run_kind(run.settings)
    result = FinetuningResult.finished(run.path) if kind == FINETUNING else None
    warnings = list(_warnings(run, kind, metrics, result))

    # The last numbers: what the reports of both kinds show.
    speed: float | None = None
    seconds: float | None = None
    if result is not None:
        figures, speed = dict(result.metrics), result.real_tokens_per_second
        seconds = result.seconds
    else:
        figures = {
            column: {
                name: value
                for name, value in line.items()
                # Those of a language, as loss/de, are in report.md.
                if name not in ("split", "seconds") and "/" not in name
            }
            for column, line in final_figures(metrics).items()
        }
        speed = median_speed(metrics) if kind == PRETRAINING else None
        seconds = max((line["seconds"] for line in metrics if "seconds" in line), default=None)

    results = run.path / RESULTS_FILE
    runs = read_json(results)["runs"] if results.is_file() else []
    task = run.path / TASK_FILE
    events = [(line["step"], line["message"]) for line in metrics if line["split"] == "event"]
    return RunRecord(
        path=remote or run.path,
        kind=kind,
        settings=dict(_flat(run.settings)),
        curves=_curves(metrics),
        figures=figures,
        speed=speed,
        seconds=seconds,
        labels=tuple(read_json(task)["labels"]) if task.is_file() else (),
        confusion=result.confusion if result else {},
        calibration=result.calibration if result else {},
        events=tuple(events),
        starts=tuple(run.read_starts()),
        warnings=tuple(warnings),
        # A run that did not end has no metrics; in those of one that did, null is NaN.
        searched={one["name"]: one["metrics"] and nan_for_null(one["metrics"]) for one in runs},
    )


def _warnings(
    run: RunFolder,
    kind: str,
    metrics: Sequence[Mapping[str, Any]],
    result: FinetuningResult | None,
) -> Iterator[str]:
    if not metrics:
        yield "The run has measured nothing yet."
    elif kind == FINETUNING and result is None:
        yield "The run has not ended: there are no final figures, and no predictions."
    elif kind == PRETRAINING and not run.settings["options"].get("time_budget"):
        wanted, done = run.settings["options"]["train_steps"], metrics[-1]["step"]
        if done < wanted:
            yield f"The run stands at step {done:,} of {wanted:,}."
    if result is not None and result.collapsed:
        yield f"The run learned nothing: {result.collapsed}."


def _curves(metrics: Sequence[dict[str, Any]]) -> dict[str, dict[str, Curve]]:
    """Returns all curves: losses, what belongs below them, then what else was measured."""
    losses, below = curve_names(metrics)
    others = (
        name
        for line in metrics
        for name, value in line.items()
        if name not in _NO_CURVES and "/" not in name and isinstance(value, int | float)
    )
    curves: dict[str, dict[str, Curve]] = {}
    for name in dict.fromkeys([*losses, *below, *others]):
        by_split = {split: points(metrics, split, name) for split in SPLITS}
        found = {split: curve for split, curve in by_split.items() if curve}
        if found:
            curves[name] = found
        baseline = points(metrics, "eval", BASELINES.get(name, ("", ""))[0])
        if found and baseline:
            curves[name]["baseline"] = baseline
    return curves


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the values of nested dictionaries by names with dots."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
