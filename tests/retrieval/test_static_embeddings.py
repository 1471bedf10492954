"""Static embeddings: folders of Model2Vec and sentence-transformers, and those distilled here.

Oracles: model2vec and sentence-transformers, on the same folders.
"""

import json
import shutil
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file

from keras_bert import SentenceEncoder, TextIndex, load_tokenizer
from keras_bert.retrieval.static_distillation import distill_static_embeddings
from keras_bert.serving.graph_operations import graph_operations
from keras_bert.serving.saved_model import export_saved_model
from keras_bert.serving.served_folder import open_signatures
from keras_bert.signatures.options import ExportOptions
from tests import command_process
from tests.retrieval.static_folders import (
    WIDTH,
    byte_level,
    model2vec_folder,
    table,
    unigram,
    word_pieces,
)
from tests.tolerances import ORACLE, REORDERED

REPOSITORY = Path(__file__).parents[2]
TEXTS = [
    *("the film was good", "", "The FILM, Zoë!", "\u0e01 film", "xyz", "[MASK] the</s> <unk>"),
    "good " * 40,
]


@pytest.mark.oracle
@pytest.mark.parametrize("make", [word_pieces, byte_level, unigram])
@pytest.mark.parametrize("normalize", [True, False])
def test_a_folder_of_sentence_transformers_encodes_alike(make, normalize, tmp_path):
    from sentence_transformers import SentenceTransformer, models

    tokenizer = make()
    modules = [models.StaticEmbedding(tokenizer, embedding_weights=table(tokenizer))]
    modules += [models.Normalize()] if normalize else []
    SentenceTransformer(modules=modules, device="cpu").save(str(tmp_path / "model"))
    expected = SentenceTransformer(str(tmp_path / "model"), device="cpu").encode(TEXTS)

    encoder = SentenceEncoder.from_preset(tmp_path / "model")
    found = encoder.encode(TEXTS, batch_size=3)

    assert encoder.width == WIDTH
    np.testing.assert_allclose(found, expected, **ORACLE)


@pytest.mark.oracle
@pytest.mark.parametrize("make", [word_pieces, byte_level, unigram])
@pytest.mark.parametrize(
    "config", [{"normalize": True}, {"max_length": 3}, {"normalize": False, "max_length": None}]
)
def test_a_folder_of_model2vec_encodes_alike(make, config, tmp_path):
    import model2vec

    tokenizer = make()
    tensors = {"embeddings": table(tokenizer)}
    if "max_length" in config:
        count = len(tensors["embeddings"])
        tensors["mapping"] = np.arange(count)[::-1].copy() // 2
        tensors["weights"] = np.linspace(0.1, 2, count).astype(np.float32)
    folder = model2vec_folder(tmp_path / "model", tokenizer, tensors, **config)

    expected = model2vec.StaticModel.from_pretrained(folder).encode(TEXTS)
    found = SentenceEncoder.from_preset(folder).encode(TEXTS, batch_size=3)

    np.testing.assert_allclose(found, expected, **ORACLE)


def test_the_mean_is_that_of_the_known_pieces_and_serves_alike(tmp_path):
    tokenizer = word_pieces()
    vectors = table(tokenizer)
    folder = model2vec_folder(tmp_path / "model", tokenizer, {"embeddings": vectors})
    texts = ["the xyz films", "", "xyz"]
    expected = np.stack([vectors[[5, 6, 12]].mean(axis=0), np.zeros(WIDTH), np.zeros(WIDTH)])

    np.testing.assert_allclose(
        SentenceEncoder.from_preset(folder).encode(texts), expected, **REORDERED
    )
    short = SentenceEncoder.from_preset(folder, truncate_dim=2, max_seq_length=5)
    np.testing.assert_allclose(short.encode(texts), expected[:, :2], **REORDERED)
    index = TextIndex.build(SentenceEncoder.from_preset(folder), ["film", "good"])
    assert index.search(["films"], top_k=1)[0][0].text == "film"
    prompts = folder / "config_sentence_transformers.json"
    prompts.write_text(json.dumps({"prompts": {"query": "film "}}))
    asked = vectors[[6, 5, 6, 12]].mean(axis=0), vectors[6], vectors[6]
    encoder = SentenceEncoder.from_preset(folder)
    np.testing.assert_allclose(encoder.encode_query(texts), asked, **REORDERED)
    np.testing.assert_allclose(encoder.encode_document(texts), expected, **REORDERED)
    written = export_saved_model(folder, tmp_path / "served", options=ExportOptions(max_batch=4))
    loaded = tf.saved_model.load(str(written))
    served = loaded.signatures["serve_query"](text=tf.constant(texts))["sentence_embedding"]
    np.testing.assert_allclose(served, asked, **REORDERED)
    served = loaded.signatures["serving_default"](text=tf.constant(texts))["sentence_embedding"]
    np.testing.assert_allclose(served, expected, **REORDERED)
    # Beside what other served graphs use, two operations of TensorFlow's own.
    operations = REPOSITORY / "tests" / "serving" / "served_operations.txt"
    listed = {line.split()[0] for line in operations.read_text().splitlines()}
    assert graph_operations(written) - listed == {"Substr", "ResourceGather"}


