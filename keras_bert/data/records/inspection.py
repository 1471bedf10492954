"""What a set of records holds, for a person to read."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from keras_bert.data.records.pipeline import stored_batches
from keras_bert.data.records.record_set import PretrainingData
from keras_bert.features import (
    INPUT_IDS,
    INPUT_MASK,
    MASKED_LM_IDS,
    MASKED_LM_POSITIONS,
    MASKED_LM_WEIGHTS,
    NEXT_SENTENCE_LABELS,
    PACK_IDS,
    SEGMENT_IDS,
)
from keras_bert.text.vocabulary import Vocabulary

_PERCENTILES = (1, 10, 25, 50, 75, 90, 99)
_ROWS_PER_READ = 1024
_FREQUENT_PIECES = 15
# Codes of ANSI terminals: dim, bold red, green; segments (or documents) in turn plain and cyan.
_SPECIAL, _HIDDEN, _ORIGINAL, _GROUPS = "2", "1;31", "32", ("0", "36")
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
        piece_counts: int64 [V], how often each piece stands there.
        predictions: masked positions.
        documents: documents in all sequences of packed records; else 0.
    """

    lengths: np.ndarray
    label_counts: np.ndarray
    piece_counts: np.ndarray
    predictions: int
    documents: int


def measure(data: PretrainingData, vocabulary: Vocabulary) -> RecordStatistics:
    """Reads all records and sums up.

    Args:
        data: the records.
        vocabulary: the one they were made with.

    Raises:
        ValueError: the records hold pieces that the vocabulary has not.
    """
    lengths, labels, predictions, documents = [], [], 0, 0
    pieces = np.zeros(len(vocabulary), np.int64)
    for batch in stored_batches(data, _ROWS_PER_READ).as_numpy_iterator():
        mask = batch[INPUT_MASK]
        ids = batch[INPUT_IDS][mask > 0]
        _check_ids(ids, vocabulary)
        pieces += np.bincount(ids, minlength=len(vocabulary))
        lengths.append(mask.sum(axis=1))
        labels.append(batch[NEXT_SENTENCE_LABELS])
        predictions += int(batch.get(MASKED_LM_WEIGHTS, np.zeros(1)).sum())
        documents += int(batch.get(PACK_IDS, np.zeros((1, 1))).max(axis=1).sum())
    label_counts = np.bincount(np.concatenate(labels), minlength=2)
    return RecordStatistics(np.concatenate(lengths), label_counts, pieces, predictions, documents)


