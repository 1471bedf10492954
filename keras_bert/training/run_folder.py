"""The folder of a training run: what it was told, what it measured, where it stands."""

import contextlib
import dataclasses
import json
import os
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_bert.config import read_json
from keras_bert.storage import files

RUN_FILE = "run.json"
_METRICS_FILE = "metrics.jsonl"
_STARTS_FILE = "starts.jsonl"
PRETRAINING, FINETUNING = "pretraining", "fine-tuning"
# What the lines of a file need to hold to be read, with its type.
_METRICS_KEYS: Mapping[str, type] = {"split": str, "step": int}
_STARTS_KEYS: Mapping[str, type] = {
    "time": str,
    "step": int,
    "command": str,
    "machine": str,
    "versions": dict,
    "devices": list,
}
HELD_OUT = "held_out"  # the split of a line that tells which records the next evaluations are of


class RunFolder:
    """Keeps `run.json`, `metrics.jsonl`, TensorBoard events, `checkpoints/` and model folders.

    Args:
        path: the folder; made when missing.
        settings: what defines the run. A folder that holds a run with other settings is refused,
            because its checkpoints belong to another model, other data or another schedule.
        defaults: by the name of a setting that is a dictionary: values of entries that a run of an
            earlier version did not write down, as it did not have them.
        added: names of settings that a run of an earlier version did not write down.
        undecided: by the name of a setting that is a dictionary: values with which an earlier
            version left an entry to the machine, so that nobody knows what it was.
        writes: whether this process writes; of several that train one model, one does.

    Raises:
        ValueError: a setting differs; the sentence names it with both values. Or the folder holds a
            run of another kind.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        settings: Mapping[str, Any],
        writes: bool = True,
        defaults: Mapping[str, Mapping[str, Any]] | None = None,
        added: Collection[str] = (),
        undecided: Mapping[str, Mapping[str, Any]] | None = None,
    ):
        self.path = Path(path)
        self._writes = writes
        # As a file gives them back: tuples become lists, so that both sides compare equal.
        self._settings = json.loads(json.dumps(settings))
        file = self.path / RUN_FILE
        before = read_json(file) if file.exists() else self._settings
        for name, values in json.loads(json.dumps(defaults or {})).items():
            if isinstance(before.get(name), dict):
                shared = {
                    key: value for key, value in values.items() if key in self._settings[name]
                }
                before = before | {name: shared | before[name]}
        before = {name: self._settings.get(name) for name in added} | before
        for name, values in (undecided or {}).items():
            found = before.get(name)
            if isinstance(found, dict):
                known = {k: self._settings[name][k] for k, v in values.items() if found.get(k) == v}
                before = before | {name: found | known}
        # Runs of both kinds have a folder of this form; settings one by one would tell little.
        if (kind := run_kind(before)) != run_kind(self._settings):
            raise ValueError(
                f"{self.path} holds a run of {kind}, and this is one of "
                f"{run_kind(self._settings)}: choose another --model_dir"
            )
        for name in sorted(self._settings.keys() | before.keys()):
            was, now = before.get(name), self._settings.get(name)
            if was != now:
                raise ValueError(
                    f"{self.path} holds a run with {difference(name, was, now)}: "
                    "choose another --model_dir, or go on with the settings it was started with"
                )
        self._writers: dict[str, tf.summary.SummaryWriter] = {}
        self._told: set[tuple[str, int]] = set()  # damaged lines that were spoken of

    @classmethod
    def open(cls, path: str | os.PathLike) -> "RunFolder":
        """Returns the folder of a run that is there, to be read.

        Raises:
            FileNotFoundError: no run is there.
        """
        file = Path(path) / RUN_FILE
        if not file.is_file():
            raise FileNotFoundError(f"{path} holds no run: {RUN_FILE} is missing")
        return cls(path, read_json(file), writes=False)

    @property
    def settings(self) -> dict[str, Any]:
        """What defines the run."""
        return self._settings

    @property
    def checkpoints(self) -> Path:
        """Where `tf.train.Checkpoint` files lie."""
        return self.path / "checkpoints"

    @property
    def preset(self) -> Path:
        """Where the latest preset lies."""
        return self.path / "preset"

    @property
    def best_preset(self) -> Path:
        """Where the preset lies that was best on held-out records."""
        return self.path / "best_preset"

    def preset_of(self, step: int) -> Path:
        """Where the preset of one of the `preset_steps` lies, which later ones do not replace."""
        return self.path / "kept_presets" / f"step_{step}"

    def remove_checkpoints(self) -> None:
        """Removes all checkpoints: the run is finished, or begins anew."""
        if self._writes:
            shutil.rmtree(self.checkpoints, ignore_errors=True)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keeps the folder for this process; the system gives it back when the process dies.

        Raises:
            ValueError: another process has it.
        """
        if not self._writes:
            yield
            return
        busy = ValueError(
            f"another process is writing to {self.path}: wait until it has ended, or choose "
            "another --model_dir"
        )
        with files.locked(self.path, busy):
            yield

    def start(self, step: int, redone: Collection[str] = ()) -> None:
        """Writes the settings; forgets metrics of what will be redone.

        Args:
            step: where the run stands; steps after it will be redone.
            redone: splits whose metrics at this very step will be redone, too.
        """
        if not self._writes:
            return
        files.write_json(self.path / RUN_FILE, self._settings)
        kept = [
            line
            for line in self.read_metrics()
            if line["step"] < step or (line["step"] == step and line["split"] not in redone)
        ]
        with files.atomic_file(self.path / _METRICS_FILE) as path:
            path.write_text("".join(map(_metrics_line, kept)), encoding="utf-8")

    def note_start(self, details: Mapping[str, Any]) -> None:
        """Appends what started the run, or started it again: command, versions, devices."""
        if not self._writes:
            return
        starts = [*self.read_starts(), details]
        with files.atomic_file(self.path / _STARTS_FILE) as path:
            path.write_text("".join(json.dumps(start) + "\n" for start in starts), "utf-8")

    def read_starts(self) -> list[dict[str, Any]]:
        """Returns what `note_start` was given, the first start first.

        A line that is damaged, or lacks a part, is left out with a warning.
        """
        return self._read_lines(_STARTS_FILE, _STARTS_KEYS)

    def note(self, step: int, message: str) -> None:
        """Appends something worth a look to the metrics, as a line of the split "event"."""
        self._append({"split": "event", "step": step, "message": message})

    def read_metrics(self) -> list[dict[str, Any]]:
        """Returns the lines of `metrics.jsonl`.

        A half-written last line is left out, and a damaged one with a warning. Numbers that are not
        finite, which the file has as null, are NaN.
        """
        lines = self._read_lines(_METRICS_FILE, _METRICS_KEYS)
        return [files.nan_for_null(line) for line in lines]

    def note_held_out(self, step: int, records: str) -> None:
        """Appends which held-out records are evaluated from a step on, a line of `HELD_OUT`."""
        self._append({"split": HELD_OUT, "step": step, "records": records})

    def log(self, split: str, step: int, metrics: Mapping[str, float]) -> None:
        """Appends one line of metrics and the same numbers for TensorBoard.

        JSON has no number that is not finite: the line has null there, TensorBoard the number.

        Args:
            split: "train" or "eval".
            step: steps done.
            metrics: names and values.
        """
        if not self._writes:
            return
        self._append({"split": split, "step": step, **metrics})
        with self._writer(split).as_default(step=step):
            for name, value in metrics.items():
                tf.summary.scalar(name, value)
        self._writer(split).flush()

    def _read_lines(self, name: str, needed: Mapping[str, type]) -> list[dict[str, Any]]:
        path = self.path / name
        if not path.exists():
            return []
        found = []
        # Behind the last end there is nothing, or what was being written when the process died.
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
        for number, line in enumerate(lines, start=1):
            try:
                values = json.loads(line)
            except ValueError:
                values = None
            if isinstance(values, dict) and all(
                isinstance(values.get(key), kind) for key, kind in needed.items()
            ):
                found.append(values)
            elif (name, number) not in self._told:
                self._told.add((name, number))
                print(
                    f"warning: {path}, line {number} is damaged and left out: {line[:60]!r}",
                    file=sys.stderr,
                )
        return found

    def _append(self, line: Mapping[str, Any]) -> None:
        if self._writes:
            path = self.path / _METRICS_FILE
            with files.write_errors(path), open(path, "a", encoding="utf-8") as file:
                file.write(_metrics_line(line))

    def _writer(self, split: str) -> tf.summary.SummaryWriter:
        if split not in self._writers:
            folder = self.path / "tensorboard" / split
            self._writers[split] = tf.summary.create_file_writer(str(folder))
        return self._writers[split]


