"""Several short documents in one sequence, so that little of it is padding.

Best fit, longest first: each example goes into the fullest sequence that still has room for it.
Long documents leave room that no example fits into, because an example ends where the next sentence
would be too long. So some sequences are given up: their sentences fill that room one by one, each
sentence a document of its own part.
"""

import itertools
import math
import random
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

import numpy as np

from keras_bert.data.records.examples import (
    SPECIAL_TOKENS_OF_SINGLE,
    Examples,
    PlannedExample,
)


def choose_packs(
    plans: list[PlannedExample],
    sentence_starts: list[int],
    max_seq_length: int,
    rng: random.Random,
) -> list[list[PlannedExample]]:
    """Chooses which examples of one segment share a sequence.

    Most examples stay whole. Some are taken apart between two sentences, where this saves a
    sequence.

    Args:
        plans: the examples in random order, none longer than a sequence, none overlapping.
        sentence_starts: where each sentence of the text starts, in ascending order.
        max_seq_length: room of a sequence in pieces, special tokens counted.
        rng: where the order of the sequences comes from.

    Returns:
        The examples of each sequence.
    """
    whole = _Packs(max_seq_length)
    whole.add(plans)
    # The emptiest sequences are given up, and their sentences fill the others. As many are given up
    # as all the room would make: more would fill a little more of it, and tear more sentences from
    # their neighbours. What fits nowhere stays together as far as it followed each other.
    room = sum(max_seq_length - _total_length(pack) for pack in whole.packs)
    number = min(math.ceil(room / max_seq_length), len(whole.packs) // 2)
    by_length = sorted(whole.packs, key=_total_length)
    given_up = [plan for pack in by_length[:number] for plan in pack]
    kept = _Packs(max_seq_length, [list(pack) for pack in by_length[number:]])
    sentences = []
    for plan in given_up:
        first = bisect_right(sentence_starts, plan.a_start)
        end = bisect_left(sentence_starts, plan.a_end)
        bounds = [plan.a_start, *sentence_starts[first:end], plan.a_end]
        sentences += [_planned(start, stop) for start, stop in itertools.pairwise(bounds)]
    left = list(kept.add_where_room_is(sentences))
    beginnings = {plan.a_start for pack in whole.packs for plan in pack}
    rest = _Packs(max_seq_length)
    rest.add(_joined(left, beginnings))
    filled = [_joined(pack, beginnings) for pack in kept.packs] + rest.packs
    packs = min(whole.packs, filled, key=len)
    for pack in packs:
        rng.shuffle(pack)  # the longest need not always be the first
    rng.shuffle(packs)
    return packs


def join_packs(examples: Examples, sizes: list[int]) -> Examples:
    """Joins examples that follow each other to packed ones.

    Args:
        examples: the examples of all packs.
        sizes: how many examples each pack has.

    Returns:
        One example a pack, with `pack_ids` and `position_ids`.
    """
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    lengths = np.diff(examples.splits)
    numbers = np.arange(len(lengths)) - np.repeat(bounds[:-1], sizes) + 1
    starts = np.repeat(examples.splits[:-1], lengths)
    return examples._replace(
        splits=examples.splits[bounds],
        next_sentence_labels=np.zeros(len(sizes), np.int64),
        pack_ids=np.repeat(numbers, lengths).astype(np.int32),
        position_ids=(np.arange(len(starts)) - starts).astype(np.int32),
    )


class _Packs:
    """Sequences, each the examples it holds, and the room that they have left.

    Args:
        max_seq_length: room of an empty sequence.
        packs: sequences that are there already.
    """

    def __init__(self, max_seq_length: int, packs: list[list[PlannedExample]] | None = None):
        self._max_seq_length = max_seq_length
        self.packs = packs or []
        rooms = (max_seq_length - _total_length(pack) for pack in self.packs)
        self._rooms = sorted(zip(rooms, itertools.count(), strict=False))  # (room, its sequence)

    def add(self, plans: list[PlannedExample]) -> None:
        """Adds examples, in new sequences where they fit in no other."""
        for plan in self.add_where_room_is(plans):
            self._rooms.append((self._max_seq_length, len(self.packs)))
            self.packs.append([])
            self._place(plan, len(self._rooms) - 1)

    def add_where_room_is(self, plans: list[PlannedExample]) -> Iterator[PlannedExample]:
        """Adds examples, the longest first, and yields those that fit in no sequence."""
        for plan in sorted(plans, key=_length, reverse=True):
            index = bisect_left(self._rooms, (_length(plan), -1))
            if index == len(self._rooms):
                yield plan
            else:
                self._place(plan, index)

    def _place(self, plan: PlannedExample, index: int) -> None:
        room, number = self._rooms.pop(index)
        self.packs[number].append(plan)
        insort(self._rooms, (room - _length(plan), number))


def _joined(parts: list[PlannedExample], beginnings: set[int]) -> list[PlannedExample]:
    """Joins parts that follow each other in one of the examples, which begin at `beginnings`."""
    joined: list[PlannedExample] = []
    for part in sorted(parts):
        if joined and joined[-1].a_end == part.a_start and part.a_start not in beginnings:
            part = _planned(joined.pop().a_start, part.a_end)
        joined.append(part)
    return joined


def _planned(start: int, stop: int) -> PlannedExample:
    return PlannedExample(start, stop, stop, stop, 0)


def _total_length(pack: list[PlannedExample]) -> int:
    return sum(map(_length, pack))


def _length(plan: PlannedExample) -> int:
    return plan.a_end - plan.a_start + SPECIAL_TOKENS_OF_SINGLE
