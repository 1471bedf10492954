"""The tokenizer against a plain Python oracle, on all of Unicode."""

import functools
import random
import sys

import original_tokenization_oracle as oracle
import pytest
import unicode_14
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.vocabulary import Vocabulary
from tests.markers import some_slow

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SETTINGS = [
    {"lowercase": True},
    {"lowercase": False},
    {"lowercase": True, "strip_accents": False, "split_cjk": False},
    {"lowercase": False, "strip_accents": True},
]
SURROGATES = range(0xD800, 0xE000)

# Characters whose treatment depends on their neighbours or takes several steps.
TRICKY = (
    "Σσς.'’:·\u0345\u00ad\u200d\u0300\u0301\u0316\u0338\u0f71\u0f72\u0901\u093c\u0cc6\u0ccb"
    "\u302e\u302f\u1baa\u1bf2\u1b44\U00016ff0\U0001d165\U0001d16d\U0001d15f\U0001d160"
    "İıßẞǅŉK≮\u1fef\u037e\u0387\u2329\u2126한각\u1100\u1161\u11a8が\uff21ﬁ½①"
    "中\uf900\U0002f800\U00020000\u3007\u3005\u2028\u2029\u00a0\u3000\u1680\u180e\ufeff"
    "\t\n\r\v\f\x00\x1c\x1f\x7f\x85\ufffd\ufffe\U0010ffff\ue000\U000e0041\ufe0f"
    'aA1 #[]$+<=>^`|~-_@\\/"*“”—…«¿\u060c\u0964。，'
)


@functools.cache
def tokenizer(index):
    """Knows every character of planes 0 and 1 alone and inside a word, so that no ids hide one."""
    characters = [chr(c) for c in range(0x21, 0x20000) if c not in SURROGATES]
    characters = [c for c in characters if not c.isspace()]
    pieces = [piece for c in characters for piece in (c, f"##{c}")]
    return BertTokenizer(Vocabulary([*SPECIAL, *pieces]), **SETTINGS[index])


def oracle_ids(index, text):
    vocabulary = tokenizer(index).vocabulary
    return [
        vocabulary.id_of(piece) for piece in oracle.tokenize(text, vocabulary, **SETTINGS[index])
    ]


def code_points(*ranges):
    return [chr(c) for each in ranges for c in each if c not in SURROGATES]


def in_texts(characters, count=64):
    """Puts each character alone and inside a word; many such words make one text."""
    words = [f"{c} a{c}b" for c in characters]
    return [" ".join(words[i : i + count]) for i in range(0, len(words), count)]


def check_characters(index, characters):
    texts = in_texts(characters)
    for start in range(0, len(texts), 1000):
        batch = texts[start : start + 1000]
        got = tokenizer(index)(batch).to_list()
        wrong = [
            text for text, ids in zip(batch, got, strict=True) if ids != oracle_ids(index, text)
        ]
        assert not wrong, ascii(wrong[0])


def test_the_oracle_knows_unicode_14_on_every_python():
    assert unicode_14.fingerprint() == unicode_14.FINGERPRINT


# Planes 0 and 1, compatibility ideographs, tags and variation selectors: where the rules are; and a
# sample of the other planes.
RANGES = (
    range(0x20000),
    range(0x2F800, 0x2FA20),
    range(0xE0000, 0xE0200),
    range(0x10FFF0, 0x110000),
    range(0x20000, 0x110000, 0xFB),
)


@pytest.mark.parametrize("index", [1, *some_slow((0, 2, 3), (0,))])
def test_every_character_with_rules(index):
    check_characters(index, code_points(*RANGES))


@pytest.mark.long
@pytest.mark.parametrize("index", range(len(SETTINGS)))
def test_every_code_point(index):
    check_characters(index, code_points(range(sys.maxunicode + 1)))


@pytest.mark.parametrize("index", range(2))
def test_every_character_by_itself_in_a_text(index):
    # Alone in its text, a character decides which of the two ways the text takes.
    texts = [f"a{c}b" for c in code_points(range(0x3100), range(0xFE00, 0x10000))]
    got = tokenizer(index)(texts).to_list()
    wrong = [t for t, ids in zip(texts, got, strict=True) if ids != oracle_ids(index, t)]
    assert not wrong, ascii(wrong[:5])


characters = st.one_of(
    st.sampled_from(TRICKY),
    st.characters(exclude_categories=["Cs"], max_codepoint=0x1FFFF),
    st.characters(exclude_categories=["Cs"]),
)
texts = st.text(st.one_of(st.sampled_from(TRICKY), characters), max_size=40)


