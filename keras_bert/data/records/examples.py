"""Sentences to pretraining examples: the pairs of create_pretraining_data.py, without its speed.

A segment is always a run of consecutive pieces of the text, so an example is planned as two ranges
over the text's flat array of ids, with the lengths of the sentences alone. The ids are copied once,
for all examples of a chunk together.
"""

import random
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from keras_bert.choices import SentenceTask
from keras_bert.text.framing import BERT_FRAMING, Framing

SPECIAL_TOKENS_OF_SINGLE = 2  # [CLS] a [SEP]
# Of the examples of "none" in a second pass. A larger one leaves more of a sequence empty.
_EARLY_END_PROB = 0.25


class TokenizedDocuments(NamedTuple):
    """The pieces of some documents.

    Attributes:
        ids: int32 [K], pieces of all sentences one after the other; no sentence is empty.
        sentence_starts: where each sentence starts in `ids`, and K at the end.
        document_starts: where each document starts among the sentences, and their number at the
            end; no document is empty.
        document_numbers: the number of each document. Parts of one document share it.
    """

    ids: np.ndarray
    sentence_starts: list[int]
    document_starts: list[int]
    document_numbers: list[int]


class PlannedExample(NamedTuple):
    """Two ranges of pieces and a label.

    Attributes:
        a_start: first piece of segment a.
        a_end: behind its last piece.
        b_start: first piece of segment b.
        b_end: behind its last piece; `b_start` for an example of one segment.
        label: label of the sentence task.
        truncated: how many pieces were cut off, because the pair was too long.
    """

    a_start: int
    a_end: int
    b_start: int
    b_end: int
    label: int
    truncated: int = 0


class Examples(NamedTuple):
    """N examples with T pieces in all.

    Attributes:
        input_ids: int32 [T], with [CLS] and [SEP], without padding.
        segment_ids: uint8 [T].
        splits: int64 [N + 1], where each example starts and ends.
        next_sentence_labels: int64 [N].
        pack_ids: int32 [T], the number of a piece's document in its example, from 1 up; None for
            examples that are not packed.
        position_ids: int32 [T], the position of a piece in its document; None likewise.
        word_continuations: int32 [T], 1 where a piece goes on with the word before it; None where
            no segmenter found the words.
    """

    input_ids: np.ndarray
    segment_ids: np.ndarray
    splits: np.ndarray
    next_sentence_labels: np.ndarray
    pack_ids: np.ndarray | None = None
    position_ids: np.ndarray | None = None
    word_continuations: np.ndarray | None = None


def plan_examples(
    documents: TokenizedDocuments,
    max_seq_length: int,
    short_seq_prob: float,
    sentence_task: SentenceTask,
    rng: random.Random,
    cross_documents: bool = False,
    framing: Framing = BERT_FRAMING,
    vary_cuts: bool = False,
) -> list[PlannedExample]:
    """Makes the examples of some documents, in random order.

    "nsp" follows create_instances_from_document of google-research/bert: sentences are gathered to
    a target length, cut between two of them into a and b, and with probability 0.5 b is replaced by
    text from another document (label 1), the replaced sentences being used again. With a single
    document there is no other: all its pairs are true ones. "sop" (ALBERT, arXiv:1909.11942) swaps
    a and b with probability 0.5 (label 1); a document of one sentence gives none. "none" gathers
    full sentences into one segment, of one document (DOC-SENTENCES of RoBERTa, arXiv:1907.11692,
    section 4.2) or, across documents, of several that follow each other (FULL-SENTENCES).

    Args:
        documents: the text; across documents, with the separators of `separate_documents`.
        max_seq_length: the longest example in pieces, special tokens counted.
        short_seq_prob: probability with which a document is cut into shorter examples; across
            documents, with which those that start in it are shorter.
        sentence_task: "nsp", "sop" or "none".
        rng: where the randomness comes from.
        cross_documents: whether an example of "none" goes on in the next document.
        framing: how the model's family makes rows of two segments.
        vary_cuts: whether "none" cuts at random, too, for a second pass over the same documents:
            the first example ends after a random length, and one in four of the others a sentence
            early. Text that fits into one example stays whole. Pairs are cut at random anyway.

    Returns:
        The plans.
    """
    kind = _CrossDocumentPlanner if cross_documents else _PLANNERS[sentence_task]
    planner = kind(documents, max_seq_length, short_seq_prob, rng, framing, vary_cuts)
    examples = [
        example
        for document in range(len(documents.document_numbers))
        for example in planner.plan(document)
    ]
    rng.shuffle(examples)
    return examples


