"""Fine-tuning through its public API on a task whose right answers are known."""

import dataclasses
import functools
import json
import math
from pathlib import Path

import numpy as np
import pytest

from keras_bert import BertClassifier, BertConfig, BertEncoder, BertTokenizer
from keras_bert.checkpoints import hugging_face
from keras_bert.finetuning.finetune import finetune
from keras_bert.finetuning.options import FinetuningOptions
from keras_bert.finetuning.search import search
from keras_bert.finetuning.task import TaskData
from keras_bert.models import preset
from keras_bert.tasks.classification.delimited import csv_task
from keras_bert.tasks.classification.head import LabeledTexts
from keras_bert.tasks.finetuned_model import FinetunedModel
from tests.tolerances import REORDERED, UNMOVED, approx

SHORT = {"epochs": 1, "batch_size": 8, "mixed_precision": "float32"}
TEXTS = ["good", "bad", "fine", "sad"] * 8


def small_data(labels=("no", "yes"), pairs=False):
    texts = LabeledTexts(
        TEXTS, TEXTS if pairs else None, np.arange(32, dtype=np.int32) % len(labels)
    )
    columns = {"text": "text", "text_pair": "text_pair"} if pairs else {"text": "text"}
    return TaskData({"train": texts}, tuple(labels), columns)


def embeddings(folder):
    return BertEncoder.from_preset(folder).word_embeddings.weights[0].numpy()


def test_a_separable_task_is_learned(sentiment_run):
    _, result = sentiment_run
    assert result.validation["accuracy"] > 0.9
    assert result.test["accuracy"] > 0.9
    assert result.epochs[-1]["train_loss"] < 0.5 * math.log(2)


@pytest.mark.slow
def test_the_best_epoch_is_what_is_written(pretrained_folder, sentiment_folder, tmp_path):
    # With every label of the validation data wrong, the model gets worse as it learns.
    task = csv_task()
    data = task.read(sentiment_folder)
    validation = data.splits["validation"]
    wrong = dataclasses.replace(validation, labels=1 - validation.labels)
    splits = {"train": data.splits["train"], "validation": wrong, "test": wrong}
    data = dataclasses.replace(data, splits=splits)
    options = FinetuningOptions(
        epochs=3, batch_size=32, learning_rate=1e-3, mixed_precision="float32"
    )
    result = finetune(task, data, pretrained_folder, tmp_path, options)
    losses = [epoch["validation"]["loss"] for epoch in result.epochs]
    assert losses == sorted(losses)
    assert result.best_epoch == 1
    assert result.validation == result.test == result.epochs[0]["validation"]
    scores = FinetunedModel.load(tmp_path).predict(wrong.texts)
    own = scores[np.arange(len(wrong)), wrong.labels]
    assert -np.log(own).mean() == approx(losses[0], REORDERED)


@pytest.mark.slow
def test_of_errors_the_least_is_the_best(pretrained_folder, sentiment_folder, tmp_path):
    def mean_error(probabilities, labels):
        return float(np.mean(1 - probabilities[np.arange(len(labels)), labels]))

    task = dataclasses.replace(csv_task(), metrics={"mean_error": mean_error})
    options = FinetuningOptions(
        epochs=2, batch_size=16, learning_rate=3e-3, mixed_precision="float32"
    )
    result = finetune(task, task.read(sentiment_folder), pretrained_folder, tmp_path, options)
    first, second = (epoch["validation"] for epoch in result.epochs)
    assert second["mean_error"] < 0.5 * first["mean_error"]
    assert result.best_epoch == 2 and result.validation == second


def test_the_run_folder_tells_everything(sentiment_run):
    folder, result = sentiment_run
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["metrics"]["test"] == result.test
    assert [epoch["epoch"] for epoch in metrics["epochs"]] == [1, 2, 3, 4]
    assert json.loads((folder / "task.json").read_text()) == {
        "task": "csv",
        "head": {"kind": "text", "label_type": "class"},
        "labels": ["neg", "pos"],
        "text_columns": {"text": "text"},
        "max_seq_length": 64,  # the model has no more positions
    }
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [(line["split"], line["step"]) for line in lines] == [
        (split, step) for step in (48, 96, 144, 192) for split in ("train", "validation")
    ]
    assert BertClassifier.from_preset(folder).labels == ["neg", "pos"]


