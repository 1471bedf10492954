"""Options take numbers, of Python or NumPy, and say what they want."""

import dataclasses
import json

import numpy as np
import pytest

from keras_bert import (
    BertConfig,
    FinetuningOptions,
    corpus_bleu,
    create_task,
    mine_negatives,
    rerank,
    self_bleu,
)
from keras_bert.config import config_classes
from keras_bert.data.creation.options import CreationOptions
from keras_bert.generation.options import MAX_SWEEPS, GenerationOptions
from keras_bert.models.seq2seq.mask_predict import MaskPredictOptions
from keras_bert.models.seq2seq.sequence_search import SearchOptions
from keras_bert.pretraining.options import PretrainingOptions
from keras_bert.signatures.options import ExportOptions
from keras_bert.tpu.options import PlanOptions


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: FinetuningOptions(batch_size=16.0), "batch_size is 16.0: it must be a whole numb"),
        (lambda: FinetuningOptions(epochs="3"), "epochs is '3': it must be a whole number, at lea"),
        (lambda: FinetuningOptions(checkpoint_steps=0.5), "is 0.5: .* whole number, 0 or more"),
        (lambda: FinetuningOptions(reinitialized_layers=-1), "is -1: it must be 0 or more"),
        (lambda: SearchOptions(beam_size=2.5), "beam_size is 2.5: it must be a whole number, at"),
        (lambda: SearchOptions(1), "max_target_length is 1: it must be at least 2"),
        (lambda: MaskPredictOptions(iterations=1e1), "iterations is 10.0: it must be a whole numb"),
        (lambda: GenerationOptions(sweeps=2.0), "is 2.0: .* whole number, from 1 to 16,777,216"),
        (lambda: GenerationOptions(sweeps=MAX_SWEEPS + 1), "sweeps is 16777217: it must be from 1"),
        (lambda: ExportOptions(top_k=1.5), "top_k is 1.5: it must be a whole number, at least 1"),
        (
            lambda: CreationOptions(["a"], "v", "out", num_shards=0),
            "num_shards is 0: it must be at least 1",
        ),
        (
            lambda: CreationOptions(["a"], "v", "out", max_seq_length=64.0),
            "max_seq_length is 64.0: it must be a whole number",
        ),
        (
            lambda: CreationOptions(["a"], "v", "out", seed=1.5),
            "seed is 1.5: it must be a whole number, from 0",
        ),
        (lambda: FinetuningOptions(seed=-1), "seed is -1: it must be from 0 to 4,294,967,295"),
        (lambda: PlanOptions(batch_size=0), "batch_size is 0: it must be at least 1"),
        (lambda: PlanOptions(max_seq_length=-1), "max_seq_length is -1: it must be at least 1"),
        (lambda: PlanOptions(max_predictions_per_seq=0), "per_seq is 0: it must be at least 1"),
        (lambda: PlanOptions(steps=-5), "steps is -5: it must be at least 1"),
        # What cannot be left out: each ended in a traceback, here or where it was first used.
        (lambda: SearchOptions(max_target_length=None), "max_target_length is None: it must be a"),
        (lambda: MaskPredictOptions(length_candidates=None), "length_candidates is None: it must"),
        (lambda: GenerationOptions(sweeps=None), "sweeps is None: it must be a whole number, from"),
        (lambda: GenerationOptions(burn_in=None), "burn_in is None: it must be a whole number, 0"),
        (lambda: ExportOptions(generate_top_k=None), "generate_top_k is None: it must be a whole"),
        (lambda: create_task("seq2seq", max_target_length=None), "max_target_length is None: it"),
        (lambda: corpus_bleu([["a"]], [["a"]], None), "max_order is None: it must be a whole"),
        (lambda: self_bleu([["a"], ["b"]], 1.5), "max_order is 1.5: it must be a whole number"),
        (lambda: mine_negatives(None, ["a"], ["b"], count=None), "count is None: it must be a"),
    ],
)
def test_what_counts_is_a_whole_number_in_its_range(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: SearchOptions(length_penalty=None), "length_penalty is None: it must be a number"),
        (lambda: GenerationOptions(temperature="1"), "temperature is '1': it must be a number"),
        (lambda: ExportOptions(null_threshold="1"), "null_threshold is '1': it must be a number"),
        (lambda: rerank([["a"]], None, weight=None), "weight is None: it must be a number"),
        (
            lambda: mine_negatives(None, ["a"], ["b"], relative_margin="0.1"),
            "relative_margin is '0.1': it must be a number",
        ),
        (lambda: create_task("retrieval", temperature="1"), "temperature is '1': it must be a num"),
        (lambda: create_task("retrieval", teacher_weight="1"), "teacher_weight is '1': it must be"),
        (lambda: create_task("similarity", max_score="5"), "max_score is '5': it must be a number"),
        (lambda: create_task("retrieval", query_prompt=5), "query_prompt is a int: give a string"),
        (lambda: ExportOptions(document_prompt=5), "document_prompt is a int: give a string"),
        # It was taken for True.
        (lambda: ExportOptions(normalize="no"), "normalize is 'no': it must be True or False, or"),
        (lambda: ExportOptions(text_pair="no"), "text_pair is 'no': it must be True or False, or"),
    ],
)
def test_other_values_are_of_their_kind(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_numbers_of_numpy_are_kept_in_the_files_of_a_run():
    task = create_task(
        "seq2seq",
        max_target_length=np.int64(8),
        beam_size=np.int32(2),
        length_penalty=np.float32(0.5),
    )
    assert json.loads(json.dumps(task.head.settings()))["length_penalty"] == 0.5
    task = create_task("retrieval", temperature=np.float32(0.5), teacher_weight=np.float32(1))
    assert json.loads(json.dumps(task.head.settings()))["temperature"] == 0.5
    for task in (
        create_task("squad", doc_stride=np.int64(8)),
        create_task("csv", window_pooling="mean", doc_stride=np.int64(8)),
    ):
        assert json.loads(json.dumps(task.head.settings()))["doc_stride"] == 8
    task = create_task("gliner", max_types=np.int64(8), focal_gamma=np.float32(0.5))
    assert json.loads(json.dumps(task.head.settings()))["focal_gamma"] == 0.5
    for given in (np.array([8, 4]), [np.int64(8), 4]):
        task = create_task("retrieval", matryoshka_dims=given)
        assert json.loads(json.dumps(task.head.settings()))["matryoshka_dims"] == [8, 4]


@pytest.mark.parametrize("config_class", config_classes(BertConfig).values())
def test_numbers_of_numpy_make_the_same_config(config_class):
    kinds = {int: np.int64, float: np.float64, bool: np.bool_}
    plain = dataclasses.asdict(config_class())
    given = {
        name: kinds.get(type(value), lambda kept: kept)(value) for name, value in plain.items()
    }
    config = config_class(**given)
    assert json.dumps(dataclasses.asdict(config)) == json.dumps(plain)
    assert config == config_class() and type(config.hidden_dropout_prob) is float
    rate = config_class(hidden_dropout_prob=np.float32(0.5)).hidden_dropout_prob
    assert rate == 0.5 and type(rate) is float
    with pytest.raises(ValueError, match="hidden_size is True"):
        config_class(hidden_size=np.True_)


def test_whole_numbers_of_numpy_count():
    options = FinetuningOptions(batch_size=np.int64(16), patience=np.int32(2))
    assert json.dumps([options.batch_size, options.patience]) == "[16, 2]"


@pytest.mark.parametrize(
    "make",
    [
        lambda count, rate: FinetuningOptions(epochs=count, learning_rate=rate),
        lambda count, rate: PretrainingOptions("a", "b", train_steps=count, learning_rate=rate),
        lambda count, rate: CreationOptions("a", "b", "c", seed=count, short_seq_prob=rate),
    ],
)
def test_options_of_numpy_are_those_of_python(make):
    taken = dataclasses.asdict(make(np.int64(3), np.float32(0.5)))
    assert json.dumps(taken) == json.dumps(dataclasses.asdict(make(3, 0.5)))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: FinetuningOptions(learning_rate="1e-4"), "is the string '1e-4': give a number"),
        (lambda: PretrainingOptions("a", "b", learning_rate="1e-4"), "learning_rate is the string"),
        (
            lambda: PretrainingOptions("a", "b", remat="no"),
            "remat is the string 'no': give True",
        ),
        (lambda: CreationOptions("a", "b", "c", pack="false"), "pack is the string 'false': give"),
    ],
)
def test_a_string_is_no_number_and_no_switch(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
