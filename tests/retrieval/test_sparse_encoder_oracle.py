"""Sparse vectors against sentence-transformers: its folders, ours opened by it, losses, gradients.

Oracle: `SparseEncoder` of sentence-transformers on tiny random models of several families.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import (
    BertSparseEmbedder,
    EmbeddingExample,
    SparseEmbeddingHead,
    SparseEncoder,
    SparseTextIndex,
    SparseVectors,
    load_tokenizer,
)
from keras_bert.checkpoints import hugging_face
from keras_bert.models import preset
from keras_bert.serving.saved_model import export_saved_model
from keras_bert.tasks.sentence_embedding.metrics import sparse_ranking_metrics
from keras_bert.tasks.sentence_embedding.ranking_loss import SparseEmbeddingLoss
from tests import command_process
from tests.signatures.tiny_models import random_texts
from tests.tolerances import ORACLE

pytestmark = pytest.mark.oracle

REPOSITORY = Path(__file__).parents[2]
TEXTS = [
    *random_texts(12, seed=3, longest=12),
    "the film",
    "[MASK] film[SEP]the",
    "The FILM Zo\u00eb",
]


@pytest.fixture(scope="module")
def words_folder(model_folder, tmp_path_factory):
    """The tiny masked language model as Hugging Face has it."""
    folder = tmp_path_factory.mktemp("words")
    hugging_face.write(preset.read_checkpoint(model_folder("masked_lm")), folder)
    load_tokenizer(model_folder("masked_lm")).save(folder)
    return folder


def vectors_of_theirs(folder, texts, method="encode", **arguments):
    from sentence_transformers import SparseEncoder as Theirs

    model = Theirs(str(folder), device="cpu")
    found = getattr(model, method)(texts, convert_to_sparse_tensor=False, **arguments)
    return found.numpy()


@pytest.mark.parametrize("activation", ["relu", "log1p_relu"])
def test_a_folder_of_theirs(activation, words_folder, tmp_path):
    from sentence_transformers import SparseEncoder as Theirs
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sparse_encoder.modules import SpladePooling

    first = Transformer(str(words_folder), transformer_task="fill-mask")
    modules = [first, SpladePooling(activation_function=activation)]
    prompts = {"query": "film: ", "document": "the "}
    model = Theirs(modules=modules, device="cpu", prompts=prompts, max_active_dims=9)
    model.save(str(tmp_path))
    encoder = SparseEncoder.from_preset(tmp_path)
    for method in ("encode", "encode_query", "encode_document"):
        expected = vectors_of_theirs(tmp_path, TEXTS, method)
        found = getattr(encoder, method)(TEXTS)
        np.testing.assert_allclose(found.to_dense(), expected, **ORACLE, err_msg=method)
    assert found.active_dims.max() == 9
    decoded = Theirs(str(tmp_path), device="cpu").decode(
        Theirs(str(tmp_path), device="cpu").encode(TEXTS[-3:])
    )
    for ours, theirs in zip(encoder.decode(encoder.encode(TEXTS[-3:])), decoded, strict=True):
        assert [word for word, _ in ours] == [word for word, _ in theirs]


def test_a_folder_of_their_release_5(words_folder, tmp_path):
    """Models that were published before 5.4 name other modules."""
    shutil.copytree(words_folder, tmp_path / "old")
    package = "sentence_transformers.sparse_encoder.models."
    entries = [
        {"idx": 0, "name": "0", "path": "", "type": f"{package}MLMTransformer"},
        {"idx": 1, "name": "1", "path": "1_SpladePooling", "type": f"{package}SpladePooling"},
    ]
    pooling = {"pooling_strategy": "max", "activation_function": "relu"}
    model = {"model_type": "SparseEncoder", "prompts": {}, "similarity_fn_name": "dot"}
    (tmp_path / "old" / "1_SpladePooling").mkdir()
    for file, content in {
        "modules.json": entries,
        "1_SpladePooling/config.json": {**pooling, "word_embedding_dimension": None},
        "sentence_bert_config.json": {"max_seq_length": 12, "do_lower_case": False},
        "config_sentence_transformers.json": model,
    }.items():
        (tmp_path / "old" / file).write_text(json.dumps(content))
    found = SparseEncoder.from_preset(tmp_path / "old").encode(TEXTS).to_dense()
    np.testing.assert_allclose(found, vectors_of_theirs(tmp_path / "old", TEXTS), **ORACLE)


def test_fixed_weights_of_queries(words_folder, tmp_path):
    """No model reads queries: of a Router's folder, in Python and served."""
    import torch
    from sentence_transformers import SparseEncoder as Theirs
    from sentence_transformers.base.modules import Router, Transformer
    from sentence_transformers.sparse_encoder.modules import SparseStaticEmbedding, SpladePooling

    words = Transformer(str(words_folder), transformer_task="fill-mask")
    weights = torch.rand(len(words.tokenizer), generator=torch.Generator().manual_seed(2))
    weights[::5] = 0
    router = Router.for_query_document(
        query_modules=[SparseStaticEmbedding(tokenizer=words.tokenizer, weight=weights)],
        document_modules=[words, SpladePooling(activation_function="log1p_relu")],
    )
    Theirs(modules=[router], device="cpu", prompts={"query": "film "}).save(str(tmp_path / "st"))
    encoder = SparseEncoder.from_preset(tmp_path / "st")
    for method in ("encode", "encode_query", "encode_document"):
        found = getattr(encoder, method)(TEXTS).to_dense()
        expected = vectors_of_theirs(tmp_path / "st", TEXTS, method)
        np.testing.assert_allclose(found, expected, **ORACLE, err_msg=method)
    assert 0 < encoder.encode_query(TEXTS[-3:]).active_dims.min()
    index = SparseTextIndex.build(encoder, TEXTS)
    products = encoder.encode_query(["the film"]).to_dense() @ encoder.encode(TEXTS).to_dense().T
    assert index.search(["the film"])[0][0].score == pytest.approx(products.max(), rel=1e-5)
    served = tf.saved_model.load(str(export_saved_model(tmp_path / "st", tmp_path / "served")))
    answer = served.signatures["serve_query"](text=tf.constant(TEXTS))
    for row, own in enumerate(encoder.decode(encoder.encode_query(TEXTS))):
        found = answer["tokens"][row].numpy()[: len(own)]
        assert [token.decode() for token in found] == [token for token, _ in own]
    # Its model of texts is trained as one for both, if that is asked for.
    with pytest.raises(ValueError, match="has fixed weights for the words of queries, which are n"):
        BertSparseEmbedder.from_preset(tmp_path / "st")
    assert BertSparseEmbedder.from_preset(tmp_path / "st", activation="relu").activation == "relu"
    converted = command_process.run(
        [
            REPOSITORY / "tools" / "convert_checkpoint.py",
            *(f"--from={tmp_path / 'st'}", f"--to={tmp_path / 'keras'}"),
        ]
    )
    assert "the encoder alone: " in converted.stdout, converted.stderr


