"""The page of clusters: what is read stands in it as tables, and a script draws the map.

A point of the map is a text, at its place in the two directions in which the vectors differ most,
or where t-SNE puts it (van der Maaten and Hinton 2008), which keeps near neighbours together.
Clusters are told apart by colour and shape, which come back together after 40 of them, and by their
number. A page of many texts shows a part of them, drawn at random.
"""

import html
import importlib.util
import json
from collections.abc import Sequence

import numpy as np

from keras_bert.choices import Projection, check_choice
from keras_bert.clustering.similar_pairs import SimilarPair
from keras_bert.clustering.text_clusters import NO_CLUSTER, TextClusters
from keras_bert.visualize import charts, html_page, report_page
from keras_bert.visualize.principal_components import principal_components

# Points that can be told apart and texts that a page can hold: 5,000 of 300 letters are 1.5 MB.
_MOST_POINTS, _MOST_LETTERS = 5000, 300
_MOST_PAIRS, _TYPICAL, _WORDS = 200, 3, 10
_GRID = 1000  # places of a point in each direction
# Numbers of colours in report.css, of eight that differ most, and shapes around (0, 0): each pair
# of them is one cluster in 40.
_COLORS = (1, 2, 3, 4, 5, 6, 9, 8)
_SHAPES = (
    "M-5 0A5 5 0 1 1 5 0A5 5 0 1 1 -5 0Z",
    "M0 -6L5.5 4H-5.5Z",
    "M-4.5 -4.5H4.5V4.5H-4.5Z",
    "M0 -6.2L6.2 0L0 6.2L-6.2 0Z",
    "M-2 -6H2V-2H6V2H2V6H-2V2H-6V-2H-2Z",
)


def cluster_page(
    clusters: TextClusters, pairs: Sequence[SimilarPair], title: str, projection: Projection
) -> str:
    """Returns one HTML text with script, styles and data in it.

    Args:
        clusters: what is shown.
        pairs: near-duplicates, the best first.
        title: of the window and the first line.
        projection: how places on the map are found.
    """
    shown = _shown(len(clusters.texts))
    places, map_told = _places(clusters.vectors[shown], projection)
    styles = [*map(_style, range(len(clusters)))]
    content = {
        "x": places[:, 0].tolist(),
        "y": places[:, 1].tolist(),
        "labels": clusters.labels[shown].tolist(),
        # NaN is no JSON.
        "similarities": np.nan_to_num(clusters.similarities[shown]).round(3).tolist(),
        "numbers": shown.tolist(),
        "texts": [_cut(clusters.texts[number]) for number in shown],
        "names": [one.name for one in clusters.clusters],
        "sizes": [len(one.members) for one in clusters.clusters],
        "colors": [color for color, _ in styles],
        "shapes": [shape for _, shape in styles],
        "grid": _GRID,
    }
    alone = int(np.count_nonzero(clusters.labels == NO_CLUSTER))
    summary = f"{_count(len(clusters.texts))}, {_count(len(clusters), 'cluster')}"
    summary += f", {_count(alone)} in none" if alone else ""
    part = "all texts" if len(shown) == len(clusters.texts) else f"{len(shown):,} texts at random"
    parts = {
        "TITLE": html.escape(title),
        "STYLE": html_page.resource("keras_bert.visualize", "report.css")
        + html_page.resource(__package__, "page.css"),
        "SUMMARY": f"{summary}.",
        "MAP_NOTE": f"The map shows {part} {map_told} Similarities are those of whole vectors.",
        "CLUSTERS": "\n".join(_cluster(clusters, number) for number in range(len(clusters)))
        or report_page.paragraph("There are no clusters.", "note"),
        "PAIRS": _pairs(clusters.texts, pairs),
        "SCRIPT": html_page.resource(__package__, "page.js"),
        # Nothing in a text may end the element that holds it.
        "DATA": json.dumps(content, ensure_ascii=False).replace("<", "\\u003c"),
    }
    return html_page.fill(html_page.resource(__package__, "page.html"), parts)


