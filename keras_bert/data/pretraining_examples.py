"""Sentence pairs for next sentence prediction, as google-research/bert makes them."""

import dataclasses
import random
from collections.abc import Iterator, Sequence

import numpy as np

# [CLS], [SEP] after the first segment and [SEP] after the second.
_SPECIAL_PIECES = 3


@dataclasses.dataclass(frozen=True)
class TokenizedDocument:
    """The pieces of a document and where its sentences end.

    Attributes:
        ids: ids of all pieces, int32 [pieces].
        ends: for each sentence the index after its last piece, ascending.
    """

    ids: np.ndarray
    ends: Sequence[int]


@dataclasses.dataclass(frozen=True)
class SentencePair:
    """Two segments of pieces; `is_random` when the second does not follow the first."""

    first: np.ndarray
    second: np.ndarray
    is_random: bool


def next_sentence_pairs(
    documents: Sequence[TokenizedDocument],
    max_seq_length: int,
    short_seq_prob: float,
    rng: random.Random,
) -> Iterator[SentencePair]:
    """Cuts documents into pairs of segments (create_pretraining_data.py, paper section A.2).

    Each document is walked once. Sentences are collected up to a target length (for a document in
    `1 / short_seq_prob` shorter than the maximum, so that short texts are not new to a fine-tuned
    model), cut at a random sentence into two segments, and in half of the cases the second is
    replaced by text from another document; the sentences it displaced are used again.

    Args:
        documents: at least two with a sentence each, from which "another document" is drawn.
        max_seq_length: pieces of a packed pair, special ones included.
        short_seq_prob: how often a document's target length is drawn from 2 up to the maximum.
        rng: the source of all randomness.

    Yields:
        Pairs of at most `max_seq_length - 3` pieces, each segment with at least one.
    """
    for index in range(len(documents)):
        yield from _pairs_of_document(documents, index, max_seq_length, short_seq_prob, rng)


def _pairs_of_document(
    documents: Sequence[TokenizedDocument],
    index: int,
    max_seq_length: int,
    short_seq_prob: float,
    rng: random.Random,
) -> Iterator[SentencePair]:
    max_pieces = max_seq_length - _SPECIAL_PIECES
    document = documents[index]
    starts = [0, *document.ends[:-1]]
    sentences = len(document.ends)
    target = _target_length(max_pieces, short_seq_prob, rng)
    first = sentence = 0  # the chunk is the sentences from `first` to `sentence`
    while sentence < sentences:
        is_last = sentence == sentences - 1
        if not is_last and document.ends[sentence] - starts[first] < target:
            sentence += 1
            continue
        chunk_size = sentence - first + 1
        cut = first + (rng.randint(1, chunk_size - 1) if chunk_size > 1 else 1)
        segment = document.ids[starts[first] : document.ends[cut - 1]]
        is_random = chunk_size == 1 or rng.random() < 0.5
        if is_random:
            other = documents[_other_index(index, len(documents), rng)]
            second = _random_segment(other, target - len(segment), rng)
            sentence = cut - 1  # what the second segment displaced is used again
        else:
            second = document.ids[document.ends[cut - 1] : document.ends[sentence]]
        yield SentencePair(*_truncate(segment, second, max_pieces, rng), is_random)
        sentence += 1
        first = sentence


def _target_length(max_pieces: int, short_seq_prob: float, rng: random.Random) -> int:
    return rng.randint(2, max_pieces) if rng.random() < short_seq_prob else max_pieces


def _other_index(index: int, count: int, rng: random.Random) -> int:
    other = rng.randrange(count - 1)
    return other + (other >= index)


def _random_segment(document: TokenizedDocument, length: int, rng: random.Random) -> np.ndarray:
    """Returns whole sentences from a random one on, until `length` pieces are reached."""
    sentence = rng.randrange(len(document.ends))
    start = document.ends[sentence - 1] if sentence else 0
    while document.ends[sentence] - start < length and sentence < len(document.ends) - 1:
        sentence += 1
    return document.ids[start : document.ends[sentence]]


def _truncate(
    first: np.ndarray, second: np.ndarray, max_pieces: int, rng: random.Random
) -> tuple[np.ndarray, np.ndarray]:
    """Takes pieces from the longer segment, each from a random end, until the pair fits.

    The original takes them one by one; how many each segment loses follows from the lengths, and
    how many of these from the front is a sum of coin throws.
    """
    excess = len(first) + len(second) - max_pieces
    if excess <= 0:
        return first, second
    ahead = len(first) - len(second)
    from_longer = min(excess, abs(ahead))
    shared = excess - from_longer  # equal by now: second, first, second, ...
    from_first = (from_longer if ahead > 0 else 0) + shared // 2
    from_second = excess - from_first
    return _drop(first, from_first, rng), _drop(second, from_second, rng)


def _drop(segment: np.ndarray, count: int, rng: random.Random) -> np.ndarray:
    front = rng.getrandbits(count).bit_count() if count else 0
    return segment[front : len(segment) - (count - front)]
