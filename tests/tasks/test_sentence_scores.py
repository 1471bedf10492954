"""Scores of sentences and guesses for every word, against a loop with one row at a time."""

import math

import keras
import numpy as np
import pytest

from keras_bert import (
    BertClassifier,
    BertMaskedLM,
    BertTokenizer,
    SentenceScorer,
    guess_every_word,
)
from keras_bert.tasks.fill_mask.guesses import fill_mask
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.signatures.tiny_models import PIECES, random_texts, tiny_config
from tests.tolerances import ORACLE, REORDERED, approx

# 24 positions of the tiny models, less [CLS] and [SEP].
ROOM = 22
TEXTS = ["the film", "", "ab (cde) the", "x", "film film .", "中 ☃ zz", "a b c d e f g h the i j k"]


@pytest.fixture(scope="module")
def folder(model_folder):
    return model_folder("masked_lm")


@pytest.fixture(scope="module")
def model(folder):
    return BertMaskedLM.from_preset(folder, dtype="float32")


@pytest.fixture(scope="module")
def tokenizer(folder):
    return BertTokenizer.from_preset(folder)


def log_softmax(logits):
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def ask(model, tokenizer, ids, hidden):
    """Log-probabilities [pieces, V] of one row, some pieces of which are hidden."""
    vocabulary = tokenizer.vocabulary
    row = [vocabulary.mask_id if i in hidden else piece for i, piece in enumerate(ids)]
    row = np.array([[vocabulary.cls_id, *row, vocabulary.sep_id]], np.int32)
    inputs = {
        "input_ids": row,
        "input_mask": np.ones_like(row),
        "segment_ids": np.zeros_like(row),
        "masked_lm_positions": np.arange(1, 1 + len(ids), dtype=np.int32)[None],
    }
    return log_softmax(np.array(model(inputs))[0])


def one_at_a_time(model, tokenizer, ids):
    return [ask(model, tokenizer, ids, [i])[i, piece] for i, piece in enumerate(ids)]


def word_from_left_to_right(model, tokenizer, ids):
    """Each piece with all behind it in its word masked: these begin with "##"."""
    tokens, found = tokenizer.vocabulary.tokens, []
    for i, piece in enumerate(ids):
        rest = range(i + 1, len(ids))
        end = next((j for j in rest if not tokens[ids[j]].startswith("##")), len(ids))
        found.append(ask(model, tokenizer, ids, range(i, end))[i, piece])
    return found


@pytest.mark.parametrize(
    ("within_word", "by_hand"), [(False, one_at_a_time), (True, word_from_left_to_right)]
)
def test_scores_are_those_of_one_mask_at_a_time(model, tokenizer, within_word, by_hand):
    scorer = SentenceScorer(model, tokenizer, within_word, batch_size=8)
    scores = list(scorer(TEXTS))
    assert [score.text for score in scores] == TEXTS
    for score, ids in zip(scores, tokenizer(TEXTS).to_list(), strict=True):
        assert score.pieces == tuple(tokenizer.vocabulary.tokens[i] for i in ids)
        expected = by_hand(model, tokenizer, ids)
        np.testing.assert_allclose(score.log_probabilities, expected, **REORDERED)
        assert score.log_likelihood == approx(sum(expected), REORDERED)
        if ids:
            mean = sum(expected) / len(ids)
            assert score.perplexity == approx(math.exp(-mean), {"rtol": 1e-4, "atol": 0})


def test_the_two_ways_differ_within_words_only(model, tokenizer):
    plain, within = (
        next(iter(SentenceScorer(model, tokenizer, way)(["the abc film"]))) for way in (False, True)
    )
    assert plain.pieces == ("the", "a", "##b", "##c", "film")
    apart = np.abs(plain.log_probabilities - within.log_probabilities)
    assert (apart[[0, 3, 4]] < 1e-5).all()  # whole words, and the last piece of one
    assert (apart[[1, 2]] > 1e-3).all()


def test_nothing_has_a_score_and_no_perplexity(model, tokenizer):
    [empty, unknown] = SentenceScorer(model, tokenizer)(["", "☃ the"])
    assert (empty.pieces, empty.log_likelihood) == ((), 0.0)
    assert math.isnan(empty.perplexity)
    assert (empty.unknown_pieces, unknown.unknown_pieces) == (0, 1)