def _shown(count: int) -> np.ndarray:
    """Returns the numbers of the texts on the map, rising."""
    if count <= _MOST_POINTS:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, _MOST_POINTS, replace=False))


def check_projection(projection: str) -> None:
    """Checks before the work that a map can be made.

    Raises:
        ValueError: there is no such projection, or scikit-learn is not installed for t-SNE.
    """
    check_choice("projection", projection, Projection)
    if projection == "tsne" and importlib.util.find_spec("sklearn") is None:
        raise ValueError("a map by t-SNE needs scikit-learn: pip install scikit-learn, or take pca")


def _places(vectors: np.ndarray, projection: Projection) -> tuple[np.ndarray, str]:
    """Returns whole numbers [N, 2] from 0 to `_GRID`, and what the page tells of them."""
    if min(vectors.shape) < 2:  # they have no two directions
        return np.full([len(vectors), 2], _GRID // 2), "at one place."
    if projection == "tsne":
        from sklearn.manifold import TSNE

        # The default of 30 neighbours, or what so few texts allow.
        neighbours = min(30, (len(vectors) - 1) / 3)
        tsne = TSNE(perplexity=neighbours, metric="cosine", init="pca", random_state=0)
        points = tsne.fit_transform(vectors).astype(np.float64)
        told = (
            "by t-SNE: near neighbours lie together, and how far groups are from each other, or "
            "how large, means little."
        )
    else:
        found = principal_components(vectors)
        points = found.points
        first, second = (f"{100 * one:.1f} %" for one in found.explained)
        told = (
            f"in the two directions in which their vectors differ most ({first} and {second} of "
            "the variance); texts that lie together may be far apart in other directions."
        )
    points = points - np.min(points, axis=0)
    # One scale for both, so that distances are those of the two directions.
    return np.rint(points * (_GRID / (points.max() or 1))).astype(int), told


def _style(cluster: int) -> tuple[int, str]:
    return _COLORS[cluster % len(_COLORS)], _SHAPES[cluster % len(_SHAPES)]


def _cluster(clusters: TextClusters, number: int) -> str:
    """Returns the entry of a cluster: a button that marks it on the map, words, typical texts."""
    one, (color, shape) = clusters.clusters[number], _style(number)
    typical = "".join(
        f'<li dir="auto">{html.escape(_cut(text))}</li>'
        for text in clusters.typical_texts(number, _TYPICAL)
    )
    words = ", ".join(word.word for word in one.words[:_WORDS])
    told = f'<p class="note" dir="auto">{html.escape(words)}</p>' if words else ""
    return (
        f'<li><button type="button" aria-pressed="false" data-cluster="{number}">'
        f'<svg class="shape" viewBox="-7 -7 14 14" aria-hidden="true"><path class="part c{color}" '
        f'd="{shape}"/></svg><span class="count">{number}</span>'
        f'<span class="name" dir="auto">{html.escape(one.name) or "(no words of its own)"}</span>'
        f'<span class="count">{_count(len(one.members))}</span></button>\n'
        + charts.folded("Words and typical texts", f"{told}<ul>{typical}</ul>")
        + "</li>"
    )


def _pairs(texts: Sequence[str], pairs: Sequence[SimilarPair]) -> str:
    if not pairs:
        return ""
    rows = [
        [f"{score:.3f}", f"{first}: {_cut(texts[first])}", f"{second}: {_cut(texts[second])}"]
        for score, first, second in pairs[:_MOST_PAIRS]
    ]
    told = charts.table(["Similarity", "Text", "Other text"], rows, "Similar pairs", "pairs")
    most = f", the first {_MOST_PAIRS}" if len(pairs) > _MOST_PAIRS else ""
    note = report_page.paragraph(
        f"{_count(len(pairs), 'pair')}{most}, the most similar first.", "note"
    )
    return report_page.section("Near-duplicates", note, told)


def _count(number: int, name: str = "text") -> str:
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def _cut(text: str) -> str:
    """Returns the beginning of a text as one line."""
    line = " ".join(text.split())
    return line if len(line) <= _MOST_LETTERS else f"{line[: _MOST_LETTERS - 1]}…"
