"""The paper's comparisons at a small size: objectives, masking, model sizes.

    make benchmark NAME=ablations ARGS='--folder=runs/ablations'

Each run has the text and the vocabulary of reference_run.py, sequences of 64, and the same seed; it
is judged on held-out text and by fine-tuning on two tasks. Together they take about an hour and a
half on two cores. Tables of what is done are printed after each run; the same command goes on where
it was stopped. Small models use one core well, so two halves may go side by side, each under
`taskset -c 0` or `taskset -c 1` and with its own --runs=NAME --runs=...; the command without then
prints all tables and draws the held-out accuracy of all runs into ablations.png.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from absl import app, flags
from small_pretraining import NAMES, VERSES, SmallPretraining, last_metrics

from keras_bert.visualize.figure import new_figure

_FOLDER = flags.DEFINE_string("folder", None, "Folder of all stages.", required=True)
_TRAIN_STEPS = flags.DEFINE_integer("train_steps", 8000, "Steps of each run.")
_SIZE = "bert_tiny"
_LEARNING_RATE = 2e-3


class Variant(NamedTuple):
    """A run: what a table calls it, and how it differs from the first one.

    Attributes:
        title: for tables.
        flags: of run_pretraining.py.
        size: fields of the config.
    """

    title: str
    flags: Mapping[str, Any] = {}
    size: Mapping[str, int] = {}


_VARIANTS = {
    "base": Variant("as the paper: masked LM and NSP, 80/10/10, 2 layers of 128"),
    "left_to_right": Variant(
        "left to right, no NSP", {"next_sentence": False, "objective": "left_to_right"}
    ),
    "no_nsp": Variant("no NSP", {"next_sentence": False}),
    "all_mask": Variant("100 % [MASK]", {"mask_token_rate": 1.0, "random_token_rate": 0.0}),
    "deeper": Variant("4 layers of 128", size={"num_hidden_layers": 4}),
    "narrower": Variant(
        "2 layers of 64",
        size={"hidden_size": 64, "num_attention_heads": 1, "intermediate_size": 256},
    ),
    "all_mask_half_rate": Variant(
        "100 % [MASK], half the learning rate",
        {"mask_token_rate": 1.0, "random_token_rate": 0.0, "learning_rate": _LEARNING_RATE / 2},
    ),
}
_TABLES = {
    "Objectives (the paper's table 5)": ("base", "no_nsp", "left_to_right"),
    "Masking (table 8)": ("base", "all_mask", "all_mask_half_rate"),
    "Size (table 6)": ("narrower", "base", "deeper"),
}
_RUNS = flags.DEFINE_multi_enum("runs", None, list(_VARIANTS), "Only this one; unset: all.")


def main(_: list[str]) -> None:
    """Makes all runs, the tables after each."""
    stages = SmallPretraining(
        Path(_FOLDER.value), 64, _TRAIN_STEPS.value, _LEARNING_RATE, tasks=(VERSES, NAMES)
    )
    stages.prepare()
    cells: dict[str, list[str]] = {}
    for name in _RUNS.value or _VARIANTS:
        cells[name] = _measured(stages, name)
        for title, names in _TABLES.items():
            _print_table(title, stages, [key for key in names if key in cells], cells)
    if "base" in cells:
        run = stages.folder / "base"
        scores = [f"{stages.finetune(run, task, from_scratch=True):.1%}" for task in stages.tasks]
        print(f"\nfresh weights of the first run's size: {', '.join(scores)}")
    drawn = [stages.folder / name for name in cells if name != "left_to_right"]
    if drawn:
        _draw(drawn)


def _measured(stages: SmallPretraining, name: str) -> list[str]:
    """Makes a run and returns its cells of a table."""
    variant = _VARIANTS[name]
    run = stages.pretrain(name, _SIZE, variant.size, **variant.flags)
    scores = [stages.finetune(run, task) for task in stages.tasks]
    # A model that reads from left to right cannot be asked for a word in the middle.
    asked = last_metrics(run, "eval") if name == "left_to_right" else stages.held_out_metrics(run)
    next_sentence = variant.flags.get("next_sentence", True)
    return [
        f"{asked['masked_lm_loss']:.3f}",
        f"{asked['masked_lm_accuracy']:.1%}",
        f"{last_metrics(run, 'eval')['next_sentence_accuracy']:.1%}" if next_sentence else "",
        *(f"{score:.1%}" for score in scores),
    ]


def _print_table(
    title: str, stages: SmallPretraining, names: list[str], cells: dict[str, list[str]]
) -> None:
    columns = ["loss", "accuracy", "NSP accuracy", *(task.title for task in stages.tasks)]
    print(f"\n{title}\n\n| run | {' | '.join(columns)} |\n|---{'|---' * len(columns)}|")
    for name in names:
        print(f"| {_VARIANTS[name].title} | {' | '.join(cells[name])} |", flush=True)


def _draw(runs: list[Path]) -> None:
    """Draws how the runs learned; targets of a left-to-right model are others."""
    figure = new_figure(9, 4.5)
    axes = figure.subplots()
    for run in runs:
        lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
        held_out = [line for line in lines if line["split"] == "eval"]
        points = [(line["step"], line["masked_lm_accuracy"]) for line in held_out]
        axes.plot(*zip(*points, strict=True), "o-", label=_VARIANTS[run.name].title)
    axes.set(xlabel="step", ylabel="masked LM accuracy, held out, masked as in training")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(runs[0].parent / "ablations.png", dpi=110)


if __name__ == "__main__":
    app.run(main)
