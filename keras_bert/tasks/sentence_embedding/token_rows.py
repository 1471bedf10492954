"""Rows of queries and of texts to be found, as late interaction reads them.

    marker, text      [CLS] [unused0] how to lock [SEP]
    with expansion    [CLS] [unused0] how to lock [SEP] [MASK] [MASK] ...     to a fixed length

A marker is a piece behind [CLS] that tells a query from a text. An expanded query has a vector at
each [MASK], too: what the model thinks might stand there (Khattab and Zaharia 2020, section 3.2).

Shapes: N texts, S positions.
"""

from collections.abc import Sequence

import tensorflow as tf

from keras_bert.checkpoints.multi_vector_modules import QueryExpansion
from keras_bert.features import INPUT_IDS, INPUT_MASK, SEGMENT_IDS
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.packing import pack


class TokenRows:
    """Makes the inputs of a model of one kind of texts.

    Args:
        tokenizer: that of the model.
        max_seq_length: the most positions of a row; an expansion has a length of its own.
        marker: a piece of the vocabulary that stands behind [CLS]; "" for none.
        expansion: what fills up rows; None for nothing.

    Raises:
        ValueError: the vocabulary has no such piece, or rows have no room for one of the text.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        max_seq_length: int,
        marker: str = "",
        expansion: QueryExpansion | None = None,
    ):
        vocabulary = tokenizer.vocabulary
        self._tokenizer = tokenizer
        self._length = max_seq_length if expansion is None else expansion.length
        self._marker = [vocabulary.id_of(marker)] if marker else []
        self._expansion = expansion
        least = vocabulary.framing.special_in_single + len(self._marker) + 1
        if self._length < least:
            raise ValueError(
                f"rows have {self._length} positions, but one piece of a text takes {least} with "
                "what stands around it: give more"
            )
        if expansion is not None:
            token = expansion.token
            self._filler = vocabulary.mask_id if token is None else vocabulary.id_of(token)

    def __call__(self, texts: tf.Tensor | Sequence[str]) -> dict[str, tf.Tensor]:
        """Returns the inputs of a model, int32 [N, S] each, as long as the longest row.

        What an expansion added is 0 in the mask, unless others may attend to it.

        Args:
            texts: strings [N].
        """
        pieces = self._tokenizer(texts)  # [N, pieces]
        if self._marker:
            markers = tf.fill([pieces.nrows(), 1], self._marker[0])
            pieces = tf.concat([tf.cast(markers, pieces.dtype), pieces], axis=1)
        vocabulary = self._tokenizer.vocabulary
        if self._expansion is None:
            return pack(pieces, None, vocabulary, self._length, pad_to_max=False)
        inputs = pack(pieces, None, vocabulary, self._length)
        ids, mask = inputs[INPUT_IDS], inputs[INPUT_MASK]
        return {
            INPUT_IDS: tf.where(mask > 0, ids, self._filler),
            INPUT_MASK: tf.ones_like(mask) if self._expansion.attend else mask,
            SEGMENT_IDS: inputs[SEGMENT_IDS],
        }
