"""Training of static embeddings: the table that learns, the folder that is left, what is refused.

Oracles: sentence-transformers and Model2Vec, from the same folder.
"""

import csv
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import (
    EmbeddingExample,
    FinetunedModel,
    FinetuningOptions,
    SentenceEncoder,
    create_task,
    finetune,
    load_encoder,
    load_tokenizer,
    train_few_shot,
)
from keras_bert.checkpoints.static_embeddings import folders
from keras_bert.finetuning.run import FinetuningRun
from keras_bert.finetuning.task import TaskData
from keras_bert.models.embedders.static_embedder import StaticEmbedder
from keras_bert.serving.saved_model import export_saved_model
from keras_bert.signatures.options import ExportOptions
from keras_bert.tasks.classification.few_shot_options import FewShotOptions
from keras_bert.tasks.kinds import kind_of
from keras_bert.tasks.predict import predict_file
from tests.conftest import write_csv
from tests.retrieval.static_folders import WIDTH, byte_level, model2vec_folder, table, word_pieces
from tests.tolerances import ORACLE, REORDERED

# Rows of one length stay in their order in a batch of all.
ROWS = [
    ("the film", "was good", "good ,"),
    ("film !", "good zoe", "the !"),
    ("zoe was", "films", "the zoe"),
    ("good good", "the the", "was ,"),
]
ANSWERS = [("the film", "good"), ("film !", "was"), ("zoe was", ","), ("good films", "zoe")]
TEXTS = ["the film", "", "good zoe , xyz", "was the film good !"]


@pytest.fixture
def start(tmp_path):
    """A folder of the form of sentence-transformers."""
    folder = tmp_path / "start"
    folder.mkdir()
    tokenizer = word_pieces()
    folders.write(folder, table(tokenizer), json.loads(tokenizer.to_str()), True, False)
    return folder


def options(**changes):
    values = {"epochs": 3, "batch_size": 4, "learning_rate": 0.1, "seed": 5, "strategy": "cpu"}
    return FinetuningOptions(**{**values, **changes})


def answers():
    """One batch is an epoch."""
    examples = [EmbeddingExample(pair) for pair in ANSWERS]
    return TaskData({"train": examples, "validation": examples, "test": examples})


@pytest.mark.oracle
@pytest.mark.parametrize(
    "task, count, dims",
    [("retrieval", 2, ()), ("retrieval", 3, ()), ("similarity", 2, ()), ("retrieval", 3, (4, 2))],
    ids=["answers", "wrong_answers", "scores", "matryoshka"],
)
def test_loss_and_gradient_are_those_of_sentence_transformers(task, count, dims, start):
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import losses

    theirs = SentenceTransformer(str(start), device="cpu")
    scores = [0.0, 0.3, 1.0, 0.6]
    labels = None
    if task == "similarity":
        loss, labels = losses.CosineSimilarityLoss(theirs), torch.tensor(scores)
    else:
        loss = losses.MultipleNegativesRankingLoss(theirs, scale=20)
    if dims:
        loss = losses.MatryoshkaLoss(theirs, loss, [WIDTH, *dims])
    columns = [[row[place] for row in ROWS] for place in range(count)]
    value = loss([theirs.preprocess(column) for column in columns], labels)
    value.backward()
    expected = theirs[0].embedding.weight.grad.numpy()

    examples = [
        EmbeddingExample(row[:count], score if task == "similarity" else None)
        for row, score in zip(ROWS, scores, strict=True)
    ]
    made, data = create_task(task, matryoshka_dims=dims), TaskData({"train": examples})
    own = FinetunedModel.from_task(made, data, start, dtype="mixed_bfloat16")
    [(inputs, targets)] = own.training_data(data, batch_size=len(ROWS))
    with tf.GradientTape() as tape:
        vectors = own.model(inputs, training=True)
        found = tf.reduce_mean(own.description.head.loss().call(targets, vectors))
    [variable] = own.model.trainable_variables
    gradient = tape.gradient(found, variable.value)
    assert isinstance(gradient, tf.IndexedSlices)  # only rows of the batch
    assert float(found) == pytest.approx(float(value.detach()), rel=1e-5)
    np.testing.assert_allclose(tf.convert_to_tensor(gradient), expected, **ORACLE)
    assert np.abs(expected).max() > 0.01


