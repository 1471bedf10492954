"""Vectors of three kinds of a BGE-M3, in Python and served.

Oracle: transformers' XLM-R, one text at a time (FlagEmbedding's batched scores count padding, which
are vectors of zeros), and the formulas of arXiv:2402.03216, section 3.2, written out in PyTorch;
ids are those of the sentencepiece library in fairseq's order.
"""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import (
    Bm25,
    Bm25Index,
    ExportOptions,
    M3Encoder,
    M3Index,
    SentenceEncoder,
    SparseTextIndex,
    TextIndex,
    export_saved_model,
    load_tokenizer,
    mine_negatives,
)
from keras_bert.retrieval.fused_index import build_index, open_index
from keras_bert.retrieval.kinds import open_reranker, search_classes
from keras_bert.retrieval.searched_texts import Hit
from keras_bert.serving.graph_operations import graph_operations
from keras_bert.serving.served_folder import open_signatures
from tests import command_process
from tests.checkpoints.test_multilingual_folders_oracle import TEXTS, xlm_roberta
from tests.conftest import write_csv
from tests.tolerances import ORACLE, REORDERED

pytestmark = pytest.mark.oracle

# Pieces that repeat, a letter that is unknown, the mask, nothing, and a text that is cut.
MORE = ["The packages, the packages.", "free \u2603 free", "free <mask>", "", "packages " * 60]
ALL = [*TEXTS, *MORE]
LENGTH = 64
TOOLS = Path(__file__).parents[2] / "tools"
# An index has the tokens' vectors in the 11 bits of float16.
HALF = {"rtol": 2e-3, "atol": 2e-3}
WEIGHTS = ((1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1), (0.4, 0.2, 0.4), (0.7, 0.3, 0))
BOS, PAD, EOS, UNK = range(4)


@pytest.fixture(scope="module")
def m3(tmp_path_factory):
    """A folder, and what the formulas make of each text: dense, {id: weight}, vectors of tokens."""
    import sentencepiece
    import torch
    import transformers

    folder = tmp_path_factory.mktemp("m3")
    classifier, _ = xlm_roberta(folder)
    model = transformers.XLMRobertaModel(classifier.config).eval()  # with a pooler, as published
    model.load_state_dict(classifier.roberta.state_dict(), strict=False)
    model.save_pretrained(folder)
    processor = sentencepiece.SentencePieceProcessor(str(folder / "sentencepiece.bpe.model"))
    mask = model.config.vocab_size - 1
    torch.manual_seed(135)  # with it what is asserted below can be seen
    width = model.config.hidden_size
    sparse, colbert = torch.nn.Linear(width, 1), torch.nn.Linear(width, 6)
    torch.save(sparse.state_dict(), folder / "sparse_linear.pt")
    torch.save(colbert.state_dict(), folder / "colbert_linear.pt")
    expected = []
    for text in ALL:
        ids = []
        for number, part in enumerate(text.split("<mask>")):
            ids += [mask] * (number > 0) + [i + 1 if i else UNK for i in processor.encode(part)]
        ids = [BOS, *ids[: LENGTH - 2], EOS]
        with torch.no_grad():
            states = model(torch.tensor([ids])).last_hidden_state[0]
            dense = torch.nn.functional.normalize(states[0], dim=-1)
            weights = torch.relu(sparse(states))[:, 0]
            vectors = torch.nn.functional.normalize(colbert(states[1:]), dim=-1)
        words = {}
        for piece, weight in zip(ids, weights.tolist(), strict=True):
            if piece not in (BOS, PAD, EOS, UNK) and weight > 0:
                words[piece] = max(weight, words.get(piece, 0))
        assert (UNK in ids and weights[ids.index(UNK)] > 0) or "\u2603" not in text
        assert mask in words or "<mask>" not in text
        assert 0 in weights or text != ALL[0]
        assert (weights > 0).all() or text
        expected.append((dense.numpy(), words, vectors.numpy()))
    return folder, expected


def whole(words, vocab_size):
    row = np.zeros([vocab_size], np.float32)
    row[list(words)] = list(words.values())
    return row


