"""NFC and added tokens in the graph: ids and offsets of the Rust library for a tiny ModernBERT."""

import dataclasses
import json

import numpy as np
import pytest
from tokenizers import Tokenizer, normalizers, processors

from keras_bert import (
    BertPreprocessor,
    ByteLevelBpeTokenizer,
    Vocabulary,
    load_preprocessor,
    load_tokenizer,
)
from keras_bert.text.byte_level.canonical_forms import canonical_forms
from keras_bert.text.byte_level.files import AddedToken, ByteLevelBpeFiles
from keras_bert.text.framing import (
    MODERNBERT_FRAMING,
    MODERNBERT_TOKENS,
    ROBERTA_FRAMING,
    ROBERTA_TOKENS,
)
from tests.text.family_tokenizers import byte_level_files, fuzzed_texts, golden_texts
from tests.text.modernbert_tokenizer import (
    all_ids,
    modernbert_json,
    nasty_texts,
    rust_modernbert,
    write_modernbert,
)
from tests.text.test_byte_level_bpe import check_served

nfc = normalizers.NFC().normalize_str
FOUND = {  # ids of added tokens that are no special tokens
    token["id"] for token in json.loads(modernbert_json())["added_tokens"] if not token["special"]
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_modernbert(tmp_path_factory.mktemp("modernbert"))


@pytest.fixture(scope="module")
def tokenizer(folder):
    return load_tokenizer(folder)


@pytest.fixture(scope="module")
def keeping(tokenizer):
    config = tokenizer.with_settings(keep_special_tokens=True).get_config()
    return ByteLevelBpeTokenizer.from_config(json.loads(json.dumps(config)))


def check_against_rust(tokenizer, texts):
    oracle = rust_modernbert(tokenizer.keep_special_tokens)
    whole = oracle.encode_batch(texts, add_special_tokens=False)
    # The Rust library trims where this step says so, added tokens of spaces as well.
    oracle.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=True)
    trimmed = oracle.encode_batch(texts, add_special_tokens=False)
    ids, starts, ends = (part.to_list() for part in tokenizer.tokenize_with_offsets(texts))
    for row, (text, full, short) in enumerate(zip(texts, whole, trimmed, strict=True)):
        assert ids[row] == full.ids, ascii(text)
        for i, start, end, own, other in zip(
            ids[row], starts[row], ends[row], full.offsets, short.offsets, strict=True
        ):
            expected = own if i in FOUND else other
            if nfc(text) == text:
                assert (start, end) == expected, ascii(text)
            else:
                # Of what NFC joins, theirs is the first character alone.
                assert start <= expected[0] <= expected[1] <= end, ascii(text)
                piece = tokenizer.vocabulary.spelled(oracle.id_to_token(i)).strip(" ")
                # Unless it is a part of a character, the piece is there.
                assert "\ufffd" in piece or piece in nfc(text[start:end]), ascii(text)


HARD = (
    "",
    " " * 24,
    " " * 25,
    " " * 50 + "a" + " " * 26 + "b" + " ",
    " \t  \n   \xa0  x",
    "|||IP_ADDRESS|||||EMAIL_ADDRESS||||||PHONE_NUMBER|||a",
    "a|||IP_ADDRESS|||\u0301 [unused1][unused12][unused1",
    "  \u0301a  \u0338e\u0301",
    "[MASK]\u0301 [MASK] <|endoftext|>\u0338 <\u0338 |>\u0338",
    "a   [MASK]  b  [SEP][CLS] <|padding|>  ",
    "it's e\u0301's e\u0323\u0301's",
    "\u1100\u1161\u11a8\u11a8 \u1100\u1161\u1161 \uac00\u11a8 \u1161\u11a8",
    "\u212b \u2126 \u0958 \u0344 \U0002f800 \u2adc \ufb1d \u0f73\u0f74\u0f71",
    "\u0f71\u0301e",
    "s\u0307\u0323 \u1e69 \u1e61\u0323 s\u0323\u0345\u0307",
    "\u09c7\u0301\u09be \u09c7\u09be \u0dd9\u0dcf\u0dca",
)


def test_ids_and_offsets_of_the_rust_library(tokenizer, keeping):
    texts = [*HARD, *golden_texts()[:30], *nasty_texts(400), *fuzzed_texts(100)]
    check_against_rust(keeping, texts)
    expected = rust_modernbert().encode_batch_fast(texts, add_special_tokens=False)
    assert tokenizer(texts).to_list() == [encoding.ids for encoding in expected]


@pytest.mark.oracle
@pytest.mark.slow
def test_thousands_of_strings(tokenizer, keeping):
    texts = golden_texts() + fuzzed_texts(2000, seed=3) + nasty_texts(6000, seed=3)
    check_against_rust(tokenizer, texts)
    check_against_rust(keeping, texts)


