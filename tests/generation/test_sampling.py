"""Chains against the exact distributions over 16 texts, worked out by enumeration."""

import functools

import numpy as np
import pytest

from keras_bert import GenerationOptions, SentenceScorer, TextGenerator
from tests.generation.enumeration import (
    FIRST,
    PROMPT,
    STATES,
    WORDS,
    Enumeration,
    chi_square,
    counts_of,
    tiny_model,
)
from tests.tolerances import REORDERED, approx

SLOW = pytest.mark.slow
SAMPLES = 1024
# Of 15 degrees of freedom; the seeds are fixed, so that a test fails always or never.
CHI_SQUARE_99_9 = 37.7
SLOW_CASES = (("sequential", 0.5), ("random", 1.0), ("parallel", 1.0))


@functools.cache
def tiny():
    return tiny_model()


@functools.cache
def generator_of(options):
    return TextGenerator(*tiny(), options, batch_size=SAMPLES)


def sample(options, samples=SAMPLES, seed=1, texts=(PROMPT,)):
    return generator_of(GenerationOptions(**options)).infill(texts, samples, seed)[0]


@pytest.fixture(scope="module")
def exact():
    return Enumeration(tiny()[0])


def first_sweep(exact, order, temperature):
    """Exact probabilities of the states after one sweep from [MASK] [MASK]."""

    def chain(first):
        heads = exact.draws((None, None), first, temperature)
        found = np.zeros(16)
        for word in range(4):
            given = [None, None]
            given[first] = word
            for other, probability in enumerate(exact.draws(given, 1 - first, temperature)):
                state = (word, other) if first == 0 else (other, word)
                found[STATES.index(state)] = heads[word] * probability
        return found

    if order == "sequential":
        return chain(0)
    if order == "random":
        return (chain(0) + chain(1)) / 2
    heads = [exact.draws((None, None), blank, temperature) for blank in (0, 1)]
    return np.outer(*heads).reshape(16)


@pytest.mark.parametrize(
    ("order", "temperature"),
    [
        ("sequential", 1.0),
        *(pytest.param(*case, marks=SLOW) for case in SLOW_CASES),
    ],
)
def test_gibbs_draws_what_the_model_expects(order, temperature, exact):
    found = sample(dict(sweeps=1, order=order, temperature=temperature))
    expected = first_sweep(exact, order, temperature)
    assert expected.sum() == approx(1.0, REORDERED)
    assert chi_square(counts_of(found), expected) < CHI_SQUARE_99_9
    assert {text.acceptance_rate for text in found} == {None}


@SLOW
def test_top_k_comes_after_the_burn_in(exact):
    found = sample(dict(sweeps=2, burn_in=1, top_k=1), samples=64)
    best_first = [int(exact.draws((None, word), 0).argmax()) for word in range(4)]
    likely = {(word, int(exact.draws((word, None), 1).argmax())) for word in best_first}
    states = {tuple(WORDS.index(piece) for piece in text.pieces[1:3]) for text in found}
    assert states <= likely
    before = sample(dict(sweeps=1), samples=64)
    assert len({text.text for text in before}) > len(likely)


@SLOW
@pytest.mark.parametrize(("energy", "temperature"), [("normalized", 1.0), ("raw", 2.0)])
def test_metropolis_hastings_has_the_energy_for_its_distribution(energy, temperature, exact):
    options = dict(method="metropolis_hastings", energy=energy, temperature=temperature, sweeps=12)
    target = exact.target(energy, temperature)
    kernels = [exact.kernel(blank, energy, temperature) for blank in (0, 1)]
    sweep = kernels[0][0] @ kernels[1][0]
    # By hand: the target is stationary, and so near after 12 sweeps that 1,024 samples cannot tell.
    np.testing.assert_allclose(target @ sweep, target, **REORDERED)
    start = first_sweep(exact, "sequential", temperature)
    after = start @ np.linalg.matrix_power(sweep, 12)
    assert np.abs(after - target).sum() < 1e-3
    found = sample(options)
    assert chi_square(counts_of(found), target) < CHI_SQUARE_99_9
    # Gibbs sampling alone is elsewhere, so that the statistic can tell.
    assert chi_square(SAMPLES * start, target) > CHI_SQUARE_99_9
    # The rate of all steps, from the start on.
    rates, at = [], start
    for moves, accepted in kernels * 12:
        rates.append(at @ accepted)
        at = at @ moves
    assert np.mean(rates) < 0.9
    assert np.mean([text.acceptance_rate for text in found]) == pytest.approx(
        np.mean(rates), abs=0.01
    )


