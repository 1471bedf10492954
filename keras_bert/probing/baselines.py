"""What the accuracy of a probe is compared with: frequent tags, and a control task."""

import collections
from collections.abc import Hashable, Iterable, Sequence

import numpy as np


def most_frequent_tags_of_words(
    words: Sequence[str], tags: Sequence[Hashable], new_words: Iterable[str]
) -> list[Hashable]:
    """Tags words by memory: each gets the tag that it has most often.

    A word that was never seen gets the tag that words seen once have most often, or without such
    words the most frequent of all.

    Args:
        words: W words to learn from.
        tags: their tags.
        new_words: the words to tag.
    """
    counts: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    for word, tag in zip(words, tags, strict=True):
        counts[word][tag] += 1
    once = collections.Counter(
        next(iter(found)) for found in counts.values() if found.total() == 1
    ) or collections.Counter(tags)
    unknown = once.most_common(1)[0][0]
    best = {word: found.most_common(1)[0][0] for word, found in counts.items()}
    return [best.get(word, unknown) for word in new_words]


def control_tags(
    words: Sequence[Sequence[str]], tags: np.ndarray, classes: int, seed: int
) -> list[np.ndarray]:
    """Makes the control task of Hewitt and Liang (2019, "Designing and Interpreting Probes").

    Each word type gets one tag, drawn at random from how often the true tags occur. Nothing but
    the word itself tells this tag, so that a probe which does well on it has learned words by
    heart.

    Args:
        words: the words of each split. Types are strings; normalize them as the model reads them.
        tags: int [W], the true tags that frequencies are taken from.
        classes: C, how many tags there are.
        seed: seed of the draw.

    Returns:
        int32 [W] for each split; a type has the same tag in all of them.
    """
    types = {word: index for index, word in enumerate(sorted({w for s in words for w in s}))}
    frequencies = np.bincount(tags, minlength=classes) / len(tags)
    drawn = np.random.default_rng(seed).choice(classes, size=len(types), p=frequencies)
    return [np.array([drawn[types[word]] for word in split], np.int32) for split in words]
