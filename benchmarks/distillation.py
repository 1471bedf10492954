"""A small student with and without a teacher: size, speed and accuracy on reviews and mails.

    make benchmark NAME=distillation ARGS='--data=reviews --output=runs/distillation_reviews'
    make benchmark NAME=distillation ARGS='--data=spam --output=runs/distillation_spam'

The teacher is MiniLM of six layers, fine-tuned as in text_classification.py. Two students have some
of its layers: one learns from the labels alone, one from the teacher, too. The epoch of each is
chosen by the development texts; accuracies are those of the test texts. Speed is that of the
exported SavedModels in bfloat16, one text a call, sides in turns. The same command goes on where it
was stopped.
"""

import csv
import shutil
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import food_reviews
import packages
import spam
import tensorflow as tf
from absl import app, flags

from keras_bert import ExportOptions, FinetuningOptions, create_task, export_saved_model, search
from keras_bert.finetuning.search import SearchResult

_WRITE: Mapping[str, Callable[[Path], Path]] = {
    "reviews": lambda folder: food_reviews.write(folder, validation=400),
    "spam": spam.write,
}
_RATES = {"reviews": 5e-5, "spam": 1e-4}
_LENGTHS = {"reviews": 256, "spam": 128}

_DATA = flags.DEFINE_enum("data", "reviews", sorted(_WRITE), "What is classified.")
_OUTPUT = flags.DEFINE_string("output", None, "Folder of the runs.", required=True)
_LAYERS = flags.DEFINE_list("layers", ["0", "3"], "Layers of MiniLM that the student has.")
_EPOCHS = flags.DEFINE_integer("epochs", 3, "Passes of the teacher.", lower_bound=1)
_STUDENT_EPOCHS = flags.DEFINE_integer("student_epochs", 8, "Passes of students.", lower_bound=1)
_ALPHA = flags.DEFINE_float("alpha", 0.9, "Weight of the teacher.")
_TEMPERATURE = flags.DEFINE_float("temperature", 2.0, "Of the soft targets.")
_HIDDEN = flags.DEFINE_float("hidden_state_weight", 1.0, "Weight of the hidden states.")
_SEEDS = flags.DEFINE_integer("seeds", 3, "Runs of each student.", lower_bound=1)
_TEXTS = flags.DEFINE_integer("texts", None, "Rows of each file; unset: all.")
_SERVED = flags.DEFINE_integer("served", 100, "Texts of a round of the served models.")
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Rounds of each served model.", lower_bound=1)


def write_data(folder: Path) -> list[str]:
    """Writes the data, the first rows of each file only with --texts; returns the test texts."""
    if not folder.exists():
        part = folder.with_name("unfinished")
        shutil.rmtree(part, ignore_errors=True)
        _WRITE[_DATA.value](part)
        for path in part.glob("*.csv"):
            with open(path, encoding="utf-8", newline="") as file:
                header, *rows = list(csv.reader(file))
            if _TEXTS.value is not None:
                # From all parts of the file: spam stands behind ham.
                rows = rows[:: max(1, len(rows) // _TEXTS.value)][: _TEXTS.value]
            with open(path, "w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows([header, *rows])
        part.rename(folder)
    with open(folder / "test.csv", encoding="utf-8", newline="") as file:
        return [row["text"] for row in csv.DictReader(file)]


def serve(path: Path) -> Callable[[str], object]:
    """Returns what answers a text."""
    model = tf.saved_model.load(str(path))
    answer = model.signatures["serving_default"]
    return lambda text, model=model: answer(text=tf.constant([text]))


def milliseconds(paths: Mapping[str, Path], texts: list[str]) -> dict[str, float]:
    """Returns the median over rounds of the mean time of a text."""
    served = {name: serve(path) for name, path in paths.items()}
    times: dict[str, list[float]] = {name: [] for name in served}
    for number in range(_ROUNDS.value + 1):
        for name, answer in served.items():
            started = time.perf_counter()
            for text in texts:
                answer(text)
            if number:  # the first round warms
                times[name].append(1000 * (time.perf_counter() - started) / len(texts))
    return {name: statistics.median(found) for name, found in times.items()}


def main(_: list[str]) -> None:
    """Trains, exports, measures and prints a table."""
    output, task = Path(_OUTPUT.value), create_task("csv")
    texts = write_data(output / "data")
    data = task.read(output / "data")
    shared = {
        "batch_size": 16,
        "learning_rate": _RATES[_DATA.value],
        "max_seq_length": _LENGTHS[_DATA.value],
    }
    teacher = output / "teacher"
    of_teacher = {
        "teacher": str(teacher),
        "distillation_alpha": _ALPHA.value,
        "distillation_temperature": _TEMPERATURE.value,
        "hidden_state_weight": _HIDDEN.value,
    }
    student = {"epochs": _STUDENT_EPOCHS.value, "init_layers": tuple(_LAYERS.value)}
    sides = {
        "teacher": (1, {"epochs": _EPOCHS.value}),
        "student alone": (_SEEDS.value, student),
        "student, taught": (_SEEDS.value, student | of_teacher),
    }
    results: dict[str, SearchResult] = {}
    exports: dict[str, Path] = {}
    for name, (seeds, changes) in sides.items():
        folder = output / name.replace(", ", "_").replace(" ", "_")
        options = FinetuningOptions(**shared, **changes)
        # A grid of one point: runs that were finished before are not made again.
        grid = {"epochs": [changes["epochs"]]}
        found = search(task, data, packages.minilm(), folder, options, seeds, grid)
        if found is None:  # SIGTERM; the same command goes on
            return
        results[name] = found
        served = output / f"served_{folder.name}"
        shutil.rmtree(served, ignore_errors=True)
        exports[name] = export_saved_model(folder, served, options=ExportOptions("bfloat16"))
    times = milliseconds(exports, texts[: _SERVED.value])
    print("| model | parameters | MB served | ms a text | times as fast | test accuracy | seeds |")
    print("|---|---|---|---|---|---|---|")
    for name, found in results.items():
        accuracies = [run.measured.test["accuracy"] for run in found.runs]
        files = [path for path in exports[name].rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files) / 1e6
        weights = parameters(output / name.replace(", ", "_").replace(" ", "_"))
        print(
            f"| {name} | {weights:,} | {size:.1f} | {times[name]:.2f} "
            f"| {times['teacher'] / times[name]:.2f} | {statistics.mean(accuracies):.4f} "
            f"| {', '.join(f'{accuracy:.4f}' for accuracy in accuracies)} |"
        )


def parameters(folder: Path) -> int:
    """Returns the number of parameters of a fine-tuned model."""
    from keras_bert import FinetunedModel

    return FinetunedModel.load(folder).model.count_params()


if __name__ == "__main__":
    app.run(main)
