"""Few labeled texts: their pairs worked out by hand, and the regression against scikit-learn.

What a classifier on pooled vectors says is worked out in NumPy of the states of its encoder, or of
the vectors of a `SentenceEncoder`, which knows nothing of classes.
"""

import collections
import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from sklearn.linear_model import LogisticRegression

from keras_bert import (
    BertClassifier,
    BertEncoder,
    ExportOptions,
    FewShotOptions,
    FinetunedEnsemble,
    FinetunedModel,
    FinetuningOptions,
    SentenceEncoder,
    TaskData,
    TextHead,
    create_task,
    export_saved_model,
    finetune,
    load_tokenizer,
    predict_file,
    train_few_shot,
)
from keras_bert.models.conversion.convert import convert
from keras_bert.serving.graph_operations import graph_operations
from keras_bert.serving.served_folder import open_signatures
from keras_bert.tasks.classification.few_shot import fit_logistic_regression, labeled_pairs
from keras_bert.tasks.classification.head import LabeledTexts
from keras_bert.visualize.attributions.view import Explainer
from keras_bert.visualize.model_report import inspect_model
from tests.conftest import sentiment_rows, write_csv
from tests.markers import some_fast
from tests.signatures.tiny_models import ask, random_texts, write_model
from tests.tolerances import REORDERED

SERVED_OPERATIONS = Path(__file__).parents[1] / "serving" / "served_operations.txt"
# 3 texts of one class and 2 of another: 3 + 3 and 2 + 1 pairs are alike, 3 * 2 are not.
TEXTS = LabeledTexts(["a", "b", "c", "x", "y"], labels=[0, 0, 0, 1, 1])
ALIKE = {"aa", "ab", "ac", "bb", "bc", "cc", "xx", "xy", "yy"}
DIFFERENT = {"ax", "ay", "bx", "by", "cx", "cy"}


def _pairs(**arguments):
    pairs = labeled_pairs(TEXTS, **arguments)
    return [("".join(pair.texts), pair.score) for pair in pairs]


def test_every_pair_is_there_once():
    expected = {(pair, 1.0) for pair in ALIKE} | {(pair, 0.0) for pair in DIFFERENT}
    pairs = _pairs(sampling="unique")
    assert len(pairs) == 15
    assert set(pairs) == expected


def test_kinds_of_pairs_are_equally_many():
    over = collections.Counter(_pairs())
    assert all(over[pair, 1.0] == 1 for pair in ALIKE)
    # 9 of 6: three come a second time.
    assert sorted(over[pair, 0.0] for pair in DIFFERENT) == [1, 1, 1, 2, 2, 2]
    under = collections.Counter(_pairs(sampling="undersampling"))
    assert all(under[pair, 0.0] == 1 for pair in DIFFERENT)
    assert sum(under[pair, 1.0] for pair in ALIKE) == 6
    assert max(under.values()) == 1
    assert [score for _, score in _pairs(num_iterations=3)] == [1.0, 0.0] * 15


def test_the_seed_tells_the_order():
    assert _pairs(seed=1) == _pairs(seed=1) != _pairs(seed=2)


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        (LabeledTexts(["a", "b", "c"], labels=[0, 0, 1]), "class 1 has one text"),
        (LabeledTexts(["a", "b"], labels=[0, 0]), "all 2 texts have one class"),
        (LabeledTexts(["a", "b"]), "no class each"),
        (LabeledTexts(["a", "b"], labels=[[0, 1], [1, 0]]), "no class each"),
        (LabeledTexts(["a", "b"], ["c", "d"], [0, 1]), "pairs of texts"),
        (
            LabeledTexts(["a"] * 5000, labels=[0, 1] * 2500),
            "5,000 texts make 12,502,500 pairs, and at most 10,000,000 can be handled: give fewer",
        ),
    ],
)
def test_what_makes_no_pairs_is_refused(examples, message):
    with pytest.raises(ValueError, match=message):
        labeled_pairs(examples)


