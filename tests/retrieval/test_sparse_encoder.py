"""Sparse vectors in Python, in an index and served: against whole vectors of the Keras model."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import (
    BertMaskedLM,
    BertSparseEmbedder,
    SentenceEncoder,
    SparseEncoder,
    SparseTextIndex,
    SparseVectors,
    TextIndex,
    load_preprocessor,
    load_tokenizer,
    mine_negatives,
    show_attributions,
)
from keras_bert.retrieval.kinds import search_classes
from keras_bert.serving.formats.litert_onnx import export_litert, export_onnx
from keras_bert.serving.saved_model import export_saved_model
from keras_bert.serving.served_folder import open_signatures
from keras_bert.signatures.options import ExportOptions
from tests import command_process
from tests.conftest import write_csv
from tests.signatures.tiny_models import random_texts
from tests.tolerances import CONVERTED, REORDERED

TOOLS = Path(__file__).parents[2] / "tools"
TEXTS = [*dict.fromkeys(random_texts(30, seed=3, longest=12))][1:]  # the first is empty
QUERIES = ["the film", TEXTS[7]]
_MODULES = "sentence_transformers.sparse_encoder.models."


@pytest.fixture(scope="module")
def folder(model_folder, tmp_path_factory):
    """A folder as a run of sparse_retrieval leaves it."""
    path = tmp_path_factory.mktemp("sparse")
    model = BertSparseEmbedder.from_preset(model_folder("masked_lm"))
    bias = model.get_layer("masked_lm_bias").bias
    bias.assign(bias.value - 1.0)  # fewer words
    model.save_to_preset(path, load_tokenizer(model_folder("masked_lm")))
    return path


@pytest.fixture(scope="module")
def encoder(folder):
    return SparseEncoder.from_preset(folder)


@pytest.fixture(scope="module")
def index(encoder):
    return SparseTextIndex.build(encoder, TEXTS, batch_size=8)


def whole_vectors(folder, texts, **arguments):
    """By the Keras model, each text by itself."""
    model = BertSparseEmbedder.from_preset(folder, dtype="float32")
    preprocess = load_preprocessor(folder, **arguments)
    rows = [preprocess([text]) for text in texts]
    rows = [{name: values[:, None] for name, values in row.items()} for row in rows]
    return np.concatenate([model(row)[:, 0].numpy() for row in rows])  # [N, V]


def changed(folder, target, file, **values):
    """A copy of a folder with other values in one of its files."""
    shutil.copytree(folder, target)
    stored = json.loads((target / file).read_text())
    (target / file).write_text(json.dumps({**stored, **values}))
    return target


def test_vectors_are_those_of_the_model_in_the_order_of_the_texts(encoder, folder):
    expected = whole_vectors(folder, TEXTS)
    for batch_size in (1, 8):
        vectors = encoder.encode(TEXTS, batch_size)
        assert len(vectors) == len(TEXTS)
        np.testing.assert_allclose(vectors.to_dense(), expected, **REORDERED)
    assert 0 < len(vectors.weights) < expected.size / 2
    assert len(encoder.encode([])) == 0
    # The largest weight first, by the names of the pieces.
    tokens = load_tokenizer(folder).vocabulary.tokens
    for row, words in zip(expected, encoder.decode(vectors), strict=True):
        weights = [weight for _, weight in words]
        assert weights == sorted(weights, reverse=True)
        assert {token for token, _ in words} == {tokens[place] for place in np.flatnonzero(row)}
    assert [len(words) for words in encoder.decode(vectors, top_k=2)] == np.minimum(
        vectors.active_dims, 2
    ).tolist()


def test_only_the_largest_weights_are_kept(encoder, folder):
    vectors = encoder.encode(TEXTS)
    few = SparseEncoder.from_preset(folder, max_active_dims=3).encode(TEXTS)
    assert few.active_dims.tolist() == np.minimum(vectors.active_dims, 3).tolist()
    for row in range(len(TEXTS)):
        kept = np.sort(vectors[row : row + 1].weights)[::-1][:3]
        np.testing.assert_allclose(few[row : row + 1].weights, kept, **REORDERED)


def test_a_folder_may_say_how_many_weights_are_kept(folder, tmp_path):
    said = changed(
        folder, tmp_path / "said", "config_sentence_transformers.json", max_active_dims=2
    )
    assert SparseEncoder.from_preset(said).encode(TEXTS).active_dims.max() == 2
    assert SparseEncoder.from_preset(said, max_active_dims=4).encode(TEXTS).active_dims.max() == 4


def test_long_texts_are_read_in_windows(folder):
    text = " ".join(["the film ab b.c. d's f-g"] * 3)
    tokens = load_tokenizer(folder)([text])[0].numpy()
    whole = SparseEncoder.from_preset(folder, max_seq_length=8, max_windows=9, doc_stride=6)
    # Windows of 6 pieces one behind the other, each a row by itself, and the largest of all.
    ids = [tokens[start : start + 6] for start in range(0, len(tokens), 6)]
    model = BertSparseEmbedder.from_preset(folder, dtype="float32")
    vocabulary = load_tokenizer(folder).vocabulary
    expected = 0
    for part in ids:
        row = np.array([[[vocabulary.cls_id, *part, vocabulary.sep_id]]], np.int32)
        inputs = {
            "input_ids": row,
            "input_mask": np.ones_like(row),
            "segment_ids": np.zeros_like(row),
        }
        expected = np.maximum(expected, model(inputs)[0].numpy())
    assert 1 < len(ids) <= 9
    np.testing.assert_allclose(whole.encode([text]).to_dense(), expected, **REORDERED)


def test_prompts_stand_before_texts(folder, tmp_path):
    prompts = {"query": "film: ", "document": "the "}
    file = "config_sentence_transformers.json"
    said = changed(folder, tmp_path / "said", file, prompts=prompts)
    encoder, plain = SparseEncoder.from_preset(said), SparseEncoder.from_preset(folder)
    cases = ((encoder.encode, ""), (encoder.encode_query, "film: "))
    for encode, prompt in (*cases, (encoder.encode_document, "the ")):
        expected = plain.encode([prompt + text for text in TEXTS[:5]])
        np.testing.assert_allclose(
            encode(TEXTS[:5]).to_dense(), expected.to_dense(), **REORDERED, err_msg=prompt
        )
    asked = SparseEncoder.from_preset(said, query_prompt="a ")
    found, expected = asked.encode_query(["film"]), plain.encode(["a film"])
    np.testing.assert_allclose(found.to_dense(), expected.to_dense(), **REORDERED)


def test_the_texts_with_the_largest_products_come_first(encoder, index, folder):
    products = whole_vectors(folder, QUERIES) @ whole_vectors(folder, TEXTS).T
    for row, hits in enumerate(index.search(QUERIES, top_k=5)):
        assert len(hits) == 5
        np.testing.assert_allclose(
            [hit.score for hit in hits], np.sort(products[row])[::-1][:5], **REORDERED
        )
        for hit in hits:
            assert hit.text == TEXTS[hit.number]
            assert hit.score == pytest.approx(products[row, hit.number], rel=1e-4)
    assert index.search([]) == []


def test_texts_without_a_word_of_the_query_are_not_found(encoder):
    texts = ["one", "two", "three", " ", "two"]
    vectors = SparseVectors.from_dense(
        np.array([[1, 0, 0], [0, 2, 0], [0, 1, 3], [9, 9, 9], [0, 2, 0]], np.float32)
    )
    vectors = SparseVectors(
        vectors.row_splits, vectors.token_ids, vectors.weights, encoder.vocab_size
    )
    index = SparseTextIndex(encoder, texts, vectors)
    query = SparseVectors(np.array([0, 1, 3, 3]), [1, 0, 2], [1, 2, 1], encoder.vocab_size)
    found = [[(hit.number, hit.score) for hit in hits] for hits in index.nearest(query)]
    # Of equal texts the first goes before; a query without words finds nothing.
    assert found == [[(1, 2.0), (4, 2.0), (2, 1.0)], [(2, 3.0), (0, 2.0)], []]
    np.testing.assert_array_equal(index.scores_of(query, [2, 0, 0]), [1.0, 2.0, 0.0])


def test_an_index_is_written_and_opened(encoder, index, folder, tmp_path):
    index.save(tmp_path / "index")
    again = SparseTextIndex.load(tmp_path / "index", encoder)
    assert again.texts == TEXTS
    np.testing.assert_array_equal(again.vectors.to_dense(), index.vectors.to_dense())
    index.save(tmp_path / "index")  # once more
    cut = SparseEncoder.from_preset(folder, max_seq_length=5)
    with pytest.raises(ValueError, match="was made by another model, or with another pooling"):
        SparseTextIndex.load(tmp_path / "index", cut)
    few = SparseEncoder.from_preset(folder, max_active_dims=2)
    with pytest.raises(ValueError, match="or with another pooling, .*, max_active_dims or max_seq"):
        SparseTextIndex.load(tmp_path / "index", few)
    (tmp_path / "index" / "index.json").write_text('{"texts": 3, "width": 16}')
    with pytest.raises(ValueError, match="was made by another model"):  # dense vectors
        SparseTextIndex.load(tmp_path / "index", encoder)
    index.save(tmp_path / "index")
    file = tmp_path / "index" / "vectors.npz"
    stored = file.read_bytes()
    weights = index.vectors.weights.tobytes()
    for damaged in (b"", stored[:-9], stored.replace(weights, weights[::-1])):
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match="holds a damaged index .*: build it anew"):
            SparseTextIndex.load(tmp_path / "index", encoder)


def test_wrong_answers_are_mined(index, encoder):
    positives = TEXTS[:6]
    found = mine_negatives(index, QUERIES * 3, positives, count=3, relative_margin=-1)
    for query, positive, wrong in zip(QUERIES * 3, positives, found, strict=True):
        own = {text for text, asked in zip(positives, QUERIES * 3, strict=True) if asked == query}
        nearest = [hit.text for hit in index.search([query])[0]]
        assert wrong == [text for text in nearest if text not in own | {query}][:3], positive


def test_what_is_served_is_what_python_makes(encoder, folder, tmp_path):
    prompts = {"query": "film: ", "document": ""}
    file = "config_sentence_transformers.json"
    said = changed(folder, tmp_path / "said", file, prompts=prompts)
    served = tf.saved_model.load(str(export_saved_model(said, tmp_path / "served")))
    signatures = served.signatures
    assert {"serving_default", "serve_query", "serve_document", "serve_ids"} <= {*signatures}
    texts = [*TEXTS[:6], ""]
    for name, prompt in {"serving_default": "", "serve_query": "film: "}.items():
        answer = signatures[name](text=tf.constant(texts))
        expected = encoder.encode([prompt + text for text in texts])
        tokens, ids, weights = (answer[one].numpy() for one in ("tokens", "token_ids", "weights"))
        assert weights.shape == (7, expected.active_dims.max())
        words = encoder.decode(expected)
        for row, own in enumerate(words):
            count = len(own)
            assert [token.decode() for token in tokens[row, :count]] == [one for one, _ in own]
            np.testing.assert_allclose(weights[row, :count], [w for _, w in own], **REORDERED)
            assert not weights[row, count:].any() and not ids[row, count:].any()
            assert not any(tokens[row, count:])
    assert signatures["serving_default"](text=tf.constant([], tf.string))["weights"].shape[0] == 0
    rows = load_preprocessor(folder)(texts[:2])
    whole = signatures["serve_ids"](**rows)["weights"]
    np.testing.assert_allclose(whole, encoder.encode(texts[:2]).to_dense(), **REORDERED)


@pytest.mark.slow  # converts a model
def test_litert_says_what_keras_says(folder, tmp_path):
    rows = {name: values.numpy() for name, values in load_preprocessor(folder)(TEXTS[:3]).items()}
    file = export_litert(folder, tmp_path / "small") / "model.tflite"
    runner = tf.lite.Interpreter(str(file)).get_signature_runner("serve_ids")
    expected = whole_vectors(folder, TEXTS[:3])
    np.testing.assert_allclose(runner(**rows)["weights"], expected, **CONVERTED)


@pytest.mark.oracle  # tf2onnx, onnxruntime
def test_onnx_says_what_keras_says(folder, tmp_path):
    import onnxruntime

    rows = {name: values.numpy() for name, values in load_preprocessor(folder)(TEXTS[:3]).items()}
    session = onnxruntime.InferenceSession(export_onnx(folder, tmp_path / "small") / "model.onnx")
    assert [output.name for output in session.get_outputs()] == ["weights"]
    [found] = session.run(None, rows)
    np.testing.assert_allclose(found, whole_vectors(folder, TEXTS[:3]), **CONVERTED)


def test_options_of_other_models_are_refused(folder, model_folder):
    for name, value in {"pooling": "mean", "normalize": True, "truncate_dim": 3}.items():
        with pytest.raises(ValueError, match=f"--{name} is for one dense vector of a text, and"):
            open_signatures(folder, ExportOptions(**{name: value}))
    with pytest.raises(ValueError, match="--max_active_dims is for trained sparse vectors of"):
        open_signatures(model_folder("classes"), ExportOptions(max_active_dims=3))
    with pytest.raises(ValueError, match="--top_k is for masked language models: leave it out"):
        open_signatures(folder, ExportOptions(top_k=3))


def test_its_words_can_still_be_asked_for(folder):
    assert isinstance(BertMaskedLM.from_preset(folder), BertMaskedLM)
    family = open_signatures(folder, ExportOptions(), head="masked_lm")
    assert "probabilities" in family.answer(tf.constant(["the [MASK]"]))


@pytest.mark.parametrize(
    ("file", "content", "sentence"),
    [
        (
            "1_SpladePooling/config.json",
            {"pooling_strategy": "sum"},
            "pooling_strategy is 'sum', w",
        ),
        (
            "1_SpladePooling/config.json",
            {"activation_function": "x"},
            "activation_function is 'x':",
        ),
        ("config_sentence_transformers.json", {"similarity_fn_name": "cosine"}, "is 'cosine', but"),
        (
            "config_sentence_transformers.json",
            {"max_active_dims": 0},
            "max_active_dims is 0: expect",
        ),
        (
            "modules.json",
            [{"path": "", "type": "sentence_transformers.models.Router"}],
            "lists a Router, but there is no ",
        ),
        (
            "modules.json",
            [
                {"path": "", "type": f"{_MODULES}MLMTransformer"},
                {"path": "1_SpladePooling", "type": f"{_MODULES}SpladePooling"},
                {"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
            ],
            "has SpladePooling, Normalize behind the masked language model, which cannot be",
        ),
    ],
)
def test_what_cannot_be_reproduced_is_refused(file, content, sentence, folder, tmp_path):
    shutil.copytree(folder, tmp_path / "changed")
    (tmp_path / "changed" / file).write_text(json.dumps(content))
    with pytest.raises(ValueError, match=sentence):
        SparseEncoder.from_preset(tmp_path / "changed")


@pytest.mark.parametrize(
    ("structure", "sentence"),
    [
        (
            {"query": ["words", "pool"], "document": ["words", "pool"]},
            "which cannot be reproduced: e",
        ),
        ({"query": ["static"], "document": ["words"]}, "has nothing behind the masked language mo"),
        ({"query": ["static"], "document": ["gone"]}, "is no list of routes and modules .KeyError"),
    ],
)
def test_routes_that_cannot_be_reproduced_are_refused(structure, sentence, folder, tmp_path):
    shutil.copytree(folder, tmp_path / "changed")
    kinds = {"words": "MLMTransformer", "pool": "SpladePooling", "static": "SparseStaticEmbedding"}
    types = {place: f"{_MODULES}{kind}" for place, kind in kinds.items()}
    router = [{"path": "", "type": "sentence_transformers.models.Router"}]
    (tmp_path / "changed" / "modules.json").write_text(json.dumps(router))
    content = json.dumps({"types": types, "structure": structure})
    (tmp_path / "changed" / "router_config.json").write_text(content)
    with pytest.raises(ValueError, match=sentence):
        SparseEncoder.from_preset(tmp_path / "changed")


def test_routes_of_dense_vectors_are_not_taken_for_sparse_ones(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "dense")
    router = [{"path": "", "type": "sentence_transformers.base.modules.router.Router"}]
    (tmp_path / "dense" / "modules.json").write_text(json.dumps(router))
    types = {"": "sentence_transformers.models.Transformer", "1_P": "sentence_transformers.Pooling"}
    content = {"types": types, "structure": {"query": ["", "1_P"], "document": ["", "1_P"]}}
    (tmp_path / "dense" / "router_config.json").write_text(json.dumps(content))
    found = search_classes(tmp_path / "dense", ["pooling"])
    assert found == (SentenceEncoder.from_preset, TextIndex)
    with pytest.raises(ValueError, match="holds no sparse encoder .a modules.json with Splade"):
        SparseEncoder.from_preset(tmp_path / "dense")


def test_what_is_no_sparse_encoder_is_told(model_folder, encoder, index, folder, tmp_path):
    with pytest.raises(ValueError, match="holds no sparse encoder .*: give a run of --task=sparse"):
        SparseEncoder.from_preset(model_folder("masked_lm"))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        SparseEncoder.from_preset(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="read letter by letter"):
        encoder.encode("the film")
    with pytest.raises(ValueError, match="are ndarray, but the search takes SparseVectors of a"):
        index.nearest(np.zeros([1, encoder.vocab_size]))
    with pytest.raises(
        ValueError, match="there are vectors of 2 texts and 3 texts: build the index anew"
    ):
        SparseTextIndex(encoder, ["a", "b", "c"], index.vectors[:2])
    with pytest.raises(ValueError, match="the vectors are of 5 pieces, the model has"):
        encoder.decode(SparseVectors.from_dense(np.eye(5)))
    dense = SentenceEncoder.from_preset(model_folder("encoder"), pooling="mean")
    with pytest.raises(ValueError, match="is a SentenceEncoder: a SparseTextIndex takes a Sparse"):
        SparseTextIndex.build(dense, ["a"])
    with pytest.raises(ValueError, match="is a SparseEncoder: a TextIndex takes a SentenceEnc"):
        TextIndex.build(encoder, ["a"])
    index.save(tmp_path / "index")
    with pytest.raises(ValueError, match="was made by another model"):
        TextIndex.load(tmp_path / "index", dense)
    with pytest.raises(ValueError, match="is a BertSparseEmbedder, which gives vectors, no answer"):
        show_attributions(BertSparseEmbedder.from_preset(folder), "the film")
    model = BertSparseEmbedder.from_preset(folder)
    model.encoder.word_embeddings.embeddings.assign(
        model.encoder.word_embeddings.embeddings.value * np.nan
    )
    model.save_to_preset(tmp_path / "all", load_tokenizer(folder))
    with pytest.raises(ValueError, match="the model answers nan"):
        SparseEncoder.from_preset(tmp_path / "all").encode(["the film"])
    # Of one word alone, where only the largest weight is kept.
    for word in (0, 5):
        model = BertSparseEmbedder.from_preset(folder)
        bias = model.get_layer("masked_lm_bias").bias
        bias.assign(np.where(np.arange(bias.shape[0]) == word, np.nan, bias.value))
        model.save_to_preset(tmp_path / "one", load_tokenizer(folder))
        with pytest.raises(ValueError, match="the model answers nan"):
            SparseEncoder.from_preset(tmp_path / "one", max_active_dims=1).encode(["the film"])


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        (([0, 2], [1], [1.0]), "row_splits must go from 0 to the number of the others"),
        (([0, 2, 1], [1], [1.0]), "row_splits must go from 0"),
        (([0, 1], [9], [1.0]), "token_ids go from 9 to 9: give ids of a vocabulary of 9 pieces"),
        (([0, 1], [3], [0.0]), "a weight is not finite, or not above 0: leave it out"),
        (([0, 1], [3], [float("nan")]), "a weight is not finite"),
        (([0, 1, 3], [3, 3, 4], [1.0, 1.0, 2.0]), "do not fall: put the largest first"),
        (([0, 1, 3], [4, 4, 4], [1.0, 2.0, 1.0]), "a row has an id twice: give each once"),
    ],
)
def test_vectors_that_do_not_fit_are_refused(arrays, sentence):
    with pytest.raises(ValueError, match=sentence):
        SparseVectors(*arrays, vocab_size=9)


def test_rows_of_vectors():
    whole = np.array([[0, 2, 0, 1], [0, 0, 0, 0], [3, 0, 3, 0]], np.float32)
    vectors = SparseVectors.from_dense(whole)
    assert vectors.row_splits.tolist() == [0, 2, 2, 4]
    assert vectors.token_ids.tolist() == [1, 3, 0, 2]  # of equal weights the first goes before
    assert vectors.weights.tolist() == [2, 1, 3, 3]
    np.testing.assert_array_equal(vectors[1:].to_dense(), whole[1:])
    np.testing.assert_array_equal(vectors[2:1].to_dense(), whole[:0])
    both = SparseVectors.concatenate([vectors[1:3], vectors[:1]])
    np.testing.assert_array_equal(both.to_dense(), whole[[1, 2, 0]])
    with pytest.raises(ValueError, match="a weight is not finite"):
        SparseVectors.from_dense(np.array([[1, np.nan]]))
    with pytest.raises(TypeError, match="give a slice, such as vectors"):
        vectors[1]
    with pytest.raises(ValueError, match="the parts are of vocabularies of 4 and 5 pieces: give"):
        SparseVectors.concatenate([vectors, SparseVectors.from_dense(np.eye(5))])
    with pytest.raises(ValueError, match="the step is 2: rows are taken one after the other"):
        vectors[::2]


def run_tool(name, *arguments):
    return command_process.run([TOOLS / name, *arguments])


def test_the_tool_searches_by_words(folder, index, tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    arguments = [f"--init_from={folder}", f"--index={tmp_path / 'index'}", "--query=the film"]
    made = run_tool("search_texts.py", *arguments, f"--input={tmp_path / 'texts.txt'}", "--top_k=2")
    assert f"{len(TEXTS)} texts, " in made.stdout and "words each in the mean" in made.stdout
    run_tool("search_texts.py", *arguments, f"--output={tmp_path / 'found.csv'}", "--top_k=3")
    with open(tmp_path / "found.csv", encoding="utf-8", newline="") as file:
        rows = [(int(row["number"]), float(row["score"])) for row in csv.DictReader(file)]
    expected = index.search(["the film"], top_k=3)[0]
    assert [number for number, _ in rows] == [hit.number for hit in expected]
    np.testing.assert_allclose([s for _, s in rows], [hit.score for hit in expected], rtol=1e-4)
    refused = run_tool("search_texts.py", *arguments, "--truncate_dim=3")
    assert "truncate_dim is for dense vectors, and" in refused.stderr
    write_csv(tmp_path / "pairs.csv", ["text", "positive"], [("the film", TEXTS[0])])
    mined = [f"--init_from={folder}", f"--input={tmp_path / 'pairs.csv'}"]
    passages = f"--passages={tmp_path / 'texts.txt'}"
    run_tool(
        *("mine_negatives.py", *mined, passages, f"--output={tmp_path / 'mined.csv'}"),
        "--relative_margin=-1",
    )
    with open(tmp_path / "mined.csv", encoding="utf-8", newline="") as file:
        [row] = csv.DictReader(file)
    nearest = [hit.text for hit in index.search(["the film"], 9)[0]]
    wrong = [text for text in nearest if text not in ("the film", TEXTS[0])]
    assert [row[f"negative{number}"] for number in range(4)] == wrong[:4]
