"""Data sets of TensorFlow Datasets, named `tfds:name` or `tfds:name/config`."""

import os
from typing import Any

TFDS_PREFIX = "tfds:"


def is_tfds(source: str | os.PathLike) -> bool:
    """Whether a `--data` or `--input` names a data set of TensorFlow Datasets."""
    return os.fspath(source).startswith(TFDS_PREFIX)


def import_tfds() -> Any:
    """Returns the module, imported when a data set is asked for.

    Raises:
        ValueError: it is not installed.
    """
    try:
        import tensorflow_datasets
    except ImportError as error:
        raise ValueError(
            f"a tfds: data set needs the package tensorflow-datasets ({error}): install it with "
            "pip install tensorflow-datasets"
        ) from None
    return tensorflow_datasets


def open_data_set(source: str) -> Any:
    """Returns the builder of a data set, prepared; it is downloaded where it is not yet there.

    Args:
        source: "tfds:name" or "tfds:name/config", perhaps with ":1.0.0" behind it.

    Raises:
        ValueError: there is no such data set, no library that knows it, or it cannot be prepared,
            as one that has to be downloaded by hand.
        OSError: the disk refused a write.
    """
    tfds = import_tfds()
    try:
        builder = tfds.builder(source.removeprefix(TFDS_PREFIX))
    except tfds.core.registered.DatasetNotFoundError as error:
        raise ValueError(
            f"{source}: TensorFlow Datasets knows no such data set: see "
            "https://www.tensorflow.org/datasets/catalog"
        ) from error
    except ValueError as error:  # such as a name found in two folders of data
        raise ValueError(f"{source}: TensorFlow Datasets says: {error}") from error
    try:
        builder.download_and_prepare()
    except OSError:
        raise
    except Exception as error:  # many kinds: network, checksums, files to be fetched by hand
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{source} cannot be prepared by TensorFlow Datasets: {reason}") from error
    return builder
