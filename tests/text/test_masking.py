import random
from collections import Counter
from typing import get_args

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.choices import MaskingStrategy
from keras_bert.text.masking import MaskedLanguageModelMasking
from keras_bert.text.vocabulary import Vocabulary

STRATEGIES = get_args(MaskingStrategy)
PAD, UNK, CLS, SEP, MASK = range(5)
VOCABULARY = Vocabulary(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    + [f"w{n}" for n in range(60)]
    + [f"##c{n}" for n in range(40)]
)
FIRST_CONTINUATION = 65


def make_batch(rows=256, length=64, seed=0, continuations=True):
    """Sequences `[CLS] ... [SEP] ... [SEP]` of different lengths with some [UNK]."""
    draw = np.random.default_rng(seed)
    ids = draw.integers(5, len(VOCABULARY) if continuations else FIRST_CONTINUATION, (rows, length))
    ids[draw.random((rows, length)) < 0.03] = UNK
    lengths = draw.integers(5, length + 1, rows)
    for row, size in enumerate(lengths):
        ids[row, 0] = CLS
        ids[row, [size // 2, size - 1]] = SEP
        ids[row, size:] = PAD
    mask = np.arange(length) < lengths[:, None]
    return ids.astype(np.int32), mask.astype(np.int32), lengths


def seeds_for(rows, epoch=0, seed=0):
    return np.stack([np.full(rows, seed), np.full(rows, epoch), np.arange(rows)], axis=1)


def apply(masking, ids, mask, seeds):
    masked = masking(tf.constant(ids), tf.constant(mask), tf.constant(seeds, tf.int64))
    return {name: value.numpy() for name, value in masked.items()}


def wanted(length, limit):
    """create_pretraining_data.py: min(limit, max(1, int(round(length * 0.15))))."""
    return min(limit, max(1, int(round(length * 0.15))))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_is_reported_is_what_was_hidden(strategy):
    ids, mask, _ = make_batch()
    out = apply(
        MaskedLanguageModelMasking(VOCABULARY, 10, strategy=strategy),
        ids,
        mask,
        seeds_for(len(ids)),
    )
    assert out["masked_lm_positions"].dtype == out["masked_lm_ids"].dtype == np.int32
    assert out["masked_lm_weights"].dtype == np.float32
    restored = out["input_ids"].copy()
    for row in range(len(ids)):
        used = out["masked_lm_weights"][row] == 1
        positions = out["masked_lm_positions"][row]
        assert (np.diff(positions[used]) > 0).all()
        assert used[: used.sum()].all()
        for name in ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights"):
            assert (out[name][row][~used] == 0).all()
        restored[row, positions[used]] = out["masked_lm_ids"][row][used]
    np.testing.assert_array_equal(restored, ids)


def test_fifteen_percent_of_each_sequence_are_chosen():
    ids, mask, lengths = make_batch()
    for limit in (3, 10):
        out = apply(MaskedLanguageModelMasking(VOCABULARY, limit), ids, mask, seeds_for(len(ids)))
        assert out["masked_lm_positions"].shape == (len(ids), limit)
        chosen = out["masked_lm_weights"].sum(axis=1)
        assert chosen.tolist() == [wanted(length, limit) for length in lengths]


@pytest.mark.parametrize("length", [5, 10, 17, 30, 50, 90, 128, 512])
def test_the_number_is_rounded_as_in_the_original(length):
    ids = np.full([1, length], 10, np.int32)
    out = apply(MaskedLanguageModelMasking(VOCABULARY, 200), ids, np.ones_like(ids), [[0]])
    assert out["masked_lm_weights"].sum() == wanted(length, 200)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_of_the_chosen_80_percent_are_masked_10_random_10_kept(strategy):
    ids, mask, _ = make_batch(rows=4096)
    out = apply(
        MaskedLanguageModelMasking(VOCABULARY, 10, strategy=strategy),
        ids,
        mask,
        seeds_for(len(ids)),
    )
    used = out["masked_lm_weights"] > 0
    original = out["masked_lm_ids"][used]
    shown = np.take_along_axis(out["input_ids"], out["masked_lm_positions"], axis=1)[used]
    count = used.sum()
    assert count > 15_000
    # A random piece is the original by chance in 1 of 100 cases.
    shares = {
        0.8: shown == MASK,
        0.1 * 0.99: (shown != MASK) & (shown != original),
        0.1 + 0.1 * 0.01: shown == original,
    }
    for share, found in shares.items():
        assert abs(found.mean() - share) < 5 * np.sqrt(share * (1 - share) / count)
    # Special tokens are neither chosen nor put in; the others all take part alike.
    assert original.min() >= 5
    random_pieces = shown[(shown != MASK) & (shown != original)]
    assert random_pieces.min() >= 5
    counts = np.bincount(random_pieces, minlength=len(VOCABULARY))[5:]
    expected = len(random_pieces) / len(counts)
    statistic = ((counts - expected) ** 2 / expected).sum()
    assert abs(statistic - 99) < 5 * np.sqrt(2 * 99)


def test_other_rates_can_be_asked_for():
    ids, mask, lengths = make_batch(rows=1024)
    masking = MaskedLanguageModelMasking(
        VOCABULARY, 40, 0.5, mask_token_rate=0, random_token_rate=0
    )
    out = apply(masking, ids, mask, seeds_for(len(ids)))
    np.testing.assert_array_equal(out["input_ids"], ids)
    candidates = ((ids >= 5) & (mask > 0)).sum(axis=1)
    expected = [min(40, round(n * 0.5), c) for n, c in zip(lengths, candidates, strict=True)]
    assert out["masked_lm_weights"].sum(axis=1).tolist() == expected


def test_every_position_is_chosen_alike_and_independently():
    rows, length = 20_000, 20
    ids = np.full([rows, length], 10, np.int32)
    out = apply(MaskedLanguageModelMasking(VOCABULARY, 3), ids, np.ones_like(ids), seeds_for(rows))
    positions = out["masked_lm_positions"]
    counts = np.bincount(positions.ravel(), minlength=length)
    expected = rows * 3 / length
    # Three of twenty without replacement: each count has variance rows * p * (1 - p).
    assert (np.abs(counts - expected) < 5 * np.sqrt(expected * 0.85)).all()
    pairs = np.zeros([length, length])
    for first, second in ((0, 1), (0, 2), (1, 2)):
        np.add.at(pairs, (positions[:, first], positions[:, second]), 1)
    found = pairs[np.triu_indices(length, 1)]
    expected = rows * 3 / len(found)
    assert (np.abs(found - expected) < 5 * np.sqrt(expected)).all()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_masks_follow_from_the_seed_of_the_record_alone(strategy):
    masking = MaskedLanguageModelMasking(VOCABULARY, 10, strategy=strategy)
    ids, mask, _ = make_batch(rows=32)
    seeds = seeds_for(32)
    whole = apply(masking, ids, mask, seeds)
    again = apply(masking, ids, mask, seeds)
    order = np.random.default_rng(1).permutation(32)
    mixed = apply(masking, ids[order], mask[order], seeds[order])
    alone = apply(masking, ids[7:8], mask[7:8], seeds[7:8])
    for name, value in whole.items():
        np.testing.assert_array_equal(again[name], value)
        np.testing.assert_array_equal(mixed[name], value[order])
        np.testing.assert_array_equal(alone[name], value[7:8])


@pytest.mark.parametrize("change", [{"epoch": 1}, {"seed": 1}])
def test_every_epoch_and_every_seed_sees_new_masks(change):
    masking = MaskedLanguageModelMasking(VOCABULARY, 10)
    ids, mask, _ = make_batch(rows=1000, length=64)
    first = apply(masking, ids, mask, seeds_for(1000))["masked_lm_positions"]
    other = apply(masking, ids, mask, seeds_for(1000, **change))["masked_lm_positions"]
    assert (first != other).any(axis=1).mean() > 0.9


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_same_in_a_function_and_in_a_dataset(strategy):
    masking = MaskedLanguageModelMasking(VOCABULARY, 10, strategy=strategy)
    ids, mask, _ = make_batch(rows=16)
    arguments = (tf.constant(ids), tf.constant(mask), tf.constant(seeds_for(16), tf.int64))
    expected = apply(masking, *(argument.numpy() for argument in arguments))
    in_function = tf.function(masking.__call__)(*arguments)
    dataset = tf.data.Dataset.from_tensor_slices(arguments).batch(16).map(masking)
    for found in (in_function, next(iter(dataset))):
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name].numpy(), value)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_sequence_without_a_candidate_has_no_prediction(strategy):
    ids = np.array([[CLS, UNK, SEP, SEP, PAD, PAD], [CLS, 9, SEP, 9, SEP, PAD]], np.int32)
    out = apply(
        MaskedLanguageModelMasking(VOCABULARY, 8, strategy=strategy),
        ids,
        (ids != PAD).astype(np.int32),
        seeds_for(2),
    )
    assert out["masked_lm_positions"].shape == (2, 8)
    assert out["masked_lm_weights"].sum(axis=1).tolist() == [0, 1]
    np.testing.assert_array_equal(out["input_ids"][0], ids[0])


