"""Search by meaning, against products of all vectors by hand."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from keras_bert import BertEncoder, SentenceEncoder, TextIndex, load_encoder, load_tokenizer
from tests import command_process
from tests.signatures.tiny_models import random_texts
from tests.tolerances import REORDERED

TOOL = Path(__file__).parents[2] / "tools" / "search_texts.py"
TEXTS = [*dict.fromkeys(random_texts(40, seed=3, longest=12))][1:]  # the first is empty
QUERIES = ["the film", TEXTS[7]]


@pytest.fixture(scope="module")
def encoder(model_folder):
    return SentenceEncoder.from_preset(model_folder("encoder"), pooling="mean", normalize=False)


@pytest.fixture(scope="module")
def index(encoder):
    return TextIndex.build(encoder, TEXTS, batch_size=16)


def cosines(encoder, queries, texts):
    """By float64."""
    asked, held = (np.float64(encoder.encode(several)) for several in (queries, texts))
    lengths = np.linalg.norm(asked, axis=-1)[:, None] * np.linalg.norm(held, axis=-1)
    return asked @ held.T / lengths


def test_the_nearest_texts_come_first(encoder, index):
    expected = cosines(encoder, QUERIES, TEXTS)
    found = index.search(QUERIES, top_k=5)
    for hits, scores in zip(found, expected, strict=True):
        np.testing.assert_allclose(
            [hit.score for hit in hits], np.sort(scores)[::-1][:5], **REORDERED
        )
        assert [TEXTS[hit.number] for hit in hits] == [hit.text for hit in hits]
        np.testing.assert_allclose(
            [hit.score for hit in hits], scores[[hit.number for hit in hits]], **REORDERED
        )
    assert found[1][0].text == TEXTS[7]
    assert len(index.search(QUERIES, top_k=1000)[0]) == len(TEXTS) == len(index)
    assert index.search([]) == []


def test_vectors_of_a_model_for_products_keep_their_lengths(model_folder, tmp_path):
    shutil.copytree(model_folder("encoder"), tmp_path / "model")
    write_pooling(tmp_path / "model", "mean", similarity="dot")
    encoder = SentenceEncoder.from_preset(tmp_path / "model")
    asked, held = (np.float64(encoder.encode(several)) for several in (QUERIES, TEXTS))
    products = asked @ held.T
    by_cosine = np.argsort(-cosines(encoder, QUERIES, TEXTS))
    index = TextIndex.build(encoder, TEXTS)
    other_order = 0.0
    for row, hits in enumerate(index.search(QUERIES, len(TEXTS))):
        scores = products[row, [hit.number for hit in hits]]
        np.testing.assert_allclose([hit.score for hit in hits], scores, **REORDERED)
        np.testing.assert_allclose(scores, np.sort(products[row])[::-1], **REORDERED)
        other_order += np.abs(scores - products[row, by_cosine[row]]).max()
    assert other_order > 0.01  # the lengths matter
    index.save(tmp_path / "index")
    assert len(TextIndex.load(tmp_path / "index", encoder)) == len(TEXTS)
    write_pooling(tmp_path / "model", "mean", similarity=None)
    with pytest.raises(ValueError, match="was made by another model"):
        TextIndex.load(tmp_path / "index", SentenceEncoder.from_preset(tmp_path / "model"))
    write_pooling(tmp_path / "model", "mean", similarity="manhattan")
    distant = SentenceEncoder.from_preset(tmp_path / "model")
    with pytest.raises(ValueError, match="compares vectors by manhattan .*write one of them there"):
        TextIndex.build(distant, TEXTS)


def write_pooling(folder, mode, similarity):
    """A folder of sentence-transformers without a norm."""
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
    (folder / "modules.json").write_text(
        json.dumps(
            [
                {"path": path, "type": f"sentence_transformers.models.{kind}"}
                for path, kind in modules
            ]
        )
    )
    (folder / "1_Pooling").mkdir(exist_ok=True)
    settings = {"word_embedding_dimension": 8, f"pooling_mode_{mode}_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(settings))
    stored = {"similarity_fn_name": similarity}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(stored))


def test_of_equal_texts_the_first_goes_before(encoder):
    index = TextIndex.build(encoder, ["a film", "the book", "a film", "a film"])
    assert [hit.number for hit in index.search(["a film"], top_k=2)[0]] == [0, 2]
    assert TextIndex.build(encoder, []).search(["a film"]) == [[]]


def test_many_queries_are_searched_in_blocks(encoder, index, monkeypatch):
    monkeypatch.setattr("keras_bert.retrieval.searched_texts._SCORES_PER_BLOCK", 3 * len(TEXTS))
    found = [[hit.score for hit in hits] for hits in index.search(TEXTS, top_k=2)]
    expected = np.sort(cosines(encoder, TEXTS, TEXTS))[:, :-3:-1]
    np.testing.assert_allclose(found, expected, **REORDERED)


def test_an_index_is_written_and_opened(encoder, index, model_folder, tmp_path):
    folder = tmp_path / "index"
    index.save(folder)
    again = TextIndex.load(folder, encoder)
    assert again.texts == TEXTS
    np.testing.assert_allclose(again.vectors, index.vectors, **REORDERED)
    index.save(folder)  # once more
    other = SentenceEncoder.from_preset(model_folder("encoder"), pooling="cls")
    with pytest.raises(ValueError, match="was made by another model, or with another pooling"):
        TextIndex.load(folder, other)
    # Another model whose vectors are much the same: the first, a little changed.
    model = BertEncoder.from_preset(model_folder("encoder"))
    for weight in model.trainable_weights:
        weight.assign(weight + 0.01)
    model.save_to_preset(tmp_path / "changed", load_tokenizer(model_folder("encoder")))
    changed = SentenceEncoder.from_preset(tmp_path / "changed", pooling="mean")
    with pytest.raises(ValueError, match="was made by another model, or with another pooling"):
        TextIndex.load(folder, changed)
    vectors = (folder / "vectors.npy").read_bytes()
    (folder / "vectors.npy").write_bytes(b"")
    with pytest.raises(ValueError, match="holds a damaged index .*: build it anew"):
        TextIndex.load(folder, encoder)
    (folder / "vectors.npy").write_bytes(vectors)
    (folder / "texts.jsonl").write_text("{}\n")
    with pytest.raises(ValueError, match="holds a damaged index .*: build it anew"):
        TextIndex.load(folder, encoder)
    (folder / "texts.jsonl").write_text('{"text": 5}\n')
    with pytest.raises(
        ValueError, match="holds a damaged index .text 0 .* is a int: give strings."
    ):
        TextIndex.load(folder, encoder)
    lost = np.where(np.arange(len(TEXTS))[:, None] == 3, np.nan, index.vectors)
    for damaged in (lost, index.vectors.astype(str), index.vectors.astype(complex)):
        np.save(folder / "vectors.npy", damaged)
        with pytest.raises(ValueError, match=r"holds a damaged index \(.*vectors.npy.*build it"):
            TextIndex.load(folder, encoder)
    with open(folder / "vectors.npy", "wb") as file:  # NumPy's other format
        np.savez(file, index.vectors)
    with pytest.raises(ValueError, match=r"holds a damaged index \(vectors.npy holds no array of"):
        TextIndex.load(folder, encoder)
    (folder / "vectors.npy").write_bytes(vectors)
    (folder / "texts.jsonl").write_text('{"text": "one"}\n')
    with pytest.raises(ValueError, match="the vectors have the shape .* but there are 1 texts"):
        TextIndex.load(folder, encoder)
    (folder / "index.json").write_text("[]")
    with pytest.raises(ValueError, match=r"holds a damaged index \(index.json holds no object"):
        TextIndex.load(folder, encoder)
    with pytest.raises(FileNotFoundError, match="holds no index.json: build the index first"):
        TextIndex.load(tmp_path, encoder)


def test_what_is_no_index_is_not_replaced(index, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="^. is the working directory .*: name a folder in it"):
        index.check_folder(".")  # before texts are encoded
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="holds something else than an index: choose another"):
        index.save(tmp_path)
    with pytest.raises(ValueError, match="which is a file: name a folder"):
        index.save(tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "mine"
    # Web sites have an index.json, too.
    (tmp_path / "index.json").write_text("{}")
    with pytest.raises(ValueError, match="holds something else than an index: choose another"):
        index.save(tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_an_index_of_shorter_rows_is_another(encoder, model_folder, tmp_path):
    """One text of many is longer than the rows of the second encoder."""
    texts = [f"the film {letter}" for letter in "abcdefghijklmnopqrst"]
    texts[5] = "the film a b c d e f g h i j k"
    TextIndex.build(encoder, texts).save(tmp_path / "index")
    shorter = SentenceEncoder.from_preset(model_folder("encoder"), "mean", max_seq_length=7)
    with pytest.raises(ValueError, match="was made by another model, or with .* max_seq_length"):
        TextIndex.load(tmp_path / "index", shorter)


def test_empty_texts_are_not_found_and_keep_their_places(encoder):
    index = TextIndex.build(encoder, ["", "the film", "  ", "a book"])
    for query in ("", "the film"):
        assert sorted(hit.number for hit in index.search([query])[0]) == [1, 3]
    assert TextIndex.build(encoder, ["", " "]).search(["a"]) == [[]]


def test_texts_that_are_none_are_named_before_the_work(encoder, monkeypatch):
    texts = ["a film"] * 5000
    texts[4321] = None
    monkeypatch.setattr(encoder, "encode_document", None)  # nothing is encoded
    with pytest.raises(ValueError, match="text 4321 .* is a NoneType: give strings"):
        TextIndex.build(encoder, texts)


def test_what_is_no_utf_8_is_read_as_in_files(encoder):
    texts = ["a \ud83d film", b"a \xff film"]
    index = TextIndex.build(encoder, texts)
    assert index.texts == ["a \ufffd film"] * 2
    assert TextIndex(encoder, texts, index.vectors).texts == index.texts
    np.testing.assert_allclose(encoder.encode(texts), encoder.encode(index.texts), **REORDERED)


def test_one_string_is_no_list(encoder, index):
    with pytest.raises(ValueError, match="read letter by letter"):
        index.search("the film")
    with pytest.raises(ValueError, match="read letter by letter"):
        TextIndex.build(encoder, "the film")
    with pytest.raises(ValueError, match="read letter by letter"):  # as many as there are vectors
        TextIndex(encoder, "a" * len(index), index.vectors)
    with pytest.raises(ValueError, match="text 1 .* is a NoneType: give strings"):
        TextIndex(encoder, ["the film", None], index.vectors[:2])
    with pytest.raises(ValueError, match="top_k is None: it must be a whole number, at least 1"):
        index.search(QUERIES, top_k=None)
    with pytest.raises(ValueError, match="top_k is 0: it must be at least 1"):
        index.search(QUERIES, top_k=0)
    for vectors in (index.vectors[0], index.vectors[:, 1:]):
        with pytest.raises(ValueError, match=r"have the shape .*: give an array \[queries, 16\]"):
            index.nearest(vectors)


def test_what_is_no_number_is_not_compared(index, model_folder, tmp_path):
    model, tokenizer = (read(model_folder("encoder")) for read in (load_encoder, load_tokenizer))
    model.weights[0].assign(model.weights[0] * np.nan)
    model.save_to_preset(tmp_path / "damaged", tokenizer)
    damaged = SentenceEncoder.from_preset(tmp_path / "damaged", pooling="mean")
    with pytest.raises(ValueError, match="the model answers nan"):
        damaged.encode(["the film"])
    with pytest.raises(ValueError, match="the model answers nan"):
        index.nearest(index.vectors[:1] * np.nan)


def search_texts(folder, *arguments):
    return command_process.run([TOOL, "--init_from=model", "--pooling=mean", *arguments], folder)


@pytest.mark.slow
def test_the_command_searches_files(encoder, model_folder, tmp_path):
    shutil.copytree(model_folder("encoder"), tmp_path / "model")
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in TEXTS))
    (tmp_path / "queries.txt").write_text("\n".join(QUERIES) + "\n")
    done = search_texts(
        tmp_path,
        *("--input=texts.jsonl", "--index=index", "--queries=queries.txt", "--top_k=3"),
        "--output=found.csv",
    )
    assert done.returncode == 0, done.stderr[-2000:]
    with open(tmp_path / "found.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    expected = TextIndex.build(encoder, TEXTS).search(QUERIES, top_k=3)
    assert [(row["query"], row["text"]) for row in rows] == [
        (query, hit.text) for query, hits in zip(QUERIES, expected, strict=True) for hit in hits
    ]
    assert [row["rank"] for row in rows] == ["1", "2", "3"] * 2
    scores = [hit.score for hits in expected for hit in hits]
    np.testing.assert_allclose([float(row["score"]) for row in rows], scores, **REORDERED)
    # The index is there: no texts are needed, and others are not taken in its place.
    (tmp_path / "index" / "notes.txt").touch()  # it is read, not replaced
    done = search_texts(tmp_path, "--index=index", f"--query={TEXTS[7]}", "--top_k=1")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split("\n")[-2].split()[:2] == ["1.000", "7"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--query=a"], "there are no texts: give --input, or an --index that was made before"),
        (["--input=texts.txt"], "there is nothing to search for: give --query or --queries"),
        (
            ["--input=texts.txt", "--query=a", "--output=found.txt"],
            "--output=found.txt does not end in .csv: rename it",
        ),
        (
            ["--input=texts.txt", "--query=a", "--output=texts.txt"],
            "output is texts.txt, the same file as texts.txt: choose another name",
        ),
        (
            ["--input=blank.txt", "--query=a"],
            "--input=blank.txt holds no text to search: give a file with texts",
        ),
        (
            ["--queries=texts.txt", "--text_column=b", "--index=made"],
            "--text_column is for --input: give that, too, or leave it out",
        ),
        (["--input=texts.txt", "--index=.", "--query=a"], "holds something else than an index"),
    ],
)
def test_the_command_refuses_in_one_sentence(arguments, sentence, encoder, model_folder, tmp_path):
    (tmp_path / "model").symlink_to(model_folder("encoder"))
    (tmp_path / "texts.txt").write_text("a\n")
    (tmp_path / "blank.txt").write_text("\n \n")
    TextIndex.build(encoder, ["a"]).save(tmp_path / "made")
    done = search_texts(tmp_path, *arguments)
    assert done.returncode != 0 and sentence in done.stderr and "Traceback" not in done.stderr
