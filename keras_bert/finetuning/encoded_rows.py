"""Model inputs made once and kept ragged, and batches of them that waste little on padding.

Shapes: E examples, R rows of the model's input in each of them (choices, or windows of a long text;
1 for all other heads), B batch, S positions.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from keras_bert.data.prefetching import prefetched
from keras_bert.features import INPUT_IDS, INPUT_MASK, SEGMENT_IDS

# Rows are sorted by length within windows of so many batches: long enough that neighbours are of
# like length, short enough that the order of an epoch stays random.
_BATCHES_PER_WINDOW = 50
# Few distinct lengths: oneDNN compiles a product for each, and kernels like round sizes.
_LENGTH_MULTIPLE = 8
# Texts of a call of the tokenizer: few calls, and little in memory at a time.
_TEXTS_PER_CALL = 512
# Targets of padded positions and padded choices: no class, no loss.
NO_TARGET = -1
# The same for logits of a teacher: no probability.
NO_LOGIT = -1e9

Targets: TypeAlias = tf.Tensor | tf.RaggedTensor | Mapping[str, Any]


class EncodedRows:
    """The inputs and targets of E examples.

    Args:
        ids: int32 [E, pieces], or [E, R, pieces] for several rows of an example. Whole rows,
            special tokens included.
        segment_ids: of the same shape.
        pad_id: the id of [PAD].
        max_seq_length: the most positions of a row.
        targets: what the loss compares with, [E, ...], one tensor or several by the names of the
            model's outputs, which may be dictionaries themselves; ragged ones are padded with
            `NO_TARGET`, or `NO_LOGIT` where they are float. None where nothing is learned.
        lengths: the few lengths to pad to, ascending, the last at least that of the longest row;
            None pads to the longest row of a batch. Compiled steps want few.
        joint: whether the model gives one answer for all rows of an example (windows of a text);
            else it gives one for each (choices).

    Attributes:
        row_lengths: int64 [E], pieces of the longest row of each example.
        choices: int64 [E], rows of each example; None where every example has one.
        positions: int64, which pieces of all rows one behind the other carry a target, where only
            some do; else None.
        targets: see above.
        joint: see above.
        remark: what a user should know of how the rows were made, for the line that announces a
            run; empty for nothing.
    """

    positions: np.ndarray | None = None
    remark: str = ""

    def __init__(
        self,
        ids: tf.RaggedTensor,
        segment_ids: tf.RaggedTensor,
        pad_id: int,
        max_seq_length: int,
        targets: Targets | None = None,
        lengths: Sequence[int] | None = None,
        joint: bool = False,
    ):
        self._ids = ids
        self._segment_ids = segment_ids
        self._pad_id = pad_id
        self._max_seq_length = max_seq_length
        self.targets = targets
        self._lengths = lengths
        self.joint = joint
        # [E, pieces], or [E, R, pieces]: rows of one example count as long as the longest.
        pieces = ids.row_lengths(axis=ids.shape.rank - 1)
        self._every_length = pieces  # [E]
        if ids.shape.rank == 3:
            self._every_length = pieces.flat_values  # [rows of all examples]
            pieces = tf.reduce_max(pieces, axis=-1)
        self.choices = ids.row_lengths().numpy() if ids.shape.rank == 3 else None
        self.row_lengths = pieces.numpy()
        # What examples are sorted by, [E]: padding of windows costs more than that of positions.
        self.sort_lengths = self.row_lengths
        if joint and self.choices is not None:
            self.sort_lengths = self.choices * (max_seq_length + 1) + self.row_lengths
        self.real_tokens = int(tf.size(ids.flat_values))

    def __len__(self) -> int:
        return len(self.row_lengths)

    @classmethod
    def joined(cls, parts: "Sequence[EncodedRows]", targets: Targets) -> "EncodedRows":
        """Returns the rows of several parts one behind the other, with other targets.

        Their remarks stand one behind the other, too.
        """
        first = parts[0]
        rows = EncodedRows(
            tf.concat([part._ids for part in parts], axis=0),
            tf.concat([part._segment_ids for part in parts], axis=0),
            first._pad_id,
            first._max_seq_length,
            targets,
            first._lengths,
            first.joint,
        )
        rows.remark = "; ".join(part.remark for part in parts if part.remark)
        return rows

    def some(self, count: int) -> "EncodedRows":
        """Returns the rows of `count` examples, evenly spread over all of them, without targets."""
        chosen = np.unique(np.linspace(0, len(self) - 1, count).astype(np.int64))
        return EncodedRows(
            tf.gather(self._ids, chosen),
            tf.gather(self._segment_ids, chosen),
            self._pad_id,
            self._max_seq_length,
            lengths=self._lengths,
            joint=self.joint,
        )

    def full_rows(self) -> float:
        """Returns the fraction of rows that fill all positions: of texts, windows or choices."""
        return float(np.mean(self._every_length.numpy() == self._max_seq_length))

    def fixed_lengths(self, lengths: Sequence[int]) -> None:
        """Pads to one of a few lengths from now on; see `lengths` above."""
        self._lengths = tuple(lengths)

    def training_batches(
        self,
        batch_size: int,
        seed: int,
        weights: np.ndarray | None = None,
        parts: int = 1,
        full_batches: bool = False,
    ) -> "TrainingBatches":
        """Returns the batches of all epochs.

        Args:
            batch_size: B; the last batch may be smaller.
            seed: seed of the orders.
            weights: float32 [E], how much each example counts; None counts all alike.
            parts: into how many equal parts every batch can be cut, for replicas and micro-batches;
                where there are several, examples of weight 0 fill what is missing.
            full_batches: fill the last batch also where there is one part.
        """
        if weights is None:
            weights = np.ones(len(self), np.float32)
        return TrainingBatches(self, batch_size, seed, weights, parts, full_batches)

    def inference_batches(self, batch_size: int) -> tuple[tf.data.Dataset, np.ndarray]:
        """Returns (inputs, targets) by length, and the position of each example among them, [E].

        `outputs[positions]` puts the model's outputs into the order of the examples. Targets are
        None where there are none.
        """
        # Lengths 9 3 5: order 1 2 0, positions 2 0 1.
        order = np.argsort(self.sort_lengths, kind="stable")
        batches = tf.data.Dataset.from_tensor_slices(order).batch(batch_size)

        def examples(rows: tf.Tensor) -> tuple[Any, Any]:
            return self.examples(rows, rows)

        return prefetched(batches, examples), np.argsort(order)

    def examples(self, rows: tf.Tensor, whole: tf.Tensor) -> tuple[dict[str, tf.Tensor], Any]:
        """Returns the inputs and targets of some examples; targets may be None.

        Args:
            rows: int64 [B], their numbers.
            whole: those of the whole batch, the parts of which are padded to the same shape.
        """
        ids = tf.gather(self._ids, rows)  # [B, pieces], or [B, R, pieces]
        segments = tf.gather(self._segment_ids, rows)
        length = self.padded_length(tf.reduce_max(tf.gather(self.row_lengths, whole)))
        shape = [None, length]  # [B, S], or [B, R, S]
        if self.choices is not None:
            count = tf.reduce_max(tf.gather(self.choices, whole))
            if self._lengths is not None:
                # Few numbers of rows, too: powers of two up to the most of any example.
                powers = [1 << n for n in range(int(self.choices.max()).bit_length())]
                counts = tf.constant([*powers, self.choices.max()], tf.int64)
                count = tf.reduce_min(tf.boolean_mask(counts, counts >= count))
            shape.insert(1, count)
        inputs = {
            INPUT_IDS: _dense(ids, self._pad_id, shape),
            INPUT_MASK: _dense(tf.ones_like(ids), 0, shape),
            SEGMENT_IDS: _dense(segments, 0, shape),
        }
        return inputs, self._gathered_targets(rows, shape)

    def training_examples(
        self, rows: tf.Tensor, whole: tf.Tensor, epoch: tf.Tensor
    ) -> tuple[dict[str, tf.Tensor], Any]:
        """Returns `examples` as an epoch learns from them: here always the same.

        Args:
            rows: int64 [B], their numbers.
            whole: those of the whole batch.
            epoch: int64 [2], the seed of the run and the number of the epoch, for rows of which
                every epoch sees something else.
        """
        return self.examples(rows, whole)

    def padded_length(self, longest: tf.Tensor) -> tf.Tensor:
        """Returns to how many positions, int64, a batch is padded.

        That is a multiple of eight, or the least of the fixed lengths that fits.

        Args:
            longest: int64 scalar, pieces of its longest row.
        """
        if self._lengths is None:
            length = -(-longest // _LENGTH_MULTIPLE) * _LENGTH_MULTIPLE
            return tf.minimum(length, self._max_seq_length)
        lengths = tf.constant(self._lengths, tf.int64)
        return tf.reduce_min(tf.boolean_mask(lengths, lengths >= longest))

    def _gathered_targets(self, rows: tf.Tensor, shape: list[Any]) -> Any:
        def gathered(target: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
            part = tf.gather(target, rows)
            if not isinstance(part, tf.RaggedTensor):
                return part  # [B], a class or a number
            # One for each choice, or each piece; logits of classes have an axis more.
            padding = NO_LOGIT if part.dtype.is_floating else NO_TARGET
            return _dense(part, padding, [*shape[:2], *part.shape[2:]])

        if self.targets is None:
            return None
        # A ragged tensor is one target, not its parts.
        return tf.nest.map_structure(gathered, self.targets)


class TrainingBatches:
    """The batches of every epoch; each epoch has an order of its own, by its number and the seed.

    A run that goes on in the middle of an epoch reads what it would have read, on any number of
    replicas. See `EncodedRows.training_batches` for the arguments.
    """

    def __init__(
        self,
        encoded: EncodedRows,
        batch_size: int,
        seed: int,
        weights: np.ndarray,
        parts: int,
        full_batches: bool,
    ):
        self._encoded = encoded
        self._batch_size = batch_size
        self._seed = seed
        self._weights = weights
        self._parts = parts
        self._full = full_batches or parts > 1

        def examples(
            rows: tf.Tensor,
            weights: tf.Tensor,
            whole: tf.Tensor,
            size: tf.Tensor,
            epoch: tf.Tensor,
        ) -> tuple[Any, ...]:
            # One replica's slots, of which the last ones may not be in use.
            return *encoded.training_examples(rows[:size], whole, epoch), weights[:size]

        self._examples = tf.function(examples)

    def __len__(self) -> int:
        """Returns the number of batches of an epoch."""
        return -(-len(self._encoded) // self._batch_size)

    def epoch(
        self,
        epoch: int,
        first_batch: int = 0,
        context: tf.distribute.InputContext | None = None,
    ) -> tf.data.Dataset:
        """Returns (inputs, targets, weights [B]) of an epoch from one of its batches on.

        Args:
            epoch: its number, from 0.
            first_batch: where it begins.
            context: the input pipeline whose replicas read it, one after the other; None for one
                replica that reads all.
        """
        # Every pipeline makes the order of all and reads the rows of its own replicas.
        rows, weights, sizes = self._arrays(epoch)
        replicas = context.num_replicas_in_sync if context else 1
        pipelines = context.num_input_pipelines if context else 1
        here = replicas // pipelines
        first = here * (context.input_pipeline_id if context else 0)

        def of_replicas(values: np.ndarray) -> np.ndarray:
            """[batches, slots] to [batches * replicas here, slots of a replica]."""
            values = values[first_batch:].reshape(-1, replicas, values.shape[1] // replicas)
            return values[:, first : first + here].reshape(-1, values.shape[-1])

        batches = tf.data.Dataset.from_tensor_slices(
            (
                of_replicas(rows),
                of_replicas(weights),
                np.repeat(rows[first_batch:], here, axis=0),
                np.repeat(sizes[first_batch:] // replicas, here),
                np.tile(np.array([self._seed, epoch]), [here * len(sizes[first_batch:]), 1]),
            )
        )
        return prefetched(batches, self._examples)

    def passes(self) -> tf.data.Dataset:
        """Returns the (inputs, targets) of an epoch; each pass over them is the next epoch."""
        epochs = itertools.count()

        def slots() -> Iterator[tuple[Any, ...]]:
            epoch = np.array([self._seed, next(epochs)])
            for rows, weights, size in zip(*self._arrays(int(epoch[1])), strict=True):
                yield rows, weights, rows, size, epoch

        numbers = tf.TensorSpec([None], tf.int64)
        signature = (
            numbers,
            tf.TensorSpec([None], tf.float32),
            numbers,
            tf.TensorSpec([], tf.int64),
            tf.TensorSpec([2], tf.int64),
        )
        batches = tf.data.Dataset.from_generator(slots, output_signature=signature)
        batches = batches.apply(tf.data.experimental.assert_cardinality(len(self)))
        return prefetched(batches, lambda *batch: self._examples(*batch)[:2])

    def _arrays(self, epoch: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns rows and weights, [batches, slots], and how many slots are in use, [batches]."""
        # Shuffled, then by length inside a window of some batches: like lengths side by side waste
        # little padding, and the batches are shuffled once more.
        lengths = self._encoded.sort_lengths
        random = np.random.default_rng((self._seed, epoch))
        order = random.permutation(len(self._encoded))
        batches: list[np.ndarray] = []
        window = self._batch_size * _BATCHES_PER_WINDOW
        for part in _cut(order, window):
            batches += _cut(part[np.argsort(lengths[part], kind="stable")], self._batch_size)
        slots = -(-self._batch_size // self._parts) * self._parts  # 10 in 4 parts: 12
        rows = np.zeros([len(batches), slots], np.int64)
        weights = np.zeros([len(batches), slots], np.float32)
        sizes = np.zeros(len(batches), np.int64)
        for index, position in enumerate(random.permutation(len(batches))):
            batch = batches[position]
            rows[index] = batch[0]  # what fills a batch is no longer than its longest example
            rows[index, : len(batch)] = batch
            weights[index, : len(batch)] = self._weights[batch]
            sizes[index] = slots if self._full else len(batch)
        return rows, weights, sizes


def pack_texts(
    preprocessor: Callable[[Any], Mapping[str, tf.Tensor]],
    texts: Sequence[str],
    text_pairs: Sequence[str] | None,
    done: Callable[[int], None],
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Tokenizes and packs texts or pairs of texts.

    Args:
        preprocessor: makes the inputs of a model of texts, as `BertPreprocessor` does; pads to the
            longest row of a call.
        texts: N (first) texts, at least one.
        text_pairs: N second texts, or None.
        done: is told of each part how many texts it had.

    Returns:
        Ids and segments of whole rows, int32 [N, pieces] each.
    """
    ids, segments = [], []
    for start in range(0, len(texts), _TEXTS_PER_CALL):
        part = slice(start, start + _TEXTS_PER_CALL)
        first = list(texts[part])
        batch = preprocessor(first if text_pairs is None else (first, list(text_pairs[part])))
        # [texts, S] -> [texts, pieces]: padding is added again, batch by batch.
        lengths = tf.reduce_sum(batch[INPUT_MASK], axis=-1)
        ids.append(tf.RaggedTensor.from_tensor(batch[INPUT_IDS], lengths))
        segments.append(tf.RaggedTensor.from_tensor(batch[SEGMENT_IDS], lengths))
        done(len(first))
    return tf.concat(ids, axis=0), tf.concat(segments, axis=0)


def _cut(values: np.ndarray, size: int) -> list[np.ndarray]:
    return [values[start : start + size] for start in range(0, len(values), size)]


def _dense(rows: tf.RaggedTensor, padding: float, shape: list[Any]) -> tf.Tensor:
    return rows.to_tensor(padding, shape=tf.stack([-1 if n is None else n for n in shape]))
