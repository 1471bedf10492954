"""Llama 3's words in the graph: ids and offsets of the Rust library for a tiny EuroBERT."""

import json
import sys
import unicodedata

import numpy as np
import pytest

from keras_bert import BertPreprocessor, ByteLevelBpeTokenizer, Vocabulary, load_tokenizer
from keras_bert.data.records.examples import (
    PlannedExample,
    TokenizedDocuments,
    assemble_examples,
)
from keras_bert.text.byte_level.files import ByteLevelBpeFiles
from tests.text.family_tokenizers import fuzzed_texts, golden_texts
from tests.text.llama_tokenizer import (
    END,
    MASK,
    PAD,
    hard_texts,
    llama_json,
    rust_llama,
    write_llama,
)
from tests.text.test_byte_level_bpe import check_served


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return load_tokenizer(write_llama(tmp_path_factory.mktemp("llama")))


@pytest.fixture(scope="module")
def keeping(tokenizer):
    config = tokenizer.with_settings(keep_special_tokens=True).get_config()
    return ByteLevelBpeTokenizer.from_config(json.loads(json.dumps(config)))


def check_against_rust(tokenizer, texts, **form):
    oracle = rust_llama(tokenizer.keep_special_tokens, **form)
    expected = oracle.encode_batch(texts, add_special_tokens=False)
    ids, starts, ends = (part.to_list() for part in tokenizer.tokenize_with_offsets(texts))
    assert tokenizer(texts).to_list() == ids
    for text, own, start, end, other in zip(texts, ids, starts, ends, expected, strict=True):
        assert own == other.ids, ascii(text)
        if tokenizer.keep_special_tokens:  # else the oracle does not trim
            assert list(zip(start, end, strict=True)) == other.offsets, ascii(text)


HARD = (
    "it's  ok!\n\n(a) 12345",
    "IT'S they'LLs 'rea 'r 'Vex ''s \u017f'\u017fa '",
    "a\n\n  b \n \tc\r\n\r\n d   ",
    "!\n\n x !\r\n\n  \n!  \n",
    "--a -b  -c \t-d\u0301e",
    "  1234567\xb28 9",
    f"a{MASK} b {MASK}'s\n{MASK}\n{END}",
    "xqz xqz zzq zzqa !?! !?!!",
)


def test_ids_and_offsets_of_the_rust_library(tokenizer, keeping):
    texts = [*HARD, *golden_texts()[:30], *hard_texts(1000), *fuzzed_texts(100)]
    check_against_rust(keeping, texts)
    check_against_rust(tokenizer, texts)
    # By hand: a piece that no merges make, alone and behind a space, but not within a word.
    piece = tokenizer.vocabulary.id_of
    alone, apart, inside = tokenizer([" xqz", "xqz", "zzqa"]).to_list()
    assert alone == [piece("\u0120xqz")] and len(apart) == 3 and piece("zzq") not in inside
    # What workers of data creation compute with.
    ids, sizes = tokenizer._files.texts_to_ids()(texts)
    rows = tokenizer(texts)
    np.testing.assert_array_equal(ids, rows.values)
    np.testing.assert_array_equal(sizes, rows.row_lengths())


@pytest.mark.oracle
@pytest.mark.slow
def test_thousands_of_strings(tokenizer, keeping, tmp_path):
    texts = golden_texts() + fuzzed_texts(2000, seed=3) + hard_texts(6000, seed=3)
    check_against_rust(tokenizer, texts)
    check_against_rust(keeping, texts)
    form = {"form": "ended", "mask_strips_left": True}
    stripping = load_tokenizer(write_llama(tmp_path, **form)).with_settings(
        keep_special_tokens=True
    )
    check_against_rust(stripping, texts, **form)
    check_served(keeping, texts[-200:], tmp_path)


