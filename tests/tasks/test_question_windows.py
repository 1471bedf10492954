"""Windows of contexts: by hand, and as properties of arbitrary texts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert import BertTokenizer
from keras_bert.tasks.question_answering.questions import Answer, Question
from keras_bert.tasks.question_answering.windows import (
    Pieces,
    WindowSettings,
    answer_pieces,
    best_windows,
    encode_questions,
    window_bounds,
)
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
TOKENIZER = BertTokenizer(
    Vocabulary([*SPECIAL_TOKENS, *LETTERS, *(f"##{c}" for c in LETTERS), "é", "日", "本", "😀"])
)


def test_windows_by_hand():
    # 10 pieces in windows of 4, moved by 3: 0-3, 3-6, 6-9.
    assert window_bounds(10, 4, 3) == [(0, 4), (3, 4), (6, 4)]
    assert window_bounds(4, 4, 3) == [(0, 4)]
    assert window_bounds(0, 4, 3) == [(0, 0)]
    # A stride longer than a window would leave pieces out.
    assert window_bounds(10, 4, 9) == [(0, 4), (4, 4), (8, 2)]


def test_the_best_window_by_hand():
    # Piece 3 has 0 pieces to its right in window 0 and 0 to its left in window 1: the first wins.
    # Piece 4: 1 and 2 in window 1. Piece 6: 0 in window 1, 0 in window 2.
    best = best_windows([(0, 4), (3, 4), (6, 4)], 10)
    assert [window.astype(int).tolist() for window in best] == [
        [1, 1, 1, 1],
        [0, 1, 1, 1],
        [0, 1, 1, 1],
    ]
    # A longer window counts a little more.
    best = best_windows([(0, 4), (3, 3)], 6)
    assert [window.astype(int).tolist() for window in best] == [[1, 1, 1, 1], [0, 1, 1]]


@given(st.integers(0, 200), st.integers(1, 50), st.integers(1, 60))
def test_every_piece_has_one_best_window(pieces, room, stride):
    bounds = window_bounds(pieces, room, stride)
    counts = np.zeros(pieces, int)
    for (start, length), is_best in zip(bounds, best_windows(bounds, pieces), strict=True):
        assert length <= room
        counts[start : start + length] += is_best
    assert (counts == 1).all()


@given(st.integers(1, 200), st.integers(2, 50), st.data())
def test_every_answer_up_to_the_overlap_is_whole_in_some_window(pieces, room, data):
    stride = data.draw(st.integers(1, room))
    longest = room - stride + 1
    first = data.draw(st.integers(0, pieces - 1))
    last = min(pieces - 1, first + data.draw(st.integers(0, longest - 1)))
    bounds = window_bounds(pieces, room, stride)
    assert any(start <= first and last < start + length for start, length in bounds)


def test_an_answer_inside_a_piece_takes_the_whole_piece():
    pieces = Pieces(np.arange(3), np.array([0, 4, 10]), np.array([3, 9, 12]))
    assert answer_pieces(pieces, 5, 7) == (1, 1)
    assert answer_pieces(pieces, 2, 11) == (0, 2)
    assert answer_pieces(pieces, 3, 4) is None  # the space between


WORDS = st.text(st.sampled_from("abcé日本😀\u0301-.\u200b\u0000"), min_size=1, max_size=6)


@settings(max_examples=150, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=60), st.data())
def test_targets_point_at_the_answer_in_the_original_text(words, data):
    context = " ".join(words)
    start = data.draw(st.integers(0, len(context) - 1))
    text = context[start : start + data.draw(st.integers(1, 8))]
    question = Question("q", "a b", context, (Answer(text, start),))
    cut = WindowSettings(max_seq_length=24, doc_stride=6, max_query_length=4)
    encoded = encode_questions(TOKENIZER, [question], cut, "tokenizing")
    pieces = encoded.contexts[0]
    touching = answer_pieces(pieces, start, start + len(text))
    found = 0
    for inputs, targets in encoded.inference_batches(100)[0]:
        order = np.argsort(encoded.row_lengths, kind="stable")
        for row, index in enumerate(order):
            window = encoded.windows[index]
            first, last = (int(targets[name][row]) for name in ("start_logits", "end_logits"))
            if first == 0:
                assert last == 0
                continue
            found += 1
            span = first - window.position + window.first, last - window.position + window.first
            assert span == touching
            ids = inputs["input_ids"][row].numpy()[first : last + 1]
            np.testing.assert_array_equal(ids, pieces.ids[span[0] : span[1] + 1])
            # The characters of the pieces cover the answer, as far as it has characters in pieces.
            begin, end = pieces.starts[span[0]], pieces.ends[span[1]]
            assert begin < start + len(text) and end > start
    room = 24 - 2 - 3
    if touching is None:
        assert found == 0
    elif touching[1] - touching[0] < room - 6 + 1:
        assert found >= 1


def test_rows_are_question_and_context():
    question = Question("q", "ab", "a b a b", (Answer("b", 2),))
    cut = WindowSettings(max_seq_length=10, doc_stride=2, max_query_length=2)
    encoded = encode_questions(TOKENIZER, [question], cut, "tokenizing")
    ((inputs, targets),) = encoded.inference_batches(4)[0]
    v = TOKENIZER.vocabulary
    a, b, bb = v.id_of("a"), v.id_of("b"), v.id_of("##b")
    assert inputs["input_ids"].numpy().tolist() == [
        [v.cls_id, a, bb, v.sep_id, a, b, a, b, v.sep_id, v.pad_id]
    ] or inputs["input_ids"].numpy().tolist() == [[v.cls_id, a, bb, v.sep_id, a, b, a, b, v.sep_id]]
    assert inputs["segment_ids"].numpy()[0, :9].tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 1]
    assert targets["start_logits"].numpy().tolist() == targets["end_logits"].numpy().tolist() == [5]


def test_settings_without_room_are_refused():
    with pytest.raises(ValueError, match="leave no room for the context"):
        WindowSettings(max_seq_length=67, doc_stride=16, max_query_length=64)
    with pytest.raises(ValueError, match="doc_stride is 0"):
        WindowSettings(max_seq_length=100, doc_stride=0, max_query_length=64)
