"""Groups of texts around a central one, all of them as near to it as a threshold.

    vectors --how many are near to each--> those with most first --take what is still free--> groups

Shapes: N texts, W numbers of a vector, R texts of a block.
"""

from typing import Any

import numpy as np

from keras_bert.clustering.cosines import (
    check_cosine,
    comparable_vectors,
    cosine_blocks,
    rows_of_block,
)
from keras_bert.counts import needed_count

# Centres whose cosines are made at a time: the largest groups come first and take many with them.
_CENTRES = 64


def community_detection(
    vectors: Any, threshold: float = 0.75, min_community_size: int = 10
) -> list[list[int]]:
    """Returns groups of texts that are alike, the largest first; no text is in two of them.

    They are those of the function of this name in sentence-transformers. The memory does not grow
    with the number of texts that are alike.

    Args:
        vectors: of N texts, float [N, W], of any length, such as `SentenceEncoder.encode` makes.
        threshold: the smallest cosine of a text with the central one of its group.
        min_community_size: the fewest texts of a group; all others are in none.

    Returns:
        The numbers of the texts of each group, from 0: the central one, then the nearest to it.

    Raises:
        ValueError: the vectors have another form or are not finite, the threshold is no cosine, or
            the size is below 1.
    """
    threshold = check_cosine("threshold", threshold)
    needed_count("min_community_size", min_community_size)
    unit = comparable_vectors(vectors)
    near = np.zeros(len(unit), np.int64)  # [N]: how many are near to each, itself among them
    for start, cosines in cosine_blocks(unit):
        near[start : start + len(cosines)] = np.count_nonzero(cosines >= threshold, axis=1)
    centres = np.argsort(-near, kind="stable")
    centres = centres[near[centres] >= min_community_size]
    is_free = np.ones(len(unit), bool)  # [N]
    groups: list[list[int]] = []
    several = min(_CENTRES, rows_of_block(len(unit)))
    while len(centres):
        part, centres = centres[:several], centres[several:]
        for centre, cosines in zip(part, unit[part] @ unit.T, strict=True):  # [N]
            members = np.flatnonzero((cosines >= threshold) & is_free)
            if not is_free[centre] or len(members) < min_community_size:
                continue
            members = members[np.lexsort((members, -cosines[members]))]
            groups.append([int(centre), *members[members != centre].tolist()])
            is_free[groups[-1]] = False
        centres = centres[is_free[centres]]
    return sorted(groups, key=len, reverse=True)