def test_more_iterations_than_memory_holds_are_refused():
    with pytest.raises(ValueError, match="5 texts make 50,000,000 pairs"):
        _pairs(num_iterations=10_000_000)


@pytest.mark.parametrize("num_classes", [2, 4])
@pytest.mark.parametrize("c", [1.0, 30.0])
def test_regression_is_that_of_scikit_learn(num_classes, c):
    random = np.random.default_rng(3)
    classes = np.arange(40) % num_classes
    classes[:6] = 0  # not equally many
    vectors = random.normal(size=[40, 12]) + random.normal(size=[num_classes, 12])[classes]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    new = random.normal(size=[50, 12])
    oracle = LogisticRegression(C=c, tol=1e-10, max_iter=10_000).fit(vectors, classes)
    kernel, bias = fit_logistic_regression(vectors, classes, num_classes, c)
    odds = np.exp(new @ kernel + bias)
    found = odds / odds.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, oracle.predict_proba(new), atol=1e-4)
    assert (kernel.dtype, kernel.shape, bias.shape) == (np.float32, (12, num_classes), bias.shape)
    assert bias.mean() == pytest.approx(0, abs=1e-5)


def test_regression_takes_a_class_without_texts_and_refuses_others():
    vectors = np.array([[0.0, 1.0], [1.0, 0.0]])
    kernel, bias = fit_logistic_regression(vectors, [0, 1], 3)
    logits = vectors @ kernel + bias
    assert (logits.argmax(axis=1) == [0, 1]).all()
    assert (logits[:, 2] < logits[:, :2].min(axis=1)).all()
    with pytest.raises(ValueError, match="give indices from 0 to 1"):
        fit_logistic_regression(vectors, [0, 2], 2)
    for names in (["a", "b"], [0.0, 1.0]):
        with pytest.raises(ValueError, match=r"classes are \[.*: give indices from 0 to 1"):
            fit_logistic_regression(vectors, names, 2)
    with pytest.raises(ValueError, match=r"the shape \(2, 2\) and classes \(3,\)"):
        fit_logistic_regression(vectors, [0, 1, 1], 2)


def softmax(logits):
    odds = np.exp(np.float64(logits) - np.max(logits, axis=-1, keepdims=True))
    return odds / odds.sum(axis=-1, keepdims=True)


@pytest.fixture(scope="module")
def pooled(made_once):
    """Returns a function: the folder of a tiny classifier with a pooling, written once."""

    def folder(pooling):
        head = TextHead(pooling=pooling)
        return made_once(f"pooled-{pooling}", lambda path: write_model(path, "classes", head=head))

    return folder


def probabilities_by_hand(folder, texts, pooling):
    """One text at a time: the states of its pieces, pooled, of length 1, and the last layer."""
    encoder, tokenizer = BertEncoder.from_preset(folder), load_tokenizer(folder)
    kernel, bias = BertClassifier.from_preset(folder).get_layer("classifier").get_weights()
    vocabulary, logits = tokenizer.vocabulary, []
    for text in texts:
        pieces = tokenizer([text]).to_list()[0][:22]  # of 24 positions
        ids = np.array([[vocabulary.cls_id, *pieces, vocabulary.sep_id]], np.int32)
        row = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": 0 * ids}
        states = np.asarray(encoder(row)["sequence_output"])[0]
        pool = {"mean": np.mean, "max": np.max, "cls": lambda states, axis: states[0]}[pooling]
        vector = pool(states, axis=0)
        logits.append(vector / np.linalg.norm(vector) @ kernel + bias)
    return softmax(logits)