def test_numbers_are_learned_from_pairs(pretrained_folder, tmp_path):
    # The label is +1 where the second text is kind and -1 where it is not.
    draw = np.random.default_rng(0)
    second = draw.choice(["good", "great", "bad", "awful"], size=640)
    labels = np.where(np.isin(second, ["good", "great"]), 1, -1).astype(np.float32)
    first = draw.choice(["the film", "a book", "it was"], size=640)
    split = [slice(0, 576), slice(576, 640)]
    train, validation = (LabeledTexts(list(first[s]), list(second[s]), labels[s]) for s in split)
    columns = {"text": "text", "text_pair": "text_pair"}
    data = TaskData({"train": train, "validation": validation}, (), columns)
    options = FinetuningOptions(
        epochs=4, batch_size=16, learning_rate=3e-3, mixed_precision="float32"
    )
    task = csv_task(label_type="regression")
    result = finetune(task, data, pretrained_folder, tmp_path / "run", options)
    assert list(result.validation) == ["pearson", "spearman", "mean_squared_error", "loss"]
    assert result.validation["pearson"] > 0.9
    assert result.validation["mean_squared_error"] < 0.2
    assert result.test == {}


def test_scratch_takes_the_shape_and_pretrained_takes_the_weights(pretrained_folder, tmp_path):
    tiny_steps = {**SHORT, "learning_rate": 1e-7}
    for scratch in (False, True):
        options = FinetuningOptions(**tiny_steps, from_scratch=scratch)
        finetune(csv_task(), small_data(), pretrained_folder, tmp_path / str(scratch), options)
    start = embeddings(pretrained_folder)
    np.testing.assert_allclose(embeddings(tmp_path / "False"), start, **UNMOVED)
    assert np.abs(embeddings(tmp_path / "True") - start).mean() > 0.01
    assert embeddings(tmp_path / "True").shape == start.shape


def test_a_run_can_start_from_another_programs_folder(pretrained_folder, tmp_path):
    """Padded embeddings, and a config of which only the weights tell whose it is."""
    tokenizer, theirs = BertTokenizer.from_preset(pretrained_folder), tmp_path / "theirs"
    rows = 64
    assert len(tokenizer.vocabulary) < rows
    config = BertConfig.from_file(pretrained_folder).replace(vocab_size=rows)
    tokenizer.save(theirs)
    hugging_face.write(preset.as_checkpoint(BertEncoder(config)), theirs)
    values = config.to_dict("hf") | {"num_beams": 1, "colour": "red"}
    (theirs / "config.json").write_text(json.dumps(values), encoding="utf-8")
    options = FinetuningOptions(**SHORT, learning_rate=1e-7)
    with pytest.raises(ValueError, match="unknown config key 'colour'"):
        finetune(csv_task(), small_data(), theirs, tmp_path / "run", options)
    options = dataclasses.replace(options, ignore_config_keys=("colour",))
    finetune(csv_task(), small_data(), theirs, tmp_path / "run", options)
    assert embeddings(tmp_path / "run").shape[0] == rows
    before = BertEncoder.from_preset(theirs, ["colour"]).word_embeddings.weights[0]
    np.testing.assert_allclose(embeddings(tmp_path / "run"), before, atol=1e-5)


def test_a_run_can_start_from_a_fine_tuned_folder(sentiment_run, tmp_path):
    options = FinetuningOptions(**SHORT, learning_rate=1e-7)
    data = small_data(labels=("a", "b", "c"))
    finetune(csv_task(), data, sentiment_run[0], tmp_path / "next", options)
    written = BertClassifier.from_preset(tmp_path / "next")
    assert written.labels == ["a", "b", "c"]
    assert written.problem_type == "single_label_classification"
    start = embeddings(sentiment_run[0])
    np.testing.assert_allclose(embeddings(tmp_path / "next"), start, **UNMOVED)


