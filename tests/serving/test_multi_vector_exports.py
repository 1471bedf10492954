"""Vectors of tokens that are exported: against the encoder's states, projected in NumPy by hand."""

import csv
import functools
import json
import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

from keras_bert import (
    BertEncoder,
    BertMultiVectorEmbedder,
    EmbeddingExample,
    FinetunedModel,
    MultiVectorEncoder,
    MultiVectorHead,
    load_tokenizer,
)
from keras_bert.checkpoints import multi_vector_modules
from keras_bert.checkpoints.multi_vector_modules import MultiVectorModules, QueryExpansion
from keras_bert.checkpoints.sentence_prompts import Prompts
from keras_bert.finetuning.task import TaskDescription
from keras_bert.serving.client import RestClient
from keras_bert.serving.formats.litert_onnx import export_litert, export_onnx
from keras_bert.serving.graph_operations import TEXT_OPERATIONS, graph_operations
from keras_bert.serving.kit import WARMUP_FILE
from keras_bert.serving.prediction_log import predict_request, write_warmup
from keras_bert.serving.remote_prediction import predict_remotely
from keras_bert.serving.saved_model import export_saved_model
from keras_bert.serving.served_folder import open_signatures
from keras_bert.signatures.options import ExportOptions
from keras_bert.tasks.predict import predict_file
from keras_bert.tasks.sentence_embedding.embedding_files import SECOND_TEXT
from keras_bert.visualize.attributions.view import check_explained
from tests import command_process
from tests.conftest import write_csv
from tests.serving.rest_server import rest_server
from tests.serving.test_serving_kit import OPS_LIB, requests_of, tensorflow_operations
from tests.signatures.tiny_models import PIECES, random_texts, write_model
from tests.tolerances import BFLOAT16, CONVERTED, REORDERED

TOOLS = Path(__file__).parents[2] / "tools"
WIDTH = 6
LENGTH, QUERY_LENGTH, FILLED = 20, 9, 12
LONG = "the film " * 30
TEXTS = ["the film, a.", "", "b.c. x y (the film)", LONG, *random_texts(3, 5, longest=8)]
QUERIES = ["the film", "", LONG, "x, y.", "a", "film b", "[MASK] the", "d's"]
STRINGS = ("serving_default", "serve_query", "serve_document")
ALL = {*STRINGS, "serve_scores", "serve_ids", "serve_examples"}


@dataclass(frozen=True)
class Expected:
    """How the texts of a folder are read; all of it by hand below."""

    query_marker: str = "[unused0]"
    document_marker: str = "[unused1]"
    query_prompt: str = "the "
    document_prompt: str = "film: "
    filled: int | None = None
    skipped: tuple[str, ...] = ()