def test_a_model_without_numbers_is_refused(folder, tokenizer):
    broken = BertMaskedLM.from_preset(folder, dtype="float32")
    for weight in broken.weights:
        weight.assign(np.full(weight.shape, np.nan))
    keeps = BertTokenizer.from_preset(folder, keep_special_tokens=True)
    for ask in (
        lambda: list(SentenceScorer(broken, tokenizer)(["the film"])),
        lambda: guess_every_word(broken, tokenizer, "the film"),
        lambda: fill_mask(broken, keeps, "the [MASK]"),
    ):
        with pytest.raises(ValueError, match="^the model answers nan, which is no number"):
            ask()


def test_batches_do_not_change_scores(model, tokenizer):
    texts = random_texts(12, 1, longest=6)
    one, many = (
        [score.log_likelihood for score in SentenceScorer(model, tokenizer, batch_size=size)(texts)]
        for size in (1, 32)
    )
    np.testing.assert_allclose(one, many, rtol=1e-5, atol=1e-4)  # sums of up to 60 pieces


def test_each_piece_of_a_long_text_has_the_window_with_most_context(model, tokenizer):
    # 30 pieces: windows of 22 that begin at 0 and, half a window on, at 11.
    text = " ".join(PIECES[:26]) + " the film the film"
    [score] = SentenceScorer(model, tokenizer)([text])
    [ids] = tokenizer([text]).to_list()
    assert len(ids) == len(score.pieces) == 30
    first, second = ids[:ROOM], ids[11:]
    expected = {
        5: ask(model, tokenizer, first, [5])[5, ids[5]],
        14: ask(model, tokenizer, first, [14])[14, ids[14]],  # 7 on the poorer side, not 3
        19: ask(model, tokenizer, second, [8])[8, ids[19]],  # 8 on the poorer side, not 2
        29: ask(model, tokenizer, second, [18])[18, ids[29]],
    }
    found = {index: score.log_probabilities[index] for index in expected}
    assert found == approx(expected, REORDERED)


def test_every_word_is_guessed_with_all_its_pieces_masked(model, tokenizer):
    text = "The abc, film"
    words = guess_every_word(model, tokenizer, text, top=3)
    assert [(w.word, w.start, w.end) for w in words] == [
        ("The", 0, 3),
        ("abc", 4, 7),
        (",", 7, 8),
        ("film", 9, 13),
    ]
    assert [piece.piece for word in words for piece in word.pieces] == (
        ["the", "a", "##b", "##c", ",", "film"]
    )
    [ids] = tokenizer([text]).to_list()
    logs = ask(model, tokenizer, ids, [1, 2, 3])
    for position, piece in zip((1, 2, 3), words[1].pieces, strict=True):
        row = logs[position]
        assert piece.probability == approx(math.exp(row[ids[position]]), REORDERED)
        assert piece.rank == 1 + int(np.sum(row > row[ids[position]]))
        best = np.argsort(-row)[:3]
        assert [guess.piece for guess in piece.guesses] == (
            [tokenizer.vocabulary.tokens[i] for i in best]
        )
        np.testing.assert_allclose(
            [guess.probability for guess in piece.guesses], np.exp(row[best]), **REORDERED
        )


def test_a_word_of_one_piece_is_guessed_as_fill_mask_guesses_it(folder, model, tokenizer):
    words = guess_every_word(model, tokenizer, "a film , b", top=4)
    reads_masks = BertTokenizer.from_preset(folder, keep_special_tokens=True)
    [expected] = fill_mask(model, reads_masks, "a [MASK] , b", top=4)
    [piece] = words[1].pieces
    assert [guess.piece for guess in piece.guesses] == [guess.piece for guess in expected]


def test_words_of_long_and_of_empty_texts(model, tokenizer):
    assert guess_every_word(model, tokenizer, "  ") == []
    words = guess_every_word(model, tokenizer, "the film " * 40, top=1)
    assert [word.word for word in words] == ["the", "film"] * 40
    # A word longer than the model's rows is cut to one.
    [word] = guess_every_word(model, tokenizer, "a" * 40, top=1)
    assert (word.word, len(word.pieces)) == ("a" * 40, ROOM)