@pytest.mark.parametrize("family", ["RobertaForMaskedLM", "DistilBertForMaskedLM"])
def test_words_of_other_families(family, words_folder, tmp_path):
    """The vectors of the Keras model of a random one of transformers, from the same ids."""
    import torch
    import transformers

    torch.manual_seed(0)
    config_class = getattr(transformers, family.removesuffix("ForMaskedLM") + "Config")
    sizes = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    if family.startswith("Distil"):
        sizes = {"vocab_size": 40, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32}
    config = config_class(**sizes, initializer_range=0.5, pad_token_id=0)
    theirs = getattr(transformers, family)(config).eval()
    theirs.save_pretrained(tmp_path)
    ids = np.array([[5, 6, 7, 8], [9, 10, 0, 0]], np.int32)
    mask = (ids > 0).astype(np.int32)
    with torch.no_grad():
        logits = theirs(torch.tensor(ids).long(), torch.tensor(mask)).logits.numpy()
    expected = (np.log1p(np.maximum(logits, 0)) * mask[..., None]).max(axis=1)
    model = BertSparseEmbedder.from_preset(tmp_path, dtype="float32")
    rows = {"input_ids": ids, "input_mask": mask, "segment_ids": np.zeros_like(ids)}
    found = model({name: values[:, None] for name, values in rows.items()})[:, 0]
    np.testing.assert_allclose(found, expected, **ORACLE)


