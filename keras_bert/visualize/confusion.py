"""A confusion matrix as a picture."""

import os
from collections.abc import Sequence

import numpy as np

from keras_bert.visualize.figure import new_figure, plain, save_figure, short_label

# More classes than this and the numbers in the cells can no longer be read.
_MOST_CLASSES_WITH_NUMBERS = 20


def plot_confusion_matrix(
    matrix: np.ndarray | Sequence[Sequence[int]],
    labels: Sequence[str],
    path: str | os.PathLike,
    title: str = "",
) -> None:
    """Draws how often each class was predicted as each; colors are rates within a row.

    Args:
        matrix: counts [C, C], true classes in rows.
        labels: C names.
        path: the PNG to write.
        title: title above the picture.

    Raises:
        ValueError: matplotlib is not installed.
    """
    matrix = np.asarray(matrix)
    rates = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    matrix_inches = 0.5 * min(len(labels), 30)
    size = 3.5 + matrix_inches
    figure = new_figure(size + 1, size)
    axes = figure.subplots()
    image = axes.imshow(rates, cmap="Blues", vmin=0, vmax=1)
    figure.colorbar(image, label="rate within the true class")
    ticks = range(len(labels))
    names = [short_label(name) for name in labels]
    axes.set_xticks(ticks, names, rotation=45, ha="right")
    axes.set_yticks(ticks, names)
    # Names of many classes are small rather than one on another; 72 points are an inch.
    axes.tick_params(labelsize=min(10, 72 * matrix_inches / max(1, len(labels))))
    axes.set(xlabel="predicted", ylabel="true", title=plain(title))
    if len(labels) <= _MOST_CLASSES_WITH_NUMBERS:
        for row in ticks:
            for column in ticks:
                color = "white" if rates[row, column] > 0.5 else "black"
                text = f"{matrix[row, column]:,}"
                axes.text(column, row, text, ha="center", va="center", color=color)
    save_figure(figure, path, dpi=110)