def test_rows_of_the_embedding_without_a_piece_are_no_guess():
    keras.utils.set_random_seed(1)
    vocabulary = Vocabulary([*SPECIAL_TOKENS, *PIECES])
    padded = -(-len(vocabulary) // 64) * 64
    model = BertMaskedLM(tiny_config(vocab_size=padded))
    bias = np.zeros(padded, np.float32)
    bias[len(vocabulary) :] = 50.0
    model.get_layer("masked_lm_bias").bias.assign(bias)
    tokenizer = BertTokenizer(vocabulary)
    [word] = guess_every_word(model, tokenizer, "film", top=200)
    guesses = word.pieces[0].guesses
    assert len(guesses) == len(vocabulary)
    assert sum(guess.probability for guess in guesses) == approx(1.0, REORDERED)
    assert word.pieces[0].probability > 1e-6


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (
            lambda: BertMaskedLM(tiny_config(left_to_right=True)),
            "reads from left to right, .* pretrained with masked words",
        ),
        (
            lambda: BertClassifier(tiny_config(), num_classes=2),
            "the model is a BertClassifier: give a BertMaskedLM",
        ),
        (lambda: BertMaskedLM(tiny_config(vocab_size=9)), "vocab_size is 9: pass the vocabulary"),
    ],
)
def test_a_model_that_cannot_score_is_refused(make, reason, tokenizer):
    with pytest.raises(ValueError, match=reason):
        SentenceScorer(make(), tokenizer)
    with pytest.raises(ValueError, match=reason):
        guess_every_word(make(), tokenizer, "film")
    if "vocab_size" not in reason:
        with pytest.raises(ValueError, match=reason):
            fill_mask(make(), tokenizer, "a [MASK]")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a film", r"^'a film' holds no \[MASK\]: put it where a word is missing$"),
        ("a " * 50, r"^the first 24 pieces of '(a ){30}\.\.\.' hold no \[MASK\]: put it where"),
        ("a " * 50 + "[MASK]", r"^the first 24 pieces of .* hold no \[MASK\]: put it where"),
        ("a " * 22, r"^'(a ){22}' holds no \[MASK\]: "),  # which has room
        ("a [mask] film", r"^'a \[mask\] film' holds no \[MASK\]: write \[MASK\], not \[mask\]$"),
        ("a <mask>", r"^'a <mask>' holds no \[MASK\]: write \[MASK\], not <mask>$"),
        (
            " ",
            r"^text is ' ', which holds no word: give one with \[MASK\] where a word is missing$",
        ),
    ],
)
def test_a_text_without_a_mask_is_told_what_it_needs(text, sentence, folder, model):
    keeps = BertTokenizer.from_preset(folder, keep_special_tokens=True)
    with pytest.raises(ValueError, match=sentence):
        fill_mask(model, keeps, text)


def test_a_wrong_number_is_refused(model, tokenizer):
    with pytest.raises(ValueError, match="batch_size is 0: it must be at least 1"):
        SentenceScorer(model, tokenizer, batch_size=0)
    with pytest.raises(ValueError, match="read letter by letter"):
        SentenceScorer(model, tokenizer)("He left .")
    with pytest.raises(ValueError, match="top is -1: it must be 0 or more"):
        guess_every_word(model, tokenizer, "film", top=-1)


@pytest.mark.oracle
def test_scores_are_those_of_transformers(folder, model, tokenizer, tmp_path):
    import torch
    import transformers

    from keras_bert.models.conversion.convert import convert

    convert(folder, tmp_path, "hf")
    peer = transformers.BertForMaskedLM.from_pretrained(tmp_path).eval()
    vocabulary = tokenizer.vocabulary
    scores = list(SentenceScorer(model, tokenizer)(TEXTS))
    for score, ids in zip(scores, tokenizer(TEXTS).to_list(), strict=True):
        expected = []
        for index, piece in enumerate(ids):
            row = [vocabulary.cls_id, *ids, vocabulary.sep_id]
            row[index + 1] = vocabulary.mask_id
            with torch.no_grad():
                logits = peer(torch.tensor([row])).logits[0, index + 1]
            expected.append(torch.log_softmax(logits, -1)[piece].item())
        np.testing.assert_allclose(score.log_probabilities, expected, **ORACLE)


def test_a_folder_without_a_head_for_words_is_refused(model_folder):
    with pytest.raises(ValueError, match="holds a BertEncoder, which predicts no masked words"):
        SentenceScorer.from_preset(model_folder("encoder"))
