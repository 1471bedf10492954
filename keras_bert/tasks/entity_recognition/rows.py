"""Rows that name labels before words: [CLS] <<ENT>> label <<ENT>> label <<SEP>> words [SEP].

Training draws the labels of a row anew in each epoch: those of its entities, and any number of
others from the data, all in random order. Evaluation and answers ask for all that are to be found.

Shapes: B rows of a batch, E rows of a split, W words of a row, T labels of a row, L labels there
are, K words of the widest entity.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.features import INPUT_IDS, INPUT_MASK, SEGMENT_IDS
from keras_bert.finetuning.encoded_rows import NO_TARGET, EncodedRows
from keras_bert.models.entities.entity_matcher import (
    LABEL_POSITIONS,
    NO_POSITION,
    WORD_POSITIONS,
)
from keras_bert.signatures.windows import WordWindows
from keras_bert.text.random_bits import random_bits, random_keys, seeds_of, uniform_numbers
from keras_bert.text.vocabulary import Vocabulary

# [CLS] and [SEP].
SPECIAL_TOKENS = 2
# Random bits of their own: labels take the indices from 0 up.
_DROPPED, _COUNT, _ORDER = 1 << 32, 1 << 33, 1 << 34
# Few distinct numbers of words mean few traces.
_WORD_MULTIPLE = 8
_BY_CLASS = 40  # bits of a random key, and some


class Prompts(NamedTuple):
    """What stands between [CLS] and the words.

    Attributes:
        ids: int32 [B, pieces], ragged.
        label_positions: int32 [B, T], of the marker before each label in the row; -1 for none.
    """

    ids: tf.RaggedTensor
    label_positions: tf.Tensor


class Markers(NamedTuple):
    """The ids of <<ENT>> and <<SEP>>."""

    entity: int
    separator: int


def make_prompts(pieces: tf.RaggedTensor, index: tf.Tensor, markers: Markers) -> Prompts:
    """Joins labels, each behind a marker.

    Args:
        pieces: int32 [L, pieces], of each label.
        index: integers [B, T], numbers of labels; below 0 for none.
        markers: ids.
    """
    batch = tf.shape(index, tf.int64)[0]
    places = tf.where(index >= 0)  # [R, 2]
    of_labels = tf.gather(pieces, tf.gather_nd(index, places))  # [R, pieces]
    marker = tf.fill([tf.shape(places)[0], 1], tf.constant(markers.entity, tf.int32))
    asked = tf.concat([marker, of_labels], axis=1)  # ragged [R, 1 + pieces]
    by_row = tf.RaggedTensor.from_value_rowids(asked, places[:, 0], batch, validate=False)
    end = tf.fill([batch, 1], tf.constant(markers.separator, tf.int32))
    ids = tf.concat([by_row.merge_dims(1, 2), end], axis=1)  # [B, pieces]
    # Lengths 2 3 | 4 of two rows: before each label 0 2 | 0 pieces, and [CLS].
    before = tf.cumsum(tf.concat([[0], asked.row_lengths()], axis=0))  # [R + 1]
    first = tf.gather(before, tf.gather(by_row.row_starts(), places[:, 0]))
    positions = 1 + tf.cast(before[:-1] - first, tf.int32)
    nowhere = tf.fill(tf.shape(index), tf.constant(NO_POSITION, tf.int32))
    return Prompts(ids, tf.tensor_scatter_nd_update(nowhere, places, positions))


def cut_words(pieces: tf.RaggedTensor, room: tf.Tensor) -> tf.RaggedTensor:
    """Returns the pieces of words, int32 [D, pieces], of each no more than a row takes.

    Args:
        pieces: int32 [D, pieces].
        room: int64 [D], the most of each word.
    """
    position = tf.ragged.range(pieces.row_lengths()).with_row_splits_dtype(tf.int64)
    limit = tf.gather(room, pieces.value_rowids())
    return tf.ragged.boolean_mask(pieces, position.with_values(position.values < limit))


def join_rows(
    prompts: Prompts, pieces: tf.RaggedTensor, counts: tf.RaggedTensor, vocabulary: Vocabulary
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Returns the ids of whole rows, int32 [B, pieces], and the positions of words, int32 [B, W].

    Args:
        prompts: of each row.
        pieces: int32 [B, pieces], of the words.
        counts: int64 [B, W], pieces of each word; a word without any is at position 0.
        vocabulary: tells the ids of [CLS] and [SEP].
    """
    column = tf.ones([pieces.nrows(), 1], tf.int32)
    end = [column * token_id for token_id in vocabulary.end_ids]
    ids = tf.concat([column * vocabulary.cls_id, prompts.ids, pieces, *end], axis=1)
    flat = counts.values
    before = tf.cumsum(tf.concat([tf.zeros([1], tf.int64), flat], axis=0))  # [words + 1]
    first = tf.gather(before, counts.row_starts())  # [B]
    origin = 1 + prompts.ids.row_lengths() - first  # [B]
    positions = before[:-1] + tf.gather(origin, counts.value_rowids())
    positions = tf.where(flat > 0, positions, 0)
    return ids, counts.with_values(tf.cast(positions, tf.int32))


