"""What a pretraining run reads: records, as batches for every replica."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import tensorflow as tf

from keras_bert.data.records.parsing import check_lengths, count_records
from keras_bert.data.records.pipeline import training_batches
from keras_bert.data.records.record_groups import RecordGroups
from keras_bert.data.records.record_set import PretrainingData, record_files
from keras_bert.pretraining.objectives.objective import Targets
from keras_bert.pretraining.options import PretrainingOptions
from keras_bert.storage.paths import is_remote
from keras_bert.storage.remote_folders import local_copy
from keras_bert.text.languages.smoothing import check_alpha_unused, named_paths
from keras_bert.training.strategy import has_other_hosts


def open_records(
    folder: str, strategy: tf.distribute.Strategy, option: str = "data_dir", alpha: float = 1.0
) -> PretrainingData:
    """Opens a folder of records, or the folders of several languages: "en=FOLDER,de=FOLDER".

    Args:
        folder: local or remote.
        strategy: where they will be read.
        option: what named the folder, for messages.
        alpha: exponent of the rates of several languages.

    Raises:
        FileNotFoundError: there are no records.
        ValueError: a file is damaged, languages do not go together, or a name comes twice.
    """
    groups = {}
    for name, folders in _named_folders(folder, option).items():
        if len(folders) > 1:
            raise ValueError(
                f"--{option} names {name} twice ({folders[0]}, {folders[1]}): make its records "
                "into one folder, or give another name"
            )
        try:
            groups[name] = _open_folder(folders[0], strategy)
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{error} {_reading(option, name, folders[0])}") from None
    if groups:
        return RecordGroups(groups, alpha)
    check_alpha_unused(alpha, option)
    return _open_folder(folder, strategy)


def first_folder(folder: str, option: str = "data_dir") -> str:
    """Returns the folder of records itself, or that of the first language, see `open_records`.

    Raises:
        FileNotFoundError: a language's folder is not there.
    """
    named = _named_folders(folder, option)
    if not named:
        return folder
    name, (first, *_) = next(iter(named.items()))
    if not tf.io.gfile.isdir(first):
        raise FileNotFoundError(
            f"{first} is not a folder of records {_reading(option, name, first)}"
        )
    return first


def tokenizer_folder(folder: str, option: str = "data_dir") -> str:
    """Returns the folder whose tokenizer the records are made with, see `open_records`.

    No record is read: workers must meet before TensorFlow computes anything.

    Raises:
        FileNotFoundError: there are no such records.
    """
    first = first_folder(folder, option)
    if is_remote(first) or tf.io.gfile.isdir(first):
        return first
    return str(Path(record_files(_files(first))[0]).parent)


def _files(names: str) -> str | list[str]:
    """Returns a folder, or the files and patterns that commas separate."""
    return names.split(",") if "," in names and not tf.io.gfile.isdir(names) else names


def _reading(option: str, name: str, folder: str) -> str:
    return (
        f"(of --{option}, read as {name}={folder}: NAME=FOLDER; a folder with = in its name is "
        "given as ./FOLDER)"
    )


def _named_folders(folder: str, option: str) -> dict[str, list[str]]:
    return named_paths(folder.split(","), option)


def _open_folder(folder: str, strategy: tf.distribute.Strategy) -> PretrainingData:
    data = PretrainingData(_files(local_copy(folder)))
    if is_remote(folder) and has_other_hosts(strategy):
        # The hosts of a TPU slice read for their own chips, and know nothing of the local copy.
        data.paths = [f"{folder.rstrip('/')}/{os.path.basename(path)}" for path in data.paths]
    return data


@contextlib.contextmanager
def damage_named(*records: PretrainingData | None) -> Iterator[None]:
    """Names the file in which a record is found damaged; TensorFlow tells its offset only.

    Raises:
        ValueError: a record is damaged, or of other lengths than those before it in its file.
    """
    try:
        yield
    except tf.errors.DataLossError:
        for path in (path for data in records if data for path in data.paths):
            count_records(path)
        raise
    except tf.errors.InvalidArgumentError:
        # Masked records come without a manifest: of each file the first was looked at.
        for data in records:
            for path in data.paths if data and getattr(data, "manifest", None) is None else ():
                check_lengths(path)
        raise


def distributed_batches(
    data: PretrainingData,
    targets: Targets,
    options: PretrainingOptions,
    strategy: tf.distribute.Strategy,
    step: int,
) -> Iterable:
    """Returns the endless batches of all replicas from a step on.

    Every input pipeline reads all records and parses those of its replicas only. Reading strings
    costs little beside a step, and the order of the examples is the same whatever the number of
    pipelines, so that a run goes on exactly on other machines; shards dealt out to pipelines would
    tie it to their number.
    """

    def dataset(context: tf.distribute.InputContext) -> tf.data.Dataset:
        return training_batches(
            data,
            targets,
            context.get_per_replica_batch_size(options.batch_size),
            options.seed,
            first_batch=step,
            input_pipeline_id=context.input_pipeline_id,
            num_input_pipelines=context.num_input_pipelines,
            replicas_per_pipeline=context.num_replicas_in_sync // context.num_input_pipelines,
        )

    return strategy.distribute_datasets_from_function(dataset)
