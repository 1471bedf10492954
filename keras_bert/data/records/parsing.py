"""TFRecords of pretraining examples: ours, without masks, and Google's, with fixed masks.

Shapes: N examples of a file, T pieces of all of them, B batch, S sequence length, P predictions.
"""

import numpy as np
import tensorflow as tf

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

_UNMASKED = frozenset((INPUT_IDS, SEGMENT_IDS, NEXT_SENTENCE_LABELS))
_MASKED = _UNMASKED | {INPUT_MASK, MASKED_LM_POSITIONS, MASKED_LM_IDS, MASKED_LM_WEIGHTS}


def parse_examples(
    serialized: tf.Tensor,
    max_seq_length: int,
    pad_id: int = 0,
    packed: bool = False,
    segmented: bool = False,
) -> dict[str, tf.Tensor]:
    """Parses a batch of unmasked examples.

    Args:
        serialized: string [B].
        max_seq_length: S, at least the length of the longest example.
        pad_id: id of [PAD].
        packed: whether the examples hold several documents.
        segmented: whether a segmenter found the words of some or all of them.

    Returns:
        `input_ids`, `input_mask`, `segment_ids` int32 [B, S] and `next_sentence_labels` int32 [B];
        of packed ones also `pack_ids`, `position_ids` int32 [B, S]; of segmented ones also
        `word_continuations` int32 [B, S], -1 where an example has none.
    """
    # Padding is told from pieces by a value that no segment has.
    fillers = {INPUT_IDS: pad_id, SEGMENT_IDS: -1}
    if packed:
        fillers |= {PACK_IDS: 0, POSITION_IDS: 0}
    if segmented:
        fillers[WORD_CONTINUATIONS] = -1
    sequence = tf.io.FixedLenSequenceFeature
    features = {
        name: sequence([], tf.int64, allow_missing=True, default_value=filler)
        for name, filler in fillers.items()
    }
    parsed = tf.io.parse_example(
        serialized, features | {NEXT_SENTENCE_LABELS: tf.io.FixedLenFeature([], tf.int64)}
    )
    batch = {}
    for name, filler in fillers.items():
        values = tf.cast(parsed[name], tf.int32)  # [B, longest]
        missing = max_seq_length - tf.shape(values)[1]
        values = tf.pad(values, [[0, 0], [0, missing]], constant_values=filler)
        batch[name] = tf.ensure_shape(values, [None, max_seq_length])  # [B, S]
    return batch | {
        INPUT_MASK: tf.cast(batch[SEGMENT_IDS] >= 0, tf.int32),
        SEGMENT_IDS: tf.maximum(batch[SEGMENT_IDS], 0),
        NEXT_SENTENCE_LABELS: tf.cast(parsed[NEXT_SENTENCE_LABELS], tf.int32),
    }


def parse_masked_examples(
    serialized: tf.Tensor, max_seq_length: int, max_predictions_per_seq: int
) -> dict[str, tf.Tensor]:
    """Parses a batch of the examples that create_pretraining_data.py of google-research/bert makes.

    Args:
        serialized: string [B].
        max_seq_length: S of the records.
        max_predictions_per_seq: P of the records.

    Returns:
        All features of pretraining, see `keras_bert.features`.
    """
    whole = tf.io.FixedLenFeature([max_seq_length], tf.int64)
    predictions = tf.io.FixedLenFeature([max_predictions_per_seq], tf.int64)
    parsed = tf.io.parse_example(
        serialized,
        {
            INPUT_IDS: whole,
            INPUT_MASK: whole,
            SEGMENT_IDS: whole,
            MASKED_LM_POSITIONS: predictions,
            MASKED_LM_IDS: predictions,
            MASKED_LM_WEIGHTS: tf.io.FixedLenFeature([max_predictions_per_seq], tf.float32),
            NEXT_SENTENCE_LABELS: tf.io.FixedLenFeature([1], tf.int64),
        },
    )
    labels = parsed.pop(NEXT_SENTENCE_LABELS)
    weights = parsed.pop(MASKED_LM_WEIGHTS)
    return {name: tf.cast(values, tf.int32) for name, values in parsed.items()} | {
        MASKED_LM_WEIGHTS: weights,
        NEXT_SENTENCE_LABELS: tf.cast(labels[:, 0], tf.int32),
    }


