"""Attention as a picture of matrices."""

import os

import numpy as np

from keras_bert.counts import check_count
from keras_bert.visualize.attention.probabilities import Attention, join_pieces
from keras_bert.visualize.figure import check_picture, new_figure, save_figure, short_label

# A label needs so many inches; where all panels together would be wider, they have none.
_INCHES_PER_LABEL = 0.19
_INCHES_PER_CHARACTER = 0.08
_WIDEST = 40.0
_SMALL_PANEL = 1.1


def draw(
    attention: Attention,
    path: str | os.PathLike,
    start: int,
    end: int,
    layer: int | None,
    head: int | None,
    join_words: bool,
) -> None:
    """Draws the attention of tokens `start` to `end`; see `AttentionView.save_heat_map`."""
    check_picture(path)
    probabilities = attention.probabilities  # [L, A, S, S]
    layers = _chosen("layer", layer, probabilities.shape[0])
    heads = _chosen("head", head, probabilities.shape[1])
    names: list[str] = [token.piece for token in attention.tokens[start:end]]
    matrices = probabilities[layers][:, heads][..., start:end, start:end]
    if join_words:
        indices = np.array([token.word for token in attention.tokens[start:end]])
        matrices = join_pieces(matrices, indices - indices[0])
        names = list(attention.words[indices[0] : indices[-1] + 1])
    labels = [short_label(name) for name in names]
    rows, columns = matrices.shape[:2]
    panel = _INCHES_PER_LABEL * len(labels)
    label_margin = max(1.1, 0.5 + _INCHES_PER_CHARACTER * max(map(len, labels)))
    # Many panels are looked at side by side, small; one or a few are read.
    has_labels = rows * columns <= 4 and columns * (panel + label_margin) <= _WIDEST
    side = max(panel, 2.0) if has_labels else max(_SMALL_PANEL, 6.0 / max(rows, columns))
    margin = label_margin if has_labels else 0.25
    figure = new_figure(columns * (side + margin) + 1, rows * (side + margin) + 0.5)
    panels = figure.subplots(rows, columns, squeeze=False)
    # Of square roots: small weights, of which there are most, are seen, too. `new_figure` has told
    # whether matplotlib is there.
    from matplotlib.colors import PowerNorm

    norm = PowerNorm(gamma=0.5, vmin=0, vmax=1)
    ticks = range(len(labels))
    image = None
    for row, column in np.ndindex(rows, columns):
        axes = panels[row, column]
        image = axes.imshow(matrices[row, column], cmap="cividis", norm=norm)
        axes.set_title(f"layer {layers[row]}, head {heads[column]}", fontsize=8)
        axes.set_xticks(ticks if has_labels else [], labels if has_labels else [], rotation=90)
        axes.set_yticks(ticks if has_labels else [], labels if has_labels else [])
        axes.tick_params(labelsize=8, length=2)
        if has_labels:
            axes.set(xlabel="to", ylabel="from")
    figure.colorbar(image, ax=panels, label="attention", shrink=0.6, aspect=30, pad=0.02)
    save_figure(figure, path, dpi=130)


def _chosen(name: str, index: int | None, count: int) -> list[int]:
    if index is None:
        return list(range(count))
    check_count(name, index, least=0)
    if index >= count:
        raise ValueError(f"{name} is {index}: the model has {count}, counted from 0")
    return [index]
