"""Trained vectors against sentence-transformers: losses, gradients, metrics, and its reading."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertSentenceEmbedder, EmbeddingExample, load_tokenizer
from keras_bert.tasks.sentence_embedding.metrics import ranking_metrics, similarity_metrics
from keras_bert.tasks.sentence_embedding.ranking_loss import EmbeddingLoss, scored_texts
from tests.markers import some_long
from tests.tolerances import ORACLE

pytestmark = pytest.mark.oracle

REPOSITORY = Path(__file__).parents[2]
EXAMPLES, WIDTH = 6, 8


@pytest.fixture(scope="module")
def vectors():
    """Unit vectors of examples with a question, an answer and two wrong answers."""
    drawn = np.random.default_rng(4).normal(size=[EXAMPLES, 4, WIDTH]).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)


def losses_of(vectors, targets, loss):
    """Value and gradient of the mean over a batch, by ours."""
    values = tf.constant(vectors)
    with tf.GradientTape() as tape:
        tape.watch(values)
        value = tf.reduce_mean(loss.call(tf.constant(targets), values))
    return float(value), tape.gradient(value, values).numpy()


def losses_of_theirs(loss, vectors, labels=None):
    import torch

    values = [torch.tensor(vectors[:, row], requires_grad=True) for row in range(vectors.shape[1])]
    value = loss.compute_loss_from_embeddings(values, labels)
    value.backward()
    return float(value.detach()), np.stack([one.grad.numpy() for one in values], axis=1)


@pytest.mark.parametrize("rows", [2, 4], ids=["pairs", "wrong_answers"])
def test_the_answer_among_all_of_the_batch(rows, vectors):
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    theirs = MultipleNegativesRankingLoss(model=None, scale=1 / 0.07)
    expected, expected_gradient = losses_of_theirs(theirs, vectors[:, :rows])
    numbers = np.arange(1, EXAMPLES * rows + 1, dtype=np.int32).reshape(EXAMPLES, rows)
    found, gradient = losses_of(vectors[:, :rows], numbers, EmbeddingLoss(0.07))
    assert found == pytest.approx(expected, rel=1e-5)
    # Theirs divides by the lengths, which are 1 here, before the product: a part of the gradient
    # along the vector itself has no effect on a unit vector, and is left out on both sides.
    np.testing.assert_allclose(
        across(gradient, vectors[:, :rows]), across(expected_gradient, vectors[:, :rows]), **ORACLE
    )


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_a_teacher_over_the_answers_of_a_row(temperature, vectors):
    """Theirs is multiplied by the square of the student's temperature, as in Hinton et al."""
    import torch
    from sentence_transformers.sentence_transformer.losses import DistillKLDivLoss

    scores = np.random.default_rng(8).normal(size=[EXAMPLES, 3]).astype(np.float32) * 4
    theirs = DistillKLDivLoss(None, student_temperature=0.5, teacher_temperature=temperature)
    expected, expected_gradient = losses_of_theirs(theirs, vectors, torch.tensor(scores))
    numbers = np.arange(1, EXAMPLES * 4 + 1, dtype=np.int32).reshape(EXAMPLES, 4)
    targets = scored_texts(numbers, np.pad(scores, [[0, 0], [1, 0]]))
    loss = EmbeddingLoss(0.5, teacher_weight=1.0, teacher_temperature=temperature)
    found, gradient = losses_of(vectors, targets, loss)
    assert found * 0.5**2 == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(
        across(gradient * 0.5**2, vectors), across(expected_gradient, vectors), **ORACLE
    )


def across(gradients, vectors):
    """The part of gradients that turns unit vectors."""
    return gradients - np.sum(gradients * vectors, axis=-1, keepdims=True) * vectors


def test_scores_of_pairs(vectors):
    import torch
    from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss

    scores = np.linspace(0, 1, EXAMPLES, dtype=np.float32)
    pairs = vectors[:, :2]
    expected, expected_gradient = losses_of_theirs(
        CosineSimilarityLoss(model=None), pairs, torch.tensor(scores)
    )
    found, gradient = losses_of(pairs, scores, EmbeddingLoss())
    assert found == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(across(gradient, pairs), across(expected_gradient, pairs), **ORACLE)


@pytest.mark.parametrize("scored", [False, True])
def test_the_first_numbers_are_vectors_too(scored, vectors):
    import torch
    from sentence_transformers.sentence_transformer import losses

    class AsGiven(torch.nn.Module):
        """A model that makes of each column the vectors that are given in its place."""

        def forward(self, features):
            return {"sentence_embedding": features["vectors"]}

        def get_embedding_dimension(self):
            return WIDTH

    pairs, model, labels = vectors[:, :2], AsGiven(), None
    if scored:
        loss, targets = losses.CosineSimilarityLoss(model), np.linspace(0, 1, EXAMPLES, dtype="f4")
        labels = torch.tensor(targets)
    else:
        loss = losses.MultipleNegativesRankingLoss(model, scale=1 / 0.07)
        targets = np.arange(1, EXAMPLES * 2 + 1, dtype=np.int32).reshape(EXAMPLES, 2)
    loss = losses.MatryoshkaLoss(model, loss, [WIDTH, 5, 2])
    columns = [torch.tensor(pairs[:, row], requires_grad=True) for row in range(2)]
    expected = loss([{"vectors": column} for column in columns], labels)
    expected.backward()
    values = tf.constant(pairs)
    with tf.GradientTape() as tape:
        tape.watch(values)
        found = tf.reduce_mean(EmbeddingLoss(0.07, (2, 5)).call(tf.constant(targets), values))
    assert float(found) == pytest.approx(float(expected.detach()), rel=1e-5)
    gradient = np.stack([column.grad.numpy() for column in columns], axis=1)
    np.testing.assert_allclose(
        across(tape.gradient(found, values).numpy(), pairs), across(gradient, pairs), **ORACLE
    )


