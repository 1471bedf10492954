r"""Shows what is in many texts: near-duplicates, clusters with names, and a map of them.

    python tools/cluster_texts.py --init_from=runs/search --input=reviews.csv --num_clusters=20 \
        --output=clusters.csv --html=clusters.html
    python tools/cluster_texts.py --init_from=runs/search --input=reviews.csv \
        --duplicates=pairs.csv --threshold=0.8

--input has a text a line (.txt) or a JSON object with "text" a line (.jsonl), both also with .gz
behind; or it is a table (.csv, .tsv) with a column "text", or --text_column. --index keeps their
vectors in a folder, as search_texts.py does; where it is there already, it is opened and no --input
is needed.
With --num_clusters each text is in the cluster whose centre is nearest to it (k-means). Without it
a cluster is a text with at least --min_cluster_size texts, itself among them, whose cosine with it
is --threshold or more, and all others are in none. Names are the words that are frequent in a
cluster and not elsewhere (class-based TF-IDF). Empty texts are in no cluster and in no pair.
--output is a table (.csv) with the columns number (the place of the text, from 0), text, cluster
(from 0, the largest; -1 for none), name and similarity (the cosine with the mean of its cluster).
--duplicates is a table with the columns score, number, other_number, text and other_text: the pairs
whose cosine is --duplicate_threshold or more, the most similar first, --max_pairs at most, of each
text the 100 nearest.
--html is a page with a map of the texts, the clusters, and the pairs of --duplicates. The map has
the two directions in which the vectors differ most; with --projection=tsne, which needs
scikit-learn, texts lie beside those that are like them.
"""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, get_args

from absl import flags

from keras_bert import command_line
from keras_bert.choices import Projection, TokenPooling

_SETTINGS = ("pooling", "truncate_dim", "max_seq_length", "document_prompt")
_SHOWN, _WIDTH = 40, 60

flags.DEFINE_string("init_from", None, "Model folder; one that was trained for similarity.")
flags.DEFINE_alias("model", "init_from")
flags.DEFINE_string("input", None, "File of texts: .txt or .jsonl, also .gz; or .csv, .tsv.")
flags.DEFINE_string(
    "text_column", "text", "Column of the texts in a table, or their field in a .jsonl."
)
flags.DEFINE_string("index", None, "Folder for the vectors of the texts, made where it is missing.")
flags.DEFINE_string("output", None, "Table to write: .csv, a row for each text.")
flags.DEFINE_string("duplicates", None, "Table of similar pairs to write: .csv.")
flags.DEFINE_string("html", None, "Page to write: .html.")
flags.DEFINE_enum(
    "projection", "pca", get_args(Projection), "How the texts are put on the map of --html."
)
flags.DEFINE_integer("num_clusters", None, "How many; unset: by --threshold.", lower_bound=1)
flags.DEFINE_float("threshold", 0.75, "Least cosine of a text with the central one of its cluster.")
flags.DEFINE_integer("min_cluster_size", 10, "Fewest texts of a cluster.", lower_bound=1)
flags.DEFINE_integer("seed", 0, "Of the centres that k-means begins with.", lower_bound=0)
flags.DEFINE_float("duplicate_threshold", 0.9, "Least cosine of a pair of --duplicates.")
flags.DEFINE_integer("max_pairs", 100_000, "Most pairs of --duplicates.", lower_bound=1)
flags.DEFINE_enum(
    "pooling",
    None,
    get_args(TokenPooling),
    "How vectors of pieces become one; unset: as the model folder says.",
)
flags.DEFINE_integer("max_seq_length", None, "Most pieces of a text that becomes a vector.")
flags.DEFINE_integer(
    "truncate_dim",
    None,
    "Keep so many numbers of a vector, of a model trained with --matryoshka_dims; unset: all.",
    lower_bound=1,
)
flags.DEFINE_string(
    "document_prompt", None, "Stands before each text; unset: as the model folder says."
)
flags.DEFINE_integer("batch_size", 64, "Texts per call of the model.", lower_bound=1)
flags.mark_flags_as_required(["init_from"])