def words_of(ids):
    """Groups positions to words: "##" pieces join the word before them, if there is one."""
    words = []
    for position, piece in enumerate(ids):
        if piece < 5:
            continue
        if piece >= FIRST_CONTINUATION and words and words[-1][-1] == position - 1:
            words[-1].append(position)
        else:
            words.append([position])
    return words


def test_whole_words_are_hidden_and_as_many_as_fit():
    ids, mask, lengths = make_batch(rows=512)
    masking = MaskedLanguageModelMasking(VOCABULARY, 8, strategy="whole_word")
    out = apply(masking, ids, mask, seeds_for(len(ids)))
    for row in range(len(ids)):
        used = out["masked_lm_weights"][row] > 0
        chosen = set(out["masked_lm_positions"][row][used].tolist())
        words = words_of(ids[row])
        sizes_left = [len(word) for word in words if not chosen & set(word)]
        assert all(set(word) <= chosen or not chosen & set(word) for word in words)
        room = wanted(lengths[row], 8) - len(chosen)
        assert room >= 0
        # A word is left out only if it did not fit when its turn came.
        assert all(size > room for size in sizes_left)


def test_a_word_does_not_reach_over_a_separator():
    word, piece = 10, FIRST_CONTINUATION
    ids = np.array([[CLS, word, SEP, piece, SEP]], np.int32)
    masking = MaskedLanguageModelMasking(VOCABULARY, 2, strategy="whole_word")
    for seed in range(20):
        out = apply(masking, ids, np.ones_like(ids), [[seed]])
        assert out["masked_lm_weights"].sum() == 1


