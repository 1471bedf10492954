"""Rows of an encoder with a decoder: the pieces of sources, and those of targets.

    source "a b"   input_ids          [CLS] a b [SEP]
    target "c d"   decoder_input_ids  [CLS] c d          what stands before each prediction
                   labels              c    d [SEP]      what is predicted there

A conditional masked language model reads whole targets, some pieces of which are hidden from it:

    decoder_input_ids   [CLS] c d e [SEP]
    decoder_input_mask    1   1 1 1   1
    decoder_masked        0   1 0 1   0    of N = 3 pieces n = 2, n drawn from 1 to N
    labels of pieces      -1  c -1 e  -1   those that are hidden
    label of the length   2                N - 1

Shapes: E examples, B batch, S positions of the encoder, T positions of the decoder.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from keras_bert.finetuning.encoded_rows import NO_TARGET, EncodedRows, pack_texts
from keras_bert.models.seq2seq.decoder import DECODER_INPUT_IDS, DECODER_INPUT_MASK
from keras_bert.models.seq2seq.encoder_decoder import DECODER_MASKED, LENGTH_LOGITS, PIECE_LOGITS
from keras_bert.text.preprocessor import BertPreprocessor
from keras_bert.text.random_bits import random_bits, random_keys, seeds_of
from keras_bert.text.tokenizer import BertTokenizer

# Few distinct lengths mean few traces; a compiled step has one for each power of two from here.
_LENGTH_MULTIPLE = 8
_TEXTS_PER_CALL = 512
# Random bits of their own: the order of pieces takes the indices from 0 up, see `masking_strategy`.
_COUNT = 1 << 32
# In place of the seed of a run and the number of an epoch: evaluation always hides the same.
_EVALUATION = (0, -1)


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
        rows, cut = [], 0
        for start in range(0, len(targets), _TEXTS_PER_CALL):
            pieces = tokenizer(list(targets[start : start + _TEXTS_PER_CALL]))
            cut += int(tf.math.count_nonzero(pieces.row_lengths() >= max_target_length))
            edge = tf.ones([pieces.nrows(), 1], tf.int32)
            pieces = tf.cast(pieces[:, : max_target_length - 1], tf.int32)
            # [CLS] pieces [SEP]: [texts, pieces + 2]
            rows.append(
                tf.concat([edge * vocabulary.cls_id, pieces, edge * vocabulary.sep_id], axis=1)
            )
        self._target_ids = tf.concat(rows, axis=0)  # [E, T + 1]
        if cut:  # where they are cut a text is learned to end
            self.remark = (
                f"{cut:,} of {len(targets):,} targets are cut to max_target_length "
                f"{max_target_length}"
            )
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
        ids = tf.gather(self._target_ids, rows)  # [B, T + 1]
        shape = tf.stack([tf.constant(-1, tf.int64), self._padded_length(whole)])
        before = ids[:, :-1].to_tensor(self.tokenizer.vocabulary.pad_id, shape=shape)  # [B, T]
        labels = ids[:, 1:].to_tensor(NO_TARGET, shape=shape)  # [B, T]
        return {**inputs, DECODER_INPUT_IDS: before}, labels

    def _padded_length(self, whole: tf.Tensor) -> tf.Tensor:
        """Returns to how many positions, int64, the targets of a batch without [CLS] are padded."""
        longest = tf.reduce_max(tf.gather(self._target_lengths, whole))
        if self._fixed_target_lengths is None:
            length = -(-longest // _LENGTH_MULTIPLE) * _LENGTH_MULTIPLE
            length = tf.minimum(length, self._max_target_length)
        else:
            lengths = tf.constant(self._fixed_target_lengths, tf.int64)
            length = tf.reduce_min(tf.boolean_mask(lengths, lengths >= longest))
        return tf.cast(length, tf.int64)


class EncodedMaskedPairs(EncodedPairs):
    """The same for a conditional masked language model; its arguments are those of `EncodedPairs`.

    What is hidden of a target in an epoch follows from the seed of the run, the epoch and the
    number of the example, whatever else is in the batch (Ghazvininejad et al. 2019, section 2.2).
    """

    def examples(self, rows: tf.Tensor, whole: tf.Tensor) -> tuple[dict[str, tf.Tensor], Any]:
        """Returns inputs and labels with masks that are always the same, see `training_examples`.

        Args:
            rows: int64 [B], their numbers.
            whole: those of the whole batch, the parts of which are padded to the same shape.
        """
        return self.training_examples(rows, whole, tf.constant(_EVALUATION, tf.int64))

    def training_examples(
        self, rows: tf.Tensor, whole: tf.Tensor, epoch: tf.Tensor
    ) -> tuple[dict[str, tf.Tensor], Any]:
        """Returns the inputs of some examples, and their labels, int32 [B, T] and [B].

        Args:
            rows: int64 [B], their numbers.
            whole: those of the whole batch, the parts of which are padded to the same shape.
            epoch: int64 [2], the seed of the run and the number of the epoch.
        """
        inputs, _ = EncodedRows.examples(self, rows, whole)
        ids = tf.gather(self._target_ids, rows)  # [B, T]
        shape = tf.stack([tf.constant(-1, tf.int64), self._padded_length(whole) + 1])
        mask = tf.ones_like(ids).to_tensor(0, shape=shape)
        ids = ids.to_tensor(self.tokenizer.vocabulary.pad_id, shape=shape)
        pieces = tf.reduce_sum(mask, axis=1) - 2  # [B], without [CLS] and [SEP]
        rows = tf.cast(rows, tf.int64)[:, None]  # [B, 1]
        counters = tf.concat([tf.broadcast_to(epoch, [tf.size(rows), 2]), rows], axis=1)
        masked = tf.cast(drawn_masks(pieces, tf.shape(ids)[1], counters), tf.int32)  # [B, T]
        inputs |= {DECODER_INPUT_IDS: ids, DECODER_INPUT_MASK: mask, DECODER_MASKED: masked}
        # A target without any piece teaches that it is short.
        length = tf.maximum(pieces, 1) - 1  # [B]
        return inputs, {PIECE_LOGITS: masked_labels(ids, masked), LENGTH_LOGITS: length}


def drawn_masks(pieces: tf.Tensor, positions: tf.Tensor, counters: tf.Tensor) -> tf.Tensor:
    """Returns which pieces are hidden, bool [B, T]: a random number of them, any as likely.

    Args:
        pieces: int32 [B], the numbers of pieces N; they stand behind the first position.
        positions: int32 scalar, T.
        counters: int64 [B, k], what the draw follows from.
    """
    seeds = seeds_of(counters)  # uint64 [B]
    # How many: from 1 to N; of 2^64 numbers each remainder has as many to within 1 in 2^50.
    bits = random_bits(seeds, tf.constant([_COUNT], tf.int64))[:, 0]  # [B]
    most = tf.cast(tf.maximum(pieces, 1), tf.uint64)
    count = tf.cast(bits % most, tf.int32) + 1  # [B]
    # Which: those with the smallest of random keys.
    places = tf.range(positions)  # [T]
    is_piece = (places >= 1) & (places <= pieces[:, None])  # [B, T]
    keys = tf.cast(random_keys(seeds, tf.cast(places, tf.int64)), tf.int64)  # [B, T]
    keys = tf.where(is_piece, keys, tf.int64.max)
    order = tf.argsort(keys, axis=1, stable=True)
    rank = tf.argsort(order, axis=1)  # [B, T], from 0
    return is_piece & (rank < count[:, None])


def masked_labels(decoder_input_ids: tf.Tensor, masked: tf.Tensor) -> tf.Tensor:
    """Returns what is predicted at each position, int32 [B, T]: the hidden piece, or `NO_TARGET`.

    Args:
        decoder_input_ids: int32 [B, T], whole targets.
        masked: 1 for hidden pieces, int32 [B, T].
    """
    return tf.where(tf.equal(masked, 1), decoder_input_ids, NO_TARGET)


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
