"""Texts with [MASK] in them: pieces are put into the places of the masks, the rest stays as it is.

    text      "The [MASK] [MASK]."      pieces    play ##ing
    parts     "The "  " "  "."          a piece that begins with "##" joins what is before it
    filled    "The playing."

Shapes: N texts, M masks of a text.
"""

import tensorflow as tf

from keras_bert.text.vocabulary import CONTINUATION_PREFIX

_SPACES_AT_THE_END = r"[\s\p{Z}\x{85}]+$"  # RE2's \s is ASCII alone


def fill_blanks(texts: tf.Tensor, pieces: tf.RaggedTensor, mask: str) -> tf.Tensor:
    """Returns the texts with pieces in place of [MASK].

    Args:
        texts: string [N].
        pieces: string [N, M]; masks for which there is no piece are left.
        mask: how the vocabulary spells [MASK].

    Returns:
        string [N].
    """
    parts = tf.strings.split(texts, mask)  # [N, M + 1]
    splits = parts.row_splits
    missing = parts.row_lengths() - 1 - tf.cast(pieces.row_lengths(), tf.int64)  # [N]
    left = tf.RaggedTensor.from_row_lengths(tf.fill([tf.reduce_sum(missing)], mask), missing)
    end = tf.RaggedTensor.from_tensor(tf.fill([tf.shape(texts)[0], 1], ""))
    pieces = pieces.with_row_splits_dtype(splits.dtype)
    # What follows each part, as many as parts: [parts of all texts].
    following = tf.concat([pieces, left, end], axis=1).values
    continues = tf.strings.regex_full_match(following, f"{CONTINUATION_PREFIX}.+")
    ends = tf.strings.regex_replace(parts.values, _SPACES_AT_THE_END, "")
    values = tf.where(continues, ends, parts.values)
    following = tf.where(
        continues, tf.strings.regex_replace(following, f"^{CONTINUATION_PREFIX}", ""), following
    )
    joined = tf.RaggedTensor.from_row_splits(values + following, splits)  # [N, M + 1]
    return tf.strings.reduce_join(joined, axis=1)
