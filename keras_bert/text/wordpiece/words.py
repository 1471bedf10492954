"""Normalized characters to words.

characters   p l a y i n g ! _ o k _      _ is white space, one ends every text
apart        0 0 0 0 0 0 0 1 1 0 0 1      white space, or a word of its own
starts       1 0 0 0 0 0 0 1 0 1 0 0
splits       0 7 8 10                     in the ten characters that are left
"""

from typing import NamedTuple

import tensorflow as tf

from keras_bert.text.wordpiece import unicode_table as table
from keras_bert.text.wordpiece.normalization import NormalizedText


class Words(NamedTuple):
    """The words of a batch of N texts: W words with K characters in all.

    Attributes:
        characters: int32 [K], code points, without the white space between words.
        positions: int64 [K], their positions among the normalized characters.
        splits: int64 [W + 1], where the characters of each word begin and end.
        row_splits: int64 [N + 1], where the words of each text begin and end.
    """

    characters: tf.Tensor
    positions: tf.Tensor
    splits: tf.Tensor
    row_splits: tf.Tensor


def find_words(text: NormalizedText) -> Words:
    """Splits normalized text at white space and around characters that are words of their own."""
    packed = text.packed
    visible = tf.equal(packed & table.IS_SPACE, 0)  # [T]
    apart = tf.not_equal(packed & (table.IS_SPACE | table.IS_ALONE), 0)  # [T]
    after_break = tf.concat([[True], apart[:-1]], axis=0)  # [T]: what is before it is apart
    starts = visible & (apart | after_break)  # [T]
    positions = tf.where(visible)[:, 0]  # [K]
    characters = tf.gather(packed, positions) & table.CODE_POINT_BITS  # [K]
    word_starts = tf.where(tf.gather(starts, positions))  # [W, 1], in the K characters
    splits = tf.concat([word_starts[:, 0], tf.size(positions, tf.int64)[None]], axis=0)  # [W + 1]
    # The number of words that begin before a text begins is the number of its first word.
    word_positions = tf.gather_nd(positions, word_starts)
    row_splits = tf.searchsorted(word_positions, text.row_splits, out_type=tf.int64)  # [N + 1]
    return Words(characters, positions, splits, row_splits)