class _Given:
    """A model for their evaluators that has the vectors of texts already."""

    similarity_fn_name = "cosine"

    def __init__(self, vectors):
        self._vectors = vectors
        self.model_card_data = self

    def set_evaluation_metrics(self, *arguments):
        """Nobody reads a model card here."""

    def encode(self, texts, **arguments):
        import torch

        return torch.tensor(np.stack([self._vectors[text] for text in texts]))

    encode_query = encode_document = encode


def test_a_search_is_measured_alike():
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator
    from sentence_transformers.util import cos_sim

    draw = np.random.default_rng(1)
    texts = []
    for number in range(60):  # some questions have two or three answers
        question = f"q{number % 45}"
        texts.append((question, f"a{draw.integers(50)}", f"w{draw.integers(20)}"))
    names = sorted({text for example in texts for text in example})
    drawn = draw.normal(size=[len(names), WIDTH]).astype(np.float32)
    drawn /= np.linalg.norm(drawn, axis=-1, keepdims=True)
    by_text = dict(zip(names, drawn, strict=True))
    given = [np.stack([by_text[text] for text in example]) for example in texts]
    found = {
        name: metric(given, [EmbeddingExample(example) for example in texts])
        for name, metric in ranking_metrics().items()
    }
    relevant = {}
    for question, answer, _ in texts:
        relevant.setdefault(question, set()).add(answer)
    passages = {text: text for text in names if not text.startswith("q")}
    questions = {question: question for question in relevant}
    evaluator = InformationRetrievalEvaluator(
        questions, passages, relevant, score_functions={"cosine": cos_sim}
    )
    scores = evaluator(_Given(by_text))
    names_of_theirs = {
        "ndcg_at_10": "ndcg@10",
        "mrr_at_10": "mrr@10",
        "accuracy_at_1": "accuracy@1",
        "recall_at_10": "recall@10",
    }
    expected = {name: scores[f"cosine_{theirs}"] for name, theirs in names_of_theirs.items()}
    assert found == pytest.approx(expected, rel=1e-6)
    assert 0.01 < found["mrr_at_10"] < 0.5  # nothing trivial


def test_correlations_are_measured_alike(vectors):
    from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator

    scores = np.random.default_rng(2).random(EXAMPLES)
    left, right = ([f"{side}{number}" for number in range(EXAMPLES)] for side in "lr")
    by_text = dict(zip([*left, *right], [*vectors[:, 0], *vectors[:, 1]], strict=True))
    evaluator = EmbeddingSimilarityEvaluator(left, right, scores, main_similarity="cosine")
    expected = evaluator(_Given(by_text))
    examples = [
        EmbeddingExample(pair, score) for *pair, score in zip(left, right, scores, strict=True)
    ]
    for name, metric in similarity_metrics().items():
        theirs = expected[f"{name}_cosine"]
        assert metric(list(vectors[:, :2]), examples) == pytest.approx(theirs, abs=1e-6)


@pytest.mark.parametrize("pooling", some_long(["mean", "cls", "max"], ["cls"]))
def test_sentence_transformers_opens_what_is_converted(pooling, pretrained_folder, tmp_path):
    from sentence_transformers import SentenceTransformer

    model = BertSentenceEmbedder.from_preset(pretrained_folder, pooling=pooling, dtype="float32")
    model.save_to_preset(tmp_path / "ours", load_tokenizer(pretrained_folder))
    command = [sys.executable, REPOSITORY / "tools" / "convert_checkpoint.py", "--format=hf"]
    command += [f"--from={tmp_path / 'ours'}", f"--to={tmp_path / 'theirs'}"]
    subprocess.run(command, check=True, capture_output=True)
    texts = ["a good film", "sad", "the book was very bad"]
    theirs = SentenceTransformer(str(tmp_path / "theirs"), device="cpu").encode(texts)
    np.testing.assert_allclose(np.linalg.norm(theirs, axis=-1), np.ones(3), **ORACLE)
    tokenizer = load_tokenizer(pretrained_folder)
    rows = []
    for text in texts:
        ids = tokenizer.tokenize([text])[0].numpy().tolist()
        rows.append([tokenizer.vocabulary.cls_id, *ids, tokenizer.vocabulary.sep_id])
    longest = max(map(len, rows))
    ids = np.array([[row + [0] * (longest - len(row))] for row in rows], np.int32)  # [3, 1, S]
    mask = np.array([[[1] * len(row) + [0] * (longest - len(row))] for row in rows], np.int32)
    inputs = {"input_ids": ids, "input_mask": mask, "segment_ids": np.zeros_like(ids)}
    np.testing.assert_allclose(model(inputs)[:, 0], theirs, **ORACLE)
