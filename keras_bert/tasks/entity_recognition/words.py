r"""Words of running text as GLiNER splits it, in the graph.

A word is what Python's regular expression `\w+(?:[-_]\w+)*|\S` finds: letters, digits and
underscores, with a hyphen between two of them, or else a single character that is no white space.

    characters   L e t - u s   g o !        word        letters, digits, "_"
    inside       1 1 1 1 1 1 0 1 1 0        inside      or a hyphen between two of them
    begins       1 0 0 0 0 0 0 1 0 1        begins      no space, and not inside behind inside

Classes of characters are those of Unicode 16 (`text/byte_level/character_classes.py`); what Python
calls white space besides are U+001C to U+001F. Python's own answer changes with its version, for
characters that were none before.

Shapes: N texts, C code points of all texts, D words of all texts.
"""

from typing import NamedTuple

import tensorflow as tf

from keras_bert.signatures.code_points import CodePoints
from keras_bert.text.byte_level.character_classes import (
    DIGIT,
    LETTER,
    PAGE_BITS,
    SPACE,
    paged_classes,
)

_HYPHEN, _UNDERSCORE = ord("-"), ord("_")
_MORE_SPACES = (0x1C, 0x1F)


class SplitWords(NamedTuple):
    """The words of a batch, those of a text together.

    Attributes:
        rows: int64 [D], the text of each.
        starts: int32 [D], first character, counted in its text.
        ends: int32 [D], behind the last character.
    """

    rows: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor


def split_words(characters: CodePoints) -> SplitWords:
    """Splits texts.

    Args:
        characters: of N texts.
    """
    values = characters.values  # [C], a line break behind each text
    pages, classes = (tf.constant(part) for part in paged_classes())
    page = tf.gather(pages, tf.bitwise.right_shift(values, PAGE_BITS))
    class_ = tf.gather(classes, page | tf.bitwise.bitwise_and(values, (1 << PAGE_BITS) - 1))
    space = tf.equal(class_, SPACE) | ((values >= _MORE_SPACES[0]) & (values <= _MORE_SPACES[1]))
    word = tf.equal(class_, LETTER) | tf.equal(class_, DIGIT) | tf.equal(values, _UNDERSCORE)
    inside = word | (tf.equal(values, _HYPHEN) & _before(word) & _behind(word))
    begins = ~space & ~(inside & _before(inside))
    # The last character of each word: white space or another word is behind it.
    stops = ~space & _behind(space | begins)
    first, last = (tf.where(flags)[:, 0] for flags in (begins, stops))  # [D] each
    rows = tf.searchsorted(characters.row_starts, first, "right", tf.int64) - 1
    origin = tf.gather(characters.row_starts, rows)
    starts, ends = (tf.cast(place - origin, tf.int32) for place in (first, last + 1))
    return SplitWords(rows, starts, ends)


def _before(flags: tf.Tensor) -> tf.Tensor:
    """Returns for each character what holds for the one before it."""
    return tf.concat([[False], flags], axis=0)[: tf.size(flags)]


def _behind(flags: tf.Tensor) -> tf.Tensor:
    """Returns for each character what holds for the one behind it."""
    return tf.concat([flags, [True]], axis=0)[1:]
