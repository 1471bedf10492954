"""Vectors for TensorBoard's embedding projector: a folder that `tensorboard --logdir` shows.

vectors.tsv              N rows of D numbers with tabs between them; the web page
                         projector.tensorflow.org loads this file and the next, too
metadata.tsv             N rows of text, tab-separated, below names of columns if there are several
projector_config.pbtxt   which file is which, and the shape (a text proto: ProjectorConfig of
                         tensorboard/plugins/projector/projector_config.proto)

Binary vectors would be a third as large, but TensorBoard takes each file for text first and gives
up on vectors whose bytes happen to be text, such as zeros.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from keras_bert.storage.files import atomic_folder
from keras_bert.storage.paths import check_replaceable
from keras_bert.tasks.feature_extraction.extraction import TextFeatures

CONFIG_FILE = "projector_config.pbtxt"
VECTORS_FILE = "vectors.tsv"
METADATA_FILE = "metadata.tsv"

# Of a text around a piece or a word; longer rows make the projector slow.
_MOST_CHARACTERS = 120


def write_projector(
    folder: str | os.PathLike,
    vectors: np.ndarray,
    metadata: Mapping[str, Sequence[object]],
    name: str = "vectors",
) -> None:
    """Writes vectors and what each stands for as a folder for TensorBoard's projector.

    Args:
        folder: the folder to make; one that an earlier call made is replaced.
        vectors: [N, D].
        metadata: columns of N values, such as {"word": ..., "label": ...}; the projector colours by
            any of them. Tabs and line ends in them become spaces.
        name: what the projector calls the vectors.

    Raises:
        ValueError: there is no vector, one is not finite, there is no column, a column has not N
            values, or the folder holds something else.

    Example:
        write_projector("projector", np.eye(2), {"word": ["film", "book"]})
        # tensorboard --logdir=projector
    """
    vectors = np.asarray(vectors)
    if vectors.ndim != 2 or not len(vectors):
        raise ValueError(
            f"vectors have the shape {vectors.shape}: give [N, D] with a row for each vector"
        )
    if not metadata:
        raise ValueError("metadata has no column: give one, so that points can be told apart")
    for column, values in metadata.items():
        if len(values) != len(vectors):
            raise ValueError(
                f"the column {column!r} has {len(values)} values but there are {len(vectors)} "
                "vectors: give one for each"
            )
    check_folder(folder)
    rows = zip(vectors, zip(*metadata.values(), strict=True), strict=True)
    _write(Path(folder), tuple(metadata), rows, name)


def write_feature_projector(
    folder: str | os.PathLike,
    features: Iterable[TextFeatures],
    labels: Sequence[str] | None = None,
) -> None:
    """Writes the vectors of texts as they come, with the text around each of them.

    The columns are `unit` (the piece or word), `text`, and `label`, where labels are given.

    Args:
        folder: the folder to make; one that an earlier call made is replaced.
        features: features of one level.
        labels: one for each text.

    Raises:
        ValueError: there is no vector, one is not finite, there are more or fewer labels than
            texts, or the folder holds something else.
    """
    check_folder(folder)
    columns = ("unit", "text", *(() if labels is None else ("label",)))

    def rows() -> Iterator[tuple[np.ndarray, tuple[object, ...]]]:
        for text, label in _labeled(features, labels):
            for vector, start, end in zip(text.values, text.starts, text.ends, strict=True):
                yield vector, (text.text[start:end], text.text, *label)

    _write(Path(folder), columns, rows(), "features")


def _labeled(
    features: Iterable[TextFeatures], labels: Sequence[str] | None
) -> Iterator[tuple[TextFeatures, tuple[str, ...]]]:
    """Yields each text with its label, if any; texts come as they are made, so they are counted."""
    count = 0
    for text in features:
        label = () if labels is None else tuple(labels[count : count + 1])
        count += 1
        if labels is not None and not label:
            raise ValueError(f"there are {len(labels):,} labels but more texts: give one for each")
        yield text, label
    if labels is not None and count < len(labels):
        raise ValueError(f"there are {len(labels):,} labels but {count:,} texts: give one for each")


def check_folder(folder: str | os.PathLike) -> None:
    """Checks before the work that a folder may be written.

    Raises:
        ValueError: it is a file, or a folder that holds something else than such vectors.
    """
    path = Path(folder)
    filled = path.is_file() or (path.is_dir() and any(path.iterdir()))
    if filled and not (path / CONFIG_FILE).is_file():
        raise ValueError(
            f"{path} is there already and holds no vectors for the projector: choose another name, "
            "or remove it"
        )
    check_replaceable(folder)


def _write(
    folder: Path,
    columns: Sequence[str],
    rows: Iterable[tuple[np.ndarray, Sequence[object]]],
    name: str,
) -> None:
    count = width = 0
    with atomic_folder(folder) as made:
        with (
            open(made / VECTORS_FILE, "w", encoding="utf-8", newline="\n") as numbers,
            open(made / METADATA_FILE, "w", encoding="utf-8", newline="\n") as metadata,
        ):
            if len(columns) > 1:  # of one column the projector expects no name
                metadata.write("\t".join(map(_cell, columns)) + "\n")
            for vector, values in rows:
                if not np.isfinite(vector).all():
                    raise ValueError(
                        "a vector holds a number that is not finite: look at the model"
                    )
                numbers.write("\t".join(f"{value:.7g}" for value in vector.tolist()) + "\n")
                metadata.write("\t".join(map(_cell, values)) + "\n")
                count, width = count + 1, len(vector)
        if not count:
            raise ValueError("there is no vector to show: the texts hold no pieces")
        (made / CONFIG_FILE).write_text(
            "embeddings {\n"
            f"  tensor_name: {_quoted(name)}\n"
            f"  metadata_path: {_quoted(METADATA_FILE)}\n"
            f"  tensor_path: {_quoted(VECTORS_FILE)}\n"
            f"  tensor_shape: {count}\n"
            f"  tensor_shape: {width}\n"
            "}\n",
            encoding="utf-8",
        )


def _cell(value: object) -> str:
    text = " ".join(str(value).split())
    # An empty line would be no row.
    return text[:_MOST_CHARACTERS] or "(empty)"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
