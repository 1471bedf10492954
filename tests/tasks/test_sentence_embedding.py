"""Vectors that are trained: the loss by hand, search by hand, files, runs, what is left behind."""

import csv
import dataclasses
import json
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import (
    BertSentenceEmbedder,
    EmbeddingExample,
    EmbeddingHead,
    FinetunedModel,
    FinetuningOptions,
    LabeledTexts,
    SentenceEncoder,
    create_optimizer,
    create_task,
    finetune,
    load_tokenizer,
    show_attributions,
)
from keras_bert.checkpoints import sentence_modules
from keras_bert.finetuning.encoded_rows import NO_LOGIT
from keras_bert.finetuning.task import TaskData
from keras_bert.serving.served_folder import open_signatures
from keras_bert.signatures.options import ExportOptions
from keras_bert.tasks.predict import predict_file
from keras_bert.tasks.sentence_embedding.metrics import (
    ranking_metrics,
    relevant_ranks,
    similarity_metrics,
)
from keras_bert.tasks.sentence_embedding.ranking_loss import EmbeddingLoss, scored_texts
from tests.conftest import WORDS, sentiment_rows, write_csv
from tests.markers import some_fast
from tests.tolerances import FORMULA, REORDERED, REORDERED_UPDATES

LENGTH = 16
# Texts and what answers them: the first word decides, and is another one in the answer.
ANSWERS = [
    (f"{word} {other}", f"the {WORDS[(place + 3) % 8]}")
    for place, word in enumerate(WORDS[:8])
    for other in ("film", "book")
]


def vectors_of(angles):
    """Unit vectors in the plane: their products are cosines of differences."""
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1).astype(np.float32)


def expected_loss(angles, texts, row, wrong, temperature):
    """The cross-entropy of the answer of a row, before the angles of wrong answers named here."""
    own = math.cos(angles[row][0] - angles[row][1]) / temperature
    others = [math.cos(angles[row][0] - angle) / temperature for angle in wrong]
    return math.log(sum(math.exp(value - own) for value in [own, *others]))


def loss_of(texts, angles, temperature=0.5):
    losses = EmbeddingLoss(temperature)
    return losses.call(tf.constant(texts), tf.constant(vectors_of(np.array(angles)))).numpy()


def test_the_answer_is_told_from_all_others_of_the_batch():
    # Two questions (1, 4), their answers (2, 5); the second has a wrong answer (6), the first none.
    texts = [[1, 2, -1], [4, 5, 6]]
    angles = [[0.0, 0.3, 9.9], [1.0, 1.2, 2.0]]
    found = loss_of(texts, angles)
    first = expected_loss(angles, texts, 0, [1.2, 2.0], 0.5)
    second = expected_loss(angles, texts, 1, [0.3, 2.0], 0.5)
    np.testing.assert_allclose(found, [first, second], **FORMULA)


def test_a_text_counts_once_and_never_against_itself_or_another_answer():
    # The first two rows ask with the same text; the third has the answer of the first, and the
    # fourth answers with the text that the third asks with.
    texts = [[1, 2], [1, 3], [4, 2], [5, 4], [6, 7], [8, 7]]
    angles = [[0.0, 0.3], [0.05, 0.6], [1.0, 0.35], [2.0, 1.1], [2.5, 2.2], [3.0, 2.3]]
    found = loss_of(texts, angles)
    # Candidates, each where it stands first: 2 at 0.3, 3 at 0.6, 4 at 1.1, 7 at 2.2.
    wrong = [
        [1.1, 2.2],  # 2 and 3 are both answers to 1
        [1.1, 2.2],
        [0.6, 2.2],  # 2 is its answer, 4 itself
        [0.3, 0.6, 2.2],
        [0.3, 0.6, 1.1],
        [0.3, 0.6, 1.1],
    ]
    expected = [expected_loss(angles, texts, row, each, 0.5) for row, each in enumerate(wrong)]
    np.testing.assert_allclose(found, expected, **FORMULA)


def scored(texts, scores):
    """Targets with a teacher's scores; what is padding is the same in both, as in a batch."""
    found = scored_texts(np.array(texts, np.int32), np.array(scores, np.float32))
    found[found[..., 0] < 0] = NO_LOGIT
    return found


def test_a_teacher_tells_how_near_the_answers_of_a_row_are():
    # The first row has two wrong answers, the second none, the third one.
    texts = [[1, 2, 3, 4], [5, 6, -1, -1], [7, 8, 9, -1]]
    angles = np.array([[0.0, 0.3, 0.9, 1.4], [1.0, 1.2, 0.0, 0.0], [2.0, 2.1, 2.6, 0.0]])
    scores = [[0.0, 4.0, 6.0, -2.0], [0.0, 3.0, 0.0, 0.0], [0.0, 2.0, 1.0, 0.0]]
    vectors = tf.constant(vectors_of(angles))
    alone = EmbeddingLoss(0.5).call(tf.constant(texts), vectors).numpy()

    def divergence(row, count):
        own = [math.cos(angles[row][0] - angle) / 0.5 for angle in angles[row][1 : count + 1]]
        told = [score / 2 for score in scores[row][1 : count + 1]]
        softened = [math.exp(score) / sum(map(math.exp, told)) for score in told]
        student = [math.exp(logit) / sum(map(math.exp, own)) for logit in own]
        pairs = zip(softened, student, strict=True)
        return sum(wanted * math.log(wanted / has) for wanted, has in pairs)

    told = np.array([divergence(row, count) for row, count in enumerate((3, 1, 2))])
    assert told[0] > 0.3 and told[1] == 0
    # Run data of an example without scores are those of before there were any.
    expected = "EmbeddingExample(texts=('a', 'b'), score=0.5)"
    assert repr(EmbeddingExample(("a", "b"), 0.5)) == expected
    for weight in (0.0, 0.25, 1.0):
        loss = EmbeddingLoss(0.5, teacher_weight=weight, teacher_temperature=2.0)
        found = loss.call(tf.constant(scored(texts, scores)), vectors)
        np.testing.assert_allclose(found, (1 - weight) * alone + weight * told, **FORMULA)
        # As Keras' own fit and evaluate call a loss: targets are cast first.
        mean = loss(tf.constant(scored(texts, scores)), vectors)
        np.testing.assert_allclose(mean, np.mean(found), **FORMULA)


