"""Vectors of tokens that are trained: late interaction by hand, the loss, runs, what is left."""

import csv
import dataclasses
import json
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import (
    BertEncoder,
    BertMultiVectorEmbedder,
    EmbeddingExample,
    FinetunedModel,
    FinetuningOptions,
    MultiVectorEncoder,
    MultiVectorHead,
    TokenVectors,
    create_strategy,
    create_task,
    finetune,
    load_tokenizer,
)
from keras_bert.checkpoints import multi_vector_modules
from keras_bert.finetuning.encoded_rows import NO_LOGIT
from keras_bert.finetuning.task import TaskData
from keras_bert.serving.served_folder import open_signatures
from keras_bert.signatures.options import ExportOptions
from keras_bert.tasks.predict import predict_file
from keras_bert.tasks.sentence_embedding.metrics import ranking_metrics, relevant_ranks
from keras_bert.tasks.sentence_embedding.ranking_loss import MultiVectorLoss, scored_texts
from keras_bert.tasks.sentence_embedding.token_rows import TokenRows
from keras_bert.tasks.sentence_embedding.token_vectors import max_sim
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
    """The model folder that training starts from: an encoder whose words are told apart."""
    folder = tmp_path_factory.mktemp("words")
    keras.utils.set_random_seed(3)
    model = BertEncoder.from_preset(without_dropout)
    table = model.word_embeddings.embeddings
    table.assign(keras.random.normal(table.shape, stddev=0.5))
    model.save_to_preset(folder, load_tokenizer(without_dropout))
    return folder


def rows_of(start, examples, head=None):
    head = head or MultiVectorHead()
    return head.encode(load_tokenizer(start), examples, LENGTH, "tokenizing")


def options(**changes):
    values = {"epochs": 2, "batch_size": 8, "learning_rate": 1e-3, "max_seq_length": LENGTH}
    return FinetuningOptions(**{**values, "mixed_precision": "float32", "seed": 5, **changes})


def random_vectors(counts, width=5, seed=0):
    """Unit vectors of texts with so many tokens, a list of [tokens, width]."""
    random = np.random.default_rng(seed)
    vectors = [random.normal(size=[count, width]) for count in counts]
    return [rows / np.linalg.norm(rows, axis=-1, keepdims=True) for rows in vectors]


def max_sim_by_hand(query, text):
    """Loops over tokens: the sum, over those of the query, of the largest product."""
    return sum(max(float(asked @ held) for held in text) for asked in query)


def padded(several, length):
    """[texts, length, width], zeros behind the end of each."""
    return np.stack([np.pad(rows, [[0, length - len(rows)], [0, 0]]) for rows in several])


def test_vectors_are_projected_states_of_length_one(start, tmp_path):
    """From the states of the encoder at every token, in NumPy."""
    examples = [EmbeddingExample(tuple(TEXTS[:2])), EmbeddingExample((TEXTS[2], TEXTS[0], "bad"))]
    batches, order = rows_of(start, examples).inference_batches(8)
    [(inputs, _)] = list(batches)
    flat = {name: np.reshape(values, [-1, values.shape[-1]]) for name, values in inputs.items()}
    states = BertEncoder.from_preset(start, dtype="float32")(flat)["sequence_output"].numpy()
    model = BertMultiVectorEmbedder.from_preset(start, projection_dim=6, dtype="float32")
    kernel = np.random.default_rng(1).normal(size=[states.shape[-1], 6])
    model.get_layer("projection").kernel.assign(kernel)
    expected = states @ kernel
    expected /= np.linalg.norm(expected, axis=-1, keepdims=True)
    expected *= flat["input_mask"][..., None]
    found = model(inputs).numpy()
    assert found.shape == (2, 3, inputs["input_ids"].shape[-1], 6)
    np.testing.assert_allclose(found.reshape(expected.shape), expected, **REORDERED)
    np.testing.assert_array_equal(found[order[0], 2], 0)  # no third text
    # The folder is that of the encoder, with the projection beside it.
    model.save_to_preset(tmp_path, load_tokenizer(start))
    assert json.loads((tmp_path / "config.json").read_text())["architecture"] == "BertEncoder"
    again = BertMultiVectorEmbedder.from_preset(tmp_path)
    assert again.projection_dim == 6 and again.has_trained_projection
    np.testing.assert_allclose(again(inputs), found, **REORDERED)
    # What serves and searches makes the same.
    encoder = MultiVectorEncoder.from_preset(tmp_path, max_seq_length=LENGTH)
    for place, example in zip(order, examples, strict=True):
        query, *others = found[place]
        for rows, made in (
            ([query], encoder.encode_query(example.texts[:1])),
            (others, encoder.encode_document(example.texts[1:])),
        ):
            for row, vectors in zip(rows, made, strict=False):
                np.testing.assert_allclose(row[: len(vectors)], vectors, **REORDERED)
                np.testing.assert_array_equal(row[len(vectors) :], 0)