# Outside of these planes no character is changed by NFC or is a mark: of them a sample.
@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("step", [61, pytest.param(1, marks=pytest.mark.long)])
def test_every_character_is_composed_as_the_rust_library_does(tokenizer, step):
    points = (*range(0x30000), *range(0x30000, 0x110000, step))
    characters = [chr(c) for c in points if not 0xD800 <= c < 0xE000]
    oracle = rust_modernbert()
    for start in range(0, len(characters), 20_000):
        part = characters[start : start + 20_000]
        # Alone and before marks; and behind a letter, between two marks of the highest and lowest
        # class, where its own class tells.
        texts = [f"{c}\u0301\u0338 a\u0345{c}\u0334" for c in part]
        expected = oracle.encode_batch_fast(texts, add_special_tokens=False)
        assert tokenizer(texts).to_list() == [encoding.ids for encoding in expected]


@pytest.mark.oracle
@pytest.mark.slow
def test_every_pair_that_composes_and_random_marks(tokenizer):
    forms = canonical_forms()
    firsts, seconds = forms.pairs >> 21, forms.pairs & 0x1FFFFF
    marks = np.random.default_rng(0).choice(forms.marks, [len(firsts), 3])
    texts = []
    for first, second, (one, two, three) in zip(firsts, seconds, marks, strict=True):
        parts = (first, second), (first, one, second, two), (three, first, two, one, second)
        texts.append(" ".join("".join(map(chr, part)) for part in parts))
    expected = rust_modernbert().encode_batch_fast(texts, add_special_tokens=False)
    assert tokenizer(texts).to_list() == [encoding.ids for encoding in expected]


@pytest.mark.parametrize(
    "text, expected",
    [
        # Accents belong to the letter that they have become a part of; by hand.
        ("e\u0301", {"\xe9": (0, 2)}),
        ("xe\u0301 ole\u0301", {"\xe9": (1, 3)}),
        ("q\u0301\u0323a", {"a": (3, 4), "q": (0, 3)}),
        # Spaces of an added token stay, one before a word does not belong to it.
        ("a   b", {"   ": (1, 4), "b": (4, 5)}),
        ("a [unused0] b", {"[unused0]": (2, 11), "b": (12, 13)}),
    ],
)
def test_offsets_are_of_the_text_as_it_was(text, expected, keeping):
    ids, starts, ends = (part.to_list()[0] for part in keeping.tokenize_with_offsets([text]))
    pieces = [keeping.vocabulary.spelled(keeping.vocabulary.tokens[i]) for i in ids]
    found = dict(zip(pieces, zip(starts, ends, strict=True), strict=True))
    assert expected.items() <= found.items()


def test_added_tokens_are_found_as_nfc_spells_them_however_many_there_are():
    files = byte_level_files()
    many = [AddedToken(f"<{number:x}>") for number in range(300)]
    tokens = (
        *many,
        AddedToken("\u0120qx"),
        AddedToken("the"),
        AddedToken("then", True, False),
        AddedToken("re\u0301"),
    )
    new = [token.content for token in tokens if token.content not in files.vocabulary]
    vocabulary = Vocabulary(
        [*files.vocabulary.tokens, *new], ROBERTA_TOKENS, "\u0120", ROBERTA_FRAMING
    )
    made = ByteLevelBpeFiles(vocabulary, files.merges, added_tokens=tokens, normalization="NFC")
    tokenizer = ByteLevelBpeTokenizer(
        vocabulary, files.merges, True, True, added_tokens=tokens, normalization="NFC"
    )
    settings = made.settings._replace(add_prefix_space=True)
    stored = dataclasses.replace(made, settings=settings).tokenizer_json()
    texts = ["r\xe9 re\u0301 re\u0301\u0323", "bathed then the thenthe", "".join(new[:300])]
    texts += [*HARD, "<mask>  <12b>a <s>the"]
    oracle = Tokenizer.from_str(json.dumps(stored))
    expected = [e.ids for e in oracle.encode_batch(texts, add_special_tokens=False)]
    assert tokenizer(texts).to_list() == expected
    assert expected[0].count(vocabulary.id_of("re\u0301")) == 2
    assert expected[1].count(vocabulary.id_of("then")) == 2
    assert tokenizer.detokenize([[vocabulary.id_of("\u0120qx")]]).numpy()[0] == "\u0120qx".encode()
    assert expected[2] == [vocabulary.id_of(token.content) for token in many]


def test_rows_and_pairs_are_those_of_the_template(folder, tokenizer):
    assert tokenizer.vocabulary.framing == MODERNBERT_FRAMING
    assert tokenizer.vocabulary.special_tokens == MODERNBERT_TOKENS
    oracle = rust_modernbert(keep_special_tokens=True)
    assert load_preprocessor(folder, 32).tokenizer.get_config() == tokenizer.get_config()
    inputs = BertPreprocessor(tokenizer, 32, pad_to="longest")((["the  room"], ["e\u0301"]))
    assert inputs["input_ids"].numpy().tolist() == [oracle.encode("the  room", "e\u0301").ids]
    assert not inputs["segment_ids"].numpy().any()
    inputs = BertPreprocessor(tokenizer, 32, pad_to="longest")(["the  room"])
    assert inputs["input_ids"].numpy().tolist() == [oracle.encode("the  room").ids]


