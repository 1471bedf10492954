"""Clusters of texts: names by the formula worked out by hand, k-means beside scikit-learn."""

import csv
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from keras_bert import (
    SentenceEncoder,
    TextClusters,
    TextIndex,
    cluster_texts,
    paraphrase_mining,
)
from tests import command_process
from tests.conftest import write_csv
from tests.signatures.tiny_models import random_texts
from tests.tolerances import REORDERED

TOOL = Path(__file__).parents[2] / "tools" / "cluster_texts.py"
TEXTS = [
    "Bus, the car!",
    "an apple, apple; the pear",
    "the car",
    "the apple or fig",
    "the car or apple",
]
LABELS = [7, 2, 7, 2, -1]
VECTORS = [[0, 0, 2], [3, 0, 0], [0, 0, 1], [0, 1, 0], [1, 1, 1]]


def names(cluster):
    return [one.word for one in cluster.words]


def test_names_weigh_as_the_formula_says():
    """Counted are 3 classes, that of texts in no cluster among them, of 9, 5 and 4 words."""
    clusters = TextClusters(TEXTS, VECTORS, LABELS)
    # As large as the other one, and its first text comes before.
    assert clusters.labels.tolist() == [0, 1, 0, 1, -1]
    cars, fruit = clusters.clusters
    # The rate of "apple" is 3 of 9, and elsewhere 1 of 9: three times as frequent is enough.
    # "the" is everywhere, "fig" in one text alone.
    assert (cars.name, fruit.name) == ("car", "apple")
    mean = (9 + 5 + 4) / 3
    np.testing.assert_allclose(
        [cars.words[0].weight, fruit.words[0].weight],
        [2 / 5 * math.log(1 + mean / 3), 3 / 9 * math.log(1 + mean / 4)],
        rtol=1e-12,
    )
    assert names(TextClusters(["pear fig pear", "fig"], np.eye(2), [0, 1]).clusters[0]) == ["pear"]
    # With nothing to compare with, all words do.
    assert names(TextClusters(["b a", "A b b"], np.eye(2), [0, 0]).clusters[0]) == ["b", "a"]
    assert TextClusters(["!", "?"], np.eye(2), [0, 0]).clusters[0].name == ""


def test_members_stand_by_their_similarity_to_the_centre():
    clusters = TextClusters(TEXTS, VECTORS, LABELS)
    half = 0.5**0.5  # the mean of the directions x and y is at 45 degrees
    np.testing.assert_allclose(clusters.similarities, [1, half, 1, half, np.nan], rtol=1e-6)
    texts = ["near", "far", "near", "nearer"]
    clusters = TextClusters(texts, [[3, 1], [1, 3], [3, 1], [2, 1.1]], [0, 0, 0, 0])
    assert clusters.clusters[0].members == (3, 0, 2, 1)
    assert clusters.typical_texts(0) == ["nearer", "near", "far"]
    assert clusters.typical_texts(0, 1) == ["nearer"]
    assert len(TextClusters(texts, np.eye(4), [-1, -2, -1, -1])) == 0
    assert len(TextClusters([], np.zeros([0, 4]), [])) == 0


def blobs(count, groups, seed=0, noise=0.1):
    draw = np.random.default_rng(seed)
    of = draw.integers(groups, size=count)
    return of, draw.normal(size=[groups, 8])[of] + noise * draw.normal(size=[count, 8])


def test_k_means_finds_clusters_that_are_there():
    of, vectors = blobs(200, 5)
    texts = [f"text {number}" for number in of]
    clusters = cluster_texts(texts, vectors, num_clusters=5)
    assert adjusted_rand_score(of, clusters.labels) == 1
    sizes = [len(one.members) for one in clusters.clusters]
    assert sizes == sorted(np.bincount(of), reverse=True)
    for number, one in enumerate(clusters.clusters):
        assert {clusters.labels[member] for member in one.members} == {number}
        assert one.name == str(of[one.members[0]])
    again = cluster_texts(texts, vectors, num_clusters=5)
    assert again.labels.tolist() == clusters.labels.tolist()
    assert cluster_texts(texts, vectors, num_clusters=5, seed=1).labels.tolist() == [
        *clusters.labels  # these are found from any start
    ]


def test_k_means_is_as_good_as_that_of_scikit_learn():
    """On vectors without any groups; scikit-learn's centres have no length, ours have."""
    draw = np.random.default_rng(3)
    vectors = draw.normal(size=[300, 6])
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def cosines(labels):
        """Those of all texts with all centres, in float64, [N, K]."""
        centres = np.stack([unit[labels == label].mean(axis=0) for label in range(9)])
        return unit @ (centres / np.linalg.norm(centres, axis=1, keepdims=True)).T

    def total(labels):
        return cosines(labels)[np.arange(300), labels].sum()

    labels = cluster_texts(["a"] * 300, vectors, num_clusters=9).labels
    assert cosines(labels).argmax(axis=1).tolist() == labels.tolist()
    peer = KMeans(9, n_init=10, random_state=0).fit(unit).labels_
    assert total(labels) > 0.998 * total(peer)


def test_groups_by_a_threshold_leave_the_rest_alone():
    angles = np.deg2rad([0, 5, 10, 90, 95, 100, 105, 200])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    clusters = cluster_texts([*"abcdefgh"], vectors, threshold=0.98, min_cluster_size=3)
    assert clusters.labels.tolist() == [1, 1, 1, 0, 0, 0, 0, -1]
    assert cluster_texts([*"abcdefgh"], vectors).labels.tolist() == [-1] * 8


