"""The ids of the texts here are the places of the pieces, so that examples can be traced back."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert.data.records.examples import (
    TokenizedDocuments,
    assemble_examples,
    plan_examples,
    separate_documents,
)

CLS, SEP = -1, -2


def make_documents(sentence_lengths, numbers=None):
    """Documents of sentences of given lengths; piece k of the text has id k."""
    flat = [length for document in sentence_lengths for length in document]
    starts = np.cumsum([0, *flat])
    ends = np.cumsum([0, *map(len, sentence_lengths)])
    numbers = list(range(len(sentence_lengths))) if numbers is None else numbers
    ids = np.arange(starts[-1], dtype=np.int32)
    return TokenizedDocuments(ids, starts.tolist(), ends.tolist(), numbers)


def random_documents(seed, documents=60):
    draw = random.Random(seed)
    return make_documents(
        [[draw.randint(1, 25) for _ in range(draw.randint(2, 40))] for _ in range(documents)]
    )


def examples_of(documents, task="nsp", max_seq_length=64, short_seq_prob=0.1, seed=0, **options):
    """Returns (a, b, label) for each example, checking [CLS], [SEP] and segments."""
    rng = random.Random(seed)
    plans = plan_examples(documents, max_seq_length, short_seq_prob, task, rng, **options)
    if not plans:
        return []
    made = assemble_examples(documents, plans, CLS, SEP)
    return [_take_apart(made, index) for index in range(len(plans))]


def _take_apart(made, index):
    row = slice(made.splits[index], made.splits[index + 1])
    ids, segments = made.input_ids[row].tolist(), made.segment_ids[row].tolist()
    assert ids[0] == CLS and ids[-1] == SEP
    middle = ids.index(SEP)
    a, b = ids[1:middle], ids[middle + 1 : -1]
    assert segments == [0] * (middle + 1) + [1] * (len(ids) - middle - 1)
    assert CLS not in a + b and SEP not in a + b
    return a, b, int(made.next_sentence_labels[index])


def document_of(documents, piece):
    bounds = [documents.sentence_starts[s] for s in documents.document_starts]
    return documents.document_numbers[np.searchsorted(bounds, piece, side="right") - 1]


def is_run(pieces):
    return pieces == list(range(pieces[0], pieces[0] + len(pieces)))


def test_two_sentences_by_hand():
    documents = make_documents([[2, 3], [4]])
    # Without short sequences the first document is one chunk, cut between its two sentences.
    seen = {
        tuple(map(tuple, example[:2])): example[2]
        for s in range(20)
        for example in examples_of(documents, short_seq_prob=0, seed=s)
    }
    true_pair = ((0, 1), (2, 3, 4))
    assert seen[true_pair] == 0
    assert seen[((0, 1), (5, 6, 7, 8))] == 1
    assert seen[((2, 3, 4), (5, 6, 7, 8))] == 1  # the sentence that was not used is used again
    assert seen[((5, 6, 7, 8), (0, 1, 2, 3, 4))] == 1


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=12), min_size=2, max_size=8),
    st.integers(8, 80),
    st.integers(0, 1000),
)
def test_every_pair_keeps_the_rules(lengths, max_seq_length, seed):
    documents = make_documents(lengths)
    examples = examples_of(documents, max_seq_length=max_seq_length, seed=seed)
    assert examples
    for a, b, label in examples:
        assert a and b and len(a) + len(b) <= max_seq_length - 3
        assert is_run(a) and is_run(b)
        same = document_of(documents, a[0]) == document_of(documents, b[0])
        assert same == (label == 0)
        if label == 0:
            assert a[-1] < b[0]


def test_a_random_segment_never_comes_from_a_part_of_the_same_document():
    documents = make_documents([[5] * 30] * 4, numbers=[7, 8, 8, 9])
    for seed in range(20):
        for a, b, label in examples_of(documents, seed=seed):
            assert (document_of(documents, a[0]) == document_of(documents, b[0])) == (label == 0)


def test_a_lone_document_has_true_pairs_only():
    examples = examples_of(make_documents([[5] * 100, [4] * 50], numbers=[3, 3]))
    assert examples
    assert {label for _, _, label in examples} == {0}


def test_half_of_the_pairs_are_random_when_chunks_can_be_cut():
    documents = make_documents([[3] * 60] * 200)
    labels = [label for _, _, label in examples_of(documents, short_seq_prob=0)]
    # Binomial with p = 0.5: five standard deviations.
    assert abs(np.mean(labels) - 0.5) < 5 * 0.5 / np.sqrt(len(labels))


def truncated_sizes(a_size, b_size, limit):
    """Takes piece after piece from the longer segment, of equal ones from b."""
    while a_size + b_size > limit:
        if a_size > b_size:
            a_size -= 1
        else:
            b_size -= 1
    return a_size, b_size


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 60), st.integers(1, 200))
def test_the_longer_segment_is_cut(a_size, b_size):
    documents = make_documents([[a_size, b_size], [1]])
    true_pairs = [
        (len(a), len(b))
        for seed in range(30)
        for a, b, label in examples_of(documents, short_seq_prob=0, seed=seed)
        if label == 0
    ]
    assert set(true_pairs) == {truncated_sizes(a_size, b_size, 61)}


def test_segments_are_cut_at_both_ends_alike():
    documents = make_documents([[50, 500], [1]])
    fronts, backs = 0, 0
    for seed in range(200):
        for _, b, label in examples_of(documents, short_seq_prob=0, seed=seed):
            if label == 0:
                fronts += b[0] - 50
                backs += 549 - b[-1]
    assert fronts + backs > 20_000
    assert abs(fronts / (fronts + backs) - 0.5) < 5 * 0.5 / np.sqrt(fronts + backs)


def plain_pairs(document_lengths, max_seq_length, short_seq_prob, draw):
    """The algorithm of the paper's data script on lists, without any shortcut (an oracle).

    Yields (length of a, length of b, label).
    """
    limit = max_seq_length - 3
    for number, sentences in enumerate(document_lengths):
        target = draw.randint(2, limit) if draw.random() < short_seq_prob else limit
        queue = list(sentences)
        while queue:
            chunk = []
            while queue and sum(chunk) < target:
                chunk.append(queue.pop(0))
            cut = draw.randint(1, len(chunk) - 1) if len(chunk) > 1 else 1
            a, rest = chunk[:cut], chunk[cut:]
            if not rest or draw.random() < 0.5:
                other = draw.choice([n for n in range(len(document_lengths)) if n != number])
                start = draw.randrange(len(document_lengths[other]))
                b = []
                for length in document_lengths[other][start:]:
                    b.append(length)
                    if sum(b) >= target - sum(a):
                        break
                queue = rest + queue
                yield (*truncated_sizes(sum(a), sum(b), limit), 1)
            else:
                yield (*truncated_sizes(sum(a), sum(rest), limit), 0)


def test_statistics_equal_those_of_the_plain_algorithm():
    documents = random_documents(seed=4, documents=300)
    starts = documents.sentence_starts
    lengths = [
        np.diff(starts[first : last + 1]).tolist()
        for first, last in zip(
            documents.document_starts, documents.document_starts[1:], strict=False
        )
    ]
    ours, plain = [], []
    for seed in range(4):
        ours += [(len(a), len(b), label) for a, b, label in examples_of(documents, seed=seed)]
        plain += plain_pairs(lengths, 64, 0.1, random.Random(100 + seed))
    assert len(ours) == pytest.approx(len(plain), rel=0.02)
    ours, plain = np.array(ours), np.array(plain)
    for column in range(3):
        spread = np.sqrt(plain[:, column].var() / len(plain) + ours[:, column].var() / len(ours))
        assert abs(ours[:, column].mean() - plain[:, column].mean()) < 5 * spread
    # Each quantile of the length, too.
    quantiles = [10, 25, 50, 75, 90]
    totals = [np.percentile(x[:, 0] + x[:, 1], quantiles) for x in (ours, plain)]
    np.testing.assert_allclose(*totals, atol=2)


def test_sentence_order_pairs_are_neighbours_half_of_them_swapped():
    documents = random_documents(seed=1, documents=200)
    examples = examples_of(documents, task="sop")
    labels = [label for _, _, label in examples]
    assert abs(np.mean(labels) - 0.5) < 5 * 0.5 / np.sqrt(len(labels))
    for a, b, label in examples:
        assert len(a) + len(b) <= 61 and is_run(a) and is_run(b)
        assert document_of(documents, a[0]) == document_of(documents, b[0])
        assert (a[-1] < b[0]) == (label == 0)


def test_sentence_order_leaves_no_sentence_alone_at_the_end():
    """Of 64 places 61 are for pieces."""
    # Three sentences of 30 reach 61; the third goes with the fourth, so that nothing is lost.
    four = examples_of(make_documents([[30] * 4]), task="sop", short_seq_prob=0)
    assert [sorted(a + b) for a, b, _ in sorted(four)] in (
        [list(range(60)), list(range(60, 120))],
        [list(range(60, 120)), list(range(60))],
    )
    # Two of 40 reach it as well, and take the third along: it is seen where the cut and the side
    # that is truncated let it be.
    seen = set()
    for seed in range(20):
        (example,) = examples_of(make_documents([[40] * 3]), "sop", short_seq_prob=0, seed=seed)
        assert len(example[0]) + len(example[1]) == 61
        seen |= {*example[0], *example[1]}
    assert len(seen & set(range(80, 120))) > 30


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 12), min_size=1, max_size=12), min_size=1, max_size=6),
    st.integers(0, 1000),
)
def test_sentence_order_uses_each_sentence_of_a_document_of_several(lengths, seed):
    documents = make_documents(lengths)
    # Nothing is truncated: a document has at most 144 pieces.
    examples = examples_of(documents, "sop", 200, short_seq_prob=1, seed=seed)
    lone = {n for n, document in enumerate(lengths) if len(document) == 1}
    expected = [p for p in documents.ids.tolist() if document_of(documents, p) not in lone]
    found = sorted(piece for a, b, _ in examples for piece in a + b)
    assert len(found) == len(set(found)) and found == expected


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 100), min_size=1, max_size=12), min_size=1, max_size=6),
    st.floats(0, 1),
    st.booleans(),
)
def test_full_sentences_hold_each_piece_once(lengths, short_seq_prob, vary):
    documents = make_documents(lengths)
    examples = examples_of(documents, "none", 32, short_seq_prob=short_seq_prob, vary_cuts=vary)
    assert all(not b and not label and len(a) <= 30 and is_run(a) for a, b, label in examples)
    assert sorted(piece for a, _, _ in examples for piece in a) == documents.ids.tolist()
    for a, _, _ in examples:
        assert document_of(documents, a[0]) == document_of(documents, a[-1])


def test_full_sentences_fill_the_sequence():
    examples = examples_of(
        make_documents([[10] * 9]), task="none", max_seq_length=42, short_seq_prob=0
    )
    assert sorted(len(a) for a, _, _ in examples) == [10, 40, 40]


def across_documents(documents, max_seq_length, short_seq_prob=0.0):
    """The pieces of each example in the order of the text, with SEP between documents."""
    separated = separate_documents(documents, SEP)
    plans = plan_examples(
        separated, max_seq_length, short_seq_prob, "none", random.Random(0), cross_documents=True
    )
    made = assemble_examples(separated, plans, CLS, SEP)
    assert not made.segment_ids.any() and not made.next_sentence_labels.any()
    rows = [row.tolist() for row in np.split(made.input_ids, made.splits[1:-1])]
    assert all(row[0] == CLS and row[-1] == SEP and len(row) <= max_seq_length for row in rows)
    return sorted(row[1:-1] for row in rows)


def plain_full_sentences(lengths, numbers, room):
    """RoBERTa's FULL-SENTENCES sentence by sentence; a sentence longer than an example is cut."""
    examples, current, before, piece = [], [], None, 0
    for document, number in zip(lengths, numbers, strict=True):
        for size in document:
            sentence = list(range(piece, piece := piece + size))
            behind = [SEP] if current and before not in (None, number) else []
            if current and len(current) + len(behind) + size > room:
                examples.append(current)
                current, behind = [], []
            current = current + behind + sentence
            before = number
            if len(current) > room:
                examples += [current[at : at + room] for at in range(0, len(current), room)]
                current = []
    return examples + ([current] if current else [])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.lists(st.integers(1, 40), min_size=1, max_size=8), st.booleans()),
        min_size=1,
        max_size=12,
    )
)
def test_full_sentences_across_documents_equal_those_of_the_plain_algorithm(drawn):
    lengths = [sizes for sizes, _ in drawn]
    numbers = np.cumsum([0, *(new for _, new in drawn[1:])]).tolist()  # parts share a number
    documents = make_documents(lengths, numbers)
    assert across_documents(documents, 32) == plain_full_sentences(lengths, numbers, 30)
    # However short the examples are: every piece once, a SEP where a document begins, no more.
    for row in (rows := across_documents(documents, 32, short_seq_prob=0.5)):
        for before, piece in itertools.pairwise(row):
            assert SEP in (before, piece) or piece == before + 1
            if piece != SEP:
                begins = document_of(documents, piece) != document_of(documents, piece - 1)
                assert (before == SEP) == begins
        assert SEP not in (row[0], row[-1])
    pieces = [piece for row in rows for piece in row if piece != SEP]
    assert pieces == documents.ids.tolist()


