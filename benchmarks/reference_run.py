"""A reference run: an hour of pretraining on two cores, from Debian packages to two tasks.

    make benchmark NAME=reference_run ARGS='--folder=runs/reference'

Ten million words of English, a vocabulary of 8,000, a BERT of 4 layers of 256; then two tasks, from
the pretrained model and from fresh weights. With --points=5 from five points on the way, too, and
a picture of them, points.png: the shape of the paper's figure 5. The same command goes on where it
was stopped.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from absl import app, flags
from small_pretraining import COMMON, REVIEWS, START, VERSES, SmallPretraining, last_metrics

from keras_bert import BertConfig
from keras_bert.visualize.figure import new_figure

_FOLDER = flags.DEFINE_string("folder", None, "Folder of all stages.", required=True)
_TRAIN_STEPS = flags.DEFINE_integer("train_steps", 6000, "Steps of pretraining.")
_POINTS = flags.DEFINE_integer("points", 0, "Points that are fine-tuned, too.", lower_bound=0)


def main(_: list[str]) -> None:
    """Walks the stages and prints what came out."""
    steps, points = _TRAIN_STEPS.value, _POINTS.value
    if points and steps % points:
        raise app.UsageError(f"--train_steps={steps} is no multiple of --points={points}")
    figure = new_figure(6, 3.6) if points else None  # what is missing for it is told now
    stages = SmallPretraining(
        Path(_FOLDER.value), 128, steps, learning_rate=1e-3, tasks=(VERSES, REVIEWS)
    )
    stages.prepare()
    config = BertConfig.from_name("bert_mini", **COMMON, **START)
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
    axes.legend()


if __name__ == "__main__":
    app.run(main)
