"""Texts and labels of TensorFlow Datasets, such as `tfds:glue/sst2` and `tfds:imdb_reviews`."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert.finetuning.task import TEST, TRAIN, VALIDATION, TaskData
from keras_bert.storage.data_sets import open_data_set
from keras_bert.tasks.classification.head import LabeledTexts, LabelType
from keras_bert.tasks.tfds_source import USUAL_SPLITS, check_features, read_splits

_SPLITS = {
    TRAIN: USUAL_SPLITS[TRAIN],
    VALIDATION: (*USUAL_SPLITS[VALIDATION], "validation_matched"),
    "validation_mismatched": ("validation_mismatched",),
    TEST: (*USUAL_SPLITS[TEST], "test_matched"),
    "test_mismatched": ("test_mismatched",),
}
# What stands where a label is hidden, or where annotators could not agree on a class.
_NO_LABEL = -1


def read_tfds_texts(
    source: str,
    text_columns: Mapping[str, str],
    label: str,
    label_type: LabelType,
    splits: Mapping[str, Sequence[str]] = _SPLITS,
) -> TaskData:
    """Reads a data set of texts with a class or a number each.

    A split whose labels are all hidden (-1) comes without labels; where only some examples have no
    class, as in SNLI, these are left out and counted.

    Args:
        source: "tfds:name" or "tfds:name/config". It is downloaded where it is not yet there.
        text_columns: the features of "text" and, for pairs, of "text_pair".
        label: the feature of the label.
        label_type: "class" or "regression".
        splits: names of splits there, by ours.

    Raises:
        ValueError: there is no such data set, it has not these features, or nothing to learn from.
    """
    builder = open_data_set(source)
    labels = _labels(source, builder, text_columns, label, label_type)
    found = {
        split: _split(f"{source}, split {split}", rows, list(text_columns.values()), label, labels)
        for split, rows in read_splits(source, builder, splits).items()
    }
    for split in (TRAIN, VALIDATION):
        if split in found and found[split].labels is None:
            raise ValueError(f"{source}, split {split}: no example has a label: choose another set")
    return TaskData(found, labels, dict(text_columns))


def _labels(
    source: str,
    builder: Any,
    text_columns: Mapping[str, str],
    label: str,
    label_type: LabelType,
) -> tuple[str, ...]:
    """Checks the features; returns the names of the classes, none for a number."""
    remedy = "name the right ones with --text_column, --text_pair_column and --label_column"
    check_features(source, builder, (*text_columns.values(), label), remedy)
    features = builder.info.features
    for name in text_columns.values():
        if _kind(features[name]) not in "OSU":
            raise ValueError(f"{source}: the feature {name!r} is no text: {remedy}")
    if label_type == "class":
        names = tuple(getattr(features[label], "names", None) or ())
        if not names:
            raise ValueError(
                f"{source}: the feature {label!r} is no class: name another with --label_column, "
                "or learn numbers with --regression"
            )
        return names
    if _kind(features[label]) not in "iuf":
        raise ValueError(f"{source}: the feature {label!r} is no number: {remedy}")
    return ()


def _kind(feature: Any) -> str:
    """Returns NumPy's letter for the kind of a feature's values; "V" for what is no single one."""
    return np.dtype(feature.np_dtype).kind if feature.shape == () else "V"


def _split(
    place: str,
    rows: Sequence[Mapping[str, Any]],
    text_features: Sequence[str],
    label: str,
    labels: tuple[str, ...],
) -> LabeledTexts:
    values = np.array([row[label] for row in rows], np.int32 if labels else np.float32)
    missing = values == _NO_LABEL
    if missing.all():
        return LabeledTexts(*_texts(rows, text_features))
    if not labels or not missing.any():  # -1 is a number like any other
        return LabeledTexts(*_texts(rows, text_features), values)
    print(
        f"{place}: {missing.sum():,} of {len(rows):,} examples have no label and are left out",
        file=sys.stderr,
    )
    kept = [row for row, out in zip(rows, missing, strict=True) if not out]
    return LabeledTexts(*_texts(kept, text_features), values[~missing])


def _texts(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> tuple[list[str], list[str] | None]:
    columns = [[row[name].decode("utf-8") for row in rows] for name in names]
    return columns[0], columns[1] if len(columns) == 2 else None