def _metrics_line(metrics: Mapping[str, Any]) -> str:
    return json.dumps(files.null_for_nan(metrics), allow_nan=False) + "\n"


def run_kind(settings: Mapping[str, Any]) -> str:
    """Returns "pretraining" or "fine-tuning", as the settings of a run tell it."""
    return FINETUNING if "task" in settings else PRETRAINING


def check_precision(folder: Path, precision: str) -> None:
    """Makes sure that a run goes on in the number format in which it began.

    Args:
        folder: of the run, which need not be there.
        precision: what this start computes in, not "auto".

    Raises:
        ValueError: it began in another one, which "auto" may be on another machine.
    """
    if not (folder / RUN_FILE).exists():
        return
    began = read_json(folder / RUN_FILE).get("options", {}).get("mixed_precision", "auto")
    if began not in ("auto", precision):  # "auto" of an earlier version: nobody can tell
        raise ValueError(
            f"{folder} holds a run in {began}, but mixed_precision is {precision!r} here: go on "
            f"with --mixed_precision={began}, or choose another --model_dir"
        )


def default_values(options_class: type) -> dict[str, Any]:
    """Returns the defaults of a dataclass of options, by field, as far as there are some."""
    return {
        field.name: field.default
        for field in dataclasses.fields(options_class)
        if field.default is not dataclasses.MISSING
    }


def difference(name: str, was: Any, now: Any) -> str:
    """Returns what a setting was and is, of dictionaries the first value that differs."""
    if isinstance(was, dict) and isinstance(now, dict):
        # Down to the first value that differs: "options.batch_size", not two whole dictionaries.
        both = was.keys() & now.keys()
        inner = min(
            key for key in was.keys() | now.keys() if key not in both or was[key] != now[key]
        )
        if inner not in now:
            return f"{name}.{inner}={was[inner]!r}, now there is no such setting"
        return difference(f"{name}.{inner}", was.get(inner), now[inner])
    return f"{name}={was!r}, now it is {now!r}"
