"""Vectors of tokens in Python and in an index: against the Keras model and MaxSim by loops."""

import csv
import dataclasses
import functools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import (
    BertEncoder,
    MultiVectorEncoder,
    MultiVectorIndex,
    SentenceEncoder,
    TextIndex,
    TokenVectors,
    load_preprocessor,
    load_tokenizer,
    mine_negatives,
)
from keras_bert.checkpoints import multi_vector_modules
from keras_bert.checkpoints.multi_vector_modules import QueryExpansion
from keras_bert.retrieval.kinds import open_reranker, search_classes
from keras_bert.retrieval.searched_texts import Hit
from keras_bert.serving.served_folder import open_signatures
from keras_bert.signatures.options import ExportOptions
from tests import command_process
from tests.conftest import write_csv
from tests.signatures.tiny_models import random_texts
from tests.tolerances import REORDERED

TOOLS = Path(__file__).parents[2] / "tools"
TEXTS = [*dict.fromkeys(random_texts(30, seed=3, longest=12))][1:]  # the first is empty
QUERIES = ["the film", TEXTS[7]]
SHORT = ["a film", "", "ab. c", "the film"]
# Of an index, whose vectors have the 11 bits of float16.
HALF = {"rtol": 2e-3, "atol": 2e-3}


@pytest.fixture(scope="module")
def folder(token_folder):
    return token_folder


@pytest.fixture(scope="module")
def encoder(folder):
    return MultiVectorEncoder.from_preset(folder)


@pytest.fixture(scope="module")
def index(encoder):
    return MultiVectorIndex.build(encoder, TEXTS, batch_size=8)


def changed(folder, target, **values):
    """A copy of a folder that says something else of what stands behind its encoder."""
    shutil.copytree(folder, target)
    modules = multi_vector_modules.read(target)
    multi_vector_modules.write(target, dataclasses.replace(modules, **values))
    return target


@functools.cache
def keras_encoder(folder):
    return BertEncoder.from_preset(folder, dtype="float32")


@functools.cache
def preprocessor(folder, **arguments):
    return load_preprocessor(folder, pad_to="longest", **arguments)


def unit_vectors(folder, ids, mask=None):
    """Of the rows of ids [N, S] by the Keras encoder and the kernel of the folder, [N, S, D]."""
    encoder = keras_encoder(folder)
    mask = np.ones_like(ids) if mask is None else mask
    inputs = {"input_ids": ids, "input_mask": mask, "segment_ids": np.zeros_like(ids)}
    vectors = (
        encoder(inputs)["sequence_output"].numpy() @ multi_vector_modules.read(folder).projection
    )
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


@functools.cache
def vectors_of(folder, text, **arguments):
    """Of one text by itself, [tokens, D]."""
    row = preprocessor(folder, **arguments)([text])
    return unit_vectors(folder, row["input_ids"].numpy())[0]


def max_sim_by_hand(query, text):
    return sum(max(float(asked @ held) for held in text) for asked in query)


def assert_equal(found, expected):
    assert found.counts.tolist() == [len(rows) for rows in expected]
    for rows, own in zip(found, expected, strict=True):
        np.testing.assert_allclose(rows, own, **REORDERED)


def test_vectors_are_those_of_the_model_in_the_order_of_the_texts(encoder, folder):
    expected = [vectors_of(folder, text) for text in TEXTS]
    for encode in (encoder.encode_query, encoder.encode_document):
        for batch_size in (1, 8):
            assert_equal(encode(TEXTS, batch_size), expected)
    assert len(encoder.encode_query([])) == 0
    scores = encoder.similarity(encoder.encode_query(QUERIES), encoder.encode_document(TEXTS))
    asked = [vectors_of(folder, query) for query in QUERIES]
    by_hand = [[max_sim_by_hand(query, text) for text in expected] for query in asked]
    np.testing.assert_allclose(scores, by_hand, **REORDERED)