def test_all_three_of_every_text(m3):
    folder, expected = m3
    encoder = M3Encoder.from_preset(folder)
    found = encoder.encode(ALL, batch_size=5)
    dense, words, vectors = zip(*expected, strict=True)
    np.testing.assert_allclose(found.dense, np.stack(dense), **ORACLE)
    weights = np.stack([whole(row, encoder.vocab_size) for row in words])
    np.testing.assert_allclose(found.sparse.to_dense(), weights, **ORACLE)
    for ours, theirs in zip(found.tokens, vectors, strict=True):
        np.testing.assert_allclose(ours, theirs, **ORACLE)
    assert found.tokens.counts[-2] == 1 and found.sparse.active_dims[-2] == 0  # </s> of no text
    assert found.tokens.counts[-1] == LENGTH - 1
    assert not found.sparse.to_dense()[:, UNK].any()  # of the letter that is unknown
    best = max(words[0], key=words[0].get)
    ((name, weight),) = encoder.decode(found.sparse[:1], top_k=1)[0]
    assert weight == pytest.approx(words[0][best], rel=1e-5)
    assert load_tokenizer(folder).vocabulary.id_of(name) == best
    empty = encoder.encode([])
    assert (len(empty), empty.dense.shape) == (0, (0, encoder.width))
    with pytest.raises(ValueError, match="one string"):
        encoder.encode("a text")


@pytest.fixture(scope="module")
def encoder(m3):
    return M3Encoder.from_preset(m3[0])


@pytest.fixture(scope="module")
def means(m3):
    """Returns a function: the scores of the texts 1 to 4 with all, [4, N], for three weights."""
    _, expected = m3
    parts = np.zeros([3, 4, len(ALL)])
    for row, (dense, words, vectors) in enumerate(expected[1:5]):
        for column, (other_dense, other_words, others) in enumerate(expected):
            parts[:, row, column] = (
                dense @ other_dense,
                sum(weight * other_words.get(piece, 0) for piece, weight in words.items()),
                (vectors @ others.T).max(axis=1).sum() / len(vectors),
            )
    return lambda weights: np.tensordot(weights, parts, axes=1) / sum(weights)


def test_scores(encoder, means):
    held = encoder.encode(ALL)
    queries = encoder.encode(ALL[1:5])
    for weights in WEIGHTS:
        found = encoder.similarity(queries, held, weights)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, means(weights), **ORACLE, err_msg=str(weights))
    alone = encoder.similarity(queries[1:2], held)
    np.testing.assert_allclose(alone, encoder.similarity(queries, held)[1:2], **REORDERED)
    for weights in ((1, 1), (0, 0, 0), (1, -1, 1), (float("nan"), 1, 1)):
        with pytest.raises(ValueError, match="give three numbers of 0 and above"):
            encoder.similarity(queries, held, weights)
    with pytest.raises(ValueError, match="weights is 1: give three numbers"):
        encoder.similarity(queries, held, 1)


def assert_found(found, scores, tolerance, top_k=None):
    """Hits are those texts, not empty, that have the largest scores [4, N], with these scores."""
    for hits, row in zip(found, scores, strict=True):
        row = np.where([bool(text) for text in ALL], row, -np.inf)
        best = np.sort(row[row > -np.inf])[::-1][:top_k]
        np.testing.assert_allclose([hit.score for hit in hits], best, **tolerance)
        places = [hit.number for hit in hits]
        np.testing.assert_allclose([hit.score for hit in hits], row[places], **tolerance)
        assert [hit.text for hit in hits] == [ALL[place] for place in places]


