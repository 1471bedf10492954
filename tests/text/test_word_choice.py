"""Words that deserve a piece of their own, worked out by hand, and lists of words."""

import pytest

from keras_bert import Vocabulary
from keras_bert.text.corpus_tokenizer import CorpusTokenizer
from keras_bert.text.coverage import count_words
from keras_bert.text.vocabulary import SPECIAL_TOKENS
from keras_bert.text.wordpiece.new_words import choose_new_words, read_words
from keras_bert.text.wordpiece.settings import Settings

VOCABULARY = Vocabulary(
    [*SPECIAL_TOKENS, "play", "##ing", "##s", "a", "##b", "##a", "1", "##1", "[unused1]"]
)
# 3 pieces: playings (3 times), aba (3 times), abab (4 pieces, 2 times); 2 pieces: plays (4 times);
# digits alone (111: 3 pieces, 5 times); [UNK]: öl (6 times)
TEXTS = [
    "Playings, playings PLAYINGS. aba aba aba",
    "abab abab plays plays plays plays",
    "111 111 111 111 111 öl öl öl öl öl öl a a a a a a a",
]


@pytest.fixture
def tokenizer():
    return CorpusTokenizer(VOCABULARY, Settings())


@pytest.fixture
def counts(tokenizer):
    return count_words(tokenizer, TEXTS)


@pytest.mark.parametrize(
    ("most", "min_pieces", "min_frequency", "expected"),
    [
        (9, 3, 1, ["aba", "playings", "abab"]),  # equally frequent: in alphabetical order
        (2, 3, 1, ["aba", "playings"]),
        (1, 2, 1, ["plays"]),
        (9, 4, 2, ["abab"]),
        (9, 4, 3, []),
    ],
)
def test_the_commonest_words_of_many_pieces_come_first(
    counts, most, min_pieces, min_frequency, expected
):
    assert choose_new_words(counts, most, min_pieces, min_frequency) == expected


def test_words_of_one_piece_are_no_candidates(counts):
    with pytest.raises(ValueError, match="min_pieces is 1: a word of one piece needs no other"):
        choose_new_words(counts, 9, 1, 1)


def test_the_same_words_with_a_grown_vocabulary(counts):
    grown = VOCABULARY.add_tokens(["playings", "aba"])
    tokenizer = CorpusTokenizer(grown, Settings())
    found, again = counts.recounted(tokenizer), count_words(tokenizer, TEXTS)
    assert found.coverage == again.coverage
    # "aba" is one piece now, and the beginning of "abab", which has two: aba ##b
    assert counts.pieces("abab") == ["a", "##b", "##a", "##b"]
    assert found.pieces("abab") == ["aba", "##b"]
    # 3 words lose 2 pieces each, as do 3 others, and 2 words lose 2
    assert counts.coverage.pieces - found.coverage.pieces == 3 * 2 + 3 * 2 + 2 * 2


def test_a_list_of_words_is_normalized_as_the_tokenizer_does(tokenizer, tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("\n  Plays \nÀba\nplays\n", encoding="utf-8")
    assert read_words(path, tokenizer) == ["plays", "aba"]


def test_a_list_that_is_not_there_is_named(tokenizer, tmp_path):
    with pytest.raises(FileNotFoundError, match="no.txt does not exist: give a file with a word"):
        read_words(tmp_path / "no.txt", tokenizer)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("plays\na b\n", r"words\.txt, line 2: 'a b' is 2 words to the tokenizer \(a b\)"),
        ("a-b", r"line 1: 'a-b' is 3 words to the tokenizer \(a - b\)"),
        ("a\n\nxylem", r"line 3: 'xylem' is \[UNK\] with the vocabulary so far"),
        ("\u200b\n", r"line 1: '\\u200b' is 0 words"),
        ("a" * 201, r"line 1: a word of 201 characters is \[UNK\] whatever the vocabulary"),
        ("a\nplöys\n", r"words\.txt, line 2 is not UTF-8: convert the file to UTF-8"),
        ("\n \n", r"words\.txt holds no word"),
    ],
)
def test_lines_that_cannot_become_a_piece_are_named(tokenizer, tmp_path, content, message):
    path = tmp_path / "words.txt"
    path.write_bytes(content.encode("latin-1" if "ö" in content else "utf-8"))
    with pytest.raises(ValueError, match=message):
        read_words(path, tokenizer)
