"""What one looks at after pretraining: numbers, events and curves of a run folder."""

import math
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from keras_bert.storage.files import atomic_file
from keras_bert.training.run_folder import HELD_OUT, RunFolder
from keras_bert.visualize.curves import plot_learning_curves

REPORT_FILE = "report.md"
CURVES_FILE = "learning_curves.png"

# The events at the end of a long list say most; all are in metrics.jsonl.
_MOST_EVENTS = 50


def write_pretraining_report(model_dir: str | os.PathLike) -> Path:
    """Writes `report.md` and, where matplotlib is installed, the curves into a run folder.

    Args:
        model_dir: the folder of a run that has made a step.

    Returns:
        The report's path.

    Raises:
        FileNotFoundError: the folder holds no run.
    """
    folder = RunFolder.open(model_dir)
    metrics = folder.read_metrics()
    try:
        plot_learning_curves(metrics, folder.path / CURVES_FILE)
        picture = True
    except ValueError as error:
        print(f"no curves: {error}", file=sys.stderr)
        picture = False
    lines = [*_heading(folder), *_results(metrics), *_languages(metrics)]
    lines += [*_events(metrics), *_starts(folder)]
    if picture:
        lines += ["## Curves", "", f"![Learning curves]({CURVES_FILE})", ""]
    with atomic_file(folder.path / REPORT_FILE) as path:
        path.write_text("\n".join(lines), encoding="utf-8")
    return folder.path / REPORT_FILE


def _heading(folder: RunFolder) -> Iterable[str]:
    settings = folder.settings
    config, options = settings["config"], settings["options"]
    yield "# Pretraining run\n"
    yield (
        f"- Model: {config['num_hidden_layers']} layers of {config['hidden_size']} hidden units, "
        f"{config['num_attention_heads']} heads, {config['vocab_size']:,} pieces"
    )
    yield (
        f"- Data: {settings['num_examples']:,} examples of up to {settings['max_seq_length']} "
        f"pieces; vocabulary {settings['vocabulary_sha256'][:12]}"
    )
    for name, examples in settings.get("languages", {}).items():
        yield f"  - {name}: {examples:,} examples"
    if "languages" in settings:
        yield f"- Languages drawn with alpha {options['language_alpha']:g}"
    end = f"{options['train_steps']:,} steps"
    if options["time_budget"]:
        end = f"{options['time_budget']:,.0f} s"
    yield (
        f"- {options['optimizer']}, learning rate {options['learning_rate']:g} "
        f"({options['schedule']}), batch {options['batch_size']}, {end}, seed {options['seed']}\n"
    )


def final_figures(metrics: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Returns the lines of the metrics that say most, by what they are; nothing before a step."""
    train = [line for line in metrics if line["split"] == "train"]
    # Losses on other records, before the last change of them, cannot be compared.
    changes = [number for number, line in enumerate(metrics) if line["split"] == HELD_OUT]
    first = changes[-1] if len(changes) > 1 else 0
    held_out = [line for line in metrics[first:] if line["split"] == "eval"]
    columns = {"training, last steps": train[-1]} if train else {}
    if held_out:
        columns["held out, last"] = held_out[-1]
        # Nothing is below a loss that is no number: `min` would keep it for the best.
        finite = [line for line in held_out if math.isfinite(line["loss"])]
        columns["held out, best"] = min(finite or held_out, key=lambda line: line["loss"])
    return columns


def median_speed(metrics: Sequence[dict[str, Any]]) -> float | None:
    """Returns the real tokens per second of training; None where there are too few lines."""
    # Without the first call of the loop, in which the step is traced and compiled.
    lines = [line for line in metrics if line["split"] == "train"][1:]
    rates = sorted(line["tokens_per_second"] for line in lines)
    return rates[len(rates) // 2] if rates else None


def _results(metrics: list[dict[str, Any]]) -> Iterable[str]:
    columns = final_figures(metrics)
    if not columns:
        return
    yield "## Numbers\n"
    yield f"| | {' | '.join(columns)} |"
    yield "|---" * (len(columns) + 1) + "|"
    names = dict.fromkeys(name for line in columns.values() for name in line)
    for name in names:
        if name not in ("split", "seconds") and "/" not in name:
            cells = (_number(line.get(name)) for line in columns.values())
            yield f"| {name.replace('_', ' ')} | {' | '.join(cells)} |"
    speed = median_speed(metrics)
    if speed is None:
        yield ""
        return
    seconds = columns["training, last steps"]["seconds"]
    yield f"\n{seconds:,.0f} s of training; median {speed:,.0f} "
    yield "real tokens per second (padding not counted).\n"


def _languages(metrics: list[dict[str, Any]]) -> Iterable[str]:
    """Yields the last held-out figures of each language, a row a language."""
    last = final_figures(metrics).get("held out, last", {})
    pairs = [name.split("/", 1) for name in last if "/" in name]
    if not pairs:
        return
    names = list(dict.fromkeys(name for name, _ in pairs))
    yield "## Held out, by language\n"
    yield f"| | {' | '.join(name.replace('_', ' ') for name in names)} |"
    yield "|---" * (len(names) + 1) + "|"
    for language in dict.fromkeys(language for _, language in pairs):
        cells = (_number(last.get(f"{name}/{language}")) for name in names)
        yield f"| {language} | {' | '.join(cells)} |"
    yield ""


def _events(metrics: list[dict[str, Any]]) -> Iterable[str]:
    events = [line["message"] for line in metrics if line["split"] == "event"]
    if events:
        yield f"## Events ({len(events)})\n"
        yield from (f"- {message}" for message in events[-_MOST_EVENTS:])
        yield ""


def _starts(folder: RunFolder) -> Iterable[str]:
    yield "## Starts\n"
    for start in folder.read_starts():
        versions = ", ".join(f"{name} {version}" for name, version in start["versions"].items())
        kinds = [f"{device['name']} {device['kind'] or ''}".strip() for device in start["devices"]]
        yield f"- {start['time']}, at step {start['step']}: `{start['command']}`"
        yield f"  - {versions}; {start['machine']}"
        yield f"  - {', '.join(kinds)}"
    yield ""


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