@pytest.mark.parametrize("pooling", some_fast(["mean", "max", "cls"], ("mean",)))
def test_the_classifier_reads_pooled_vectors_live_and_served(pooled, pooling):
    folder, texts = pooled(pooling), random_texts(6, 3)
    expected = probabilities_by_hand(folder, texts, pooling)
    assert np.ptp(expected, axis=0).max() > 1e-2
    model = FinetunedModel.load(folder)
    assert model.description.head.pooling == model.model.pooling == pooling
    np.testing.assert_allclose(model.predict(texts), expected, **REORDERED)
    np.testing.assert_allclose(ask(folder, text=texts)["scores"], expected, **REORDERED)
    assert ask(folder, text=np.array([], object))["scores"].shape == (0, 3)
    again = BertClassifier.from_config(model.model.get_config())
    assert again.pooling == pooling
    layers = {layer.name for layer in again.layers}
    assert "sentence_pooling" in layers and "output_dropout" not in layers


def test_what_reaches_around_the_model_knows_the_pooling(pooled, model_folder, tmp_path):
    folder, texts = pooled("mean"), random_texts(4, 5)
    scores = FinetunedModel.load(folder).predict(texts)
    # Without task.json, as the folder of a model alone.
    shutil.copytree(folder, tmp_path / "alone")
    (tmp_path / "alone" / "task.json").unlink()
    served = open_signatures(tmp_path / "alone", ExportOptions(max_seq_length=24))
    np.testing.assert_allclose(
        served.answer(text=tf.constant(texts))["scores"], scores, **REORDERED
    )
    # In an ensemble each member pools as it was trained.
    plain = FinetunedModel.load(model_folder("classes")).predict(texts)
    both = FinetunedEnsemble.load([folder, model_folder("classes")])
    np.testing.assert_allclose(both.predict(texts), (scores + plain) / 2, **REORDERED)
    # Attributions add up to the logit of the likeliest class less that of the baseline.
    view = Explainer(FinetunedModel.load(folder))("the film x")
    assert view.scores.sum() == pytest.approx(view.logit - view.baseline_logit, rel=0.01)
    odds = probabilities_by_hand(folder, ["the film x"], "mean")[0]
    assert view.target == ("bad", "fine", "good")[odds.argmax()]
    # Operations: no pooler, and the last block everywhere.
    assert inspect_model(str(folder), 24, 2).forward_flops["pooler"] == 0
    assert inspect_model(str(model_folder("classes")), 24, 2).forward_flops["pooler"] > 0
    # Other libraries have no such head.
    for form in ("hf", "google", "garden"):
        (tmp_path / form).mkdir()
        with pytest.raises(ValueError, match=f"pooling 'mean'.*the format {form} has no such head"):
            convert(folder, tmp_path / form, form)
        assert not any((tmp_path / form).iterdir())
    (tmp_path / "keras").mkdir()
    convert(folder, tmp_path / "keras", "keras")
    assert BertClassifier.from_preset(str(tmp_path / "keras")).pooling == "mean"


def test_poolings_that_do_not_fit_are_refused(model_folder):
    config = BertEncoder.from_preset(model_folder("encoder")).config
    with pytest.raises(ValueError, match="pooling is 'sum': choose one of mean, cls, max"):
        BertClassifier(config, 2, pooling="sum")
    with pytest.raises(ValueError, match="reads from left to right"):
        BertClassifier(config.replace(left_to_right=True), 2, pooling="cls")
    with pytest.raises(ValueError, match="pooling is 'sum': choose one of mean, cls, max"):
        create_task("csv", pooling="sum")
    with pytest.raises(ValueError, match="pooling is 'mean' and window_pooling 'max', but windows"):
        TextHead(pooling="mean", window_pooling="max")
    assert "pooling" not in TextHead().settings()


