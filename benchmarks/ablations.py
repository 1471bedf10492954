"""The paper's comparisons at a small size: objectives, masking, sizes, features.

    make benchmark NAME=ablations ARGS='--folder=runs/ablations'

Each run has the text and the vocabulary of reference_run.py and sequences of 64; it is judged on
held-out text, by fine-tuning on two tasks, and by a BiLSTM on its frozen features. All are made
with one seed, then with the next, and the tables of what is done are printed after each; the same
command goes on where it was stopped. Small models use one core well, so two halves may go side by
side, each under `taskset -c 0` or `taskset -c 1` and with its own --runs=NAME --runs=...; the
command without then prints all tables and draws them into ablations.png. What each run reached
stands in scores.jsonl of the folder. --scores=FILE reads and extends FILE in its place: a copy from
another machine, whose runs are made again only where fresh weights or features want their models.
"""

import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from absl import app, flags
from score_file import ScoreFile
from small_pretraining import (
    COMMON,
    NAMES,
    START,
    VERSES,
    SmallPretraining,
    last_metrics,
    median_and_range,
    name_features,
)

from keras_bert import BertConfig
from keras_bert.choices import SentenceTask
from keras_bert.visualize.figure import new_figure

_FOLDER = flags.DEFINE_string("folder", None, "Folder of all stages.", required=True)
_TRAIN_STEPS = flags.DEFINE_integer("train_steps", 3000, "Steps of each run.")
_SEEDS = flags.DEFINE_integer("seeds", 3, "Runs of each kind.", lower_bound=1)
_SCORES = flags.DEFINE_string("scores", None, "File of finished runs; unset: in the folder.")
_LEARNING_RATE = 1e-3
_SUM_ALL = name_features("sum_all", "names from frozen features, F1")


class Variant(NamedTuple):
    """A run: what a table calls it, and how it differs from the first one.

    Attributes:
        title: for tables.
        flags: of run_pretraining.py.
        size: fields of the config.
        sentence_task: how the sentences of its records are paired.
    """

    title: str
    flags: Mapping[str, Any] = {}
    size: Mapping[str, int] = {}
    sentence_task: SentenceTask = "nsp"


# Scores of a run beside those of its tasks: of held-out text with every chosen piece a [MASK], and
# of the task that its sentences are paired for, where there is one.
_LOSS = "masked_lm_loss"
_ACCURACY = "masked_lm_accuracy"
_PAIRS = "sentence_accuracy"
# Scores by their names, one for each seed.
Found = Mapping[str, Sequence[Mapping[str, float]]]


def _mix(mask: float, random: float) -> Variant:
    kept = abs(1 - mask - random)  # not -0 %
    title = f"{mask:.0%} [MASK], {random:.0%} random, {kept:.0%} unchanged"
    return Variant(title, {"mask_token_rate": mask, "random_token_rate": random})


def _rate(rate: float) -> Variant:
    return Variant(f"{rate:.0%} chosen", {"masked_lm_prob": rate})


def _size(layers: int, width: int, heads: int) -> Variant:
    size = {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": heads,
        "intermediate_size": 4 * width,
    }
    return Variant(f"{layers} layers of {width}", size=size)


