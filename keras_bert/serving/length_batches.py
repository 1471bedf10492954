"""Batches of texts of like length: one then takes as long as its texts, not as its longest."""

from collections.abc import Iterator, Sequence

from keras_bert.counts import check_count
from keras_bert.storage.surrogates import without_lone_surrogates


def batches_by_length(lengths: Sequence[int], batch_size: int) -> Iterator[list[int]]:
    """Yields the places of texts, from 0, batch by batch, the shortest texts first.

    Args:
        lengths: of each text, in any unit.
        batch_size: texts of a batch; the last one may have fewer.

    Raises:
        ValueError: the batch size is below 1.
    """
    check_count("batch_size", batch_size)
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    return (order[start : start + batch_size] for start in range(0, len(order), batch_size))


def check_strings(texts: Sequence[str]) -> list[str]:
    """Returns the texts as strings that UTF-8 can write.

    Bytes that are not UTF-8, and halves of surrogate pairs, are U+FFFD, as in files.

    Args:
        texts: strings, or bytes in UTF-8.

    Raises:
        ValueError: one of them is none.
    """
    found = []
    for number, text in enumerate(texts):
        if not isinstance(text, str | bytes):
            raise ValueError(f"text {number} is a {type(text).__name__}: give strings")
        decoded = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        found.append(without_lone_surrogates(decoded))
    return found
