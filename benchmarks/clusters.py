"""What clusters of vectors have to do with classes that people gave, and what they cost.

    make benchmark NAME=clusters ARGS='--seeds=3'

MiniLM of six layers, the first --words of each text, cut at 256 pieces. The 500 texts of the
Brown corpus have one of 15 genres, mails of spam.py are spam or ham; each is grouped into as many
clusters as it has classes, and agreement is measured by the adjusted Rand index and the V-measure
of scikit-learn. "Words" is scikit-learn's k-means on its TF-IDF of the same words. A map shows
neighbours where the ten nearest texts on it have the class of the text as often as the nearest ones
by all numbers. Then what --texts reviews and mails together take, beside the functions of
sentence-transformers.
"""

import os
import statistics
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import brown
import food_reviews
import numpy as np
import packages
import spam
from absl import app, flags

from keras_bert import (
    SentenceEncoder,
    cluster_texts,
    community_detection,
    paraphrase_mining,
    principal_components,
)

flags.DEFINE_integer("seeds", 3, "Seeds of k-means.", lower_bound=1)
flags.DEFINE_integer("words", 200, "The first words of each text that are read.", lower_bound=1)
flags.DEFINE_integer("mails", 2000, "Mails that are grouped.", lower_bound=100)
flags.DEFINE_integer("texts", 10_000, "Texts whose grouping is timed.", lower_bound=1000)
flags.DEFINE_integer("names", 15, "Clusters whose names are shown.", lower_bound=0)
flags.DEFINE_multi_enum("parts", ["brown", "mails", "cost"], ["brown", "mails", "cost"], "What.")
flags.DEFINE_string("cache", None, "Folder for vectors, so that another run need not make them.")

_LENGTH = 256
_NEIGHBOURS = 10


def vectors_of(name: str, texts: list[str]) -> np.ndarray:
    """Returns the vectors of MiniLM, float32 [N, 384], and prints how long they took."""
    cached = flags.FLAGS.cache and Path(flags.FLAGS.cache) / f"{name}_{len(texts)}.npy"
    if cached and cached.is_file():
        return np.load(cached)
    encoder = SentenceEncoder.from_preset(packages.minilm(), max_seq_length=_LENGTH)
    encoder.encode(texts[:2])  # traces
    start = time.perf_counter()
    vectors = encoder.encode(texts)
    print(f"{len(texts):,} texts to vectors: {time.perf_counter() - start:.0f} s", flush=True)
    if cached:
        np.save(cached, vectors)
    return vectors


def beginning(text: str) -> str:
    """Returns the first words of a text, which both sides read."""
    return " ".join(text.split()[: flags.FLAGS.words])


def of_brown() -> tuple[list[str], list[str]]:
    """Returns the texts of the Brown corpus and their genres."""
    texts = [" ".join(word for sentence in text for word, _ in sentence) for text in brown.texts()]
    return [*map(beginning, texts)], brown.genres()


def of_mails() -> tuple[list[str], list[str]]:
    """Returns mails, the same ones each time, and whether they are spam or ham."""
    mails = [(text, label) for text, label, _ in spam.mails() if text.strip()]
    order = np.random.default_rng(0).permutation(len(mails))[: flags.FLAGS.mails]
    return [beginning(mails[place][0]) for place in order], [mails[place][1] for place in order]


def words_clusters(texts: list[str], count: int, seed: int) -> np.ndarray:
    """Returns labels by scikit-learn alone, from the words."""
    from sklearn.cluster import KMeans
    from sklearn.feature_extraction.text import TfidfVectorizer

    counted = TfidfVectorizer(stop_words="english", sublinear_tf=True, min_df=2)
    rows = counted.fit_transform(texts)
    return KMeans(count, n_init=10, random_state=seed).fit(rows).labels_


def neighbours_of_class(points: np.ndarray, classes: np.ndarray) -> float:
    """Returns the part of the nearest points that have the class of a point, in percent."""
    from sklearn.neighbors import NearestNeighbors

    found = NearestNeighbors(n_neighbors=_NEIGHBOURS + 1).fit(points)
    nearest = found.kneighbors(points, return_distance=False)[:, 1:]  # without itself
    return 100 * float((classes[nearest] == classes[:, None]).mean())


