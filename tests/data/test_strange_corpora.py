"""Whatever the text, no crash, and every piece of it is there: token counts add up."""

import itertools
import json
import random
import re
from collections import Counter

import pytest
import tensorflow as tf
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from keras_bert.data.corpus.documents import document_sentences
from keras_bert.data.corpus.reading import Corpus
from keras_bert.data.creation.create import create_pretraining_data
from keras_bert.data.creation.options import CreationOptions
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary

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


def sentences_of(path):
    """The sentences of each document."""
    return [document_sentences(document) for document in Corpus([path])]


def count_pieces(tokenizer, texts):
    """How often each piece stands in some texts, as the tokenizer in the graph finds them."""
    return Counter(tokenizer(texts).flat_values.numpy().tolist()) if texts else Counter()


def read(folder):
    """Yields each example as protobuf reads it: lists by name, what is hidden put back."""
    paths = sorted(map(str, folder.glob("*.tfrecord")))
    for record in tf.data.TFRecordDataset(paths).as_numpy_iterator():
        features = tf.train.Example.FromString(record).features.feature
        row = {name: list(feature.int64_list.value) for name, feature in features.items()}
        weights = features["masked_lm_weights"].float_list.value
        hidden = zip(
            row.get("masked_lm_positions", ()), row.get("masked_lm_ids", ()), weights, strict=False
        )
        for position, original, weight in hidden:
            if weight:
                row["input_ids"][position] = original
        length = sum(row.get("input_mask", [1] * len(row["input_ids"])))
        yield {name: row[name][:length] for name in row}


def check(tmp_path, tokenizer, vocab, name, content, **changes):
    """Makes records of a corpus and counts every piece, in them and in the text."""
    path = tmp_path / name
    path.write_bytes(content)
    output = tmp_path / f"{name} {' '.join(changes)}"
    options = CreationOptions(
        (str(path),), str(vocab), str(output), 32, 1, num_shards=2, sentence_task="none", **changes
    )
    pieces = count_pieces(tokenizer, list(itertools.chain(*sentences_of(path))))
    try:
        manifest = create_pretraining_data(options)
    except ValueError as error:
        assert not pieces and "the corpus is empty" in str(error)
        return
    found, parts = Counter(), 0
    for row in read(output):
        found.update(row["input_ids"])
        parts += max(row.get("pack_ids", [1]))
    cls, sep = found.pop(tokenizer.vocabulary.cls_id), found.pop(tokenizer.vocabulary.sep_id)
    assert found == pieces
    assert manifest.corpus_tokens == pieces.total()
    assert manifest.tokens == pieces.total() + cls + sep
    # Each document of a sequence has its [CLS] and [SEP]; across documents there are more [SEP].
    assert cls == parts and (sep == parts or options.cross_documents)
    assert parts == manifest.examples or options.pack
    assert len(list(output.iterdir())) == 5


def drawn_text(seed):
    draw = random.Random(seed)
    return "".join(draw.choice(PARTS) + draw.choice(["", " ", "\n"]) for _ in range(300))


@pytest.mark.parametrize("seed", range(4))
def test_text_of_anything(tmp_path, tokenizer, vocab, seed):
    text = drawn_text(seed).encode()
    for changes in ({}, {"pack": True}, {"cross_documents": True}):
        check(tmp_path, tokenizer, vocab, "a.txt", text, **changes)
    records = "\n".join(json.dumps({"text": drawn_text(seed + n)}) for n in range(5))
    check(tmp_path, tokenizer, vocab, "b.jsonl", records.encode())


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example("One.\r\rTwo.\r\n\ufeff\nThree.")
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=400))
def test_text_and_json_hold_the_same_words(tmp_path_factory, text):
    """No paragraph is lost or made up between a file and its documents."""
    folder = tmp_path_factory.mktemp("text")
    (folder / "a.txt").write_bytes(text.encode())
    found = [p for document in Corpus([folder / "a.txt"]) for p in document.paragraphs]
    lines = map(str.strip, re.split(r"\r*\n|\r", text))
    assert found == [line for line in lines if line not in ("", "\ufeff")]
    (folder / "a.jsonl").write_text(json.dumps({"text": text}), encoding="utf-8")
    assert [p for d in Corpus([folder / "a.jsonl"]) for p in d.paragraphs] == found