def test_full_sentences_across_documents_by_hand():
    """Of 12 places two are [CLS] and [SEP]: 4 3 | 2 6 | 5, of which 4 3 | 2 fill all ten."""
    documents = make_documents([[4, 3], [2, 6], [5]])
    assert across_documents(documents, 12) == [
        [0, 1, 2, 3, 4, 5, 6, SEP, 7, 8],
        [9, 10, 11, 12, 13, 14],  # with the separator and the next sentence it would be 12
        [15, 16, 17, 18, 19],
    ]
    # The parts of a long document have no separator between them.
    parts = make_documents([[4, 3], [2, 6], [5]], numbers=[0, 0, 1])
    assert across_documents(parts, 12)[0] == [0, 1, 2, 3, 4, 5, 6, 7, 8]


def test_short_targets_cut_no_sentence_of_full_sentences():
    documents = make_documents([[9] * 20] * 20)
    examples = examples_of(documents, task="none", max_seq_length=42, short_seq_prob=1)
    sizes = {len(a) for a, _, _ in examples}
    assert sizes == {9, 18, 27, 36}  # whole sentences, one at least and four at most


def test_short_sequences_come_as_often_as_asked():
    documents = make_documents([[2] * 30] * 400)
    by_document = {}
    for a, b, _ in examples_of(documents, task="sop", max_seq_length=63, short_seq_prob=0.3):
        place = document_of(documents, a[0])
        by_document[place] = max(by_document.get(place, 0), len(a) + len(b))
    short = np.mean([longest < 60 for longest in by_document.values()])
    # A target of 59 or 60 also reaches 60 pieces: 2 of 59 targets.
    expected = 0.3 * 57 / 59
    assert abs(short - expected) < 5 * np.sqrt(0.3 * 0.7 / 400)


def test_the_same_seed_gives_the_same_examples():
    documents = random_documents(seed=2)
    assert examples_of(documents, seed=5) == examples_of(documents, seed=5)
    assert examples_of(documents, seed=5) != examples_of(documents, seed=6)
