"""What a set of records holds, for a person to read."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from keras_bert.data.pretraining_data import PretrainingData
from keras_bert.data.pretraining_pipeline import stored_batches
from keras_bert.features import (
    INPUT_IDS,
    INPUT_MASK,
    MASKED_LM_IDS,
    MASKED_LM_POSITIONS,
    MASKED_LM_WEIGHTS,
    NEXT_SENTENCE_LABELS,
)
from keras_bert.text.vocabulary import Vocabulary

_PERCENTILES = (1, 10, 25, 50, 75, 90, 99)
_ROWS_PER_READ = 1024
_MEANINGS = {
    "nsp": ("b follows a", "b is from another document"),
    "sop": ("a and b in order", "a and b swapped"),
    "none": ("one segment",),
}


class RecordStatistics(NamedTuple):
    """Sums over all records.

    Attributes:
        lengths: int64 [N], pieces of each example.
        label_counts: examples of each label, int64 [2].
        unknown: pieces that are [UNK].
        predictions: masked positions.
    """

    lengths: np.ndarray
    label_counts: np.ndarray
    unknown: int
    predictions: int


def measure(data: PretrainingData, unk_id: int) -> RecordStatistics:
    """Reads all records and sums up.

    Args:
        data: the records.
        unk_id: id of [UNK].
    """
    lengths, labels, unknown, predictions = [], [], 0, 0
    for batch in stored_batches(data, _ROWS_PER_READ).as_numpy_iterator():
        mask = batch[INPUT_MASK]
        lengths.append(mask.sum(axis=1))
        labels.append(batch[NEXT_SENTENCE_LABELS])
        unknown += int(((batch[INPUT_IDS] == unk_id) & (mask > 0)).sum())
        predictions += int(batch.get(MASKED_LM_WEIGHTS, np.zeros(1)).sum())
    label_counts = np.bincount(np.concatenate(labels), minlength=2)
    return RecordStatistics(np.concatenate(lengths), label_counts, unknown, predictions)


def describe(data: PretrainingData, statistics: RecordStatistics) -> Iterator[str]:
    """Yields lines of counts, fill rate, label balance and lengths.

    Args:
        data: the records.
        statistics: what `measure` found in them.
    """
    examples, pieces = len(statistics.lengths), int(statistics.lengths.sum())
    yield f"examples      {examples:,} in {len(data.paths)} file(s)"
    yield f"pieces        {pieces:,}, {_share(statistics.unknown, pieces)} of them [UNK]"
    yield f"fill rate     {_share(pieces, examples * data.max_seq_length)} of {data.max_seq_length}"
    for label, meaning in enumerate(_MEANINGS[data.sentence_task]):
        count = int(statistics.label_counts[label])
        yield f"label {label}       {count:,} ({_share(count, examples)}): {meaning}"
    points = np.percentile(statistics.lengths, _PERCENTILES).astype(int)
    shown = ", ".join(f"{p} %: {n}" for p, n in zip(_PERCENTILES, points, strict=True))
    yield f"lengths       {shown}"
    if data.max_predictions_per_seq is None:
        yield "masks         none stored; they are drawn when the records are read"
    else:
        yield f"masks         {_share(statistics.predictions, pieces)} of the pieces, stored"
    if data.manifest:
        yield (
            f"corpus        {data.manifest.documents:,} documents, {data.manifest.sentences:,} "
            f"sentences, {data.manifest.corpus_tokens:,} pieces"
        )
        yield f"vocabulary    sha256 {data.manifest.vocabulary_sha256}"


def decoded_examples(data: PretrainingData, vocabulary: Vocabulary, count: int) -> Iterator[str]:
    """Yields examples as text; a hidden piece is shown as {what stands there|what it was}.

    Args:
        data: the records.
        vocabulary: the one they were made with.
        count: how many.
    """
    for batch in stored_batches(data, 1, vocabulary.pad_id).take(count).as_numpy_iterator():
        yield _decode({name: value[0] for name, value in batch.items()}, vocabulary, data)


def _decode(example: dict[str, np.ndarray], vocabulary: Vocabulary, data: PretrainingData) -> str:
    ids = example[INPUT_IDS][: example[INPUT_MASK].sum()]
    if ids.max() >= len(vocabulary):
        raise ValueError(
            f"the records hold piece {ids.max()} but the vocabulary has {len(vocabulary)} entries: "
            "give the vocabulary that the records were made with"
        )
    tokens = [vocabulary.tokens[i] for i in ids]
    if MASKED_LM_IDS in example:
        used = example[MASKED_LM_WEIGHTS] > 0
        positions, originals = example[MASKED_LM_POSITIONS][used], example[MASKED_LM_IDS][used]
        for position, original in zip(positions, originals, strict=True):
            tokens[position] = f"{{{tokens[position]}|{vocabulary.tokens[original]}}}"
    label = int(example[NEXT_SENTENCE_LABELS])
    meaning = _MEANINGS[data.sentence_task][label]
    return f"{' '.join(tokens)}\n  ({len(tokens)} pieces, label {label}: {meaning})"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / max(whole, 1):.2f} %"
