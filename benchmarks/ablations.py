"""The paper's comparisons at a small size: objectives, masking, model sizes.

    python benchmarks/ablations.py --folder=runs/reference

Each run has the records, the seed and, unless size is what is compared, the size of that of
reference_run.py, and is then fine-tuned on the same two tasks. Together they take a night on two
cores; shorter ones end before the model has learned to use positions, and tell nothing. Tables of
what is done are printed after each run; the same command goes on where it was stopped.
"""

from pathlib import Path
from typing import Any, NamedTuple

import small_pretraining
from absl import app, flags
from small_pretraining import DOWNSTREAM, REFERENCE_STEPS

_FOLDER = flags.DEFINE_string("folder", None, "That of reference_run.py.", required=True)
_TRAIN_STEPS = flags.DEFINE_integer("train_steps", REFERENCE_STEPS, "Steps of each run.")


class Variant(NamedTuple):
    """A run: what a table calls it, its size, and how it differs from the first one otherwise."""

    title: str
    size: str = "bert_mini"
    differences: dict[str, Any] = {}


_SAME_SIZE = {
    "base": Variant("as the paper: masked LM and NSP, 80/10/10"),
    "no_nsp": Variant("no NSP", differences={"next_sentence": False}),
    "left_to_right": Variant(
        "left to right, no NSP", differences={"next_sentence": False, "objective": "left_to_right"}
    ),
    "all_mask": Variant("100 % [MASK]", differences={"mask_share": 1.0, "random_share": 0.0}),
    "all_random": Variant("100 % random", differences={"mask_share": 0.0, "random_share": 1.0}),
}
_SIZES = {
    "tiny": Variant("2 layers of 128", "bert_tiny"),
    "deeper": Variant("4 layers of 128", "bert_tiny", differences={"layers": 4}),
    "base": Variant("4 layers of 256"),
}
_TABLES = {
    "Objectives (the paper's table 5)": {
        name: _SAME_SIZE[name] for name in ("base", "no_nsp", "left_to_right")
    },
    "Masking (table 8)": {name: _SAME_SIZE[name] for name in ("base", "all_mask", "all_random")},
    "Size (table 6)": _SIZES,
}


def main(_: list[str]) -> None:
    """Makes all runs, the tables after each."""
    folder = Path(_FOLDER.value)
    small_pretraining.prepare(folder)
    done: dict[str, list[str]] = {}
    for name, variant in (_SAME_SIZE | _SIZES).items():
        done[name] = _measured(folder, name, variant)
        for title, table in _TABLES.items():
            _print_table(title, {key: value for key, value in table.items() if key in done}, done)


def _measured(folder: Path, name: str, variant: Variant) -> list[str]:
    """Makes a run and returns its cells of a table."""
    run = small_pretraining.pretrain(
        folder, f"ablations/{name}", variant.size, _TRAIN_STEPS.value, **variant.differences
    )
    scores = [small_pretraining.finetune(folder, run, task) for task in DOWNSTREAM]
    # A model that reads from left to right cannot be asked for a word in the middle.
    held_out = small_pretraining.last_metrics(run, "eval")
    if name != "left_to_right":
        held_out |= small_pretraining.held_out_metrics(folder, run)
    next_sentence = variant.differences.get("next_sentence", True)
    return [
        f"{held_out['masked_lm_loss']:.3f}",
        f"{held_out['masked_lm_accuracy']:.1%}",
        f"{held_out['next_sentence_accuracy']:.1%}" if next_sentence else "",
        *(f"{score:.1%}" for score in scores),
    ]


def _print_table(title: str, variants: dict[str, Variant], cells: dict[str, list[str]]) -> None:
    tasks = [downstream.title for downstream in DOWNSTREAM.values()]
    columns = ["loss", "accuracy", "NSP accuracy", *tasks]
    print(f"\n{title}\n\n| run | {' | '.join(columns)} |\n|---{'|---' * len(columns)}|")
    for name, variant in variants.items():
        print(f"| {variant.title} | {' | '.join(cells[name])} |", flush=True)


if __name__ == "__main__":
    app.run(main)