def row_inputs(
    ids: tf.RaggedTensor,
    word_positions: tf.RaggedTensor,
    label_positions: tf.Tensor,
    pad_id: int,
    length: tf.Tensor | None = None,
    words: tf.Tensor | None = None,
) -> dict[str, tf.Tensor]:
    """Returns the inputs of a model: int32 [B, S], and positions [B, W] and [B, T].

    Args:
        ids: int32 [B, pieces], whole rows.
        word_positions: int32 [B, words].
        label_positions: int32 [B, T].
        pad_id: the id of [PAD].
        length: S; None is that of the longest row.
        words: W; None is that of the row that has most.
    """

    def dense(values: tf.RaggedTensor, padding: int, size: tf.Tensor | None) -> tf.Tensor:
        shape = None if size is None else tf.stack([tf.constant(-1, tf.int64), size])
        return values.to_tensor(padding, shape=shape)

    padded = dense(ids, pad_id, length)
    return {
        INPUT_IDS: padded,
        INPUT_MASK: dense(tf.ones_like(ids), 0, length),
        SEGMENT_IDS: tf.zeros_like(padded),
        WORD_POSITIONS: dense(word_positions, NO_POSITION, words),
        LABEL_POSITIONS: label_positions,
    }


def drawn_labels(
    own: tf.RaggedTensor, labels: int, max_types: int, dropout: float, seeds: tf.Tensor
) -> tf.Tensor:
    """Draws the labels of rows in training, int64 [B, T]: numbers of labels, -1 behind the last.

    Of a row's own labels each is left out with a probability, and of the others any number that
    fits in is drawn, each number as likely; at least one label is asked for.

    Args:
        own: int64 [B, labels], those of the entities of each row.
        labels: how many there are, L, at least one.
        max_types: the most labels of a row.
        dropout: probability to leave out a label that the row has.
        seeds: uint64 [B], what the draw follows from.
    """
    width = min(labels, max_types)  # T
    batch = own.nrows()
    numbers = tf.range(labels, dtype=tf.int64)
    there = tf.stack([own.value_rowids(), own.values], axis=1)
    ones = tf.ones([tf.shape(there)[0]], tf.int32)
    is_own = tf.scatter_nd(there, ones, tf.stack([batch, tf.constant(labels, tf.int64)])) > 0
    dropped = uniform_numbers(random_bits(seeds, _DROPPED + numbers)) < dropout
    kept = is_own & ~dropped  # [B, L]
    # How many: those kept, as far as they fit in, and a number of others.
    some = tf.minimum(_count(kept), width)  # [B]
    most = tf.minimum(labels - _count(is_own), width - some)
    bits = random_bits(seeds, tf.constant([_COUNT], tf.int64))[:, 0]
    more = tf.cast(bits % tf.cast(most + 1, tf.uint64), tf.int64)
    count = tf.maximum(some + more, 1)[:, None]  # [B, 1]
    # Which: those kept first, then others, then those left out, each in random order.
    class_ = tf.where(kept, 0, tf.where(is_own, 2, 1))
    keys = tf.cast(random_keys(seeds, numbers), tf.int64)
    keys += tf.bitwise.left_shift(tf.cast(class_, tf.int64), _BY_CLASS)
    chosen = tf.argsort(keys, axis=1, stable=True)[:, :width]  # [B, T]
    # And in an order that does not tell which are which.
    place = tf.range(width, dtype=tf.int64)
    keys = tf.cast(random_keys(seeds, _ORDER + place), tf.int64)
    order = tf.argsort(tf.where(place < count, keys, tf.int64.max), axis=1, stable=True)
    index = tf.cast(tf.gather(chosen, order, batch_dims=1), tf.int64)
    return tf.where(place < count, index, -1)


