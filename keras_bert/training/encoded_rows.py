"""Model inputs made once and kept ragged, and batches of them that waste little on padding.

Shapes: E examples, R rows of the model's input in each of them (choices; 1 for all other heads),
B batch, S positions.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.features import INPUT_IDS, INPUT_MASK, SEGMENT_IDS

# Rows are sorted by length within windows of so many batches: long enough that neighbours are of
# like length, short enough that the order of an epoch stays random.
_BATCHES_PER_WINDOW = 50
# Few distinct lengths mean few traces and matrix sizes that kernels like.
_LENGTH_MULTIPLE = 8
# Targets of padded positions and padded choices: no class, no loss.
NO_TARGET = -1

Targets = tf.Tensor | tf.RaggedTensor | Mapping[str, tf.Tensor | tf.RaggedTensor]


class EncodedRows:
    """The inputs and targets of E examples.

    Args:
        ids: int32 [E, pieces], or [E, choices, pieces] for multiple choice. Whole rows, special
            tokens included.
        segment_ids: of the same shape.
        pad_id: the id of [PAD].
        max_seq_length: the most positions of a row.
        targets: what the loss compares with, [E, ...], one tensor or several by the names of the
            model's outputs; ragged ones are padded with `NO_TARGET`. None where nothing is learned.
        lengths: the few lengths to pad to, ascending, the last at least that of the longest row;
            None pads to the longest row of a batch. Compiled steps want few.

    Attributes:
        row_lengths: int64 [E], pieces of the longest row of each example.
        choices: int64 [E], rows of each example; None where every example has one.
    """

    def __init__(
        self,
        ids: tf.RaggedTensor,
        segment_ids: tf.RaggedTensor,
        pad_id: int,
        max_seq_length: int,
        targets: Targets | None = None,
        lengths: Sequence[int] | None = None,
    ):
        self._ids = ids
        self._segment_ids = segment_ids
        self._pad_id = pad_id
        self._max_seq_length = max_seq_length
        self._targets = targets
        self._lengths = lengths
        pieces = ids.row_lengths(axis=ids.shape.rank - 1)
        if ids.shape.rank == 3:
            pieces = tf.reduce_max(pieces, axis=-1)
        self.choices = ids.row_lengths().numpy() if ids.shape.rank == 3 else None
        self.row_lengths = pieces.numpy()
        self.real_tokens = int(tf.size(ids.flat_values))

    def __len__(self) -> int:
        return len(self.row_lengths)

    def fixed_lengths(self, lengths: Sequence[int]) -> None:
        """Pads to one of a few lengths from now on; see `lengths` above."""
        self._lengths = tuple(lengths)

    def training_batches(
        self,
        batch_size: int,
        seed: int,
        weights: np.ndarray | None = None,
        full_batches: bool = False,
    ) -> tf.data.Dataset:
        """Returns one epoch of (inputs, targets[, weights]), each time in another order.

        Args:
            batch_size: B; the last batch may be smaller.
            seed: of the orders.
            weights: float32 [E], how much each example counts; None leaves them out.
            full_batches: fill the last batch with examples of weight 0, because replicas want
                equal shares; then there are always weights.
        """
        lengths = tf.constant(self.row_lengths)
        if full_batches and weights is None:
            weights = np.ones(len(self), np.float32)

        def windows_to_batches(window: tf.Tensor) -> tf.data.Dataset:
            by_length = tf.gather(window, tf.argsort(tf.gather(lengths, window)))
            return tf.data.Dataset.from_tensor_slices(by_length).batch(batch_size)

        batches = (
            tf.data.Dataset.range(len(self))
            .shuffle(len(self), seed=seed)
            .batch(batch_size * _BATCHES_PER_WINDOW)
            .flat_map(windows_to_batches)
            .shuffle(_BATCHES_PER_WINDOW, seed=seed + 1)
            .apply(tf.data.experimental.assert_cardinality(-(-len(self) // batch_size)))
        )

        def examples(rows: tf.Tensor) -> tuple[Any, ...]:
            missing = batch_size - tf.shape(rows)[0] if full_batches else 0
            filled = tf.pad(rows, [[0, missing]]) if full_batches else rows
            batch = self._inputs(filled), self._gathered_targets(filled)
            if weights is None:
                return batch
            return *batch, tf.pad(tf.gather(weights, rows), [[0, missing]])

        return _prefetched(batches, examples)

    def inference_batches(self, batch_size: int) -> tuple[tf.data.Dataset, np.ndarray]:
        """Returns (inputs, targets) by length, and the place of each example among them, [E].

        `outputs[places]` puts the model's outputs into the order of the examples. Targets are None
        where there are none.
        """
        order = np.argsort(self.row_lengths, kind="stable")
        batches = tf.data.Dataset.from_tensor_slices(order).batch(batch_size)

        def examples(rows: tf.Tensor) -> tuple[Any, Any]:
            return self._inputs(rows), self._gathered_targets(rows)

        return _prefetched(batches, examples), np.argsort(order)

    def _inputs(self, rows: tf.Tensor) -> dict[str, tf.Tensor]:
        ids = tf.gather(self._ids, rows)
        segments = tf.gather(self._segment_ids, rows)
        shape = [None] * (ids.shape.rank - 1)
        shape = [*shape, self._padded_length(tf.reduce_max(tf.gather(self.row_lengths, rows)))]
        return {
            INPUT_IDS: _dense(ids, self._pad_id, shape),
            INPUT_MASK: _dense(tf.ones_like(ids), 0, shape),
            SEGMENT_IDS: _dense(segments, 0, shape),
        }

    def _padded_length(self, longest: tf.Tensor) -> tf.Tensor:
        if self._lengths is None:
            length = -(-longest // _LENGTH_MULTIPLE) * _LENGTH_MULTIPLE
            return tf.minimum(length, self._max_seq_length)
        lengths = tf.constant(self._lengths, tf.int64)
        return tf.reduce_min(tf.boolean_mask(lengths, lengths >= longest))

    def _gathered_targets(self, rows: tf.Tensor) -> Any:
        longest = tf.reduce_max(tf.gather(self.row_lengths, rows))

        def gathered(target: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
            part = tf.gather(target, rows)
            if not isinstance(part, tf.RaggedTensor):
                return part
            if self._ids.shape.rank == 3:  # one for each choice
                return part.to_tensor(NO_TARGET)
            return _dense(part, NO_TARGET, [None, self._padded_length(longest)])

        if self._targets is None:
            return None
        if isinstance(self._targets, Mapping):
            return {name: gathered(target) for name, target in self._targets.items()}
        return gathered(self._targets)


def _dense(rows: tf.RaggedTensor, padding: int, shape: list[Any]) -> tf.Tensor:
    return rows.to_tensor(padding, shape=tf.stack([-1 if n is None else n for n in shape]))


def _prefetched(batches: tf.data.Dataset, make: Callable[[tf.Tensor], Any]) -> tf.data.Dataset:
    return batches.map(make, num_parallel_calls=2, deterministic=True).prefetch(tf.data.AUTOTUNE)
