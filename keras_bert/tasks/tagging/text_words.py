"""Words of running text for a tagger, joined from pieces by their offsets.

A word is what stands between white space; punctuation at its ends and the English possessive ('s)
are words of their own, as in the files that taggers learn from, and so is every CJK ideograph.
Shapes: N texts, P pieces of all texts, D words of all texts.
"""

from typing import NamedTuple

import tensorflow as tf

from keras_bert.signatures.code_points import CodePoints

# Punctuation as the tokenizer means it: Unicode's, and the symbols of ASCII.
_PUNCTUATION = r"[\p{P}$+<=>^`|~]"
_IDEOGRAPH = r"\p{Han}"
_APOSTROPHE = r"['’]"
_POSSESSIVE = r"[sS]"
# Unicode's White_Space.
_WHITE_SPACE = (
    *(*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B)),
    *(0x2028, 0x2029, 0x202F, 0x205F, 0x3000),
)


class TextWords(NamedTuple):
    """The words of a batch, those of a text together.

    Attributes:
        rows: int64 [D], the text of each.
        starts: int32 [D], first character.
        ends: int32 [D], behind the last character.
        first_piece: int64 [D], counted over all texts.
        pieces: int64 [D], how many.
    """

    rows: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    first_piece: tf.Tensor
    pieces: tf.Tensor


def without_white_space(
    ids: tf.RaggedTensor, starts: tf.RaggedTensor, ends: tf.RaggedTensor, characters: CodePoints
) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
    """Leaves out pieces that are white space alone, as byte-level vocabularies have them.

    Args:
        ids: int32 [N, pieces].
        starts: int32 [N, pieces], first character of each piece.
        ends: int32 [N, pieces], behind its last character.
        characters: of the texts.
    """
    first = tf.gather(characters.row_starts, starts.value_rowids())
    first += tf.cast(starts.values, tf.int64)
    # Nothing is left of a space that offsets leave out, where the text may be at its end.
    first = tf.where(starts.values < ends.values, first, 0)
    padded = tf.concat([characters.values, [0]], axis=0)
    is_space = tf.reduce_any(tf.equal(tf.gather(padded, first)[:, None], _WHITE_SPACE), axis=1)
    kept = ids.with_values((starts.values < ends.values) & ~is_space)
    return (
        tf.ragged.boolean_mask(ids, kept),
        tf.ragged.boolean_mask(starts, kept),
        tf.ragged.boolean_mask(ends, kept),
    )


def join_words(starts: tf.RaggedTensor, ends: tf.RaggedTensor, characters: CodePoints) -> TextWords:
    """Joins pieces to words.

    Args:
        starts: int32 [N, pieces], first character of each piece.
        ends: int32 [N, pieces], behind its last character.
        characters: of the texts.
    """
    rows = starts.value_rowids()
    first = tf.gather(characters.row_starts, rows) + tf.cast(starts.values, tf.int64)
    # The first character of each piece, string [P].
    letters = tf.strings.unicode_encode(tf.gather(characters.values, first)[:, None], "UTF-8")
    ideograph = tf.strings.regex_full_match(letters, _IDEOGRAPH)
    # Another text, or white space before it.
    apart = tf.not_equal(rows[1:], rows[:-1]) | (starts.values[1:] > ends.values[:-1])
    # The first piece begins a chunk in any case: [P - 1], or [0], to [P].
    begins_chunk = tf.concat([[True], apart], axis=0) | ideograph | _before(ideograph)
    begins = begins_chunk | _begins_inside(letters, begins_chunk)
    # Bytes of one character are pieces of one word: they overlap.
    overlaps = tf.equal(rows[1:], rows[:-1]) & (starts.values[1:] < ends.values[:-1])
    begins &= ~tf.concat([[False], overlaps], axis=0)[: tf.size(begins)]
    # [P] -> [D]: play ##ing ! has begins 1 0 1: words at pieces 0 2, the next ones at 2 3.
    place = tf.where(begins)[:, 0]
    following = tf.concat([place[1:], tf.size(begins, tf.int64)[None]], axis=0)[: tf.size(place)]
    return TextWords(
        tf.gather(rows, place),
        tf.gather(starts.values, place),
        tf.gather(ends.values, following - 1),
        place,
        following - place,
    )


def _begins_inside(letters: tf.Tensor, begins_chunk: tf.Tensor) -> tf.Tensor:
    """Tells where words begin within what stands between white space, bool [P]."""
    # Pieces  " It ' s ! "  of one chunk are the words  "  It  's  !  "
    # edge    1 0  0 0 1 1  and each piece behind an edge begins one, too.
    punctuation = tf.strings.regex_full_match(letters, _PUNCTUATION)
    chunk = tf.cumsum(tf.cast(begins_chunk, tf.int32)) - 1
    others = tf.cumsum(tf.cast(~punctuation, tf.int32))  # up to and with each piece
    chunks = tf.reduce_max(tf.concat([chunk, [-1]], axis=0)) + 1
    last = tf.gather(tf.math.unsorted_segment_max(others, chunk, chunks), chunk)
    without_own = others - tf.cast(~punctuation, tf.int32)
    before = tf.gather(tf.math.unsorted_segment_min(without_own, chunk, chunks), chunk)
    at_end = tf.equal(without_own, last)  # nothing but punctuation from here to the chunk's end
    edge = punctuation & (tf.equal(others, before) | at_end)
    closes = tf.concat([at_end[1:] | begins_chunk[1:], [True]], axis=0)[: tf.size(letters)]
    possessive = tf.strings.regex_full_match(letters, _POSSESSIVE) & closes & ~begins_chunk
    apostrophe = tf.strings.regex_full_match(letters, _APOSTROPHE) & ~begins_chunk
    # An apostrophe counts where the piece after it closes a possessive.
    return edge | _before(edge) | (apostrophe & tf.concat([possessive, [False]], axis=0)[1:])


def _before(values: tf.Tensor) -> tf.Tensor:
    """Returns for each piece what holds for the one before it."""
    return tf.concat([[False], values], axis=0)[: tf.size(values)]
