"""Rows of an encoder with a decoder: the pieces of sources, and those of targets.

    source "a b"   input_ids          [CLS] a b [SEP]
    target "c d"   decoder_input_ids  [CLS] c d          what stands before each prediction
                   labels              c    d [SEP]      what is predicted there

Shapes: E examples, B batch, S positions of the encoder, T positions of the decoder.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from keras_bert.finetuning.encoded_rows import NO_TARGET, EncodedRows, pack_texts
from keras_bert.models.seq2seq.decoder import DECODER_INPUT_IDS
from keras_bert.text.preprocessor import BertPreprocessor
from keras_bert.text.tokenizer import BertTokenizer

# Few distinct lengths mean few traces; a compiled step has one for each power of two from here.
_LENGTH_MULTIPLE = 8
_TEXTS_PER_CALL = 512


class EncodedPairs(EncodedRows):
    """The inputs and targets of E sources and targets.

    Args:
        tokenizer: that of the model.
        sources: E texts, at least one.
        targets: E texts; an empty one has the end alone.
        max_seq_length: the most positions of a source, longer ones are cut.
        max_target_length: the most pieces of a target, its end among them; longer ones are cut.
        done: is told of each part how many texts it had.

    Attributes:
        tokenizer: see above.
    """

    def __init__(
        self,
        tokenizer: BertTokenizer,
        sources: Sequence[str],
        targets: Sequence[str],
        max_seq_length: int,
        max_target_length: int,
        done: Callable[[int], None],
    ):
        vocabulary = tokenizer.vocabulary
        preprocessor = BertPreprocessor(tokenizer, max_seq_length, pad_to="longest")
        ids, segments = pack_texts(preprocessor, sources, None, done)
        super().__init__(ids, segments, vocabulary.pad_id, max_seq_length)
        self.tokenizer = tokenizer
        self._max_target_length = max_target_length
        rows = []
        for start in range(0, len(targets), _TEXTS_PER_CALL):
            pieces = tokenizer(list(targets[start : start + _TEXTS_PER_CALL]))
            edge = tf.ones([pieces.nrows(), 1], tf.int32)
            pieces = tf.cast(pieces[:, : max_target_length - 1], tf.int32)
            # [CLS] pieces [SEP]: [texts, pieces + 2]
            rows.append(
                tf.concat([edge * vocabulary.cls_id, pieces, edge * vocabulary.sep_id], axis=1)
            )
        self._target_ids = tf.concat(rows, axis=0)  # [E, T + 1]
        # What is learned from each target: its pieces and the end.
        self._target_lengths = self._target_ids.row_lengths() - 1  # [E]
        self._fixed_target_lengths: tuple[int, ...] | None = None
        self.real_tokens += int(tf.reduce_sum(self._target_lengths))

    def fixed_lengths(self, lengths: Sequence[int]) -> None:
        """Pads sources to one of a few lengths from now on, and targets to powers of two."""
        super().fixed_lengths(lengths)
        found = [_LENGTH_MULTIPLE]
        while found[-1] < self._max_target_length:
            found.append(2 * found[-1])
        self._fixed_target_lengths = tuple(min(n, self._max_target_length) for n in found)

    def examples(self, rows: tf.Tensor, whole: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        """Returns the inputs of some examples, and their labels, int32 [B, T].

        Args:
            rows: int64 [B], their numbers.
            whole: those of the whole batch, the parts of which are padded to the same shape.
        """
        inputs, _ = super().examples(rows, whole)
        longest = tf.reduce_max(tf.gather(self._target_lengths, whole))
        if self._fixed_target_lengths is None:
            length = -(-longest // _LENGTH_MULTIPLE) * _LENGTH_MULTIPLE
            length = tf.minimum(length, self._max_target_length)
        else:
            lengths = tf.constant(self._fixed_target_lengths, tf.int64)
            length = tf.reduce_min(tf.boolean_mask(lengths, lengths >= longest))
        ids = tf.gather(self._target_ids, rows)  # [B, T + 1]
        shape = tf.stack([tf.constant(-1, tf.int64), tf.cast(length, tf.int64)])
        before = ids[:, :-1].to_tensor(self.tokenizer.vocabulary.pad_id, shape=shape)  # [B, T]
        labels = ids[:, 1:].to_tensor(NO_TARGET, shape=shape)  # [B, T]
        return {**inputs, DECODER_INPUT_IDS: before}, labels


def labels_of(decoder_input_ids: tf.Tensor, pad_id: int, end_id: int) -> tf.Tensor:
    """Returns what is predicted at each position, int32 [B, T]: the piece at the next, or the end.

    Args:
        decoder_input_ids: int32 [B, T], see above.
        pad_id: of padding; behind the end of a target the label is `NO_TARGET`.
        end_id: of what ends a target.
    """
    # [CLS] c d . .  ->  c d . . .  ->  c d [SEP] . .
    lengths = tf.reduce_sum(tf.cast(tf.not_equal(decoder_input_ids, pad_id), tf.int32), axis=1)
    places = tf.range(tf.shape(decoder_input_ids)[1])  # [T]
    following = tf.pad(decoder_input_ids[:, 1:], [[0, 0], [0, 1]])
    last = lengths[:, None] - 1  # [B, 1]
    labels = tf.where(places < last, following, NO_TARGET)
    return tf.where(tf.equal(places, last), end_id, labels)


def written_text(tokenizer: BertTokenizer, ids: tf.Tensor, end_id: int) -> tf.Tensor:
    """Returns the texts of generated pieces, string [N]; in graph, too.

    Args:
        tokenizer: joins pieces: a space between words, none before a "##" piece.
        ids: int32 [N, T]: pieces, the end, padding.
        end_id: of what ends a text.
    """
    before_end = tf.cumsum(tf.cast(tf.equal(ids, end_id), tf.int32), axis=1) < 1  # [N, T]
    return tokenizer.detokenize(tf.ragged.boolean_mask(ids, before_end))


def tokenized_text(tokenizer: BertTokenizer, texts: Sequence[str]) -> list[str]:
    """Returns texts as the tokenizer writes them: its case, spaces between words and marks."""
    found: list[Any] = []
    for start in range(0, len(texts), _TEXTS_PER_CALL):
        ids = tokenizer(list(texts[start : start + _TEXTS_PER_CALL]))
        found += tokenizer.detokenize(ids).numpy().tolist()
    return [text.decode("utf-8", "replace") for text in found]