@pytest.mark.parametrize("taught", [False, True])
def test_a_compiled_loss_is_the_same(taught):
    """By XLA, as on a TPU: static shapes and no operation of the host."""
    texts = tf.constant([[1, 2, 3], [1, 4, -1], [5, 2, 6]])
    if taught:
        texts = tf.constant(scored(texts.numpy(), [[0, 3, 1], [0, 2, 0], [0, -1, 4]]))
    vectors = tf.constant(vectors_of(np.random.default_rng(1).uniform(0, 3, [3, 3])))

    def loss_and_gradient(values):
        with tf.GradientTape() as tape:
            tape.watch(values)
            loss = EmbeddingLoss(0.5, (1,)).call(texts, values)
        return loss, tape.gradient(loss, values)

    compiled = tf.function(loss_and_gradient, jit_compile=True)(vectors)
    for found, expected in zip(compiled, loss_and_gradient(vectors), strict=True):
        np.testing.assert_allclose(found, expected, **REORDERED)


def test_a_score_is_compared_with_the_cosine():
    angles = np.array([[0.0, 0.0], [0.0, math.pi / 2], [0.0, math.pi / 3]])
    found = EmbeddingLoss().call(tf.constant([1.0, 0.5, 0.0]), tf.constant(vectors_of(angles)))
    np.testing.assert_allclose(found, [0.0, 0.25, 0.25], **FORMULA)


def examples_of(several):
    return [EmbeddingExample(texts) for texts in several]


def test_ranks_are_those_among_all_passages_and_equal_ones_go_before():
    def at(*degrees):
        return vectors_of(np.radians(degrees))

    # Query a: b right (10 degrees away), c at 5, d at 10 (as near as b), and e, right too, at 30.
    texts = examples_of([("a", "b"), ("a", "e"), ("q", "c", "d"), ("d", "e")])
    vectors = [at(0, 10), at(0, 30), at(90, 5, -10), at(-10, 30)]
    ranks = [found.tolist() for found in relevant_ranks(vectors, texts)]
    # For q: e (60), b (80), c (85), d (100 away). For d, which is left out: c, b, e.
    assert ranks == [[3, 4], [3], [3]]
    found = {name: metric(vectors, texts) for name, metric in ranking_metrics().items()}
    of_a = (1 / math.log2(4) + 1 / math.log2(5)) / (1 + 1 / math.log2(3))
    expected = {
        "ndcg_at_10": (of_a + 0.5 + 0.5) / 3,
        "mrr_at_10": 1 / 3,
        "accuracy_at_1": 0.0,
        "recall_at_10": 1.0,
    }
    assert found == pytest.approx(expected, rel=1e-6)


def test_what_stands_behind_the_tenth_place_is_not_found():
    angles = np.radians(np.arange(12.0))
    texts = examples_of([("q", "p11"), *((f"r{n}", f"p{n}") for n in range(11))])
    order = [11, *range(11)]
    vectors = [vectors_of(np.array([0.0, angles[number]])) for number in order]
    ranks = list(relevant_ranks(vectors, texts))
    assert ranks[0].tolist() == [12] and ranks[1].tolist() == [1]
    # The queries all look to 0 degrees, so the ranks are 12, 1, 2, ..., 11.
    assert ranking_metrics()["recall_at_10"](vectors, texts) == pytest.approx(10 / 12)
    reciprocal = sum(1 / rank for rank in range(1, 11)) / 12
    assert ranking_metrics()["mrr_at_10"](vectors, texts) == pytest.approx(reciprocal)


def test_the_first_numbers_are_measured_too():
    # Of the second of two queries the first numbers are nearest to the wrong passage.
    vectors = [
        np.array([[1, 0, 0], [0.8, 0.6, 0]], np.float32),
        np.array([[0.6, 0, 0.8], [0, 0.6, 0.8]], np.float32),
    ]
    examples = examples_of([("a", "b"), ("c", "d")])
    metrics = ranking_metrics([2])
    assert list(metrics) == [*ranking_metrics(), "ndcg_at_10_dim_2"]
    # [0.6, 0] is at 0.8 to [0.8, 0.6] and at 0 to [0, 0.6]; all three numbers are at 0.48 and 0.64.
    assert metrics["ndcg_at_10"](vectors, examples) == pytest.approx(1)
    expected = (1 + 1 / math.log2(3)) / 2
    assert metrics["ndcg_at_10_dim_2"](vectors, examples) == pytest.approx(expected)
    scored = [EmbeddingExample(("a", "b"), 0.0), EmbeddingExample(("c", "d"), 1.0)]
    metrics = similarity_metrics([2])
    assert list(metrics) == ["spearman", "pearson", "spearman_dim_2"]
    # Products 0.8 and -0.64 of three numbers, 0.8 and 1 of two (0.0036 without their norm).
    vectors[1] = np.array([[0.06, 0, 0.8], [0.06, 0, -0.8]], np.float32)
    assert metrics["spearman"](vectors, scored) == pytest.approx(-1)
    assert metrics["spearman_dim_2"](vectors, scored) == pytest.approx(1)


@pytest.fixture(scope="module")
def start(without_dropout):
    """The model folder that training starts from."""
    return without_dropout


TEXTS = ["a good film", "sad", "it was very nice and the book was bad"]