_TASKS = (VERSES, NAMES, _SUM_ALL)
_VARIANTS = {
    "base": Variant("as the paper"),
    "no_nsp": Variant("no NSP", {"next_sentence": False}),
    "left_to_right": Variant(
        "left to right, no NSP", {"next_sentence": False, "objective": "left_to_right"}
    ),
    "deeper": _size(4, 128, 2),
    "narrower": _size(2, 64, 1),
    "all_mask": _mix(1.0, 0.0),
    "sentence_order": Variant("sentence order", sentence_task="sop"),
    "no_pairs": Variant("no pairs: one run of text", sentence_task="none"),
    "whole_word": Variant("whole words", {"masking": "whole_word"}),
    "wider": _size(2, 256, 4),
    "all_random": _mix(0.0, 1.0),
    "rate_50": _rate(0.5),
    "rate_30": _rate(0.3),
    "rate_5": _rate(0.05),
    "mask_or_unchanged": _mix(0.8, 0.0),
    "mask_or_random": _mix(0.8, 0.2),
    "random_or_unchanged": _mix(0.0, 0.2),
}
# Title of a table -> its rows, and what it calls the first run.
_TABLES: Mapping[str, tuple[Sequence[str], str]] = {
    "Objectives (the paper's table 5)": (
        ("base", "no_nsp", "left_to_right"),
        "masked LM and NSP",
    ),
    "Size (table 6)": (("narrower", "base", "deeper", "wider"), "2 layers of 128"),
    "What chosen pieces become (table 8)": (
        (
            "base",
            "all_mask",
            "mask_or_unchanged",
            "mask_or_random",
            "random_or_unchanged",
            "all_random",
        ),
        "80% [MASK], 10% random, 10% unchanged",
    ),
    "How many pieces are chosen": (("rate_5", "base", "rate_30", "rate_50"), "15% chosen"),
    "What is chosen as one": (("base", "whole_word"), "pieces"),
    "What sentences are paired for": (
        ("base", "sentence_order", "no_pairs"),
        "next sentence",
    ),
}
# The strategies of table 7, by the name of the run that they are taken from.
_FEATURES_OF = "deeper"
_STRATEGIES = (
    name_features("embeddings", "embeddings"),
    name_features("second_to_last", "second layer from the top"),
    name_features("last", "last layer"),
    name_features("sum_last_4", "sum of the last four layers"),
    name_features("concat_last_4", "last four layers side by side"),
    name_features("sum_all", "sum of all layers"),
)
# Rows that look at other runs in another way.
_FRESH = "fresh"
_FEATURES = "features"
_RUNS = flags.DEFINE_multi_enum("runs", None, list(_VARIANTS), "Only this one; unset: all.")


def main(_: list[str]) -> None:
    """Makes all runs with one seed after the other, the tables after each."""
    stages = SmallPretraining(
        Path(_FOLDER.value), 64, _TRAIN_STEPS.value, _LEARNING_RATE, tasks=(VERSES, NAMES)
    )
    file = ScoreFile(Path(_SCORES.value or stages.folder / "scores.jsonl"))
    # Rows of tables, and what must be known of each.
    rows: dict[str, Sequence[str]] = {
        name: [_LOSS, _ACCURACY, *(task.name for task in _TASKS)]
        + ([_PAIRS] if _pairs(_VARIANTS[name]) else [])
        for name in _RUNS.value or _VARIANTS
    }
    if "base" in rows:
        rows[_FRESH] = [VERSES.name, NAMES.name]
    if _FEATURES_OF in rows:
        rows[_FEATURES] = [task.name for task in _STRATEGIES]
    found: dict[str, list[Mapping[str, float]]] = {name: [] for name in rows}
    for seed in range(_SEEDS.value):
        for name, names in rows.items():
            run = {"run": name, "start": START["position_initializer"], "seed": seed}
            measure = partial(_measure, stages, name, seed)
            scores = file.measured(names, measure, **run, steps=_TRAIN_STEPS.value)
            found[name].append(scores)
            _print_tables(found)
    stages.folder.mkdir(parents=True, exist_ok=True)
    _draw(found, stages.folder / "ablations.png")


def _measure(stages: SmallPretraining, name: str, seed: int) -> dict[str, float]:
    """Makes a run and returns its scores; two rows look at other runs in another way."""
    stages.prepare()
    if name == _FRESH:
        run = _pretrained(stages, "base", seed)
        return {task.name: stages.finetune(run, task, True, seed) for task in (VERSES, NAMES)}
    if name == _FEATURES:
        run = _pretrained(stages, _FEATURES_OF, seed)
        return {task.name: stages.finetune(run, task, seed=seed) for task in _STRATEGIES}
    return _scores(stages, _pretrained(stages, name, seed), name, seed)


