"""Writes tf.train.Examples in protobuf's wire format, many at once.

The classes of protobuf take a hundred times as long; parsed, these are the same messages.

Shapes: N examples, T pieces of all of them, S sequence length, P predictions.
"""

import functools
from collections.abc import Mapping

import numpy as np

from keras_bert.data.records.examples import Examples
from keras_bert.features import (
    INPUT_IDS,
    INPUT_MASK,
    MASKED_LM_IDS,
    MASKED_LM_POSITIONS,
    MASKED_LM_WEIGHTS,
    NEXT_SENTENCE_LABELS,
    PACK_IDS,
    POSITION_IDS,
    SEGMENT_IDS,
    WORD_CONTINUATIONS,
)

_FLOAT_LIST, _INT64_LIST = 2, 3  # the fields of tf.train.Feature


def encode_examples(examples: Examples) -> list[bytes]:
    """Returns each example as a serialized tf.train.Example.

    The features are `input_ids`, `segment_ids` and, of packed examples, `pack_ids` and
    `position_ids`, of those with words of a segmenter `word_continuations`, all without padding,
    and `next_sentence_labels`.

    Args:
        examples: the examples.
    """
    splits = examples.splits
    columns = [
        _integers(INPUT_IDS, examples.input_ids, splits),
        _integers(SEGMENT_IDS, examples.segment_ids, splits),
    ]
    if examples.pack_ids is not None and examples.position_ids is not None:
        columns.append(_integers(PACK_IDS, examples.pack_ids, splits))
        columns.append(_integers(POSITION_IDS, examples.position_ids, splits))
    if examples.word_continuations is not None:
        columns.append(_integers(WORD_CONTINUATIONS, examples.word_continuations, splits))
    rows = np.arange(len(splits))
    columns.append(_integers(NEXT_SENTENCE_LABELS, examples.next_sentence_labels, rows))
    return _examples(columns)


def encode_masked_examples(batch: Mapping[str, np.ndarray]) -> list[bytes]:
    """Returns each row of a masked batch in the schema of google-research/bert.

    Args:
        batch: all features of pretraining, see `keras_bert.features`.
    """
    integers = (INPUT_IDS, INPUT_MASK, SEGMENT_IDS, MASKED_LM_POSITIONS, MASKED_LM_IDS)
    columns = []
    for name in integers:
        values = batch[name]  # [N, S], or [N, P] for the predictions
        splits = np.arange(len(values) + 1) * values.shape[1]
        columns.append(_integers(name, values.ravel(), splits))
    weights = batch[MASKED_LM_WEIGHTS].astype("<f4")
    columns.append([_feature(MASKED_LM_WEIGHTS, _FLOAT_LIST, row.tobytes()) for row in weights])
    labels = batch[NEXT_SENTENCE_LABELS]
    columns.append(_integers(NEXT_SENTENCE_LABELS, labels, np.arange(len(labels) + 1)))
    return _examples(columns)


def _integers(name: str, values: np.ndarray, splits: np.ndarray) -> list[bytes]:
    """Returns the feature of each example, whose values lie from one of the splits to the next."""
    encoded, ends = _varints(values)
    bounds = np.concatenate([[0], ends])[splits].tolist()
    return [
        _feature(name, _INT64_LIST, encoded[start:end])
        for start, end in zip(bounds[:-1], bounds[1:], strict=True)
    ]


def _examples(columns: list[list[bytes]]) -> list[bytes]:
    joined = [b"".join(features) for features in zip(*columns, strict=True)]
    return [_head(1, len(features)) + features for features in joined]  # Example.features


def _varints(values: np.ndarray) -> tuple[bytes, np.ndarray]:
    """Encodes integers below 2 ** 21 as protobuf varints.

    Returns:
        The bytes of all, and where those of each end.
    """
    if values.size and values.max() >= 1 << 21:
        raise ValueError(f"piece id {values.max()} is too large: ids must be below {1 << 21}")
    if values.size and values.max() < 1 << 7:
        return values.astype(np.uint8).tobytes(), np.arange(1, len(values) + 1)
    values = values.astype(np.uint32)
    sizes = 1 + (values >= 1 << 7) + (values >= 1 << 14)
    ends = np.cumsum(sizes)
    encoded = np.empty(ends[-1], np.uint8)
    for index in range(3):
        has = sizes > index
        continued = (sizes[has] > index + 1).astype(np.uint32) << 7
        encoded[ends[has] - sizes[has] + index] = (values[has] >> (7 * index)) & 127 | continued
    return encoded.tobytes(), ends


def _feature(name: str, kind: int, packed: bytes) -> bytes:
    """Encodes an entry of Features.feature, a map from name to Feature."""
    return _feature_head(name, kind, len(packed)) + packed


@functools.cache
def _feature_head(name: str, kind: int, size: int) -> bytes:
    """Returns all that stands before so many bytes of packed values; it is often the same."""
    values = _head(1, size)  # Int64List.value or FloatList.value
    of_kind = _head(kind, len(values) + size)
    key = _head(1, len(name)) + name.encode()
    value = _head(2, len(of_kind) + len(values) + size)
    entry = _head(1, len(key) + len(value) + len(of_kind) + len(values) + size)
    return entry + key + value + of_kind + values


def _head(field: int, size: int) -> bytes:
    """Returns what stands before a length-delimited field."""
    encoded = bytearray([field << 3 | 2])
    while size > 127:
        encoded.append(size & 127 | 128)
        size >>= 7
    encoded.append(size)
    return bytes(encoded)
