"""A small student with and without a teacher: size, speed and accuracy on reviews and mails.

    make benchmark NAME=distillation ARGS='--data=reviews --output=runs/distillation_reviews'
    make benchmark NAME=distillation ARGS='--data=spam --output=runs/distillation_spam'

The teacher is MiniLM of six layers, fine-tuned as in text_classification.py; of its runs the best
on the development texts teaches. Students have some of its layers and learn

    alone       from the labels
    taught      from the teacher's answers and hidden states, too
    distilled   from the teacher's answers, after MiniLM's hidden states and attention were learned
                on general text and the training texts (pretraining distillation); no dropout
    augmented   the same, and from the teacher's answers to copies with replaced words
    widened     the same, and from its answers to sentences of other reviews and short messages

(--students=alone --students=taught takes two of them.) The epoch of each is chosen by the
development texts; accuracies are those of the test texts. Speed is that of the exported SavedModels
in bfloat16, one text a call, sides in turns, in a process with the kit's environment variable. The
same command goes on where it was stopped.
"""

import csv
import json
import multiprocessing
import os
import shutil
import statistics
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import english_text
import food_reviews
import opinions
import packages
import spam
import tensorflow as tf
from absl import app, flags
from small_pretraining import run_tool

from keras_bert import (
    BertConfig,
    ExportOptions,
    FinetunedModel,
    FinetuningOptions,
    create_task,
    export_saved_model,
    search,
)
from keras_bert.finetuning.search import RUNS_FOLDER, SearchResult
from keras_bert.storage.files import atomic_file, atomic_folder

_WRITE: Mapping[str, Callable[[Path], Path]] = {
    "reviews": lambda folder: food_reviews.write(folder, validation=400),
    "spam": spam.write,
}
_RATES = {"reviews": 5e-5, "spam": 1e-4}
_LENGTHS = {"reviews": 256, "spam": 128}
_STUDENTS = ("alone", "taught", "distilled", "augmented", "widened")
_SAMPLE_MODEL = Path(__file__).resolve().parents[1] / "tools" / "sample_model"

_DATA = flags.DEFINE_enum("data", "reviews", sorted(_WRITE), "What is classified.")
_OUTPUT = flags.DEFINE_string("output", None, "Folder of the runs.", required=True)
_CHOSEN = flags.DEFINE_multi_enum("students", list(_STUDENTS), list(_STUDENTS), "Only these.")
_LAYERS = flags.DEFINE_list("layers", ["0", "3"], "Layers of MiniLM that the student has.")
_EPOCHS = flags.DEFINE_integer("epochs", 3, "Passes of the teacher.", lower_bound=1)
_STUDENT_EPOCHS = flags.DEFINE_integer("student_epochs", 4, "Passes of students.", lower_bound=1)
_AUGMENTED_EPOCHS = flags.DEFINE_integer(
    "augmented_epochs", 2, "Passes of students with copies.", lower_bound=1
)
_ALPHA = flags.DEFINE_float("alpha", 0.9, "Weight of the teacher.")
_TEMPERATURE = flags.DEFINE_float("temperature", 2.0, "Of the soft targets.")
_HIDDEN = flags.DEFINE_float("hidden_state_weight", 1.0, "Weight of the hidden states, if taught.")
_PRETRAINING_STEPS = flags.DEFINE_integer(
    "pretraining_steps", 680, "Steps of pretraining distillation.", lower_bound=1
)
_COPIES = flags.DEFINE_integer("copies", 8, "Copies of each text.", lower_bound=1)
_MASKING_RATE = flags.DEFINE_float("masking_rate", 0.15, "Share of the words hidden at once.")
_SEEDS = flags.DEFINE_integer("seeds", 3, "Runs of each student.", lower_bound=1)
_TEACHER_SEEDS = flags.DEFINE_integer(
    "teacher_seeds", None, "Runs of the teacher; unset: as many as of a student.", lower_bound=1
)
_TEXTS = flags.DEFINE_integer("texts", None, "Rows of each file; unset: all.")
_SERVED = flags.DEFINE_integer("served", 100, "Texts of a round of the served models.")
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Rounds of each served model.", lower_bound=1)


class Side(NamedTuple):
    """A row of the table.

    Attributes:
        seeds: how many runs it has.
        data: folder of its task.
        init_from: folder that it starts from.
        options: where they differ from those of all.
    """

    seeds: int
    data: Path
    init_from: Path
    options: Mapping[str, Any]