@pytest.mark.half_precision
@pytest.mark.parametrize("precision", ["bfloat16", pytest.param("float16", marks=pytest.mark.long)])
def test_mixed_precision_trains_and_is_written_in_float32(pretrained_folder, tmp_path, precision):
    options = FinetuningOptions(
        epochs=2, batch_size=8, learning_rate=1e-3, mixed_precision=precision
    )
    result = finetune(csv_task(), small_data(), pretrained_folder, tmp_path, options)
    assert math.isfinite(result.epochs[-1]["train_loss"])
    written = embeddings(tmp_path)
    assert written.dtype == np.float32
    assert np.abs(written - embeddings(pretrained_folder)).max() > 1e-4


def test_the_same_run_ends_the_same_and_another_is_refused(pretrained_folder, tmp_path):
    def run(folder, **changes):
        options = FinetuningOptions(**SHORT, learning_rate=1e-3, **changes)
        return finetune(csv_task(), small_data(), pretrained_folder, folder, options)

    first = run(tmp_path / "a")
    weights = embeddings(tmp_path / "a")
    assert run(tmp_path / "a").epochs == first.epochs
    np.testing.assert_array_equal(embeddings(tmp_path / "a"), weights)
    assert run(tmp_path / "b", seed=1).epochs != first.epochs

    before = (tmp_path / "a" / "metrics.json").read_bytes()
    with pytest.raises(ValueError, match="holds a run with options.seed=0, now it is 1"):
        run(tmp_path / "a", seed=1)
    assert (tmp_path / "a" / "metrics.json").read_bytes() == before


def test_a_run_keeps_its_number_format(pretrained_folder, tmp_path):
    """As "auto" may be another one on the machine where it goes on."""
    file = tmp_path / "run.json"

    def run(precision):
        options = FinetuningOptions(epochs=1, batch_size=8, mixed_precision=precision)
        finetune(csv_task(), small_data(), pretrained_folder, tmp_path, options)
        return json.loads(file.read_text())

    settings = run("auto")
    began = settings["options"]["mixed_precision"]
    other = {"bfloat16": "float32", "float32": "bfloat16"}[began]
    run(began)
    with pytest.raises(ValueError, match=f"run in {began}, but .* --mixed_precision={began}, or"):
        run(other)
    # As an earlier version wrote it: nobody knows what it was.
    settings["options"]["mixed_precision"] = "auto"
    file.write_text(json.dumps(settings))
    run(other)


def test_a_bucket_is_refused(pretrained_folder):
    with pytest.raises(ValueError, match="model_dir is gs://bucket/run, but this is"):
        finetune(csv_task(), small_data(), pretrained_folder, "gs://bucket/run")
    with pytest.raises(ValueError, match="model_dir is gs:/bucket/run, but this is"):
        folder = Path("gs://bucket/run")
        search(csv_task(), small_data(), pretrained_folder, folder, FinetuningOptions())


def test_a_file_is_no_folder_of_a_run(pretrained_folder, tmp_path):
    (tmp_path / "run").write_text("before")
    start = csv_task(), small_data(), pretrained_folder, tmp_path / "run"
    for make in (finetune, functools.partial(search, options=FinetuningOptions(), seeds=2)):
        with pytest.raises(ValueError, match="^model_dir is .*run, which is a file: name a folder"):
            make(*start)
    assert (tmp_path / "run").read_text() == "before"
    # Told before the training, not when the model is written.
    (tmp_path / "lora").mkdir()
    (tmp_path / "lora" / "adapter_config.json").write_text("{}")
    for make in (finetune, functools.partial(search, options=FinetuningOptions(), seeds=2)):
        with pytest.raises(ValueError, match="lora is a folder of an adapter of PEFT .*choose"):
            make(*start[:3], tmp_path / "lora")


