"""The corpus tokenizer against `BertTokenizer`, which the oracle of the original has tested."""

import functools
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_tokenizer_unicode import RANGES, SETTINGS, SPECIAL, TRICKY, code_points, in_texts, texts
from test_tokenizer_unicode import tokenizer as bert_tokenizer

from keras_bert.text import corpus_tokenizer
from keras_bert.text.corpus_tokenizer import CorpusTokenizer
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.text.wordpiece.settings import Settings
from tests.markers import some_long

GOLDEN = Path(__file__).parents[1] / "golden"
ROOT = Path(__file__).parents[2]


@functools.cache
def corpus_tokenizer_like(split):
    return CorpusTokenizer(split.vocabulary, Settings(**split.settings))


def check(split, batch):
    """Compares ids and sizes with those of a `BertTokenizer`."""
    corpus = corpus_tokenizer_like(split)
    expected = split(batch)
    for _ in range(2):  # the second time from memory
        ids, sizes = corpus(batch)
        assert sizes.tolist() == expected.row_lengths().numpy().tolist()
        assert ids.tolist() == expected.flat_values.numpy().tolist()


@pytest.mark.parametrize("options", [*SETTINGS[::2], {"keep_special_tokens": True}])
def test_golden_lines(options):
    lines = [
        json.loads(line)["text"]
        for line in (GOLDEN / "tokenization.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert len(lines) > 400
    check(BertTokenizer.from_vocab(GOLDEN / "vocab_uncased.txt", **options), lines)


@pytest.mark.parametrize("index", some_long(range(len(SETTINGS)), (0,)))
def test_every_character_with_rules(index):
    check(bert_tokenizer(index), in_texts(code_points(*RANGES)))


@pytest.mark.long
@pytest.mark.parametrize("index", range(len(SETTINGS)))
def test_every_code_point(index):
    check(bert_tokenizer(index), in_texts(code_points(range(sys.maxunicode + 1))))


@pytest.mark.parametrize("index", range(len(SETTINGS)))
@settings(max_examples=60, deadline=None)
@given(batch=st.lists(texts, min_size=1, max_size=12))
@example(batch=["ΑΣ ΑΣΑ ΑΣ.Α ΑΣ. Σ 'Σ Α\u00adΣ\u0301 Α中Σ Σ\u2028Α Α\x00Σ"])
@example(
    batch=["\u302e\u1baa\U00016ff0 a\u302e\u0316\u1baa \u302e\u0901\u1baa \U0001d15f\u0301\u1baa"]
)
@example(batch=["x" * 200, "x" * 201, "é" * 200 + ".", "\u0301" * 300, ""])
def test_arbitrary_text(index, batch):
    check(bert_tokenizer(index), batch)


@functools.cache
def keeping_tokenizer():
    return BertTokenizer(bert_tokenizer(0).vocabulary, keep_special_tokens=True)


special_texts = st.lists(
    st.one_of(st.sampled_from([*SPECIAL, "[", "]", "MASK", "Σ", "Α", " "]), st.text(TRICKY)),
    max_size=8,
).map("".join)


@settings(max_examples=60, deadline=None)
@given(batch=st.lists(special_texts, min_size=1, max_size=8))
@example(batch=["Α[MASK]Σ ΑΣ[MASK] [[MASK]] [MASK [SEP][SEP]", "[mask]\u0301[PAD]\u302e\u1baa"])
def test_special_tokens_that_are_kept(batch):
    check(keeping_tokenizer(), batch)


@pytest.mark.parametrize("seed", range(2))
def test_longest_matches_of_random_vocabularies(seed):
    generator = random.Random(seed)

    def word(letters):
        return "".join(generator.choices(letters, k=generator.randint(1, 5)))

    pieces = {generator.choice(["", "##"]) + word("abcé中") for _ in range(60)}
    # Entries that no word can hold, and that would mean something to other tokenizers.
    vocabulary = Vocabulary([*SPECIAL, *sorted(pieces), "##", "a b", "a.", "##[UNK]", "#a"])
    options = {"lowercase": seed % 2 == 0, "split_cjk": seed < 2}
    batch = [" ".join(word("abcé中ABC.") + word("abc#") for _ in range(8)) for _ in range(300)]
    check(BertTokenizer(vocabulary, **options), batch)


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(corpus_tokenizer, "_MAX_REMEMBERED", 100)
    split = bert_tokenizer(0)
    check(split, [f"{n} a{n} {n % 7} {'x' * n}" for n in range(300)])


def test_a_long_text_without_a_space_takes_linear_time():
    # A run of sigmas looks at its neighbours; a million characters would take days if each looked
    # at all others.
    split = bert_tokenizer(0)
    text = "ΑΣ" * 250_000
    _, sizes = CorpusTokenizer(split.vocabulary, Settings())([text])
    assert sizes.tolist() == [1]  # one word over 200 characters


def test_it_works_without_tensorflow():
    program = (
        "import sys\n"
        "from keras_bert.text.corpus_tokenizer import CorpusTokenizer\n"
        "from keras_bert.text.wordpiece.settings import Settings\n"
        "from keras_bert.text.vocabulary import Vocabulary\n"
        f"vocabulary = Vocabulary.from_file({str(GOLDEN / 'vocab_uncased.txt')!r})\n"
        "CorpusTokenizer(vocabulary, Settings())(['Σας ΣΑΣ [MASK]'])\n"
        "assert 'tensorflow' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