def write_data(folder: Path) -> None:
    """Writes the data, the first rows of each file only with --texts."""
    if folder.exists():
        return
    with atomic_folder(folder) as part:
        _WRITE[_DATA.value](part)
        for path in part.glob("*.csv"):
            header, *rows = _rows(path)
            if _TEXTS.value is not None:
                # From all parts of the file: spam stands behind ham.
                rows = rows[:: max(1, len(rows) // _TEXTS.value)][: _TEXTS.value]
            with open(path, "w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows([header, *rows])


def _rows(path: Path) -> list[list[str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def _records(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _texts_of(path: Path) -> list[str]:
    return [row["text"] for row in _records(path)]


def augmented(data: Path, folder: Path) -> Path:
    """Returns a folder of the data with copies of the training texts, which have no labels."""
    if not folder.exists():
        with atomic_folder(folder) as part:
            shutil.copytree(data, part, dirs_exist_ok=True)
            # A word is a piece or more: what stands behind these is cut off before it is read.
            words = (
                text.split()[: _LENGTHS[_DATA.value]] for text in _texts_of(data / "train.csv")
            )
            beginnings = part / "beginnings.csv"
            with open(beginnings, "w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows([["text"], *([" ".join(text)] for text in words)])
            run_tool(
                "augment_data",
                model=_SAMPLE_MODEL,
                data=beginnings,
                output=part / "unlabeled.csv",
                copies=_COPIES.value,
                masking_rate=_MASKING_RATE.value,
            )
            beginnings.unlink()
    return folder


def widened(data: Path, folder: Path) -> Path:
    """Returns a folder of augmented data with what others have said of other things, too."""
    if not folder.exists():
        with atomic_folder(folder) as part:
            shutil.copytree(data, part, dirs_exist_ok=True)
            with open(part / "unlabeled.csv", "a", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows([text] for text in opinions.load())
    return folder


def distilled(data: Path, folder: Path) -> Path:
    """Returns the folder of a student that has learned MiniLM's hidden states and attention.

    Its text: essays (the Debian package anarchism), the novels and verses of the sample data, and
    the training texts of the task; the development texts are held out.
    """
    if not (folder / "text").is_dir():
        with atomic_folder(folder / "text") as part:
            english_text.write(part, ["anarchism"])
            for split, name in (("train", "train"), ("dev", "eval")):
                texts = (" ".join(text.split()) for text in _texts_of(data / f"{split}.csv"))
                content = "\n\n".join(texts) + "\n"
                (part / name / "task.txt").write_text(content, encoding="utf-8")
    if not (folder / "sample" / "pairs" / "test.csv").is_file():  # the last of its files
        run_tool("prepare_sample_data", output_dir=folder / "sample")
    minilm = packages.minilm()
    novels = folder / "sample" / "corpus" / "train"
    inputs = {
        "train": f"{folder}/text/train/*.txt,{novels}/*.txt",
        "eval": f"{folder}/text/eval/task.txt",
    }
    for split, texts in inputs.items():
        if not (folder / "records" / split / "manifest.json").is_file():
            run_tool(
                "create_pretraining_data",
                input=texts,
                vocab=minilm / "vocab.txt",
                output_dir=folder / "records" / split,
                sentence_task="none",
                max_seq_length=128,
                dupe_factor=1,
            )
    config = BertConfig.from_file(minilm / "config.json").replace(
        num_hidden_layers=len(_LAYERS.value),
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    with atomic_file(folder / "student.json") as path:
        path.write_text(json.dumps(config.to_dict(), indent=2) + "\n")
    if not (folder / "run" / "report.md").is_file():
        run_tool(
            "run_pretraining",
            objective="distillation",
            teacher=minilm,
            model=folder / "student.json",
            init_from=minilm,
            init_layers=",".join(_LAYERS.value),
            data_dir=folder / "records" / "train",
            eval_data_dir=folder / "records" / "eval",
            model_dir=folder / "run",
            train_steps=_PRETRAINING_STEPS.value,
            warmup_steps=_PRETRAINING_STEPS.value // 10,
            batch_size=32,
            learning_rate=5e-4,
            bias_correction=True,
            soft_target_weight=0,  # MiniLM has no head that predicts words
            masked_lm_weight=0,
            cosine_weight=1,
            hidden_state_weight=1,
            attention_weight=1,
        )
    if not (folder / "run" / "report.md").is_file():  # written at the end
        raise SystemExit("stopped: the same command goes on from here")
    return folder / "run" / "preset"


def sides(output: Path) -> dict[str, Side]:
    """Returns the rows of the table by title; makes what they start from and learn from."""
    data, minilm = output / "data", packages.minilm()
    write_data(data)
    answers = {
        "epochs": _STUDENT_EPOCHS.value,
        "teacher": str(output / "teacher"),
        "distillation_alpha": _ALPHA.value,
        "distillation_temperature": _TEMPERATURE.value,
    }
    layers = {"init_layers": tuple(_LAYERS.value)}
    hidden = {"hidden_state_weight": _HIDDEN.value}
    seeds, chosen = _SEEDS.value, _CHOSEN.value
    teachers = _TEACHER_SEEDS.value or seeds
    found = {"teacher": Side(teachers, data, minilm, {"epochs": _EPOCHS.value})}
    if "alone" in chosen:
        alone = layers | {"epochs": _STUDENT_EPOCHS.value}
        found["student alone"] = Side(seeds, data, minilm, alone)
    if "taught" in chosen:
        found["student, taught"] = Side(seeds, data, minilm, answers | layers | hidden)
    if "distilled" in chosen:
        start = distilled(data, output / "distilled")
        found["student, distilled"] = Side(seeds, data, start, answers)
    for name in ("augmented", "widened"):
        if name in chosen:
            start = distilled(data, output / "distilled")
            more = augmented(data, output / "data_augmented")
            if name == "widened":
                more = widened(more, output / "data_widened")
            changes = answers | {"epochs": _AUGMENTED_EPOCHS.value}
            found[f"student, {name}"] = Side(seeds, more, start, changes)
    return found


def serve(path: Path) -> Callable[[str], object]:
    """Returns what answers a text."""
    model = tf.saved_model.load(str(path))
    answer = model.signatures["serving_default"]
    return lambda text, model=model: answer(text=tf.constant([text]))


def milliseconds(paths: Mapping[str, Path], texts: list[str], rounds: int) -> dict[str, float]:
    """Returns the median over rounds of the mean time of a text."""
    served = {name: serve(path) for name, path in paths.items()}
    times: dict[str, list[float]] = {name: [] for name in served}
    for number in range(rounds + 1):
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
    shared = {
        "batch_size": 16,
        "learning_rate": _RATES[_DATA.value],
        "max_seq_length": _LENGTHS[_DATA.value],
    }
    results: dict[str, SearchResult] = {}
    exports: dict[str, Path] = {}
    for name, side in sides(output).items():
        folder = _folder(output, name)
        options = FinetuningOptions(**shared, **side.options)
        # A grid of one point: runs that were finished before are not made again.
        grid = {"epochs": [side.options["epochs"]]}
        found = search(
            task, task.read(side.data), side.init_from, folder, options, side.seeds, grid
        )
        if found is None:  # SIGTERM; the same command goes on
            return
        results[name] = found
        served = output / f"served_{folder.name}"
        shutil.rmtree(served, ignore_errors=True)
        exports[name] = export_saved_model(folder, served, options=ExportOptions("bfloat16"))
    texts = _texts_of(output / "data" / "test.csv")[: _SERVED.value]
    # As the kit of a bfloat16 export starts TF Serving. In a process of its own: weights that are
    # arranged once cannot be trained.
    os.environ["TF_ONEDNN_ASSUME_FROZEN_WEIGHTS"] = "1"
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        times = pool.submit(milliseconds, exports, texts, _ROUNDS.value).result()
    columns = ("parameters", "MB served", "ms a text", "times as fast", "test accuracy")
    print(f"| model | {' | '.join(columns)} | the teacher's answer | seeds |")
    print(f"|---{'|---' * len(columns)}|---|---|")
    right = _answers(_folder(output, "teacher"))  # of the run that teaches
    for name, found in results.items():
        runs = [_folder(output, name) / RUNS_FOLDER / run.name for run in found.runs]
        agreements = [
            statistics.mean(one == other for one, other in zip(_answers(run), right, strict=True))
            for run in runs
        ]
        accuracies = [run.measured.test["accuracy"] for run in found.runs]
        files = [path for path in exports[name].rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files) / 1e6
        model = FinetunedModel.load(_folder(output, name)).model
        print(
            f"| {name} | {model.count_params():,} | {size:.1f} | {times[name]:.2f} "
            f"| {times['teacher'] / times[name]:.2f} | {statistics.mean(accuracies):.4f} "
            f"| {statistics.mean(agreements):.1%} "
            f"| {', '.join(f'{accuracy:.4f}' for accuracy in accuracies)} |"
        )


def _folder(output: Path, name: str) -> Path:
    return output / name.replace(", ", "_").replace(" ", "_")


def _answers(folder: Path) -> list[str]:
    """Returns what a run said of the test texts."""
    return [row["predicted_label"] for row in _records(folder / "predictions_test.csv")]


if __name__ == "__main__":
    app.run(main)