@pytest.mark.oracle
@pytest.mark.parametrize("model2vec", [False, True])
def test_a_trained_folder_opens_where_its_start_did(model2vec, start, tmp_path):
    import model2vec as theirs
    from sentence_transformers import SentenceTransformer

    if model2vec:
        tokenizer = word_pieces()
        tensors = {"embeddings": table(tokenizer, np.float16)[:4], "mapping": np.arange(13) % 4}
        tensors["weights"] = np.linspace(0.5, 2, 13)
        start = model2vec_folder(tmp_path / "model2vec", tokenizer, tensors, max_length=7)
    run = tmp_path / "run"
    task = create_task("retrieval", query_prompt="the ")
    finetune(task, answers(), start, run, options(max_seq_length=3))
    texts = [*TEXTS, "the film was good , the film was good"]
    own = FinetunedModel.load(run)
    examples = [EmbeddingExample((text, text)) for text in texts]
    vectors = np.stack([found[1] for found in own.predict_examples(examples)])
    encoder = SentenceEncoder.from_preset(run)
    np.testing.assert_allclose(encoder.encode(texts), vectors, **REORDERED)
    known = [0, 3, 4]  # an empty text has no vector there, an unknown piece counts
    opened = SentenceTransformer(str(run), device="cpu")
    np.testing.assert_allclose(
        opened.encode([texts[place] for place in known]), vectors[known], **ORACLE
    )
    np.testing.assert_allclose(
        opened.encode_query(texts[:1]), encoder.encode_query(texts[:1]), **ORACLE
    )
    if model2vec:
        found = theirs.StaticModel.from_pretrained(run).encode(texts)
        np.testing.assert_allclose(found, vectors, **ORACLE)


def test_a_run_learns_and_its_folder_serves(start, tmp_path):
    task, data = create_task("retrieval", matryoshka_dims=(3,)), answers()
    before = FinetunedModel.from_task(task, data, start).measure(task.metrics, data)
    result = finetune(task, data, start, tmp_path / "run", options(epochs=5, learning_rate=0.5))
    assert before["ndcg_at_10"] < 0.8 < result.metrics["test"]["ndcg_at_10"]
    assert result.metrics["test"].keys() >= {"ndcg_at_10_dim_3", "loss"}
    trained, first = (folders.read(folder) for folder in (tmp_path / "run", start))
    # Rows of pieces that no text has stay as they were: nothing decays.
    np.testing.assert_array_equal(trained.vectors[:5], first.vectors[:5])
    assert np.abs(trained.vectors[5:] - first.vectors[5:]).max() > 0.1
    assert trained.modules.max_seq_length == 128
    expected = SentenceEncoder.from_preset(tmp_path / "run").encode(TEXTS)
    served = tf.saved_model.load(str(export_saved_model(tmp_path / "run", tmp_path / "served")))
    found = served.signatures["serving_default"](text=tf.constant(TEXTS))["sentence_embedding"]
    np.testing.assert_allclose(found, expected, **REORDERED)
    own = FinetunedModel.load(tmp_path / "run")
    signatures = kind_of(own.description).signatures
    family = signatures(own.description, own.model, own.tokenizer, 128, ExportOptions())
    found = family.answer(text=tf.constant(TEXTS))["sentence_embedding"]
    np.testing.assert_allclose(found, expected, **REORDERED)
    write_csv(tmp_path / "new.csv", ["text", "text_pair"], [("the film", TEXTS[3])])
    predict_file(tmp_path / "run", tmp_path / "new.csv", tmp_path / "out.csv")
    with open(tmp_path / "out.csv", newline="") as file:
        [row] = csv.DictReader(file)
    assert float(row["similarity"]) == pytest.approx(expected[0] @ expected[3], rel=1e-5)


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on(start, tmp_path, monkeypatch):
    task, data, told = create_task("retrieval"), answers(), options(epochs=6, checkpoint_steps=2)
    finetune(task, data, start, tmp_path / "whole", told)
    after_step = FinetuningRun.after_step

    def killed(run, logs):
        after_step(run, logs)
        if run.step == 5:
            raise InterruptedError

    with monkeypatch.context() as patched, pytest.raises(InterruptedError):
        patched.setattr(FinetuningRun, "after_step", killed)
        finetune(task, data, start, tmp_path / "cut", told)
    assert not folders.is_static_folder(tmp_path / "cut")  # nothing half done
    finetune(task, data, start, tmp_path / "cut", told)
    whole, cut = (folders.read(tmp_path / name) for name in ("whole", "cut"))
    np.testing.assert_array_equal(whole.vectors, cut.vectors)
    # What was finished starts others, and is done again in its folder.
    for _ in range(2):
        finetune(task, data, tmp_path / "cut", tmp_path / "next", options(epochs=1))