def main(_: Sequence[str]) -> None:
    """Reads the flags, makes or opens the vectors, groups the texts, and writes what is asked."""
    from keras_bert.clustering.similar_pairs import SimilarPair, paraphrase_mining
    from keras_bert.clustering.text_clusters import cluster_texts
    from keras_bert.retrieval.searched_texts import INDEX_FILE
    from keras_bert.retrieval.sentence_encoder import SentenceEncoder
    from keras_bert.retrieval.text_index import TextIndex
    from keras_bert.storage.paths import short_name
    from keras_bert.storage.text_lines import read_texts
    from keras_bert.visualize.clusters.view import show_clusters

    values = flags.FLAGS
    made = values.index is not None and (Path(values.index) / INDEX_FILE).is_file()
    _check_flags(values, made)
    if values.index is not None and not made:
        TextIndex.check_folder(values.index)
    texts = None if made else read_texts(values.input, values.text_column)
    if texts is not None and not any(map(str.strip, texts)):
        raise ValueError(f"--input={values.input} holds no text: give a file with texts")
    settings = {name: values[name].value for name in _SETTINGS if values[name].value is not None}
    encoder = SentenceEncoder.from_preset(values.init_from, **settings)
    if texts is None:
        index = TextIndex.load(values.index, encoder)
    else:
        index = TextIndex.build(encoder, texts, values.batch_size)
        if values.index is not None:
            index.save(values.index)
            print(f"{len(index):,} texts, {index.numbers_each}: {values.index}")
    clusters = cluster_texts(
        index.texts,
        index.vectors,
        values.num_clusters,
        values.threshold,
        values.min_cluster_size,
        values.seed,
    )
    _print(clusters)
    if values.output is not None:
        labels, similarities = clusters.labels.tolist(), clusters.similarities.tolist()
        rows = zip(clusters.texts, labels, similarities, strict=True)
        _write(
            values.output,
            ("number", "text", "cluster", "name", "similarity"),
            (
                (number, text, label, *_of_cluster(clusters, label, similarity))
                for number, (text, label, similarity) in enumerate(rows)
            ),
        )
    pairs: list[SimilarPair] = []
    if values.duplicates is not None:
        told = [number for number, text in enumerate(index.texts) if text.strip()]
        pairs = [
            SimilarPair(score, told[first], told[second])
            for score, first, second in paraphrase_mining(
                index.vectors[told], values.duplicate_threshold, max_pairs=values.max_pairs
            )
        ]
        _write(
            values.duplicates,
            ("score", "number", "other_number", "text", "other_text"),
            (
                (f"{score:.6f}", first, second, index.texts[first], index.texts[second])
                for score, first, second in pairs
            ),
        )
        print(f"{len(pairs):,} similar pairs: {values.duplicates}")
    if values.html is not None:
        title = f"Clusters of {short_name(values.input if texts is not None else values.index)}"
        show_clusters(clusters, pairs, title, values.projection).save(values.html)
        print(f"{values.html}: the page")


def _print(clusters: Any) -> None:
    alone = int((clusters.labels < 0).sum())
    print(f"{len(clusters.texts):,} texts, {len(clusters):,} clusters, {alone:,} texts in none")
    for number, cluster in enumerate(clusters.clusters[:_SHOWN]):
        typical = " ".join(clusters.typical_texts(number, 1)[0].split())[:_WIDTH]
        print(f"{number:>4}  {len(cluster.members):>7,}  {cluster.name}  |  {typical}")
    if len(clusters) > _SHOWN:
        print(f"and {len(clusters) - _SHOWN:,} smaller ones")


def _of_cluster(clusters: Any, label: int, similarity: float) -> tuple[str, str]:
    """Returns the name of a text's cluster and its similarity, both empty where it is in none."""
    return ("", "") if label < 0 else (clusters.clusters[label].name, f"{similarity:.6f}")


def _write(output: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    from keras_bert.storage.files import atomic_file

    with atomic_file(output) as path, open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)


def _check_flags(values: flags.FlagValues, made: bool) -> None:
    """Refuses bad names and numbers before anything is read; `made`: whether the index exists."""
    from keras_bert.clustering.cosines import check_cosine
    from keras_bert.storage.paths import check_ending, check_output
    from keras_bert.visualize import html_page
    from keras_bert.visualize.clusters.page import check_projection

    if values.input is None and not made:
        raise ValueError("there are no texts: give --input, or an --index that was made before")
    if values.input is not None and made:
        raise ValueError(
            f"--index={values.index} holds the vectors of texts already: leave out --input to "
            "group them, or name another folder"
        )
    command_line.check_companions("input", "text_column")
    command_line.check_companions("num_clusters", "seed")
    command_line.check_companions("duplicates", "duplicate_threshold", "max_pairs")
    command_line.check_companions("html", "projection")
    check_projection(values.projection)
    if values.num_clusters is not None:
        for name in ("threshold", "min_cluster_size"):
            if values[name].present:
                raise ValueError(
                    f"--{name} is for clusters without --num_clusters: leave out one of them"
                )
    for name in ("threshold", "duplicate_threshold"):
        check_cosine(f"--{name}", values[name].value)
    others = [path for path in (values.input, values.index) if path is not None]
    for name in ("output", "duplicates", "html"):
        path = values[name].value
        if path is not None:
            check_output(path, *others, name=f"--{name}")
            others.append(path)
            if name == "html":
                html_page.check_name(path)
            else:
                check_ending(f"--{name}", path, ".csv")


if __name__ == "__main__":
    command_line.run(main)
