"""Words of Chinese and Japanese: where they begin among the pieces, which stay as they were."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert.text.corpus_tokenizer import CorpusTokenizer
from keras_bert.text.languages import word_boundaries
from keras_bert.text.languages.word_boundaries import WordBoundaries, load_segmenter
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from keras_bert.text.wordpiece.settings import Settings

LETTERS = "abcdefghijklmnopqrstuvwxyz"
KANA = "これはペンでシャツをべたまし"
HAN = "我喜欢北京天安门食東大学"
PIECES = dict.fromkeys(
    [*HAN, *KANA, *LETTERS, "。", ".", *(f"##{c}" for c in [*KANA, *LETTERS]), "です", "##です"]
)
VOCABULARY = Vocabulary([*SPECIAL_TOKENS, *PIECES])


def cut_in(words):
    """A segmenter that knows these words; any other character is a word."""

    def segment(run):
        found, position = [], 0
        while position < len(run):
            word = next((w for w in words if run.startswith(w, position)), run[position])
            found.append(word)
            position += len(word)
        return found

    return segment


def marked(text, words, monkeypatch, **changes):
    """The pieces of a text, with "+" before those that go on with a word."""
    monkeypatch.setattr(word_boundaries, "load_segmenter", lambda name: cut_in(words))
    options = Settings(**({"lowercase": False} | changes))
    ids, sizes = CorpusTokenizer(VOCABULARY, options)(["ab", text])
    continues = WordBoundaries(VOCABULARY, options, "jieba")(["ab", text], ids, sizes)
    assert continues[:2].tolist() == [0, 1]  # a ##b
    pieces = zip(ids[2:], continues[2:], strict=True)
    return " ".join("+" * flag + VOCABULARY.tokens[piece] for piece, flag in pieces)


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ("我喜欢北京。", ["喜欢", "北京"], "我 喜 +欢 北 +京 。"),
        # Between other scripts, spaces and characters that the tokenizer drops.
        ("ab 北\u200b京 cd.北京", ["北京"], "a +##b 北 京 c +##d . 北 +京"),
        # Kana are one word of BERT's; the segmenter divides it.
        ("これはペンです", ["これ", "ペン", "です"], "こ +##れ ##は ##ペ +##ン ##です"),
        # A piece that reaches over the end of a word begins where it begins.
        ("はです", ["はで"], "は +##です"),
        ("食べました", ["食べ", "まし"], "食 +べ ##ま +##し ##た"),
        # Behind a letter, kana go on with its word.
        ("tシャツ", ["シャツ"], "t +##シ +##ャ +##ツ"),
        # An unknown word is one piece.
        ("我ω喜欢", ["喜欢"], "我 [UNK] 喜 +欢"),
        ("ψω北京", ["北京"], "[UNK] 北 +京"),
    ],
)
def test_pieces_go_on_with_the_words_of_the_segmenter(text, words, expected, monkeypatch):
    assert marked(text, words, monkeypatch) == expected


def test_characters_that_change_are_counted_off(monkeypatch):
    # Accents go, \u0130 becomes an i; the dots of kana are accents too, so that べ becomes へ.
    text = "E\u0301北京 \u0130\u00e9北京 食べ北京"
    found = marked(text, ["北京", "食べ"], monkeypatch, lowercase=True)
    assert found == "e 北 +京 i +##e 北 +京 食 +[UNK] 北 +京"


def test_spelled_special_tokens_are_counted_off(monkeypatch):
    text = "[MASK]北京[UNK]北京"
    kept = marked(text, ["北京"], monkeypatch, keep_special_tokens=True)
    assert kept == "[MASK] 北 +京 [UNK] 北 +京"
    assert marked(text, ["北京"], monkeypatch).endswith("[UNK] 北 +京")


@settings(max_examples=150, deadline=None)
@given(st.text(st.sampled_from([*HAN, *KANA, *"abAÉéΣσς İſß \u0301\u200b\u3000ω."]), max_size=12))
def test_any_text_gives_a_flag_a_piece(text):
    options = Settings(lowercase=True)
    ids, sizes = CorpusTokenizer(VOCABULARY, options)([text])
    load, word_boundaries.load_segmenter = load_segmenter, lambda name: list
    try:
        continues = WordBoundaries(VOCABULARY, options, "jieba")([text], ids, sizes)
    finally:
        word_boundaries.load_segmenter = load
    assert len(continues) == len(ids)
    # Every character is a word here, so that only other scripts have pieces that go on.
    for piece, flag in zip(ids, continues, strict=True):
        token = VOCABULARY.tokens[piece]
        if flag:
            assert token.startswith("##")
        elif token.startswith("##"):
            assert token[2] in KANA


def test_chinese_words_of_jieba():
    assert load_segmenter("jieba")("我爱北京天安门") == ["我", "爱", "北京", "天安门"]


def test_japanese_words_of_fugashi():
    assert load_segmenter("fugashi")("これはペンです") == ["これ", "は", "ペン", "です"]


def test_a_segmenter_that_is_unknown_or_not_installed_is_named(monkeypatch):
    with pytest.raises(ValueError, match="word_segmenter is 'mecab': choose one of jieba, fugashi"):
        load_segmenter("mecab")
    for package in ("unidic_lite", "jieba"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ValueError, match=r"not installed: pip install jieba$"):
        load_segmenter("jieba")
    with pytest.raises(ValueError, match=r"not installed: pip install fugashi unidic-lite$"):
        load_segmenter("fugashi")


def test_flags_of_an_empty_text_are_empty(monkeypatch):
    monkeypatch.setattr(word_boundaries, "load_segmenter", lambda name: list)
    boundaries = WordBoundaries(VOCABULARY, Settings(lowercase=True), "jieba")
    assert boundaries([""], np.zeros(0, np.int32), np.zeros(1, np.int64)).tolist() == []
