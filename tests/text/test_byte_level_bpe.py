"""Ids and offsets of byte-level BPE equal those of the Rust library, in every kind of graph."""

import dataclasses
import json
import random
import subprocess
import sys

import pytest
import tensorflow as tf
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors

from keras_bert import BertPreprocessor, ByteLevelBpeTokenizer, Vocabulary, load_tokenizer
from keras_bert.text.framing import ROBERTA_FRAMING, ROBERTA_TOKENS
from tests.text.family_tokenizers import byte_level_files, fuzzed_texts, golden_texts

# Reads a SavedModel where nothing but TensorFlow and tf.text is there.
SERVE = """
import json, sys
import tensorflow as tf
loaded = tf.saved_model.load(sys.argv[1])
parts = loaded.offsets(tf.constant(json.load(open(sys.argv[2], encoding="utf-8"))))
assert not any(name.startswith(("keras_bert", "tensorflow_text")) for name in sys.modules)
print(json.dumps([part.to_list() for part in parts]))
"""


def rust(files, add_prefix_space=False, keep_special_tokens=False):
    """The oracle: a tokenizer as transformers builds it for RoBERTa."""
    ids = {token: index for index, token in enumerate(files.vocabulary.tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=ids, merges=list(files.merges)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", ids["</s>"]),
        ("<s>", ids["<s>"]),
        trim_offsets=True,
        add_prefix_space=add_prefix_space,
    )
    if keep_special_tokens:
        tokenizer.add_special_tokens(
            [AddedToken(t, lstrip=t == "<mask>", normalized=False) for t in ROBERTA_TOKENS]
        )
    return tokenizer


def check_against_rust(files, texts, **settings):
    tokenizer = ByteLevelBpeTokenizer(files.vocabulary, files.merges, **settings)
    expected = rust(files, **settings).encode_batch(texts, add_special_tokens=False)
    ids, starts, ends = (part.to_list() for part in tokenizer.tokenize_with_offsets(texts))
    assert tokenizer(texts).to_list() == ids
    for text, own, start, end, oracle in zip(texts, ids, starts, ends, expected, strict=True):
        assert own == oracle.ids, repr(text)
        assert list(zip(start, end, strict=True)) == oracle.offsets, repr(text)


@pytest.fixture(scope="module")
def tokenizer():
    files = byte_level_files()
    return ByteLevelBpeTokenizer(files.vocabulary, files.merges)


@pytest.mark.parametrize(
    "prefix, keep", [(True, True), pytest.param(False, False, marks=pytest.mark.slow)]
)
def test_ids_and_offsets_of_the_rust_library(prefix, keep):
    texts = golden_texts()[:60] + fuzzed_texts(400)
    check_against_rust(byte_level_files(), texts, add_prefix_space=prefix, keep_special_tokens=keep)


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize(
    "prefix, keep",
    [
        (False, False),
        pytest.param(False, True, marks=pytest.mark.long),
        pytest.param(True, False, marks=pytest.mark.long),
        (True, True),
    ],
)
def test_thousands_of_strings(prefix, keep):
    texts = golden_texts() + fuzzed_texts(8000, seed=1 + prefix)
    check_against_rust(byte_level_files(), texts, add_prefix_space=prefix, keep_special_tokens=keep)


# Planes behind the second are long runs of one class: of them a sample.
@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("step", [61, pytest.param(1, marks=pytest.mark.long)])
def test_every_character_is_in_the_class_that_the_rust_library_has_for_it(tokenizer, step):
    points = (*range(0x20000), *range(0x20000, 0x110000, step))
    characters = [chr(c) for c in points if not 0xD800 <= c < 0xE000]
    texts = [f"a{c}1{c}!{c} {c}" for c in characters]
    oracle = rust(byte_level_files())
    for start in range(0, len(texts), 20_000):
        part = texts[start : start + 20_000]
        expected = oracle.encode_batch_fast(part, add_special_tokens=False)
        assert tokenizer(part).to_list() == [encoding.ids for encoding in expected]


def test_a_merge_that_goes_before_its_parts_is_done_at_once():
    # Lines are ranks: (ab, a) goes before (a, b). By hand, a b a b a b: the first (a, b) makes
    # ab a b a b, where (ab, a) is now the best pair; the rest follows: aba b a b, then aba b ab.
    alphabet = byte_level_files().vocabulary.tokens[4:260]
    tokens = [*ROBERTA_TOKENS, *alphabet, "ab", "aba"]
    vocabulary = Vocabulary(tokens, ROBERTA_TOKENS, "Ġ", ROBERTA_FRAMING)
    tokenizer = ByteLevelBpeTokenizer(vocabulary, [("ab", "a"), ("a", "b")])
    pieces = [tokens[i] for i in tokenizer(["ababab"]).to_list()[0]]
    assert pieces == ["aba", "b", "ab"]


def test_long_words_and_empty_batches(tokenizer):
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefgh", k=200)), "a" * 101, "漢" * 100]
    expected = rust(byte_level_files()).encode_batch(words, add_special_tokens=False)
    assert tokenizer(words).to_list() == [encoding.ids for encoding in expected]
    assert tokenizer([]).shape[0] == 0


def test_bytes_that_are_not_utf_8_are_read_as_pythons_replacement(tokenizer):
    draw = random.Random(1)
    texts = [bytes(draw.choices(b"a \xe6\xbc\xa2\xf0\x9f\xff\xc0", k=6)) for _ in range(200)]
    decoded = [text.decode("utf-8", "replace") for text in texts]
    assert tokenizer(tf.constant(texts)).to_list() == tokenizer(decoded).to_list()


def test_text_comes_back(tokenizer):
    texts = [text for text in golden_texts()[:100] if "\ufffd" not in text]
    joined = tokenizer.detokenize(tokenizer(texts)).numpy()
    assert [text.decode() for text in joined] == texts
    with pytest.raises(ValueError, match="is no id of a piece: the vocabulary has"):
        tokenizer.detokenize([[len(tokenizer.vocabulary)]])


def test_equal_tokenizers_have_one_graph(tokenizer):
    again = ByteLevelBpeTokenizer.from_config(tokenizer.get_config())
    assert set(again.submodules) == set(tokenizer.submodules)
    other = tokenizer.with_settings(add_prefix_space=True)
    assert not set(other.submodules) & set(tokenizer.submodules)
    assert other(["a"]).to_list() != again(["a"]).to_list() == tokenizer(["a"]).to_list()


def test_in_tf_data(tokenizer):
    texts = golden_texts()[:20] + fuzzed_texts(30)
    dataset = tf.data.Dataset.from_tensor_slices(texts).batch(16).map(tokenizer)
    assert [row for batch in dataset for row in batch.to_list()] == tokenizer(texts).to_list()


def check_served(tokenizer, texts, folder):
    """Asks a SavedModel of a tokenizer in a process that does not have the package."""
    expected = [part.to_list() for part in tokenizer.tokenize_with_offsets(texts)]

    class Served(tf.Module):
        def __init__(self):
            super().__init__()
            self.tokenizer = tokenizer
            self.offsets = tf.function(
                lambda texts: tokenizer.tokenize_with_offsets(texts),
                input_signature=[tf.TensorSpec([None], tf.string)],
            )

    tf.saved_model.save(Served(), str(folder / "model"))
    (folder / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    found = subprocess.run(
        [sys.executable, "-c", SERVE, folder / "model", folder / "texts.json"],
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout) == expected


@pytest.mark.slow
def test_a_saved_model_without_the_package(tokenizer, tmp_path):
    check_served(tokenizer, golden_texts()[:20] + fuzzed_texts(30), tmp_path)


def test_a_pair_is_framed_as_robertas_and_has_no_segments(tokenizer):
    inputs = BertPreprocessor(tokenizer, 12, pad_to="longest")((["a b"], ["c"]))
    tokens = [tokenizer.vocabulary.tokens[i] for i in inputs["input_ids"].numpy()[0]]
    assert tokens == ["<s>", "a", "Ġb", "</s>", "</s>", "c", "</s>"]
    assert not inputs["segment_ids"].numpy().any()
    with pytest.raises(ValueError, match="at least 6"):
        BertPreprocessor(tokenizer, 5)


def test_words_of_a_list_stand_in_a_sentence(tokenizer):
    words = tokenizer.tokenize_words(tf.ragged.constant([["the", "package", "is"], ["a"]]))
    together = tokenizer(["the package is", "a"])
    assert [sum(text, []) for text in words.to_list()] == together.to_list()


def test_folders_of_every_form_open_as_what_they_are(tokenizer, tmp_path):
    texts = golden_texts()[:5]
    files = byte_level_files()
    settings = files.settings._replace(add_prefix_space=True)
    dataclasses.replace(files, settings=settings).save(tmp_path / "ours")
    opened = load_tokenizer(tmp_path / "ours")
    assert isinstance(opened, ByteLevelBpeTokenizer)
    assert opened.settings == {"add_prefix_space": True, "keep_special_tokens": False}
    assert opened.vocabulary == files.vocabulary
    # transformers 5 writes tokenizer.json alone.
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    rust(files, keep_special_tokens=True).save(str(theirs / "tokenizer.json"))
    opened = load_tokenizer(theirs, keep_special_tokens=True)
    assert opened.keep_special_tokens
    assert opened(texts).to_list() == tokenizer(texts).to_list()


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda model: model["model"].update(type="WordLevel"), "WordLevel"),
        (lambda model: model["model"].update(type="Unigram"), "vocab is no list of pieces"),
        (lambda model: model["pre_tokenizer"].update(use_regex=False), "use_regex"),
    ],
)
def test_a_tokenizer_of_another_kind_is_refused(change, message, tmp_path):
    stored = json.loads(rust(byte_level_files()).to_str())
    change(stored)
    (tmp_path / "tokenizer.json").write_text(json.dumps(stored), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        load_tokenizer(tmp_path)


def test_what_does_not_belong_together_is_told(tmp_path):
    files = byte_level_files()
    with pytest.raises(ValueError, match="the vocabulary has no 'qqqq'"):
        ByteLevelBpeTokenizer(files.vocabulary, [("qqqq", "q")])
    with pytest.raises(ValueError, match="no piece for the byte"):
        tokens = [*ROBERTA_TOKENS, "a", "b", "ab"]
        vocabulary = Vocabulary(tokens, ROBERTA_TOKENS, "Ġ", ROBERTA_FRAMING)
        ByteLevelBpeTokenizer(vocabulary, [("a", "b")])
    files.save(tmp_path)
    (tmp_path / "merges.txt").write_text("#version: 0.2\na b c\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 2"):
        load_tokenizer(tmp_path)
    (tmp_path / "merges.txt").unlink()
    with pytest.raises(ValueError, match="has no merges.txt"):
        load_tokenizer(tmp_path)
