"""Canonical decompositions and compositions of characters, which NFC is made of.

The table has what the `tokenizers` library takes for Unicode when it normalizes, which is older
than what it splits words by; `make_canonical_forms` made it. No TensorFlow here.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

PATH = Path(__file__).with_name("canonical_forms.npz")

# Everything below, Latin-1 included, is as NFC has it, whatever stands around it.
FIRST_UNSTABLE = 0x300
CODE_POINT_BITS = 21


class CanonicalForms(NamedTuple):
    """What NFC knows of characters; all code points are int32 and ascending.

    Attributes:
        decomposed: [D] those that are decomposed.
        lengths: int64 [D], into how many characters.
        sequences: int32 [sum of lengths], these characters.
        marks: [M] those with a combining class above 0.
        mark_classes: int32 [M], numbers from 1 on in the order of the classes.
        pairs: int64 [P], ascending, `first << CODE_POINT_BITS | second` of two characters that
            become one.
        composites: int32 [P], that one.
        unstable: [U] those that NFC may change, or may change together with what is before them.
    """

    decomposed: np.ndarray
    lengths: np.ndarray
    sequences: np.ndarray
    marks: np.ndarray
    mark_classes: np.ndarray
    pairs: np.ndarray
    composites: np.ndarray
    unstable: np.ndarray


def canonical_forms() -> CanonicalForms:
    """Reads the table."""
    with np.load(PATH) as stored:
        arrays = {name: stored[name].astype(np.int32) for name in stored.files}
    pairs = arrays["firsts"].astype(np.int64) << CODE_POINT_BITS | arrays["seconds"]
    order = np.argsort(pairs)
    lengths = arrays["lengths"].astype(np.int64)
    # Marks, what is not composed again, and what may join the character before it: by itself, or
    # because its decomposition begins so.
    opening = arrays["sequences"][np.cumsum(lengths) - lengths]  # [D]
    joins = np.isin(opening, np.union1d(arrays["marks"], arrays["seconds"]))
    unstable = np.concatenate(
        [
            arrays["marks"],
            arrays["seconds"],
            np.setdiff1d(arrays["decomposed"], arrays["composites"]),
            arrays["decomposed"][joins],
        ]
    )
    return CanonicalForms(
        decomposed=arrays["decomposed"],
        lengths=lengths,
        sequences=arrays["sequences"],
        marks=arrays["marks"],
        mark_classes=arrays["mark_classes"],
        pairs=pairs[order],
        composites=arrays["composites"][order],
        unstable=np.unique(unstable),
    )