def count_lone_sentences(documents: TokenizedDocuments) -> tuple[int, int]:
    """Returns how many documents have a single sentence, and how many pieces these have.

    "sop" makes no example of them.
    """
    first = np.array(documents.document_starts, np.int64)
    starts = np.array(documents.sentence_starts, np.int64)
    lone = first[:-1][np.diff(first) == 1]
    return len(lone), int((starts[lone + 1] - starts[lone]).sum())


def separate_documents(documents: TokenizedDocuments, sep_id: int) -> TokenizedDocuments:
    """Puts a [SEP] between documents, as a last sentence of each that another one follows.

    Parts of one document have none between them.

    Args:
        documents: the text.
        sep_id: id of [SEP].
    """
    sentences = np.array(documents.sentence_starts, np.int64)
    firsts = np.array(documents.document_starts, np.int64)
    boundaries = firsts[1:-1][np.diff(documents.document_numbers) != 0]
    # Sentences of 3, 2 and 4 pieces and a boundary before the last: starts 0 3 5 9 become
    # 0 3 5 6 10, the separator being the sentence from 5 to 6.
    starts = np.insert(sentences, boundaries, sentences[boundaries])
    is_separator = np.zeros(len(starts), np.int64)
    is_separator[boundaries + np.arange(len(boundaries))] = 1
    starts += np.cumsum(is_separator) - is_separator
    return documents._replace(
        ids=np.insert(documents.ids, sentences[boundaries], sep_id),
        sentence_starts=starts.tolist(),
        document_starts=(firsts + np.searchsorted(boundaries, firsts, "right")).tolist(),
    )


def assemble_examples(
    documents: TokenizedDocuments,
    plans: list[PlannedExample],
    cls_id: int,
    sep_id: int,
    framing: Framing = BERT_FRAMING,
) -> Examples:
    """Copies the pieces of planned examples and puts [CLS] and [SEP] around them.

    Args:
        documents: the text.
        plans: the examples; at least one.
        cls_id: id of [CLS].
        sep_id: id of [SEP].
        framing: how the model's family makes rows of two segments.
    """
    a_start, a_end, b_start, b_end, labels, _ = np.array(plans, np.int64).T
    a_sizes = a_end - a_start
    b_sizes = b_end - b_start
    has_b = b_sizes > 0
    sizes = a_sizes + b_sizes + np.where(has_b, framing.special_in_pair, framing.special_in_single)
    splits = np.concatenate([[0], np.cumsum(sizes)])
    starts, middles = splits[:-1], splits[:-1] + a_sizes + 1

    # Everything that no range is copied to is a [SEP], or the [CLS] at the start; or before the
    # second segment, in families where that begins as the first.
    input_ids = np.full(splits[-1], sep_id, np.int32)
    input_ids[starts] = cls_id
    if framing.begins_second:
        input_ids[middles[has_b] + framing.separators - 1] = cls_id
    _copy_ranges(documents.ids, a_start, a_sizes, input_ids, starts + 1)
    _copy_ranges(documents.ids, b_start, b_sizes, input_ids, middles + framing.separators)

    # +1 where segment b begins and -1 where the next example does.
    changes = np.zeros(splits[-1] + 1, np.int8)
    if framing.has_segments:
        changes[middles[has_b] + 1] += 1
        changes[splits[1:][has_b]] -= 1
    segment_ids = np.cumsum(changes[:-1], dtype=np.int8).astype(np.uint8)
    return Examples(input_ids, segment_ids, splits, labels)


def _copy_ranges(
    source: np.ndarray,
    source_starts: np.ndarray,
    sizes: np.ndarray,
    target: np.ndarray,
    target_starts: np.ndarray,
) -> None:
    ends = np.cumsum(sizes)
    within = np.arange(ends[-1]) - np.repeat(ends - sizes, sizes)
    positions = within + np.repeat(target_starts, sizes)
    target[positions] = source[within + np.repeat(source_starts, sizes)]


