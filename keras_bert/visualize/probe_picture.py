"""What probes read off each layer, as a picture."""

import os
from typing import Any

import numpy as np

from keras_bert.probing.result import EdgeScores, ProbingResult
from keras_bert.visualize.figure import check_picture, new_figure, save_figure

# Of Okabe and Ito (2008), told apart in all kinds of colour blindness; markers differ, too.
_BLUE, _ORANGE, _GREEN, _GREY = "#0072B2", "#D55E00", "#009E73", "#555555"
# Legends stand below the axes, where no curve can be.
_BELOW: Any = {
    "fontsize": 8, "loc": "upper center", "bbox_to_anchor": (0.5, -0.13), "frameon": False,
}  # fmt: skip


def plot_probes(result: ProbingResult, path: str | os.PathLike) -> None:
    """Draws accuracy by layer, and the mix of layers of the edge probe beside it.

    Args:
        result: of `probe_layers`.
        path: the .png or .svg to write.

    Raises:
        ValueError: matplotlib is not installed, or the name ends otherwise.
    """
    check_picture(path)
    panels = 1 if result.edge is None else 2
    figure = new_figure(6.4 * panels, 4.4)
    axes_of = figure.subplots(1, panels, squeeze=False)[0]
    _draw_linear(axes_of[0], result)
    if result.edge is not None:
        _draw_edge(axes_of[1], result.edge)
    for axes in axes_of:
        layers = np.arange(len(result.layers))
        names = [score.name.replace("layer ", "") for score in result.layers]
        axes.set_xticks(layers, ["emb.", *names[1:]])
        axes.set_xlabel("layer")
        axes.spines[["top", "right"]].set_visible(False)
    save_figure(figure, path, dpi=130)


def _draw_linear(axes: Any, result: ProbingResult) -> None:
    layers = [score.layer for score in result.layers]
    curves = [
        ("linear probe", [score.accuracy for score in result.layers], _BLUE, "o-"),
        ("control task", [score.control_accuracy for score in result.layers], _ORANGE, "s--"),
    ]
    random = [s.random_accuracy for s in result.layers if s.random_accuracy is not None]
    if random:
        curves.insert(1, ("random weights", random, _GREEN, "^-."))
    for label, values, colour, line in curves:
        axes.plot(layers, [100 * value for value in values], line, color=colour, label=label)
    accuracies, controls = (
        [100 * getattr(score, name) for score in result.layers]
        for name in ("accuracy", "control_accuracy")
    )
    axes.fill_between(
        layers, controls, accuracies, color=_BLUE, alpha=0.1, linewidth=0, label="selectivity"
    )
    dashes = {"most frequent tag": ":", "most frequent tag of the word": (0, (5, 3))}
    for label, accuracy in result.baselines().items():
        axes.axhline(
            100 * accuracy, color=_GREY, linestyle=dashes[label], linewidth=1.2, label=label
        )
    axes.set(ylabel=f"accuracy on {result.measured_on} words, %", title="Linear probes")
    axes.set_ylim(0, 102)
    axes.grid(axis="y", alpha=0.25)
    axes.legend(**_BELOW, ncols=3)


def _draw_edge(axes: Any, edge: EdgeScores) -> None:
    layers = np.arange(len(edge.mix))
    bars = axes.bar(layers, [100 * weight for weight in edge.mix], color=_BLUE, alpha=0.55)
    bars.set_label("weight in the mix (left)")
    axes.axvline(edge.centre_of_gravity, color=_GREY, linestyle="--", linewidth=1.2)
    top = 130 * max(edge.mix)
    axes.annotate(
        f" centre of gravity {edge.centre_of_gravity:.2f}",
        (edge.centre_of_gravity, top),
        va="top",
        fontsize=9,
        color=_GREY,
    )
    axes.set(ylabel="weight in the mix, %", title=f"Edge probe ({edge.unit})", ylim=(0, top))
    right = axes.twinx()
    right.spines["top"].set_visible(False)
    cumulative = [100 * accuracy for accuracy in edge.cumulative]
    label = "accuracy up to here (right)"
    [line] = right.plot(layers, cumulative, "o-", color=_ORANGE, label=label)
    right.set_ylabel("accuracy with the layers up to here, %")
    low, high = min(cumulative), max(cumulative)
    room = max(high - low, 1)
    right.set_ylim(low - 1.2 * room, high + 0.6 * room)
    axes.legend(handles=[bars, line], **_BELOW, ncols=2)
