"""Texts and labels of TensorFlow Datasets, such as `tfds:glue/sst2` and `tfds:imdb_reviews`."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_bert.tasks.tfds_source import open_data_set
from keras_bert.training.task import TEST, TRAIN, VALIDATION, TaskData
from keras_bert.training.text_head import LabeledTexts, LabelType

# Names of splits there, by ours.
_SPLITS = {
    TRAIN: ("train",),
    VALIDATION: ("validation", "validation_matched"),
    "validation_mismatched": ("validation_mismatched",),
    TEST: ("test", "test_matched"),
    "test_mismatched": ("test_mismatched",),
}


def read_tfds_texts(
    source: str, text_columns: Mapping[str, str], label: str, label_type: LabelType
) -> TaskData:
    """Reads a data set of texts with a class or a number each.

    A test split whose labels are hidden (-1) comes without labels.

    Args:
        source: "tfds:name" or "tfds:name/config". It is downloaded where it is not yet there.
        text_columns: the features of "text" and, for pairs, of "text_pair".
        label: the feature of the label.
        label_type: "class" or "regression".

    Raises:
        ValueError: there is no such data set, or it has not these features.
    """
    import tensorflow_datasets as tfds

    builder = open_data_set(source)
    features = builder.info.features
    for name in (*text_columns.values(), label):
        if name not in features:
            raise ValueError(
                f"{source} has no feature {name!r} among {', '.join(features)}: name the right "
                "ones with --text_column, --text_pair_column and --label_column"
            )
    names = tuple(getattr(features[label], "names", None) or ())
    if label_type == "class" and not names:
        raise ValueError(
            f"{source}: the feature {label!r} is no class: name another with --label_column, or "
            "learn numbers with --regression"
        )
    labels = names if label_type == "class" else ()
    splits = {
        split: _split(tfds.as_numpy(builder.as_dataset(found)), text_columns, label, labels)
        for split, candidates in _SPLITS.items()
        for found in candidates
        if found in builder.info.splits
    }
    return TaskData(splits, labels, dict(text_columns))


def _split(
    entries: Any, text_columns: Mapping[str, str], label: str, labels: tuple[str, ...]
) -> LabeledTexts:
    rows = list(entries)
    texts = [[row[name].decode() for row in rows] for name in text_columns.values()]
    values = np.array([row[label] for row in rows])
    hidden = bool(labels) and bool((values < 0).any())
    known = values.astype(np.int32 if labels else np.float32)
    return LabeledTexts(texts[0], texts[1] if len(texts) == 2 else None, None if hidden else known)
