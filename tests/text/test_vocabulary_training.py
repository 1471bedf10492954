import subprocess
import sys
from collections import Counter

import pytest

from keras_bert import BertTokenizer, Vocabulary, train_byte_level_bpe, train_sentencepiece
from keras_bert.text.vocabulary_training import scaled_counts, train_vocabulary

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


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"vocab_size": 100.5}, "vocab_size is 100.5: it must be a whole number"),
        ({"lowercase": "no"}, "lowercase is 'no': give True or False"),
        ({"unused_slots": -3}, "unused_slots is -3: it must be 0 or more"),
        ({"texts": ["ab", None]}, "a text is a NoneType: give strings"),
        ({"texts": [b"ab"]}, "a text is a bytes: give strings"),
        ({"texts": {}}, "texts is a dictionary without a language: give those of one"),
        ({"texts": {"en": TEXTS}, "language_alpha": "0.5"}, "language_alpha is '0.5': it must be"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        train_vocabulary(**{"texts": TEXTS, "vocab_size": 100, **arguments})


@pytest.mark.parametrize("train", [train_byte_level_bpe, train_sentencepiece])
def test_other_families_refuse_the_same(train):
    for texts, sentence in (("ab ab " * 50, "letter by letter"), (["ab", None], "is a NoneType")):
        with pytest.raises(ValueError, match=sentence):
            train(texts, 300)
    with pytest.raises(ValueError, match="vocab_size is 300.5: it must be a whole number"):
        train(TEXTS, 300.5)


def test_half_a_surrogate_pair_is_no_character():
    assert train_vocabulary(["ab\ud800 ab", "ab"], 100) == train_vocabulary(["ab ab", "ab"], 100)


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


def test_a_single_string_is_refused():
    for texts in ("ab ab", {"en": "ab ab"}):
        with pytest.raises(ValueError, match="read letter by letter"):
            train_vocabulary(texts, 100)
    with pytest.raises(ValueError, match="texts is None: give a list of texts"):
        train_vocabulary(None, 100)
    with pytest.raises(ValueError, match="tokens is None: give the list of all pieces"):
        Vocabulary(None)


# A private-use bullet, a pair of cases of Unicode 16, a final sigma, a dotted capital I, an accent.
ODD = ["\uf0b7 item \uf0b7item", "\ua7cb\u1c89 \u039f\u03a3 \u0130x e\u0301"]
ODD = [*ODD, "a\u00adb \u200bc \ufffd\x00"] * 2


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("languages", [False, True])
def test_every_word_of_the_texts_is_spelled(lowercase, languages):
    texts = {"one": ODD[:3], "two": ODD} if languages else ODD
    vocabulary = train_vocabulary(texts, 200, lowercase=lowercase)
    ids = BertTokenizer(vocabulary, lowercase=lowercase)(ODD)
    assert vocabulary.unk_id not in ids.flat_values.numpy()
    # By hand: the bullet stays, and belongs to the word that it touches.
    assert "\uf0b7item" in vocabulary


# "ab" 90 and "ac" 10 times; "xy" 3 times and "xz" once.
LANGUAGES = {"large": [" ".join(["ab"] * 90 + ["ac"] * 10)], "small": ["xy xy xy xz"]}


@pytest.mark.parametrize(
    ("alpha", "expected"),
    [
        (1.0, {"ab": 90, "ac": 10, "xy": 3, "xz": 1}),
        # Roots 10 and 2: shares 5/6 and 1/6, so that 4 words become 20, each counting five times.
        (0.5, {"ab": 90, "ac": 10, "xy": 15, "xz": 5}),
        # Both alike: 100 words each.
        (0.0, {"ab": 90, "ac": 10, "xy": 75, "xz": 25}),
    ],
)
def test_counts_of_languages_are_scaled_to_smoothed_shares(alpha, expected):
    counts = {name: Counter(texts[0].split()) for name, texts in LANGUAGES.items()}
    assert scaled_counts(counts, alpha) == expected


def test_the_words_of_a_small_language_count_for_more():
    # Four letters and their continuations stand first; then comes the most frequent pair, and "xz"
    # occurs as often as min_frequency asks with alpha 0.5 and not with alpha 1.
    by_size = train_vocabulary(LANGUAGES, 100, min_frequency=4)
    assert {"ab", "ac"} <= set(by_size.tokens) and not {"xy", "xz"} & set(by_size.tokens)
    smoothed = train_vocabulary(LANGUAGES, 100, min_frequency=4, language_alpha=0.5)
    assert smoothed.tokens[-4:] == ("ab", "xy", "ac", "xz")  # 90, 15, 10 and 5 times
    uniform = train_vocabulary(LANGUAGES, 100, min_frequency=4, language_alpha=0.0)
    assert uniform.tokens[-4:] == ("ab", "xy", "xz", "ac")  # 90, 75, 25 and 10 times


def test_languages_at_their_sizes_give_the_vocabulary_of_all_texts_together():
    together = train_vocabulary([*TEXTS, "Ψυχή ψυχή", "東京 tower's"], 90)
    apart = {"en": TEXTS, "other": iter(["Ψυχή ψυχή", "東京 tower's"])}
    assert train_vocabulary(apart, 90) == together
    # The order of the languages makes no difference.
    small = train_vocabulary(LANGUAGES, 100, language_alpha=0.3)
    assert train_vocabulary(dict(reversed(LANGUAGES.items())), 100, language_alpha=0.3) == small


def test_counts_above_a_thousand_are_whole():
    texts = {"a": ["qq " * 2500 + "rr " * 2501], "b": ["s"]}
    tokens = train_vocabulary(texts, 100, min_frequency=2501).tokens
    assert "rr" in tokens and "qq" not in tokens


def test_a_language_without_words_is_named():
    with pytest.raises(ValueError, match="language is has no text"):
        train_vocabulary({"en": ["a"], "is": [" "]}, 100)


def test_an_alpha_without_languages_is_refused():
    with pytest.raises(ValueError, match="language_alpha is 0.5, but the texts are of one"):
        train_vocabulary(TEXTS, 100, language_alpha=0.5)
