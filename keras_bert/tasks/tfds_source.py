"""Data sets of TensorFlow Datasets, named `tfds:name` or `tfds:name/config`."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from keras_bert.finetuning.task import TEST, TRAIN, VALIDATION

TFDS_PREFIX = "tfds:"
# Names of splits there, by ours.
USUAL_SPLITS = {TRAIN: ("train",), VALIDATION: ("validation", "dev"), TEST: ("test",)}
# The index of an example in the files that the data set was made from.
_PLACE = "idx"


def is_tfds(source: str | os.PathLike) -> bool:
    """Whether a `--data` names a data set of TensorFlow Datasets."""
    return os.fspath(source).startswith(TFDS_PREFIX)


def open_data_set(source: str) -> Any:
    """Returns the builder of a data set, prepared; it is downloaded where it is not yet there.

    Args:
        source: "tfds:name" or "tfds:name/config".

    Raises:
        ValueError: there is no such data set.
    """
    import tensorflow_datasets as tfds

    try:
        builder = tfds.builder(source.removeprefix(TFDS_PREFIX))
    except tfds.core.registered.DatasetNotFoundError as error:
        raise ValueError(
            f"{source}: TensorFlow Datasets knows no such data set: see "
            "https://www.tensorflow.org/datasets/catalog"
        ) from error
    except ValueError as error:  # such as a name found in two folders of data
        raise ValueError(f"{source}: TensorFlow Datasets says: {error}") from error
    builder.download_and_prepare()
    return builder


def check_features(source: str, builder: Any, names: Iterable[str], remedy: str) -> None:
    """Raises a `ValueError` where a data set lacks a feature.

    Args:
        source: what the error calls the data set.
        builder: what `open_data_set` returned.
        names: the features it needs.
        remedy: ends the error's sentence.
    """
    features = builder.info.features
    for name in names:
        if name not in features:
            known = ", ".join(sorted(features))
            raise ValueError(f"{source} has no feature {name!r} among {known}: {remedy}")


def read_splits(
    source: str, builder: Any, names: Mapping[str, Sequence[str]] = USUAL_SPLITS
) -> dict[str, list[dict[str, Any]]]:
    """Returns the entries of each split that is there, as NumPy values.

    Entries that know their place in the original files, as those of GLUE, come in that order: a
    data set on disk is shuffled, but leaderboards count lines.

    Args:
        source: what errors call the data set.
        builder: what `open_data_set` returned.
        names: names of splits there, by ours; "train" must be found where it is asked for.

    Raises:
        ValueError: there is no training data.
    """
    import tensorflow_datasets as tfds

    known = builder.info.splits
    splits = {
        split: list(tfds.as_numpy(builder.as_dataset(split=name)))
        for split, candidates in names.items()
        for name in candidates
        if name in known
    }
    if TRAIN in names and TRAIN not in splits:
        raise ValueError(
            f"{source} has no split 'train' among {', '.join(known)}: choose a data set to learn "
            "from"
        )
    features = builder.info.features
    if _PLACE not in features or features[_PLACE].shape != ():
        return splits
    return {split: sorted(rows, key=lambda row: row[_PLACE]) for split, rows in splits.items()}