def read_first_example(path: str) -> dict[str, int]:
    """Reads the first record of a file and returns the length of each of its features.

    Args:
        path: a TFRecord file.

    Returns:
        The lengths, or an empty dict when the file holds no record.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is damaged, no TFRecord, or holds other features.
    """
    if not tf.io.gfile.exists(path):
        raise FileNotFoundError(f"there are no records at {path}: check the path")
    first = _reading(path, lambda: list(tf.data.TFRecordDataset(path).take(1).as_numpy_iterator()))
    if not first:
        return {}
    example = tf.train.Example()
    try:
        example.ParseFromString(first[0])
    except Exception:  # protobuf's DecodeError, which has no public home
        raise ValueError(f"{path} holds records that are no tf.train.Example: {_REMEDY}") from None
    lengths = _lengths(example)
    missing = sorted(_UNMASKED - lengths.keys())
    if MASKED_LM_POSITIONS in lengths:
        missing = sorted(_MASKED - lengths.keys())
    if missing:
        raise ValueError(
            f"the records in {path} lack {', '.join(missing)} (they hold "
            f"{', '.join(sorted(lengths)) or 'nothing'}): {_REMEDY}"
        )
    return lengths


def check_lengths(path: str) -> None:
    """Reads masked records through; those of a file must have the lengths of the first.

    Raises:
        ValueError: one has others, and the sentence names it.
    """
    first = read_first_example(path)
    if MASKED_LM_POSITIONS not in first:
        return
    example = tf.train.Example()
    for number, record in enumerate(tf.data.TFRecordDataset(path).as_numpy_iterator(), start=1):
        example.ParseFromString(record)
        lengths = _lengths(example)
        for name in sorted(_MASKED):
            if lengths.get(name, 0) != first[name]:
                raise ValueError(
                    f"{path}: record {number} has {lengths.get(name, 0)} {name}, the first one "
                    f"{first[name]}: give files of one kind each"
                )


def id_range(path: str, max_seq_length: int, max_predictions_per_seq: int) -> tuple[int, int, int]:
    """Reads masked records through; returns their number, the lowest id and the highest one.

    Args:
        path: a TFRecord file.
        max_seq_length: S of the records.
        max_predictions_per_seq: P of the records.

    Raises:
        ValueError: the file is damaged or cut off, or a record has other lengths.
    """
    lengths = {INPUT_IDS: max_seq_length, MASKED_LM_IDS: max_predictions_per_seq}
    features = {name: tf.io.FixedLenFeature([n], tf.int64) for name, n in lengths.items()}

    def ids_of(serialized: tf.Tensor) -> tf.Tensor:
        return tf.concat([*tf.io.parse_example(serialized, features).values()], axis=1)  # [B, S+P]

    def add(found: tuple, ids: tf.Tensor) -> tuple:
        number, lowest, highest = found
        return (
            number + tf.shape(ids, tf.int64)[0],
            tf.minimum(lowest, tf.reduce_min(ids)),
            tf.maximum(highest, tf.reduce_max(ids)),
        )

    batches = tf.data.TFRecordDataset(path).batch(1024).map(ids_of, tf.data.AUTOTUNE)
    start = (np.int64(0), np.int64(0), np.int64(0))
    try:
        return _reading(path, lambda: tuple(int(n) for n in batches.reduce(start, add)))
    except tf.errors.InvalidArgumentError:
        check_lengths(path)
        raise


def check_ids(path: str, vocab_size: int) -> None:
    """Reads masked records through; all ids must be those of a vocabulary.

    On an accelerator the embedding of an id that is not there is an arbitrary one, not an error.

    Raises:
        ValueError: a record has another id, and the sentence names it.
    """
    example = tf.train.Example()
    for number, record in enumerate(tf.data.TFRecordDataset(path).as_numpy_iterator(), start=1):
        example.ParseFromString(record)
        for name in (INPUT_IDS, MASKED_LM_IDS):
            for one in example.features.feature[name].int64_list.value:
                if not 0 <= one < vocab_size:
                    raise ValueError(
                        f"{path}: record {number} has the id {one} in {name}, but the vocabulary "
                        f"has {vocab_size} entries: put the one that the records were made with "
                        "beside them, or make them again"
                    )


def count_records(path: str) -> int:
    """Reads a file through and returns the number of its records.

    Raises:
        ValueError: the file is damaged or cut off.
    """
    batches = tf.data.TFRecordDataset(path).batch(1024)
    zero = np.int64(0)
    return _reading(
        path, lambda: int(batches.reduce(zero, lambda n, batch: n + tf.size(batch, tf.int64)))
    )


_REMEDY = "give records that create_pretraining_data.py made"


def _lengths(example: tf.train.Example) -> dict[str, int]:
    # A feature without values has no kind; any kind of it is empty.
    return {
        name: len(getattr(feature, feature.WhichOneof("kind") or "int64_list").value)
        for name, feature in example.features.feature.items()
    }


def _reading(path, read):
    try:
        return read()
    except tf.errors.DataLossError as error:
        raise ValueError(
            f"{path} is damaged, cut off or no TFRecord file "
            f"({error.message.splitlines()[0]}): make the records again"
        ) from None