def _count(flags: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.cast(flags, tf.int64), axis=1)


def span_targets(
    entities: tf.RaggedTensor,
    index: tf.Tensor,
    sizes: tf.Tensor,
    words: tf.Tensor,
    labels: int,
    max_width: int,
) -> tf.Tensor:
    """Returns int32 [B, W, K, T]: 1 for an entity, 0 for none, -1 where there is no span or label.

    Args:
        entities: int64 [B, entities, 3]: first word, last word and number of the label.
        index: int64 [B, T], the labels of each row, below 0 for none.
        sizes: int64 [B], words of each row.
        words: int64 scalar, W.
        labels: how many there are, L.
        max_width: K. Wider entities have no span.
    """
    batch, types = tf.unstack(tf.shape(index, tf.int64))
    # The column of each label in each row, [B, L], or -1.
    places = tf.where(index >= 0)
    columns = tf.tensor_scatter_nd_update(
        tf.fill(tf.stack([batch, tf.constant(labels, tf.int64)]), tf.constant(-1, tf.int64)),
        tf.stack([places[:, 0], tf.gather_nd(index, places)], axis=1),
        places[:, 1],
    )
    row = entities.value_rowids()
    first, last, label = tf.unstack(entities.values, num=3, axis=1)
    column = tf.gather_nd(columns, tf.stack([row, label], axis=1))
    found = (column >= 0) & (last - first < max_width)
    told = tf.boolean_mask(tf.stack([row, first, last - first, column], axis=1), found)
    width = tf.constant(max_width, tf.int64)
    targets = tf.tensor_scatter_nd_update(
        tf.zeros(tf.stack([batch, words, width, types]), tf.int32),
        told,
        tf.ones([tf.shape(told)[0]], tf.int32),
    )
    end = tf.range(words)[:, None] + tf.range(width)  # [W, K]
    there = (end < sizes[:, None, None])[..., None] & (index >= 0)[:, None, None, :]
    return tf.where(there, targets, NO_TARGET)