def test_queries_and_texts_have_lengths_of_their_own(folder, tmp_path):
    said = changed(folder, tmp_path / "said", query_length=5, max_seq_length=7)
    encoder = MultiVectorEncoder.from_preset(said)
    assert_equal(
        encoder.encode_query(TEXTS[:9]),
        [vectors_of(folder, t, max_seq_length=5) for t in TEXTS[:9]],
    )
    assert_equal(
        encoder.encode_document(TEXTS[:9]),
        [vectors_of(folder, t, max_seq_length=7) for t in TEXTS[:9]],
    )
    asked = MultiVectorEncoder.from_preset(said, max_seq_length=6)
    assert_equal(
        asked.encode_document(TEXTS[:9]),
        [vectors_of(folder, t, max_seq_length=6) for t in TEXTS[:9]],
    )
    assert asked.encode_query(TEXTS).counts.max() == 5
    # No more than the encoder has positions.
    more = MultiVectorEncoder.from_preset(changed(folder, tmp_path / "more", query_length=99))
    assert more.encode_query(["film " * 99]).counts.tolist() == [24]


def test_prompts_and_markers_stand_before_texts(folder, tmp_path):
    modules = multi_vector_modules.read(folder)
    prompts = modules.prompts._replace(query="film: ", document="the ")
    said = changed(folder, tmp_path / "said", prompts=prompts, query_marker="$")
    encoder = MultiVectorEncoder.from_preset(said)
    tokenizer = load_tokenizer(folder)
    vocabulary = tokenizer.vocabulary
    expected = []
    for text in SHORT:
        pieces = tokenizer(["film: " + text])[0].numpy()
        marker = vocabulary.id_of("$")
        row = np.array([[vocabulary.cls_id, marker, *pieces, vocabulary.sep_id]], np.int32)
        expected.append(unit_vectors(folder, row)[0])
    assert_equal(encoder.encode_query(SHORT), expected)
    plain = [vectors_of(folder, "the " + text) for text in SHORT]
    assert_equal(encoder.encode_document(SHORT), plain)
    asked = MultiVectorEncoder.from_preset(said, document_prompt="a ")
    assert_equal(asked.encode_document(["film"]), [vectors_of(folder, "a film")])


@pytest.mark.parametrize("attend", [False, True])
def test_an_expanded_query_has_a_vector_at_each_mask(attend, folder, tmp_path):
    expansion = QueryExpansion(length=9, attend=attend, token=None)
    said = changed(folder, tmp_path / "said", expansion=expansion)
    vocabulary = load_tokenizer(folder).vocabulary
    expected = []
    for text in TEXTS[:6]:
        pieces = load_tokenizer(folder)([text])[0].numpy()[:7]
        row = [vocabulary.cls_id, *pieces, vocabulary.sep_id]
        ids = np.array([row + [vocabulary.mask_id] * (9 - len(row))], np.int32)
        mask = np.array([[1] * len(row) + [int(attend)] * (9 - len(row))], np.int32)
        expected.append(unit_vectors(folder, ids, mask)[0])
    encoder = MultiVectorEncoder.from_preset(said)
    assert_equal(encoder.encode_query(TEXTS[:6]), expected)
    assert_equal(encoder.encode_document(TEXTS[:6]), [vectors_of(folder, t) for t in TEXTS[:6]])
    longer = changed(folder, tmp_path / "longer", expansion=QueryExpansion(99, attend, None))
    with pytest.raises(ValueError, match="fills queries up to 99 positions, but its encoder"):
        MultiVectorEncoder.from_preset(longer)


def test_pieces_of_the_skiplist_have_no_vector_in_texts(folder, tmp_path):
    said = changed(folder, tmp_path / "said", skiplist=(".", "-", "[UNK]", "no piece of it"))
    encoder = MultiVectorEncoder.from_preset(said)
    text = "a-b. c"
    whole = vectors_of(folder, text)
    assert_equal(encoder.encode_query([text]), [whole])
    pieces = ["[CLS]", "a", "-", "b", ".", "c", "[SEP]"]
    assert len(whole) == len(pieces)
    kept = [place for place, piece in enumerate(pieces) if piece not in "-."]
    assert_equal(encoder.encode_document([text]), [whole[kept]])
    bare = ("[CLS]", "[SEP]", ".")
    nothing = MultiVectorEncoder.from_preset(changed(folder, tmp_path / "bare", skiplist=bare))
    assert nothing.encode_document(["."]).counts.tolist() == [0]
    assert nothing.matches("a", ".") == []
    # Neither found nor left among what another search has found.
    assert nothing.scores(["a"], ["."]).tolist() == [-np.inf]
    [hits] = nothing.rerank(["a"], [[Hit(0, 0.9, "."), Hit(1, 0.1, "b c")]])
    assert [hit.number for hit in hits] == [1] and np.isfinite(hits[0].score)
    found = MultiVectorIndex.build(nothing, [".", "b c"]).search(["a"])
    assert [hit.number for hit in found[0]] == [1]
    # Words that are no piece of the vocabulary are not what a skiplist speaks of.
    assert_equal(encoder.encode_document(["a %"]), [vectors_of(folder, "a %")])