SHAPES = {
    "blank": b"\n \n\t\n\r\n\n",
    "one_word_documents": b"\n\n".join(b"word%d" % n for n in range(500)),
    "huge_line": b"The house was old. " * 60_000,
    "no_newline": b"word " * 1_000_000,
    "no_space": "\u00e4".encode() * 500_000,
    "nuls": b"\x00" * 1000 + b"\nThe house.\n" + b"\x00The\x00 house\x00\n\n\x00",
    "only_stops": b". . . ! ? ...\n\n...\n",
}


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        *itertools.product([name for name in SHAPES if name != "no_newline"], [False, True]),
        pytest.param("no_newline", False, marks=pytest.mark.slow),
        pytest.param("no_newline", True, marks=pytest.mark.long),
    ],
)
def test_shapes_of_text(tmp_path, tokenizer, vocab, name, pack):
    changes = {"pack": True} if pack else {}
    check(tmp_path, tokenizer, vocab, f"{name}.txt", SHAPES[name], **changes)


@pytest.mark.parametrize("task", ["nsp", "sop"])
@pytest.mark.parametrize("static", [False, True])
def test_pairs_of_anything(tmp_path, tokenizer, vocab, task, static):
    """Sequences are so long that no pair is cut: each pass over the corpus holds all its pieces."""
    path, output, passes = tmp_path / "a.txt", tmp_path / "out", 2
    path.write_text("\n\n".join(map(drawn_text, range(4))), encoding="utf-8")
    manifest = create_pretraining_data(
        CreationOptions(
            (str(path),), str(vocab), str(output), 512, passes, sentence_task=task,
            static_masking=static, short_seq_prob=0,
        )
    )  # fmt: skip
    assert manifest.examples > 50 and not manifest.truncated_tokens
    found, specials = Counter(), Counter()
    for row in read(output):
        label = row["next_sentence_labels"][0]
        for piece, segment in zip(row["input_ids"], row["segment_ids"], strict=True):
            if piece in (tokenizer.vocabulary.cls_id, tokenizer.vocabulary.sep_id):
                specials[piece] += 1
            elif task == "sop" or not (segment and label):  # what is drawn from elsewhere is extra
                found[piece] += 1
            else:
                specials["drawn"] += 1
    # A document of one sentence has no neighbours to be swapped.
    needed = 2 if task == "sop" else 1
    documents = [list(filter(None, tokenizer(x).to_list())) for x in sentences_of(path) if x]
    kept = [document for document in documents if len(document) >= needed]
    pieces = Counter(piece for document in kept for sentence in document for piece in sentence)
    assert found == Counter({piece: passes * count for piece, count in pieces.items()})
    assert specials[tokenizer.vocabulary.cls_id] == manifest.examples
    assert specials[tokenizer.vocabulary.sep_id] == 2 * manifest.examples
    assert manifest.tokens == found.total() + specials.total()


@pytest.mark.parametrize("task", ["nsp", "sop"])
def test_what_is_cut_from_pairs_is_counted(tmp_path, task):
    """Each word occurs once, so that a piece tells its place; each sentence has seven.

    The shortest run of sentences that is too long for 29 pieces has 35: six are cut, and what the
    segments were before is seen from the whole sentences around them.
    """
    draw, passes, length = random.Random(7), 3, 7
    sizes = [draw.randint(1, 12) for _ in range(60)]
    words = iter(f"w{number}" for number in range(length * sum(sizes)))
    documents = [
        "\n".join(" ".join(itertools.islice(words, length)) for _ in range(size)) for size in sizes
    ]
    (tmp_path / "a.txt").write_text("\n\n".join(documents))
    names = [f"w{number}" for number in range(length * sum(sizes))]
    vocabulary = Vocabulary([*SPECIAL_TOKENS, *names])
    vocabulary.save(tmp_path / "vocab.txt")
    manifest = create_pretraining_data(
        CreationOptions(
            (str(tmp_path / "a.txt"),), str(tmp_path / "vocab.txt"), str(tmp_path / "out"), 32,
            passes, sentence_task=task,
        )
    )  # fmt: skip
    used, kept, lost = Counter(), 0, 0
    for row in read(tmp_path / "out"):
        label = row["next_sentence_labels"][0]
        for segment in (0, 1):
            places = [
                piece - len(SPECIAL_TOKENS)
                for piece, number in zip(row["input_ids"], row["segment_ids"], strict=True)
                if number == segment and piece >= len(SPECIAL_TOKENS)
            ]
            assert places == list(range(places[0], places[-1] + 1))
            sentences = range(places[0] // length, places[-1] // length + 1)
            kept += len(places)
            lost += length * len(sentences) - len(places)
            if task == "sop" or not (segment and label):
                used.update(sentences)
    assert manifest.tokens == kept + 3 * manifest.examples
    assert manifest.truncated_tokens == lost > 0
    ends = list(itertools.accumulate(sizes))
    for sentence in range(ends[-1]):
        # With "sop" the last sentence of a document may be left without a neighbour.
        last = task == "sop" and sentence + 1 in ends
        assert used[sentence] == passes or (last and used[sentence] < passes), sentence
    if task == "sop":
        assert not any(used[end - 1] for end, size in zip(ends, sizes, strict=True) if size == 1)
