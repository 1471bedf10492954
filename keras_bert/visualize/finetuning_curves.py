"""Learning curves of fine-tuning runs as a picture."""

import os

from keras_bert.finetuning.search import SearchResult
from keras_bert.visualize.figure import new_figure, plain, save_figure

# More lines than this cannot be told apart.
_MOST_RUNS_NAMED = 10


def plot_finetuning_curves(result: SearchResult, metric: str, path: str | os.PathLike) -> None:
    """Draws training loss, validation loss and the validation metric of every run by epoch.

    Args:
        result: the runs; those that collapsed are dashed.
        metric: the task's first metric.
        path: the PNG to write.

    Raises:
        ValueError: matplotlib is not installed.
    """
    figure = new_figure(12, 4)
    panels = figure.subplots(1, 3)
    measured = [run for run in result.runs if run.result is not None]
    for run in measured:
        style = "o--" if run.collapsed else "o-"
        history = run.measured.epochs
        epochs = [epoch["epoch"] for epoch in history]
        panels[0].plot(epochs, [epoch["train_loss"] for epoch in history], style, label=run.name)
        for axes, name in zip(panels[1:], ("loss", metric), strict=True):
            values = [epoch["validation"].get(name) for epoch in history]
            if None not in values:
                axes.plot(epochs, values, style, label=run.name)
    titles = ("training loss", "validation loss", f"validation {metric}")
    for axes, title in zip(panels, titles, strict=True):
        axes.set(title=plain(title), xlabel="epoch")
        axes.xaxis.get_major_locator().set_params(integer=True)  # there is no half epoch
        axes.grid(alpha=0.3)
    if len(measured) <= _MOST_RUNS_NAMED:
        panels[0].legend()
    save_figure(figure, path, dpi=110)