def test_queries_and_texts_are_cut_to_lengths_of_their_own(start):
    """Rows of one, two and three texts, each in its place."""
    long = "film " * 99
    examples = [EmbeddingExample(texts) for texts in ((long,), (long, long), ("a", long, "the"))]
    for query_length, most in ((6, 6), (None, LENGTH), (99, LENGTH)):
        rows = rows_of(start, examples, MultiVectorHead(query_length=query_length))
        batches, order = rows.inference_batches(8)
        [(inputs, _)] = list(batches)
        ids, mask = (inputs[name].numpy()[order] for name in ("input_ids", "input_mask"))
        found = mask.sum(axis=-1)
        assert found.tolist() == [[most, LENGTH, 0], [most, LENGTH, 0], [3, LENGTH, 3]]
        # What is cut ends as a row does.
        ends = np.take_along_axis(ids, found[..., None] - 1, axis=-1)[found > 0]
        assert {*ends.ravel()} == {load_tokenizer(start).vocabulary.sep_id}


def test_a_marker_takes_a_position(start):
    tokenizer = load_tokenizer(start)
    assert TokenRows(tokenizer, 4, "[MASK]")(["a film"])["input_ids"].shape == (1, 4)
    with pytest.raises(ValueError, match="rows have 3 positions, but one piece of a text takes 4"):
        TokenRows(tokenizer, 3, "[MASK]")


def test_max_sim_is_that_of_loops_over_tokens():
    queries = random_vectors([3, 1, 7], seed=1)
    texts = random_vectors([4, 2, 1, 9, 5], seed=2)
    expected = [[max_sim_by_hand(query, text) for text in texts] for query in queries]
    found = max_sim(TokenVectors.from_list(queries), TokenVectors.from_list(texts))
    np.testing.assert_allclose(found, expected, **REORDERED)
    # Of what has no vectors nothing is the most alike.
    texts.insert(1, np.zeros([0, 5]))
    queries.append(np.zeros([0, 5]))
    found = max_sim(TokenVectors.from_list(queries), TokenVectors.from_list(texts))
    assert np.all(found[:, 1] == -np.inf)
    np.testing.assert_allclose(np.delete(found[:3], 1, axis=1), expected, **REORDERED)
    np.testing.assert_array_equal(np.delete(found[3], 1), 0)


def test_max_sim_in_parts_is_that_of_the_whole(monkeypatch):
    queries = TokenVectors.from_list(random_vectors([3, 1, 7, 2, 2], seed=1))
    texts = TokenVectors.from_list(random_vectors([4, 2, 1, 9, 5], seed=2))
    whole = max_sim(queries, texts)
    module = "keras_bert.tasks.sentence_embedding.token_vectors"
    monkeypatch.setattr(f"{module}._QUERY_VECTORS", 4)
    monkeypatch.setattr(f"{module}._PRODUCTS_PER_BLOCK", 40)
    np.testing.assert_allclose(max_sim(queries, texts), whole, **REORDERED)


def test_token_vectors_refuse_what_does_not_fit():
    one = np.ones([3, 2], np.float32)
    for splits, vectors in (([0, 2], one), ([1, 3], one), ([0, 4, 3], one), ([0, 3], one[0])):
        with pytest.raises(ValueError, match="row_splits must go from 0 to the number of vectors"):
            TokenVectors(splits, vectors)
    with pytest.raises(ValueError, match="a number of the vectors is not finite"):
        TokenVectors([0, 3], np.full([3, 2], np.nan))
    several = TokenVectors([0, 1, 3], one)
    with pytest.raises(TypeError, match="give a slice"):
        several[0]
    with pytest.raises(ValueError, match="the step is 2"):
        several[::2]
    with pytest.raises(ValueError, match="vectors of queries have 2 numbers, those of texts 4"):
        max_sim(several, TokenVectors([0, 1], np.ones([1, 4])))
    with pytest.raises(ValueError, match="vectors of 2 and of 4 numbers"):
        TokenVectors.concatenate([several, TokenVectors([0, 1], np.ones([1, 4]))])


