"""Texts as code points: what character offsets count.

Shapes: N texts, C code points of all of them.
"""

from typing import NamedTuple

import tensorflow as tf


class CodePoints(NamedTuple):
    """A batch of texts, flat.

    Attributes:
        values: int32 [C]. Bytes that are not UTF-8 count as U+FFFD, as in the tokenizer.
        row_starts: int64 [N], where each text begins.
    """

    values: tf.Tensor
    row_starts: tf.Tensor

    def slices(self, rows: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
        """Returns pieces of the texts as UTF-8, string [M].

        Args:
            rows: int64 [M], which text.
            starts: integers [M], the first character.
            ends: integers [M], behind the last character; not above `starts` for an empty piece.
        """
        begin = tf.gather(self.row_starts, rows)  # [M]
        # "abc\n" "de\n" flattened: row 1, start 0, end 2 are the positions 4 and 5.
        positions = tf.ragged.range(
            begin + tf.cast(starts, tf.int64), begin + tf.cast(ends, tf.int64)
        ).with_row_splits_dtype(tf.int64)  # [M, characters]
        return tf.strings.unicode_encode(tf.gather(self.values, positions), "UTF-8")


def code_points(texts: tf.Tensor) -> CodePoints:
    """Takes strings [N] apart; a line break that they do not have ends each of them."""
    decoded = tf.strings.unicode_decode(tf.strings.join([texts, "\n"]), "UTF-8", errors="replace")
    return CodePoints(decoded.values, decoded.row_splits[:-1])  # [C], [N]


def valid_text(texts: tf.Tensor) -> tf.Tensor:
    """Returns texts with U+FFFD for bytes that are not UTF-8, so that JSON can carry them.

    Args:
        texts: string, any shape.
    """
    return tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")