def test_pairs_of_texts_are_fine_tuned_with_a_pooling(pretrained_folder, tmp_path):
    rows = [(*both, "long" if len(both[0]) > 25 else "short") for both in _pairs_of_texts(24)]
    write_csv(tmp_path / "data" / "train.csv", ["text", "text_pair", "label"], rows)
    options = FinetuningOptions(
        epochs=1, batch_size=12, learning_rate=1e-3, mixed_precision="float32"
    )
    task = create_task("csv", pooling="max")
    finetune(task, task.read(tmp_path / "data"), pretrained_folder, tmp_path / "run", options)
    start = BertEncoder.from_preset(pretrained_folder).get_layer("pooler").get_weights()
    model = FinetunedModel.load(tmp_path / "run")
    # Nothing reads the pooler, so it did not learn.
    for before, after in zip(
        start, model.model.encoder.get_layer("pooler").get_weights(), strict=True
    ):
        np.testing.assert_array_equal(before, after)
    firsts, seconds = zip(*_pairs_of_texts(5), strict=True)
    served = ask(tmp_path / "run", text=firsts, text_pair=seconds)
    np.testing.assert_allclose(served["scores"], model.predict(firsts, seconds), **REORDERED)
    # A further run on the folder keeps its pooling, whatever is left out.
    task = create_task("csv")
    further = FinetunedModel.from_task(task, task.read(tmp_path / "data"), tmp_path / "run")
    assert further.description.head.pooling == further.model.pooling == "max"


def _pairs_of_texts(count):
    texts = [text for text, _ in sentiment_rows(2 * count, 7)]
    return list(zip(texts[:count], texts[count:], strict=True))


FEW = FewShotOptions(num_iterations=3, learning_rate=3e-3, epochs=4, mixed_precision="float32")


@pytest.fixture(scope="module")
def few_shot(pretrained_folder, tmp_path_factory):
    """A finished few-shot run: its data folder, its folder and its result."""
    folder = tmp_path_factory.mktemp("few_shot")
    for seed, (name, count) in enumerate({"train": 24, "dev": 32, "test": 32}.items()):
        write_csv(folder / "data" / f"{name}.csv", ["text", "label"], sentiment_rows(count, seed))
    # All that is left of a run that was killed before its first step.
    (folder / "run" / "encoder").mkdir(parents=True)
    data = create_task("csv").read(folder / "data")
    return (
        folder / "data",
        folder / "run",
        train_few_shot(data, pretrained_folder, folder / "run", FEW),
    )


def test_a_few_shot_run_is_a_classifier_of_its_encoder(few_shot, tmp_path):
    data, folder, result = few_shot
    texts, labels = zip(*sentiment_rows(24, 0), strict=True)
    encoder = SentenceEncoder.from_preset(folder / "encoder")
    kernel, bias = BertClassifier.from_preset(folder).get_layer("classifier").get_weights()
    new = [text for text, _ in sentiment_rows(20, 9)] + [""]
    expected = softmax(encoder.encode(new) @ kernel + bias)
    # The last layer is scikit-learn's on the vectors of the training texts.
    oracle = LogisticRegression(tol=1e-10, max_iter=10_000).fit(encoder.encode(texts), labels)
    np.testing.assert_allclose(expected, oracle.predict_proba(encoder.encode(new)), atol=1e-4)

    model = FinetunedModel.load(folder)
    assert model.description.labels == ("neg", "pos")
    np.testing.assert_allclose(model.predict(new), expected, **REORDERED)
    exported = export_saved_model(folder, tmp_path / "served")
    answer = tf.saved_model.load(exported).signatures["serving_default"](text=tf.constant(new))
    np.testing.assert_allclose(answer["scores"], expected, **REORDERED)
    named = np.array([b"neg", b"pos"])[expected.argmax(axis=-1)]
    assert (answer["label"].numpy() == named).all()

    # Beside what other served graphs use, two operations of TensorFlow's own.
    listed = {line.split()[0] for line in SERVED_OPERATIONS.read_text().splitlines()}
    assert graph_operations(exported) - listed == {"Sqrt", "Square"}

    # What was measured is what the folder answers.
    rows = list(sentiment_rows(32, 2))
    likely = softmax(encoder.encode([text for text, _ in rows]) @ kernel + bias).argmax(axis=-1)
    right = np.mean(
        [("neg", "pos")[one] == label for one, (_, label) in zip(likely, rows, strict=True)]
    )
    assert result.test["accuracy"] == pytest.approx(right)
    assert json.loads((folder / "metrics.json").read_text())["metrics"] == result.metrics
    write_csv(tmp_path / "new.csv", ["text"], [[text] for text, _ in rows])
    predict_file(folder, tmp_path / "new.csv", tmp_path / "out.csv")
    again = (tmp_path / "out.csv").read_text().splitlines()
    told = (folder / "predictions_test.csv").read_text().splitlines()
    assert [line.split(",")[1] for line in again] == [line.split(",")[1] for line in told]


