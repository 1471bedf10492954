"""Every kind of task by `model.fit` alone, against what `finetune` makes of the same batches."""

import dataclasses
import json
import random
import warnings
from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import (
    FinetunedModel,
    FinetuningOptions,
    Task,
    create_optimizer,
    create_strategy,
    create_task,
    finetune,
)
from keras_bert.finetuning.task import TaskData
from keras_bert.tasks.classification.head import LabeledTexts, TextHead
from tests.conftest import write_csv
from tests.markers import some_slow
from tests.tolerances import REORDERED, REORDERED_UPDATES

LENGTH, BATCH, RATE = 24, 8, 1e-3
# Means of float32 losses, added up in two orders.
APPROX = {"rel": 1e-5}
WORDS = ["good", "great", "bad", "sad", "film", "book", "was", "very", "the"]


@pytest.fixture(scope="module")
def start(without_dropout):
    """The model folder that training starts from."""
    return without_dropout


def sentences(count, seed):
    draw = random.Random(seed)
    return [draw.choices(WORDS, k=draw.randint(3, 12)) for _ in range(count)]


def write_classes(folder, count, seed):
    rows = [(" ".join(words), words[0]) for words in sentences(count, seed)]
    write_csv(folder.with_suffix(".csv"), ["text", "label"], rows)


def write_tags(folder, count, seed):
    tag = {"good": "B-NAME", "great": "B-NAME", "book": "I-NAME"}
    blocks = (
        "".join(f"{word} {tag.get(word, 'O')}\n" for word in words)
        for words in sentences(count, seed)
    )
    folder.with_suffix(".txt").write_text("\n".join(blocks))


def write_choices(folder, count, seed):
    texts = [" ".join(words) for words in sentences(3 * count, seed)]
    rows = [(texts[n], texts[n + 1], texts[n + 2], n % 2) for n in range(0, 3 * count, 3)]
    write_csv(folder.with_suffix(".csv"), ["context", "choice0", "choice1", "label"], rows)


def write_questions(folder, count, seed):
    paragraphs = []
    for number, words in enumerate(sentences(count, seed)):
        context, answer = " ".join(words), words[1]
        start = len(words[0]) + 1
        # Every fourth has no answer.
        answers = [{"text": answer, "answer_start": start}] if number % 4 else []
        question = {"id": f"{seed}-{number}", "question": "good", "answers": answers}
        question["is_impossible"] = not answers
        paragraphs.append({"context": context, "qas": [question]})
    content = {"version": "v2.0", "data": [{"title": "t", "paragraphs": paragraphs}]}
    folder.with_suffix(".json").write_text(json.dumps(content))


def write_replies(folder, count, seed):
    rows = [(" ".join(words), " ".join(words[:2])) for words in sentences(count, seed)]
    write_csv(folder.with_suffix(".csv"), ["source", "target"], rows)


def write_answers(folder, count, seed):
    rows = [(" ".join(words), words[0]) for words in sentences(count, seed)]
    write_csv(folder.with_suffix(".csv"), ["text", "positive"], rows)


def write_texts_alone(folder, count, seed):
    """Texts to learn from, answers to be measured by."""
    write_answers(folder, count, seed)
    if folder.name == "train":
        rows = [[" ".join(words)] for words in sentences(count, seed)]
        write_csv(folder.with_suffix(".csv"), ["text"], rows)


# Kind: name of the task, its settings, what writes a file of it.
KINDS = {
    "classes": ("csv", {}, write_classes),
    "tags": ("conll", {}, write_tags),
    "choices": ("choice", {}, write_choices),
    # The windows of a text overlap.
    "questions": ("squad2", {"doc_stride": 4, "max_query_length": 2}, write_questions),
    "replies": (
        "seq2seq",
        {"source_column": "source", "target_column": "target", "max_target_length": 6},
        write_replies,
    ),
    "answers": ("retrieval", {}, write_answers),
    "texts_alone": ("retrieval", {}, write_texts_alone),
}
SLOW = some_slow([kind for kind in KINDS if kind != "tags"], ("classes", "choices", "texts_alone"))


def read(kind, folder):
    """Writes the files of a kind; returns its task and data."""
    name, settings, write = KINDS[kind]
    for seed, (split, count) in enumerate({"train": 20, "dev": 8, "test": 8}.items()):
        write(folder / split, count, seed)
    task = create_task(name, **settings)
    return task, task.read(folder)


