"""Sparse vectors that are trained: words with weights by hand, the loss, runs, what is left."""

import csv
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import (
    BertMaskedLM,
    BertSparseEmbedder,
    EmbeddingExample,
    FinetunedModel,
    FinetuningOptions,
    SparseEmbeddingHead,
    SparseEncoder,
    SparseVectors,
    create_optimizer,
    create_strategy,
    create_task,
    finetune,
    load_tokenizer,
)
from keras_bert.finetuning.encoded_rows import NO_LOGIT
from keras_bert.finetuning.task import TaskData
from keras_bert.tasks.predict import predict_file
from keras_bert.tasks.sentence_embedding.metrics import (
    ranking_metrics,
    relevant_ranks,
    sparse_ranking_metrics,
)
from keras_bert.tasks.sentence_embedding.ranking_loss import (
    EmbeddingLoss,
    SparseEmbeddingLoss,
    scored_texts,
)
from tests.conftest import WORDS, write_csv
from tests.tolerances import FORMULA, REORDERED

LENGTH = 16
TEXTS = ["a good film", "sad", "it was very nice and the book was bad"]
# Texts and what answers them: the first word decides, and is another one in the answer.
ANSWERS = [
    (f"{word} {other}", f"the {WORDS[(place + 3) % 8]}")
    for place, word in enumerate(WORDS[:8])
    for other in ("film", "book")
]


@pytest.fixture(scope="module")
def start(without_dropout, tmp_path_factory):
    """The model folder that training starts from: a masked language model.

    It gives the word that stands somewhere the largest score there, as trained ones do.
    """
    folder = tmp_path_factory.mktemp("words")
    keras.utils.set_random_seed(3)
    model = BertMaskedLM.from_preset(without_dropout)
    table = model.encoder.word_embeddings.embeddings
    table.assign(keras.random.normal(table.shape, stddev=0.5))
    kernel = model.get_layer("masked_lm_transform").dense.kernel
    kernel.assign(3 * np.eye(kernel.shape[0]))
    model.get_layer("masked_lm_bias").bias.assign(keras.random.normal([table.shape[0]]))
    model.save_to_preset(folder, load_tokenizer(without_dropout))
    return folder


def rows_of(start, examples, head=None):
    head = head or SparseEmbeddingHead()
    return head.encode(load_tokenizer(start), examples, LENGTH, "tokenizing")


def options(**changes):
    values = {"epochs": 2, "batch_size": 8, "learning_rate": 1e-3, "max_seq_length": LENGTH}
    return FinetuningOptions(**{**values, "mixed_precision": "float32", "seed": 5, **changes})


@pytest.mark.parametrize("activation", ["relu", "log1p_relu"])
def test_weights_are_those_of_the_largest_scores(activation, start, tmp_path):
    """From the logits of the masked language model at every token, in NumPy."""
    examples = [EmbeddingExample(tuple(TEXTS[:2])), EmbeddingExample((TEXTS[2], TEXTS[0], "bad"))]
    batches, order = rows_of(start, examples).inference_batches(8)
    [(inputs, _)] = list(batches)
    words = BertMaskedLM.from_preset(start, dtype="float32")
    flat = {name: np.reshape(values, [-1, values.shape[-1]]) for name, values in inputs.items()}
    every = np.tile(np.arange(flat["input_ids"].shape[1], dtype=np.int32), [6, 1])
    logits = words({**flat, "masked_lm_positions": every}).numpy()  # [6, S, V]
    expected = np.log1p(np.maximum(logits, 0))
    if activation == "log1p_relu":
        expected = np.log1p(expected)
    expected = (expected * flat["input_mask"][..., None]).max(axis=1)  # [6, V]
    model = BertSparseEmbedder.from_preset(start, activation=activation, dtype="float32")
    found = model(inputs).numpy()
    assert found.shape == (2, 3, model.config.vocab_size)
    np.testing.assert_allclose(found.reshape(expected.shape), expected, **REORDERED)
    assert 0 < np.count_nonzero(expected) < expected.size
    np.testing.assert_array_equal(found[order[0], 2], 0)  # no third text
    # The folder is one of a masked language model, with how words become weights beside it.
    model.save_to_preset(tmp_path, load_tokenizer(start))
    assert json.loads((tmp_path / "config.json").read_text())["architecture"] == "BertMaskedLM"
    again = BertSparseEmbedder.from_preset(tmp_path)
    assert again.activation == activation
    np.testing.assert_allclose(again(inputs), found, **REORDERED)
    # What serves and searches makes the same.
    encoder = SparseEncoder.from_preset(tmp_path, max_seq_length=LENGTH)
    for place, example in zip(order, examples, strict=True):
        vectors = encoder.encode(example.texts).to_dense()
        np.testing.assert_allclose(found[place, : len(vectors)], vectors, **REORDERED)