def test_text_comes_back_in_nfc(tokenizer):
    texts = [*HARD, *golden_texts()[:30]]
    texts = [text for text in texts if "\ufffd" not in text]
    joined = tokenizer.detokenize(tokenizer(texts)).numpy()
    assert [text.decode() for text in joined] == [nfc(text) for text in texts]


def test_words_of_a_list_stand_in_a_sentence(tokenizer):
    words = ["the", "e\u0301", "[unused0]", " x", "|||IP_ADDRESS|||"]
    spaced = [words[0], *(f" {word}" for word in words[1:])]
    expected = rust_modernbert().encode_batch(spaced, add_special_tokens=False)
    found = tokenizer.tokenize_words([words]).to_list()
    assert found == [[encoding.ids for encoding in expected]]


def test_spaces_begin_a_word(tokenizer):
    assert not tokenizer.vocabulary.continues_word("   ")
    assert tokenizer.vocabulary.continues_word("e")


def test_the_corpus_route_agrees(folder, tokenizer, keeping):
    texts = [*HARD, *nasty_texts(100, seed=5)]
    files = ByteLevelBpeFiles.read(folder)
    for graph in (tokenizer, keeping):
        settings = files.settings._replace(keep_special_tokens=graph.keep_special_tokens)
        ids, sizes = dataclasses.replace(files, settings=settings).texts_to_ids()(texts)
        expected = graph.tokenize_with_offsets(texts)[0] if graph is keeping else graph(texts)
        assert ids.tolist() == expected.values.numpy().tolist()
        assert sizes.tolist() == expected.row_lengths().numpy().tolist()


def test_saved_it_says_the_same_to_all(tokenizer, keeping, folder, tmp_path):
    keeping.save(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "modernbert"}', encoding="utf-8")
    assert {path.name for path in tmp_path.iterdir()} == {
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    saved, original = (ByteLevelBpeFiles.read(path) for path in (tmp_path, folder))
    assert saved.settings.keep_special_tokens
    assert (saved.vocabulary, saved.merges, saved.added_tokens, saved.normalization) == (
        original.vocabulary,
        original.merges,
        original.added_tokens,
        original.normalization,
    )
    ids = all_ids(modernbert_json())
    assert saved.vocabulary.tokens == tuple(sorted(ids, key=ids.get))
    oracle = rust_modernbert(keep_special_tokens=True)
    theirs = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in HARD:
        assert theirs.encode(text, "a  b").ids == oracle.encode(text, "a  b").ids
    assert load_tokenizer(tmp_path).get_config() == keeping.get_config()


@pytest.mark.oracle
@pytest.mark.parametrize("config", [None, {"model_type": "modernbert"}])
def test_transformers_opens_what_is_saved(config, tokenizer, keeping, folder, tmp_path):
    from transformers import AutoTokenizer

    keeping.save(tmp_path)
    if config:
        for path in (tmp_path, folder):
            (path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    original, saved = (AutoTokenizer.from_pretrained(str(path)) for path in (folder, tmp_path))
    texts = [*HARD, *nasty_texts(50, seed=7)]
    found = saved(texts, add_special_tokens=False)["input_ids"]
    assert found == original(texts, add_special_tokens=False)["input_ids"]
    assert found == keeping.tokenize_with_offsets(texts)[0].to_list()
    pair = saved(["the  room"], ["e\u0301"])
    assert set(pair) == {"input_ids", "attention_mask"}
    ours = BertPreprocessor(tokenizer, 64, pad_to="longest")((["the  room"], ["e\u0301"]))
    assert pair["input_ids"] == ours["input_ids"].numpy().tolist()
    assert (saved.mask_token, saved.pad_token_id) == ("[MASK]", keeping.vocabulary.pad_id)


@pytest.mark.slow
def test_a_saved_model_without_the_package(keeping, tmp_path):
    check_served(keeping, [*HARD, *nasty_texts(30)], tmp_path)


def test_an_added_token_that_is_no_piece_is_refused():
    files = byte_level_files()
    with pytest.raises(ValueError, match="no piece for the added token '<user>'"):
        ByteLevelBpeTokenizer(files.vocabulary, files.merges, added_tokens=[AddedToken("<user>")])
    with pytest.raises(ValueError, match="normalization is 'NFKC': it must be 'NFC' or None"):
        ByteLevelBpeTokenizer(files.vocabulary, files.merges, normalization="NFKC")
