import subprocess
import sys

import pytest

from keras_bert.text.vocabulary_training import train_vocabulary

TEXTS = ["The cat sat. The cats sat!", "A hat, a mat: hats and mats.", "Ünder 東京 the hat."] * 3


def test_order_is_specials_then_characters_then_pieces():
    tokens = train_vocabulary(TEXTS, 80, unused_slots=2).tokens
    assert tokens[:7] == ("[PAD]", "[unused1]", "[unused2]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    singles = [token for token in tokens[7:] if len(token) == 1]
    inside = [token for token in tokens[7:] if len(token) == 3 and token.startswith("##")]
    # By hand: accents are stripped, 東 and 京 are words of their own, punctuation stands alone.
    assert singles == sorted("!,.:acdehmnrstu東京")
    assert inside == ["##" + letter for letter in "adehnrst"]
    assert list(tokens[7:]) == singles + inside + list(tokens[7 + len(singles) + len(inside) :])
    # "at" is the most frequent pair.
    assert tokens[7 + len(singles) + len(inside)] == "##at"
    assert {"hat", "the", "cat", "sat", "mat"} < set(tokens)


def test_the_length_is_what_was_asked_for_or_what_the_texts_hold():
    most = len(train_vocabulary(TEXTS, 10_000))
    assert most < 100
    assert len(train_vocabulary(TEXTS, most - 7)) == most - 7


def test_rare_pairs_are_not_joined():
    texts = ["wordy wordy wordy", "xyz xyz"]
    assert "xyz" in train_vocabulary(texts, 100, min_frequency=2)
    vocabulary = train_vocabulary(texts, 100, min_frequency=3)
    assert "wordy" in vocabulary and "xyz" not in vocabulary


def test_cased_texts_keep_case_and_accents():
    vocabulary = train_vocabulary(["Ünder Ünder"], 100, lowercase=False)
    assert "Ünder" in vocabulary and "under" not in vocabulary
    assert "under" in train_vocabulary(["Ünder Ünder"], 100)


def test_the_alphabet_can_be_limited_to_the_most_frequent_characters():
    vocabulary = train_vocabulary(["aaa bbb bb cc d"] * 2, 100, limit_alphabet=2)
    assert {"a", "b"} <= set(vocabulary.tokens)
    assert not {"c", "d"} & set(vocabulary.tokens)


def test_equally_frequent_characters_are_kept_in_the_order_of_code_points():
    vocabulary = train_vocabulary(["zz yy xx ww vv"], 100, limit_alphabet=3)
    assert [token for token in vocabulary.tokens if len(token) == 1] == ["v", "w", "x"]


@pytest.mark.parametrize("name", ["min_frequency", "limit_alphabet"])
@pytest.mark.parametrize("value", [0, -1])
def test_numbers_below_1_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} is {value}: it must be at least 1"):
        train_vocabulary(TEXTS, 100, **{name: value})


def test_an_iterator_will_do():
    assert train_vocabulary(iter(TEXTS), 60) == train_vocabulary(TEXTS, 60)


# Texts in which every pair of letters is as frequent as every other.
TIES = (
    "import sys; from keras_bert.text.vocabulary_training import train_vocabulary as t; a = "
    "'abcdefghij'; print(t([x + y + z for x in a for y in a for z in a] * 2, 300).sha256)"
)


def test_ties_are_broken_alike_in_every_process():
    runs = [
        subprocess.run([sys.executable, "-c", TIES], capture_output=True, text=True, check=True)
        for _ in range(4)
    ]
    assert len({run.stdout for run in runs}) == 1


@pytest.mark.parametrize("texts", [[], ["", " \t"]])
def test_no_text_is_refused(texts):
    with pytest.raises(ValueError, match="hold no word"):
        train_vocabulary(texts, 100)


def test_too_small_a_size_is_refused():
    with pytest.raises(ValueError, match="vocab_size is 20, but 5 special .* raise it"):
        train_vocabulary(TEXTS, 20)
