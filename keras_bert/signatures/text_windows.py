"""Texts longer than a row as windows that overlap: [CLS] window [SEP], several rows of a text.

Seven pieces, rows of 6 positions and so room for 4 pieces, stride 2:

    pieces     a b c d e f g
    windows    a b c d            [CLS] a b c d [SEP]
                   c d e f        [CLS] c d e f [SEP]
                       e f g      [CLS] e f g [SEP]

Training, evaluation and served models cut with the functions here, eagerly and in graphs.

Shapes: N texts, W windows of all of them.
"""

import dataclasses

import tensorflow as tf

from keras_bert.counts import check_count
from keras_bert.signatures.windows import cut
from keras_bert.text.framing import BERT_FRAMING
from keras_bert.text.packing import join_pieces
from keras_bert.text.vocabulary import Vocabulary

# [CLS] and [SEP], or what a family has in their place.
_SPECIAL_TOKENS = BERT_FRAMING.special_in_single


@dataclasses.dataclass(frozen=True)
class TextWindows:
    """How texts are cut.

    Attributes:
        max_seq_length: the most positions of a row.
        doc_stride: by how many pieces the next window begins later; None takes half of the pieces
            of a window, so that neighbours share the other half.
        max_windows: the most windows of a text; pieces behind the last are not read. None reads
            all.

    Raises:
        ValueError: a row has no room for a piece, a number is below 1, or the stride is larger than
            a window, so that pieces between two windows would not be read.
    """

    max_seq_length: int
    doc_stride: int | None = None
    max_windows: int | None = None

    def __post_init__(self) -> None:
        if self.room < 1:
            raise ValueError(
                f"max_seq_length is {self.max_seq_length}: it must be at least "
                f"{_SPECIAL_TOKENS + 1} for a piece"
            )
        for name in ("doc_stride", "max_windows"):
            check_count(name, getattr(self, name))
        if self.stride > self.room:
            raise ValueError(
                f"doc_stride is {self.doc_stride} but a window of max_seq_length "
                f"{self.max_seq_length} holds {self.room} pieces: those between two windows would "
                f"not be read; give at most {self.room}"
            )

    @property
    def room(self) -> int:
        """The most pieces of a window."""
        return self.max_seq_length - _SPECIAL_TOKENS

    @property
    def stride(self) -> int:
        """By how many pieces the next window begins later."""
        return -(-self.room // 2) if self.doc_stride is None else self.doc_stride

    @property
    def reach(self) -> int | None:
        """The most pieces of a text that are read; None where there is no limit."""
        if self.max_windows is None:
            return None
        return (self.max_windows - 1) * self.stride + self.room

    def rows(
        self, pieces: tf.RaggedTensor, vocabulary: Vocabulary
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Returns ids and segments of the rows of each text, int32 [N, windows, pieces].

        A text that fits has one row, that of `BertPreprocessor`; a text without pieces, too.

        Args:
            pieces: int32 [N, pieces], what the tokenizer made of the texts.
            vocabulary: tells the ids of [CLS] and [SEP].
        """
        pieces = pieces.with_row_splits_dtype(tf.int64)
        lengths = pieces.row_lengths()  # [N]
        room, stride = (
            tf.fill(tf.shape(lengths), tf.constant(size, tf.int64))
            for size in (self.room, self.stride)
        )
        found = cut(lengths, room, stride, self.max_windows)
        first = tf.gather(pieces.row_starts(), found.rows) + found.offsets  # [W], among all pieces
        index = tf.ragged.range(first, first + found.lengths).with_row_splits_dtype(tf.int64)
        windows = tf.gather(pieces.values, index)  # [W, pieces]
        # [W, pieces] -> [N, windows, pieces]
        ids, segments = (
            tf.RaggedTensor.from_value_rowids(rows, found.rows, tf.size(lengths, tf.int64))
            for rows in join_pieces(windows, None, vocabulary)
        )
        return ids, segments
