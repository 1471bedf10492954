"""Kinds, scripts and lengths of entries by hand; dead entries by the graph tokenizer."""

from pathlib import Path

import pytest

from keras_bert import BertTokenizer, Vocabulary
from keras_bert.text.vocabulary import SPECIAL_TOKENS
from keras_bert.text.vocabulary_contents import describe_vocabulary, script_of
from keras_bert.text.wordpiece.settings import Settings
from tests.markers import some_fast

GOLDEN = Path(__file__).parents[1] / "golden" / "vocab_uncased.txt"
ENTRIES = [
    *("[unused0]", "[unused17]", "play", "a", "7", "1990", "##ing", "##s", "好", "##好", "."),
    *("##!", "ключ", "Play", "café", "a.b", "new york", "##", "x" * 201, "##İ", "３d"),
]


def test_every_entry_has_a_kind_a_length_and_a_script():
    found = describe_vocabulary(Vocabulary([*SPECIAL_TOKENS, *ENTRIES]), Settings(), longest=3)
    assert found.kinds == {
        "words and beginnings": 10,
        "continuations (##)": 1,
        "single characters": 4,
        "continuations of one character (##)": 4,
        "special tokens": 5,
        "[unused] slots": 2,
    }
    assert found.scripts["Latin"] == 11
    assert (found.scripts["Han"], found.scripts["Cyrillic"], found.scripts["digits"]) == (2, 1, 2)
    assert found.scripts["punctuation and symbols"] == 3  # "##" without anything is one of them
    assert sum(found.scripts.values()) == len(ENTRIES) - 2
    assert found.lengths[1] == 4 and found.lengths[201] == 1
    assert found.continuation_lengths == {0: 1, 1: 4, 3: 1}
    assert found.longest == ("x" * 201, "new york", "play")


def test_what_no_text_produces_and_why():
    found = describe_vocabulary(Vocabulary([*SPECIAL_TOKENS, *ENTRIES]), Settings()).unreachable
    assert {entry.token: (entry.reason, entry.becomes) for entry in found} == {
        "##好": ("the tokenizer splits it", "好"),
        "##!": ("the tokenizer splits it", "!"),
        "Play": ("the tokenizer writes it otherwise", "play"),
        "café": ("the tokenizer writes it otherwise", "cafe"),
        "a.b": ("the tokenizer splits it", "a . b"),
        "new york": ("it holds white space", "new york"),
        "##": ("nothing stands behind its ##", ""),
        "x" * 201: ("it is longer than 200 characters", "x" * 201),
        "##İ": ("the tokenizer writes it otherwise", "i"),
    }
    cased = describe_vocabulary(
        Vocabulary([*SPECIAL_TOKENS, *ENTRIES]), Settings(lowercase=False, split_cjk=False)
    )
    dead = {entry.token for entry in cased.unreachable}
    assert dead.isdisjoint({"Play", "café", "##好", "##İ"})
    assert {"a.b", "##!"} <= dead


@pytest.mark.parametrize("lowercase", some_fast((True, False), (True,)))
def test_the_graph_tokenizer_produces_all_others(lowercase):
    """Each word alone, and each continuation behind a beginning that ends nowhere else."""
    vocabulary = Vocabulary.from_file(GOLDEN)
    found = describe_vocabulary(vocabulary, Settings(lowercase=lowercase))
    dead = {entry.token for entry in found.unreachable}
    # Pieces of no more than one letter and the body: nothing longer can match before it.
    bodies = [t.removeprefix("##") for t in vocabulary.tokens if t.startswith("##") and t != "##"]
    small = Vocabulary([*SPECIAL_TOKENS, "q", *(f"##{body}" for body in bodies)])
    words = [
        token
        for token in vocabulary.tokens
        if not token.startswith(("##", "[")) or token in ("[", "#")
    ]
    for tokens, texts, tokenizer in (
        (words, words, BertTokenizer(vocabulary, lowercase=lowercase)),
        (
            [f"##{body}" for body in bodies],
            [f"q{body}" for body in bodies],
            BertTokenizer(small, lowercase=lowercase),
        ),
    ):
        ids = tokenizer(texts).to_list()
        produced = {
            token
            for token, pieces in zip(tokens, ids, strict=True)
            if pieces[-1:] == [tokenizer.vocabulary.id_of(token)]
        }
        assert {token for token in tokens if token not in produced} == dead & set(tokens)


@pytest.mark.parametrize(
    ("body", "script"),
    [
        ("word", "Latin"),
        ("naïve2", "Latin"),
        ("e\u0301", "Latin"),
        ("ｆｕｌｌ", "Latin"),
        ("ελ", "Greek"),
        ("漢字", "Han"),
        ("漢かな", "several scripts"),
        ("ﾊﾝ", "Katakana"),
        ("हिन्दी", "Devanagari"),
        ("1,000", "digits"),
        ("...", "punctuation and symbols"),
        ("😀", "punctuation and symbols"),
        ("\u0301", "combining marks"),
    ],
)
def test_scripts(body, script):
    assert script_of(body) == script