def test_the_texts_with_the_largest_sums_come_first(encoder, index, folder):
    texts = [vectors_of(folder, text) for text in TEXTS]
    for query, hits in zip(QUERIES, index.search(QUERIES, top_k=5), strict=True):
        sums = np.array([max_sim_by_hand(vectors_of(folder, query), text) for text in texts])
        assert len(hits) == 5
        np.testing.assert_allclose([hit.score for hit in hits], np.sort(sums)[::-1][:5], **HALF)
        for hit in hits:
            assert hit.text == TEXTS[hit.number]
            np.testing.assert_allclose(hit.score, sums[hit.number], **HALF)
    assert index.search([]) == []
    vectors = index.query_vectors(QUERIES)
    scores = index.scores_of(vectors, [3, 7])
    expected = [
        max_sim_by_hand(vectors_of(folder, query), texts[place])
        for query, place in zip(QUERIES, (3, 7), strict=True)
    ]
    np.testing.assert_allclose(scores, expected, **HALF)


def test_an_index_is_written_and_opened(encoder, index, folder, tmp_path):
    index.save(tmp_path / "index")
    again = MultiVectorIndex.load(tmp_path / "index", encoder)
    assert again.texts == TEXTS
    np.testing.assert_array_equal(again.vectors.vectors, index.vectors.vectors)
    assert again.vectors.vectors.dtype == np.float16
    index.save(tmp_path / "index")  # once more
    cut = MultiVectorEncoder.from_preset(folder, max_seq_length=5)
    with pytest.raises(ValueError, match="was made by another model"):
        MultiVectorIndex.load(tmp_path / "index", cut)
    other = changed(folder, tmp_path / "other", document_marker="$")
    with pytest.raises(ValueError, match="was made by another model"):
        MultiVectorIndex.load(tmp_path / "index", MultiVectorEncoder.from_preset(other))
    dense = SentenceEncoder.from_preset(folder, pooling="mean")
    with pytest.raises(ValueError, match="was made by another model"):
        TextIndex.load(tmp_path / "index", dense)
    with pytest.raises(ValueError, match="the encoder is a SentenceEncoder: a MultiVectorIndex"):
        MultiVectorIndex.build(dense, TEXTS)
    (tmp_path / "index" / "index.json").write_text('{"texts": 3, "width": 16}')
    with pytest.raises(ValueError, match="was made by another model"):  # dense vectors
        MultiVectorIndex.load(tmp_path / "index", encoder)
    index.save(tmp_path / "index")
    file = tmp_path / "index" / "vectors.npz"
    stored = file.read_bytes()
    for damaged in (b"", stored[:-9]):
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match="holds a damaged index"):
            MultiVectorIndex.load(tmp_path / "index", encoder)


def test_bad_vectors_are_refused(encoder, index):
    with pytest.raises(ValueError, match="the search takes TokenVectors of 6 numbers"):
        index.nearest(np.ones([2, 6]))
    with pytest.raises(ValueError, match="are TokenVectors of 5 numbers each, but the search tak"):
        index.nearest(TokenVectors([0, 1], np.ones([1, 5])))
    with pytest.raises(ValueError, match="there are vectors of 2 texts and 3 texts"):
        MultiVectorIndex(encoder, ["a", "b", "c"], encoder.encode_document(["a", "b"]))
    with pytest.raises(ValueError, match="one string"):
        encoder.encode_query("a film")


