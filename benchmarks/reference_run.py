"""A reference run on two cores, from packages of Debian to fine-tuned models: an hour, or a night.

    make benchmark NAME=reference_run ARGS='--folder=runs/reference'
    make benchmark NAME=reference_run ARGS='--folder=runs/night --size=night --points=5'

The hour: ten million words of English, a vocabulary of 8,000, a BERT of 4 layers of 256, two tasks,
from the pretrained model and from fresh weights. The night: three times the words, 6 layers, more
steps, five tasks. With --points=5 from five points on the way, too, and a picture of them,
points.png: the shape of the paper's figure 5. The same command goes on where it was stopped.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import english_text
from absl import app, flags
from small_pretraining import (
    COMMON,
    NAMES,
    PARTS_OF_SPEECH,
    REVIEWS,
    SPAM,
    START,
    VERSES,
    Downstream,
    SmallPretraining,
    last_metrics,
)

from keras_bert import BertConfig
from keras_bert.visualize.figure import new_figure


class Size(NamedTuple):
    """How much is made.

    Attributes:
        packages: where the text comes from.
        layers: of 256.
        train_steps: of 32 sequences of 128.
        tasks: that the model is judged by.
    """

    packages: tuple[str, ...]
    layers: int
    train_steps: int
    tasks: tuple[Downstream, ...]


_SIZES = {
    "hour": Size(english_text.PACKAGES, 4, 6000, (VERSES, REVIEWS)),
    "night": Size(
        english_text.MORE_PACKAGES,
        6,
        8000,
        # The name of a metric stands behind the title in this table.
        (VERSES, NAMES._replace(title="proper names"), PARTS_OF_SPEECH, REVIEWS, SPAM),
    ),
}

_FOLDER = flags.DEFINE_string("folder", None, "Folder of all stages.", required=True)
_SIZE = flags.DEFINE_enum("size", "hour", sorted(_SIZES), "How much is made.")
_TRAIN_STEPS = flags.DEFINE_integer("train_steps", None, "Of pretraining; unset: of the size.")
_POINTS = flags.DEFINE_integer("points", 0, "Points that are fine-tuned, too.", lower_bound=0)


def main(_: list[str]) -> None:
    """Walks the stages and prints what came out."""
    size = _SIZES[_SIZE.value]
    steps, points = _TRAIN_STEPS.value or size.train_steps, _POINTS.value
    if points and steps % points:
        raise app.UsageError(f"--train_steps={steps} is no multiple of --points={points}")
    figure = new_figure(7, 3.6) if points else None  # what is missing for it is told now
    stages = SmallPretraining(
        Path(_FOLDER.value), 128, steps, 1e-3, tasks=size.tasks, packages=size.packages
    )
    stages.prepare()
    config = BertConfig.from_name("bert_mini", **COMMON, **START, num_hidden_layers=size.layers)
    run = stages.pretrain("pretraining", config, preset_steps=steps // points if points else 0)
    on_the_way = [point * steps // points for point in range(1, points + 1)]
    if not all((run / "kept_presets" / f"step_{step}").is_dir() for step in on_the_way):
        raise app.UsageError(f"{run} was made without --points={points}: choose another --folder")
    held_out, all_mask = last_metrics(run, "eval"), stages.held_out_metrics(run)
    print("\n| what | value |\n|---|---|")
    for name in ("masked_lm_loss", "masked_lm_accuracy", "next_sentence_accuracy"):
        print(f"| {name}, held out | {held_out[name]:.4f} |")
    print(f"| masked_lm_accuracy, held out, all [MASK] | {all_mask['masked_lm_accuracy']:.4f} |")
    print(f"| most frequent piece | {held_out['most_frequent_piece_accuracy']:.4f} |")
    curves: dict[str, list[float]] = {}
    for task in stages.tasks:
        fresh = stages.finetune(run, task, from_scratch=True)
        print(f"| {task.title}, {task.metric}, fresh weights | {fresh:.4f} |", flush=True)
        curves[task.title] = [fresh]
        for step in on_the_way:
            score = stages.finetune(run, task, step=None if step == steps else step)
            print(f"| {task.title}, {task.metric}, step {step} | {score:.4f} |", flush=True)
            curves[task.title].append(score)
        if not points:
            score = stages.finetune(run, task)
            print(f"| {task.title}, {task.metric}, pretrained | {score:.4f} |", flush=True)
    if figure is not None:
        axes = figure.subplots()
        _draw(axes, curves, [0, *on_the_way])
        figure.savefig(stages.folder / "points.png", dpi=110)


def _draw(axes: Any, curves: Mapping[str, Sequence[float]], steps: Sequence[int]) -> None:
    for title, scores in curves.items():
        axes.plot(steps, [100 * score for score in scores], "o-", label=title)
    axes.set(xlabel="steps of pretraining (0: fresh weights)", ylabel="after fine-tuning, %")
    axes.grid(alpha=0.3)
    axes.figure.legend(loc="outside right upper")


if __name__ == "__main__":
    app.run(main)