def test_texts_of_one_class_became_alike(few_shot, pretrained_folder):
    texts, labels = zip(*sentiment_rows(24, 0), strict=True)
    wanted = np.equal.outer(labels, labels)
    errors = []
    for folder in (pretrained_folder, few_shot[1] / "encoder"):
        vectors = SentenceEncoder.from_preset(folder, pooling="mean", normalize=True).encode(texts)
        errors.append(np.mean((vectors @ vectors.T - wanted) ** 2))
    assert errors[1] < errors[0] / 2
    assert few_shot[2].validation["accuracy"] > 0.7


def test_the_same_command_keeps_the_encoder_and_fits_anew(few_shot, pretrained_folder, tmp_path):
    data_folder, folder, result = few_shot
    data = create_task("csv").read(data_folder)
    shutil.copytree(folder, tmp_path / "run")
    weights = (tmp_path / "run" / "encoder" / "model.weights.h5").stat().st_mtime_ns
    less_penalty = dataclasses.replace(FEW, c=30.0)
    again = train_few_shot(data, pretrained_folder, tmp_path / "run", less_penalty)
    assert again.epochs == result.epochs
    before, after = (
        np.linalg.norm(BertClassifier.from_preset(run).get_layer("classifier").kernel)
        for run in (folder, tmp_path / "run")
    )
    assert after > 2 * before
    assert (tmp_path / "run" / "encoder" / "model.weights.h5").stat().st_mtime_ns == weights
    with pytest.raises(ValueError, match="choose another --model_dir"):
        train_few_shot(data, pretrained_folder, tmp_path / "run", FewShotOptions(seed=5))


def test_few_shot_runs_that_cannot_be_are_refused(few_shot, pretrained_folder, tmp_path):
    data = create_task("csv").read(few_shot[0])
    with pytest.raises(ValueError, match="holds something else"):
        train_few_shot(data, pretrained_folder, few_shot[0], FEW)
    with pytest.raises(ValueError, match="no split 'train'"):
        train_few_shot(TaskData({"test": TEXTS}, ("a", "b")), pretrained_folder, tmp_path / "a")
    pairs = LabeledTexts(["a", "b"], ["c", "d"], [0, 1])
    with pytest.raises(ValueError, match="pairs of texts"):
        train_few_shot(TaskData({"train": pairs}, ("a", "b")), pretrained_folder, tmp_path / "a")
    with pytest.raises(ValueError, match="a whole number from 0 to 0|at least two"):
        train_few_shot(TaskData({"train": TEXTS}, ("a",)), pretrained_folder, tmp_path / "a")
    alone = TaskData({"train": LabeledTexts(["a", "b", "c"], labels=[0, 0, 1])}, ("a", "b"))
    start = shutil.copytree(few_shot[1] / "encoder", tmp_path / "start")
    prompts = {"prompts": {"q": "query: "}, "default_prompt_name": "q"}
    (start / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    with pytest.raises(ValueError, match="the prompt 'query: '.*or give pooling"):
        train_few_shot(alone, start, tmp_path / "a")
    with pytest.raises(ValueError, match="class 1 has one text"):  # which comes after that
        train_few_shot(alone, start, tmp_path / "a", FewShotOptions(pooling="max"))
    assert not (tmp_path / "a").exists()
    for changes in (
        *({"c": 0}, {"epochs": 0}, {"sampling": "all"}, {"learning_rate": -1.0}),
        {"pooling": "sum"},
    ):
        with pytest.raises(ValueError, match=next(iter(changes))):
            FewShotOptions(**changes)
