"""Learning curves of a pretraining run as a picture."""

import os
from collections.abc import Sequence
from typing import Any

from keras_bert.storage.files import nan_for_null
from keras_bert.visualize.figure import check_picture, new_figure, plain, save_figure

# What a metric must be better than, on held-out records: its name in the metrics, and words.
BASELINES = {
    "masked_lm_accuracy": ("most_frequent_piece_accuracy", "always the most frequent piece"),
    "masked_lm_loss": ("masked_lm_loss_without_context", "least without context"),
    "replaced_token_accuracy": ("never_replaced_accuracy", "never replaced"),
}


def plot_learning_curves(metrics: Sequence[dict[str, Any]], path: str | os.PathLike) -> None:
    """Draws losses, accuracies and learning rate over the steps.

    A column for each loss of the objective, its accuracy below it; the last has the total loss and
    the learning rate.

    Args:
        metrics: lines of a run's `metrics.jsonl`; lines of the split "eval" are drawn as points,
            with what they must be better than as a dashed line.
        path: the picture to write, .png or .svg.

    Raises:
        ValueError: the name ends otherwise, matplotlib is not installed, or there are no metrics.
    """
    check_picture(path)
    if not metrics:
        raise ValueError("there are no metrics to draw: the run has not made a step")
    losses, below = curve_names(metrics)
    figure = new_figure(5.5 * len(losses), 6.5)
    axes_of = figure.subplots(2, len(losses), squeeze=False)
    for axes, name in zip(axes_of.flat, [*losses, *below], strict=True):
        train, held_out = (points(metrics, split, name) for split in ("train", "eval"))
        if train:
            axes.plot(*zip(*train, strict=True), linewidth=1, label="training")
        if held_out:
            axes.plot(*zip(*held_out, strict=True), "o-", color="black", label="held out")
        key, words = BASELINES.get(name, ("", ""))
        baseline = points(metrics, "eval", key)
        if len({value for _, value in baseline}) > 1:
            axes.plot(*zip(*baseline, strict=True), "--", color="gray", label=words)
        elif baseline:
            axes.axhline(baseline[-1][1], linestyle="--", color="gray", label=words)
        if train or held_out:
            axes.legend()
        axes.set(title=plain(curve_title(name)), xlabel="step")
        axes.grid(alpha=0.3)
    save_figure(figure, path, dpi=110)


def curve_names(metrics: Sequence[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """Returns which metrics are drawn: each loss and their sum, and as many that belong below.

    Below a loss stands its accuracy, below the sum the learning rate.
    """
    named = [name for line in metrics for name in line if name.endswith("_loss")]
    losses = [*dict.fromkeys(named), "loss"]
    return losses, [loss.replace("_loss", "_accuracy") for loss in losses[:-1]] + ["learning_rate"]


def curve_title(name: str) -> str:
    """Returns what a picture calls a metric, with its unit."""
    title = name.replace("_", " ").replace("masked lm", "masked LM")
    return f"{title} (nats)" if name.split("_")[-1] == "loss" else title


def points(metrics: Sequence[dict[str, Any]], split: str, name: str) -> list[tuple[float, float]]:
    """Returns step and value of each line of a split that has the metric; null in JSON is NaN."""
    lines = (line for line in metrics if line["split"] == split and name in line)
    return [(line["step"], nan_for_null(line[name])) for line in lines]
