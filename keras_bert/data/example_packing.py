"""Several short documents in one sequence, so that little of it is padding.

Best fit, longest first: each example goes into the fullest sequence that still has room for it.
"""

import random
from bisect import bisect_left, insort

import numpy as np

from keras_bert.data.pretraining_examples import (
    SPECIAL_TOKENS_OF_SINGLE,
    Examples,
    PlannedExample,
)


def choose_packs(
    plans: list[PlannedExample], max_seq_length: int, rng: random.Random
) -> list[list[PlannedExample]]:
    """Chooses which examples of one segment share a sequence.

    Args:
        plans: the examples in random order, none longer than a sequence.
        max_seq_length: room of a sequence in pieces, special tokens counted.
        rng: where the order of the sequences comes from.

    Returns:
        The examples of each sequence.
    """
    packs: list[list[PlannedExample]] = []
    rooms: list[tuple[int, int]] = []  # what is left in a sequence, and its number; sorted
    for plan in sorted(plans, key=_length, reverse=True):
        place = bisect_left(rooms, (_length(plan), -1))
        if place == len(rooms):
            rooms.append((max_seq_length, len(packs)))
            packs.append([])
        room, number = rooms.pop(place)
        packs[number].append(plan)
        insort(rooms, (room - _length(plan), number))
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


def _length(plan: PlannedExample) -> int:
    return plan.a_end - plan.a_start + SPECIAL_TOKENS_OF_SINGLE
