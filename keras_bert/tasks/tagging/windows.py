"""Long sequences of words in windows of the model's length, without losing a word.

A window holds whole words; a word lies in several where windows overlap, and counts in the one
where it has most context on its poorer side (the "max context" of the original run_squad.py). The
ends of the sequence need no rule of their own: whether they count as lack of context or not, the
same window wins.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple


class Window(NamedTuple):
    """Words `start` to `end` (exclusive), of which `first` to `last` (exclusive) count here."""

    start: int
    end: int
    first: int
    last: int


def windows(pieces: Sequence[int], room: int) -> list[Window]:
    """Returns windows in which every word counts exactly once.

    Args:
        pieces: how many pieces each word has; words longer than the room are taken to be cut to it.
        room: pieces of a window.

    Returns:
        One window for a sequence that fits. Otherwise neighbours share about half of their pieces.
    """
    lengths = [min(length, room) for length in pieces]
    ends = [0, *accumulate(lengths)]  # ends[w]: pieces before word w
    spans = [(0, _end_of(ends, 0, room))]
    while spans[-1][1] < len(lengths):
        # The next window starts where half of this one is behind, at the latest where it ends.
        start, end = spans[-1]
        half = (ends[start] + ends[end]) / 2
        start = next(w for w in range(start + 1, end + 1) if w == end or ends[w] >= half)
        spans.append((start, _end_of(ends, start, room)))
    owners = [_owner(word, spans, ends) for word in range(len(lengths))]
    # Owners never go back from one word to the next, so each window owns a stretch.
    found = [
        Window(start, end, bisect_left(owners, index), bisect_right(owners, index))
        for index, (start, end) in enumerate(spans)
    ]
    return [window for window in found if window.first < window.last] or found


def _end_of(ends: Sequence[int], start: int, room: int) -> int:
    end = start
    while end + 1 < len(ends) and ends[end + 1] - ends[start] <= room:
        end += 1
    return end


def _owner(word: int, spans: Sequence[tuple[int, int]], ends: Sequence[int]) -> int:
    def context(index: int) -> int:
        start, end = spans[index]
        return min(ends[word] - ends[start], ends[end] - ends[word + 1])

    first = bisect_right(spans, word, key=lambda span: span[1])
    past = bisect_right(spans, word, key=lambda span: span[0])
    return max(range(first, past), key=context)