def test_a_run_of_ours_is_opened_by_theirs(words_folder, tmp_path):
    model = BertSparseEmbedder.from_preset(words_folder, activation="log1p_relu")
    model.save_to_preset(tmp_path / "run", load_tokenizer(words_folder))
    head = SparseEmbeddingHead(query_prompt="film: ")
    head.write_files(tmp_path / "run", 12)
    converted = command_process.run(
        [
            REPOSITORY / "tools" / "convert_checkpoint.py",
            *(f"--from={tmp_path / 'run'}", f"--to={tmp_path / 'hf'}", "--format=hf"),
        ]
    )
    assert "modules.json and what it lists were copied" in converted.stdout
    ours = SparseEncoder.from_preset(tmp_path / "run")
    for method in ("encode", "encode_query", "encode_document"):
        expected = getattr(ours, method)(TEXTS).to_dense()
        found = vectors_of_theirs(tmp_path / "hf", TEXTS, method)
        np.testing.assert_allclose(found, expected, **ORACLE, err_msg=method)
    # And again by ours.
    again = SparseEncoder.from_preset(tmp_path / "hf").encode_query(TEXTS).to_dense()
    np.testing.assert_allclose(again, ours.encode_query(TEXTS).to_dense(), **ORACLE)


@pytest.mark.parametrize("rows", [2, 4], ids=["pairs", "wrong_answers"])
def test_the_loss_of_answers_and_costs(rows):
    import torch
    from sentence_transformers.sparse_encoder.losses import (
        SparseMultipleNegativesRankingLoss,
        SpladeLoss,
    )

    draw = np.random.default_rng(4)
    vectors = np.maximum(draw.normal(size=[6, rows, 9]), 0).astype(np.float32)
    theirs = SpladeLoss(
        None,
        SparseMultipleNegativesRankingLoss(None),
        document_regularizer_weight=0.2,
        query_regularizer_weight=0.3,
    )
    values = [torch.tensor(vectors[:, row], requires_grad=True) for row in range(rows)]
    parts = theirs.loss.compute_loss_from_embeddings(values, None)
    parts = parts + 0.2 * theirs.document_regularizer.compute_loss_from_embeddings(
        torch.cat(values[1:])
    )
    parts = parts + 0.3 * theirs.query_regularizer.compute_loss_from_embeddings(values[0])
    parts.backward()
    expected = np.stack([one.grad.numpy() for one in values], axis=1)
    numbers = tf.constant(np.arange(1, 6 * rows + 1, dtype=np.int32).reshape(6, rows))
    ours = SparseEmbeddingLoss(query_regularizer_weight=0.3, document_regularizer_weight=0.2)
    held = tf.constant(vectors)
    with tf.GradientTape() as tape:
        tape.watch(held)
        value = tf.reduce_mean(ours.call(numbers, held))
    assert float(value) == pytest.approx(float(parts.detach()), rel=1e-5)
    np.testing.assert_allclose(tape.gradient(value, held), expected, **ORACLE)


def test_metrics_of_a_search(words_folder, tmp_path):
    """`SparseInformationRetrievalEvaluator` on the same vectors."""
    from sentence_transformers import SparseEncoder as Theirs
    from sentence_transformers.sparse_encoder.evaluation import SparseInformationRetrievalEvaluator

    model = Theirs(str(words_folder), device="cpu")
    model.save(str(tmp_path))
    texts = [text for text in dict.fromkeys(random_texts(24, seed=5, longest=8)) if text.strip()]
    pairs = list(zip(texts[:9], texts[9:18], strict=True))
    evaluator = SparseInformationRetrievalEvaluator(
        queries={f"q{n}": query for n, (query, _) in enumerate(pairs)},
        corpus={f"d{n}": answer for n, (_, answer) in enumerate(pairs)},
        relevant_docs={f"q{n}": {f"d{n}"} for n in range(len(pairs))},
        show_progress_bar=False,
    )
    theirs = evaluator(model)
    encoder = SparseEncoder.from_preset(tmp_path)
    columns = [encoder.encode(column) for column in zip(*pairs, strict=True)]
    vectors = [
        SparseVectors.concatenate([column[n : n + 1] for column in columns])
        for n in range(len(pairs))
    ]
    examples = [EmbeddingExample(pair) for pair in pairs]
    for ours, name in {
        "ndcg_at_10": "dot_ndcg@10",
        "mrr_at_10": "dot_mrr@10",
        "accuracy_at_1": "dot_accuracy@1",
        "recall_at_10": "dot_recall@10",
        "query_active_dims": "query_active_dims",
        "document_active_dims": "corpus_active_dims",
    }.items():
        found = sparse_ranking_metrics()[ours](vectors, examples)
        assert found == pytest.approx(theirs[name], rel=1e-5), ours
