"""Fine-tuning runs that are cut into micro-batches, replicas and pieces of time."""

import dataclasses
import io
import os
import random
import shutil
import signal
import sys

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertConfig, BertEncoder
from keras_bert.finetuning.finetune import finetune
from keras_bert.finetuning.options import FinetuningOptions
from keras_bert.finetuning.result import FinetuningResult
from keras_bert.finetuning.run import FinetuningRun
from keras_bert.finetuning.search import search
from keras_bert.finetuning.task import TaskData
from keras_bert.tasks.classification.delimited import csv_task
from keras_bert.tasks.classification.head import LabeledTexts
from keras_bert.tasks.finetuned_model import FinetunedModel
from keras_bert.tasks.multiple_choice.choice_files import choice_task
from keras_bert.tasks.multiple_choice.head import ChoiceExample
from keras_bert.tasks.question_answering.questions import Answer, Question
from keras_bert.tasks.question_answering.squad import squad_task
from keras_bert.tasks.tagging.conll import conll_task
from keras_bert.tasks.tagging.sentences import TaggedSentence
from keras_bert.training.run_folder import RunFolder
from tests.conftest import WORDS, sentiment_rows
from tests.markers import some_slow
from tests.tolerances import REORDERED, REORDERED_FOURTEEN_UPDATES
from tests.training.test_rematerialization import operations_of

# 27 examples in batches of 8: four steps an epoch, the last one not full.
STEPS = 4


class KilledError(Exception):
    """Takes the place of kill -9 in this process."""


def texts(count=27, seed=0):
    values, labels = zip(*sentiment_rows(count, seed), strict=True)
    return LabeledTexts(values, None, np.array([label == "pos" for label in labels], np.int32))


def text_data():
    splits = {"train": texts(), "validation": texts(9, 1), "test": texts(9, 2)}
    return TaskData(splits, ("neg", "pos"), {"text": "text"})


def run(start, folder, task=None, data=None, **changes):
    fields = {
        "epochs": 3,
        "batch_size": 8,
        "learning_rate": 3e-3,
        "mixed_precision": "float32",
        "strategy": "cpu",
    }
    options = FinetuningOptions(**fields | changes)
    return finetune(task or csv_task(), data or text_data(), start, folder, options)


def run_until(monkeypatch, step, *arguments, **changes):
    """Runs, and dies when that many steps are done."""
    after_step = FinetuningRun.after_step

    def dies(self, logs):
        after_step(self, logs)
        if self.step == step:
            raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(FinetuningRun, "after_step", dies)
        with pytest.raises(KilledError):
            run(*arguments, **changes)


def prepared(monkeypatch, *arguments, **changes):
    """Returns a run as it stands before its first step."""

    def dies(self, *_):
        raise KilledError(self)

    with monkeypatch.context() as patched:
        patched.setattr(FinetuningRun, "train", dies)
        with pytest.raises(KilledError) as killed:
            run(*arguments, **changes)
    return killed.value.args[0]


def operations_of_a_step(run):
    """Returns how many operations of each type the step of a run has."""
    step = tf.function(lambda *batch: run.strategy.run(run.model.train_step, args=(batch,)))
    return operations_of(step.get_concrete_function(*next(iter(run.batches.epoch(0)))))


def weights_of(folder):
    return {weight.path: weight.numpy() for weight in FinetunedModel.load(folder).model.weights}


def assert_same(left, right, **tolerance):
    """Compares the weights of two runs: those of a resumed run are equal to the last bit."""
    left, right = weights_of(left), weights_of(right)
    assert left.keys() == right.keys()
    for path, value in left.items():
        # Added to all positions or to all choices alike: the gradient is rounding, which Adam
        # enlarges.
        if tolerance and (path == "span/bias" or (path == "classifier/bias" and value.size == 1)):
            continue
        if tolerance:
            np.testing.assert_allclose(right[path], value, **tolerance, err_msg=path)
        else:
            np.testing.assert_array_equal(right[path], value, err_msg=path)


def measured(result):
    return result.best_epoch, result.metrics, result.epochs, result.collapsed


