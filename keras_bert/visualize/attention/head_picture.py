"""What attention heads do, as a picture: entropy by layer, and a grid for each statistic."""

import os

import numpy as np

from keras_bert.visualize.attention.head_places import PLACES
from keras_bert.visualize.attention.head_statistics import STATISTICS, HeadStatistics
from keras_bert.visualize.figure import check_picture, new_figure, save_figure

_COLUMNS = 4
# Of Okabe and Ito (2008), told apart in all kinds of colour blindness.
_BLUE, _ORANGE, _GREY = "#0072B2", "#D55E00", "#555555"
# The numbers stand in the cells where there are so few heads.
_MOST_NUMBERS = 72


def plot_head_statistics(statistics: HeadStatistics, path: str | os.PathLike) -> None:
    """Draws the statistics of all heads; layers and heads are counted from 0.

    Args:
        statistics: of `head_statistics`.
        path: the .png or .svg to write.

    Raises:
        ValueError: matplotlib is not installed, or the name ends otherwise.
    """
    check_picture(path)
    layers, heads = statistics.shape
    names = [name for name in STATISTICS if name != "cls_entropy"]
    rows = -(-(len(names) + 1) // _COLUMNS)
    side = max(2.6, 0.28 * max(layers, heads))
    figure = new_figure(_COLUMNS * (side + 0.7), rows * (side * layers / max(layers, heads) + 0.9))
    panels = list(figure.subplots(rows, _COLUMNS).flat)
    scatter, *grids = panels
    random = np.random.default_rng(0)
    kinds = (("entropy", _BLUE, "o", -0.18), ("cls_entropy", _ORANGE, "x", 0.18))
    for name, colour, marker, aside in kinds:
        values = statistics.values[name]
        across = np.repeat(np.arange(layers), heads) + random.uniform(-0.1, 0.1, layers * heads)
        label = "from all tokens" if name == "entropy" else "from [CLS]"
        scatter.scatter(
            across + aside, values.ravel(), s=14, color=colour, marker=marker, label=label
        )
    scatter.axhline(statistics.uniform_entropy, color=_GREY, linestyle="--", linewidth=1)
    scatter.annotate(
        "all tokens alike", (layers - 0.6, statistics.uniform_entropy), fontsize=7, ha="right",
        va="bottom", color=_GREY,
    )  # fmt: skip
    scatter.set(title="entropy of each head, nats")
    scatter.set_xlabel("layer", fontsize=8)
    scatter.set_xlim(-0.5, layers - 0.5)
    scatter.set_ylim(0, 1.15 * statistics.uniform_entropy)
    scatter.set_xticks(range(layers))
    scatter.title.set_fontsize(9)
    scatter.tick_params(labelsize=7)
    scatter.legend(fontsize=7, loc="lower right", framealpha=0.8)
    for axes, name in zip(grids, names, strict=False):
        values = statistics.values[name]
        is_share = name in PLACES or name in ("sep_to_sep", "largest")
        largest = 1.0 if is_share else max(float(values.max()), 1e-6)
        image = axes.imshow(values, cmap="cividis", vmin=0, vmax=largest, aspect="auto")
        axes.set_title(STATISTICS[name], fontsize=9)
        axes.set_xticks(range(heads))
        axes.set_yticks(range(layers))
        axes.set_xlabel("head", fontsize=8)
        axes.set_ylabel("layer", fontsize=8)
        axes.tick_params(labelsize=6, length=2)
        if layers * heads <= _MOST_NUMBERS:
            for (layer, head), value in np.ndenumerate(values):
                shown = f"{100 * value:.0f}" if is_share else f"{value:.1f}"
                colour = "black" if value > 0.55 * largest else "white"
                axes.text(head, layer, shown, ha="center", va="center", fontsize=5.5, color=colour)
        if is_share:
            bar = figure.colorbar(image, ax=axes, shrink=0.7, aspect=18, ticks=[0, 0.5, 1])
            bar.ax.set_yticklabels(["0 %", "50 %", "100 %"])
        else:
            bar = figure.colorbar(image, ax=axes, shrink=0.7, aspect=18)
        bar.ax.tick_params(labelsize=6)
    for axes in panels[1 + len(names) :]:
        axes.set_axis_off()
    save_figure(figure, path, dpi=130)