def test_empty_texts_and_equal_ones():
    vectors = [[1, 0], [0, 1], [1, 0], [1, 0], [0, 1]]
    texts = ["a", "", "a", "a", " \n"]
    for settings in ({"num_clusters": 1}, {"num_clusters": 3}, {"min_cluster_size": 2}):
        clusters = cluster_texts(texts, vectors, **settings)
        assert clusters.labels.tolist() == [0, -1, 0, 0, -1], settings
        assert clusters.typical_texts(0) == ["a"]
    assert len(cluster_texts(["", " "], np.eye(2))) == 0


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: cluster_texts("ab", np.eye(2)), "is one string, which would be read letter by"),
        (lambda: cluster_texts(["a"], np.eye(2)), "there are 1 texts and 2 vectors: give the"),
        (lambda: cluster_texts(["a", "b"], ["a", "b"]), "vectors is no array of numbers"),
        (lambda: cluster_texts(["a", " "], np.eye(2), 2), "num_clusters is 2, but there are 1"),
        (lambda: cluster_texts(["a", "b"], np.eye(2), 0), "num_clusters is 0: it must be at least"),
        (lambda: cluster_texts(["a", "b"], np.eye(2), threshold=2), "threshold is 2: a cosine is"),
        (lambda: cluster_texts(["a", "b"], np.eye(2), seed=-1), "seed is -1"),
        (lambda: TextClusters(["a", "b"], np.eye(2), [0.5, 1]), "labels has the .* dtype float64"),
        (lambda: TextClusters(["a", "b"], np.eye(2), [0]), r"labels has the shape \(1,\)"),
        (lambda: TextClusters(["a"], [[1, 2]], [0]).typical_texts(1), "cluster is 1: it must be"),
    ],
)
def test_mistakes_are_told(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def run_tool(folder, *arguments):
    return command_process.run([TOOL, "--init_from=model", "--pooling=mean", *arguments], folder)


def read(path):
    with open(path, encoding="utf-8", newline="") as file:
        return [*csv.DictReader(file)]


@pytest.mark.slow
def test_the_command_writes_tables_and_a_page(model_folder, tmp_path):
    shutil.copytree(model_folder("encoder"), tmp_path / "model")
    texts = [*random_texts(30, seed=3, longest=12), "the film", "the film", ""]
    write_csv(tmp_path / "reviews.csv", ["number", "review"], [*enumerate(texts)])
    vectors = TextIndex.build(
        SentenceEncoder.from_preset(tmp_path / "model", pooling="mean"), texts
    ).vectors
    done = run_tool(
        tmp_path,
        *("--input=reviews.csv", "--text_column=review", "--index=index", "--num_clusters=3"),
        *("--output=clusters.csv", "--duplicates=pairs.csv", "--duplicate_threshold=0.95"),
        "--html=page/clusters.html",
    )
    assert done.returncode == 0, done.stderr[-2000:]
    expected = cluster_texts(texts, vectors, num_clusters=3)
    found = read(tmp_path / "clusters.csv")
    assert [row["text"] for row in found] == texts
    assert [int(row["cluster"]) for row in found] == expected.labels.tolist()
    assert [*map(float, (row["similarity"] or "nan" for row in found))] == pytest.approx(
        expected.similarities.tolist(), abs=1e-5, nan_ok=True
    )
    assert found[0]["name"] == (expected.clusters[expected.labels[0]].name if texts[0] else "")
    pairs = read(tmp_path / "pairs.csv")
    told = {number for number, text in enumerate(texts) if text}
    wanted = [
        pair for pair in paraphrase_mining(vectors, 0.95) if {pair.first, pair.second} <= told
    ]
    assert [(int(row["number"]), int(row["other_number"])) for row in pairs] == [
        pair[1:] for pair in wanted
    ]
    assert {(row["text"], row["other_text"]) for row in pairs} >= {("the film", "the film")}
    np.testing.assert_allclose(
        [float(row["score"]) for row in pairs], [pair.score for pair in wanted], **REORDERED
    )
    page = (tmp_path / "page" / "clusters.html").read_text(encoding="utf-8")
    assert "<title>Clusters of reviews.csv</title>" in page and "Near-duplicates" in page
    # The index is there: another grouping needs no texts.
    done = run_tool(tmp_path, "--index=index", "--threshold=0.5", "--min_cluster_size=2")
    assert done.returncode == 0, done.stderr[-2000:]
    again = cluster_texts(texts, vectors, threshold=0.5, min_cluster_size=2)
    assert f"{len(texts)} texts, {len(again)} clusters" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--html=a.html"], "there are no texts: give --input, or an --index that was made before"),
        (
            ["--input=texts.txt", "--num_clusters=2", "--threshold=0.8"],
            "--threshold is for clusters without --num_clusters: leave out one of them",
        ),
        (
            ["--input=texts.txt", "--output=a.csv", "--duplicates=a.csv"],
            "--duplicates is a.csv, the same file as a.csv: choose another name",
        ),
        (["--input=texts.txt", "--html=a.png"], "a.png does not end with .html"),
        (["--input=texts.txt", "--max_pairs=3"], "--max_pairs is for --duplicates: give that, too"),
        (["--input=blank.txt"], "--input=blank.txt holds no text: give a file with texts"),
    ],
)
def test_the_command_refuses_in_one_sentence(arguments, sentence, tmp_path):
    (tmp_path / "texts.txt").write_text("a\nb\n")
    (tmp_path / "blank.txt").write_text("\n \n")
    done = run_tool(tmp_path, *arguments)
    assert done.returncode != 0 and sentence in done.stderr and "Traceback" not in done.stderr