def describe(
    data: PretrainingData, statistics: RecordStatistics, vocabulary: Vocabulary
) -> Iterator[str]:
    """Yields lines of counts, fill rate, label balance, lengths, truncation and pieces.

    Args:
        data: the records.
        statistics: what `measure` found in them.
        vocabulary: the one they were made with.
    """
    examples, pieces = len(statistics.lengths), int(statistics.lengths.sum())
    unknown = int(statistics.piece_counts[vocabulary.unk_id])
    yield f"examples      {examples:,} in {len(data.paths)} file(s)"
    unk = vocabulary.special_tokens.unk
    yield f"pieces        {pieces:,}, {_percent(unknown, pieces)} of them {unk}"
    fill_rate = _percent(pieces, examples * data.max_seq_length)
    yield f"fill rate     {fill_rate} of {data.max_seq_length}"
    if data.packed:
        per_sequence = statistics.documents / examples
        yield f"documents     {statistics.documents:,}, {per_sequence:.1f} in a sequence"
    for label, meaning in enumerate(_MEANINGS[data.sentence_task]):
        count = int(statistics.label_counts[label])
        yield f"label {label}       {count:,} ({_percent(count, examples)}): {meaning}"
    points = np.percentile(statistics.lengths, _PERCENTILES).astype(int)
    shown = ", ".join(f"{p} %: {n}" for p, n in zip(_PERCENTILES, points, strict=True))
    full = int((statistics.lengths == data.max_seq_length).sum())
    yield f"lengths       {shown}; {_percent(full, examples)} are full"
    if data.manifest:
        # How much the sequences lost.
        manifest = data.manifest
        cut, lost = manifest.truncated_examples, manifest.truncated_tokens
        yield (
            f"truncation    {_percent(cut, manifest.examples)} of the examples "
            f"lost {_percent(lost, manifest.tokens + lost)} of all pieces"
        )
    if data.manifest and data.manifest.word_segmenter:
        yield f"words         those of {data.manifest.word_segmenter}, for whole word masking"
    if data.max_predictions_per_seq is None:
        yield "masks         none stored; they are drawn when the records are read"
    else:
        yield f"masks         {_percent(statistics.predictions, pieces)} of the pieces, stored"
    counts = statistics.piece_counts.copy()
    counts[list(vocabulary.special_ids)] = 0
    order = np.argsort(-counts, kind="stable")[:_FREQUENT_PIECES]
    total = int(counts.sum())
    frequent = (f"{vocabulary.tokens[i]} {_percent(counts[i], total)}" for i in order)
    yield f"most frequent {', '.join(frequent)}"
    if data.manifest:
        yield (
            f"corpus        {data.manifest.documents:,} documents, {data.manifest.sentences:,} "
            f"sentences, {data.manifest.corpus_tokens:,} pieces"
        )
    yield f"vocabulary    {len(vocabulary):,} entries, sha256 {vocabulary.sha256}"


def decoded_examples(
    data: PretrainingData, vocabulary: Vocabulary, count: int, colored: bool = False
) -> Iterator[str]:
    """Yields examples as text; a hidden piece is shown as {what stands there|what it was}.

    Args:
        data: the records.
        vocabulary: the one they were made with.
        count: how many.
        colored: whether segments, special tokens and hidden pieces have colours of a terminal.
    """

    def paint(text: str, color: str) -> str:
        return f"\x1b[{color}m{text}\x1b[0m" if colored else text

    for batch in stored_batches(data, 1, vocabulary.pad_id).take(count).as_numpy_iterator():
        example = {name: value[0] for name, value in batch.items()}
        ids = example[INPUT_IDS][: example[INPUT_MASK].sum()]
        _check_ids(ids, vocabulary)
        # Segments in turn, or the documents of a packed sequence.
        groups = example[PACK_IDS] - 1 if data.packed else example[SEGMENT_IDS]
        tokens = []
        for piece, group in zip(ids, groups[: len(ids)], strict=True):
            color = _SPECIAL if piece in vocabulary.special_ids else _GROUPS[group % len(_GROUPS)]
            tokens.append(paint(vocabulary.tokens[piece], color))
        if MASKED_LM_IDS in example:
            used = example[MASKED_LM_WEIGHTS] > 0
            positions, originals = example[MASKED_LM_POSITIONS][used], example[MASKED_LM_IDS][used]
            for position, original in zip(positions, originals, strict=True):
                stands, was = vocabulary.tokens[ids[position]], vocabulary.tokens[original]
                tokens[position] = f"{{{paint(stands, _HIDDEN)}|{paint(was, _ORIGINAL)}}}"
        if data.packed:
            meaning = f"{example[PACK_IDS].max()} document(s)"
        else:
            label = int(example[NEXT_SENTENCE_LABELS])
            meaning = f"label {label}: {_MEANINGS[data.sentence_task][label]}"
        yield f"{' '.join(tokens)}\n  ({len(tokens)} pieces, {meaning})"


def _check_ids(ids: np.ndarray, vocabulary: Vocabulary) -> None:
    if ids.size and ids.max() >= len(vocabulary):
        raise ValueError(
            f"the records hold piece {ids.max()} but the vocabulary has {len(vocabulary)} entries: "
            "give the vocabulary that the records were made with"
        )


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(whole, 1):.2f} %"