def test_a_row_of_padding_has_gradients_that_are_numbers(start):
    model = BertSparseEmbedder.from_preset(start, dtype="float32")
    ids = tf.constant([[[2, 5, 3], [2, 6, 3], [0, 0, 0]], [[2, 7, 3], [2, 8, 3], [2, 9, 3]]])
    mask = tf.cast(ids > 0, tf.int32)
    inputs = {"input_ids": ids, "input_mask": mask, "segment_ids": tf.zeros_like(ids)}
    with tf.GradientTape() as tape:
        loss = SparseEmbeddingLoss().call(tf.constant([[1, 2, -1], [3, 4, 5]]), model(inputs))
    variables = {variable.path: variable.value for variable in model.trainable_variables}
    gradients = tape.gradient(loss, variables)
    missing = [path for path, gradient in gradients.items() if gradient is None]
    assert missing == ["pooler/kernel", "pooler/bias"]
    found = [tf.convert_to_tensor(one) for one in gradients.values() if one is not None]
    assert all(np.isfinite(gradient).all() for gradient in found)
    assert all(np.any(gradient) for gradient in found)


# Two examples of three texts, of which one is missing, and weights of four words.
NUMBERS = [[1, 2, -1], [3, 4, 5]]
WEIGHTS = np.array(
    [
        [[1, 0, 2, 0], [0, 1, 1, 0], [9, 9, 9, 9]],
        [[0, 3, 0, 0], [0, 2, 0, 1], [1, 0, 0, 1]],
    ],
    np.float32,
)
# By hand: mean weights of the queries are 0.5 1.5 1 0, of the other three texts 1/3 1 1/3 2/3.
QUERY_COST, DOCUMENT_COST = 0.25 + 2.25 + 1, 1 / 9 + 1 + 1 / 9 + 4 / 9


@pytest.mark.parametrize("taught", [False, True])
def test_what_a_search_costs_is_learned_beside_the_answers(taught):
    targets = np.array(NUMBERS)
    if taught:
        scores = np.array([[0, 2, 0], [0, 1, -1]], np.float32)
        targets = scored_texts(np.array(NUMBERS, np.int32), scores)
        targets[targets[..., 0] < 0] = NO_LOGIT
    loss = SparseEmbeddingLoss(2.0, 0.25, 3.0, 0.1, 0.01)
    found = loss.call(tf.constant(targets), tf.constant(WEIGHTS)).numpy()
    answers = EmbeddingLoss(2.0, teacher_weight=0.25, teacher_temperature=3.0)
    learned = answers.call(tf.constant(targets), tf.constant(WEIGHTS)).numpy()
    cost = 0.1 * QUERY_COST + 0.01 * DOCUMENT_COST
    np.testing.assert_allclose(found, learned + cost, **FORMULA)
    if not taught:
        # Products with the answers 2, 4 and the wrong one 5: 2 0 1 and 3 6 0.
        logits = np.array([[2, 0, 1], [3, 6, 0]]) / 2
        own = np.array([2, 6]) / 2
        expected = np.log(np.exp(logits).sum(axis=-1)) - own
        np.testing.assert_allclose(learned, expected, **FORMULA)
    # By XLA, as on a TPU, and after a file.
    again = SparseEmbeddingLoss.from_config(loss.get_config())
    compiled = tf.function(again.call, jit_compile=True)
    np.testing.assert_allclose(
        compiled(tf.constant(targets), tf.constant(WEIGHTS)), found, **FORMULA
    )


