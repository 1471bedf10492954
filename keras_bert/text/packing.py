"""Pieces of one or two texts to the model's inputs: [CLS] a [SEP] b [SEP], or as its family has it.

    first, second          input_ids                   segment_ids      input_mask
    [5 6], [7 8 9]         cls 5 6 sep 7 8 9 sep pad   0 0 0 0 1 1 1 1 0   1 1 1 1 1 1 1 1 0

The vocabulary knows the framing of its family: RoBERTa's pairs are <s> a </s> </s> b </s>, and
their segment ids 0; Llama 3's rows have no end. Shapes: N texts or pairs, S positions.
"""

from collections.abc import Iterable

import tensorflow as tf

from keras_bert.features import INPUT_IDS, INPUT_MASK, SEGMENT_IDS
from keras_bert.text.vocabulary import Vocabulary


def truncate(first: tf.RaggedTensor, max_length: int) -> tf.RaggedTensor:
    """Keeps at most `max_length` pieces of each text: [N, pieces] -> [N, pieces]."""
    return first[:, :max_length]


def truncate_pair(
    first: tf.RaggedTensor, second: tf.RaggedTensor, max_length: int
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Shortens pairs to `max_length` pieces together, taking from the end of the longer text.

    The outcome is that of `_truncate_seq_pair` in google-research/bert, which removes one piece at
    a time from the longer text, and from the second one when both are equally long: the shorter
    text is touched only where it exceeds half of the room.

    Args:
        first: int32 [N, pieces].
        second: int32 [N, pieces].
        max_length: pieces of both texts together.

    Returns:
        Both, shortened.
    """
    first_lengths = first.row_lengths()  # [N]
    second_lengths = second.row_lengths()
    # The removal ends with equal halves unless one text leaves more than half to the other.
    # Room 8 for 3 and 9 pieces: 4 and 4 would leave one unused, so 3 and 5 stay.
    first_room = tf.maximum(tf.cast((max_length + 1) // 2, tf.int64), max_length - second_lengths)
    second_room = tf.maximum(tf.cast(max_length // 2, tf.int64), max_length - first_lengths)
    return _heads(first, first_room), _heads(second, second_room)


def truncate_first(
    first: tf.RaggedTensor, second: tf.RaggedTensor, max_length: int
) -> tf.RaggedTensor:
    """Shortens the first texts of pairs alone, to `max_length` pieces with the second ones.

    Args:
        first: int32 [N, pieces].
        second: int32 [N, pieces]; beside one that takes all room nothing of the first stays.
        max_length: pieces of both texts together.

    Returns:
        The first texts, shortened: int32 [N, pieces].
    """
    return _heads(first, max_length - second.row_lengths())


def pack(
    first: tf.RaggedTensor,
    second: tf.RaggedTensor | None,
    vocabulary: Vocabulary,
    max_seq_length: int,
    pad_to_max: bool = True,
) -> dict[str, tf.Tensor]:
    """Builds the inputs of a model.

    Args:
        first: int32 [N, pieces], ids of the texts.
        second: int32 [N, pieces], ids of the second texts of pairs, or None.
        vocabulary: tells the ids of [CLS], [SEP] and [PAD], and the framing.
        max_seq_length: the most positions a row may have, special tokens included.
        pad_to_max: pad to `max_seq_length`; otherwise to the longest row of the batch.

    Returns:
        "input_ids", "input_mask" (1 at real tokens) and "segment_ids" (0 for [CLS] a [SEP], 1 for
        b [SEP]; 0 in families without segments), each int32 [N, S].
    """
    if second is None:
        first = truncate(first, max_seq_length - vocabulary.framing.special_in_single)
    else:
        room = max_seq_length - vocabulary.framing.special_in_pair
        first, second = truncate_pair(first, second, room)
    rows = join_pieces(first, second, vocabulary)
    return pad_rows(*rows, vocabulary, max_seq_length if pad_to_max else None)


def join_pieces(
    first: tf.RaggedTensor, second: tf.RaggedTensor | None, vocabulary: Vocabulary
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Returns the rows [CLS] first [SEP] second [SEP] and their segments, int32 [N, pieces] each.

    Args:
        first: int32 [N, pieces].
        second: int32 [N, pieces], or None for rows of one text.
        vocabulary: tells the ids of [CLS] and [SEP], and the framing.
    """

    def columns(ids: Iterable[int]) -> list[tf.RaggedTensor]:
        return [_column(token_id, first.nrows()) for token_id in ids]  # [N, 1] each

    begin, end = columns([vocabulary.cls_id]), columns(vocabulary.end_ids)
    if second is None:
        segments = [tf.concat([*begin, first, *end], axis=1)]  # ragged [N, pieces]
    else:
        closing, *more = columns(vocabulary.between_ids)
        segments = [
            tf.concat([*begin, first, closing], axis=1),
            tf.concat([*more, second, *end], axis=1),
        ]
    ids = tf.concat(segments, axis=1)
    if not vocabulary.framing.has_segments:
        return ids, tf.zeros_like(ids)
    # 0 0 .. 1 1
    return ids, tf.concat([tf.ones_like(s) * i for i, s in enumerate(segments)], axis=1)


def pad_rows(
    ids: tf.RaggedTensor,
    segment_ids: tf.RaggedTensor,
    vocabulary: Vocabulary,
    length: int | None = None,
) -> dict[str, tf.Tensor]:
    """Returns the inputs of a model, int32 [N, S] each; S is the longest row without a `length`."""
    shape = [None, length]
    return {
        INPUT_IDS: ids.to_tensor(vocabulary.pad_id, shape=shape),
        INPUT_MASK: tf.ones_like(ids).to_tensor(0, shape=shape),
        SEGMENT_IDS: segment_ids.to_tensor(0, shape=shape),
    }


def _heads(pieces: tf.RaggedTensor, lengths: tf.Tensor) -> tf.RaggedTensor:
    # [N, pieces]: 0 1 2 ... in each text
    positions = tf.ragged.range(pieces.row_lengths()).with_row_splits_dtype(tf.int64)
    limits = tf.gather(lengths, pieces.value_rowids())  # [pieces of all texts]
    return tf.ragged.boolean_mask(pieces, positions.with_values(positions.values < limits))


def _column(token_id: int, rows: tf.Tensor) -> tf.RaggedTensor:
    return tf.RaggedTensor.from_tensor(tf.fill([rows, 1], tf.constant(token_id, tf.int32)))