def test_words_are_chosen_alike_whatever_their_place():
    # Words of 1, 2, 1, 3, 1 pieces; three pieces may be chosen.
    word, more = 10, FIRST_CONTINUATION
    ids = np.array([[word, word, more, word, word, more, more, word] + [PAD] * 12], np.int32)
    mask = np.ones_like(ids)
    rows = 6000
    masking = MaskedLanguageModelMasking(VOCABULARY, 3, strategy="whole_word")
    out = apply(masking, ids.repeat(rows, 0), mask.repeat(rows, 0), seeds_for(rows))
    used = out["masked_lm_weights"] > 0
    positions = np.where(used, out["masked_lm_positions"], -1)
    found = [np.mean((positions == first).any(axis=1)) for first in (0, 1, 3, 4, 7)]
    expected = _shares_by_simulation([1, 2, 1, 3, 1], 3, 40_000)
    for share, reference in zip(found, expected, strict=True):
        assert abs(share - reference) < 5 * np.sqrt(0.25 / rows + 0.25 / 40_000)


def _shares_by_simulation(sizes, budget, trials):
    """The original's loop: shuffled words, skipping those that would exceed the budget."""
    draw = np.random.default_rng(0)
    chosen = np.zeros(len(sizes))
    for _ in range(trials):
        room = budget
        for word in draw.permutation(len(sizes)):
            if sizes[word] <= room:
                chosen[word] += 1
                room -= sizes[word]
    return chosen / trials


def test_runs_hold_whole_words_and_keep_to_the_budget():
    ids, mask, lengths = make_batch(rows=512)
    masking = MaskedLanguageModelMasking(VOCABULARY, 8, strategy="ngram")
    out = apply(masking, ids, mask, seeds_for(len(ids)))
    for row in range(len(ids)):
        used = out["masked_lm_weights"][row] > 0
        chosen = set(out["masked_lm_positions"][row][used].tolist())
        words = words_of(ids[row])
        assert all(set(word) <= chosen or not chosen & set(word) for word in words)
        room = wanted(lengths[row], 8) - len(chosen)
        assert room >= 0
        # Every word is tried alone at the end, unless it is taken.
        assert all(len(word) > room for word in words if not chosen & set(word))


def test_a_run_does_not_reach_over_a_separator():
    ids = np.array([[CLS, 10, SEP, 11, SEP, 12, SEP]], np.int32)
    masking = MaskedLanguageModelMasking(VOCABULARY, 1, strategy="ngram")
    found = set()
    for seed in range(30):
        out = apply(masking, ids, np.ones_like(ids), [[seed]])
        assert out["masked_lm_weights"].sum() == 1
        found.add(int(out["masked_lm_positions"][0, 0]))
    assert found == {1, 3, 5}


