r"""Letters, digits, white space and everything else, as GPT-2's regular expression means them.

The table has Unicode 16 like the `tokenizers` library; `make_character_classes` made it. No
TensorFlow here.
"""

import functools
from pathlib import Path

import numpy as np

PATH = Path(__file__).with_name("character_classes.npz")

OTHER, LETTER, DIGIT, SPACE, SPECIAL_TOKEN = range(5)  # [^\s\p{L}\p{N}], \p{L}, \p{N}, \s
# Values above Unicode stand for special tokens that were found in a text.
FIRST_SPECIAL = 0x110000
PAGE_BITS = 8


@functools.cache
def paged_classes() -> tuple[np.ndarray, np.ndarray]:
    """Returns pages int32 and classes int32: that of c is classes[pages[c >> 8] | c & 255].

    `FIRST_SPECIAL` has the class `SPECIAL_TOKEN`.
    """
    with np.load(PATH) as stored:
        lengths = np.diff(stored["starts"], append=FIRST_SPECIAL)
        classes = np.repeat(stored["classes"], lengths).astype(np.int32)
    size = 1 << PAGE_BITS
    classes = np.append(classes, np.full(size, SPECIAL_TOKEN, np.int32)).reshape([-1, size])
    distinct, index = np.unique(classes, axis=0, return_inverse=True)  # most pages are alike
    return (index.reshape(-1) * size).astype(np.int32), distinct.reshape(-1)