def _pretrained(stages: SmallPretraining, name: str, seed: int) -> Path:
    variant = _VARIANTS[name]
    return stages.pretrain(
        f"{name}_{seed}",
        BertConfig.from_name("bert_tiny", **{**COMMON, **START, **variant.size}),
        variant.sentence_task,
        seed=seed,
        **variant.flags,
    )


def _pairs(variant: Variant) -> bool:
    """Whether a run learns a task of sentence pairs."""
    return variant.sentence_task != "none" and variant.flags.get("next_sentence", True)


def _scores(stages: SmallPretraining, run: Path, name: str, seed: int) -> dict[str, float]:
    variant = _VARIANTS[name]
    trained = last_metrics(run, "eval")
    # A model that reads from left to right cannot be asked for a word in the middle.
    asked = trained if name == "left_to_right" else stages.held_out_metrics(run)
    scores = {key: asked[key] for key in (_LOSS, _ACCURACY)}
    if _pairs(variant):
        scores[_PAIRS] = trained["next_sentence_accuracy"]
    return scores | {task.name: stages.finetune(run, task, seed=seed) for task in _TASKS}


def _print_tables(found: Found) -> None:
    columns = ("loss", "accuracy", "sentence pairs", *(task.title for task in _TASKS))
    keys = (_ACCURACY, _PAIRS, *(task.name for task in _TASKS))
    for title, (names, first) in _TABLES.items():
        rows = {_title(name, first): found[name] for name in names if found.get(name)}
        if rows:
            _print_head(title, "run", columns)
        for row, scores in rows.items():
            cells = [_cell(scores, key) for key in keys]
            _print_row(row, median_and_range([one[_LOSS] for one in scores], 1, 2), *cells)
    if fresh := found.get(_FRESH):
        _print_head("Fresh weights", "run", (VERSES.title, NAMES.title))
        _print_row("2 layers of 128", *(_cell(fresh, task.name) for task in (VERSES, NAMES)))
    if strategies := found.get(_FEATURES):
        title = f"Features of {_VARIANTS[_FEATURES_OF].title} (table 7)"
        _print_head(title, "features", (NAMES.title,))
        _print_row("fine-tuned, for comparison", _cell(found[_FEATURES_OF], NAMES.name))
        for task in _STRATEGIES:
            _print_row(task.title, _cell(strategies, task.name))


def _cell(scores: Sequence[Mapping[str, float]], key: str) -> str:
    return median_and_range([one[key] for one in scores if key in one])


def _title(name: str, first: str) -> str:
    return first if name == "base" else _VARIANTS[name].title


def _print_head(title: str, first: str, columns: Sequence[str]) -> None:
    print(f"\n{title}\n\n| {first} | {' | '.join(columns)} |\n|---{'|---' * len(columns)}|")


def _print_row(title: str, *cells: str) -> None:
    print(f"| {title} | {' | '.join(cells)} |", flush=True)


def _draw(found: Found, path: Path) -> None:
    """Draws every run as a dot, one panel for each task, one row for each kind of run."""
    rows = [name for name in found if name in _VARIANTS]
    figure = new_figure(10, 1 + 0.28 * len(rows))
    panels = figure.subplots(1, len(_TASKS), sharey=True)
    for task, axes in zip(_TASKS, panels, strict=True):
        for row, name in enumerate(rows):
            values = [100 * scores[task.name] for scores in found[name]]
            axes.plot(values, [row] * len(values), "o", color="C0", alpha=0.6)
            axes.plot(statistics.median(values), row, "|", color="black", markersize=14)
        axes.set(xlabel=f"{task.title}, %")
        axes.grid(alpha=0.3)
    titles = [_title(name, "as the paper, 2 layers of 128") for name in rows]
    panels[0].set_yticks(range(len(rows)), titles)
    panels[0].invert_yaxis()
    figure.savefig(path, dpi=110, bbox_inches="tight")


if __name__ == "__main__":
    app.run(main)