@pytest.mark.parametrize("pooling", some_fast(["mean", "cls", "max"], ["mean"]))
def test_vectors_are_those_that_the_folder_serves(pooling, start, tmp_path):
    """Against the ragged pooling of served graphs, which has an oracle of its own.

    A special token that a text spells out is read as that token, as sentence-transformers reads it.
    """
    model = BertSentenceEmbedder.from_preset(start, pooling=pooling, dtype="float32")
    tokenizer = load_tokenizer(start)
    model.save_to_preset(tmp_path, tokenizer)
    head = EmbeddingHead(pooling)
    spelled = "the [MASK] was [SEP] nice"
    examples = [EmbeddingExample(TEXTS[:2]), EmbeddingExample((TEXTS[2], TEXTS[0], spelled))]
    rows = head.encode(tokenizer, examples, LENGTH, "tokenizing")
    [(inputs, targets)] = list(rows.inference_batches(8)[0])
    found = model(inputs).numpy()
    assert found.shape == (2, 3, 32)
    order = rows.inference_batches(8)[1]
    served = SentenceEncoder.from_preset(tmp_path, max_seq_length=LENGTH)
    for place, example in zip(order, examples, strict=True):
        vectors = served.encode(example.texts)
        np.testing.assert_allclose(found[place, : len(vectors)], vectors, **REORDERED)
    np.testing.assert_array_equal(found[order[0], 2], np.zeros(32))  # no third text
    # Equal texts have equal numbers, rows without a third text none.
    numbers = targets.numpy()[order]
    assert numbers[0, 0] == numbers[1, 1] != numbers[0, 1] and numbers[0, 2] == -1
    again = BertSentenceEmbedder.from_preset(tmp_path)
    assert again.pooling == pooling
    assert BertSentenceEmbedder.from_preset(tmp_path, pooling="max").pooling == "max"


def test_padded_rows_have_gradients_that_are_numbers(start):
    model = BertSentenceEmbedder.from_preset(start, dtype="float32")
    ids = tf.constant([[[2, 7, 3], [2, 8, 3], [0, 0, 0]], [[2, 9, 3], [2, 6, 3], [2, 5, 3]]])
    mask = tf.cast(ids > 0, tf.int32)
    inputs = {"input_ids": ids, "input_mask": mask, "segment_ids": tf.zeros_like(ids)}
    with tf.GradientTape() as tape:
        loss = EmbeddingLoss().call(tf.constant([[1, 2, -1], [3, 4, 5]]), model(inputs))
    variables = [variable.value for variable in model.trainable_variables]
    found = [
        tf.convert_to_tensor(gradient)
        for gradient in tape.gradient(loss, variables)
        if gradient is not None  # the pooler has none
    ]
    assert len(found) == len(variables) - 2
    assert all(np.isfinite(gradient).all() for gradient in found)
    assert any(np.any(gradient) for gradient in found)


def write_answers(path, rows=ANSWERS):
    write_csv(path, ["text", "positive"], rows)


def options(**changes):
    values = {"epochs": 2, "batch_size": 8, "learning_rate": 1e-3, "max_seq_length": LENGTH}
    return FinetuningOptions(**{**values, "mixed_precision": "float32", "seed": 5, **changes})


@pytest.mark.slow
def test_replicas_see_the_candidates_of_all(start, tmp_path):
    # A batch of all 19, which an example of no weight fills; texts that have two answers, one of
    # them on the other replica.
    task = create_task("retrieval")
    second = [(text, f"a {text.split()[1]}") for text, _ in ANSWERS[:3]]
    write_answers(tmp_path / "train.csv", [*ANSWERS, *second])
    data = task.read(tmp_path)
    for strategy in ("cpu", "mirrored"):
        finetune(task, data, start, tmp_path / strategy, options(strategy=strategy, batch_size=20))
    one, several = (FinetunedModel.load(tmp_path / name).model for name in ("cpu", "mirrored"))
    fresh = BertSentenceEmbedder.from_preset(start)
    moved = 0.0
    for left, right, before in zip(one.weights, several.weights, fresh.weights, strict=True):
        np.testing.assert_allclose(left, right, **REORDERED_UPDATES, err_msg=left.path)
        moved = max(moved, float(np.abs(np.asarray(left) - np.asarray(before)).max()))
    assert moved > 1e-3


@pytest.fixture(scope="module")
def search_run(start, tmp_path_factory):
    """A finished run on texts and their answers, and the folder of its data."""
    folder = tmp_path_factory.mktemp("search")
    task = create_task("retrieval", temperature=0.1)
    for split, times in {"train": 20, "dev": 1, "test": 1}.items():
        write_answers(folder / "data" / f"{split}.csv", ANSWERS * times)
    data = task.read(folder / "data")
    result = finetune(task, data, start, folder / "run", options(epochs=3, learning_rate=3e-3))
    return folder, result


def test_a_run_learns_to_find_the_answers(search_run, start):
    folder, result = search_run
    before = FinetunedModel.from_task(
        create_task("retrieval"), TaskData({"train": []}), start, LENGTH, dtype="float32"
    )
    data = create_task("retrieval").read(folder / "data")
    untrained = before.measure(ranking_metrics(), data)
    assert untrained["accuracy_at_1"] < 0.5
    assert result.metrics["test"]["accuracy_at_1"] > 0.9
    assert result.collapsed is None
    assert list(result.metrics["test"]) == [*ranking_metrics(), "loss"]


@pytest.mark.slow
def test_a_run_learns_what_a_teacher_says(start, tmp_path):
    """Who prefers the wrong answers, and has the whole weight."""
    rows = [(*pair, f"a {pair[1].split()[1]}", -5.0, -1.0) for pair in ANSWERS]
    columns = ["text", "positive", "negative0", "positive_score", "negative0_score"]
    write_csv(tmp_path / "train.csv", columns, rows * 20)
    task = create_task("retrieval", teacher_weight=1.0)
    data = task.read(tmp_path)
    assert data.splits["train"][0].teacher_scores == (-5.0, -1.0)
    result = finetune(task, data, start, tmp_path / "run", options(epochs=2, learning_rate=3e-3))
    assert result.epochs[-1]["train_loss"] < 0.01 < result.epochs[0]["train_loss"]
    model = FinetunedModel.load(tmp_path / "run")
    assert model.description.head.teacher_weight == 1.0
    vectors = np.stack(model.predict_examples(data.splits["train"][:16]))  # [16, 3, H]
    right, wrong = (np.sum(vectors[:, 0] * vectors[:, place], axis=-1) for place in (1, 2))
    # The teacher's softmax is 0.018 and 0.982: cosines of a difference of 4, by a temperature.
    assert np.abs((wrong - right) / 0.05 - 4).max() < 0.5
    # By one's own model.fit, too.
    own = FinetunedModel.from_task(task, data, start, LENGTH, dtype="float32")
    train = own.training_data(data, batch_size=16)
    own.compile(create_optimizer(3e-3, train_steps=len(train), warmup_steps=1))
    losses = own.model.fit(train, epochs=2, verbose=0).history["loss"]
    assert losses[1] < 0.5 * losses[0]
    assert own.model.evaluate(train, verbose=0) < 0.05