def test_a_folder_with_a_foreign_model_is_not_overwritten(pretrained_folder):
    before = (pretrained_folder / "model.weights.h5").read_bytes()
    with pytest.raises(ValueError, match="holds a model that no fine-tuning run wrote"):
        finetune(csv_task(), small_data(), pretrained_folder, pretrained_folder)
    assert (pretrained_folder / "model.weights.h5").read_bytes() == before


@pytest.mark.parametrize(
    ("length", "sentence"),
    [(65, "max_seq_length is 65 but the model has 64 positions"), (0, "max_seq_length is 0; ")],
)
def test_a_sequence_length_that_cannot_be_is_refused_before_training(
    pretrained_folder, tmp_path, length, sentence
):
    options = FinetuningOptions(max_seq_length=length)
    with pytest.raises(ValueError, match=sentence):
        finetune(csv_task(), small_data(), pretrained_folder, tmp_path / "run", options)
    assert not (tmp_path / "run").exists()


def test_pairs_need_a_model_of_two_segments(pretrained_folder, tmp_path):
    tokenizer = BertTokenizer.from_preset(pretrained_folder)
    config = BertConfig.from_file(pretrained_folder).replace(type_vocab_size=1)
    BertEncoder(config).save_to_preset(tmp_path / "one", tokenizer)
    with pytest.raises(ValueError, match="type_vocab_size is 1: it needs 2 segments"):
        finetune(csv_task(), small_data(pairs=True), tmp_path / "one", tmp_path / "run")


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        # Written into task.json, numbers made a folder that could not be opened.
        ([0, 1], r"^label 0 \(counted from 0\) is a int: give strings$"),
        ("ab", "^labels is the string 'ab', which would be read letter by letter: give a list"),
        (("a", "b", "a"), "^labels has a twice: name each once$"),
    ],
)
def test_names_of_classes_are_strings_each_once(labels, sentence):
    splits = {"train": LabeledTexts(["good", "bad"], labels=[0, 1])}
    with pytest.raises(ValueError, match=sentence):
        TaskData(splits, labels=labels)
    for names in (["a", "b"], np.array(["a", "b"])):
        assert TaskData(splits, labels=names).labels == ("a", "b")


@pytest.mark.parametrize("name", ["train", "validation", "test", "unlabeled"])
def test_a_split_has_examples(name, pretrained_folder, tmp_path):
    empty = LabeledTexts([], labels=None if name == "unlabeled" else [])
    splits = {**small_data().splits, name: empty}
    data = dataclasses.replace(small_data(), splits=splits)
    with pytest.raises(ValueError, match=f"^the split '{name}' has no examples: give some, or"):
        finetune(csv_task(), data, pretrained_folder, tmp_path / "run")
    data = dataclasses.replace(data, splits={"test": splits["train"], "dev": splits["train"]})
    with pytest.raises(ValueError, match=r"no split 'train' \(there are test, dev\): name one"):
        finetune(csv_task(), data, pretrained_folder, tmp_path / "run")
    with pytest.raises(ValueError, match=r"no split 'train' \(there are test, dev\): name one"):
        FinetunedModel.from_task(csv_task(), data, pretrained_folder)
    assert not (tmp_path / "run").exists()


def test_a_lost_loss_ends_the_run_without_a_model(pretrained_folder, tmp_path):
    options = FinetuningOptions(**SHORT, learning_rate=1e30, checkpoint_steps=1)
    with pytest.raises(ValueError, match=r"the loss is (nan|inf) at step .*lower --learning_rate"):
        finetune(csv_task(), small_data(), pretrained_folder, tmp_path, options)
    assert not (tmp_path / "config.json").exists()
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("epochs", 0),
        ("batch_size", 0),
        ("learning_rate", 0.0),
        ("warmup_proportion", 1.0),
        ("accumulation_steps", 0),
        ("checkpoint_steps", -1),
    ],
)
def test_options_out_of_range_are_refused(field, value):
    with pytest.raises(ValueError, match=f"{field} is {value}"):
        FinetuningOptions(**{field: value})