def fitted(task, data, start, epochs=2):
    """Returns a model that has learned by `fit`, and the history."""
    keras.utils.set_random_seed(5)  # as `finetune` does: the head is the same fresh one
    model = FinetunedModel.from_task(task, data, start, LENGTH, dtype="float32")
    train = model.training_data(data, BATCH, seed=5)
    optimizer = create_optimizer(
        RATE, train_steps=epochs * len(train), warmup_steps=0, bias_correction=True
    )
    model.compile(optimizer)
    validation = model.validation_data(data, BATCH)
    fit = model.model.fit(train, validation_data=validation, epochs=epochs, verbose=0)
    return model, fit.history


@pytest.mark.parametrize("kind", ["tags", *SLOW])
def test_fit_learns_what_finetune_learns(kind, start, tmp_path):
    task, data = read(kind, tmp_path)
    options = FinetuningOptions(
        epochs=2,
        batch_size=BATCH,
        learning_rate=RATE,
        max_seq_length=LENGTH,
        warmup_proportion=0.0,
        mixed_precision="float32",
        seed=5,
    )
    # Without validation data a run keeps the weights of its last epoch.
    splits = {name: data.splits[name] for name in ("train", "test")}
    result = finetune(
        task, dataclasses.replace(data, splits=splits), start, tmp_path / "run", options
    )
    expected = FinetunedModel.load(tmp_path / "run")
    model, history = fitted(task, data, start)
    losses = [epoch["train_loss"] for epoch in result.epochs]
    assert history["loss"] == pytest.approx(losses, **APPROX)
    for mine, theirs in zip(model.model.weights, expected.model.weights, strict=True):
        np.testing.assert_allclose(mine, theirs, **REORDERED_UPDATES, err_msg=mine.path)
    model.save(tmp_path / "saved")
    written = [(tmp_path / name / "task.json").read_text() for name in ("run", "saved")]
    assert written[0] == written[1]
    measured = model.measure(task.metrics, data)
    assert measured == pytest.approx({name: result.metrics["test"][name] for name in measured})
    assert measured.keys() >= result.metrics["test"].keys() - {"loss"}


def test_each_epoch_has_an_order_of_its_own(start, tmp_path):
    task, data = read("classes", tmp_path)
    model = FinetunedModel.from_task(task, data, start, LENGTH)

    def texts(batches):
        return [tuple(row) for inputs, _ in batches for row in inputs["input_ids"][:, :4].numpy()]

    train = model.training_data(data, BATCH)
    first, second = texts(train), texts(train)
    assert first != second and sorted(first) == sorted(second) and len(first) == 20
    again = model.training_data(data, BATCH)
    assert [texts(again), texts(again)] == [first, second]
    assert len(train) == len(list(train)) == 3


@pytest.mark.slow
def test_replicas_learn_as_one(start, tmp_path):
    # The labeled pieces are spread unevenly over the replicas, which a mean of means would show.
    task, data = read("tags", tmp_path)

    def learned(strategy):
        with strategy.scope():
            keras.utils.set_random_seed(5)
            model = FinetunedModel.from_task(task, data, start, LENGTH, dtype="float32")
            model.compile(keras.optimizers.SGD(0.1))
        # In one order: with replicas Keras takes a pass of `training_data` to build its state.
        batches = model.validation_data(data, BATCH, split="train")
        return model, model.model.fit(batches, epochs=2, verbose=0).history

    one, alone = learned(tf.distribute.get_strategy())
    two, together = learned(create_strategy("mirrored"))
    assert together["loss"] == pytest.approx(alone["loss"], **APPROX)
    for left, right in zip(one.model.weights, two.model.weights, strict=True):
        np.testing.assert_allclose(left, right, **REORDERED_UPDATES, err_msg=left.path)


def test_what_is_saved_is_opened_and_goes_on(start, tmp_path):
    task, data = read("tags", tmp_path)
    model, _ = fitted(task, data, start, epochs=1)
    folder = tmp_path / "saved"
    model.save(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ValueError, match="saved is there already: choose another folder"):
        model.save(folder)
    opened = FinetunedModel.load(folder)
    test = data.splits["test"]
    expected = model.predict_examples(test)
    for one, other in zip(opened.predict_examples(test), expected, strict=True):
        assert one.tags == other.tags
        np.testing.assert_array_equal(one.scores, other.scores)
    # Another round: what no tag reads is not trained, so Keras misses no gradient.
    opened.compile(keras.optimizers.SGD(0.1))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Gradients do not exist")
        opened.model.fit(opened.training_data(data, BATCH), epochs=1, verbose=0)
    weights = zip(opened.model.weights, model.model.weights, strict=True)
    changed = {one.path for one, other in weights if not np.array_equal(one, other)}
    assert "classifier/kernel" in changed and "pooler/kernel" not in changed
    opened.save(folder, overwrite=True)
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert before.keys() == after.keys() and before != after
    # A run does not take the place of a model that it did not write.
    with pytest.raises(ValueError, match="holds a model that no fine-tuning run wrote"):
        finetune(task, data, start, folder)