def test_what_a_run_leaves_is_an_encoder_of_sentences(search_run):
    folder, _ = search_run
    run = folder / "run"
    assert json.loads((run / "config.json").read_text())["architecture"] == "BertEncoder"
    modules = json.loads((run / "modules.json").read_text())
    kinds = [module["type"].rpartition(".")[2] for module in modules]
    assert kinds == ["Transformer", "Pooling", "Normalize"]
    assert json.loads((run / "sentence_bert_config.json").read_text())["max_seq_length"] == LENGTH
    family = open_signatures(run, ExportOptions())
    assert family.max_seq_length == LENGTH
    served = family.answer(text=tf.constant(TEXTS))["sentence_embedding"].numpy()
    opened = FinetunedModel.load(run)
    pairs = [EmbeddingExample((text, text)) for text in TEXTS]
    own = np.stack([vectors[0] for vectors in opened.predict_examples(pairs)])
    np.testing.assert_allclose(served, own, **REORDERED)


def test_pairs_of_a_table_get_their_similarity(search_run, tmp_path):
    folder, _ = search_run
    write_csv(tmp_path / "new.csv", ["id", "text", "text_pair"], [(7, *TEXTS[:2]), (8, *TEXTS[1:])])
    assert predict_file(folder / "run", tmp_path / "new.csv", tmp_path / "out.csv") == 2
    with open(tmp_path / "out.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["id", "text", "text_pair", "similarity"]
    vectors = SentenceEncoder.from_preset(folder / "run").encode(TEXTS)
    expected = [vectors[0] @ vectors[1], vectors[1] @ vectors[2]]
    found = [float(row["similarity"]) for row in rows]
    np.testing.assert_allclose(found, expected, **REORDERED)
    with open(folder / "run" / "predictions_test.csv", newline="") as file:
        columns = next(csv.reader(file))
    assert columns == ["text", "positive", "similarity"]


@pytest.mark.slow
def test_scores_are_learned_and_ordered(start, tmp_path):
    task = create_task("similarity", max_score=5)
    rows = [
        (first, second, 5.0 if (label == other) else 0.0)
        for (first, label), (second, other) in zip(
            sentiment_rows(64, 1), sentiment_rows(64, 2), strict=True
        )
    ]
    for split in ("train", "dev"):
        write_csv(tmp_path / f"{split}.csv", ["text", "text_pair", "score"], rows)
    data = task.read(tmp_path)
    assert {example.score for example in data.splits["train"]} == {0.0, 1.0}
    result = finetune(
        task, data, start, tmp_path / "run", options(epochs=10, learning_rate=3e-3, batch_size=16)
    )
    assert result.metrics["validation"]["spearman"] > 0.7
    assert result.epochs[-1]["train_loss"] < 0.15


@pytest.mark.slow
def test_texts_alone_are_told_from_each_other(pretrained_folder, tmp_path):
    """SimCSE: two masks of dropout of one text; measured by pairs with scores."""
    task = create_task("similarity")
    texts = [text for text, _ in sentiment_rows(40, 3)]
    write_csv(tmp_path / "train.csv", ["text"], [(text,) for text in texts])
    write_csv(
        tmp_path / "dev.csv", ["text", "text_pair", "score"], [("a", "b", 0.5), ("a", "a", 1)]
    )
    data = task.read(tmp_path)
    assert data.splits["train"][0] == EmbeddingExample((texts[0],))
    result = finetune(task, data, pretrained_folder, tmp_path / "run", options(epochs=4))
    losses = [epoch["train_loss"] for epoch in result.epochs]
    assert losses[-1] < losses[0] - 0.05
    assert result.metrics["validation"].keys() == {"spearman", "pearson", "loss"}


def read(folder, task="retrieval", **files):
    for name, lines in files.items():
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return create_task(task).read(folder).splits


def test_wrong_answers_stand_in_numbered_columns(tmp_path):
    splits = read(
        tmp_path,
        train=["text,negative1,positive,negative10,negative", "q,c,a,d,b", "r,,x,,"],
        dev=["text,positive,other", "q,a,z"],
    )
    assert splits["train"] == [
        EmbeddingExample(("q", "a", "b", "c", "d")),
        EmbeddingExample(("r", "x")),
    ]
    assert splits["validation"] == [EmbeddingExample(("q", "a"))]


@pytest.mark.parametrize(
    ("task", "files", "sentence"),
    [
        ("retrieval", {"train": ["positive", "a"]}, "no column 'text' among 'positive': name the"),
        ("retrieval", {"train": ["text,positive", "a, "]}, "line 2: positive is empty: fill it"),
        (
            "retrieval",
            {"train": ["text", "a"], "dev": ["text", "b"]},
            "dev.csv: there is no column 'positive' among 'text': it is measured by it; name "
            "another with --positive_column",
        ),
        (
            "similarity",
            {"train": ["text", "a"], "test": ["text,positive", "a,b"]},
            "there is no column 'text_pair'.* with --text_pair_column",
        ),
        ("similarity", {"train": ["text,text_pair", "a,b"]}, "text_pair without score: name it"),
        (
            "similarity",
            {"train": ["text,text_pair,score,positive", "a,b,1,c"]},
            "has the columns score and positive, but one",
        ),
        (
            "similarity",
            {"train": ["text,text_pair,score", "a,b,4.5"]},
            "line 2: the score is '4.5' but scores are numbers from 0 to 1: .* with --max_score",
        ),
        ("similarity", {"train": ["text,text_pair,score", "a,b,nan"]}, "the score is 'nan'"),
        (
            "retrieval",
            {"train": ["text,positive,negative_1", "a,b,c"]},
            "column 'negative_1': na",
        ),
        (
            "retrieval",
            {"train": ["text,positive,negative0,negative1,negative1_score", "a,b,c,d,1"]},
            "no column 'positive_score' among .*: add the teacher's scores of positive",
        ),
        (
            "retrieval",
            {"train": ["text,positive,negative_score", "a,b,1"]},
            "no column 'positive_score' among",
        ),
        (
            "retrieval",
            {"train": ["text,positive,negative,positive_score,negative_score", "a,b,c,high,1"]},
            "line 2: positive_score is 'high': give the teacher's score, a number, or take its col",
        ),
        (
            "retrieval",
            {"train": ["text", "a"], "unlabeled": ["text", "b"]},
            "unlabeled.csv: nothing answers unlabeled texts of this task: put them",
        ),
    ],
)
def test_files_that_do_not_fit_are_refused_in_one_sentence(task, files, sentence, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        read(tmp_path, task, **files)


def test_a_named_column_must_be_there(tmp_path):
    write_answers(tmp_path / "train.csv")
    with pytest.raises(ValueError, match="no column 'anwser'.* the right one with --positive_col"):
        create_task("retrieval", positive_column="anwser").read(tmp_path)


def test_a_column_may_be_in_the_other_files_alone(tmp_path):
    write_answers(tmp_path / "train.csv")
    write_csv(tmp_path / "dev.csv", ["text", "text_pair", "alike"], [("a", "b", 0.5)])
    data = create_task("similarity", score_column="alike").read(tmp_path)
    assert data.splits["validation"] == [EmbeddingExample(("a", "b"), 0.5)]


def test_json_lines_may_have_a_list_of_wrong_answers(tmp_path):
    rows = [
        {"text": "q", "positive": "a", "negative": ["b", "c"]},
        {"text": "r", "positive": "x"},
        {"text": "s", "positive": "y", "negative": []},
    ]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert create_task("retrieval").read(tmp_path).splits["train"] == [
        EmbeddingExample(("q", "a", "b", "c")),
        EmbeddingExample(("r", "x")),
        EmbeddingExample(("s", "y")),
    ]
    (tmp_path / "train.jsonl").write_text(json.dumps({"text": "q", "positive": ["a", "b"]}))
    with pytest.raises(ValueError, match="line 1: positive is a list: give each of its texts a ro"):
        create_task("retrieval").read(tmp_path)


def test_a_teacher_may_give_an_array():
    scores = np.array([2.5, -1.0], np.float32)  # as `CrossEncoder.scores` does
    example = EmbeddingExample(("q", "a", "b"), teacher_scores=scores)
    assert example == EmbeddingExample(("q", "a", "b"), teacher_scores=(2.5, -1.0))
    with pytest.raises(ValueError, match="teacher_scores is 2.5: give a number for each text but"):
        EmbeddingExample(("q", "a"), teacher_scores=2.5)
    with pytest.raises(ValueError, match="a teacher's score is '2': it must be a number"):
        EmbeddingExample(("q", "a"), teacher_scores=("2",))


@pytest.mark.parametrize("wrong", [["b", None], ["b", ["c"]], [True]])
def test_a_list_of_wrong_answers_holds_nothing_else(wrong, tmp_path):
    row = {"text": "q", "positive": "a", "negative": wrong}
    (tmp_path / "train.jsonl").write_text(json.dumps(row))
    # Its JSON, '["b", null]', was learned as a wrong answer.
    with pytest.raises(ValueError, match="line 1: negative is the list .*: leave out what is null"):
        create_task("retrieval").read(tmp_path)


def test_a_string_of_json_that_looks_like_a_list_is_a_text(tmp_path):
    row = {"text": "[1]", "positive": "[2]", "negative": "[3, 4]"}
    (tmp_path / "train.jsonl").write_text(json.dumps(row))
    assert create_task("retrieval").read(tmp_path).splits["train"] == [
        EmbeddingExample(("[1]", "[2]", "[3, 4]")),
    ]


def test_scores_of_a_teacher_stand_beside_the_texts(tmp_path):
    columns = "text,positive,negative0,negative1,positive_score,negative0_score,negative1_score"
    taught = read(tmp_path, train=[columns, "q,a,b,c,2,1e-1,-3", "r,x,,y,4,,0"])["train"]
    assert taught == [
        EmbeddingExample(("q", "a", "b", "c"), teacher_scores=(2.0, 0.1, -3.0)),
        EmbeddingExample(("r", "x", "y"), teacher_scores=(4.0, 0.0)),
    ]
    rows = [
        {"text": "q", "positive": "a", "negative": ["b", "c"]},
        {"text": "r", "positive": "x", "negative": []},
    ]
    rows[0] |= {"positive_score": 2, "negative_score": [0.5, -1]}
    rows[1] |= {"positive_score": 3.5}
    (tmp_path / "train.csv").unlink()
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert create_task("retrieval").read(tmp_path).splits["train"] == [
        EmbeddingExample(("q", "a", "b", "c"), teacher_scores=(2.0, 0.5, -1.0)),
        EmbeddingExample(("r", "x"), teacher_scores=(3.5,)),
    ]
    # Scores of the answers alone are something else, such as votes; and none are measured by.
    (tmp_path / "train.jsonl").unlink()
    votes = ["text,positive,positive_score", "q,a,17", "r,x,"]
    columns = "text,positive,negative,positive_score,negative_score"
    splits = read(tmp_path, train=votes, dev=[columns, "q,a,b,1,0"])
    assert {one.teacher_scores for split in splits.values() for one in split} == {None}
    (tmp_path / "train.csv").unlink()
    rows[0]["negative_score"].pop()
    (tmp_path / "train.jsonl").write_text(json.dumps(rows[0]))
    with pytest.raises(ValueError, match="line 1: negative has 2 texts and negative_score 1 score"):
        create_task("retrieval").read(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("a text",), r"texts is the string 'a text': give a tuple, also of one: \(text,\)"),
        ((("q", None),), "text 1 .counted from 0. is a NoneType: give strings"),
        (((),), "an example has no texts"),
        ((("q", "a"), 5.0), "the score is 5.0, but scores are numbers from 0 to 1"),
        ((("q", "a"), math.nan), "the score is nan, but scores are numbers from 0 to 1"),
        ((("q", "a"), "0.5"), "the score is '0.5', but scores are numbers from 0 to 1"),
        ((("q", "a", "b"), 0.5), "has the score 0.5 and 3 text.s.: a score is that of two"),
        ((("q",), 0.5), "has the score 0.5 and 1 text.s.: a score is that of two"),
    ],
)
def test_what_is_no_example_is_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        EmbeddingExample(*arguments)
    assert EmbeddingExample(["q", "a"], np.float32(1)) == EmbeddingExample(("q", "a"), 1.0)


