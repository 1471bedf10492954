"""BLEU and the order of candidates, by hand."""

import math
import tracemalloc

import numpy as np
import pytest

from keras_bert import corpus_bleu, rerank, self_bleu, unique_ngram_rate
from keras_bert.tasks.fill_mask.scoring import TextScore
from tests.tolerances import FORMULA, approx


def words(*texts):
    return [text.split() for text in texts]


def test_corpus_bleu_by_hand():
    # Papineni et al. 2002, their example of clipped counts: two of seven.
    the = words("the the the the the the the")
    cat = words("the cat is on the mat", "there is a cat on the mat")
    assert corpus_bleu(the, cat, max_order=1) == approx(2 / 7, FORMULA)
    # Bigrams: "on the" of three; unigrams: all four. The shorter of the references is closest:
    # 4 words of 6.
    short = words("cat on the is")
    expected = math.sqrt(4 / 4 * 2 / 3) * math.exp(1 - 6 / 4)
    assert corpus_bleu(short, cat, max_order=2) == approx(expected, FORMULA)
    # Counts are added over texts: unigrams 2 + 4 of 11, lengths 7 to 7 and 4 to 6.
    both = corpus_bleu(the + short, cat, max_order=1)
    assert both == approx(6 / 11 * math.exp(1 - 13 / 11), FORMULA)
    assert corpus_bleu(words("dog"), cat) == 0.0
    assert corpus_bleu(cat, cat) == approx(1.0, FORMULA)


def test_self_bleu_leaves_each_text_out_of_its_references():
    assert self_bleu(words("a b c d e", "a b c d e")) == approx(1.0, FORMULA)
    assert self_bleu(words("a b c d e", "v w x y z")) == 0.0
    # "a a b" against "a b" and "c": a once, b once of 3; "a b" against the others: both; "c": none.
    # Lengths: 3 to 2, 2 to 3 (not 1: as close, but the shorter counts), 1 to 2.
    found = self_bleu(words("a a b", "a b", "c"), max_order=1)
    assert found == approx(4 / 6 * math.exp(min(0, 1 - (2 + 1 + 2) / 6)), FORMULA)


def test_self_bleu_of_many_texts_takes_no_square_of_memory():
    """A list of the other lengths for each of 3,000 texts would take 72 MB."""
    texts = [["a"] * (1 + index % 7) for index in range(3000)]
    tracemalloc.start()
    found = self_bleu(texts, max_order=1)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Each text stands elsewhere, too.
    assert found == approx(1.0, FORMULA)
    assert most < 10_000_000


def test_ngrams_that_are_nowhere_else():
    texts = words("a b c", "a b d")
    assert unique_ngram_rate(texts, 2) == approx(2 / 4, FORMULA)  # b c, b d
    assert unique_ngram_rate(texts, 1, references=words("a d")) == approx(3 / 6, FORMULA)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: self_bleu(words("a")), "there are 1 texts: self-BLEU needs two"),
        (lambda: corpus_bleu(words("a"), []), "there are no references"),
        (lambda: corpus_bleu([], words("a")), "there are 0 texts"),
        (lambda: unique_ngram_rate(words("a"), 2), "no text has 2 words"),
        (lambda: unique_ngram_rate(words("a"), 0), "order is 0: it must be at least 1"),
        # Letters are no words.
        (
            lambda: corpus_bleu(["he left"], words("he left")),
            "'he left' is a string, whose letters",
        ),
        (
            lambda: corpus_bleu(words("he left"), ["he left"]),
            "'he left' is a string, whose letters",
        ),
        (lambda: self_bleu(["he left", "he left"]), "give a list of its words, as text.split()"),
        (lambda: unique_ngram_rate(["he left"], 1), "'he left' is a string"),
        (lambda: unique_ngram_rate(words("he left"), 1, ["he left"]), "'he left' is a string"),
        (
            lambda: corpus_bleu(None, words("a")),
            "texts is None: give a list with the words of each",
        ),
        (lambda: corpus_bleu(words("a"), 5), "references is 5: give a list with the words of each"),
        (lambda: self_bleu([["a"], None]), r"texts, text 1 \(counted from 0\), is None: give a li"),
        (lambda: rerank(None, None), "lists is None: give lists of candidates"),
        (lambda: rerank([None], None), "list 0 is None: give a list of candidates"),
    ],
)
def test_what_cannot_be_measured_is_refused(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


LISTS = [["the film", "film the the", "x"], [], ["a , b", "a"], ["", "x"]]
# Log-probabilities of the pieces of each text.
PIECES = {
    "the film": [-1.0, -2.0],
    "film the the": [-2.0, -2.0, -1.5],
    "x": [-4.0],
    "a , b": [-1.0, -0.5, -3.0],
    "a": [-3.0],
    "": [],
}


def by_hand(texts):
    """What `SentenceScorer` would yield, with the numbers above."""
    for text in texts:
        yield TextScore(text, tuple(text.split()), np.array(PIECES[text], np.float32))


@pytest.mark.parametrize(
    ("first_scores", "weight", "per_piece", "expected"),
    [
        # The sums: -3, -5.5, -4; -4.5, -3; no sum, which is not the best of all, and -4.
        (
            *(None, 1.0, False),
            [
                *([(0, -3.0), (2, -4.0), (1, -5.5)], []),
                *([(1, -3.0), (0, -4.5)], [(1, -4.0), (0, -math.inf)]),
            ],
        ),
        # A half of the means, -1.5, -5.5 / 3, -4; -1.5, -3; none, -4, and the scores from before.
        (
            *([[-9.0, -2.0, 0.0], [], [0.75, 1.5], [5.0, 0.0]], 0.5, True),
            [
                *([(2, -2.0), (1, -2 - 5.5 / 6), (0, -9.75)], []),
                *([(0, 0.0), (1, 0.0)], [(1, -2.0), (0, -math.inf)]),
            ],
        ),
    ],
)
def test_candidates_are_sorted_by_score(first_scores, weight, per_piece, expected):
    ranked = list(rerank(LISTS, by_hand, first_scores, weight, per_piece))
    for texts, found, wanted in zip(LISTS, ranked, expected, strict=True):
        assert [candidate.place for candidate in found] == [place for place, _ in wanted]
        for candidate, (place, score) in zip(found, wanted, strict=True):
            assert candidate.score == approx(score, FORMULA)
            assert candidate.text == texts[place]
            assert candidate.log_likelihood == approx(sum(PIECES[candidate.text]), FORMULA)
            assert candidate.pieces == len(PIECES[candidate.text])


def test_lists_and_scores_that_do_not_fit_are_refused():
    for sentence, arguments in {
        "list 0 has 1 candidates and the scores": dict(first_scores=[[1.0, 2.0]]),
        "1 lists of candidates but 2 of scores": dict(first_scores=[[1.0], []]),
        "weight is nan": dict(weight=math.nan),
        "first_scores cannot be read .*: give a list of numbers for each list of": dict(
            first_scores=[1.0]
        ),
    }.items():
        with pytest.raises(ValueError, match=sentence):
            rerank([["a"]], by_hand, **arguments)  # at once, before anything is read
    with pytest.raises(ValueError, match="read letter by letter"):
        rerank(["good", "bad"], by_hand)
    with pytest.raises(ValueError, match="list 1, candidate 0 .* is a NoneType: give strings"):
        rerank([["good"], [None]], by_hand)