def cross_entropy(scores, right):
    """Of the right one among all, in float64."""
    return np.log(np.sum(np.exp(scores))) - scores[right]


def batch_of_two():
    """Two examples of three texts, the last of which the second does not have."""
    rows = [random_vectors([3, 4, 2], seed=1), random_vectors([5, 1], seed=2)]
    vectors = np.stack([padded([*texts, np.zeros([0, 5])][:3], 6) for texts in rows])
    return rows, tf.constant(vectors, tf.float32)


@pytest.mark.parametrize("query_length", [None, 2])
def test_the_loss_is_the_cross_entropy_of_sums(query_length):
    (first, second), vectors = batch_of_two()
    numbers = tf.constant([[1, 2, 3], [4, 5, -1]])
    candidates = [first[1], first[2], second[1]]
    expected = []
    for query, right in ((first[0], 0), (second[0], 2)):
        query = query[:query_length]
        scores = np.array([max_sim_by_hand(query, text) / 0.5 for text in candidates])
        expected.append(cross_entropy(scores, right))
    loss = MultiVectorLoss(temperature=0.5, query_length=query_length)
    np.testing.assert_allclose(loss.call(numbers, vectors), expected, **FORMULA)
    again = MultiVectorLoss.from_config(loss.get_config())
    np.testing.assert_array_equal(again.call(numbers, vectors), loss.call(numbers, vectors))


def test_what_a_task_is_given_is_what_it_learns_by():
    given = {
        "projection_dim": np.int64(8),
        "query_length": np.int64(12),
        "temperature": 0.5,
        "query_prompt": "q ",
        "document_prompt": "d ",
        "teacher_weight": 0.25,
        "teacher_temperature": 2.0,
    }
    head = create_task("multi_vector_retrieval", **given).head
    settings = json.loads(json.dumps(head.settings()))  # as task.json has them
    assert settings == {"kind": "multi_vector", **given}
    assert head.loss().get_config() == MultiVectorLoss(0.5, 0.25, 2.0, 12).get_config()
    # Who leaves out all has the same from head and loss.
    usual = MultiVectorLoss(query_length=32).get_config()
    assert MultiVectorHead().loss().get_config() == usual


def test_the_loss_of_a_teacher_compares_the_rows():
    (first, second), vectors = batch_of_two()
    scores = [[0, 2.0, 1.0], [0, 3.0, NO_LOGIT]]
    targets = scored_texts(np.array([1, 2, 3, 4, 5, -1]), np.ravel(scores)).reshape(2, 3, 2)
    student = np.array([max_sim_by_hand(first[0], text) for text in first[1:]]) / 0.5
    student = student - np.log(np.sum(np.exp(student)))
    teacher = np.array([2.0, 1.0]) / 2
    teacher = teacher - np.log(np.sum(np.exp(teacher)))
    expected = np.sum(np.exp(teacher) * (teacher - student))
    loss = MultiVectorLoss(temperature=0.5, teacher_weight=1.0, teacher_temperature=2.0)
    found = loss.call(tf.constant(targets), vectors)
    np.testing.assert_allclose(found, [expected, 0], **FORMULA)  # of one text there is no order


def test_rows_that_fill_a_batch_have_gradients_that_are_numbers(start):
    model = BertMultiVectorEmbedder.from_preset(start, dtype="float32")
    ids = tf.constant([[[2, 5, 3], [2, 6, 3], [0, 0, 0]], [[0, 0, 0], [0, 0, 0], [0, 0, 0]]])
    mask = tf.cast(ids > 0, tf.int32)
    inputs = {"input_ids": ids, "input_mask": mask, "segment_ids": tf.zeros_like(ids)}
    with tf.GradientTape() as tape:
        loss = MultiVectorLoss().call(tf.constant([[1, 2, -1], [-1, -1, -1]]), model(inputs))
        weighted = tf.reduce_sum(loss * [1.0, 0.0])
    variables = {variable.path: variable.value for variable in model.trainable_variables}
    gradients = tape.gradient(weighted, variables)
    assert gradients["projection/kernel"] is not None
    for gradient in gradients.values():
        if gradient is not None:
            assert np.all(np.isfinite(tf.convert_to_tensor(gradient)))