@pytest.mark.parametrize(
    ("examples", "sentence"),
    [
        ([(("q", "a"), (1.0,)), (("r", "b"), None)], "1 of 2 examples have scores of a teacher"),
        ([(("q", "a", "b"), (1.0,))], "has 1 scores of a teacher and 3 texts: give one for each"),
        ([(("q",), ())], "has 0 scores of a teacher and 1 texts"),
        ([(("q", "a"), (math.nan,))], "a teacher's score is no finite number"),
    ],
)
def test_examples_with_scores_of_a_teacher_have_one_for_each_text(examples, sentence, start):
    several = [EmbeddingExample(texts, teacher_scores=scores) for texts, scores in examples]
    with pytest.raises(ValueError, match=sentence):
        EmbeddingHead().encode(load_tokenizer(start), several, LENGTH, "")


def test_brackets_in_a_table_are_text(tmp_path):
    splits = read(tmp_path, train=["text,positive,negative", '"[1, 2]",a list,"[0]"'])
    assert splits["train"] == [EmbeddingExample(("[1, 2]", "a list", "[0]"))]


def test_a_setting_without_effect_is_refused(tmp_path):
    write_csv(tmp_path / "train.csv", ["text", "text_pair", "score"], [("a", "b", 0.5)])
    for task in ("similarity", "retrieval"):
        with pytest.raises(ValueError, match="temperature is 0.05, but the scores of .*train.csv"):
            create_task(task, temperature=0.05).read(tmp_path)
    write_answers(tmp_path / "train.csv")
    with pytest.raises(ValueError, match="max_score is 5.0, but no file in .* has scores"):
        create_task("retrieval", max_score=5.0).read(tmp_path)
    with pytest.raises(ValueError, match="teacher_weight is 0.5, but .* has no scores of"):
        create_task("retrieval", teacher_weight=0.5).read(tmp_path)
    # The scores may be in another file, and answers are learned with a temperature.
    write_csv(tmp_path / "dev.csv", ["text", "text_pair", "score"], [("a", "b", 4)])
    data = create_task("similarity", max_score=5, temperature=0.1).read(tmp_path)
    assert data.splits["validation"] == [EmbeddingExample(("a", "b"), 0.8)]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"pooling": "pooler"}, "pooling is 'pooler': choose one of mean, cls, max"),
        ({"temperature": 0.0}, "temperature is 0.0: it must be above 0"),
        ({"max_score": -1.0}, "max_score is -1.0: it must be above 0"),
        ({"teacher_weight": 1.5}, "teacher_weight is 1.5: it must be from 0 to 1"),
        ({"teacher_temperature": 0.0}, "teacher_temperature is 0.0: it must be above 0"),
        ({"matryoshka_dims": [8, 8]}, r"matryoshka_dims is .8, 8.: give a list of different whole"),
        ({"matryoshka_dims": [0]}, r"matryoshka_dims is .0.: give a list of different whole"),
        ({"matryoshka_dims": "64"}, "matryoshka_dims is '64': give a list of different whole"),
    ],
)
def test_settings_out_of_range_are_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        create_task("similarity", **arguments)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"accumulation_steps": 2},
            "is 2, but the embedding head compares each",
        ),
        ({"label_smoothing": 0.1}, "texts that belong together have no classes to smooth"),
        ({"class_weights": "balanced"}, "embedding head have no single class to weigh"),
        ({"freeze_encoder": True}, "freeze_encoder leaves nothing to be trained"),
    ],
)
def test_options_of_other_heads_are_refused(changes, sentence, start, tmp_path):
    task = create_task("retrieval")
    write_answers(tmp_path / "train.csv")
    data = task.read(tmp_path)
    with pytest.raises(ValueError, match=sentence):
        finetune(task, data, start, tmp_path / "run", options(**changes))


