"""Special tokens that are spelled out in texts, such as the <mask> of a fill-in question.

    code points   a ' ' < m a s k > b          "<mask>" also takes the white space before it
    become        a         *         b        * one value above Unicode
    first, end    0 1      1 8       8 9       what of the text each stands for

Shapes: C code points of all texts, K what is left of them, F occurrences of a token, L characters.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

# Values above Unicode, plus the index of the token in its list.
FIRST_SPECIAL = 0x110000
_COVERED = -1


class SpelledToken(NamedTuple):
    """A special token that texts may spell out.

    Attributes:
        text: the spelling.
        strips_left: whether white space before it belongs to it.
    """

    text: str
    strips_left: bool = False


class Characters(NamedTuple):
    """The characters of a batch of texts.

    Attributes:
        code_points: int32 [K], or `FIRST_SPECIAL` + the index of a special token.
        rows: int64 [K], the text of each.
        first: int64 [K], where it begins, in code points over all texts.
        end: int64 [K], where it ends.
    """

    code_points: tf.Tensor
    rows: tf.Tensor
    first: tf.Tensor
    end: tf.Tensor


def check_spellings(tokens: Sequence[SpelledToken]) -> None:
    """Checks that special tokens can be found without one beginning inside another.

    Raises:
        ValueError: a token is empty, holds white space, or the first character of one of them
            stands inside another.
    """
    openings = {token.text[:1] for token in tokens}
    for token in tokens:
        if not token.text or any(c.isspace() or c in openings for c in token.text[1:]):
            raise ValueError(
                f"the special token {token.text!r} is empty, holds white space or one of "
                f"{''.join(sorted(openings))!r}, with which special tokens begin: it cannot be "
                "found in a text; make the tokenizer with keep_special_tokens=False"
            )


def without_spelled_tokens(decoded: tf.RaggedTensor) -> Characters:
    """Returns the code points of texts as they are: special tokens are plain text.

    Args:
        decoded: int32 [N, code points].
    """
    place = tf.range(tf.size(decoded.values, tf.int64))
    return Characters(decoded.values, decoded.value_rowids(), place, place + 1)


def find_spelled_tokens(
    decoded: tf.RaggedTensor, is_space: tf.Tensor, tokens: Sequence[SpelledToken]
) -> Characters:
    """Puts one value in the place of each special token that is spelled out.

    Args:
        decoded: int32 [N, code points].
        is_space: bool [C], which of them are white space.
        tokens: the special tokens, as `check_spellings` allows them.
    """
    code_points, rows = decoded.values, decoded.value_rowids()
    size = tf.size(code_points, tf.int64)
    place = tf.range(size)
    first, end = place, place + 1  # [C]
    # The longest last: where two begin alike, it is what is found.
    for number, token in sorted(enumerate(tokens), key=lambda pair: len(pair[1].text)):
        spelled = np.array([ord(character) for character in token.text], np.int32)
        openings = tf.where(tf.equal(decoded.values, spelled[0]))[:, 0]
        openings = tf.boolean_mask(openings, openings + len(spelled) <= size)
        windows = openings[:, None] + np.arange(len(spelled))  # [openings, L]
        found = tf.reduce_all(tf.equal(tf.gather(decoded.values, windows), spelled), axis=1)
        # No token reaches from one text into the next.
        found &= tf.equal(tf.gather(rows, windows[:, 0]), tf.gather(rows, windows[:, -1]))
        windows = tf.boolean_mask(windows, found)  # [F, L]
        marker = np.full(len(spelled), _COVERED, np.int32)
        marker[0] = FIRST_SPECIAL + number
        code_points = tf.tensor_scatter_nd_update(
            code_points, windows[..., None], tf.broadcast_to(marker, tf.shape(windows))
        )
        end = tf.tensor_scatter_nd_update(end, windows[:, :1], windows[:, -1] + 1)
    stripping = [FIRST_SPECIAL + n for n, token in enumerate(tokens) if token.strips_left]
    kept = tf.not_equal(code_points, _COVERED)
    if stripping:
        strips = tf.reduce_any(tf.equal(code_points[:, None], stripping), axis=1)  # [C]
        solid = tf.where(~is_space)[:, 0]  # [S] positions
        before = tf.cumsum(tf.cast(~is_space, tf.int64), exclusive=True)  # [C] solid ones before
        # White space whose next solid character strips it, in the same text.
        following = tf.gather(tf.pad(solid, [[0, 1]]), before)  # 0 behind the last one
        stripped = is_space & tf.gather(strips, following) & (following > place)
        stripped &= tf.equal(tf.gather(rows, following), rows)
        kept &= ~stripped
        # It begins behind the solid character before it, or where its text does.
        previous = tf.gather(tf.concat([[-1], solid], axis=0), before)  # [C]
        starts = tf.gather(decoded.row_starts(), rows)
        first = tf.where(strips, tf.maximum(previous + 1, starts), first)
    return Characters(
        tf.boolean_mask(code_points, kept),
        tf.boolean_mask(rows, kept),
        tf.boolean_mask(first, kept),
        tf.boolean_mask(end, kept),
    )