class _Planner:
    """Plans the examples of one document after the other."""

    is_pair = True
    min_length = 2

    def __init__(
        self,
        documents: TokenizedDocuments,
        max_seq_length: int,
        short_seq_prob: float,
        rng: random.Random,
        framing: Framing,
        vary_cuts: bool,
    ):
        self._documents = documents
        self._starts = documents.sentence_starts
        special = framing.special_in_pair if self.is_pair else framing.special_in_single
        self._max_tokens = max_seq_length - special
        self._short_seq_prob = short_seq_prob
        self._rng = rng
        self._vary_cuts = vary_cuts

    def plan(self, document: int) -> Iterator[PlannedExample]:
        """Yields the examples of one document."""
        raise NotImplementedError

    def _target_length(self) -> int:
        # Short sequences, so that fine-tuning on short texts meets what pretraining has seen.
        if self._rng.random() < self._short_seq_prob:
            return self._rng.randint(self.min_length, self._max_tokens)
        return self._max_tokens

    def _sentences(self, document: int) -> tuple[int, int]:
        starts = self._documents.document_starts
        return starts[document], starts[document + 1]

    def _chunk_end(self, first: int, last: int, target: int, min_sentences: int = 1) -> int:
        """Returns the end of the fewest sentences from `first` on that reach the target length."""
        reached = bisect_left(self._starts, self._starts[first] + target, first + 1, last)
        return min(max(reached, first + min_sentences), last)

    def _cut(self, first: int, end: int) -> int:
        """Returns where the sentences first..end are cut into two segments."""
        return first + 1 if end - first < 3 else self._rng.randint(first + 1, end - 1)

    def _pair(self, a: tuple[int, int], b: tuple[int, int], label: int) -> PlannedExample:
        """Makes an example of two ranges of sentences, cut to the length that fits."""
        a_start, a_end, b_start, b_end = (self._starts[sentence] for sentence in (*a, *b))
        excess = (a_end - a_start) + (b_end - b_start) - self._max_tokens
        if excess > 0:
            from_a, from_b = _split_of_excess(a_end - a_start, b_end - b_start, excess)
            a_start, a_end = self._trim(a_start, a_end, from_a)
            b_start, b_end = self._trim(b_start, b_end, from_b)
        return PlannedExample(a_start, a_end, b_start, b_end, label, max(excess, 0))

    def _trim(self, start: int, end: int, amount: int) -> tuple[int, int]:
        """Removes pieces, each from the front or from the back at random."""
        front = self._rng.getrandbits(amount).bit_count() if amount else 0
        return start + front, end - (amount - front)


class _NextSentencePlanner(_Planner):
    def plan(self, document: int) -> Iterator[PlannedExample]:
        first, last = self._sentences(document)
        target = self._target_length()
        others = self._other_documents(document)
        while first < last:
            end = self._chunk_end(first, last, target, min_sentences=1 if others else 2)
            if end - first == 1 and not others:
                return
            cut = self._cut(first, end)
            if others and (end - first == 1 or self._rng.random() < 0.5):
                # A random sentence of a random other document, and as many as fit behind it.
                a_size = self._starts[cut] - self._starts[first]
                index = self._rng.randrange(sum(map(len, others)))
                before = len(others[0])
                other = others[0][index] if index < before else others[1][index - before]
                b_first, b_last = self._sentences(other)
                b_first = self._rng.randrange(b_first, b_last)
                b_end = self._chunk_end(b_first, b_last, target - a_size)
                yield self._pair((first, cut), (b_first, b_end), 1)
                first = cut  # the sentences behind the cut were not used
            else:
                yield self._pair((first, cut), (cut, end), 0)
                first = end

    def _other_documents(self, document: int) -> list[range]:
        """Returns the indices of the documents that are not part of this one, as ranges."""
        numbers = self._documents.document_numbers
        # The parts of a document follow each other.
        begin = end = document
        while begin > 0 and numbers[begin - 1] == numbers[document]:
            begin -= 1
        while end < len(numbers) and numbers[end] == numbers[document]:
            end += 1
        return [others for others in (range(begin), range(end, len(numbers))) if others]