@SLOW
def test_steps_are_accepted_as_by_hand(exact):
    options = dict(method="metropolis_hastings", energy="raw", sweeps=1)
    # A text of one piece: the proposals are the target, q(x) = p(x), so that each is accepted.
    [one] = sample(options | dict(start="text"), samples=1, texts=("book",))
    assert one.acceptance_rate == 1.0
    # One sweep from the start that Gibbs sampling makes: far from the target, so that the kernel
    # of each step shows.
    found = sample(options, seed=3)
    moves = [exact.kernel(blank, "raw", 1.0) for blank in (0, 1)]
    start = first_sweep(exact, "sequential", 1.0)
    expected = start @ moves[0][0] @ moves[1][0]
    assert chi_square(counts_of(found), expected) < CHI_SQUARE_99_9
    rate = (start @ moves[0][1] + start @ moves[0][0] @ moves[1][1]) / 2
    assert rate < 0.95
    assert np.mean([text.acceptance_rate for text in found]) == pytest.approx(rate, abs=0.02)


@SLOW
def test_annealing_finds_the_text_of_lowest_energy(exact):
    options = dict(method="annealing", sweeps=20, temperature=2.0, final_temperature=0.05)
    found = sample(options, samples=64)
    energies = exact.terms("normalized").sum(axis=1)
    best = STATES[int(energies.argmin())]
    counts = counts_of(found)
    # Other minima are 0.3 and 1.1 above: at temperature 1 the lowest has a third of all texts.
    assert counts[STATES.index(best)] >= 40 > 64 * exact.target("normalized", 1.0).max()
    assert counts[np.argsort(energies)[:4]].sum() == 64
    assert min(-sample.log_likelihood for sample in found) == approx(energies.min(), REORDERED)


def test_likelihoods_are_those_of_the_scorer():
    model, tokenizer = tiny()
    found = sample(dict(sweeps=1), samples=8)
    scores = list(SentenceScorer(model, tokenizer)([text.text for text in found]))
    for text, score in zip(found, scores, strict=True):
        assert text.pieces == score.pieces
        assert text.log_likelihood == approx(score.log_likelihood, REORDERED)
        assert text.perplexity == pytest.approx(score.perplexity, rel=1e-4)


@SLOW
def test_random_starts_are_seen_by_the_first_call(exact):
    # In parallel the model sees what stands in the blanks: each of the 16 states alike at first.
    found = sample(dict(sweeps=1, start="random", order="parallel"))
    pairs = [[exact.draws(state, blank) for blank in (0, 1)] for state in STATES]
    expected = np.mean([np.outer(*pair).reshape(16) for pair in pairs], axis=0)
    assert chi_square(counts_of(found), expected) < CHI_SQUARE_99_9


def test_special_tokens_are_never_drawn(exact):
    # The likeliest of all, in each blank of each state, is none that may be drawn.
    assert exact.likeliest() <= set(range(FIRST))
    found = generator_of(GenerationOptions(sweeps=1)).generate(count=64, length=6)
    assert len(found) == 64
    assert {piece for text in found for piece in text.pieces} == set(WORDS)
    assert {len(text.pieces) for text in found} == {6}


@pytest.mark.parametrize("method", ["gibbs", pytest.param("metropolis_hastings", marks=SLOW)])
def test_a_seed_gives_a_text_whatever_is_beside_it(method):
    options = GenerationOptions(method=method, sweeps=1)
    texts = [PROMPT, "[MASK] film", "bad [MASK] [MASK] [MASK] [MASK] [MASK] [MASK] [MASK]"]
    many = generator_of(options).infill(texts, samples=5, seed=3)
    few = TextGenerator(*tiny(), options, batch_size=2)
    found = few.infill(texts, samples=5, seed=3)
    assert texts_of(found) == texts_of(many)
    assert [sample.acceptance_rate for row in found for sample in row] == [
        sample.acceptance_rate for row in many for sample in row
    ]
    # Alone with the seed that it tells of itself.
    last = many[2][1]
    assert (last.seed, last.sample) == (5, 1)
    assert few.infill([texts[2]], samples=2, seed=5)[0][1].text == last.text
    assert texts_of(few.infill(texts, samples=5, seed=4)) != texts_of(many)
    assert len({sample.text for sample in many[2]}) > 1


def texts_of(found):
    return [[sample.text for sample in samples] for samples in found]