def test_tables_of_few_bits_are_kept_as_they_are(tmp_path):
    tokenizer = word_pieces()
    whole = table(tokenizer)
    ids = [5, 6, 12]  # the film, and of films its end
    for stored, dtype, kept in (
        ((whole * 50).astype(np.int8), "float32", np.int8),
        ((whole * 50).astype(np.int8), "bfloat16", np.int8),
        (whole.astype(np.float16), "bfloat16", np.float16),
        (whole.astype(np.float64), "float32", np.float32),
        (whole, "bfloat16", ml_dtypes.bfloat16),
    ):
        name = f"{stored.dtype} {dtype}"
        folder = model2vec_folder(tmp_path / name, tokenizer, {"embeddings": stored})
        family = open_signatures(folder, ExportOptions(dtype=dtype))
        assert family.model.table.dtype == kept
        found = family.answer(tf.constant(["the films"]))["sentence_embedding"]
        rows = stored.astype(kept).astype(np.float64)[ids]
        np.testing.assert_allclose(found, [rows.mean(axis=0)], **REORDERED)


@pytest.mark.parametrize("model2vec", [False, True])
def test_distilling_keeps_the_distances_of_single_pieces(model2vec, model_folder, tmp_path):
    """All directions, equal weights: the turn that PCA is leaves distances as they are."""
    source = model_folder("encoder")
    vocabulary = load_tokenizer(source).vocabulary
    teacher = SentenceEncoder.from_preset(source, pooling="mean", normalize=False)
    folder = distill_static_embeddings(
        source, tmp_path / "all", None, None, model2vec=model2vec, pooling="mean"
    )
    student = SentenceEncoder.from_preset(folder, normalize=False)
    texts = ["film", "the", "!"]  # a piece each
    found, expected = student.encode(texts), teacher.encode(texts)
    np.testing.assert_allclose(
        np.linalg.norm(found - found[[1, 2, 0]], axis=1),
        np.linalg.norm(expected - expected[[1, 2, 0]], axis=1),
        **REORDERED,
    )
    # The directions stand in the order of how much pieces differ in them, around their mean.
    (rows,) = load_file(folder / "model.safetensors").values()
    assert rows.shape == (len(vocabulary), 16) and rows.dtype == np.float32
    np.testing.assert_allclose(rows.mean(axis=0), 0, atol=1e-5)
    variances = rows.var(axis=0)
    assert (variances[:-1] >= variances[1:] - 1e-6).all() and variances[0] > 2 * variances[8]
    # Counts: "film" 3 of 4, "the" 1 of 4; the rest never, so it weighs 1.
    counted, rates = ["film film", "the film"], [0.75, 0.25, 0]
    if model2vec:  # and here by Zipf's law: the ranks of all pieces are 2, 3, ...
        harmonic = sum(1 / rank for rank in range(2, len(vocabulary) + 2))
        counted, rates = None, [1 / (vocabulary.id_of(text) + 2) / harmonic for text in texts]
    weighed = distill_static_embeddings(
        source, tmp_path / "few", 2, 0.25, counted, model2vec, pooling="mean"
    )
    short = SentenceEncoder.from_preset(weighed, normalize=False).encode(texts)
    factors = 0.25 / (0.25 + np.array(rates))
    np.testing.assert_allclose(short, found[:, :2] * factors[:, None], **REORDERED)


