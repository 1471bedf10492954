"""Tokens that are spelled out in texts, such as the <mask> of a fill-in question.

    code points   a ' ' < m a s k > b          "<mask>" also takes the white space before it
    become        a         *         b        * one value above Unicode
    first, end    0 1      1 8       8 9       what of the text each stands for

Shapes: C code points of all texts, K what is left of them, O characters with which tokens begin,
F occurrences of tokens.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

# Values above Unicode, plus the index of the token in its list.
FIRST_SPECIAL = 0x110000
_COVERED = -1
_CODE_POINT_BITS = 21


class SpelledToken(NamedTuple):
    """A token that texts may spell out, special or added.

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
    characters: Characters,
    tokens: Sequence[SpelledToken],
    is_space: tf.Tensor | None = None,
    first_number: int = 0,
) -> Characters:
    """Puts one value in the place of each token that is spelled out.

    From left to right the longest token that begins at a character is found, and the search goes on
    behind it.

    Args:
        characters: [C] each.
        tokens: those to find, none of them empty.
        is_space: bool [C], which characters are white space; needed where a token strips it.
        first_number: of the first of these tokens: `FIRST_SPECIAL` + its number is its value.
    """
    code_points, rows, first, end = characters
    starts, stops, numbers = _leftmost_longest(code_points, rows, tokens)  # [F]
    covered = tf.ragged.range(starts + 1, stops, row_splits_dtype=tf.int64).flat_values
    marked = tf.tensor_scatter_nd_update(
        code_points, covered[:, None], tf.fill(tf.shape(covered), _COVERED)
    )
    marked = tf.tensor_scatter_nd_update(
        marked, starts[:, None], FIRST_SPECIAL + first_number + numbers
    )
    end = tf.tensor_scatter_nd_update(end, starts[:, None], tf.gather(end, stops - 1))
    kept = tf.not_equal(marked, _COVERED)
    stripping = [n for n, token in enumerate(tokens) if token.strips_left]
    if stripping:
        assert is_space is not None
        place = tf.range(tf.size(code_points, tf.int64))
        values = np.array(stripping, np.int32) + FIRST_SPECIAL + first_number
        strips = tf.reduce_any(tf.equal(marked[:, None], values), axis=1)  # [C]
        is_space &= tf.equal(marked, code_points)  # not what is part of a token
        solid = tf.where(~is_space)[:, 0]  # [S] positions
        before = tf.cumsum(tf.cast(~is_space, tf.int64), exclusive=True)  # [C] solid ones before
        # White space whose next solid character strips it, in the same text.
        following = tf.gather(tf.pad(solid, [[0, 1]]), before)  # 0 behind the last one
        stripped = is_space & tf.gather(strips, following) & (following > place)
        stripped &= tf.equal(tf.gather(rows, following), rows)
        kept &= ~stripped
        # It begins behind the solid character before it, or where its text does.
        previous = tf.gather(tf.concat([[-1], solid], axis=0), before)  # [C]
        row_starts = tf.searchsorted(rows, rows, out_type=tf.int64)
        begin = tf.where(strips, tf.maximum(previous + 1, row_starts), place)
        first = tf.gather(first, begin)
    return Characters(*(tf.boolean_mask(part, kept) for part in (marked, rows, first, end)))


def _leftmost_longest(
    code_points: tf.Tensor, rows: tf.Tensor, tokens: Sequence[SpelledToken]
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns where tokens begin and end, int64 [F] each, and their numbers, int32 [F]."""
    keys, children, token_of = _trie([token.text for token in tokens])

    def child(nodes: tf.Tensor | int, values: tf.Tensor) -> tf.Tensor:
        """Returns the node that a character leads to, 0 where there is none."""
        edges = tf.bitwise.left_shift(tf.cast(nodes, tf.int64), _CODE_POINT_BITS)
        edges |= tf.cast(values, tf.int64)
        index = tf.minimum(tf.searchsorted(keys, edges), len(keys) - 1)
        return tf.where(tf.equal(tf.gather(keys, index), edges), tf.gather(children, index), 0)

    # 1. Walk down the trie from all characters at once; most leave it soon.
    nodes = child(0, code_points)  # [C]
    openings = tf.where(nodes > 0)[:, 0]  # [O]
    nodes = tf.gather(nodes, openings)
    longest = tf.gather(token_of, nodes)  # [O], -1 where none has been found

    def step(
        length: tf.Tensor, longest: tf.Tensor, walking: tf.Tensor, nodes: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        start = tf.gather(openings, walking)
        here = tf.minimum(start + length, tf.size(code_points, tf.int64) - 1)
        # No token reaches from one text into the next.
        inside = (start + length <= here) & tf.equal(tf.gather(rows, here), tf.gather(rows, start))
        nodes = tf.where(inside, child(nodes, tf.gather(code_points, here)), 0)
        walking, nodes = (tf.boolean_mask(part, nodes > 0) for part in (walking, nodes))
        token = tf.gather(token_of, nodes)
        found = token >= 0
        longest = tf.tensor_scatter_nd_update(
            longest, tf.boolean_mask(walking, found)[:, None], tf.boolean_mask(token, found)
        )
        return length + 1, longest, walking, nodes

    vector = tf.TensorShape([None])
    _, longest, _, _ = tf.while_loop(
        lambda length, longest, walking, nodes: tf.size(walking) > 0,
        step,
        [tf.constant(1, tf.int64), longest, tf.range(tf.size(longest)), nodes],
        shape_invariants=[tf.TensorShape([]), vector, vector, vector],
    )
    found = longest >= 0
    starts, numbers = tf.boolean_mask(openings, found), tf.boolean_mask(longest, found)
    lengths = tf.constant([len(token.text) for token in tokens], tf.int64)
    stops = starts + tf.gather(lengths, numbers)  # [F]
    taken = _not_overlapping(starts, stops)
    return (
        tf.boolean_mask(starts, taken),
        tf.boolean_mask(stops, taken),
        tf.boolean_mask(numbers, taken),
    )


def _not_overlapping(starts: tf.Tensor, stops: tf.Tensor) -> tf.Tensor:
    """Tells which occurrences are taken from the left, each behind the one before it: bool [F]."""
    size = tf.size(starts)
    # The next one to take, if this one is; then the one 2, 4, 8, ... further.
    jump = tf.searchsorted(starts, stops)  # [F], F behind the last one
    taken = tf.equal(tf.range(size), 0)

    def double(jump: tf.Tensor, taken: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        reached = tf.boolean_mask(jump, taken & (jump < size))
        taken = tf.tensor_scatter_nd_update(
            taken, reached[:, None], tf.fill([tf.size(reached)], True)
        )
        return tf.gather(tf.concat([jump, [size]], axis=0), jump), taken

    _, taken = tf.while_loop(lambda jump, taken: tf.reduce_any(jump < size), double, [jump, taken])
    return taken


def _trie(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the edges of a trie, int64, ascending; where they lead; and the text at each node.

    An edge is its node, shifted, and a character. Node 0 is the root; -1 where no text ends.
    """
    edges: dict[int, int] = {}
    text_of = [-1]
    for number, text in enumerate(texts):
        node = 0
        for character in text:
            edge = node << _CODE_POINT_BITS | ord(character)
            if edge not in edges:
                edges[edge] = len(text_of)
                text_of.append(-1)
            node = edges[edge]
        text_of[node] = number
    keys = np.array(sorted(edges), np.int64)
    children = np.array([edges[key] for key in keys.tolist()], np.int32)
    return keys, children, np.array(text_of, np.int32)