@pytest.mark.slow
def test_scores_of_pairs_are_learned_in_parts_of_a_batch(start, tmp_path):
    """Each has a loss of its own, so that parts make the update of the whole batch."""
    task = create_task("similarity")
    rows = [(text, f"a {text}", number % 3 / 2) for number, (text, _) in enumerate(ANSWERS[:12])]
    write_csv(tmp_path / "train.csv", ["text", "text_pair", "score"], rows)
    data = task.read(tmp_path)
    for parts in (1, 3):
        changes = options(batch_size=6, epochs=1, accumulation_steps=parts)
        finetune(task, data, start, tmp_path / str(parts), changes)
    whole, in_parts = (FinetunedModel.load(tmp_path / name).model for name in ("1", "3"))
    for ours, theirs in zip(in_parts.weights, whole.weights, strict=True):
        np.testing.assert_allclose(ours, theirs, **REORDERED_UPDATES, err_msg=ours.path)


def test_a_model_that_gives_one_vector_is_told(start):
    head = EmbeddingHead()
    examples = examples_of([("a", "b"), ("c", "d"), ("e", "f")])
    same = [vectors_of(np.array([0.3, 0.3]))] * 3
    assert head.collapse(same, examples) == "all texts have the same vector"
    assert head.collapse([vectors_of(np.array([n, 0.3])) for n in range(3)], examples) is None
    assert head.collapse(same, examples_of([("a", "b"), ("a", "c"), ("a", "d")])) is None
    lost = [np.full([2, 2], np.nan, np.float32)] * 3
    # What is no number has the last places, not the first.
    assert [ranks.tolist() for ranks in relevant_ranks(lost, examples)] == [[3], [3], [3]]


