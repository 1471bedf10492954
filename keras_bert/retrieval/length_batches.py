"""Batches of texts of like length: one then takes as long as its texts, not as its longest."""

from collections.abc import Iterator, Sequence

from keras_bert.counts import needed_count


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