def test_an_index_searches_in_three_ways(encoder, m3, means, tmp_path):
    index = M3Index.build(encoder, ALL, batch_size=5)
    assert_found(index.search(ALL[1:5], 3), means((1, 1, 1)), HALF, top_k=3)
    index.save(tmp_path / "index")
    index.save(tmp_path / "index")  # once more
    again = M3Index.load(tmp_path / "index", encoder)
    for weights in WEIGHTS:
        expected = means(weights)
        if weights == (0, 1, 0):  # a text that shares no word with the query is not found
            expected = np.where(expected > 0, expected, -np.inf)
        for searched in (index, again):
            found = searched.search(ALL[1:5], len(ALL), weights)
            assert_found(found, expected, HALF if weights[2] else ORACLE)
    vectors = index.query_vectors(ALL[1:5])
    pairs = index.scores_of(vectors, [0, 3, 3, 8])
    np.testing.assert_allclose(pairs, means((1, 1, 1))[range(4), [0, 3, 3, 8]], **HALF)
    mined = mine_negatives(index, ALL[1:3], ALL[3:5], count=4, relative_margin=-1)
    for query, positive, wrong in zip(ALL[1:3], ALL[3:5], mined, strict=True):
        nearest = [hit.text for hit in index.search([query])[0]]
        assert wrong == [text for text in nearest if text not in (query, positive)][:4]
    parts = [(M3Index, encoder), (Bm25Index, Bm25())]
    both = build_index(ALL, parts, bits=4)
    both.save(tmp_path / "both")
    found = both.search(ALL[1:5])
    assert [hits[0].number for hits in found] == [1, 2, 3, 4]
    assert open_index(tmp_path / "both", parts).search(ALL[1:5]) == found
    assert M3Index.build(encoder, []).search(["free"]) == [[]]
    shorter = M3Encoder.from_preset(m3[0], max_seq_length=7)
    with pytest.raises(ValueError, match="was made by another model, or with another max_seq_len"):
        M3Index.load(tmp_path / "index", shorter)
    dense = SentenceEncoder.from_preset(m3[0])
    with pytest.raises(ValueError, match="was made by another model, or with .* m3_weights, "):
        TextIndex.load(tmp_path / "index", dense)
    (tmp_path / "index" / "tokens" / "vectors.npz").write_bytes(b"")
    with pytest.raises(ValueError, match="holds a damaged index"):
        M3Index.load(tmp_path / "index", encoder)
    with pytest.raises(ValueError, match="the encoder is a SentenceEncoder: a M3Index takes an M3"):
        M3Index.build(dense, ALL)
    with pytest.raises(
        ValueError, match="the encoder is a M3Encoder: a SparseTextIndex takes a Sp"
    ):
        SparseTextIndex.build(encoder, ALL)


def test_candidates_have_the_whole_score(encoder, means):
    """So many nearest texts by dense vectors, and so many that share words with the query."""
    texts = [*ALL, *ALL]  # what stands there twice takes one place
    index = M3Index.build(encoder, texts)
    vectors = index.query_vectors(ALL[1:5])
    written = np.array([bool(text) for text in ALL])
    dense = np.where(written, means((1, 0, 0)), -np.inf)
    words = np.where(written & (means((0, 1, 0)) > 0), means((0, 1, 0)), -np.inf)
    fewer = 0
    for weights in ((0.4, 0.2, 0.4), (0.1, 0.1, 0.8), (0.1, 0.8, 0.1)):
        every = index.nearest(vectors, len(texts), weights)
        assert (
            index.nearest(vectors, len(texts), weights, candidates=1) == every
        )  # as many at least
        for count in range(2, 9):
            found = index.nearest(vectors, count, weights, candidates=2)
            for row, hits in enumerate(found):
                near = {
                    one
                    for scores in (dense[row], words[row])
                    for one in np.argsort(-scores)[:count]
                    if scores[one] > -np.inf
                }
                best = sorted(near, key=lambda one: -means(weights)[row, one])
                expected = [one for one in best for _ in range(2)][:count]
                assert [hit.number % len(ALL) for hit in hits] == expected
            fewer += found != index.nearest(vectors, count, weights)
    assert fewer  # not all texts were looked at