def test_metrics_say_what_they_need():
    vectors = [vectors_of(np.array([0.3, 0.3]))]
    with pytest.raises(ValueError, match="the text 'a' has none that is to be found"):
        ranking_metrics()["mrr_at_10"](vectors, examples_of([("a",)]))
    with pytest.raises(ValueError, match="the text 'a' has no score"):
        similarity_metrics()["pearson"](vectors, examples_of([("a", "b")]))


@pytest.fixture
def cls_folder(start, tmp_path):
    """A folder of sentence-transformers that says how it pools."""
    model = BertSentenceEmbedder.from_preset(start, pooling="cls")
    model.save_to_preset(tmp_path / "cls", load_tokenizer(start))
    return tmp_path / "cls"


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"init_layers": "0"}, {"from_scratch": True}], ids=str)
def test_a_run_takes_the_pooling_of_its_start(changes, cls_folder, tmp_path):
    task = create_task("retrieval")
    write_answers(tmp_path / "train.csv")
    run = tmp_path / "run"
    finetune(task, task.read(tmp_path), cls_folder, run, options(epochs=1, **changes))
    assert FinetunedModel.load(run).model.pooling == "cls"
    assert sentence_modules.read(run).pooling == ("cls",)
    # Without that file task.json knows it, too.
    text = tf.constant(TEXTS)
    served = open_signatures(run, ExportOptions()).answer(text=text)["sentence_embedding"]
    (run / "modules.json").unlink()
    again = open_signatures(run, ExportOptions()).answer(text=text)["sentence_embedding"]
    np.testing.assert_allclose(again, served, **REORDERED)
    assert json.loads((run / "task.json").read_text())["head"]["pooling"] == "cls"


def test_prompts_and_widths_of_a_run(cls_folder, tmp_path):
    """Learned, kept by the folder, and taken over by a run that starts from it."""
    settings = {"query_prompt": "nice ", "document_prompt": "sad ", "matryoshka_dims": [8, 4]}
    task = create_task("retrieval", **settings)
    for split in ("train", "dev"):
        write_answers(tmp_path / f"{split}.csv")
    data, run = task.read(tmp_path), tmp_path / "run"
    result = finetune(task, data, cls_folder, run, options(epochs=1))
    encoder = SentenceEncoder.from_preset(run)
    assert encoder.prompts == {"query": "nice ", "document": "sad "}
    [found] = FinetunedModel.load(run).predict_examples(data.splits["validation"][:1])  # [2, H]
    query, positive = data.splits["validation"][0].texts
    expected = [encoder.encode_query([query])[0], encoder.encode_document([positive])[0]]
    np.testing.assert_allclose(found, expected, **REORDERED)
    np.testing.assert_allclose(expected[0], encoder.encode(["nice " + query])[0], **REORDERED)
    assert {"ndcg_at_10_dim_8", "ndcg_at_10_dim_4"} < result.metrics["validation"].keys()
    assert task.head.loss().matryoshka_dims == (8, 4)
    later = FinetunedModel.from_task(create_task("similarity"), data, run, LENGTH)
    head = later.description.head
    assert (head.query_prompt, head.document_prompt) == ("nice ", "sad ")
    with pytest.raises(ValueError, match="has 32, but the model's vectors have 32 numbers"):
        wide = create_task("retrieval", matryoshka_dims=[32])
        finetune(wide, data, cls_folder, tmp_path / "wide", options())


def test_one_prompt_for_all_texts_is_that_of_the_folder(cls_folder, tmp_path):
    task = create_task("similarity", query_prompt="sad ", document_prompt="sad ")
    model = FinetunedModel.from_task(task, TaskData({"train": []}), cls_folder, LENGTH)
    model.save(tmp_path / "run")
    [found] = model.predict_examples([EmbeddingExample(tuple(TEXTS[:2]))])  # [2, H]
    encoder = SentenceEncoder.from_preset(tmp_path / "run")
    np.testing.assert_allclose(found, encoder.encode(TEXTS[:2]), **REORDERED)
    for _ in range(2):
        served = open_signatures(tmp_path / "run", ExportOptions()).answer(tf.constant(TEXTS[:2]))
        np.testing.assert_allclose(found, served["sentence_embedding"], **REORDERED)
        (tmp_path / "run" / "modules.json").unlink(missing_ok=True)  # task.json knows it, too
    # As before there were prompts: a run of then goes on.
    settings = {"kind": "embedding", "pooling": "cls", "temperature": 0.05}
    assert EmbeddingHead("cls", query_prompt="").settings() == settings


def test_the_prompts_of_a_folder_are_learned_with(cls_folder):
    prompts = {"prompts": {"query": "", "document": "", "all": "nice "}}
    file = cls_folder / "config_sentence_transformers.json"
    file.write_text(json.dumps(prompts | {"default_prompt_name": "all"}))
    head = EmbeddingHead().for_folder(cls_folder)
    assert (head.pooling, head.query_prompt, head.document_prompt) == ("cls", "nice ", "nice ")
    assert EmbeddingHead("mean", query_prompt="").for_folder(cls_folder).query_prompt == ""
    pooling = cls_folder / "1_Pooling" / "config.json"
    pooling.write_text(json.dumps({"pooling_mode": "cls", "include_prompt": False}))
    with pytest.raises(ValueError, match="include_prompt is false"):
        EmbeddingHead().for_folder(cls_folder)
    file.write_text(json.dumps({"prompts": {"query": "sad "}}))
    with pytest.raises(ValueError, match="leaves the tokens of prompts out of the pooling"):
        EmbeddingHead().for_folder(cls_folder)
    # With a pooling that is given, nothing behind the encoder is looked at.
    entries = json.loads((cls_folder / "modules.json").read_text())
    entries[2]["type"] = "my_code.Head"
    (cls_folder / "modules.json").write_text(json.dumps(entries))
    assert EmbeddingHead("cls").for_folder(cls_folder).query_prompt == "sad "