@pytest.mark.oracle
def test_the_command_makes_what_both_libraries_open(model_folder, tmp_path):
    import model2vec
    from sentence_transformers import SentenceTransformer

    shutil.copytree(model_folder("encoder"), tmp_path / "model")
    (tmp_path / "texts.txt").write_text("the film\n\nfilm\n")
    tool = REPOSITORY / "tools" / "distill_static_embeddings.py"
    flags = ("--init_from=model", "--pooling=mean", "--width=5", "--texts=texts.txt")
    for form, more in (("sentence_transformers", ()), ("model2vec", ("--dtype=float16",))):
        arguments = [tool, *flags, f"--output_dir={form}", f"--format={form}", *more]
        done = command_process.run(arguments, tmp_path)
        assert done.returncode == 0, done.stderr[-2000:]
        assert f"static embeddings of 5 numbers: {form}" in done.stdout
    done = command_process.run([tool, *flags, "--output_dir=model2vec"], tmp_path)
    assert done.returncode == 1
    assert "model2vec exists already: give another --output_dir" in done.stderr
    texts = ["the film", "", "a good book !", "film xyz"]
    theirs = SentenceTransformer(str(tmp_path / "sentence_transformers"), device="cpu")
    ours = SentenceEncoder.from_preset(tmp_path / "sentence_transformers")
    np.testing.assert_allclose(ours.encode(texts), theirs.encode(texts), **ORACLE)
    half = model2vec.StaticModel.from_pretrained(tmp_path / "model2vec")
    found = SentenceEncoder.from_preset(tmp_path / "model2vec").encode(texts)
    # They add up float16 and divide by the length in it.
    np.testing.assert_allclose(found, half.encode(texts), atol=2e-3)


def test_what_is_no_static_embedding_is_refused(model_folder, tmp_path):
    tokenizer = word_pieces()
    vectors = table(tokenizer)
    few = model2vec_folder(tmp_path / "few", tokenizer, {"embeddings": vectors[:4]})
    with pytest.raises(ValueError, match=r"4 rows, but .* 13 pieces"):
        SentenceEncoder.from_preset(few)
    other = model2vec_folder(tmp_path / "other", tokenizer, {"vectors": vectors})
    with pytest.raises(ValueError, match="expected embeddings of shape"):
        SentenceEncoder.from_preset(other)
    mapped = {"embeddings": vectors, "mapping": np.arange(13) + 1}
    with pytest.raises(ValueError, match="mapping has shape"):
        SentenceEncoder.from_preset(model2vec_folder(tmp_path / "map", tokenizer, mapped))
    whole = model2vec_folder(tmp_path / "whole", tokenizer, {"embeddings": vectors})
    with pytest.raises(ValueError, match="--pooling is for an encoder"):
        SentenceEncoder.from_preset(whole, pooling="cls")
    with pytest.raises(ValueError, match="dtype is int8"):
        export_saved_model(whole, tmp_path / "served", options=ExportOptions(dtype="int8"))
    source = model_folder("encoder")
    for folder in (whole, source):
        with pytest.raises(ValueError, match='is no sentence encoder .* or pooling="mean"'):
            distill_static_embeddings(folder, tmp_path / "again")
    with pytest.raises(FileNotFoundError, match="none is not a folder"):
        distill_static_embeddings(tmp_path / "none", tmp_path / "again")
    with pytest.raises(ValueError, match="sif_coefficient is 2"):
        distill_static_embeddings(source, tmp_path / "again", sif_coefficient=2)
    with pytest.raises(ValueError, match="sif_coefficient is None, which weighs all"):
        distill_static_embeddings(source, tmp_path / "again", 4, None, ["the film"])
    with pytest.raises(FileExistsError, match="whole exists already: give another --output_dir"):
        distill_static_embeddings(source, whole)
    module = {"type": "sentence_transformers.models.StaticEmbedding", "path": ""}
    (few / "config.json").unlink()
    (few / "modules.json").write_text(json.dumps([module]))
    for truncation, message in (
        ({"direction": "Left", "max_length": 4}, "only what cuts the ends of texts can be"),
        ("LongestFirst", "truncation is 'LongestFirst', and only"),
        ({"max_length": 0}, r"tokenizer\.json: max_length is 0: it must be at least 1"),
    ):
        stored = json.loads(tokenizer.to_str()) | {"truncation": truncation}
        (few / "tokenizer.json").write_text(json.dumps(stored))
        with pytest.raises(ValueError, match=message):
            SentenceEncoder.from_preset(few)
    (whole / "tokenizer.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json"):
        SentenceEncoder.from_preset(whole)
