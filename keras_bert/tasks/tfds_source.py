"""Data sets of TensorFlow Datasets, named `tfds:name` or `tfds:name/config`."""

import os
from typing import Any

TFDS_PREFIX = "tfds:"


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
    except (tfds.core.registered.DatasetNotFoundError, ValueError) as error:
        raise ValueError(
            f"{source}: TensorFlow Datasets knows no such data set: see "
            "https://www.tensorflow.org/datasets/catalog"
        ) from error
    builder.download_and_prepare()
    return builder
