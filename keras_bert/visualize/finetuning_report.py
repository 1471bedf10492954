"""What one looks at after fine-tuning: a table, pictures and the model card."""

import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from keras_bert.finetuning.collapse import REMEDY
from keras_bert.finetuning.search import SearchResult
from keras_bert.finetuning.task import TRAIN, VALIDATION, Task, TaskData
from keras_bert.storage.files import atomic_file
from keras_bert.tasks.kinds import load_description
from keras_bert.tasks.seq2seq.head import Seq2SeqHead
from keras_bert.training.devices import package_versions
from keras_bert.visualize.confusion import plot_confusion_matrix
from keras_bert.visualize.finetuning_curves import plot_finetuning_curves

CARD_FILE = "README.md"
CURVES_FILE = "learning_curves.png"


def results_table(task: Task, result: SearchResult) -> str:
    """Returns the metrics of all runs as text for a terminal.

    One run: a line for each metric. Several: mean, standard deviation, median and best of the
    healthy runs, and what is wrong with the others.
    """
    lines = list(_single(result) if len(result.runs) == 1 else _several(task, result))
    lines += [f"collapsed: {run.name}: {run.collapsed}" for run in result.runs if run.collapsed]
    if any(run.collapsed for run in result.runs):
        lines.append(f"collapsed runs count in no mean; {REMEDY}")
    best = result.best.measured
    lines.append(
        f"best epoch: {best.best_epoch} of {len(best.epochs)}; {best.seconds:.0f} s of training, "
        f"{best.real_tokens_per_second:,.0f} real tokens/s"
    )
    return "\n".join(lines)


def _single(result: SearchResult) -> Iterable[str]:
    yield f"{'split':24}{'metric':24}{'value':>10}"
    for split, metrics in result.best.measured.metrics.items():
        for metric, value in metrics.items():
            yield f"{split:24}{metric:24}{value:10.4f}"


def _several(task: Task, result: SearchResult) -> Iterable[str]:
    points = result.points()
    width = max([4, *(len(_point_name(point)) for point in points)]) + 2
    yield (
        f"{'runs':{width}}{'split':24}{'metric':24}"
        f"{'mean':>9}{'std':>9}{'median':>9}{'best':>9}{'n':>5}"
    )
    for point in points:
        healthy = [run for run in result.runs if run.point == point and not run.collapsed]
        for split in result.best.measured.metrics:
            for metric in task.metrics:
                summary = result.summary(point, split, metric)
                if summary is not None:
                    numbers = "".join(f"{value:9.4f}" for value in summary)
                    yield (
                        f"{_point_name(point):{width}}{split:24}{metric:24}{numbers}"
                        f"{len(healthy):5}"
                    )
    yield f"kept: {result.best.name}"


def _point_name(point: Mapping[str, float]) -> str:
    return ",".join(f"{name}={value:g}" for name, value in point.items()) or "all"


def write_report(
    model_dir: str | os.PathLike, task: Task, result: SearchResult, data_name: str, data: TaskData
) -> None:
    """Writes pictures and the model card into a model folder.

    Args:
        model_dir: the folder.
        task: what was learned.
        result: the runs.
        data_name: what `--data` named.
        data: the data itself.
    """
    folder = Path(model_dir)
    pictures: dict[str, str] = {}  # the titles of those that are drawn, by their files
    missing: dict[str, list[str]] = {}  # those that are not, by the reason
    for file, title, draw in _pictures(folder, task, result):
        try:
            draw(folder / file)
            pictures[file] = title
        except ValueError as error:
            missing.setdefault(str(error), []).append(file)
    for reason, files in missing.items():
        print(f"no {', '.join(files)}: {reason}", file=sys.stderr)
    with atomic_file(folder / CARD_FILE) as path:
        text = "\n".join(_card(folder, task, result, data_name, data, pictures))
        path.write_text(text + "\n", encoding="utf-8")


def _pictures(
    folder: Path, task: Task, result: SearchResult
) -> Iterable[tuple[str, str, Callable[[Path], None]]]:
    """Yields the file of each picture, its title and what draws it: one may fail alone."""
    metric = next(iter(task.metrics))
    yield CURVES_FILE, "Learning curves", partial(plot_finetuning_curves, result, metric)
    labels = load_description(folder).labels
    for split, matrix in result.best.measured.confusion.items():
        title = f"{task.name}: {split}"
        draw = partial(plot_confusion_matrix, matrix, labels, title=title)
        yield f"confusion_{split}.png", f"Confusion matrix, {split}", draw


def _card(
    folder: Path,
    task: Task,
    result: SearchResult,
    data_name: str,
    data: TaskData,
    pictures: dict[str, str],
) -> Iterable[str]:
    description = load_description(folder)
    yield f"# BERT fine-tuned on {task.name}\n"
    sizes = ", ".join(f"{len(split):,} {name}" for name, split in data.splits.items())
    yield f"- Data: `{data_name}` ({sizes} examples)"
    if description.labels:
        yield f"- Labels: {', '.join(f'`{label}`' for label in description.labels)}"
    yield f"- Longest input: {description.max_seq_length} pieces"
    if isinstance(head := description.head, Seq2SeqHead):
        search = f"beams: {head.beam_size}, length penalty: {head.length_penalty:g}"
        if head.fills_gaps:
            search = (
                f"Mask-Predict, iterations: {head.iterations}, length candidates: "
                f"{head.length_candidates}"
            )
        yield (
            f"- Decoder: {head.decoder}; longest text: {head.max_target_length} pieces; {search}"
        )
    yield f"- Command: `python {shlex.join(sys.argv)}`"
    seeds = ", ".join(str(seed) for seed in dict.fromkeys(run.seed for run in result.runs))
    yield f"- Seeds: {seeds}; kept: {result.best.name}"
    versions = ", ".join(f"{name} {version}" for name, version in package_versions().items())
    yield f"- Versions: {versions}\n"
    yield f"```\n{results_table(task, result)}\n```\n"
    yield from (f"![{title}]({file})\n" for file, title in pictures.items())
    if VALIDATION not in data.splits:
        yield f"Trained on the {TRAIN} split alone. The weights are those of the last epoch."
        return
    yield (
        f"Trained on the {TRAIN} split alone. The weights are those of the best epoch by "
        f"{next(iter(task.metrics))} on the validation data, so its numbers are a little "
        "favourable; those of other splits are not."
    )