@pytest.mark.parametrize("source", ["encoder", "byte_level", "table"])
def test_a_fresh_table_is_for_the_pieces_of_any_folder(
    source, without_dropout, start, tmp_path, request
):
    folder = {"encoder": without_dropout, "table": start}.get(source)
    if folder is None:
        folder = model2vec_folder(
            tmp_path / "bytes", byte_level(), {"embeddings": table(byte_level())}
        )
    width = None if source == "table" else 4
    task = create_task("retrieval", static_width=width)
    data = answers()
    told = options(epochs=1, from_scratch=True)
    for name in ("one", "same") if source == "encoder" else ("one",):
        finetune(task, data, folder, tmp_path / name, told)
    one = folders.read(tmp_path / "one")
    if source == "encoder":
        np.testing.assert_array_equal(one.vectors, folders.read(tmp_path / "same").vectors)
    assert one.vectors.shape == (len(load_tokenizer(folder).vocabulary), width or WIDTH)
    assert one.is_model2vec == (source == "byte_level")
    assert 0.7 < np.std(one.vectors) < 1.1
    left, right = (
        load_tokenizer(place)(["the film , Zoe"]) for place in (folder, tmp_path / "one")
    )
    assert left.to_list() == right.to_list()
    own = FinetunedModel.from_task(task, data, folder)
    assert own.model.count_params() == one.vectors.size


def test_the_model_is_a_keras_model(start, tmp_path):
    model = StaticEmbedder.from_preset(str(start), dtype="mixed_bfloat16")
    ids = np.array([[[5, 6, 0], [7, 0, 0]], [[0, 0, 0], [8, 8, 6]]], np.int32)
    inputs = {"input_ids": ids, "input_mask": np.minimum(ids, 1), "segment_ids": 0 * ids}
    vectors = folders.read(start).vectors
    means = [[vectors[[5, 6]].mean(0), vectors[7]], [np.zeros(WIDTH), vectors[[8, 8, 6]].mean(0)]]
    expected = np.array(means)
    expected /= np.maximum(np.linalg.norm(expected, axis=-1, keepdims=True), 1e-12)
    found = model(inputs)
    assert found.dtype == tf.float32
    np.testing.assert_allclose(found, expected, **REORDERED)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(inputs), found)
    again.save_to_preset(str(tmp_path / "again"))
    np.testing.assert_array_equal(folders.read(tmp_path / "again").vectors, vectors)


@pytest.mark.parametrize(
    "arguments, changes, sentence",
    [
        ({"pooling": "cls"}, {}, "pooling is 'cls', but a static embedding is the mean"),
        ({}, {"lora_rank": 2, "remat": True}, "remat and lora_rank would change an encoder"),
        ({}, {"layer_decay": 0.9}, "layer_decay would change an encoder"),
        ({}, {"init_layers": ("0",)}, "init_layers would change an encoder"),
        ({}, {"freeze_encoder": True}, "freeze_encoder would change an encoder"),
        ({}, {"teacher": "other"}, "teacher would change an encoder"),
        ({}, {"mixed_precision": "bfloat16"}, "mixed_precision would change an encoder"),
        ({"static_width": 4}, {}, "add --from_scratch"),
        ({"static_width": 0}, {"from_scratch": True}, "static_width is 0"),
        ({"matryoshka_dims": (WIDTH,)}, {}, "matryoshka_dims has 6"),
    ],
)
def test_what_a_table_has_not_is_refused(arguments, changes, sentence, start, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        task = create_task("retrieval", **arguments)
        finetune(task, answers(), start, tmp_path / "run", options(**changes))
    assert not (tmp_path / "run").exists()


def test_data_and_folders_that_do_not_fit_are_refused(start, tmp_path):
    task = create_task("retrieval")
    alone = TaskData({"train": [EmbeddingExample(("the film",))] * 4})
    with pytest.raises(ValueError, match="texts alone, and static embeddings have no dropout"):
        finetune(task, alone, start, tmp_path / "run", options())
    with pytest.raises(ValueError, match="holds a model that no fine-tuning run wrote"):
        finetune(task, answers(), start, start, options())
    write_csv(tmp_path / "train.csv", ["text", "label"], [("the film", "a"), ("good", "b")])
    csv_task = create_task("csv")
    data = csv_task.read(tmp_path)
    with pytest.raises(ValueError, match="static embeddings, a vector for each piece and no enc"):
        finetune(csv_task, data, start, tmp_path / "run", options())
    with pytest.raises(ValueError, match="static embeddings, a vector for each piece and no enc"):
        train_few_shot(data, start, tmp_path / "run", FewShotOptions())
    with pytest.raises(ValueError, match="static embeddings, a vector for each piece and no enc"):
        load_encoder(start)
    entries = json.loads((start / "modules.json").read_text())
    entries[1] |= {"type": "sentence_transformers.models.Dense"}
    (start / "modules.json").write_text(json.dumps(entries))
    settings = {"in_features": WIDTH, "out_features": 2, "bias": False}
    (start / "1_Normalize" / "config.json").write_text(json.dumps(settings))
    from safetensors.numpy import save_file

    save_file(
        {"linear.weight": np.zeros([2, WIDTH], np.float32)},
        start / "1_Normalize" / "model.safetensors",
    )
    with pytest.raises(ValueError, match="Dense module behind the mean"):
        finetune(task, answers(), start, tmp_path / "run", options())