@pytest.mark.oracle
@pytest.mark.slow
def test_every_character_stands_where_the_rust_library_has_it(tokenizer):
    characters = [
        c for c in map(chr, range(0, sys.maxunicode + 1, 7)) if unicodedata.category(c) != "Cs"
    ]
    for around in ("'{}b", "'l{}b", "{}sa 1{}2", " {}\nsa", "1{}{}'s"):
        check_against_rust(tokenizer, [around.replace("{}", c) for c in characters])


@pytest.mark.parametrize("form", ["begun", "ended", "both"])
def test_rows_are_those_of_the_file(form, tmp_path):
    """Oracle: the Rust library, which adds special tokens as the template says."""
    tokenizer = load_tokenizer(write_llama(tmp_path, form=form))
    preprocess = BertPreprocessor(tokenizer, 12)
    oracle = rust_llama(True, form=form)
    pad = oracle.token_to_id(PAD)
    assert tokenizer.vocabulary.pad_id == pad
    for texts, told in ((["the end"], "the end"), ((["it's"], ["left a"]), ("it's", "left a"))):
        expected = oracle.encode(*([told] if isinstance(told, str) else told)).ids
        found = preprocess(texts)
        assert found["input_ids"].numpy().tolist() == [expected + [pad] * (12 - len(expected))]
        assert int(found["input_mask"].numpy().sum()) == len(expected)
        assert not found["segment_ids"].numpy().any()
    # The same rows for pretraining, where a pair takes as much room as it needs.
    pieces = [tokenizer([text]).values.numpy() for text in ("it's", "left a")]
    sizes = [len(part) for part in pieces]
    documents = TokenizedDocuments(np.concatenate(pieces), [0, sizes[0], sum(sizes)], [0, 2], [0])
    plan = PlannedExample(0, sizes[0], sizes[0], sum(sizes), 0, 0)
    vocabulary = tokenizer.vocabulary
    made = assemble_examples(
        documents, [plan], vocabulary.cls_id, vocabulary.sep_id, vocabulary.framing
    )
    assert made.input_ids.tolist() == expected
    # Written and read again, by transformers' reader of such files, too.
    (tmp_path / "again").mkdir()
    tokenizer.save(tmp_path / "again")
    again = load_tokenizer(tmp_path / "again")
    assert again.get_config() == tokenizer.get_config()
    told = json.loads((tmp_path / "again" / "tokenizer_config.json").read_text())
    assert told["bos_token"] == vocabulary.special_tokens.cls and "unk_token" not in told


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("pre_tokenizer", "pretokenizers", 0, "invert"), True, "pre_tokenizer.type is 'Sequence'"),
        (("pre_tokenizer", "pretokenizers", 1, "use_regex"), True, "pre_tokenizer.type is 'Seque"),
        (("pre_tokenizer", "pretokenizers", 1, "add_prefix_space"), True, "knows no space before"),
        (("post_processor", "processors", 1, "single"), [], "post_processor makes the rows ''"),
        (("post_processor",), None, "post_processor has no template, so that it puts nothing"),
        (("normalizer",), {"type": "NFKC"}, "normalizer is {'type': 'NFKC'}"),
    ],
)
def test_what_would_give_other_ids_is_refused(path, value, message, tmp_path):
    write_llama(tmp_path)
    stored = json.loads(llama_json())
    part = stored
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    (tmp_path / "tokenizer.json").write_text(json.dumps(stored))
    with pytest.raises(ValueError, match=message):
        load_tokenizer(tmp_path)


def test_a_pattern_of_another_kind_is_refused(tokenizer):
    files = ByteLevelBpeFiles(tokenizer.vocabulary, tokenizer._files.merges)
    assert files.word_pattern == "gpt2"
    with pytest.raises(ValueError, match="word_pattern is 'gpt4': choose one of gpt2, llama3"):
        ByteLevelBpeTokenizer(tokenizer.vocabulary, files.merges, word_pattern="gpt4")
    with pytest.raises(ValueError, match="ignore_merges is 1: give True or False"):
        ByteLevelBpeTokenizer(tokenizer.vocabulary, files.merges, ignore_merges=1)
    assert isinstance(tokenizer.vocabulary, Vocabulary)
