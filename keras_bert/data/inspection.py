"""What a folder of records holds, for a person to read."""

import math
from collections.abc import Iterator

import numpy as np

from keras_bert.data.pretraining_pipeline import PretrainingData, evaluation_batches
from keras_bert.features import (
    EXAMPLE_WEIGHTS,
    INPUT_IDS,
    INPUT_MASK,
    MASKED_LM_IDS,
    MASKED_LM_POSITIONS,
    MASKED_LM_WEIGHTS,
    NEXT_SENTENCE_LABELS,
)
from keras_bert.text.masking import MaskedLanguageModelMasking
from keras_bert.text.vocabulary import Vocabulary

_PERCENTILES = (1, 10, 50, 90, 99)
_MASKED_SHARE = 0.15


def describe(data: PretrainingData, vocabulary: Vocabulary, sample: int) -> Iterator[str]:
    """Yields lines of counts, label balance, lengths and [UNK] rate.

    Args:
        data: the records.
        vocabulary: the one they were made with.
        sample: how many examples the lengths and the [UNK] rate are measured on.
    """
    manifest = data.manifest
    positive = manifest.positive_labels / max(manifest.examples, 1)
    yield f"examples        {manifest.examples:,} in {len(manifest.shards)} shards"
    yield f"documents       {manifest.documents:,}"
    yield f"pieces          {manifest.tokens:,}"
    yield f"fill rate       {100 * manifest.fill_rate:.1f} % of {manifest.max_seq_length}"
    yield f"random next     {100 * positive:.1f} %"
    lengths, unknown = _measure(data, vocabulary, sample)
    points = np.percentile(lengths, _PERCENTILES).astype(int)
    shown = "  ".join(f"{p} %: {n}" for p, n in zip(_PERCENTILES, points, strict=True))
    yield f"lengths         {shown}"
    yield f"[UNK]           {100 * unknown:.3f} % of the pieces of {len(lengths):,} examples"
    yield f"vocabulary      {len(vocabulary):,} entries, sha256 {vocabulary.sha256}"


def show_examples(data: PretrainingData, vocabulary: Vocabulary, count: int) -> Iterator[str]:
    """Yields decoded examples; a hidden piece is shown as {what stands there|what it was}."""
    batch = next(iter(_batches(data, vocabulary, max(count, 1)))) if count else {}
    for row in range(min(count, data.num_examples)):
        example = {name: value[row].numpy() for name, value in batch.items()}
        yield _decode(example, vocabulary)


def _batches(data: PretrainingData, vocabulary: Vocabulary, batch_size: int) -> object:
    predictions = math.ceil(_MASKED_SHARE * data.max_seq_length)
    masking = MaskedLanguageModelMasking(vocabulary, predictions)
    return evaluation_batches(data, masking, batch_size, seed=0)


def _measure(
    data: PretrainingData, vocabulary: Vocabulary, sample: int
) -> tuple[np.ndarray, float]:
    lengths, unknown = [], 0
    for batch in _batches(data, vocabulary, 500):
        mask, weights = batch[INPUT_MASK].numpy(), batch[EXAMPLE_WEIGHTS].numpy() > 0
        lengths.extend(mask.sum(axis=1)[weights])
        unknown += ((batch[INPUT_IDS].numpy() == vocabulary.unk_id) & (mask > 0)).sum()
        if len(lengths) >= sample:
            break
    return np.array(lengths), unknown / max(sum(lengths), 1)


def _decode(example: dict[str, np.ndarray], vocabulary: Vocabulary) -> str:
    tokens = [vocabulary.tokens[i] for i in example[INPUT_IDS][: example[INPUT_MASK].sum()]]
    used = example[MASKED_LM_WEIGHTS] > 0
    positions, ids = example[MASKED_LM_POSITIONS][used], example[MASKED_LM_IDS][used]
    for position, original in zip(positions, ids, strict=True):
        tokens[position] = f"{{{tokens[position]}|{vocabulary.tokens[original]}}}"
    label = "random next" if example[NEXT_SENTENCE_LABELS] else "is next"
    return f"{' '.join(tokens).replace(' ##', '')}\n  ({label}, {len(tokens)} pieces)"
