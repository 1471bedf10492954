"""Whatever the text, no crash, and every piece of it is there: token counts add up."""

import json
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keras_bert.data.corpus import Corpus
from keras_bert.data.creation import create_pretraining_data
from keras_bert.data.creation_options import CreationOptions
from keras_bert.data.documents import document_sentences
from keras_bert.text.tokenizer import BertTokenizer

# Scripts, emoji with joiners, right-to-left marks, NULs, other controls, odd spaces and line ends.
PARTS = [
    *("\n", "\n\n", "\r\n", " \t", "\u2028", "\u0085", "\v", "\x00", "\x1b[0m", "\ufeff", "\u200b"),
    *("word", "The house was old.", "Mr. Who?!", "...", "a.b.c", "1,000.5", "x" * 300, "\u00ad"),
    *(
        "\u05e9\u05dc\u05d5\u05dd.",
        "\u200f",
        "\u0645\u0631\u062d\u0628\u0627\u061f",
        "e\u0301",
        "\u1e9e",
    ),
    *(
        "\U0001f600",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        "\u4e00\u4e8c\u3002\u4e09",
        "\u3002",
    ),
    *("[SEP] [MASK]", "\u1e9e", "\u3002", "##word", "\ufffd", "\u0e2a\u0e27\u0e31\u0e2a"),
]


@pytest.fixture(scope="module")
def tokenizer(vocab):
    return BertTokenizer.from_vocab(vocab)


def check(tmp_path, tokenizer, vocab, name, content, **changes):
    """Makes records of a corpus and compares their counts with the text tokenized at once."""
    path = tmp_path / name
    path.write_bytes(content)
    output = path.with_suffix(".records")
    options = CreationOptions((str(path),), str(vocab), str(output), 32, 1, num_shards=2, **changes)
    documents = [document_sentences(document) for document in Corpus([path])]
    pieces = tokenizer([text for texts in documents for text in texts]).flat_values.shape[0]
    try:
        manifest = create_pretraining_data(options)
    except ValueError as error:
        assert not pieces and "the corpus is empty" in str(error)
        return
    assert manifest.corpus_tokens == pieces
    if not options.pack:
        assert manifest.tokens == pieces + 2 * manifest.examples
    assert len(list(output.iterdir())) == 5


def drawn_text(seed):
    draw = random.Random(seed)
    return "".join(draw.choice(PARTS) + draw.choice(["", " ", "\n"]) for _ in range(300))


@pytest.mark.parametrize("seed", range(6))
def test_text_of_anything(tmp_path, tokenizer, vocab, seed):
    text = drawn_text(seed)
    check(tmp_path, tokenizer, vocab, "a.txt", text.encode(), sentence_task="none")
    records = "\n".join(json.dumps({"text": drawn_text(seed + n)}) for n in range(5))
    check(tmp_path, tokenizer, vocab, "b.jsonl", records.encode(), sentence_task="none")


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=400))
def test_text_and_json_hold_the_same_words(tmp_path_factory, text):
    """No paragraph is lost or made up between a file and its documents."""
    folder = tmp_path_factory.mktemp("text")
    (folder / "a.txt").write_bytes(text.encode())
    found = [p for document in Corpus([folder / "a.txt"]) for p in document.paragraphs]
    assert found == [line.strip() for line in text.split("\n") if line.strip()]
    (folder / "a.jsonl").write_text(json.dumps({"text": text}), encoding="utf-8")
    assert [p for d in Corpus([folder / "a.jsonl"]) for p in d.paragraphs] == found


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("blank", b"\n \n\t\n\r\n\n"),
        ("one_word_documents", b"\n\n".join(b"word%d" % n for n in range(500))),
        ("huge_line", b"The house was old. " * 60_000),
        pytest.param("no_newline", b"word " * 2_000_000, marks=pytest.mark.slow),
        ("no_space", "\u00e4".encode() * 500_000),
        ("nuls", b"\x00" * 1000 + b"\nThe house.\n" + b"\x00The\x00 house\x00\n\n\x00"),
        ("only_stops", b". . . ! ? ...\n\n...\n"),
    ],
)
@pytest.mark.parametrize("pack", [False, True])
def test_shapes_of_text(tmp_path, tokenizer, vocab, name, content, pack):
    check(tmp_path, tokenizer, vocab, f"{name}.txt", content, sentence_task="none", pack=pack)


@pytest.mark.parametrize("task", ["nsp", "sop"])
@pytest.mark.parametrize("static", [False, True])
def test_pairs_of_anything(tmp_path, vocab, task, static):
    (tmp_path / "a.txt").write_text("\n\n".join(map(drawn_text, range(4))), encoding="utf-8")
    manifest = create_pretraining_data(
        CreationOptions(
            (str(tmp_path / "a.txt"),), str(vocab), str(tmp_path / "out"), 32, 2,
            sentence_task=task, static_masking=static,
        )
    )  # fmt: skip
    assert manifest.examples > 50
    assert manifest.tokens <= 32 * manifest.examples