def test_rows_that_fill_a_batch_cost_nothing():
    loss = SparseEmbeddingLoss(1.0, 0.5, 1.0, 1.0, 1.0)
    filled = np.concatenate([WEIGHTS, np.full([1, 3, 4], 5, np.float32)])
    found = loss.call(tf.constant([*NUMBERS, [-1, -1, -1]]), tf.constant(filled)).numpy()
    alone = loss.call(tf.constant(NUMBERS), tf.constant(WEIGHTS)).numpy()
    np.testing.assert_allclose(found[:2], alone, **FORMULA)


def test_training_begins_with_few_words(start):
    head = SparseEmbeddingHead(initial_active_dims=5)
    examples = [EmbeddingExample(pair) for pair in ANSWERS]
    rows = rows_of(start, examples, head)
    model, before = (BertSparseEmbedder.from_preset(start, dtype="float32") for _ in range(2))
    head.prepare(model, rows)
    shift = before.get_layer("masked_lm_bias").bias - model.get_layer("masked_lm_bias").bias
    np.testing.assert_allclose(shift, np.full(shift.shape, shift[0]), **REORDERED)
    [(inputs, _)] = list(rows.inference_batches(len(examples))[0])
    counts = np.count_nonzero(model(inputs), axis=-1)
    assert np.count_nonzero(before(inputs), axis=-1).mean() > 7
    assert counts.mean() == pytest.approx(5, abs=0.05)
    # 0 leaves a model as it is.
    unchanged = np.array(model.get_layer("masked_lm_bias").bias)
    SparseEmbeddingHead(initial_active_dims=0).prepare(model, rows)
    np.testing.assert_array_equal(model.get_layer("masked_lm_bias").bias, unchanged)


def test_the_start_decides_what_is_left_open(start, tmp_path):
    head = SparseEmbeddingHead().for_folder(start)
    assert (head.activation, head.initial_active_dims) == ("relu", None)
    model = BertSparseEmbedder.from_preset(start, activation="log1p_relu")
    model.save_to_preset(tmp_path, load_tokenizer(start))
    SparseEmbeddingHead(query_prompt="q: ", document_prompt="d: ").write_files(tmp_path, LENGTH)
    head = SparseEmbeddingHead().for_folder(tmp_path)
    assert (head.activation, head.initial_active_dims) == ("log1p_relu", 0)
    assert (head.query_prompt, head.document_prompt) == ("q: ", "d: ")
    asked = SparseEmbeddingHead("relu", query_prompt="", initial_active_dims=9)
    head = asked.for_folder(tmp_path)
    assert (head.activation, head.initial_active_dims, head.query_prompt) == ("relu", 9, "")
    (tmp_path / "sentence_bert_config.json").write_text('{"do_lower_case": true}')
    for activation in (None, "relu"):
        with pytest.raises(ValueError, match="lower-cases texts before the tokenizer .do_lower_ca"):
            SparseEmbeddingHead(activation).for_folder(tmp_path)
        with pytest.raises(ValueError, match="lower-cases texts before the tokenizer .do_lower_ca"):
            BertSparseEmbedder.from_preset(tmp_path, activation=activation)


def test_ranks_are_those_of_whole_vectors():
    draw = np.random.default_rng(2)
    examples = [EmbeddingExample((f"q{n % 7}", f"p{n}", f"n{n % 3}")) for n in range(12)]
    whole = np.maximum(draw.normal(size=[12, 3, 9]), 0).astype(np.float32)
    whole[3, 1] = 0  # a passage without words
    sparse = [SparseVectors.from_dense(rows) for rows in whole]
    expected, found = (
        [ranks.tolist() for ranks in relevant_ranks(vectors, examples)]
        for vectors in (list(whole), sparse)
    )
    assert found == expected
    metrics = sparse_ranking_metrics()
    for name, metric in ranking_metrics().items():
        assert metrics[name](sparse, examples) == pytest.approx(metric(list(whole), examples))
    # Each different text counts once, with its vector of the last example.
    queries = {f"q{n % 7}": np.count_nonzero(whole[n, 0]) for n in range(12)}
    assert metrics["query_active_dims"](sparse, examples) == np.mean([*queries.values()])
    passages = {f"p{n}": np.count_nonzero(whole[n, 1]) for n in range(12)}
    passages |= {f"n{n % 3}": np.count_nonzero(whole[n, 2]) for n in range(12)}
    assert metrics["document_active_dims"](sparse, examples) == np.mean([*passages.values()])