def test_an_index_keeps_what_has_a_weight(encoder, m3, means, tmp_path, monkeypatch):
    """In few bits, where the vectors of tokens have any."""
    bits = M3Index.build(encoder, ALL, bits=4)
    bits.save(tmp_path / "bits")
    assert "numbers of 4 bits" in bits.numbers_each
    # Centroids of the index are those of few vectors.
    rough = {"rtol": 0, "atol": 0.1}
    assert_found(bits.search(ALL[1:5], 100), means((1, 1, 1)), rough)
    again = M3Index.load(tmp_path / "bits", encoder)
    for weights, count in (((1, 1, 1), None), ((0, 0, 1), 3), ((0.4, 0.2, 0.4), 2)):
        found = bits.search(ALL[1:5], 2, weights, count)
        assert again.search(ALL[1:5], 2, weights, count) == found
        exact = bits.search(ALL[1:5], 100, weights)
        known = [{hit.number: hit.score for hit in hits} for hits in exact]
        for hits, scores in zip(found, known, strict=True):
            assert [hit.score for hit in hits] == [
                pytest.approx(scores[hit.number], rel=1e-5) for hit in hits
            ]
    monkeypatch.setattr("keras_bert.retrieval.m3_index._SAMPLED_TEXTS", 9)
    monkeypatch.setattr("keras_bert.retrieval.m3_index._TEXTS_PER_PART", 7)
    sampled = M3Index.build(encoder, ALL, bits=4)
    assert_found(sampled.search(ALL[1:5], 100), means((1, 1, 1)), rough)
    without = M3Encoder.from_preset(m3[0], weights=(0.7, 0.3, 0))
    small = M3Index.build(without, ALL)
    assert small.vectors[2] is None and "vectors" not in small.numbers_each
    assert_found(small.search(ALL[1:5], 100), means((0.7, 0.3, 0)), ORACLE)
    small.save(tmp_path / "small")
    assert not (tmp_path / "small" / "tokens").exists()
    assert M3Index.load(tmp_path / "small", without).search(ALL[1:2]) == small.search(ALL[1:2])
    for search in (
        lambda: M3Index.load(tmp_path / "small", encoder),
        lambda: small.search(["free"], weights=(1, 1, 0.5)),
    ):
        with pytest.raises(
            ValueError, match="of the kinds dense, sparse, but the weight of tokens"
        ):
            search()
    with pytest.raises(
        ValueError, match="bits is 4, and is for vectors of tokens, whose weight is 0"
    ):
        M3Index.build(without, ALL, bits=4)
    with pytest.raises(ValueError, match="bits is 3: choose one of 1, 2, 4"):
        M3Index.build(encoder, ALL, bits=3)
    with pytest.raises(ValueError, match="candidates is 0"):
        small.search(["free"], candidates=0)
    with pytest.raises(ValueError, match="are ndarray, but the search takes M3Vectors"):
        small.nearest(np.ones([1, 16]))


def test_what_was_found_is_ordered_anew(encoder, m3, means, monkeypatch):
    reranker = open_reranker(m3[0], weights=(0.4, 0.2, 0.4))
    expected = means((0.4, 0.2, 0.4))
    found = reranker.rerank(
        ALL[1:5], [[Hit(place, 0.0, text) for place, text in enumerate(ALL)]] * 4, batch_size=5
    )
    for hits, row in zip(found, expected, strict=True):
        assert sorted(hit.number for hit in hits) == [*range(len(ALL))]
        scores = [hit.score for hit in hits]
        np.testing.assert_allclose(scores, np.sort(row)[::-1], **ORACLE)
        np.testing.assert_allclose(scores, row[[hit.number for hit in hits]], **ORACLE)
    monkeypatch.setattr("keras_bert.retrieval.m3_encoder._PAIRS_PER_PART", 3)
    pairs = [(row, place) for place in range(5) for row in (2, 0)]
    scores = reranker.scores([ALL[1 + row] for row, _ in pairs], [ALL[place] for _, place in pairs])
    np.testing.assert_allclose(scores, [expected[pair] for pair in pairs], **ORACLE)
    assert open_reranker(m3[0]).weights == encoder.weights == (1, 1, 1)
    with pytest.raises(ValueError, match="label is 'yes', but .* has no classes"):
        open_reranker(m3[0], "yes")