def agreement(name: str, texts: list[str], given: list[str]) -> None:
    """Prints how far clusters and classes agree, and how far neighbours on a map do."""
    from sklearn.manifold import TSNE
    from sklearn.metrics import adjusted_rand_score, v_measure_score

    classes = np.unique(given, return_inverse=True)[1]
    count = int(classes.max()) + 1
    vectors = vectors_of(name, texts)
    ways: dict[str, Callable[[int], np.ndarray]] = {
        "MiniLM": lambda seed: cluster_texts(texts, vectors, count, seed=seed).labels,
        "words": lambda seed: words_clusters(texts, count, seed),
    }
    print(f"\n{name}: {len(texts):,} texts, {count} classes")
    print("\n| clusters of | adjusted Rand index | V-measure |")
    print("|---|---|---|")
    for way, labels_of in ways.items():
        labels = [labels_of(seed) for seed in range(flags.FLAGS.seeds)]
        cells = []
        for measure in (adjusted_rand_score, v_measure_score):
            scores = [measure(classes, one) for one in labels]
            least, most = min(scores), max(scores)
            cells.append(f"{statistics.median(scores):.3f} ({least:.3f} to {most:.3f})")
        print(f"| {way} | {' | '.join(cells)} |", flush=True)
    maps: dict[str, Callable[[], np.ndarray]] = {
        "all numbers": lambda: vectors,
        "principal components": lambda: principal_components(vectors).points,
        "t-SNE": lambda: TSNE(metric="cosine", init="pca", random_state=0).fit_transform(vectors),
    }
    print(f"\n| map | of {_NEIGHBOURS} neighbours with the same class, % | s |")
    print("|---|---|---|")
    for way, make in maps.items():
        start = time.perf_counter()
        points = make()
        took = time.perf_counter() - start
        print(f"| {way} | {neighbours_of_class(points, classes):.1f} | {took:.1f} |", flush=True)
    print()
    clusters = cluster_texts(texts, vectors, count)
    for number, one in enumerate(clusters.clusters[: flags.FLAGS.names]):
        inside = np.bincount(classes[[*one.members]], minlength=count)
        most = np.unique(given)[inside.argmax()]
        print(f"{number:>3} {len(one.members):>5} {one.name}; {inside.max()} {most}")


def cost() -> None:
    """Prints time and memory of many texts, beside sentence-transformers."""
    import torch
    from sentence_transformers import util

    frame = food_reviews.load()
    reviews = [str(text) for split in frame.values() for text in split["text"]]
    texts = [*reviews, *(text for text, _, _ in spam.mails())]
    texts = [beginning(text) for text in texts if text.strip()][: flags.FLAGS.texts]
    vectors = vectors_of("cost", texts)
    tensor = torch.tensor(vectors)
    sides: dict[str, Callable[[], Any]] = {
        "paraphrase_mining": lambda: paraphrase_mining(vectors),
        "paraphrase_mining, threshold=0.9": lambda: paraphrase_mining(vectors, 0.9),
        "the same of sentence-transformers": lambda: util.paraphrase_mining_embeddings(tensor),
        "community_detection": lambda: community_detection(vectors),
        "that of sentence-transformers": lambda: util.community_detection(tensor),
        "cluster_texts, threshold": lambda: cluster_texts(texts, vectors),
        "cluster_texts, 20 clusters": lambda: cluster_texts(texts, vectors, num_clusters=20),
    }
    print(f"\n{len(texts):,} reviews and mails")
    print("\n| what | s | of the processors, s | memory beside the vectors, MB | found |")
    print("|---|---|---|---|---|")
    for name, call in sides.items():
        start, busy = time.perf_counter(), time.process_time()
        found = call()
        took, busy = time.perf_counter() - start, time.process_time() - busy
        memory = ""
        if "sentence-transformers" not in name:  # whose memory is none of Python's
            tracemalloc.start()
            call()
            memory = f"{tracemalloc.get_traced_memory()[1] / 1e6:,.0f}"
            tracemalloc.stop()
        print(f"| {name} | {took:.1f} | {busy:.1f} | {memory} | {len(found):,} |", flush=True)


def main(_: list[str]) -> None:
    """Measures and prints tables."""
    if "brown" in flags.FLAGS.parts:
        agreement("Brown corpus", *of_brown())
    if "mails" in flags.FLAGS.parts:
        agreement("mails", *of_mails())
    if "cost" in flags.FLAGS.parts:
        cost()


if __name__ == "__main__":
    app.run(main)
