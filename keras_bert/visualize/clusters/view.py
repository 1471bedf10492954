"""Clusters of texts, to be looked at: in a notebook, or as a page."""

import functools
from collections.abc import Sequence

from keras_bert.choices import Projection
from keras_bert.clustering.similar_pairs import SimilarPair
from keras_bert.clustering.text_clusters import TextClusters
from keras_bert.visualize import report_page
from keras_bert.visualize.clusters.page import check_projection, cluster_page


class ClusterReport(report_page.Report):
    """Clusters of texts; a notebook shows them as an interactive page.

    Attributes:
        title: what the window and screen readers call it.
    """

    def __init__(
        self,
        clusters: TextClusters,
        pairs: Sequence[SimilarPair],
        title: str,
        projection: Projection,
    ):
        self.title = title
        self._clusters, self._pairs, self._projection = clusters, pairs, projection

    def html(self) -> str:
        """Returns the page: one HTML text that needs no other file and no network."""
        return self._page

    @functools.cached_property
    def _page(self) -> str:
        return cluster_page(self._clusters, self._pairs, self.title, self._projection)

    def __repr__(self) -> str:
        return f"ClusterReport({self.title!r}, {len(self._clusters):,} clusters)"


def show_clusters(
    clusters: TextClusters,
    pairs: Sequence[SimilarPair] = (),
    title: str = "Clusters of texts",
    projection: Projection = "pca",
) -> ClusterReport:
    """Shows clusters of texts: a map, names, sizes, typical texts, and similar pairs.

    The map has a point for each text; of more than 5,000 so many are drawn at random.

    Args:
        clusters: of `cluster_texts`.
        pairs: of `paraphrase_mining` on the same texts; the first 200 are listed.
        title: of the window, and the first line of the page.
        projection: "pca" puts texts at their places in the two directions in which the vectors
            differ most (`principal_components`). "tsne" keeps near neighbours together (van der
            Maaten and Hinton 2008); it needs scikit-learn, and a minute for 5,000 texts.

    Returns:
        A report, which a notebook displays and `save` writes as one file.

    Raises:
        ValueError: a pair names a text that is not there, there is no such projection, or
            scikit-learn is not installed for t-SNE.

    Example:
        show_clusters(cluster_texts(texts, vectors, num_clusters=20)).save("clusters.html")
    """
    check_projection(projection)
    for pair in pairs:
        if not 0 <= pair.first <= pair.second < len(clusters.texts):
            raise ValueError(
                f"{pair} names a text that is not there: give pairs of the "
                f"{len(clusters.texts):,} texts of the clusters"
            )
    return ClusterReport(clusters, pairs, title, projection)
