"""What the pretraining of the sample model is worth: five tasks from it and from fresh weights.

    make benchmark NAME=sample_model ARGS='--folder=runs/sample_model'
    make benchmark NAME=sample_model ARGS='--folder=runs/sample_model --tasks=names --tasks=reviews'

Fresh weights are those of a model of the same size whose positions start as sinusoids. For each
task both choose their peak rate out of --learning_rates by one run each and the development data;
then --seeds runs with what was chosen are measured on the test data. The same command goes on where
it was stopped.
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import brown
import food_reviews
import spam
from absl import app, flags
from small_pretraining import START, median_and_range, run_tool

from keras_bert import (
    FinetuningOptions,
    create_encoder,
    create_task,
    load_tokenizer,
    search,
)
from keras_bert.models.preset import read_config
from keras_bert.storage.files import atomic_folder
from keras_bert.tasks.tagging.column_files import WordColumns

_SAMPLE_MODEL = Path(__file__).resolve().parents[1] / "tools" / "sample_model"


class Measured(NamedTuple):
    """A task that both starts learn.

    Attributes:
        title: for the table.
        metric: the one that counts.
        data: its folder within the one of the benchmark; tasks may share it.
        epochs: passes; the best by the development data is kept.
        columns: those of words and tags in files of words; None for texts.
    """

    title: str
    metric: str
    data: str
    epochs: int
    columns: WordColumns | None = None


_TASKS = {
    "names": Measured("proper names, F1 of whole names", "f1", "brown", 2, brown.NAMES),
    "parts": Measured("parts of speech, accuracy", "accuracy", "brown", 2, brown.PARTS_OF_SPEECH),
    "reviews": Measured("food reviews, accuracy", "accuracy", "reviews", 3),
    "spam": Measured("mails of SpamAssassin, accuracy", "accuracy", "spam", 2),
    "verses": Measured("verse pairs, accuracy", "accuracy", "verses/pairs", 2),
}
_WRITE: dict[str, Callable[[Path], object]] = {
    "brown": lambda folder: brown.write(folder, training_texts=60),
    "reviews": lambda folder: food_reviews.write(folder, validation=400),
    "spam": spam.write,
    "verses": lambda folder: run_tool("prepare_sample_data", output_dir=folder),
}
_STARTS = ("fresh weights", "sample model")

_FOLDER = flags.DEFINE_string("folder", None, "Folder of data and runs.", required=True)
_NAMES = flags.DEFINE_multi_enum("tasks", list(_TASKS), list(_TASKS), "Only these.")
_SEEDS = flags.DEFINE_integer("seeds", 3, "Runs of each start with what it chose.", lower_bound=1)
_RATES = flags.DEFINE_list("learning_rates", ["1e-4", "5e-4"], "Each start chooses one of them.")


def fresh(folder: Path) -> Path:
    """Returns a folder with the numbers and vocabulary of the sample model, made once."""
    made = folder / "fresh"
    if not made.is_dir():
        start = START | {"position_initializer": "sinusoids"}
        config = dataclasses.replace(read_config(_SAMPLE_MODEL), **start)
        with atomic_folder(made) as temporary:
            encoder = create_encoder(config)
            encoder.save_to_preset(temporary, load_tokenizer(_SAMPLE_MODEL))
    return made


def read(measured: Measured, folder: Path) -> tuple[Any, Any]:
    """Returns the task and its data, which are written if need be."""
    root = measured.data.split("/")[0]
    if not (folder / root).is_dir():
        with atomic_folder(folder / root) as temporary:
            _WRITE[root](temporary)
    data = folder / measured.data
    task = brown.tagging_task(data, measured.columns) if measured.columns else create_task("csv")
    return task, task.read(data)


def scores(name: str, folder: Path, start: str) -> list[float] | None:
    """Returns the metric on the test data with each seed; None where SIGTERM ended a run.

    Args:
        name: of the task.
        folder: of data and runs.
        start: one of `_STARTS`.
    """
    measured = _TASKS[name]
    task, data = read(measured, folder)
    options = FinetuningOptions(
        epochs=measured.epochs,
        batch_size=32,
        max_seq_length=64 if measured.columns else 128,
        from_scratch=start == _STARTS[0],
    )
    init_from = fresh(folder) if options.from_scratch else _SAMPLE_MODEL
    model_dir = folder / f"{name}_{start.replace(' ', '_')}"
    grid = {"learning_rate": [float(rate) for rate in _RATES.value]}
    trials = search(task, data, init_from, model_dir, options, grid=grid)
    if trials is None:
        return None
    # A grid of one point: its trial is the first seed and not made again.
    chosen = {option: (value,) for option, value in trials.best.point.items()}
    found = search(task, data, init_from, model_dir, options, _SEEDS.value, chosen)
    if found is None:
        return None
    learned = [run.result.test[measured.metric] for run in found.runs if run.collapsed is None]
    collapsed = len(found.runs) - len(learned)
    print(f"{measured.title}, {start}: {chosen}, {learned}, {collapsed} collapsed", flush=True)
    return learned


def main(_: list[str]) -> None:
    """Prints the table after each task."""
    folder, rows = Path(_FOLDER.value), []
    for name in _NAMES.value:
        cells = [_TASKS[name].title]
        for start in _STARTS:
            found = scores(name, folder, start)
            if found is None:  # SIGTERM; the same command goes on
                return
            cells.append(median_and_range(found) or "collapsed")
        rows.append(cells)
        print(f"\n| task | {' | '.join(_STARTS)} |\n|---|---|---|")
        print("\n".join(f"| {' | '.join(row)} |" for row in rows), flush=True)


if __name__ == "__main__":
    app.run(main)