def test_which_flags_are_for_it(m3, model_folder, token_folder):
    folder = m3[0]
    assert search_classes(folder)[1] is TextIndex
    assert search_classes(folder, ["m3_weights", "max_seq_length"])[1] is M3Index
    with pytest.raises(
        ValueError, match="query_prompt is for sparse .* and m3_weights asks for vect"
    ):
        search_classes(folder, ["m3_weights", "query_prompt"])
    with pytest.raises(
        ValueError, match="m3_weights is for BGE-M3, and .* makes dense vectors alone"
    ):
        search_classes(model_folder("encoder"), ["m3_weights"])
    with pytest.raises(ValueError, match="m3_weights is for a model, and bm25 has none: leave it"):
        search_classes("bm25", ["m3_weights"])
    for other in (token_folder, model_folder("choices")):
        with pytest.raises(ValueError, match="weights are .* is no BGE-M3 and has one score"):
            open_reranker(other, weights=(1, 1, 1))
    with pytest.raises(ValueError, match="give three numbers of 0 and above"):
        M3Encoder.from_preset(folder, weights=(1, 1))


def test_the_commands_search_rerank_and_mine(m3, means, tmp_path):
    (tmp_path / "model").symlink_to(m3[0])
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in ALL))
    (tmp_path / "queries.jsonl").write_text(
        "".join(json.dumps({"text": text}) + "\n" for text in ALL[1:5])
    )

    def run(tool, *flags):
        return command_process.run([TOOLS / tool, "--init_from=model", *flags], tmp_path)

    def found(*flags):
        done = run("search_texts.py", "--queries=queries.jsonl", "--output=found.csv", *flags)
        assert done.returncode == 0, done.stderr
        with open(tmp_path / "found.csv", encoding="utf-8", newline="") as file:
            rows = [*csv.DictReader(file)]
        hits = [Hit(int(row["number"]), float(row["score"]), row["text"]) for row in rows]
        return [
            [hit for hit, row in zip(hits, rows, strict=True) if row["query"] == query]
            for query in ALL[1:5]
        ]

    made = ("--m3_weights=0.4,0.2,0.4", "--index=made", "--top_k=3")
    hits = found("--input=texts.jsonl", *made)
    assert_found(hits, means((0.4, 0.2, 0.4)), HALF, top_k=3)
    reranked = found(*made, "--rerank_with=model", "--rerank_weights=1,1,0")
    assert_found(reranked, means((1, 1, 0)), ORACLE, top_k=3)
    write_csv(tmp_path / "pairs.csv", ("text", "positive"), [*zip(ALL[1:5], ALL[:4], strict=True)])
    done = run(
        "mine_negatives.py",
        *("--input=pairs.csv", "--passages=texts.jsonl", "--output=mined.csv", "--negatives=1"),
        *("--relative_margin=-1", "--m3_weights=1,1,0", "--score_with=model"),
        "--score_weights=0.4,0.2,0.4",
    )
    assert done.returncode == 0, done.stderr
    with open(tmp_path / "mined.csv", encoding="utf-8", newline="") as file:
        for row, mined in enumerate(csv.DictReader(file)):
            near = [ALL[place] for place in np.argsort(-means((1, 1, 0))[row])]
            wrong = [text for text in near if text not in ("", ALL[row + 1], ALL[row])]
            assert mined["negative0"] == wrong[0]
            for name in ("positive", "negative0"):
                score = means((0.4, 0.2, 0.4))[row, ALL.index(mined[name])]
                assert float(mined[f"{name}_score"]) == pytest.approx(score, rel=1e-4, abs=1e-5)
    for flag, sentence in (
        ("--m3_weights=1,x,1", "--m3_weights=1,x,1 has something else than numbers: give numbers"),
        ("--rerank_weights=1,1,0", "--rerank_weights is for --rerank_with: give that, too"),
    ):
        done = run("search_texts.py", "--query=a", "--input=texts.jsonl", flag)
        assert done.returncode != 0 and sentence in done.stderr, done.stderr
        assert "Traceback" not in done.stderr


