"""Texts tokenized once, and batches of them that waste little on padding.

Shapes: N texts, B batch, S positions of the longest text of the batch.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.features import INPUT_IDS, INPUT_MASK, SEGMENT_IDS
from keras_bert.progress import Progress
from keras_bert.text.preprocessor import BertPreprocessor

_TEXTS_PER_CALL = 512
# Texts are sorted by length within windows of so many batches: long enough that neighbours are
# of like length, short enough that the order of an epoch stays random.
_BATCHES_PER_WINDOW = 50
# Few distinct lengths mean few traces and matrix sizes that kernels like.
_LENGTH_MULTIPLE = 8


class EncodedTexts:
    """The model inputs of N texts, kept as ragged ids.

    Args:
        preprocessor: makes the inputs; its `max_seq_length` is the longest row.
        texts: N texts.
        text_pairs: N second texts, or None.
        description: what the progress line says.
    """

    def __init__(
        self,
        preprocessor: BertPreprocessor,
        texts: Sequence[str],
        text_pairs: Sequence[str] | None = None,
        description: str = "tokenizing",
    ):
        self._pad_id = preprocessor.tokenizer.vocabulary.pad_id
        self._max_seq_length = preprocessor.max_seq_length
        rows, segments = [], []
        with Progress(len(texts), "text", description) as progress:
            for start in range(0, len(texts), _TEXTS_PER_CALL):
                part = slice(start, start + _TEXTS_PER_CALL)
                pairs = None if text_pairs is None else list(text_pairs[part])
                batch = preprocessor(_preprocessor_inputs(list(texts[part]), pairs))
                lengths = tf.reduce_sum(batch[INPUT_MASK], axis=-1)
                rows.append(tf.RaggedTensor.from_tensor(batch[INPUT_IDS], lengths))
                segments.append(tf.RaggedTensor.from_tensor(batch[SEGMENT_IDS], lengths))
                progress.update(len(lengths))
        self._ids = tf.concat(rows, axis=0)
        self._segments = tf.concat(segments, axis=0)
        self.lengths = self._ids.row_lengths().numpy()

    def __len__(self) -> int:
        return len(self.lengths)

    def training_batches(self, labels: np.ndarray, batch_size: int, seed: int) -> tf.data.Dataset:
        """Returns one epoch of (inputs, labels [B]); each time it is read in another order.

        Args:
            labels: [N].
            batch_size: B; the last batch may be smaller.
            seed: of the orders.
        """
        labels, lengths = tf.constant(labels), tf.constant(self.lengths)

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
        return _prefetched(batches, lambda rows: (self._inputs(rows), tf.gather(labels, rows)))

    def inference_batches(self, batch_size: int) -> tuple[tf.data.Dataset, np.ndarray]:
        """Returns the inputs sorted by length, and the place of each text among them, [N].

        `outputs[places]` puts the model's outputs into the order of the texts.
        """
        order = np.argsort(self.lengths, kind="stable")
        batches = tf.data.Dataset.from_tensor_slices(order).batch(batch_size)
        return _prefetched(batches, self._inputs), np.argsort(order)

    def _inputs(self, rows: tf.Tensor) -> dict[str, tf.Tensor]:
        ids = tf.gather(self._ids, rows)
        segments = tf.gather(self._segments, rows)
        longest = tf.reduce_max(ids.row_lengths())
        length = -(-longest // _LENGTH_MULTIPLE) * _LENGTH_MULTIPLE
        shape = tf.stack([-1, tf.minimum(length, self._max_seq_length)])
        return {
            INPUT_IDS: ids.to_tensor(self._pad_id, shape=shape),
            INPUT_MASK: tf.ones_like(ids).to_tensor(0, shape=shape),
            SEGMENT_IDS: segments.to_tensor(0, shape=shape),
        }


def _preprocessor_inputs(
    texts: list[str], pairs: list[str] | None
) -> list[str] | tuple[list[str], list[str]]:
    return texts if pairs is None else (texts, pairs)


def _prefetched(batches: tf.data.Dataset, make: Callable[[tf.Tensor], Any]) -> tf.data.Dataset:
    return batches.map(make, num_parallel_calls=2, deterministic=True).prefetch(tf.data.AUTOTUNE)
