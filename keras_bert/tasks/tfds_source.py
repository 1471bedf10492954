"""Features and splits of a data set of TensorFlow Datasets that a task learns from."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from keras_bert.finetuning.task import TEST, TRAIN, VALIDATION
from keras_bert.storage.data_sets import import_tfds

# Names of splits there, by ours.
USUAL_SPLITS = {TRAIN: ("train",), VALIDATION: ("validation", "dev"), TEST: ("test",)}
# The index of an example in the files that the data set was made from.
_PLACE = "idx"


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
    tfds = import_tfds()
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
