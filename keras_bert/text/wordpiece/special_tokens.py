"""Special tokens that are spelled out in a text, such as the [MASK] of a fill-in question.

    code points    a [ M A S K ] b
    become         a * ? ? ? ? ? b     * private character of the token, ? removed by the clean-up
    lengths        0 5 0 0 0 0 0 0     how many more code points the character stands for

Shapes: C code points, F occurrences of a token, L characters of it.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_bert.text.wordpiece import unicode_table

_REMOVED_CHARACTER = 0xFFFD  # dropped by the clean-up, whatever the settings


def mark_special_tokens(
    code_points: tf.Tensor, special_tokens: Sequence[str]
) -> tuple[tf.Tensor, tf.Tensor]:
    """Replaces each special token by one private character, followed by removed ones.

    Args:
        code_points: int32 [C].
        special_tokens: their spellings. None holds a character that one of them starts with, mostly
            "[" or "<", behind its own first, so that two of them never overlap.

    Returns:
        The code points with `unicode_table.FIRST_SPECIAL` + the token's index in the list where a
        token begins, int32 [C]; and for each how many more belong to its token, int64 [C].
    """
    lengths = tf.zeros_like(code_points, tf.int64)
    opening = np.array(sorted({ord(token[0]) for token in special_tokens}), np.int32)  # "[", "<"
    is_opening = tf.reduce_any(tf.equal(code_points[:, None], opening), axis=1)
    brackets = tf.where(is_opening)[:, 0]  # positions of all "[" and "<"
    for number, token in enumerate(special_tokens):
        # The positions of all characters of each occurrence.
        spelled = np.array([ord(character) for character in token], np.int32)
        windows = brackets[:, None] + np.arange(len(token))  # [brackets, L]
        # [brackets, L]; padded, for one near the end
        found = tf.gather(tf.pad(code_points, [[0, len(token)]]), windows)
        is_token = tf.reduce_all(tf.equal(found, spelled), axis=1)  # [brackets]
        positions = tf.boolean_mask(windows, is_token)  # [F, L]
        marker = np.full(len(token), _REMOVED_CHARACTER, np.int32)  # [L]
        marker[0] = unicode_table.FIRST_SPECIAL + number
        code_points = tf.tensor_scatter_nd_update(
            code_points, positions[..., None], tf.broadcast_to(marker, tf.shape(positions))
        )
        rest = tf.fill(tf.shape(positions)[:1], tf.constant(len(token) - 1, tf.int64))  # [F]
        lengths = tf.tensor_scatter_nd_update(lengths, positions[:, :1], rest)
    return code_points, lengths