def test_labels_of_another_model_are_refused(start, tmp_path):
    task, data = read("classes", tmp_path)
    model = FinetunedModel.from_task(task, data, start, LENGTH)
    reversed_labels = create_task("csv", labels=list(data.labels[::-1])).read(tmp_path)
    for use in (model.training_data, model.validation_data, partial(model.measure, task.metrics)):
        with pytest.raises(ValueError, match=r"the labels was, very, .*, the model bad, book, "):
            use(reversed_labels)
    # Nor examples that are no data.
    for given in (data.splits["test"], TaskData([data.splits["test"]])):
        with pytest.raises(ValueError, match="the data is a (LabeledTexts|list): give what tas"):
            model.measure(task.metrics, given)
        with pytest.raises(ValueError, match="the data is a (LabeledTexts|list): give what tas"):
            FinetunedModel.from_task(task, given, start, LENGTH)
    # A model that is opened for them takes them in their order.
    model.save(tmp_path / "saved")
    other = FinetunedModel.from_task(task, reversed_labels, tmp_path / "saved", LENGTH)
    texts = ["good film", "the sad book"]
    np.testing.assert_allclose(other.predict(texts)[:, ::-1], model.predict(texts), **REORDERED)


def test_numbers_too_large_for_int32_are_learned_as_they_are(start):
    # 3,000,000,000 = 2^31 + 852,516,352, which int32 shows as -1,294,967,296.
    data = TaskData({"train": LabeledTexts(["good", "bad"], labels=[3_000_000_000, 1])})
    task = Task("own", TextHead("regression"), lambda _: data, {})
    model = FinetunedModel.from_task(task, data, start, LENGTH)
    [(_, targets, *_)] = model.training_data(data, 2)
    assert sorted(targets.numpy().tolist()) == [1, 3_000_000_000]


def test_what_could_not_be_learned_is_refused(start, tmp_path):
    task, data = read("tags", tmp_path)
    model = FinetunedModel.from_task(task, data, start, LENGTH)
    first, *others = data.splits["train"]
    for examples in ([], [first._replace(tags=None), *others]):
        incomplete = dataclasses.replace(data, splits={"train": examples})
        with pytest.raises(ValueError, match="'train' is empty, or some of its examples"):
            model.training_data(incomplete)
        with pytest.raises(ValueError, match="no split 'test' .there are train.: name another"):
            model.measure(task.metrics, incomplete)
    with pytest.raises(ValueError, match="batch_size is 0: it must be at least 1"):
        model.training_data(data, 0)
    with pytest.raises(ValueError, match="batch_size is 0: it must be at least 1"):
        model.measure(task.metrics, data, 0)
    with pytest.raises(ValueError, match="metrics would count the positions without a target"):
        model.compile("sgd", metrics=["accuracy"])
    (tmp_path / "squad").mkdir()
    questions = FinetunedModel.from_task(*read("questions", tmp_path / "squad"), start, LENGTH)
    with pytest.raises(ValueError, match="as a dict, by start_logits and end_logits"):
        questions.compile("sgd", metrics=["accuracy"])
    with pytest.raises(ValueError, match="the loss is that of the head"):
        model.compile("sgd", loss="mse")
    with pytest.raises(
        ValueError, match=r"^\. is the working directory or .*: name a folder in it"
    ):
        model.save(".")
    with pytest.raises(ValueError, match="max_seq_length is 65 but the model has 64 positions"):
        FinetunedModel.from_task(task, data, start, 65)
    with pytest.raises(ValueError, match="mixed_float16, whose gradients vanish"):
        FinetunedModel.from_task(task, data, start, dtype="mixed_float16")
    with pytest.raises(ValueError, match="policy is bfloat16, but weights are trained in float32"):
        FinetunedModel.from_task(task, data, start, dtype="bfloat16")
