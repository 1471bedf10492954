"""Learning curves of a pretraining run as a picture."""

import os
from collections.abc import Sequence
from typing import Any

from keras_bert.storage.files import atomic_file
from keras_bert.visualize.figure import new_figure


def plot_learning_curves(metrics: Sequence[dict[str, Any]], path: str | os.PathLike) -> None:
    """Draws losses, accuracies and learning rate over the steps as a PNG.

    A column for each loss of the objective, its accuracy below it; the last has the total loss and
    the learning rate.

    Args:
        metrics: lines of a run's `metrics.jsonl`; lines of the split "eval" are drawn as points,
            with the accuracy of always guessing the most frequent piece as a dashed line.
        path: the picture to write.

    Raises:
        ValueError: matplotlib is not installed, or there are no metrics.
    """
    if not metrics:
        raise ValueError("there are no metrics to draw: the run has not made a step")
    named = [name for line in metrics for name in line if name.endswith("_loss")]
    losses = [*dict.fromkeys(named), "loss"]
    below = [loss.replace("_loss", "_accuracy") for loss in losses[:-1]] + ["learning_rate"]
    figure = new_figure(5.5 * len(losses), 6.5)
    axes_of = figure.subplots(2, len(losses), squeeze=False)
    for axes, name in zip(axes_of.flat, [*losses, *below], strict=True):
        train = [(line["step"], line[name]) for line in metrics if _has(line, "train", name)]
        held_out = [(line["step"], line[name]) for line in metrics if _has(line, "eval", name)]
        if train:
            axes.plot(*zip(*train, strict=True), linewidth=1, label="training")
        if held_out:
            axes.plot(*zip(*held_out, strict=True), "o-", color="black", label="held out")
        most_frequent = "most_frequent_piece_accuracy"
        baseline = [line[most_frequent] for line in metrics if _has(line, "eval", most_frequent)]
        if name == "masked_lm_accuracy" and baseline:
            axes.axhline(baseline[-1], linestyle="--", color="gray", label="most frequent piece")
        if train or held_out:
            axes.legend()
        title = name.replace("_", " ").replace("masked lm", "masked LM")
        axes.set(title=f"{title} (nats)" if name in losses else title, xlabel="step")
        axes.grid(alpha=0.3)
    with atomic_file(path) as temporary:
        figure.savefig(temporary, format="png", dpi=110)


def _has(line: dict[str, Any], split: str, name: str) -> bool:
    return line["split"] == split and name in line
