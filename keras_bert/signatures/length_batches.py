"""Batches of texts of like length: one then takes as long as its texts, not as its longest."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from keras_bert.counts import needed_count
from keras_bert.models.finite_outputs import check_finite
from keras_bert.progress import Progress


def batches_by_length(lengths: Sequence[int], batch_size: int) -> Iterator[list[int]]:
    """Yields the places of texts, from 0, batch by batch, the shortest texts first.

    Args:
        lengths: of each text, in any unit.
        batch_size: texts of a batch; the last one may have fewer.

    Raises:
        ValueError: the batch size is below 1.
    """
    needed_count("batch_size", batch_size)
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    return (order[start : start + batch_size] for start in range(0, len(order), batch_size))


def answers_of_pairs(
    answer: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
    pairs: Sequence[tuple[str, str]],
    batch_size: int,
    description: str,
    width: tuple[int, ...] = (),
) -> np.ndarray:
    """Returns what a graph answers for pairs of texts, batches of like length at a time.

    Equal pairs are asked about once, and so have equal answers: by its place in a batch one may
    differ in the last digit.

    Args:
        answer: takes the first and the second texts, string [R] each, and returns float32
            [R, *width].
        pairs: N pairs.
        batch_size: pairs of a call.
        description: what the job does, for the line that shows its progress.
        width: see `answer`.

    Returns:
        float32 [N, *width].

    Raises:
        ValueError: the batch size is below 1, or an answer is not finite.
    """
    different = [*dict.fromkeys(pairs)]
    number = {pair: place for place, pair in enumerate(different)}
    answers = np.zeros([len(different), *width], np.float32)
    batches = batches_by_length([sum(map(len, pair)) for pair in different], batch_size)
    with Progress(len(different), "pair", description) as progress:
        for places in batches:
            asked = zip(*(different[place] for place in places), strict=True)
            answers[places] = answer(*(tf.constant(side) for side in asked)).numpy()
            progress.update(len(places))
    check_finite(answers)
    return answers[np.array([number[pair] for pair in pairs], np.int64)]