def test_a_model_without_words_is_told():
    head = SparseEmbeddingHead()
    empty = [SparseVectors.from_dense(np.zeros([2, 5]))] * 3
    examples = [EmbeddingExample(pair) for pair in ANSWERS[:3]]
    assert "all vectors are empty (lower the regularizer weights)" == head.collapse(empty, examples)
    some = [*empty, SparseVectors.from_dense(np.eye(2, 5))]
    assert head.collapse(some, [*examples, examples[0]]) is None


@pytest.fixture(scope="module")
def sparse_run(start, tmp_path_factory):
    """A finished run on texts and their answers, and the folder of its data."""
    folder = tmp_path_factory.mktemp("sparse")
    task = create_task("sparse_retrieval", initial_active_dims=12)
    for split, times in {"train": 20, "dev": 1, "test": 1}.items():
        write_csv(folder / "data" / f"{split}.csv", ["text", "positive"], ANSWERS * times)
    data = task.read(folder / "data")
    result = finetune(task, data, start, folder / "run", options(epochs=4, learning_rate=3e-3))
    return folder, result


def test_a_run_learns_to_find_the_answers(sparse_run, start):
    folder, result = sparse_run
    task = create_task("sparse_retrieval")
    untrained = FinetunedModel.from_task(task, TaskData({"train": []}), start, LENGTH)
    measured = untrained.measure(task.metrics, task.read(folder / "data"))
    assert measured["accuracy_at_1"] < 0.5
    assert result.metrics["test"]["accuracy_at_1"] > 0.9
    assert list(result.metrics["test"]) == [*sparse_ranking_metrics(), "loss"]
    assert result.collapsed is None
    # What is written is what was measured.
    again = FinetunedModel.load(folder / "run").measure(task.metrics, task.read(folder / "data"))
    expected = {name: result.metrics["test"][name] for name in again}
    assert again == pytest.approx(expected, rel=1e-4)


def test_pairs_of_a_table_get_the_product_of_their_vectors(sparse_run, tmp_path):
    folder, _ = sparse_run
    write_csv(tmp_path / "pairs.csv", ["text", "positive"], ANSWERS[:4])
    predict_file(folder / "run", tmp_path / "pairs.csv", tmp_path / "out.csv")
    with open(tmp_path / "out.csv", encoding="utf-8", newline="") as file:
        found = [float(row["similarity"]) for row in csv.DictReader(file)]
    encoder = SparseEncoder.from_preset(folder / "run")
    first, second = (encoder.encode(column).to_dense() for column in zip(*ANSWERS[:4], strict=True))
    np.testing.assert_allclose(found, np.sum(first * second, axis=-1), rtol=1e-4)


def test_a_run_leaves_its_prompts(start, tmp_path):
    """What searches and serves puts the same before texts as training did."""
    prompts = {"query_prompt": "film ", "document_prompt": "sad "}
    task = create_task("sparse_retrieval", initial_active_dims=12, **prompts)
    examples = [EmbeddingExample(pair) for pair in ANSWERS]
    data = TaskData({"train": examples, "validation": examples[:4]})
    finetune(task, data, start, tmp_path / "run", options(epochs=1))
    encoder = SparseEncoder.from_preset(tmp_path / "run")
    trained = FinetunedModel.load(tmp_path / "run").predict_examples(examples[:4])
    for place, encode in enumerate((encoder.encode_query, encoder.encode_document)):
        found = encode([example.texts[place] for example in examples[:4]]).to_dense()
        expected = np.stack([vectors.to_dense()[place] for vectors in trained])
        np.testing.assert_allclose(found, expected, **REORDERED)


