"""BERT and its successors at equal operations: masked LM, RoBERTa's recipe, ALBERT, ELECTRA.

    make benchmark NAME=families ARGS='--folder=runs/families'

All have the text and the vocabulary of reference_run.py, sequences of 64 and four blocks 128 wide.
Positions start as sinusoids and, where no dense layer mixes them (all but ALBERT and ELECTRA's
generator), the first heads at neighbouring words. A run has as many steps as make its operations
(those of matrix products, forward and backward) a part of what BERT's --train_steps take. Then each
is fine-tuned on three tasks; all is made with one seed, then with the next, and the table of what
is done is printed after each. The same command goes on where it was stopped. Two halves may go side
by side, each under `taskset -c 0` or `taskset -c 1` with its own --runs=NAME --runs=...; the
command without then prints the table of all and draws it into families.png. What each run reached
stands in scores.jsonl of the folder. --scores=FILE reads and extends FILE in its place: a copy from
another machine, whose runs are not made again (but for BERT's where fresh weights of its size are
missing).
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from absl import app, flags
from score_file import ScoreFile
from small_pretraining import (
    BATCH_SIZE,
    COMMON,
    NAMES,
    REVIEWS,
    START,
    VERSES,
    SmallPretraining,
    median_and_range,
)

from keras_bert import AlbertConfig, BertConfig, ElectraConfig
from keras_bert.choices import SentenceTask
from keras_bert.models.encoder import create_encoder
from keras_bert.pretraining.objectives.registry import objective_named
from keras_bert.visualize.figure import new_figure

_FOLDER = flags.DEFINE_string("folder", None, "Folder of all stages.", required=True)
_TRAIN_STEPS = flags.DEFINE_integer("train_steps", 6000, "Steps of BERT with all operations.")
_SEEDS = flags.DEFINE_integer("seeds", 3, "Runs of each kind.", lower_bound=1)
_SCORES = flags.DEFINE_string("scores", None, "File of finished runs; unset: in the folder.")
_LENGTH = 64
_PREDICTIONS = 10
_LEARNING_RATE = 1e-3
_PARTS = (0.3, 1.0)  # of the operations
_TASKS = (VERSES, NAMES, REVIEWS)
_NUMBERS = {
    **COMMON,
    "num_hidden_layers": 4,
    "hidden_size": 128,
    "num_attention_heads": 2,
    "intermediate_size": 512,
    **START,
}


class Recipe(NamedTuple):
    """How a family is pretrained.

    Attributes:
        title: for tables.
        config: the model.
        sentence_task: how the sentences of its records are paired.
        batch_size: sequences of a step.
        flags: of run_pretraining.py.
    """

    title: str
    config: BertConfig
    sentence_task: SentenceTask = "nsp"
    batch_size: int = BATCH_SIZE
    flags: Mapping[str, Any] = {}

    def steps(self, operations: float) -> int:
        """Returns how many steps take so many operations."""
        objective = objective_named(self.flags.get("objective", "masked"), self.sentence_task)
        of_step = objective.flops(self.config, self.batch_size, _LENGTH, _PREDICTIONS)
        return round(operations / of_step)


_RECIPES = {
    "bert": Recipe("BERT", BertConfig(**_NUMBERS)),
    # Whole documents, no pairs, twice the batch; masks are drawn anew for each pass in all of them.
    "roberta": Recipe(
        "RoBERTa's recipe",
        BertConfig(**_NUMBERS),
        "none",
        2 * BATCH_SIZE,
        {"batch_size": 2 * BATCH_SIZE, "learning_rate": 1.4 * _LEARNING_RATE},
    ),
    "albert": Recipe(
        "ALBERT",
        AlbertConfig(**(_NUMBERS | {"position_initializer": "sinusoids"}), embedding_size=64),
        "sop",
        flags={"masking": "ngram"},
    ),
    "electra": Recipe(
        "ELECTRA",
        ElectraConfig(**_NUMBERS, embedding_size=128, generator_size=0.25),
        "none",
        flags={"objective": "electra"},
    ),
}
_RUNS = flags.DEFINE_multi_enum("runs", None, list(_RECIPES), "Only this one; unset: all.")
# Scores of the tasks for each seed, by recipe and part of the operations.
Found = dict[tuple[str, float], list[tuple[float, ...]]]


def main(_: list[str]) -> None:
    """Makes all runs with one seed after the other, the table after each."""
    stages = SmallPretraining(
        Path(_FOLDER.value), _LENGTH, _TRAIN_STEPS.value, _LEARNING_RATE, _TASKS
    )
    scores = ScoreFile(Path(_SCORES.value or stages.folder / "scores.jsonl"))
    of_step = objective_named("masked").flops(
        _RECIPES["bert"].config, BATCH_SIZE, _LENGTH, _PREDICTIONS
    )
    names = _RUNS.value or list(_RECIPES)
    found: Found = {}

    def note(name: str, part: float, seed: int, measure: Callable[[], dict[str, float]]) -> None:
        """Adds what a run reached, measured if it is in no file."""
        recipe = _RECIPES.get(name, _RECIPES["bert"])
        steps = recipe.steps(part * _TRAIN_STEPS.value * of_step)
        start = recipe.config.position_initializer
        run = {"recipe": name, "start": start, "part": part, "seed": seed, "steps": steps}
        if isinstance(recipe.config, ElectraConfig):
            run["generator"] = recipe.config.generator_size
        reached = scores.measured([task.name for task in _TASKS], measure, **run)
        found.setdefault((name, part), []).append(tuple(reached[task.name] for task in _TASKS))
        _print_table(found, of_step)

    for seed in range(_SEEDS.value):
        for part in _PARTS:
            for name in names:

                def tune(name=name, part=part, seed=seed, fresh=False) -> dict[str, float]:
                    stages.prepare()
                    run = _pretrained(stages, name, part, of_step, seed)
                    return {task.name: stages.finetune(run, task, fresh, seed) for task in _TASKS}

                note(name, part, seed, tune)
                if (name, part) == ("bert", _PARTS[-1]):
                    # Whose model's weights are not taken makes no difference.
                    note("fresh", 0.0, seed, partial(tune, fresh=True))
    stages.folder.mkdir(parents=True, exist_ok=True)
    _draw(found, of_step, stages.folder / "families.png")


def _pretrained(stages: SmallPretraining, name: str, part: float, of_step: int, seed: int) -> Path:
    recipe = _RECIPES[name]
    steps = recipe.steps(part * _TRAIN_STEPS.value * of_step)
    flags = {"seed": seed, "eval_steps": max(1, steps // 5), **recipe.flags}
    return stages.pretrain(
        f"{name}_{part}_{seed}", recipe.config, recipe.sentence_task, steps, **flags
    )


def _print_table(found: Found, of_step: int) -> None:
    titles = [task.title for task in _TASKS]
    columns = ["recipe", "parameters of the encoder", "operations", "steps", *titles]
    print(f"\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for (name, part), scores in sorted(found.items(), key=lambda item: (item[0][1], item[0][0])):
        operations = part * _TRAIN_STEPS.value * of_step
        cells = [median_and_range(values) for values in zip(*scores, strict=True)]
        recipe = _RECIPES.get(name)
        first = ["BERT, fresh weights", "", "0", "0"]
        if recipe:
            parameters = create_encoder(recipe.config).count_params()
            first = [recipe.title, f"{parameters:,}", f"{operations:.2e}"]
            first.append(f"{recipe.steps(operations):,}")
        print(f"| {' | '.join([*first, *cells])} |", flush=True)


def _draw(found: Found, of_step: int, path: Path) -> None:
    """Draws the scores over the operations, a panel for each task; bars are the range of seeds."""
    figure = new_figure(11, 3.6)
    for index, (task, axes) in enumerate(zip(_TASKS, figure.subplots(1, len(_TASKS)), strict=True)):
        for name, recipe in _RECIPES.items():
            points: list[tuple[float, Sequence[float]]] = [
                (part * _TRAIN_STEPS.value * of_step, [100 * one[index] for one in scores])
                for (other, part), scores in found.items()
                if other == name
            ]
            if points:
                medians = [statistics.median(scores) for _, scores in points]
                below = [m - min(s) for m, (_, s) in zip(medians, points, strict=True)]
                above = [max(s) - m for m, (_, s) in zip(medians, points, strict=True)]
                axes.errorbar(
                    [operations for operations, _ in points],
                    medians,
                    [below, above],
                    fmt="o-",
                    capsize=3,
                    label=recipe.title,
                )
        if fresh := found.get(("fresh", 0.0)):
            middle = statistics.median(100 * scores[index] for scores in fresh)
            axes.axhline(middle, color="grey", linestyle="--", label="BERT, fresh weights")
        axes.set(xscale="log", xlabel="operations of pretraining", ylabel=f"{task.title}, %")
        axes.grid(alpha=0.3)
    figure.axes[0].legend()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    app.run(main)
