"""Windows of contexts: by hand, as properties of arbitrary texts, and against NumPy loops."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert import BertTokenizer
from keras_bert.tasks.question_answering.questions import Answer, Question
from keras_bert.tasks.question_answering.windows import (
    WindowSettings,
    cut_windows,
    encode_questions,
    in_best_window,
)
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.tasks import span_oracle

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
TOKENIZER = BertTokenizer(
    Vocabulary([*SPECIAL_TOKENS, *LETTERS, *(f"##{c}" for c in LETTERS), "é", "日", "本", "😀"])
)


def windows_of(pieces, room, stride):
    """First piece, length and best pieces of the windows of a context, beside two other contexts.

    Of them one has the same pieces and one has none.
    """
    # One piece of a question and three special tokens.
    cut = WindowSettings(room + 4, stride, 1)
    lengths = tf.constant([pieces, pieces, 0], tf.int64)
    found = cut_windows(tf.ones([3], tf.int64), lengths, cut)
    best = np.split(in_best_window(found, lengths).numpy(), np.cumsum(found.lengths)[:-1])
    rows, offsets, lengths, positions = (field.numpy().tolist() for field in found)
    assert set(positions) == {3}
    by_question = [[], [], []]
    for row, *window, is_best in zip(rows, offsets, lengths, best, strict=True):
        by_question[row].append((*window, is_best.tolist()))
    assert by_question[0] == by_question[1] and by_question[2] == [(0, 0, [])]
    return by_question[0]


def test_windows_by_hand():
    # 10 pieces in windows of 4, moved by 3: 0-3, 3-6, 6-9. Piece 3 has 0 pieces to its right in
    # window 0 and 0 to its left in window 1: the first wins. Piece 6: 0 in both of its windows.
    assert windows_of(10, 4, 3) == [
        (0, 4, [True, True, True, True]),
        (3, 4, [False, True, True, True]),
        (6, 4, [False, True, True, True]),
    ]
    assert windows_of(4, 4, 3) == [(0, 4, [True] * 4)]
    assert windows_of(0, 4, 3) == [(0, 0, [])]
    # A stride longer than a window would leave pieces out.
    assert [window[:2] for window in windows_of(10, 4, 9)] == [(0, 4), (4, 4), (8, 2)]
    assert windows_of(6, 4, 3) == [(0, 4, [True] * 4), (3, 3, [False, True, True])]
    # A hundred more pieces in a window count as one more piece of context. Piece 275 has 24 behind
    # it in window 0 and 25 in window 1, but 24 + 3.00 is more than 25 + 0.51.
    assert windows_of(301, 300, 250)[1] == (250, 51, [False] * 50 + [True])


@settings(deadline=None)
@given(st.integers(0, 200), st.integers(1, 50), st.integers(1, 60), st.data())
def test_windows_are_those_of_the_loops(pieces, room, stride, data):
    bounds = span_oracle.window_bounds(pieces, room, stride)
    best = [rows.tolist() for rows in span_oracle.best_windows(bounds, pieces)]
    found = windows_of(pieces, room, stride)
    assert found == [(*bound, rows) for bound, rows in zip(bounds, best, strict=True)]
    # Every piece is best in one window, and every span up to the overlap is whole in some window.
    counts = np.zeros(pieces, int)
    for start, length, is_best in found:
        assert length <= room
        counts[start : start + length] += np.array(is_best, int)
    assert (counts == 1).all()
    if pieces:
        first = data.draw(st.integers(0, pieces - 1))
        last = min(pieces, first + room - min(stride, room) + 1) - 1
        assert any(start <= first and last < start + length for start, length, _ in found)


def rows_of(questions, cut):
    """Ids without padding, segments and target of each row, in the order of the questions."""
    encoded = encode_questions(TOKENIZER, questions, cut, "tokenizing")
    inputs, targets = encoded.examples(np.arange(len(encoded)), np.arange(len(encoded)))
    rows = []
    for index, length in enumerate(inputs["input_mask"].numpy().sum(axis=1)):
        ids, segments = (inputs[n][index, :length] for n in ("input_ids", "segment_ids"))
        target = targets and tuple(int(targets[n][index]) for n in ("start_logits", "end_logits"))
        rows.append((ids.numpy().tolist(), segments.numpy().tolist(), target))
    return rows


@pytest.mark.parametrize(
    ("answer", "target"),
    [
        (Answer("b", 2), (5, 5)),
        (Answer("b a", 2), (5, 6)),
        # The inside of a word is its piece; a space alone is none.
        (Answer(" ", 1), (0, 0)),
        (Answer("b ", 6), (7, 7)),
    ],
)
def test_rows_are_question_and_context(answer, target):
    cut = WindowSettings(max_seq_length=10, doc_stride=2, max_query_length=2)
    v = TOKENIZER.vocabulary
    a, b, bb = v.id_of("a"), v.id_of("b"), v.id_of("##b")
    ids = [v.cls_id, a, bb, v.sep_id, a, b, a, b, v.sep_id]
    question = Question("q", "abc", "a b a b ", (answer,))  # the third piece of "abc" is cut
    assert rows_of([question], cut) == [(ids, [0] * 4 + [1] * 5, target)]
    unknown = Question("q", "abc", "a b a b ")
    assert rows_of([question, unknown], cut) == [(ids, [0] * 4 + [1] * 5, None)] * 2


WORDS = st.text(st.sampled_from("abcé日本😀\u0301-.\u200b\u0000"), min_size=1, max_size=6)


@settings(max_examples=75, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=60), st.data())
def test_targets_point_at_the_answer_in_the_original_text(words, data):
    context = " ".join(words)
    start = data.draw(st.integers(0, len(context) - 1))
    text = context[start : start + data.draw(st.integers(1, 8))]
    answered = Question("q", "a b", context, (Answer(text, start),))
    cut = WindowSettings(max_seq_length=24, doc_stride=6, max_query_length=4)
    room = 24 - 2 - 3
    # Others that share its context, and one that does not.
    others = [Question("r", "a b", context, ()), Question("s", "b", "a b", (Answer("b", 2),))]
    rows = rows_of([others[1], answered, others[0]], cut)
    pieces = span_oracle.Pieces(
        *(ragged[0].numpy() for ragged in TOKENIZER.tokenize_with_offsets([context]))
    )
    touching = span_oracle.answer_pieces(pieces, start, start + len(text))
    bounds = span_oracle.window_bounds(len(pieces.ids), room, 6)
    assert len(rows) == 1 + 2 * len(bounds)
    assert rows[0][2] == (4, 4)
    found = 0
    for (first, length), row, other in zip(
        bounds, rows[1 : 1 + len(bounds)], rows[1 + len(bounds) :], strict=True
    ):
        assert row[0][4:-1] == pieces.ids[first : first + length].tolist()
        assert other == (*row[:2], (0, 0))
        whole = touching and first <= touching[0] and touching[1] < first + length
        expected = tuple(piece - first + 4 for piece in touching) if whole else (0, 0)
        assert row[2] == expected
        found += bool(whole)
    if touching and touching[1] - touching[0] < room - 6 + 1:
        assert found >= 1


def test_settings_without_room_are_refused():
    with pytest.raises(ValueError, match="leave no room for the context"):
        WindowSettings(max_seq_length=67, doc_stride=16, max_query_length=64)
    with pytest.raises(ValueError, match="doc_stride is 0"):
        WindowSettings(max_seq_length=100, doc_stride=0, max_query_length=64)