@pytest.fixture(scope="module")
def whole(pretrained_folder, tmp_path_factory):
    """A run that nothing disturbed, with dropout: its folder and its result."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    return folder, run(pretrained_folder, folder)


@pytest.mark.slow
def test_a_run_that_dies_again_and_again_ends_as_if_it_had_not(
    whole, pretrained_folder, tmp_path, monkeypatch, capsys
):
    folder = tmp_path / "run"
    arguments = pretrained_folder, folder
    # In the first epoch; before the evaluation at its end; after it; in the last epoch.
    run_until(monkeypatch, 1, *arguments, checkpoint_steps=1)
    run_until(monkeypatch, STEPS, *arguments, checkpoint_steps=1)
    run_until(monkeypatch, 7, *arguments, checkpoint_steps=2)
    # The latest checkpoint is damaged: it goes back to the one before.
    data = folder / "checkpoints" / "step-6.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[: data.stat().st_size // 2])
    capsys.readouterr()
    run_until(monkeypatch, 10, *arguments, checkpoint_steps=5)
    shown = capsys.readouterr()
    assert "step-6 cannot be restored" in shown.err
    assert "going back to step 4" in shown.err
    result = run(*arguments)
    assert "resumed at step 10" in capsys.readouterr().out
    assert measured(result) == measured(whole[1])
    assert_same(whole[0], folder)
    lines = [
        (folder / "metrics.jsonl").read_text(),
        (whole[0] / "metrics.jsonl").read_text(),
    ]
    assert lines[0] == lines[1]
    assert not (folder / "checkpoints").exists()  # nobody needs them any more


@pytest.mark.slow
def test_a_run_by_lora_ends_the_same_killed_or_computed_again(
    pretrained_folder, tmp_path, monkeypatch
):
    whole, folder = tmp_path / "whole", tmp_path / "run"
    changes = {"lora_rank": 2, "epochs": 2}
    run(pretrained_folder, whole, **changes)
    run_until(monkeypatch, 6, pretrained_folder, folder, checkpoint_steps=5, **changes)
    run(pretrained_folder, folder, **changes)
    assert_same(whole, folder)
    run(pretrained_folder, tmp_path / "remat", remat=True, **changes)
    assert_same(whole, tmp_path / "remat", **REORDERED)


def test_another_run_does_not_go_on_with_the_checkpoints_of_a_stopped_one(
    pretrained_folder, tmp_path, monkeypatch
):
    run_until(monkeypatch, 1, pretrained_folder, tmp_path, checkpoint_steps=1)
    with pytest.raises(ValueError, match="holds a run with options.learning_rate=0.003, now it is"):
        run(pretrained_folder, tmp_path, learning_rate=1e-3)
    other = dataclasses.replace(text_data(), splits={"train": texts(27, 5)})
    with pytest.raises(ValueError, match="holds a run with examples.test='9, sha256"):
        run(pretrained_folder, tmp_path, data=other)
    # Another model in the folder that the run started from.
    retrained = tmp_path / "retrained"
    shutil.copytree(pretrained_folder, retrained)
    run_until(monkeypatch, 1, retrained, tmp_path / "second", checkpoint_steps=1)
    BertEncoder(BertConfig.from_file(retrained)).save_to_preset(retrained)
    with pytest.raises(ValueError, match="holds a run with weights='[0-9a-f]{64}', now it is '"):
        run(retrained, tmp_path / "second")
    with RunFolder(tmp_path, RunFolder.open(tmp_path).settings).held():
        with pytest.raises(ValueError, match="another process is writing to"):
            run(pretrained_folder, tmp_path)
    assert {path.name for path in (tmp_path / "checkpoints").glob("*.index")} == {"step-1.index"}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"accumulation_steps": 3}, marks=pytest.mark.long, id="micro"),
        pytest.param(
            {"strategy": "mirrored", "accumulation_steps": 2}, marks=pytest.mark.slow, id="both"
        ),
    ],
)
def test_micro_batches_and_replicas_make_one_batch(changes, without_dropout, tmp_path):
    # Batches of 8, and one of 3, in three parts and in four.
    weights = {"class_weights": (1.0, 3.0)}
    whole = run(without_dropout, tmp_path / "whole", **weights)
    parts = run(without_dropout, tmp_path / "parts", **weights, **changes)
    assert_same(tmp_path / "whole", tmp_path / "parts", **REORDERED)
    for one, other in zip(whole.epochs, parts.epochs, strict=True):
        assert other["train_loss"] == pytest.approx(one["train_loss"], rel=1e-5)


# The attention of the one block has a softmax; a step that is cut has a loop.
@pytest.mark.parametrize(
    ("changes", "softmaxes", "loops"),
    [({}, 1, 0), ({"remat": True, "accumulation_steps": 2}, 2, 1)],
    ids=["plain", "saving_memory"],
)
def test_the_step_saves_memory_where_it_is_asked_to(
    changes, softmaxes, loops, pretrained_folder, tmp_path, monkeypatch
):
    found = operations_of_a_step(prepared(monkeypatch, pretrained_folder, tmp_path, **changes))
    assert (found["Softmax"], found["While"] + found["StatelessWhile"]) == (softmaxes, loops)


@pytest.mark.slow
def test_blocks_that_are_computed_again_change_nothing(whole, pretrained_folder, tmp_path):
    # With dropout: a second pass under another mask would give other gradients.
    run(pretrained_folder, tmp_path, remat=True)
    assert_same(whole[0], tmp_path, **REORDERED)


@pytest.mark.slow
def test_a_search_goes_on_inside_the_run_that_was_stopped(pretrained_folder, tmp_path, monkeypatch):
    task, data = csv_task(), text_data()
    options = FinetuningOptions(
        epochs=1, batch_size=8, mixed_precision="float32", strategy="cpu", checkpoint_steps=1
    )
    after_step = FinetuningRun.after_step

    def search_in(folder, dies_in=None):
        made = []

        def counts(self, logs):
            after_step(self, logs)
            made.append(self.step)
            if len(made) == dies_in:
                raise KilledError

        with monkeypatch.context() as patched:
            patched.setattr(FinetuningRun, "after_step", counts)
            result = search(task, data, pretrained_folder, folder, options, seeds=2)
        return result, made

    with pytest.raises(KilledError):
        search_in(tmp_path / "run", dies_in=STEPS + 2)
    result, made = search_in(tmp_path / "run")
    assert made == [3, 4]  # of the second run; the first was finished
    assert [one.result.best_epoch for one in result.runs] == [1, 1]
    assert not list(tmp_path.rglob("checkpoints"))


@pytest.mark.slow
def test_a_search_that_is_asked_to_end_between_two_runs_ends(
    pretrained_folder, tmp_path, monkeypatch, capsys
):
    task, data = csv_task(), text_data()
    options = FinetuningOptions(epochs=1, batch_size=8, mixed_precision="float32", strategy="cpu")

    class Output(io.StringIO):
        """SIGTERM comes when the second run has been announced."""

        def write(self, text):
            if text == "run seed=1":
                os.kill(os.getpid(), signal.SIGTERM)
            return super().write(text)

    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", Output())
        assert search(task, data, pretrained_folder, tmp_path, options, seeds=3) is None
    assert "stopped by SIGTERM" in capsys.readouterr().err
    assert FinetuningResult.finished(tmp_path / "runs" / "seed=0") is not None
    assert not (tmp_path / "runs" / "seed=2").exists()
    result = search(task, data, pretrained_folder, tmp_path, options, seeds=3)
    assert len(result.runs) == 3


# === The other kinds of heads ===


def tagged(count, seed):
    draw = random.Random(seed)
    for _ in range(count):
        words = tuple(draw.choices(WORDS, k=draw.randint(1, 9)))
        yield TaggedSentence(words, tuple("B-X" if w in WORDS[:4] else "O" for w in words))


def choices(count, seed):
    draw = random.Random(seed)
    for _ in range(count):
        size = draw.randint(2, 4)
        options = tuple(" ".join(draw.choices(WORDS, k=3)) for _ in range(size))
        yield ChoiceExample("it was", options, draw.randrange(size))


def questions(count, seed):
    draw = random.Random(seed)
    for index in range(count):
        words = draw.choices(WORDS, k=draw.randint(3, 12))
        place = draw.randrange(len(words))
        start = len(" ".join([*words[:place], ""]))
        answer = (Answer(words[place], start),)
        yield Question(str(index), "very fine", " ".join(words), answer)


def numbers(count, seed):
    labels = np.random.default_rng(seed).normal(size=count).astype(np.float32)
    return dataclasses.replace(texts(count, seed), labels=labels)


def many_labels(count, seed):
    labels = np.random.default_rng(seed).integers(0, 2, [count, 2]).astype(np.float32)
    return dataclasses.replace(texts(count, seed), labels=labels)


def long_texts(count, seed):
    draw = random.Random(seed)
    found = [" ".join(draw.choices(WORDS, k=draw.randint(1, 60))) for _ in range(count)]
    labels = np.random.default_rng(seed).integers(0, 2, count).astype(np.int32)
    return LabeledTexts(found, labels=labels)


def windowed():
    return csv_task(window_pooling="attention", doc_stride=8, max_windows=4)


KINDS = {
    "windows": (windowed, long_texts, ("x", "y")),
    "number": (lambda: csv_task(label_type="regression"), numbers, ()),
    "labels": (lambda: csv_task(label_type="multi_label"), many_labels, ("x", "y")),
    "tags": (conll_task, tagged, ("O", "B-X", "I-X")),
    "bilstm": (lambda: conll_task(features_from="last", lstm_width=8), tagged, ("O", "B-X", "I-X")),
    "choice": (choice_task, choices, ()),
    "span": (lambda: squad_task(doc_stride=4, max_query_length=8), questions, ()),
}


@pytest.mark.parametrize("kind", some_slow(KINDS, ("span",)))
def test_all_kinds_of_heads_can_be_cut_into_pieces(kind, without_dropout, tmp_path, monkeypatch):
    make_task, make_split, labels = KINDS[kind]
    splits = {
        name: make_split(count, seed)
        for seed, (name, count) in enumerate({"train": 27, "validation": 9}.items())
    }
    splits = {n: s if isinstance(s, LabeledTexts) else list(s) for n, s in splits.items()}
    data = TaskData(splits, labels, {"text": "text"})
    arguments = {"task": make_task(), "data": data, "max_seq_length": 24, "epochs": 2}
    run(without_dropout, tmp_path / "whole", **arguments)
    pieces = arguments | {"accumulation_steps": 3, "remat": True, "checkpoint_steps": 3}
    folder = tmp_path / "pieces"
    run_until(monkeypatch, 4, without_dropout, folder, **pieces)
    run(without_dropout, folder, **pieces)
    assert_same(tmp_path / "whole", folder, **REORDERED_FOURTEEN_UPDATES)
