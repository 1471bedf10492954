"""Windows: every word counts once, where it has most context."""

import math

from hypothesis import given
from hypothesis import strategies as st

from keras_bert.tasks.tagging.windows import Window, windows

LENGTHS = st.lists(st.integers(0, 9), min_size=1, max_size=60)


def test_by_hand():
    assert windows([2, 3, 1], room=6) == [Window(0, 3, 0, 3)]
    # Words of one piece in windows of 4 that move on by 2. Words 0-3 stand in the first, 2-5 in the
    # second, 4-7 in the third. Word 3 ends the first window; in the second it has one word before
    # and two behind.
    assert windows([1] * 8, room=4) == [Window(0, 4, 0, 3), Window(2, 6, 3, 5), Window(4, 8, 5, 8)]


def test_a_word_larger_than_the_room_has_a_window_of_its_own():
    assert windows([1, 9, 1], room=3) == [
        Window(0, 1, 0, 1),
        Window(1, 2, 1, 2),
        Window(2, 3, 2, 3),
    ]


@given(LENGTHS, st.integers(1, 20))
def test_every_word_counts_exactly_once_in_a_window_that_holds_it(pieces, room):
    found = windows(pieces, room)
    assert [word for window in found for word in range(window.first, window.last)] == list(
        range(len(pieces))
    )
    for window in found:
        assert window.start <= window.first < window.last <= window.end
        held = [min(length, room) for length in pieces[window.start : window.end]]
        assert sum(held) <= room


@given(LENGTHS, st.integers(1, 20))
def test_no_other_window_gives_a_word_more_context(pieces, room):
    cut = [min(length, room) for length in pieces]

    # Here the ends of the sequence take no context away.
    def context(word, window):
        before = math.inf if window.start == 0 else sum(cut[window.start : word])
        after = math.inf if window.end == len(cut) else sum(cut[word + 1 : window.end])
        return min(before, after)

    found = windows(pieces, room)
    for window in found:
        for word in range(window.first, window.last):
            others = [w for w in found if w.start <= word < w.end]
            assert context(word, window) == max(context(word, other) for other in others)