@pytest.mark.parametrize("index", range(len(SETTINGS)))
@settings(max_examples=300, deadline=None)
@given(batch=st.lists(texts, min_size=1, max_size=12))
@example(batch=["ΑΣ ΑΣΑ ΑΣ.Α ΑΣ. Σ 'Σ Α\u00adΣ\u0301 Α中Σ Σ\u2028Α Α\x00Σ"])
@example(
    batch=["\u302e\u1baa\U00016ff0 a\u302e\u0316\u1baa \u302e\u0901\u1baa \U0001d15f\u0301\u1baa"]
)
@example(batch=["x" * 200, "x" * 201, "é" * 200 + ".", "\u0301" * 300, ""])
def test_arbitrary_text(index, batch):
    assert tokenizer(index)(batch).to_list() == [oracle_ids(index, text) for text in batch]


def normal_form(text, options):
    # Whether a sigma is final depends on what was around the part.
    return "".join(oracle.normalized_words(text, **options)).replace("ς", "σ")


def groups(spans):
    """Joins pieces that share original characters: [(start, end, [piece numbers])]."""
    joined = []
    for number, (start, end) in enumerate(spans):
        if joined and start < joined[-1][1]:
            last_start, last_end, numbers = joined.pop()
            joined.append((min(start, last_start), max(end, last_end), [*numbers, number]))
        else:
            joined.append((start, end, [number]))
    return joined


@pytest.mark.parametrize("index", range(len(SETTINGS)))
@settings(max_examples=300, deadline=None)
@given(batch=st.lists(texts, min_size=1, max_size=8))
@example(
    batch=["İ\u0301x 한a\u1baa\u302e\u0316\u1baa\u0301", "", "\u0301\u200ba\u200d\u0301 x" * 99]
)
def test_offsets_of_arbitrary_text(index, batch):
    split = tokenizer(index)
    ids, starts, ends = (part.to_list() for part in split.tokenize_with_offsets(batch))
    assert ids == split(batch).to_list()
    tokens, options = split.vocabulary.tokens, SETTINGS[index]
    for text, text_ids, first, last in zip(batch, ids, starts, ends, strict=True):
        assert all(0 <= a < b <= len(text) for a, b in zip(first, last, strict=True))
        place, outside = 0, []
        for start, end, numbers in groups(list(zip(first, last, strict=True))):
            pieces = [tokens[text_ids[n]] for n in numbers]
            bodies = [p[2:] if p.startswith("##") and len(p) > 2 else p for p in pieces]
            if "[UNK]" not in pieces:
                assert normal_form(text[start:end], options) == "".join(bodies).replace("ς", "σ")
            outside.append(text[place:start])
            place = end
        # No character that the tokenizer read is outside of the pieces.
        assert normal_form("\n".join([*outside, text[place:]]), options) == ""


@pytest.mark.parametrize("seed", range(4))
def test_longest_matches_of_random_vocabularies(seed):
    # Short words over few letters, where many pieces overlap.
    generator = random.Random(seed)

    def word(letters="abcé中"):
        return "".join(generator.choices(letters, k=generator.randint(1, 5)))

    pieces = {generator.choice(["", "##"]) + word() for _ in range(60)}
    vocabulary = [*SPECIAL, *sorted(pieces)]
    options = {"lowercase": seed % 2 == 0, "split_cjk": seed < 2}
    split = BertTokenizer(Vocabulary(vocabulary), **options)
    batch = [" ".join(word("abcé中ABC.") + word() for _ in range(8)) for _ in range(300)]
    batch += [" ".join(word("abc.#") for _ in range(8)) for _ in range(300)]
    expected = [oracle.tokenize(text, vocabulary, **options) for text in batch]
    got = [[vocabulary[i] for i in ids] for ids in split(batch).to_list()]
    assert got == expected
    assert sum(piece.startswith("##") for words in expected for piece in words) > 200


@settings(max_examples=200, deadline=None)
@given(batch=st.lists(st.binary(max_size=30), min_size=1, max_size=8))
@example(
    batch=[b"a\xe2\x28b", b"\xf0\x9d\x84", b"\xed\xa0\x80x", b"\xc0\x80", b"\xf4\x90\x80\x80y"]
)
def test_arbitrary_bytes(batch):
    assert tokenizer(0)(batch).to_list() == [
        oracle_ids(0, b.decode("utf-8", "ignore")) for b in batch
    ]