def test_what_another_search_found_is_ordered_anew(encoder, folder, model_folder):
    dense = SentenceEncoder.from_preset(model_folder("encoder"), pooling="mean")
    found = TextIndex.build(dense, TEXTS).search(QUERIES, top_k=8)
    reranker = open_reranker(folder)
    assert isinstance(reranker, MultiVectorEncoder)
    for query, before, after in zip(QUERIES, found, reranker.rerank(QUERIES, found), strict=True):
        assert {hit.number for hit in after} == {hit.number for hit in before}
        asked = vectors_of(folder, query)
        sums = [max_sim_by_hand(asked, vectors_of(folder, hit.text)) for hit in after]
        np.testing.assert_allclose([hit.score for hit in after], sums, **REORDERED)
        assert sums == sorted(sums, reverse=True)
    pairs = [*zip(QUERIES * 2, TEXTS[:2] + TEXTS[5:7], strict=True)]
    expected = [max_sim_by_hand(vectors_of(folder, q), vectors_of(folder, t)) for q, t in pairs]
    np.testing.assert_allclose(encoder.scores(*zip(*pairs, strict=True)), expected, **REORDERED)
    assert len(encoder.scores([], [])) == 0
    with pytest.raises(ValueError, match="there are 1 queries and 2 texts"):
        encoder.scores(["a"], ["a", "b"])
    with pytest.raises(ValueError, match="label is 'yes', but .* has no classes"):
        open_reranker(folder, "yes")


def test_what_each_token_of_a_query_finds(encoder, folder):
    found = encoder.matches("the film", "a film. [the]")
    tokens = ["[CLS]", "the", "film", "[SEP]"]
    pieces = ["[CLS]", "a", "film", ".", "[", "the", "]", "[SEP]"]
    products = vectors_of(folder, "the film") @ vectors_of(folder, "a film. [the]").T
    assert [match.query_token for match in found] == tokens
    assert [match.text_token for match in found] == [pieces[n] for n in products.argmax(axis=-1)]
    np.testing.assert_allclose([match.score for match in found], products.max(axis=-1), **REORDERED)
    [score] = encoder.scores(["the film"], ["a film. [the]"])
    assert sum(match.score for match in found) == pytest.approx(score, rel=1e-5)
    with pytest.raises(ValueError, match="query is a list"):
        encoder.matches(["the film"], "a film")


