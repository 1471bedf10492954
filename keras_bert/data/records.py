"""TFRecords of unmasked pretraining examples: the format, written and read."""

import numpy as np
import tensorflow as tf

from keras_bert.features import INPUT_IDS, INPUT_MASK, NEXT_SENTENCE_LABELS, SEGMENT_IDS

# Fields of the protocol buffer messages Example > Features > map entry > Feature > Int64List, each
# as its tag byte: (field number << 3) | wire type 2 ("length-delimited").
_FEATURES = _FEATURE_ENTRY = _ENTRY_KEY = _INT64_VALUES = 0x0A
_ENTRY_VALUE = 0x12
_INT64_LIST = 0x1A


class ExampleEncoder:
    """Serializes examples as `tf.train.Example`, some thirty times faster than protobuf's Python.

    An example holds `input_ids` and `segment_ids` without padding and `next_sentence_labels`.

    Args:
        vocab_size: entries of the vocabulary.
        cls_id: id of [CLS].
        sep_id: id of [SEP].
    """

    def __init__(self, vocab_size: int, cls_id: int, sep_id: int):
        self._varints = [_varint(number) for number in range(vocab_size)]
        self._cls = self._varints[cls_id]
        self._sep = self._varints[sep_id]

    def encode(self, first: np.ndarray, second: np.ndarray | None, label: int) -> bytes:
        """Returns `[CLS] first [SEP] second [SEP]`, or `[CLS] first [SEP]` without a second.

        Args:
            first: ids of the first segment.
            second: ids of the second segment, or None.
            label: the next sentence label.
        """
        varints = self._varints
        pieces = [self._cls, *[varints[i] for i in first.tolist()], self._sep]
        segments = b"\x00" * len(pieces)
        if second is not None:
            pieces += [varints[i] for i in second.tolist()]
            pieces.append(self._sep)
            segments += b"\x01" * (len(second) + 1)
        features = (
            _feature(INPUT_IDS, b"".join(pieces))
            + _feature(NEXT_SENTENCE_LABELS, _varint(label))
            + _feature(SEGMENT_IDS, segments)
        )
        return _field(_FEATURES, features)


def parse_examples(serialized: tf.Tensor, max_seq_length: int) -> dict[str, tf.Tensor]:
    """Parses a batch of serialized examples and pads them.

    Args:
        serialized: string [B].
        max_seq_length: the length S to pad to.

    Returns:
        `input_ids`, `input_mask`, `segment_ids` int32 [B, S], `next_sentence_labels` int32 [B].
    """
    parsed = tf.io.parse_example(
        serialized,
        {
            INPUT_IDS: tf.io.RaggedFeature(tf.int64),
            SEGMENT_IDS: tf.io.RaggedFeature(tf.int64),
            NEXT_SENTENCE_LABELS: tf.io.FixedLenFeature([], tf.int64),
        },
    )
    shape = [None, max_seq_length]
    lengths = parsed[INPUT_IDS].row_lengths()
    return {
        INPUT_IDS: tf.cast(parsed[INPUT_IDS].to_tensor(shape=shape), tf.int32),
        INPUT_MASK: tf.sequence_mask(lengths, max_seq_length, tf.int32),
        SEGMENT_IDS: tf.cast(parsed[SEGMENT_IDS].to_tensor(shape=shape), tf.int32),
        NEXT_SENTENCE_LABELS: tf.cast(parsed[NEXT_SENTENCE_LABELS], tf.int32),
    }


def check_shard(path: str, max_seq_length: int) -> None:
    """Reads the first record of a file.

    Raises:
        ValueError: the file is not a TFRecord, or holds other examples than ours.
    """
    try:
        first = next(iter(tf.data.TFRecordDataset(path)), None)
    except tf.errors.OpError as error:
        reason = error.message.splitlines()[0]
        raise ValueError(
            f"{path} is damaged or not a TFRecord ({reason}): make the records again"
        ) from None
    if first is None:
        return
    try:
        ids = parse_examples(first[None], max_seq_length)[INPUT_IDS]
    except (tf.errors.OpError, ValueError):
        raise ValueError(
            f"{path} holds other records than pretraining examples with {INPUT_IDS}, "
            f"{SEGMENT_IDS} and {NEXT_SENTENCE_LABELS}: give a folder made by "
            "create_pretraining_data.py"
        ) from None
    if not tf.reduce_any(ids != 0):
        raise ValueError(f"{path} starts with an empty example: make the records again")


def _feature(name: str, values: bytes) -> bytes:
    value = _field(_INT64_LIST, _field(_INT64_VALUES, values))
    return _field(_FEATURE_ENTRY, _field(_ENTRY_KEY, name.encode()) + _field(_ENTRY_VALUE, value))


def _field(tag: int, content: bytes) -> bytes:
    return bytes((tag,)) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    """Returns a non-negative integer in base 128, low digits first."""
    digits = bytearray()
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    digits.append(number)
    return bytes(digits)