RUN = Expected()
# Queries are filled up with masks that the other tokens do not see, and commas have no vector.
FULL = Expected(query_prompt="a ", document_prompt="", filled=FILLED, skipped=(",", "gone"))
FOLDERS = {"run": RUN, "full": FULL}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A run of multi_vector_retrieval, and a folder with all that other libraries write."""
    path = tmp_path_factory.mktemp("colbert")
    pieces = [*PIECES, RUN.query_marker, RUN.document_marker, "[unused2]"]
    sizes = {"vocab_size": len(pieces) + 5, "max_position_embeddings": 24}
    write_model(path / "encoder", "encoder", pieces=pieces, **sizes)
    tokenizer = load_tokenizer(path / "encoder")
    keras.utils.set_random_seed(7)
    model = BertMultiVectorEmbedder.from_preset(path / "encoder", projection_dim=WIDTH)
    for name in FOLDERS:
        model.save_to_preset(path / name, tokenizer)
    head = MultiVectorHead(
        projection_dim=WIDTH,
        query_length=QUERY_LENGTH,
        query_marker=RUN.query_marker,
        document_marker=RUN.document_marker,
        query_prompt=RUN.query_prompt,
        document_prompt=RUN.document_prompt,
    )
    columns = {"text": "text", SECOND_TEXT: "positive"}
    TaskDescription("multi_vector_retrieval", head, columns, LENGTH).save(path / "run")
    modules = MultiVectorModules(
        multi_vector_modules.read(path / "run").projection,
        None,
        LENGTH,
        prompts=Prompts("", {}, FULL.query_prompt, FULL.document_prompt, "maxsim"),
        query_marker=FULL.query_marker,
        document_marker=FULL.document_marker,
        expansion=QueryExpansion(FILLED, False, None),
        skiplist=FULL.skipped,
    )
    multi_vector_modules.write(path / "full", modules)
    return path


@pytest.fixture(scope="module")
def exports(folders):
    """Folder of the version of each."""
    return {name: export_saved_model(folders / name, folders / f"{name}_1") for name in FOLDERS}


@pytest.fixture(scope="module")
def served(exports):
    loaded = {name: tf.saved_model.load(str(path)) for name, path in exports.items()}
    yield {name: one.signatures for name, one in loaded.items()}


@pytest.fixture(scope="module")
def by_hand(folders):
    """Returns a function: pieces and vectors [tokens, D] of a text by itself."""
    tokenizer = load_tokenizer(folders / "encoder", keep_special_tokens=True)
    tokens = tokenizer.vocabulary.tokens
    encoder = BertEncoder.from_preset(folders / "encoder", dtype="float32")
    kernel = multi_vector_modules.read(folders / "run").projection

    @functools.cache
    def vectors(told, text, is_query):
        marker = told.query_marker if is_query else told.document_marker
        pieces = tokenizer([(told.query_prompt if is_query else told.document_prompt) + text])
        most = (told.filled or QUERY_LENGTH) if is_query else LENGTH
        names = [tokens[i] for i in pieces[0].numpy()][: most - 3]
        names = ["[CLS]", marker, *names, "[SEP]"]
        mask = [1] * len(names)
        if is_query and told.filled:
            fill = told.filled - len(names)
            names, mask = [*names, *["[MASK]"] * fill], [*mask, *[0] * fill]
        ids = np.array([[tokens.index(name) for name in names]], np.int32)
        inputs = {"input_ids": ids, "input_mask": np.array([mask], np.int32)}
        inputs["segment_ids"] = np.zeros_like(ids)
        found = encoder(inputs)["sequence_output"].numpy()[0] @ kernel  # [tokens, D]
        found /= np.linalg.norm(found, axis=-1, keepdims=True)
        kept = [place for place, n in enumerate(names) if is_query or n not in told.skipped]
        return [names[place] for place in kept], found[kept]

    return vectors


def max_sim(query, text):
    """The sum, over the vectors of a query, of the largest product with one of a text."""
    return sum(max(float(asked @ held) for held in text) for asked in query)


@pytest.mark.parametrize("name", FOLDERS)
def test_what_is_served_are_projected_states_of_length_one(name, served, by_hand, folders):
    assert {*served[name]} == ALL
    encoder = MultiVectorEncoder.from_preset(folders / name)
    for signature in STRINGS:
        is_query = signature == "serve_query"
        texts = QUERIES if is_query else TEXTS
        answer = served[name][signature](text=tf.constant(texts))
        assert {*answer} == {"tokens", "token_vectors"}
        tokens, vectors = answer["tokens"].numpy(), answer["token_vectors"].numpy()
        in_python = (encoder.encode_query if is_query else encoder.encode_document)(texts)
        counts = []
        for row, text in enumerate(texts):
            names, expected = by_hand(FOLDERS[name], text, is_query)
            counts.append(len(names))
            assert [token.decode() for token in tokens[row, : len(names)]] == names
            np.testing.assert_allclose(vectors[row, : len(names)], expected, **REORDERED)
            [made] = in_python[row : row + 1]
            np.testing.assert_allclose(vectors[row, : len(names)], made, **REORDERED)
            assert not vectors[row, len(names) :].any() and not any(tokens[row, len(names) :])
        # As many positions as the longest has; long texts are cut, and what is filled up is full.
        longest = (FOLDERS[name].filled or QUERY_LENGTH) if is_query else LENGTH
        assert vectors.shape == (len(texts), longest, WIDTH) and max(counts) == longest
        assert (len({*counts}) == 1) == (is_query and FOLDERS[name].filled is not None)


@pytest.mark.parametrize("name", FOLDERS)
def test_a_score_is_the_sum_of_the_largest_products(name, served, by_hand, folders):
    answer = served[name]["serve_scores"](text=tf.constant(TEXTS), query=tf.constant(QUERIES))
    assert {*answer} == {"score"}
    expected = [
        max_sim(*(by_hand(FOLDERS[name], *one)[1] for one in ((query, True), (text, False))))
        for query, text in zip(QUERIES, TEXTS, strict=True)
    ]
    np.testing.assert_allclose(answer["score"], expected, **REORDERED)
    in_python = MultiVectorEncoder.from_preset(folders / name).scores(QUERIES, TEXTS)
    np.testing.assert_allclose(answer["score"], in_python, **REORDERED)
    # Of the same words one of these is not the other.
    changed = served[name]["serve_scores"](text=tf.constant(QUERIES), query=tf.constant(TEXTS))
    assert np.abs(changed["score"] - answer["score"]).max() > 0.1


@pytest.mark.parametrize("name", FOLDERS)
def test_an_answer_does_not_depend_on_its_neighbours(name, served):
    score = served[name]["serve_scores"]
    together = score(text=tf.constant(TEXTS), query=tf.constant(QUERIES))["score"]
    for row, (query, text) in enumerate(zip(QUERIES, TEXTS, strict=True)):
        alone = score(text=tf.constant([text]), query=tf.constant([query]))["score"]
        np.testing.assert_allclose(alone, together[row : row + 1], **REORDERED)
    for signature in STRINGS:
        answer = served[name][signature](text=tf.constant(["a b", LONG]))
        alone = served[name][signature](text=tf.constant(["a b"]))
        length = alone["tokens"].shape[1]
        np.testing.assert_array_equal(answer["tokens"][:1, :length], alone["tokens"])
        np.testing.assert_allclose(
            answer["token_vectors"][:1, :length], alone["token_vectors"], **REORDERED
        )


def test_a_text_without_vectors_has_the_least_score(folders, tmp_path):
    folder = shutil.copytree(folders / "full", tmp_path / "skipping")
    modules = multi_vector_modules.read(folder)
    left_out = ("[CLS]", "[unused1]", "[SEP]", "a")
    multi_vector_modules.write(folder, replace(modules, skiplist=left_out))
    score = open_signatures(folder, ExportOptions()).more_answers()["serve_scores"]
    for texts in (["a"], ["a", "b film", ""]):
        found = score(tf.constant(texts), tf.constant(["film"] * len(texts)))["score"].numpy()
        np.testing.assert_allclose(found[::2], -FILLED, **REORDERED)
        assert (found[1:2] > -FILLED).all()


@pytest.mark.parametrize("name", FOLDERS)
def test_a_request_may_hold_no_texts(name, served):
    nothing = tf.constant([], tf.string)
    for signature in STRINGS:
        answer = served[name][signature](text=nothing)
        assert answer["token_vectors"].shape[0] == 0 == answer["tokens"].shape[0]
        assert answer["token_vectors"].shape[2] == WIDTH
    assert served[name]["serve_scores"](text=nothing, query=nothing)["score"].shape == (0,)
    assert served[name]["serve_examples"](examples=nothing)["token_vectors"].shape[0] == 0
    ids = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), tf.zeros([0, 0], tf.int32))
    assert served[name]["serve_ids"](**ids)["token_vectors"].shape[0] == 0


def test_texts_and_queries_stand_beside_each_other(served):
    for texts, queries in ((["a", "b"], ["a"]), (["a"], ["a", "b"]), (["a"], [])):
        with pytest.raises(tf.errors.InvalidArgumentError, match="every text needs its query: the"):
            served["run"]["serve_scores"](
                text=tf.constant(texts), query=tf.constant(queries, tf.string)
            )


def test_guards_hold_for_queries_too(folders):
    family = open_signatures(folders / "run", ExportOptions(max_batch=2, max_text_bytes=5))
    score = family.functions()["serve_scores"]
    assert score(text=tf.constant(["a", "b"]), query=tf.constant(["a", "bcdef"]))["score"].shape[0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="a query is longer than 5 bytes"):
        score(text=tf.constant(["a"]), query=tf.constant(["abcdef"]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="holds more than 2 examples"):
        score(text=tf.constant(["a"] * 3), query=tf.constant(["a"] * 3))


def rows_of(folder, texts):
    """Rows of ids of texts as they stand, numpy [N, S]."""
    preprocess = open_signatures(folder, ExportOptions()).preprocess
    return {name: values.numpy() for name, values in preprocess(tf.constant(texts)).items()}


def of_keras(folder, rows):
    model = BertMultiVectorEmbedder.from_preset(folder, dtype="float32")
    return model({name: values[:, None] for name, values in rows.items()}).numpy()[:, 0]


def test_ids_and_examples_are_answered_alike(served, folders):
    rows = rows_of(folders / "run", TEXTS)
    found = served["run"]["serve_ids"](**rows)["token_vectors"].numpy()
    np.testing.assert_allclose(found, of_keras(folders / "run", rows), **REORDERED)
    assert not found[rows["input_mask"] == 0].any()
    np.testing.assert_allclose(
        np.linalg.norm(found, axis=-1)[rows["input_mask"] > 0], 1, **REORDERED
    )
    examples = [
        tf.train.Example(
            features=tf.train.Features(
                feature={
                    "text": tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()]))
                }
            )
        ).SerializeToString()
        for text in TEXTS
    ]
    found = served["run"]["serve_examples"](examples=tf.constant(examples))
    expected = served["run"]["serving_default"](text=tf.constant(TEXTS))
    np.testing.assert_array_equal(found["tokens"], expected["tokens"])
    np.testing.assert_allclose(found["token_vectors"], expected["token_vectors"], **REORDERED)


def test_prompts_that_are_asked_for_go_before_those_of_the_folder(folders, by_hand):
    options = ExportOptions(query_prompt="x ", document_prompt="")
    family = open_signatures(folders / "run", options)
    asked = Expected(query_prompt="x ", document_prompt="")
    for answer, is_query in (
        (family.more_answers()["serve_query"], True),
        (family.more_answers()["serve_document"], False),
        (family.answer, False),
    ):
        names, expected = by_hand(asked, "the b", is_query)
        found = answer(tf.constant(["the b"]))
        assert [token.decode() for token in found["tokens"].numpy()[0]] == names
        np.testing.assert_allclose(found["token_vectors"][0], expected, **REORDERED)


def test_a_query_may_be_longer_than_a_text_to_be_found(folders, tmp_path):
    """As in sentence-transformers: what is said of texts to be found is not said of queries."""
    modules = multi_vector_modules.read(folders / "run")
    folder = tmp_path / "long"
    BertMultiVectorEmbedder.from_preset(folders / "run").save_to_preset(
        folder, load_tokenizer(folders / "run")
    )
    for query_length, expected in ((None, 7), (13, 13), (99, 24)):  # there are 24 positions
        lengths = {"query_length": query_length, "max_seq_length": 7}
        multi_vector_modules.write(folder, MultiVectorModules(modules.projection, **lengths))
        family = open_signatures(folder, ExportOptions())
        [count] = family.query_vectors(tf.constant([LONG]))[0].row_lengths()
        assert count == expected
        [count] = family.document_vectors(tf.constant([LONG]))[0].row_lengths()
        assert count == 7


def test_options_of_other_models_are_refused(folders):
    for options, sentence in (
        (
            {"pooling": "mean"},
            "--pooling is for one dense vector of a text, and the folder has a v",
        ),
        ({"normalize": True}, "--normalize is for one dense vector of a text, and the folder has"),
        ({"truncate_dim": 3}, "--truncate_dim is for one dense vector of a text, and the folder"),
        (
            {"max_windows": 3},
            "--max_windows is for one vector of a text, and the folder has one fo",
        ),
        ({"max_active_dims": 3}, "--max_active_dims is for trained sparse vectors of texts: leave"),
        ({"top_k": 3}, "--top_k is for masked language models: leave it out"),
        ({"max_seq_length": 25}, "max_seq_length is 25 but .* was made for 24 positions"),
    ):
        with pytest.raises(ValueError, match=f"^{sentence}"):
            open_signatures(folders / "run", ExportOptions(**options))
    # What the sentences offer.
    family = open_signatures(folders / "run", ExportOptions(pooling="mean"), head="encoder")
    assert family.answer(tf.constant(["a"]))["sentence_embedding"].shape == (1, 16)


def test_folders_that_cannot_be_served_are_told(folders, tmp_path):
    kernel = multi_vector_modules.read(folders / "run").projection
    folder = tmp_path / "folder"
    BertMultiVectorEmbedder.from_preset(folders / "run").save_to_preset(
        folder, load_tokenizer(folders / "run")
    )
    filled = MultiVectorModules(kernel, expansion=QueryExpansion(25, True, None))
    multi_vector_modules.write(folder, filled)
    with pytest.raises(
        ValueError, match="fills queries up to 25 positions, but its encoder has only 24"
    ):
        open_signatures(folder, ExportOptions())
    # Without its projection a run would answer by a random one.
    (folder / "task.json").write_bytes((folders / "run" / "task.json").read_bytes())
    for name in ("modules.json", "config_sentence_transformers.json"):
        (folder / name).unlink()
    with pytest.raises(ValueError, match="no modules.json, and so lacks the projection of tokens"):
        open_signatures(folder, ExportOptions())


@pytest.mark.parametrize(
    ("dtype", "likeness"),
    [
        pytest.param("bfloat16", 0.97, marks=pytest.mark.half_precision),
        pytest.param("int8", 0.85, marks=pytest.mark.slow),
    ],
)
def test_other_number_formats(dtype, likeness, served, folders):
    family = open_signatures(folders / "full", ExportOptions(dtype))
    # The projection is a dense layer like others: 8-bit integers there, too.
    stored = family.model.get_layer("projection").kernel.dtype
    assert keras.backend.standardize_dtype(stored) == dtype
    functions, answers = family.functions(), {}
    for signature in STRINGS:
        text = tf.constant(QUERIES if signature == "serve_query" else TEXTS)
        expected, found = (
            one[signature](text=text)["token_vectors"] for one in (served["full"], functions)
        )
        assert found.dtype == tf.float32
        real = np.linalg.norm(expected, axis=-1) > 0
        lengths = np.linalg.norm(found, axis=-1)
        np.testing.assert_allclose(lengths, real, **REORDERED)  # divided in float32
        cosines = np.sum(found * expected, axis=-1)[real]
        assert cosines.min() > likeness and not np.allclose(cosines, 1, **REORDERED)
        answers[signature] = [rows[there] for rows, there in zip(found.numpy(), real, strict=True)]
    both = {"text": tf.constant(TEXTS), "query": tf.constant(QUERIES)}
    expected = map(max_sim, answers["serve_query"], answers["serve_document"])
    np.testing.assert_allclose(functions["serve_scores"](**both)["score"], [*expected], **BFLOAT16)


def test_what_lies_beside_it_is_answered(exports, served, tmp_path):
    used = graph_operations(exports["full"]) | graph_operations(exports["run"])
    assert used <= tensorflow_operations() | OPS_LIB & TEXT_OPERATIONS
    sizes = []
    for name, signature, inputs in requests_of(exports["run"] / WARMUP_FILE):
        assert (name, {*inputs}) == ("run_1", {"text"})
        answer = served["run"][signature](**inputs)
        sizes.append(answer["token_vectors"].shape[0])
    assert sizes == [1, 8, 32]
    readme = (exports["run"].parent / "README.md").read_text()
    [body] = json.loads(re.search(r":predict -d '(.*)'", readme).group(1))["instances"]
    served["run"]["serving_default"](**{name: tf.constant([text]) for name, text in body.items()})
    # A request with the further input is written as one.
    request = predict_request("run_1", "serve_scores", {"text": ["a", "b"], "query": ["b", "b"]})
    write_warmup(tmp_path / "extra" / "requests", [request])
    [(_, signature, inputs)] = requests_of(tmp_path / "extra" / "requests")
    assert signature == "serve_scores" and {*inputs} == {"text", "query"}
    assert served["run"][signature](**inputs)["score"].shape == (2,)


@pytest.mark.slow  # converts a model
def test_litert_says_what_keras_says(folders, tmp_path):
    rows = rows_of(folders / "run", TEXTS)
    file = export_litert(folders / "run", tmp_path / "small") / "model.tflite"
    runner = tf.lite.Interpreter(str(file)).get_signature_runner("serve_ids")
    expected = of_keras(folders / "run", rows)
    np.testing.assert_allclose(runner(**rows)["token_vectors"], expected, **CONVERTED)


@pytest.mark.oracle  # tf2onnx, onnxruntime
def test_onnx_says_what_keras_says(folders, tmp_path):
    import onnxruntime

    rows = rows_of(folders / "run", TEXTS)
    file = export_onnx(folders / "run", tmp_path / "small") / "model.onnx"
    session = onnxruntime.InferenceSession(file)
    assert [output.name for output in session.get_outputs()] == ["token_vectors"]
    [found] = session.run(None, rows)
    np.testing.assert_allclose(found, of_keras(folders / "run", rows), **CONVERTED)


def test_a_run_says_how_alike_two_texts_are(folders, by_hand, tmp_path):
    pairs = [(query, text) for query, text in zip(QUERIES, TEXTS, strict=True) if query and text]
    expected = [
        max_sim(*(by_hand(RUN, *one)[1] for one in ((query, True), (text, False))))
        for query, text in pairs
    ]
    model = FinetunedModel.load(folders / "run")
    assert model.model.has_trained_projection and model.description.head.kind == "multi_vector"
    vectors = model.predict_examples([EmbeddingExample(pair) for pair in pairs])
    found = [max_sim(query, text) for query, text in vectors]
    np.testing.assert_allclose(found, expected, rtol=1e-2)  # kept in float16
    with pytest.raises(ValueError, match="the multi_vector head of the model does not: give a li"):
        model.predict(["a"])
    write_csv(tmp_path / "pairs.csv", ["text", "positive"], pairs)
    assert predict_file(folders / "run", tmp_path / "pairs.csv", tmp_path / "found.csv") == len(
        pairs
    )
    with open(tmp_path / "found.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [*rows[0]] == ["text", "positive", "similarity"]
    np.testing.assert_allclose([float(row["similarity"]) for row in rows], expected, rtol=1e-2)
    with pytest.raises(ValueError, match="is a BertMultiVectorEmbedder, which gives vectors, no a"):
        check_explained(type(model.model))


def test_a_server_of_vectors_is_asked_otherwise(folders, tmp_path):
    write_csv(tmp_path / "in.csv", ["text"], [["the film"]])
    sentence = (
        "answers with (tokens, token_vectors|token_vectors, tokens), which make no table: ask"
    )
    with (
        rest_server(folders / "run") as address,
        pytest.raises(ValueError, match=sentence),
    ):
        predict_remotely(RestClient(address, "tiny"), tmp_path / "in.csv", tmp_path / "out.csv", 4)
    assert not Path(tmp_path / "out.csv").exists()


def check_encodings(folder, expected, texts=TEXTS):
    """A folder against the vectors of another one that was opened."""
    found = MultiVectorEncoder.from_preset(folder)
    for method in ("encode_query", "encode_document"):
        one, other = (getattr(encoder, method)(texts) for encoder in (found, expected))
        np.testing.assert_array_equal(one.row_splits, other.row_splits, err_msg=f"{folder}")
        np.testing.assert_allclose(one.vectors, other.vectors, **REORDERED, err_msg=f"{folder}")


def convert(source, target, *flags):
    done = command_process.run(
        [TOOLS / "convert_checkpoint.py", f"--from={source}", f"--to={target}", *flags],
        environment={"KERAS_BERT_TRACEBACK": ""},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_what_stands_behind_the_encoder_is_converted(folders, tmp_path):
    for name, format in (("run", "hf"), ("run", "keras"), ("full", "google"), ("full", "garden")):
        printed = convert(folders / name, tmp_path / format, f"--format={format}")
        assert "sentences:       modules.json and what it lists were copied\n" in printed
        check_encodings(tmp_path / format, MultiVectorEncoder.from_preset(folders / name))
    assert FinetunedModel.load(tmp_path / "keras").model.has_trained_projection
    assert not (tmp_path / "hf" / "task.json").exists()
    # Of Stanford's library: the projection stands among the weights of the encoder.
    stanford = shutil.copytree(tmp_path / "hf", tmp_path / "stanford")
    tensors = {f"bert.{n}": v for n, v in load_file(stanford / "model.safetensors").items()}
    tensors["linear.weight"] = load_file(stanford / "1_Dense" / "model.safetensors")[
        "linear.weight"
    ]
    save_file(tensors, stanford / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((stanford / "config.json").read_text())
    (stanford / "config.json").write_text(json.dumps(config | {"architectures": ["HF_ColBERT"]}))
    lengths = {"query_maxlen": 11, "doc_maxlen": 17}
    (stanford / "artifact.metadata").write_text(json.dumps(lengths))
    for path in ("1_Dense", "2_MultiVectorMask", "3_Normalize"):
        shutil.rmtree(stanford / path)
    for file in ("modules.json", "config_sentence_transformers.json", "sentence_bert_config.json"):
        (stanford / file).unlink()
    expected = MultiVectorEncoder.from_preset(stanford)
    assert set(expected.encode_query(TEXTS).counts) == {11}  # queries are filled up there
    for format in ("keras", "hf"):
        target = tmp_path / f"of_stanford_{format}"
        printed = convert(stanford, target, f"--format={format}")
        assert "sentences:       projection and settings are in modules.json now\n" in printed
        check_encodings(target, expected)
        config = json.loads((target / "config.json").read_text())
        assert config.get("architectures", ["BertModel"]) == ["BertModel"]
    # What the author cut texts at is not changed, and told where there are more positions now.
    printed = convert(stanford, tmp_path / "longer", "--max_position_embeddings=40")
    assert "; texts are cut at 17 pieces as before: for longer ones change max_seq" in printed


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLDERS)
def test_a_grown_model_keeps_its_projection_and_its_markers(name, folders, tmp_path):
    (tmp_path / "words.txt").write_text("zeppelin\nqux\n", encoding="utf-8")
    grown = tmp_path / "grown"
    done = command_process.run(
        [
            TOOLS / "grow_vocabulary.py",
            f"--model={folders / name}",
            f"--words={tmp_path / 'words.txt'}",
            f"--output={grown}",
        ],
        environment={"KERAS_BERT_TRACEBACK": ""},
    )
    assert done.returncode == 0, done.stderr
    told = "with modules.json and what it lists" + (", with task.json" if name == "run" else "")
    assert done.stdout.endswith(f", {told}\n")
    # The slot that no marker is takes a word, the other one stands behind the end.
    tokens = load_tokenizer(folders / name).vocabulary.tokens
    expected = [*("zeppelin" if token == "[unused2]" else token for token in tokens), "qux"]
    assert [*load_tokenizer(grown).vocabulary.tokens] == expected
    check_encodings(grown, MultiVectorEncoder.from_preset(folders / name))
    [names] = open_signatures(grown, ExportOptions()).answer(tf.constant(["qux"]))["tokens"]
    assert b"qux" in names.numpy()
    if name == "run":
        model = FinetunedModel.load(grown)
        assert model.description == FinetunedModel.load(folders / name).description
        assert model.model.has_trained_projection


@pytest.mark.slow
def test_a_run_is_none_without_its_projection(folders, tmp_path):
    (tmp_path / "words.txt").write_text("zeppelin\n", encoding="utf-8")
    damaged = shutil.copytree(folders / "run", tmp_path / "damaged")
    file = damaged / "1_Dense" / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"bias": True}))
    for status in (1, 0):
        done = command_process.run(
            [
                TOOLS / "grow_vocabulary.py",
                f"--model={damaged}",
                f"--words={tmp_path / 'words.txt'}",
                f"--output={tmp_path / 'grown'}",
            ],
            environment={"KERAS_BERT_TRACEBACK": ""},
        )
        assert done.returncode == status, done.stderr
        if status:
            assert "bias is True, which cannot be reproduced" in done.stderr
            assert not (tmp_path / "grown").exists()
        (damaged / "task.json").unlink(missing_ok=True)
    # Of another library the encoder grows alone.
    assert "pieces, the encoder alone: " in done.stdout
    assert not (tmp_path / "grown" / "modules.json").exists()