class EncodedEntities(EncodedRows):
    """The rows of a split: windows of its sentences, with the labels of each.

    Args:
        pieces: int32 [E, pieces], of the words of each window.
        counts: int64 [E, words], pieces of each word.
        entities: int64 [E, entities, 3]: first word, last word, both counted in the window, and
            number of the label.
        asked: int64 [E, labels], what evaluation asks for.
        label_pieces: int32 [L, pieces].
        windows: where they were cut.
        markers: ids of <<ENT>> and <<SEP>>.
        vocabulary: of the tokenizer.
        max_seq_length: the most positions of a row.
        max_width: K.
        max_types: the most labels of a row in training.
        label_dropout: see `drawn_labels`.

    Attributes:
        windows: see above.
        asked: see above.
        names: of the labels, by their numbers.
    """

    names: tuple[str, ...] = ()

    def __init__(
        self,
        pieces: tf.RaggedTensor,
        counts: tf.RaggedTensor,
        entities: Sequence[Sequence[tuple[int, int, int]]],
        asked: tf.RaggedTensor,
        label_pieces: tf.RaggedTensor,
        windows: WordWindows,
        markers: Markers,
        vocabulary: Vocabulary,
        max_seq_length: int,
        max_width: int,
        max_types: int,
        label_dropout: float,
    ):
        self._pieces, self._counts = pieces, counts
        flat = np.array([e for of_row in entities for e in of_row], np.int64).reshape([-1, 3])
        sizes = [len(of_row) for of_row in entities]
        self._entities = tf.RaggedTensor.from_row_lengths(tf.constant(flat), sizes)
        own = [sorted({label for *_, label in of_row}) for of_row in entities]
        self._own = tf.RaggedTensor.from_row_lengths(
            tf.constant([label for labels in own for label in labels], tf.int64),
            [len(labels) for labels in own],
        )
        self.asked = asked
        self._label_pieces = label_pieces
        self._labels = int(label_pieces.nrows())
        self.windows = windows
        self._markers = markers
        self._vocabulary = vocabulary
        self._max_width, self._max_types = max_width, max_types
        self._label_dropout = label_dropout
        self._sizes = counts.row_lengths()  # [E], words
        # As evaluation reads them: what rows are sorted by, and counted.
        prompts = make_prompts(label_pieces, asked.to_tensor(-1), markers)
        ids, _ = join_rows(prompts, pieces, counts, vocabulary)
        super().__init__(ids, tf.zeros_like(ids), vocabulary.pad_id, max_seq_length)
        # Made once, and not for each evaluation.
        self._evaluation = tf.function(self._asked_examples, autograph=False)

    def examples(self, rows: tf.Tensor, whole: tf.Tensor) -> tuple[dict[str, tf.Tensor], Any]:
        """Returns inputs and targets of some rows, with the labels that evaluation asks for.

        Args:
            rows: int64 [B], their numbers.
            whole: those of the whole batch, the parts of which are padded to the same shape.
        """
        return self._evaluation(rows, whole)

    def _asked_examples(
        self, rows: tf.Tensor, whole: tf.Tensor
    ) -> tuple[dict[str, tf.Tensor], Any]:
        types = tf.reduce_max(tf.gather(self.asked.row_lengths(), whole))

        def index(of: tf.Tensor) -> tf.Tensor:
            shape = tf.stack([tf.constant(-1, tf.int64), types])
            return tf.gather(self.asked, of).to_tensor(-1, shape=shape)

        return self._examples(rows, whole, index(rows), index(whole))

    def training_examples(
        self, rows: tf.Tensor, whole: tf.Tensor, epoch: tf.Tensor
    ) -> tuple[dict[str, tf.Tensor], Any]:
        """Returns inputs and targets of some rows, with labels that are drawn.

        Args:
            rows: int64 [B], their numbers.
            whole: those of the whole batch.
            epoch: int64 [2], the seed of the run and the number of the epoch.
        """

        def index(of: tf.Tensor) -> tf.Tensor:
            of = tf.cast(of, tf.int64)[:, None]
            counters = tf.concat([tf.broadcast_to(epoch, [tf.size(of), 2]), of], axis=1)
            own = tf.gather(self._own, of[:, 0])
            return drawn_labels(
                own, self._labels, self._max_types, self._label_dropout, seeds_of(counters)
            )

        return self._examples(rows, whole, index(rows), index(whole))

    def _examples(
        self, rows: tf.Tensor, whole: tf.Tensor, index: tf.Tensor, index_of_whole: tf.Tensor
    ) -> tuple[dict[str, tf.Tensor], Any]:
        prompts = make_prompts(self._label_pieces, index, self._markers)
        pieces, counts = tf.gather(self._pieces, rows), tf.gather(self._counts, rows)
        ids, positions = join_rows(prompts, pieces, counts, self._vocabulary)
        # Shapes of the whole batch.
        of_whole = make_prompts(self._label_pieces, index_of_whole, self._markers).ids
        lengths = of_whole.row_lengths() + tf.gather(self._pieces.row_lengths(), whole)
        length = self.padded_length(tf.reduce_max(lengths) + SPECIAL_TOKENS)
        words = tf.reduce_max(tf.gather(self._sizes, whole))
        words = -(-words // _WORD_MULTIPLE) * _WORD_MULTIPLE
        if self._lengths is not None:  # on a TPU
            words = tf.reduce_max(self._sizes)
        inputs = row_inputs(
            ids, positions, prompts.label_positions, self._vocabulary.pad_id, length, words
        )
        targets = span_targets(
            tf.gather(self._entities, rows),
            tf.cast(index, tf.int64),
            tf.gather(self._sizes, rows),
            words,
            self._labels,
            self._max_width,
        )
        return inputs, targets