class _SentenceOrderPlanner(_Planner):
    def plan(self, document: int) -> Iterator[PlannedExample]:
        first, last = self._sentences(document)
        target = self._target_length()
        while last - first > 1:  # a document of one sentence has nothing to be swapped with it
            end = self._chunk_end(first, last, target, min_sentences=2)
            if last - end == 1:
                # One sentence would be left alone and be lost. A chunk of three or more gives it
                # its last one as a neighbour; one of two takes it along.
                end = end - 1 if end - first > 2 else last
            cut = self._cut(first, end)
            if self._rng.random() < 0.5:
                yield self._pair((first, cut), (cut, end), 0)
            else:
                yield self._pair((cut, end), (first, cut), 1)
            first = end


class _FullSentencePlanner(_Planner):
    is_pair = False
    min_length = 1

    def plan(self, document: int) -> Iterator[PlannedExample]:
        first, last = self._sentences(document)
        target = self._target_length()
        is_first = True
        while first < last:
            end = self._end(first, last, target, is_first)
            yield from self._examples(first, end)
            first, is_first = end, False

    def _end(self, first: int, last: int, target: int, is_first: bool) -> int:
        """Returns the end of the example that begins with a sentence."""
        if not self._vary_cuts or self._starts[last] - self._starts[first] <= target:
            return self._full_end(first, last, target)
        if is_first:
            return self._full_end(first, last, self._rng.randint(1, target))
        # Two ways to fill examples with the same sentences soon meet at the same cut, and would
        # stay together from there on.
        end = self._full_end(first, last, target)
        return end - (end - first > 1 and self._rng.random() < _EARLY_END_PROB)

    def _full_end(self, first: int, last: int, target: int) -> int:
        """Returns the end of the most sentences that do not exceed the target, one at least."""
        limit = self._starts[first] + target
        return max(bisect_left(self._starts, limit + 1, first + 1, last + 1) - 1, first + 1)

    def _examples(self, first: int, end: int) -> Iterator[PlannedExample]:
        """Yields the example of some sentences; one longer than an example can be is cut."""
        for start in range(self._starts[first], self._starts[end], self._max_tokens):
            stop = min(start + self._max_tokens, self._starts[end])
            yield PlannedExample(start, stop, stop, stop, 0)


class _CrossDocumentPlanner(_FullSentencePlanner):
    """Takes documents in turn, with the separators that `separate_documents` put between them."""

    def __init__(
        self,
        documents: TokenizedDocuments,
        max_seq_length: int,
        short_seq_prob: float,
        rng: random.Random,
        framing: Framing,
        vary_cuts: bool,
    ):
        super().__init__(documents, max_seq_length, short_seq_prob, rng, framing, vary_cuts)
        starts, numbers = documents.document_starts, documents.document_numbers
        neighbours = zip(starts[1:-1], numbers[:-1], numbers[1:], strict=True)
        self._separators = {start - 1 for start, a, b in neighbours if a != b}
        self._next = 0  # the first sentence that no example holds yet

    def plan(self, document: int) -> Iterator[PlannedExample]:
        """Yields the examples that start in a document."""
        last = self._sentences(document)[1]
        target = self._target_length()
        while self._next < last:
            first = self._next
            if first in self._separators:  # no example begins with one
                self._next += 1
                continue
            end = self._end(first, len(self._starts) - 1, target, is_first=first == 0)
            yield from self._examples(first, end - (end - 1 in self._separators))  # nor ends
            self._next = end


_PLANNERS = {
    "nsp": _NextSentencePlanner,
    "sop": _SentenceOrderPlanner,
    "none": _FullSentencePlanner,
}


def _split_of_excess(a_size: int, b_size: int, excess: int) -> tuple[int, int]:
    """Returns how many pieces each segment loses when the longer one always loses the next.

    Of equal ones b loses first, as in truncate_seq_pair of create_pretraining_data.py.
    """
    difference = a_size - b_size
    if excess <= abs(difference):
        return (excess, 0) if difference > 0 else (0, excess)
    rest = excess - abs(difference)
    from_a, from_b = rest // 2, rest - rest // 2
    return (from_a + difference, from_b) if difference > 0 else (from_a, from_b - difference)