# The reference is a plain loop over the paper's description: shuffled starts, runs of n words with
# a probability in proportion to 1 / n, shortened until they fit, none that overlap.
@pytest.mark.parametrize(
    ("sizes", "budget"), [([1] * 12, 1), ([1] * 12, 3), ([1, 2, 1, 3, 1, 1], 4), ([2, 2, 1], 3)]
)
def test_runs_are_drawn_as_in_albert(sizes, budget):
    pieces = [10 if not place else FIRST_CONTINUATION for size in sizes for place in range(size)]
    length = max(len(pieces), round(budget / 0.15))
    ids = np.array([pieces + [PAD] * (length - len(pieces))], np.int32)
    rows, trials = 8000, 20_000
    masking = MaskedLanguageModelMasking(VOCABULARY, budget, 0.99, strategy="ngram")
    mask = np.ones_like(ids).repeat(rows, 0)
    out = apply(masking, ids.repeat(rows, 0), mask, seeds_for(rows))
    used = out["masked_lm_weights"] > 0
    found = Counter(
        tuple(row[kept].tolist())
        for row, kept in zip(out["masked_lm_positions"], used, strict=True)
    )
    expected = _runs_by_simulation(sizes, budget, trials)
    for positions in found.keys() | expected.keys():
        share, reference = found[positions] / rows, expected[positions] / trials
        spread = np.sqrt(max(reference, 1 / trials) * (1 / rows + 1 / trials))
        assert abs(share - reference) < 5 * spread, positions


def _runs_by_simulation(sizes, budget, trials):
    draw = random.Random(0)
    starts = [sum(sizes[:n]) for n in range(len(sizes))]
    outcomes = Counter()
    for _ in range(trials):
        taken = set()
        for word in draw.sample(range(len(sizes)), len(sizes)):
            most = min(3, len(sizes) - word)
            count = draw.choices(range(1, most + 1), [1 / n for n in range(1, most + 1)])[0]
            while count and len(taken) + sum(sizes[word : word + count]) > budget:
                count -= 1
            end = starts[word] + sum(sizes[word : word + count])
            run = set(range(starts[word], end))
            if not run & taken:
                taken |= run
        outcomes[tuple(sorted(taken))] += 1
    return outcomes


def test_most_of_a_long_text_is_hidden_in_runs_of_the_lengths_of_the_paper():
    # With a small budget runs rarely touch each other: their lengths are those that were drawn.
    rows = 4000
    ids = np.full([rows, 512], 10, np.int32)
    masking = MaskedLanguageModelMasking(VOCABULARY, 3, strategy="ngram")
    out = apply(masking, ids, np.ones_like(ids), seeds_for(rows))
    first = out["masked_lm_positions"]
    assert (out["masked_lm_weights"] == 1).all()
    # A first run of three words has the probability (1 / 3) / (1 + 1 / 2 + 1 / 3) = 2 / 11.
    together = (np.diff(first, axis=1) == 1).all(axis=1).mean()
    assert abs(together - 2 / 11) < 5 * np.sqrt(2 / 11 * 9 / 11 / rows) + 0.01


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"max_predictions_per_seq": 0}, "max_predictions_per_seq is 0: it must be at least 1"),
        ({"masked_lm_prob": 0}, "masked_lm_prob is 0: "),
        ({"masked_lm_prob": "0.2"}, "masked_lm_prob is '0.2': it must be a number"),
        ({"mask_token_rate": None}, "mask_token_rate is None: it must be a number"),
        ({"mask_token_rate": 0.9, "random_token_rate": 0.2}, "random_token_rate 0.2 are together"),
        ({"mask_token_rate": -0.1}, "mask_token_rate is -0.1: it must be from 0 to 1"),
        ({"random_token_rate": float("nan")}, "random_token_rate is nan: it must be from 0 to 1"),
        ({"strategy": "word"}, "masking is 'word': choose one of token, whole_word, ngram"),
    ],
)
def test_bad_settings_are_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        MaskedLanguageModelMasking(
            **({"vocabulary": VOCABULARY, "max_predictions_per_seq": 5} | arguments)
        )


def test_a_vocabulary_without_pieces_has_nothing_to_mask():
    with pytest.raises(ValueError, match="special tokens only"):
        MaskedLanguageModelMasking(Vocabulary(VOCABULARY.tokens[:5]), 5)