def test_large_regularizer_weights_leave_few_words(start, tmp_path):
    """Where nothing but few words counts, none are left."""
    write_csv(tmp_path / "train.csv", ["text", "positive"], ANSWERS)
    task = create_task(
        "sparse_retrieval", query_regularizer_weight=100.0, document_regularizer_weight=100.0
    )
    data = task.read(tmp_path)
    model = FinetunedModel.from_task(task, data, start, LENGTH, dtype="float32")
    before = task.metrics["query_active_dims"](
        model.predict_examples(data.splits["train"]), data.splits["train"]
    )
    train = model.training_data(data, batch_size=16)
    model.compile(create_optimizer(3e-2, train_steps=20, warmup_steps=1, bias_correction=True))
    model.model.fit(train, epochs=10, verbose=0)
    left = task.metrics["query_active_dims"](
        model.predict_examples(data.splits["train"]), data.splits["train"]
    )
    assert left < before / 2


def test_replicas_count_the_words_and_candidates_of_all():
    """Value and gradient over two replicas are those of the whole batch on one."""
    draw = np.random.default_rng(0)
    vectors = np.maximum(draw.normal(size=[8, 3, 9]), 0).astype(np.float32)
    numbers = np.arange(1, 25, dtype=np.int32).reshape(8, 3)
    numbers[2, 2] = -1  # an example without a wrong answer
    numbers[7] = -1  # and one that fills the batch
    loss = SparseEmbeddingLoss(1.0, 0.5, 1.0, 0.1, 0.2)

    def value_and_gradient(vectors, numbers):
        with tf.GradientTape() as tape:
            tape.watch(vectors)
            real = tf.cast(numbers[:, 0] > 0, tf.float32)
            value = tf.reduce_sum(loss.call(numbers, vectors) * real) / 7
        return value, tape.gradient(value, vectors)

    expected, gradient = value_and_gradient(tf.constant(vectors), tf.constant(numbers))
    strategy = create_strategy("mirrored")
    assert strategy.num_replicas_in_sync == 2

    def half(array):
        return strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(np.split(array, 2)[context.replica_id_in_sync_group])
        )

    run = tf.function(lambda *halves: strategy.run(value_and_gradient, halves))
    values, gradients = map(strategy.experimental_local_results, run(half(vectors), half(numbers)))
    assert np.sum(values) == pytest.approx(float(expected), rel=1e-6)
    np.testing.assert_allclose(np.concatenate(gradients), gradient, **FORMULA)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"activation": "gelu"}, "activation is 'gelu': choose one of relu, log1p_relu"),
        ({"query_regularizer_weight": -1.0}, "query_regularizer_weight is -1.0: it must be 0 or"),
        ({"document_regularizer_weight": float("nan")}, "document_regularizer_weight is nan: it"),
        ({"initial_active_dims": -3}, "initial_active_dims is -3"),
        ({"temperature": 0.0}, "temperature is 0.0: it must be above 0"),
        ({"teacher_weight": 2.0}, "teacher_weight is 2.0: it must be from 0 to 1"),
        ({"pooling": "mean"}, "the task 'sparse_retrieval' has no pooling: leave it out"),
    ],
)
def test_settings_out_of_range_are_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        create_task("sparse_retrieval", **arguments)


def test_scores_of_pairs_are_refused(tmp_path):
    write_csv(tmp_path / "train.csv", ["text", "text_pair", "score"], [("a", "b", "0.5")])
    with pytest.raises(ValueError, match="has the column score, and products of sparse vectors"):
        create_task("sparse_retrieval").read(tmp_path)


def test_models_without_words_are_refused(model_folder, start, tmp_path):
    with pytest.raises(ValueError, match="holds a BertEncoder, which predicts no masked words"):
        BertSparseEmbedder.from_preset(model_folder("encoder"))
    config = BertMaskedLM.from_preset(start).config.to_dict()
    with pytest.raises(ValueError, match="reads from left to right, so its scores are of the next"):
        BertSparseEmbedder({**config, "left_to_right": True})
    write_csv(tmp_path / "train.csv", ["text", "positive"], ANSWERS)
    task = create_task("sparse_retrieval", initial_active_dims=5000)
    with pytest.raises(
        ValueError, match="initial_active_dims is 5000, but the vocabulary has only"
    ):
        finetune(task, task.read(tmp_path), start, tmp_path / "run", options())