def test_the_projection_begins_with_the_directions_that_tell_most(start):
    """Products of vectors of as many numbers as the states have are their cosines."""
    data = TaskData({"train": [EmbeddingExample(pair) for pair in ANSWERS]}, (), {"text": "text"})
    width = BertEncoder.from_preset(start).config.hidden_size
    for dim, closeness in ((width, 1e-4), (width // 2, 0.2)):
        task = create_task("multi_vector_retrieval", projection_dim=dim)
        model = FinetunedModel.from_task(task, data, start, LENGTH, dtype="float32")
        kernel = model.model.get_layer("projection").kernel.numpy()
        np.testing.assert_allclose(kernel.T @ kernel, np.eye(dim), atol=1e-4)
        rows = rows_of(start, data.splits["train"])
        [(inputs, _)] = list(rows.inference_batches(64)[0])
        flat = {name: np.reshape(v, [-1, v.shape[-1]]) for name, v in inputs.items()}
        states = BertEncoder.from_preset(start, dtype="float32")(flat)["sequence_output"].numpy()
        states = states[flat["input_mask"] > 0]
        states /= np.linalg.norm(states, axis=-1, keepdims=True)
        found = TokenVectors.from_padded(
            model.model(inputs).numpy().reshape(*flat["input_ids"].shape, dim)
        )
        cosines = found.vectors @ found.vectors.T
        assert np.abs(cosines - states @ states.T).max() < closeness


def test_replicas_have_the_candidates_of_all():
    """Value and gradient over two replicas are those of the whole batch on one."""
    counts = np.random.default_rng(0).integers(1, 7, size=24)
    vectors = padded(random_vectors(counts, seed=3), 6).reshape(8, 3, 6, 5).astype(np.float32)
    numbers = np.arange(1, 25, dtype=np.int32).reshape(8, 3)
    numbers[2, 2] = -1  # an example without a wrong answer
    vectors[2, 2] = 0
    numbers[7] = -1  # and one that fills the batch
    loss = MultiVectorLoss(0.5, query_length=4)

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
    # By XLA, as on a TPU.
    compiled = tf.function(loss.call, jit_compile=True)
    found = compiled(tf.constant(numbers), tf.constant(vectors))
    np.testing.assert_allclose(found, loss.call(numbers, tf.constant(vectors)), **FORMULA)


def test_ranks_are_those_of_sums_by_loops():
    counts = np.random.default_rng(2).integers(1, 6, size=[12, 3])
    examples = [EmbeddingExample((f"q{n}", f"p{n}", f"n{n % 3}")) for n in range(12)]
    several = [random_vectors(row, seed=n) for n, row in enumerate(counts)]
    found = relevant_ranks([TokenVectors.from_list(rows) for rows in several], examples)
    # A passage has the vectors of the example in which it stands first.
    passages = {}
    for rows, example in zip(several, examples, strict=True):
        for text, vectors in zip(example.texts[1:], rows[1:], strict=True):
            passages.setdefault(text, vectors)
    for ranks, (query, *_), example in zip(found, several, examples, strict=True):
        sums = {text: max_sim_by_hand(query, vectors) for text, vectors in passages.items()}
        right = sums[example.texts[1]]
        assert ranks.tolist() == [1 + sum(value > right for value in sums.values())]


@pytest.fixture(scope="module")
def run(start, tmp_path_factory):
    """A finished run on texts and their answers, and the folder of its data."""
    folder = tmp_path_factory.mktemp("tokens")
    task = create_task("multi_vector_retrieval", projection_dim=8, query_length=12)
    for split, times in {"train": 10, "dev": 1, "test": 1}.items():
        write_csv(folder / "data" / f"{split}.csv", ["text", "positive"], ANSWERS * times)
    data = task.read(folder / "data")
    result = finetune(task, data, start, folder / "run", options(epochs=6, learning_rate=5e-3))
    return folder, result


def test_a_run_learns_to_find_the_answers(run, start):
    folder, result = run
    task = create_task("multi_vector_retrieval")
    untrained = FinetunedModel.from_task(task, TaskData({"train": []}), start, LENGTH)
    measured = untrained.measure(task.metrics, task.read(folder / "data"))
    assert measured["accuracy_at_1"] < 0.5
    assert result.metrics["test"]["accuracy_at_1"] > 0.9
    assert list(result.metrics["test"]) == [*ranking_metrics(), "loss"]
    assert result.collapsed is None
    # What is written is what was measured.
    again = FinetunedModel.load(folder / "run").measure(task.metrics, task.read(folder / "data"))
    expected = {name: result.metrics["test"][name] for name in again}
    assert again == pytest.approx(expected, rel=1e-4)
    encoder = MultiVectorEncoder.from_preset(folder / "run")
    assert encoder.token_width == 8


def test_pairs_of_a_table_get_the_sum_of_their_tokens(run, tmp_path):
    folder, _ = run
    write_csv(tmp_path / "pairs.csv", ["text", "positive"], ANSWERS[:4])
    predict_file(folder / "run", tmp_path / "pairs.csv", tmp_path / "out.csv")
    with open(tmp_path / "out.csv", encoding="utf-8", newline="") as file:
        found = [float(row["similarity"]) for row in csv.DictReader(file)]
    encoder = MultiVectorEncoder.from_preset(folder / "run")
    first, second = zip(*ANSWERS[:4], strict=True)
    pairs = zip(encoder.encode_query(first), encoder.encode_document(second), strict=True)
    expected = [max_sim_by_hand(query, text) for query, text in pairs]
    np.testing.assert_allclose(found, expected, rtol=2e-3)  # kept as float16


def test_a_run_leaves_lengths_prompts_and_markers(start, tmp_path):
    """What searches and serves reads texts as training did, and a next run goes on so."""
    prompts = {"query_prompt": "film ", "document_prompt": "sad "}
    head = MultiVectorHead(8, 6, "[MASK]", "[UNK]", **prompts)
    task = dataclasses.replace(create_task("multi_vector_retrieval"), head=head)
    examples = [EmbeddingExample(pair) for pair in ANSWERS]
    data = TaskData({"train": examples, "validation": examples[:4]})
    finetune(task, data, start, tmp_path / "run", options(epochs=1))
    encoder = MultiVectorEncoder.from_preset(tmp_path / "run")
    trained = FinetunedModel.load(tmp_path / "run").predict_examples(examples[:4])
    for place, encode in enumerate((encoder.encode_query, encoder.encode_document)):
        found = encode([example.texts[place] for example in examples[:4]])
        for vectors, expected in zip(found, trained, strict=True):
            own = expected[place : place + 1].vectors
            np.testing.assert_allclose(vectors, own, rtol=2e-3, atol=2e-3)  # kept as float16
    # [CLS] and marker, two pieces at least of prompt and text, [SEP].
    assert encoder.encode_query(["film " * 9]).counts.tolist() == [6]
    assert encoder.encode_document(["film " * 99]).counts.tolist() == [LENGTH]
    again = MultiVectorHead().for_folder(tmp_path / "run")
    assert dataclasses.asdict(again) == dataclasses.asdict(head)
    asked = MultiVectorHead(query_length=9, query_prompt="").for_folder(tmp_path / "run")
    assert (asked.query_length, asked.query_prompt, asked.query_marker) == (9, "", "[MASK]")


def test_a_run_goes_on_from_the_projection_of_its_start(run, start, tmp_path):
    folder, _ = run
    task = create_task("multi_vector_retrieval")
    data = TaskData({"train": [EmbeddingExample(pair) for pair in ANSWERS]})
    model = FinetunedModel.from_task(task, data, folder / "run", LENGTH, dtype="float32").model
    expected = BertMultiVectorEmbedder.from_preset(folder / "run").get_layer("projection").kernel
    np.testing.assert_array_equal(model.get_layer("projection").kernel, expected)
    wider = create_task("multi_vector_retrieval", projection_dim=9)
    with pytest.raises(ValueError, match=r"the projection of the folder has the shape \[\d+, 8\]"):
        FinetunedModel.from_task(wider, data, folder / "run", LENGTH)
    inner = tmp_path / "outer"
    shutil.copytree(folder / "run", inner / "0_Transformer")
    for name in ("1_Dense", "2_MultiVectorMask", "3_Normalize"):
        shutil.move(inner / "0_Transformer" / name, inner / name)
    for name in ("modules.json", "config_sentence_transformers.json"):
        shutil.move(inner / "0_Transformer" / name, inner / name)
    modules = json.loads((inner / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (inner / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ValueError, match="has its encoder in a folder of its own, which is not"):
        FinetunedModel.from_task(task, data, inner, LENGTH)


def test_what_training_leaves_out_is_told(run, tmp_path):
    folder, _ = run
    shutil.copytree(folder / "run", tmp_path / "said")
    modules = multi_vector_modules.read(tmp_path / "said")
    expansion = multi_vector_modules.QueryExpansion(12, False, None)
    changed = dataclasses.replace(modules, expansion=expansion, skiplist=(".",))
    multi_vector_modules.write(tmp_path / "said", changed)
    with pytest.warns(UserWarning, match="has query expansion and a skiplist, which training"):
        head = MultiVectorHead().for_folder(tmp_path / "said")
    assert head.query_length == 12  # to which the folder cuts queries


def test_a_folder_that_changes_texts_or_lacks_its_projection_is_refused(run, tmp_path):
    folder, _ = run
    shutil.copytree(folder / "run", tmp_path / "said")
    modules = multi_vector_modules.read(tmp_path / "said")
    changed = dataclasses.replace(modules, lowercase=True)
    multi_vector_modules.write(tmp_path / "said", changed)
    with pytest.raises(ValueError, match="lower-cases texts before the tokenizer"):
        MultiVectorHead().for_folder(tmp_path / "said")
    for name in ("modules.json", "config_sentence_transformers.json"):
        (tmp_path / "said" / name).unlink()
    for opens in (FinetunedModel.load, lambda path: open_signatures(path, ExportOptions())):
        with pytest.raises(ValueError, match="no modules.json, and so lacks the projection of tok"):
            opens(tmp_path / "said")


def test_a_model_of_one_vector_is_told():
    head = MultiVectorHead()
    examples = [EmbeddingExample(pair) for pair in (*ANSWERS[:2], *ANSWERS[4:6])]
    same = [TokenVectors([0, 2, 3], np.ones([3, 4]))] * 4
    assert head.collapse(same, examples) == "all texts have the same vectors"
    other = TokenVectors([0, 2, 3], np.eye(3, 4))
    assert head.collapse([*same[:3], other], examples) is None
    # All have the same answer: what is asked with counts.
    asks_otherwise = TokenVectors([0, 2, 3], np.concatenate([np.eye(2, 4), np.ones([1, 4])]))
    assert head.collapse([*same[:3], asks_otherwise], examples) is None


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"projection_dim": 0}, "projection_dim is 0"),
        ({"query_length": -1}, "query_length is -1"),
        ({"temperature": 0.0}, "temperature is 0.0: it must be above 0"),
        ({"teacher_weight": 2.0}, "teacher_weight is 2.0: it must be from 0 to 1"),
        ({"pooling": "mean"}, "the task 'multi_vector_retrieval' has no pooling: leave it out"),
    ],
)
def test_settings_out_of_range_are_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        create_task("multi_vector_retrieval", **arguments)


