"""Masks that are drawn once, when the records are made, in the schema of google-research/bert."""

import numpy as np

from keras_bert.data.records.encoding import encode_masked_examples
from keras_bert.data.records.examples import Examples
from keras_bert.features import INPUT_IDS, INPUT_MASK, NEXT_SENTENCE_LABELS, SEGMENT_IDS
from keras_bert.text.corpus_masking import CorpusMasking

# Bounds the memory of one call.
_PIECES_PER_CALL = 1 << 19


class StaticMasking:
    """Masks examples with the generators that pretraining uses, and encodes them.

    Args:
        masking: chooses pieces and hides them.
        max_seq_length: positions of a sequence, S.
        pad_id: what stands behind the end of a sequence.
    """

    def __init__(self, masking: CorpusMasking, max_seq_length: int, pad_id: int):
        self._mask = masking
        self._max_seq_length = max_seq_length
        self._pad_id = pad_id

    def encode(self, examples: Examples, counters: tuple[int, int, int]) -> list[bytes]:
        """Returns each example, masked, as a serialized tf.train.Example.

        Args:
            examples: the examples.
            counters: seed, chunk and copy; the masks of an example follow from them and its index.
        """
        encoded = []
        rows = max(1, _PIECES_PER_CALL // self._max_seq_length)
        for start in range(0, len(examples.next_sentence_labels), rows):
            indices = np.arange(start, min(start + rows, len(examples.next_sentence_labels)))
            # As a batch of the pipeline: [rows, S], padded.
            lengths = np.diff(examples.splits)[indices]
            mask = np.arange(self._max_seq_length) < lengths[:, None]
            flat = slice(examples.splits[indices[0]], examples.splits[indices[-1] + 1])
            ids = np.full(mask.shape, self._pad_id, np.int32)
            ids[mask] = examples.input_ids[flat]
            segments = np.zeros(mask.shape, np.int32)
            segments[mask] = examples.segment_ids[flat]
            batch = {
                INPUT_IDS: ids,
                INPUT_MASK: mask.astype(np.int32),
                SEGMENT_IDS: segments,
                NEXT_SENTENCE_LABELS: examples.next_sentence_labels[indices],
            }
            seeds = np.stack([*(np.full(len(indices), c) for c in counters), indices], axis=1)
            words = None
            if examples.word_continuations is not None:
                words = np.full(mask.shape, -1, np.int32)
                words[mask] = examples.word_continuations[flat]
            masked = self._mask(ids, batch[INPUT_MASK], seeds, words)
            encoded += encode_masked_examples(batch | masked)
        return encoded