def test_an_export_answers_all_three(m3, tmp_path):
    folder, _ = m3
    live = M3Encoder.from_preset(folder).encode(ALL)
    export = export_saved_model(folder, tmp_path / "served", options=ExportOptions(max_batch=30))
    # Beside what other served graphs use: two of TensorFlow's own, and those of SentencePiece.
    operations = Path(__file__).parents[1] / "serving" / "served_operations.txt"
    listed = {line.split()[0] for line in operations.read_text().splitlines()}
    more = {"Sqrt", "LeftShift", "SentencepieceOp", "SentencepieceTokenizeWithOffsetsOp"}
    assert graph_operations(export) - listed == more
    served = tf.saved_model.load(str(export))
    assert {*served.signatures} == {
        *("serving_default", "serve_tokens", "serve_m3", "serve_examples", "serve_ids")
    }
    found = served.signatures["serve_m3"](text=tf.constant(ALL))
    found = {name: values.numpy() for name, values in found.items()}
    np.testing.assert_allclose(found["sentence_embedding"], live.dense, **REORDERED)
    default = served.signatures["serving_default"](text=tf.constant(ALL))
    np.testing.assert_allclose(default["sentence_embedding"], live.dense, **REORDERED)
    np.testing.assert_allclose(SentenceEncoder.from_preset(folder).encode(ALL), live.dense)
    decoded = M3Encoder.from_preset(folder).decode(live.sparse)
    pieces = load_tokenizer(folder).vocabulary
    for row, (words, vectors) in enumerate(zip(decoded, live.tokens, strict=True)):
        count = len(words)
        names = [name.decode() for name in found["lexical_tokens"][row]]
        assert {*names[:count]} == {name for name, _ in words} and not any(names[count:])
        ids = [pieces.id_of(name) for name in names[:count]]
        np.testing.assert_array_equal(found["lexical_ids"][row, :count], ids)
        weights = found["lexical_weights"][row]
        np.testing.assert_allclose(weights[:count], [w for _, w in words], **REORDERED)
        assert not weights[count:].any() and not found["lexical_ids"][row, count:].any()
        np.testing.assert_allclose(
            found["token_vectors"][row, : len(vectors)], vectors, **REORDERED
        )
        assert not found["token_vectors"][row, len(vectors) :].any()
        tokens = [name.decode() for name in found["tokens"][row]]
        assert tokens[len(vectors) - 1] == "</s>" and "<s>" not in tokens
        assert not any(tokens[len(vectors) :])
    nothing = served.signatures["serve_m3"](text=tf.constant([], tf.string))
    assert nothing["lexical_weights"].shape == [0, 0]
    # In windows there is one dense vector of a text, and no more.
    windows = open_signatures(folder, ExportOptions(max_windows=2))
    assert "serve_m3" not in windows.more_answers()


def test_what_is_missing_or_does_not_fit_is_refused(m3, tmp_path):
    import torch

    folder = shutil.copytree(m3[0], tmp_path / "m3")
    width = M3Encoder.from_preset(folder).width
    good = torch.load(folder / "sparse_linear.pt")
    for state, message in (
        ({"weight": torch.ones(2, width), "bias": torch.ones(2)}, r"expected weight \[1, "),
        ({"weight": torch.ones(1, 5), "bias": torch.ones(1)}, f"since the encoder is {width} wide"),
        ({"weight": torch.ones(1, width)}, "expected weight"),
        (good | {"bias": torch.tensor([float("nan")])}, "is not finite"),
    ):
        torch.save(state, folder / "sparse_linear.pt")
        with pytest.raises(ValueError, match=message):
            M3Encoder.from_preset(folder)
    torch.save(good, folder / "sparse_linear.pt")
    torch.save({"weight": torch.ones(width), "bias": torch.ones(2)}, folder / "colbert_linear.pt")
    with pytest.raises(ValueError, match=r"colbert_linear.pt holds .*: expected weight \["):
        M3Encoder.from_preset(folder)
    (folder / "colbert_linear.pt").unlink()
    with pytest.raises(ValueError, match="lacks colbert_linear.pt, without which"):
        M3Encoder.from_preset(folder)
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        M3Encoder.from_preset(tmp_path / "none")
