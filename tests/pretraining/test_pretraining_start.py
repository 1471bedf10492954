"""Where a run starts from: its own checkpoint, another run, a model; what it refuses of them."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertConfig, BertPretrainer, BertTokenizer, RobertaConfig
from keras_bert.checkpoints import hugging_face
from keras_bert.config import read_json
from keras_bert.data.records.record_set import PretrainingData
from keras_bert.models import preset
from keras_bert.pretraining.evaluation import evaluation_part
from keras_bert.pretraining.objectives.masked_lm import MaskedLanguageModel
from keras_bert.pretraining.options import PretrainingOptions
from keras_bert.pretraining.pretrain import create_model, load_config
from keras_bert.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from keras_bert.training import precision
from keras_bert.training.run_folder import RunFolder
from tests import command_process
from tests.pretraining.pretraining_runs import (
    WORDS,
    metrics_of,
    run_options,
    run_pretraining,
    tiny_config,
    without_dropout,
)


@pytest.fixture(scope="module")
def first(corpus, tmp_path_factory):
    """A run of four steps."""
    folder = tmp_path_factory.mktemp("runs") / "first"
    run_pretraining(corpus, folder, train_steps=4, schedule_steps=8)
    return folder


def _with_swapped_words(corpus, folder):
    """Writes the records as if the first two words of the vocabulary had changed places."""
    shutil.copytree(corpus / "records", folder)
    before = BertTokenizer.from_preset(folder).vocabulary
    swapped = Vocabulary([*SPECIAL_TOKENS, WORDS[1], WORDS[0], *WORDS[2:]])
    BertTokenizer(swapped).save(folder)
    manifest = (folder / "manifest.json").read_text()
    assert before.sha256 in manifest
    (folder / "manifest.json").write_text(manifest.replace(before.sha256, swapped.sha256))
    return str(folder)


@pytest.mark.parametrize("source", ["", "preset"], ids=["a run", "a model"])
def test_records_of_another_vocabulary_of_the_same_size_are_refused(
    corpus, first, tmp_path, source
):
    records = _with_swapped_words(corpus, tmp_path / "records")
    with pytest.raises(ValueError, match=r"first.* was trained with another vocabulary .* than"):
        run_pretraining(
            corpus,
            tmp_path / "next",
            data_dir=records,
            train_steps=8,
            init_from=str(first / source),
        )
    assert not (tmp_path / "next").exists()


def test_a_model_of_another_program_with_an_unknown_key(tmp_path):
    config, told = tiny_config(), {"ignore_config_keys": ("colour",)}
    source = BertPretrainer(config)
    hugging_face.write(preset.as_checkpoint(source), tmp_path)
    file = tmp_path / "config.json"
    file.write_text(json.dumps(read_json(file) | {"colour": "red"}), encoding="utf-8")
    options = PretrainingOptions("", "", init_from=str(tmp_path), mixed_precision="float32")
    with pytest.raises(ValueError, match="unknown config key 'colour'"):
        load_config(str(file), 0)
    with pytest.raises(ValueError, match="unknown config key 'colour'"):
        create_model(MaskedLanguageModel(), config, options, packed=False, restored=False)
    assert load_config(str(file), 0, **told) == config
    options = dataclasses.replace(options, **told)
    model = create_model(MaskedLanguageModel(), config, options, packed=False, restored=False)
    for ours, theirs in zip(model.weights, source.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_folder_that_is_called_as_a_size(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = tiny_config()
    for name in ("bert_mini", "my_bert"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(config.to_dict()))
    assert load_config("bert_mini", 50) == BertConfig.from_name("bert_mini", vocab_size=50)
    assert load_config("./bert_mini/config.json", 50) == config
    assert load_config("my_bert", 50) == config
    with pytest.raises(ValueError, match="'your_bert' is not a named size: choose one of"):
        load_config("your_bert", 50)


def test_a_folder_with_an_equals_sign_that_is_not_there(tmp_path):
    flags = [f"--data_dir=a=b{tmp_path}/c", f"--model_dir={tmp_path / 'run'}", "--model=bert_tiny"]
    tool = Path(__file__).parents[2] / "tools" / "run_pretraining.py"
    done = command_process.run([tool, *flags])
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith(
        f"b{tmp_path}/c is not a folder of records (of --data_dir, read as a=b{tmp_path}/c: "
        "NAME=FOLDER; a folder with = in its name is given as ./FOLDER)"
    )


@pytest.mark.slow
def test_a_run_with_a_checkpoint_of_its_own_needs_its_source_no_more(
    corpus, first, tmp_path, capsys
):
    shutil.copytree(first / "preset", tmp_path / "model")
    run = {"train_steps": 3, "init_from": str(tmp_path / "model")}
    run_pretraining(corpus, tmp_path / "next", **run)
    shutil.rmtree(tmp_path / "model")
    run_pretraining(corpus, tmp_path / "next", **run)
    assert "resumed at step 3" in capsys.readouterr().out


def test_a_run_goes_on_from_one_that_was_stopped_before_its_first_model(
    corpus, first, tmp_path, capsys
):
    shutil.copytree(first, tmp_path / "stopped")
    shutil.rmtree(tmp_path / "stopped" / "preset")
    run = {"train_steps": 8, "init_from": str(tmp_path / "stopped")}
    run_pretraining(corpus, tmp_path / "next", **run)
    assert "resumed at step 4" in capsys.readouterr().out
    assert metrics_of(tmp_path / "next", "train")[-1]["step"] == 8


@pytest.mark.slow
@pytest.mark.half_precision
def test_a_run_goes_on_in_another_format_with_the_range_of_float32(corpus, tmp_path, capsys):
    # Where "auto" is bfloat16 on one machine and float32 on the next.
    changes = {"mixed_precision": "bfloat16"}
    run_pretraining(corpus, tmp_path / "first", train_steps=2, **changes)
    source = str(tmp_path / "first")
    run_pretraining(corpus, tmp_path / "next", train_steps=4, init_from=source)
    source = str(tmp_path / "next")
    run_pretraining(corpus, tmp_path / "last", train_steps=6, init_from=source, **changes)
    told = capsys.readouterr().out
    assert "resumed at step 2" in told and "resumed at step 4" in told


def _as_of_a_machine(monkeypatch, tmp_path, fast):
    """Makes a machine whose processor multiplies bfloat16 fast, or does not."""
    (tmp_path / "cpuinfo").write_text("flags\t\t: amx_bf16" if fast else "flags\t\t: avx2")
    monkeypatch.setattr(precision, "_CPU_INFO", tmp_path / "cpuinfo")
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)


@pytest.mark.slow
@pytest.mark.skipif(
    bool(tf.config.list_physical_devices("GPU")), reason="a GPU is asked before the processor"
)
def test_a_run_keeps_the_number_format_in_which_auto_began(corpus, tmp_path, monkeypatch, capsys):
    run = {"train_steps": 2, "mixed_precision": "auto"}
    _as_of_a_machine(monkeypatch, tmp_path, fast=False)
    run_pretraining(corpus, tmp_path / "run", **run)
    run_pretraining(corpus, tmp_path / "run", **run | {"mixed_precision": "float32"})
    run_pretraining(corpus, tmp_path / "run", **run)
    _as_of_a_machine(monkeypatch, tmp_path, fast=True)
    message = "holds a run in float32, but .* 'bfloat16' here: go on with --mixed_precision=f"
    with pytest.raises(ValueError, match=message):
        run_pretraining(corpus, tmp_path / "run", **run)
    run_pretraining(corpus, tmp_path / "run", **run | {"mixed_precision": "float32"})
    assert capsys.readouterr().out.count("float32, resumed at step 2") == 3
    # As an earlier version wrote it: nobody knows what it was, from now on it is what goes on.
    file = tmp_path / "run" / "run.json"
    settings = read_json(file)
    settings["options"]["mixed_precision"] = "auto"
    del settings["records"]
    file.write_text(json.dumps(settings))
    _as_of_a_machine(monkeypatch, tmp_path, fast=False)
    run_pretraining(corpus, tmp_path / "run", **run)
    assert read_json(file)["options"]["mixed_precision"] == "float32"
    assert read_json(file)["records"]["sentence_task"] == "nsp"


@pytest.mark.parametrize(
    ("name", "value"),
    [("sentence_task", "sop"), ("word_segmenter", "jieba"), ("max_predictions_per_seq", 4)],
)
def test_a_run_goes_on_with_records_of_its_kind(corpus, first, tmp_path, name, value):
    shutil.copytree(first, tmp_path / "run")
    records = shutil.copytree(corpus / "records", tmp_path / "records")
    manifest = read_json(records / "manifest.json") | {name: value}
    (records / "manifest.json").write_text(json.dumps(manifest))
    shown = name.replace("word_segmenter", "segmented")
    with pytest.raises(ValueError, match=rf"holds a run with records\.{shown}=.*, now it is"):
        run_pretraining(
            corpus, tmp_path / "run", data_dir=str(records), train_steps=4, schedule_steps=8
        )


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"train_steps": 4}, "stands at step 4 and train_steps is 4"),
        ({"optimizer": "lamb"}, "holds the moments of adamw, but optimizer is 'lamb'"),
        ({"mixed_precision": "float16"}, "computed in float32, but mixed_precision is 'float16'"),
        (
            {"objective": "left_to_right", "next_sentence": False},
            "has the objective masked, but objective is left_to_right: .* only its weights",
        ),
        ({"init_from": "nowhere"}, "nowhere is not a folder"),
        ({"init_from": "hf://nobody/nothing"}, "hf://nobody/nothing cannot be fetched"),
        ({"time_budget": 5.0, "warmup_steps": 9}, "warmup_steps is 9 and train_steps is 8"),
        ({"time_budget": 5.0, "warmup_steps": 8}, "warmup_steps is 8 and train_steps is 8"),
    ],
)
def test_a_start_that_cannot_be_is_refused(corpus, first, tmp_path, monkeypatch, changes, sentence):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    changes = {"train_steps": 8, "init_from": str(first)} | changes
    with pytest.raises((ValueError, FileNotFoundError), match=sentence):
        run_pretraining(corpus, tmp_path / "next", **changes)
    assert not (tmp_path / "next").exists()


def test_a_run_whose_path_is_a_pattern_is_refused(corpus, first, tmp_path):
    shutil.copytree(first, tmp_path / "run[1]")
    source = str(tmp_path / "run[1]")
    with pytest.raises(ValueError, match=r"init_from .*run\[1\] has \[, \], \* or \? in its path"):
        run_pretraining(corpus, tmp_path / "next", train_steps=8, init_from=source)


def test_a_folder_of_a_fine_tuning_run_is_refused(corpus, sentiment_run, tmp_path):
    folder = shutil.copytree(sentiment_run[0], tmp_path / "tuned")
    message = (
        r"tuned holds a run of fine-tuning, and this is one of pretraining: choose another --m"
    )
    with pytest.raises(ValueError, match=message):
        run_pretraining(corpus, folder)


def test_a_fine_tuned_folder_is_a_model_and_not_a_run(corpus, sentiment_run, tmp_path):
    # Its run.json is of other settings; what is compared are the vocabularies, as of any model.
    source = str(sentiment_run[0])
    with pytest.raises(ValueError, match="was trained with another vocabulary"):
        run_pretraining(corpus, tmp_path / "next", init_from=source)


@pytest.mark.slow
def test_dropout_is_that_of_the_model_that_was_asked_for(corpus, first, tmp_path):
    run_pretraining(
        corpus,
        tmp_path / "next",
        config=without_dropout(),
        train_steps=2,
        init_from=str(first / "preset"),
    )
    assert tiny_config().hidden_dropout_prob == 0.1
    trained = BertPretrainer.from_preset(tmp_path / "next" / "preset")
    assert trained.config.hidden_dropout_prob == 0.0


def test_one_process_at_a_time_writes_into_a_run_folder(tmp_path):
    message = "another process is writing to .*: wait until it"
    with RunFolder(tmp_path, {}).held():
        with pytest.raises(ValueError, match=message), RunFolder(tmp_path, {}).held():
            pass
    with RunFolder(tmp_path, {}).held():  # the first has given it back
        assert tmp_path.is_dir()


@pytest.mark.slow
def test_a_run_that_another_process_writes_is_refused(corpus, first):
    with RunFolder(first, RunFolder.open(first).settings).held():
        with pytest.raises(ValueError, match="another process is writing to"):
            run_pretraining(corpus, first, train_steps=4, schedule_steps=8)


def test_held_out_batches_are_as_large_as_micro_batches(corpus):
    data = PretrainingData(corpus / "records")
    options = run_options(corpus / "records", "run", batch_size=24, accumulation_steps=3)
    tokenizer = BertTokenizer.from_preset(data.folder)
    targets = MaskedLanguageModel().targets(options, tokenizer, data)
    seen = []
    for pipeline in range(2):
        context = tf.distribute.InputContext(2, pipeline, 4)
        batches = evaluation_part(data, targets, options, context)
        assert batches.element_spec["input_ids"].shape[0] == 24 / 3 / 4
        seen += [float(tf.reduce_sum(batch["example_weights"])) for batch in batches]
    assert sum(seen) == data.num_examples


def test_another_id_of_padding_is_refused(corpus, tmp_path):
    config = RobertaConfig(**dataclasses.asdict(tiny_config()) | {"pad_token_id": 1})
    with pytest.raises(ValueError, match="pad_token_id is 1 and the vocabulary's padding 0; pos"):
        run_pretraining(corpus, tmp_path / "run", config=config)
