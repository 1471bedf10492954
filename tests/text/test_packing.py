import pytest
import tensorflow as tf

from keras_bert.text import packing
from keras_bert.text.vocabulary import Vocabulary

# [PAD] is not 0 here, so that padding with a forgotten 0 shows.
VOCABULARY = Vocabulary(["[UNK]", "[CLS]", "[SEP]", "[MASK]", "[PAD]", "a"])
CLS, SEP, PAD = 1, 2, 4


def ragged(rows):
    return tf.RaggedTensor.from_row_lengths(
        tf.constant([i for row in rows for i in row], tf.int32), [len(row) for row in rows]
    )


def pack(first, second=None, **options):
    packed = packing.pack(
        ragged(first), None if second is None else ragged(second), VOCABULARY, **options
    )
    assert all(part.dtype == tf.int32 for part in packed.values())
    return {name: part.numpy().tolist() for name, part in packed.items()}


def pop_from_the_longer(first, second, room):
    """What google-research/bert does: one piece at a time from the longer list."""
    first, second = list(first), list(second)
    while len(first) + len(second) > room:
        (first if len(first) > len(second) else second).pop()
    return [first, second]


def test_single_texts():
    assert pack([[5, 6], [], [7, 8, 9, 10]], max_seq_length=5) == {
        "input_ids": [[CLS, 5, 6, SEP, PAD], [CLS, SEP, PAD, PAD, PAD], [CLS, 7, 8, 9, SEP]],
        "input_mask": [[1, 1, 1, 1, 0], [1, 1, 0, 0, 0], [1, 1, 1, 1, 1]],
        "segment_ids": [[0] * 5, [0] * 5, [0] * 5],
    }


def test_pairs():
    assert pack([[5], [6, 7, 8]], [[9, 10], [11, 12, 13]], max_seq_length=7) == {
        "input_ids": [[CLS, 5, SEP, 9, 10, SEP, PAD], [CLS, 6, 7, SEP, 11, 12, SEP]],
        "input_mask": [[1, 1, 1, 1, 1, 1, 0], [1] * 7],
        "segment_ids": [[0, 0, 0, 1, 1, 1, 0], [0, 0, 0, 0, 1, 1, 1]],
    }


def test_the_first_text_of_a_pair_may_be_cut_alone():
    first, second = ragged([[5, 6, 7], [5, 6], [5, 6], []]), ragged([[8], [8, 9, 10], [], [8]])
    cut = packing.truncate_first(first, second, 3)
    assert cut.to_list() == [[5, 6], [], [5, 6], []]
    assert cut.dtype == tf.int32


def test_padding_to_the_longest():
    packed = pack([[5], [6, 7]], max_seq_length=100, pad_to_max=False)
    assert packed["input_ids"] == [[CLS, 5, SEP, PAD], [CLS, 6, 7, SEP]]
    assert packed["input_mask"] == [[1, 1, 1, 0], [1, 1, 1, 1]]
    assert packed["segment_ids"] == [[0] * 4, [0] * 4]
    assert len(pack([[5] * 9], max_seq_length=6, pad_to_max=False)["input_ids"][0]) == 6


def test_no_texts():
    assert pack([], max_seq_length=5)["input_ids"] == []


def test_fixed_length_is_static():
    specs = (
        tf.function(
            lambda ids: packing.pack(ids, ids, VOCABULARY, max_seq_length=9),
            input_signature=[tf.RaggedTensorSpec([None, None], tf.int32)],
        )
        .get_concrete_function()
        .structured_outputs
    )
    assert {name: spec.shape.as_list() for name, spec in specs.items()} == {
        "input_ids": [None, 9],
        "input_mask": [None, 9],
        "segment_ids": [None, 9],
    }


@pytest.mark.parametrize("room", range(2, 12))
def test_pairs_are_cut_as_in_the_original(room):
    lengths = [(i, j) for i in range(10) for j in range(10)]
    first = [list(range(i)) for i, _ in lengths]
    second = [list(range(100, 100 + j)) for _, j in lengths]
    cut = packing.truncate_pair(ragged(first), ragged(second), room)
    expected = [pop_from_the_longer(a, b, room) for a, b in zip(first, second, strict=True)]
    assert [list(pair) for pair in zip(*(c.to_list() for c in cut), strict=True)] == expected