@pytest.mark.parametrize("marker", [None, 5, ["a"]])
def test_markers_are_strings(marker):
    for name in ("query_marker", "document_marker"):
        with pytest.raises(ValueError, match=f"{name} is a .*: give a string"):
            MultiVectorHead(**{name: marker})


def test_what_cannot_be_trained_is_refused(start, tmp_path):
    write_csv(tmp_path / "train.csv", ["text", "text_pair", "score"], [("a", "b", "0.5")])
    with pytest.raises(ValueError, match="has the column score, and sums over tokens have no"):
        create_task("multi_vector_retrieval").read(tmp_path)
    write_csv(tmp_path / "train.csv", ["text", "positive"], ANSWERS)
    for name, value in (("teacher_weight", 0.3), ("teacher_temperature", 2.0)):
        with pytest.raises(ValueError, match=f"{name} is {value}, but .* no scores of a teacher"):
            create_task("multi_vector_retrieval", **{name: value}).read(tmp_path)
    for arguments, sentence in (
        ({"projection_dim": 5000}, "projection_dim is 5000, but the encoder's states have only"),
        ({"query_length": 2}, "rows have 2 positions, but one piece of a text takes 3 with"),
    ):
        task = create_task("multi_vector_retrieval", **arguments)
        with pytest.raises(ValueError, match=sentence):
            finetune(task, task.read(tmp_path), start, tmp_path / "run", options())