def test_an_encoder_in_a_folder_of_its_own_is_trained(cls_folder, tmp_path):
    """The layout of 2019, of which tokenizer and weights are in 0_Transformer."""
    inner = cls_folder / "0_Transformer"
    inner.mkdir()
    for file in list(cls_folder.iterdir()):
        if file.is_file() and file.name != "modules.json":
            file.rename(inner / file.name)
    entries = json.loads((cls_folder / "modules.json").read_text())
    entries[0]["path"] = inner.name
    (cls_folder / "modules.json").write_text(json.dumps(entries))
    task = create_task("retrieval")
    write_answers(tmp_path / "train.csv")
    data = task.read(tmp_path)
    finetune(task, data, cls_folder, tmp_path / "run", options(epochs=1))
    assert FinetunedModel.load(tmp_path / "run").model.pooling == "cls"
    own = FinetunedModel.from_task(task, data, cls_folder, LENGTH)
    assert own.model.pooling == "cls" and own.description.head.pooling == "cls"
    # A task that does not pool asks nothing of what stands behind the encoder.
    entries[1]["type"] = "my_code.Head"
    (cls_folder / "modules.json").write_text(json.dumps(entries))
    rows = TaskData({"train": LabeledTexts(["a"], labels=[0])}, ("bad", "good"))
    assert FinetunedModel.from_task(create_task("csv"), rows, cls_folder, LENGTH).tokenizer


@pytest.mark.slow
def test_named_columns_are_read_again_at_prediction(cls_folder, tmp_path):
    task = create_task("similarity", text_column="s1", text_pair_column="s2", score_column="sc")
    rows = [(*TEXTS[:2], 1), (*TEXTS[1:], 0)]
    for split in ("train", "dev"):
        write_csv(tmp_path / f"{split}.csv", ["s1", "s2", "sc"], rows)
    finetune(task, task.read(tmp_path), cls_folder, tmp_path / "run", options(epochs=1))
    for name in (tmp_path / "dev.csv", tmp_path / "run" / "predictions_validation.csv"):
        table = tmp_path / "given.csv"
        with open(name, newline="") as file:
            given = [row for row in csv.reader(file)]
        kept = [place for place, column in enumerate(given[0]) if column != "similarity"]
        write_csv(table, [given[0][p] for p in kept], [[r[p] for p in kept] for r in given[1:]])
        assert predict_file(tmp_path / "run", table, tmp_path / "out.csv") == 2


def test_its_pooler_is_not_served(cls_folder, tmp_path):
    task = create_task("retrieval")
    write_answers(tmp_path / "train.csv")
    run = tmp_path / "run"
    finetune(task, task.read(tmp_path), cls_folder, run, options(epochs=1))
    with pytest.raises(ValueError, match="was trained without its pooler; choose another pooling"):
        SentenceEncoder.from_preset(run, pooling="pooler")
    with pytest.raises(ValueError, match="BertSentenceEmbedder, which gives vectors, no answer"):
        show_attributions(FinetunedModel.load(run), "a good film")


def test_a_folder_with_more_than_a_norm_is_not_trained_unasked(start, tmp_path):
    model = BertSentenceEmbedder.from_preset(start)
    model.save_to_preset(tmp_path, load_tokenizer(start))
    pooling = tmp_path / "1_Pooling" / "config.json"
    pooling.write_text(json.dumps({"pooling_mode": ["mean", "max"]}))
    with pytest.raises(ValueError, match=r"has the pooling mean\+max: mean, cls, max can be"):
        BertSentenceEmbedder.from_preset(tmp_path)
    # A BGE-M3 without modules.json, as training leaves it, has the vector of <s>.
    (tmp_path / "m3").mkdir()
    for name in ("sparse_linear.pt", "colbert_linear.pt"):
        (tmp_path / "m3" / name).touch()
    assert EmbeddingHead().for_folder(tmp_path / "m3").pooling == "cls"
    assert EmbeddingHead("max").for_folder(tmp_path / "m3").pooling == "max"
    pooling.write_text(json.dumps({"pooling_mode": "mean"}))
    prompts = {"prompts": {"q": "query: "}, "default_prompt_name": "q"}
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    with pytest.raises(
        ValueError, match="changes texts before the tokenizer .the prompt 'query: '"
    ):
        BertSentenceEmbedder.from_preset(tmp_path)
    assert BertSentenceEmbedder.from_preset(tmp_path, pooling="cls").pooling == "cls"
    # Also a pooling that is asked for pools what another tokenizer makes of a text.
    cases = tmp_path / "sentence_bert_config.json"
    cases.write_text(json.dumps({"max_seq_length": 8, "do_lower_case": True}))
    for asked in (None, "cls"):
        with pytest.raises(ValueError, match="lower-cases texts before the tokenizer .do_lower_ca"):
            BertSentenceEmbedder.from_preset(tmp_path, pooling=asked)
        with pytest.raises(ValueError, match="lower-cases texts before the tokenizer .do_lower_ca"):
            EmbeddingHead(asked).for_folder(tmp_path)


def test_the_model_is_a_keras_model(start, tmp_path):
    model = BertSentenceEmbedder.from_preset(start, pooling="max", dtype="float32")
    inputs = {name: np.ones([2, 2, 4], np.int32) for name in model.input}
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(inputs), model(inputs))
    loss = EmbeddingLoss.from_config(EmbeddingLoss(0.1, (8, 4)).get_config())
    assert (loss.temperature, loss.matryoshka_dims) == (0.1, (8, 4))
    assert dataclasses.asdict(EmbeddingHead("cls"))["pooling"] == "cls"
