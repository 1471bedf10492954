"""The two directions in which vectors differ most, and a picture of them."""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_bert.counts import check_count
from keras_bert.tasks.feature_extraction.extraction import TextFeatures
from keras_bert.visualize.figure import check_picture, new_figure, plain, save_figure, short_label

# Okabe and Ito (2008): told apart with any colour vision; shapes as well, not by colour alone.
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
_MARKERS = "o^sDvPX"
# Labels that get a colour; the rarer ones are drawn as one.
_MOST_LABELS = len(_COLORS)
# Points whose names can be read beside them.
_MOST_NAMED = 40


class PrincipalComponents(NamedTuple):
    """Vectors in the directions of their largest variance.

    Attributes:
        points: float64 [N, K], coordinates around the mean.
        explained: float64 [K], the part of the whole variance in each direction.
    """

    points: np.ndarray
    explained: np.ndarray


def principal_components(vectors: np.ndarray, count: int = 2) -> PrincipalComponents:
    """Projects vectors on the directions in which they differ most (Pearson 1901).

    The sign of a direction means nothing; it is chosen so that its largest weight is positive.

    Args:
        vectors: [N, D].
        count: directions, K; at most N and D.

    Raises:
        ValueError: there are fewer vectors or numbers than directions, or one is not finite; or
            `count` is no whole number above 0.
    """
    check_count("count", count)
    vectors = np.asarray(vectors, np.float64)
    if vectors.ndim != 2 or min(vectors.shape) < count:
        raise ValueError(
            f"vectors have the shape {vectors.shape}: {count} directions need at least {count} "
            "vectors of as many numbers"
        )
    if not np.isfinite(vectors).all():
        raise ValueError("a vector holds a number that is not finite: look at the model")
    centred = vectors - vectors.mean(axis=0)  # [N, D]
    _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    directions = directions[:count]  # [K, D]
    largest = np.abs(directions).argmax(axis=1)
    directions = directions * np.sign(directions[np.arange(count), largest])[:, None]
    variance = sizes**2
    explained = variance[:count] / max(variance.sum(), np.finfo(np.float64).tiny)
    return PrincipalComponents(centred @ directions.T, explained)


def plot_principal_components(
    vectors: np.ndarray,
    path: str | os.PathLike,
    labels: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    title: str = "",
) -> None:
    """Draws vectors as points in the two directions in which they differ most.

    Args:
        vectors: [N, D].
        path: the picture to write, .png or .svg.
        labels: N labels; each of the seven commonest has a colour and a shape.
        names: N names, written beside the points where there are few.
        title: title above the picture.

    Raises:
        ValueError: the name ends otherwise, matplotlib is not installed, there are too few vectors
            or not as many labels or names as vectors.
    """
    check_picture(path)
    for what, values in (("labels", labels), ("names", names)):
        if values is not None and len(values) != len(vectors):
            raise ValueError(f"there are {len(values)} {what} for {len(vectors)} vectors")
    found = principal_components(vectors)
    figure = new_figure(7, 6)
    axes = figure.subplots()
    groups = _groups(labels, len(vectors))
    size = 36 if len(vectors) <= 500 else 12
    drawn = []
    for number, (_, members) in enumerate(groups):
        style: dict[str, Any] = {"color": "#999999", "marker": "."}
        if number < _MOST_LABELS:
            style = {"color": _COLORS[number], "marker": _MARKERS[number]}
        x, y = found.points[members].T
        drawn.append(axes.scatter(x, y, s=size, alpha=0.7, linewidths=0, **style))
    if labels is not None:
        # By handles: the legend would leave out what has a name that begins with "_".
        axes.legend(drawn, [f"{short_label(name)} ({len(members)})" for name, members in groups])
    if names is not None and len(names) <= _MOST_NAMED:
        for (x, y), name in zip(found.points, names, strict=True):
            axes.annotate(
                short_label(str(name)), (x, y), (4, 4), textcoords="offset points", fontsize=8
            )
    first, second = (f"{100 * part:.1f} % of the variance" for part in found.explained)
    axes.set(title=plain(title))
    axes.set(xlabel=f"first direction, {first}", ylabel=f"second direction, {second}")
    axes.grid(alpha=0.3)
    save_figure(figure, path, dpi=110)


class VectorSample:
    """At most so many of a stream of vectors, each as likely as any other (reservoir sampling).

    Args:
        most: how many to keep.
        seed: which ones.

    Attributes:
        seen: how many there were.
        vectors: those that were kept, [D] each.
        names: what of the text each stands for.
        labels: the label of its text, or "".
    """

    def __init__(self, most: int, seed: int = 0):
        self._most = most
        self._draw = np.random.default_rng(seed)
        self.seen = 0
        self.vectors: list[np.ndarray] = []
        self.names: list[str] = []
        self.labels: list[str] = []

    def watch(
        self, features: Iterable[TextFeatures], labels: Sequence[str] | None = None
    ) -> Iterator[TextFeatures]:
        """Yields features of texts as they are and keeps some of their vectors.

        Args:
            features: the features.
            labels: one for each text.
        """
        for number, text in enumerate(features):
            label = "" if labels is None else labels[number]
            for vector, start, end in zip(text.values, text.starts, text.ends, strict=True):
                self.seen += 1
                place = len(self.vectors)
                if place == self._most:  # Vitter 1985, algorithm R
                    place = int(self._draw.integers(self.seen))
                    if place >= self._most:
                        continue
                self.vectors[place : place + 1] = [np.array(vector, np.float32)]
                self.names[place : place + 1] = [text.text[start:end]]
                self.labels[place : place + 1] = [label]
            yield text


def _groups(labels: Sequence[str] | None, count: int) -> list[tuple[str, np.ndarray]]:
    """Returns name and indices of each group, the commonest first, the rarest as one."""
    if labels is None:
        return [("vectors", np.arange(count))]
    values = np.array([str(label) for label in labels])
    found, counts = np.unique(values, return_counts=True)
    names = [str(name) for name in found[np.argsort(-counts, kind="stable")]]
    shown, rest = names[:_MOST_LABELS], names[_MOST_LABELS:]
    groups = [(name, np.flatnonzero(values == name)) for name in shown]
    if rest:
        groups.append((f"{len(rest)} other labels", np.flatnonzero(np.isin(values, rest))))
    return groups
