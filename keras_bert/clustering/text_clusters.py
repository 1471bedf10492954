"""Clusters of texts by their vectors, with words that name them and their most typical texts.

    vectors --near to a central one, or k-means--> a label for each text
    texts of each label --class-based TF-IDF--> name;  vectors of each label --mean--> centre

Shapes: N texts, W numbers of a vector, K clusters.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_bert.clustering.class_words import ClassWord, class_words
from keras_bert.clustering.communities import community_detection
from keras_bert.clustering.cosines import check_cosine, comparable_vectors
from keras_bert.counts import LARGEST_SEED, check_count, needed_count
from keras_bert.progress import Progress
from keras_bert.retrieval.k_means import k_means, nearest_centroids
from keras_bert.retrieval.unit_vectors import unit_vectors
from keras_bert.storage.text_lines import check_strings

NO_CLUSTER = -1
_WORDS, _WORDS_OF_NAME = 10, 4
# k-means finds the nearest good place to where it begins, so it begins several times.
_STARTS, _PASSES = 10, 100


class TextCluster(NamedTuple):
    """Texts that are alike.

    Attributes:
        words: up to ten words that tell them from all others, the most telling first; each is a
            pair of `word` and its `weight` by class-based TF-IDF.
        members: the numbers of the texts, the nearest to the centre first.
    """

    words: tuple[ClassWord, ...]
    members: tuple[int, ...]

    @property
    def name(self) -> str:
        """The first four words; empty where no word tells its texts from the others."""
        return ", ".join(one.word for one in self.words[:_WORDS_OF_NAME])


class TextClusters:
    """Texts in clusters, by labels of `cluster_texts` or of any other method.

    Args:
        texts: N texts.
        vectors: theirs, float [N, W], of any length.
        labels: whole numbers [N], one for each cluster; below 0 for texts that are in none.

    Attributes:
        texts: see above.
        vectors: float32 [N, W], of length 1.
        labels: int64 [N]: 0 for the largest cluster, 1 for the next one and so on; -1 for none.
        similarities: float32 [N], the cosine of each text with the centre of its cluster, the mean
            of its vectors; NaN where it is in none.
        clusters: K clusters, the largest first; of those as large the one whose first text comes
            first.

    Raises:
        ValueError: one string was given in place of a list, a text is none, there are not as many
            vectors or labels as texts, a vector is not finite or a label is no whole number.

    Example:
        clusters = TextClusters(texts, encoder.encode(texts), sklearn_model.labels_)
        for cluster in clusters.clusters:
            print(len(cluster.members), cluster.name, texts[cluster.members[0]])
    """

    def __init__(self, texts: Sequence[str], vectors: Any, labels: Any):
        self.texts, self.vectors = _checked(texts, vectors)
        given = np.asarray(labels)
        if given.shape != (len(self.texts),) or (len(given) and given.dtype.kind not in "iu"):
            raise ValueError(
                f"labels has the shape {given.shape} and the dtype {given.dtype}: give a whole "
                f"number for each of the {len(self.texts):,} texts"
            )
        given = given.astype(np.int64)
        found, firsts, sizes = np.unique(given, return_index=True, return_counts=True)
        order = np.lexsort((firsts, -sizes))
        order = order[found[order] >= 0]
        self.labels = np.full(len(given), NO_CLUSTER, np.int64)
        self.similarities = np.full(len(given), np.nan, np.float32)
        members = []
        for label, place in enumerate(order):
            numbers = np.flatnonzero(given == found[place])
            centre = unit_vectors(self.vectors[numbers].mean(axis=0, keepdims=True))[0]  # [W]
            cosines = self.vectors[numbers] @ centre
            self.labels[numbers], self.similarities[numbers] = label, cosines
            members.append(numbers[np.lexsort((numbers, -cosines))].tolist())
        # What is in no cluster is one more class: a word that it has, too, tells less.
        classes = [*members, np.flatnonzero(self.labels == NO_CLUSTER).tolist()]
        words = class_words(
            [[self.texts[number] for number in numbers] for numbers in classes if numbers], _WORDS
        )
        self.clusters = tuple(
            TextCluster(tuple(named), tuple(numbers))
            for named, numbers in zip(words, members, strict=False)
        )

    def __len__(self) -> int:
        return len(self.clusters)

    def typical_texts(self, cluster: int, count: int = 3) -> list[str]:
        """Returns the different texts that are nearest to the centre of a cluster.

        Args:
            cluster: its number.
            count: how many, at most.

        Raises:
            ValueError: there is no such cluster, or `count` is below 1.
        """
        needed_count("cluster", cluster, 0, len(self) - 1)
        needed_count("count", count)
        texts = dict.fromkeys(self.texts[number] for number in self.clusters[cluster].members)
        return [*texts][:count]


def cluster_texts(
    texts: Sequence[str],
    vectors: Any,
    num_clusters: int | None = None,
    threshold: float = 0.75,
    min_cluster_size: int = 10,
    seed: int = 0,
) -> TextClusters:
    """Groups texts that are alike and names the groups.

    Without a number of clusters, those are groups of texts near to a central one, and many texts
    may be in none (`community_detection`). With it each text is in the cluster whose centre is
    nearest (spherical k-means, Dhillon and Modha 2001, from centres by k-means++, Arthur and
    Vassilvitskii 2007; of ten such starts the one of the largest cosines). The same call gives the
    same clusters. Texts that are empty, or blanks alone, are in none.

    Args:
        texts: N texts.
        vectors: theirs, float [N, W], of any length, such as `SentenceEncoder.encode` makes.
        num_clusters: how many; fewer are found where there are fewer different texts.
        threshold: without a number, the smallest cosine of a text with the central one.
        min_cluster_size: without a number, the fewest texts of a cluster.
        seed: with a number, of the centres that k-means begins with.

    Raises:
        ValueError: one string was given in place of a list, a text is none, there are not as many
            vectors as texts, they are not finite, an argument is out of its range, or there are
            fewer texts than clusters.

    Example:
        vectors = SentenceEncoder.from_preset("runs/search").encode(texts)
        for cluster in cluster_texts(texts, vectors, num_clusters=20).clusters:
            print(len(cluster.members), cluster.name)
    """
    check_count("num_clusters", num_clusters)
    check_cosine("threshold", threshold)
    needed_count("min_cluster_size", min_cluster_size)
    needed_count("seed", seed, 0, LARGEST_SEED)
    texts, unit = _checked(texts, vectors)
    told = np.array([number for number, text in enumerate(texts) if text.strip()], np.int64)
    labels = np.full(len(texts), NO_CLUSTER, np.int64)
    if num_clusters is None:
        for label, members in enumerate(
            community_detection(unit[told], threshold, min_cluster_size)
        ):
            labels[told[members]] = label
    else:
        if num_clusters > len(told):
            raise ValueError(
                f"num_clusters is {num_clusters:,}, but there are {len(told):,} texts that are not "
                "empty: ask for fewer"
            )
        labels[told] = _k_means_labels(unit[told], num_clusters, seed)
    return TextClusters(texts, unit, labels)


def _checked(texts: Sequence[str], vectors: Any) -> tuple[list[str], np.ndarray]:
    texts, unit = check_strings(texts), comparable_vectors(vectors)
    if len(texts) != len(unit):
        raise ValueError(
            f"there are {len(texts):,} texts and {len(unit):,} vectors: give the vector of each"
        )
    return texts, unit


def _k_means_labels(unit: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Returns the number of the nearest centre of each vector, int32 [N], of the best start."""
    draw = np.random.default_rng(seed)
    best, largest = np.zeros(len(unit), np.int32), -np.inf
    with Progress(_STARTS, "start", "k-means") as progress:
        for _ in range(_STARTS):
            centres = k_means(unit, _first_centres(unit, count, draw), _PASSES, unit=True)
            labels = nearest_centroids(unit, centres)
            total = float(np.sum(unit * centres[labels], dtype=np.float64))
            if total > largest:
                best, largest = labels, total
            progress.update(1)
    return best


def _first_centres(unit: np.ndarray, count: int, draw: np.random.Generator) -> np.ndarray:
    """Draws vectors that are far from each other, float32 [K, W] (k-means++).

    Each is drawn by the square of its distance to the nearest of those before.
    """
    chosen = [int(draw.integers(len(unit)))]
    nearest = np.full(len(unit), -1.0)  # [N]: cosine with the nearest centre
    while len(chosen) < count:
        nearest = np.maximum(nearest, unit @ unit[chosen[-1]])
        squares = np.maximum(0, 1 - nearest)  # of distances, halved
        total = squares.sum()
        if total > 0:
            chosen.append(int(draw.choice(len(unit), p=squares / total)))
        else:  # all vectors are centres
            chosen.append(chosen[0])
    return unit[chosen]