class Compared(str):
    """A text that counts with how many others it is compared."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Compared.compared += 1
        return str.__eq__(self, other)


def test_as_many_pairs_take_as_many_looks(encoder, monkeypatch):
    """Not each query at each pair, of which a file that is mined has a hundred thousand."""
    texts = [Compared(text) for text in TEXTS]
    vectors = dict(zip(TEXTS, encoder.encode_document(TEXTS), strict=True))

    def known(several, batch_size):
        return TokenVectors.from_list([vectors[str(text)] for text in several])

    for name in ("encode_query", "encode_document"):
        monkeypatch.setattr(encoder, name, known)
    Compared.compared = 0
    found = encoder.scores(texts * 2, texts[1:] * 2 + texts[:2])
    assert Compared.compared < 10 * len(texts)
    expected = [
        max_sim_by_hand(vectors[str(query)], vectors[str(text)])
        for query, text in zip(texts * 2, texts[1:] * 2 + texts[:2], strict=True)
    ]
    np.testing.assert_allclose(found, expected, **REORDERED)


def test_the_score_of_a_pair_may_be_below_zero(folder, tmp_path, monkeypatch):
    """Padding, whose products are 0, is no token then that is most like one of the query."""
    family = open_signatures(folder, ExportOptions())
    texts = TokenVectors.from_list([-np.eye(1, 6), np.repeat(-np.eye(1, 6), 3, axis=0)])
    queries = TokenVectors.from_list([np.repeat(np.eye(1, 6), 4, axis=0), np.eye(1, 6)])
    for name, vectors in (("document_vectors", texts), ("query_vectors", queries)):
        ragged = tf.RaggedTensor.from_row_splits(vectors.vectors, vectors.row_splits)
        monkeypatch.setattr(family, name, lambda _, ragged=ragged: (ragged, None))
    answer = family.more_answers()["serve_scores"](text=None, query=None)
    np.testing.assert_allclose(answer["score"], [-4, -1], **REORDERED)


def test_the_classes_that_search_a_folder(folder, model_folder):
    assert search_classes(folder) == (MultiVectorEncoder.from_preset, MultiVectorIndex)
    for name, kind in (("pooling", "dense"), ("max_active_dims", "sparse")):
        with pytest.raises(ValueError, match=f"{name} is for {kind} vectors, and .* makes token"):
            search_classes(folder, [name])
    with pytest.raises(ValueError, match="holds no vectors of tokens: give a run of"):
        MultiVectorEncoder.from_preset(model_folder("encoder"))
    with pytest.raises(FileNotFoundError, match="nowhere is not a folder"):
        MultiVectorEncoder.from_preset("nowhere")


def test_wrong_answers_are_mined(encoder, index):
    queries = ["the film", TEXTS[3]]
    positives = [TEXTS[0], TEXTS[4]]
    mined = mine_negatives(index, queries, positives, count=3, relative_margin=-1)
    for query, positive, wrong in zip(queries, positives, mined, strict=True):
        nearest = [hit.text for hit in index.search([query], 10)[0]]
        assert wrong == [text for text in nearest if text not in (query, positive)][:3]


@pytest.mark.slow
def test_the_commands_search_and_mine(index, folder, model_folder, tmp_path):
    # The best of its texts are further apart than float16 moves their scores.
    query = TEXTS[7]
    (tmp_path / "model").symlink_to(folder)
    (tmp_path / "dense").symlink_to(model_folder("encoder"))
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in TEXTS))

    def run(tool, *arguments):
        done = command_process.run([TOOLS / tool, *arguments], tmp_path)
        assert done.returncode == 0, done.stderr
        return done

    search = ("--input=texts.jsonl", f"--query={query}", "--top_k=3")
    tokens = ("--init_from=model", "--index=made", "--output=tokens.csv")
    run("search_texts.py", *tokens, *search)
    run("search_texts.py", *tokens, f"--query={query}", "--top_k=3")  # what was made
    few = ("--init_from=model", "--index=few", "--index_bits=4", "--output=few.csv")
    assert "numbers of 4 bits" in run("search_texts.py", *few, *search).stdout
    with open(tmp_path / "few.csv", encoding="utf-8", newline="") as file:
        assert next(csv.DictReader(file))["text"] == query
    dense = ("--init_from=dense", "--pooling=mean", "--rerank_with=model", "--candidates=50")
    run("search_texts.py", *dense, *search, "--output=reranked.csv")
    expected = [(str(hit.number), hit.text) for hit in index.search([query], 3)[0]]
    for name in ("tokens.csv", "reranked.csv"):
        with open(tmp_path / name, encoding="utf-8", newline="") as file:
            rows = [(row["number"], row["text"]) for row in csv.DictReader(file)]
        assert rows == expected, name
    # The teacher reads nothing of ".", neither as a right answer nor as a wrong one.
    bare = changed(folder, tmp_path / "bare", skiplist=("[CLS]", "[SEP]", "."))
    header = ("text", "positive", "negative0")
    write_csv(tmp_path / "pairs.csv", header, [(query, TEXTS[0], "."), ("the film", ".", "")])
    mine = ("--input=pairs.csv", "--passages=texts.jsonl", "--output=mined.csv", "--negatives=3")
    run(
        "mine_negatives.py",
        "--init_from=model",
        *mine,
        "--relative_margin=-1",
        "--score_with=bare",
    )
    with open(tmp_path / "mined.csv", encoding="utf-8", newline="") as file:
        [row] = csv.DictReader(file)
    assert row["negative0"] == [text for _, text in expected if text not in (query, TEXTS[0])][0]
    answers = [row[name] for name in ("positive", "negative0", "negative1")]
    scores = [float(row[f"{name}_score"]) for name in ("positive", "negative0", "negative1")]
    expected_scores = MultiVectorEncoder.from_preset(bare).scores([query] * 3, answers)
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-4)
    assert not row["negative2"]
