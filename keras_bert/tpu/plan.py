"""What a pretraining run on TPUs takes: the batch that fits, the time, the money."""

import math
from collections.abc import Callable
from typing import NamedTuple

from keras_bert.counts import check_count

GIB = 2**30


class TpuChip(NamedTuple):
    """What Google states of a kind of chip (cloud.google.com/tpu/docs/system-architecture).

    Attributes:
        peak_flops: bfloat16 operations per second.
        memory: bytes of HBM.
    """

    peak_flops: float
    memory: int


CHIPS = {
    "v4": TpuChip(275e12, 32 * GIB),
    "v5e": TpuChip(197e12, 16 * GIB),
    "v5p": TpuChip(459e12, 95 * GIB),
    "v6e": TpuChip(918e12, 32 * GIB),
}


class Estimate(NamedTuple):
    """What a run takes.

    Attributes:
        seconds_per_step: of every replica, all at once.
        days: length of the run in days.
        cost: of the run; None without a price.
    """

    seconds_per_step: float
    days: float
    cost: float | None


def chip_of(topology: str) -> TpuChip:
    """Returns the chip of a topology such as "v5e:2x2".

    Raises:
        ValueError: the kind of chip is unknown.
    """
    kind = topology.partition(":")[0]
    if kind not in CHIPS or ":" not in topology:
        raise ValueError(
            f"topology is {topology!r}: give the kind of chip ({', '.join(CHIPS)}), a colon and "
            "the shape, for example v5e:2x2 or v4:2x2x1"
        )
    return CHIPS[kind]


def num_chips(topology: str) -> int:
    """Returns how many chips a topology has: the product of its sides.

    Raises:
        ValueError: the shape is not numbers with "x" between them.
    """
    shape = topology.partition(":")[2]
    sides = shape.split("x")  # "v4:2x2x1" -> 2, 2, 1
    if not all(side.isdecimal() and int(side) for side in sides):
        raise ValueError(f"topology is {topology!r}: its shape must look like 2x2 or 2x2x1")
    return math.prod(map(int, sides))


def check_run(steps: int, utilisation: float, price_per_hour: float | None) -> None:
    """Checks what time and cost of a run are made of.

    Raises:
        ValueError: a value is out of its range.
    """
    check_count("steps", steps)
    if not 0 < utilisation <= 1:
        raise ValueError(f"utilisation is {utilisation}: give a rate above 0, at most 1")
    if price_per_hour is not None and not 0 <= price_per_hour < math.inf:
        raise ValueError(
            f"price_per_hour is {price_per_hour}: it must be 0 or more and finite, or left out"
        )


def estimate(
    flops: float,
    topology: str,
    steps: int,
    utilisation: float,
    price_per_hour: float | None = None,
) -> Estimate:
    """Returns what a run takes when the chips do a given fraction of their peak.

    Args:
        flops: operations that the model needs for one step on one chip (the analytic number).
        topology: chips of the slice, such as "v5e:2x2".
        steps: steps of the whole run.
        utilisation: the fraction of the peak that goes into these operations.
        price_per_hour: price of one chip for an hour.

    Raises:
        ValueError: a value is out of its range.
    """
    check_run(steps, utilisation, price_per_hour)
    seconds = flops / (chip_of(topology).peak_flops * utilisation)  # of a step
    hours = seconds * steps / 3600
    cost = None if price_per_hour is None else hours * num_chips(topology) * price_per_hour
    return Estimate(seconds, hours / 24, cost)


def largest_batch(memory_of: Callable[[int], int | None], capacity: int, first: int) -> int:
    """Searches the largest batch that fits, to within an eighth of it.

    A compilation takes minutes and memory grows almost evenly with the batch, so every guess is
    where the line through the two largest batches that fit meets the capacity.

    Args:
        memory_of: bytes that a batch needs, or None where it does not fit.
        capacity: bytes of the chip.
        first: the batch to begin with.

    Returns:
        A multiple of 8, or a number below 8, that fits; 0 where not even one sequence does.
    """
    fitting: dict[int, int] = {}
    too_large, guess = math.inf, _rounded(first)
    # `best` fits, `too_large` does not: every round narrows what lies between.
    while True:
        memory = memory_of(guess)
        if memory is None:
            too_large = guess
        else:
            fitting[guess] = memory
        best = max(fitting, default=0)
        step = 8 if best >= 8 else 1  # the tiles of a TPU are 8 rows high
        if too_large - best <= max(step, best // 8):
            return best
        # Where the line through two points meets the capacity, or the middle of what is not known
        # yet.
        proposed = math.inf
        if len(fitting) == 1:
            proposed = 2 * best  # one point is no line
        elif fitting:
            small, large = sorted(fitting)[-2:]
            # bytes, the slope of the line
            per_sequence = max(fitting[large] - fitting[small], 1) / (large - small)
            proposed = large + int((capacity - fitting[large]) / per_sequence)
        guess = int(best + too_large) // 2 if proposed >= too_large else int(proposed)
        guess = max(_rounded(guess), best + step)


def _rounded(batch: int) -> int:
    return batch // 8 * 8 if batch >= 8 else batch
