"""Words and pieces of texts, counted by hand, and by the tokenizer that counts nothing."""

import random

import pytest

from keras_bert import Vocabulary
from keras_bert.text import coverage
from keras_bert.text.corpus_tokenizer import CorpusTokenizer
from keras_bert.text.coverage import count_words, measure_coverage
from keras_bert.text.vocabulary import SPECIAL_TOKENS
from keras_bert.text.wordpiece.settings import Settings

VOCABULARY = Vocabulary([*SPECIAL_TOKENS, "play", "##ing", "##s", "a", "##b", ".", "never"])
# play ##ing ##s | a | play ##s | . || [UNK] of "öl" and of "x" | play || (nothing)
TEXTS = ["Playings a plays.", "öl x PLAY", "", "  "]


@pytest.fixture
def tokenizer():
    return CorpusTokenizer(VOCABULARY, Settings())


def test_the_sums(tokenizer):
    found = measure_coverage(tokenizer, TEXTS)
    assert found == (7, 10, 2, 3, 6, 12)
    assert found.pieces_per_word == pytest.approx(10 / 7)
    assert found.unknown_rate == pytest.approx(2 / 7)
    assert found.whole_rate == pytest.approx(3 / 7)
    assert str(found).startswith("1.429 pieces per word, 28.571 % of the words [UNK], 42.9 % one")
    assert measure_coverage(tokenizer, []) == (0, 0, 0, 0, 0, 12)


def test_words_and_characters(tokenizer):
    counts = count_words(tokenizer, [*TEXTS, "öl plays xö 好"])
    assert dict(counts.words_by_pieces) == {3: 1, 2: 2, 1: 8}
    assert counts.unknown == 5
    # The accent is stripped before: "ol". "b" is no beginning, but a continuation is an entry.
    assert counts.unknown_characters == {"o": 3, "l": 2, "x": 2, "好": 1}
    assert counts.commonest_split(1) == [("plays", 2)]
    assert counts.most_split(2) == [("playings", 1), ("plays", 2)]
    assert counts.commonest_unknown(1) == [("ol", 2)]
    assert counts.pieces("playings") == ["play", "##ing", "##s"]
    unused = [t for t, n in zip(VOCABULARY.tokens, counts.piece_counts, strict=True) if not n]
    assert unused == ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "##b", "never"]


def test_they_are_the_pieces_of_the_tokenizer(tokenizer):
    draw = random.Random(4)
    letters = "playingsab. öÖ'[MASK]Σς"
    texts = ["".join(draw.choices(letters, k=draw.randint(0, 40))) for _ in range(300)]
    counts = count_words(tokenizer, texts)
    ids, _ = tokenizer(texts)
    assert counts.coverage.pieces == len(ids)
    for piece, count in enumerate(counts.piece_counts):
        assert count == (ids == piece).sum()
    continues = VOCABULARY.continuation_mask[ids]
    assert counts.coverage.words == (~continues).sum()
    assert counts.words.total() == counts.coverage.words


def test_rare_words_are_added_up_and_forgotten(tokenizer, monkeypatch):
    texts = [f"play a{'b' * n}" for n in range(50)]
    whole = count_words(tokenizer, texts)
    monkeypatch.setattr(coverage, "_MOST_WORDS", 10)
    counts = count_words(tokenizer, texts)
    assert counts.coverage == whole.coverage
    assert (counts.piece_counts == whole.piece_counts).all()
    assert len(counts.words) <= 10
    assert counts.words["play"] == 50
    assert counts.forgotten + len(counts.words) == len(whole.words)


def test_a_single_string_is_refused(tokenizer):
    with pytest.raises(ValueError, match="read letter by letter"):
        measure_coverage(tokenizer, "unaffordable room")
