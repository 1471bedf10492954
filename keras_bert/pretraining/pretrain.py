"""Pretraining: records in, a run folder with checkpoints, metrics and a preset out."""

import dataclasses
import os
import platform
import shlex
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_bert.config import BertConfig
from keras_bert.data.records.record_set import PretrainingData
from keras_bert.models.pretrainer import BertPretrainer
from keras_bert.pretraining.checks import check_data, check_options, check_steps
from keras_bert.pretraining.inputs import (
    Masking,
    create_evaluation,
    create_masking,
    damage_named,
    distributed_batches,
    open_records,
)
from keras_bert.pretraining.model import (
    create_model,
    create_optimizer_and_schedule,
    restore,
)
from keras_bert.pretraining.options import PretrainingOptions
from keras_bert.pretraining.run import PretrainingRun, RunParts
from keras_bert.pretraining.run_state import RunState
from keras_bert.pretraining.source import check_source
from keras_bert.pretraining.step import PretrainingStep, make_training_loop
from keras_bert.storage import hub
from keras_bert.storage.remote_folders import RunLocation, local_copy, run_location
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.training.base_optimizer import BaseOptimizer
from keras_bert.training.checkpointing import TrainingCheckpoint, has_checkpoint
from keras_bert.training.cluster import check_workers, is_chief
from keras_bert.training.devices import describe_devices, package_versions, peak_tflops
from keras_bert.training.flops import pretraining_flops
from keras_bert.training.precision import DynamicLossScale
from keras_bert.training.run_folder import RunFolder
from keras_bert.training.strategy import compiles_step, has_other_hosts

# Options that a resumed run may change: they do not touch the model, the data or the schedule.
_FREE_OPTIONS = (
    "model_dir data_dir eval_data_dir steps_per_loop checkpoint_steps eval_steps keep_checkpoints "
    "accumulation_steps max_skipped_steps peak_tflops remat ignore_config_keys"
).split()


def pretrain(
    config: BertConfig, options: PretrainingOptions, strategy: tf.distribute.Strategy
) -> dict[str, float] | None:
    """Pretrains a `BertPretrainer`; returns the metrics of the last evaluation.

    The order of initialisation is: the run's own checkpoint > `init_from` (another run's checkpoint
    with its moments and step, or a model's weights) > fresh weights.

    Args:
        config: the model's numbers.
        options: everything else.
        strategy: where it runs.

    Returns:
        The metrics, empty without held-out records; None when SIGTERM ended the run early. It is
        saved then, and the same call goes on with it.

    Raises:
        FileNotFoundError: there are no records.
        ValueError: options, records, vocabulary and config do not fit each other, or too many steps
            in a row were not finite.
    """
    inputs = _check(config, options, strategy)
    trained = _build(inputs, options, strategy)
    resumed = restore(trained.checkpoint, trained.state, options)
    step = trained.checkpoint.step
    check_steps(options, step, inputs.goes_on)
    check_workers(strategy, step, _of_all_workers(inputs, options))
    run = _create_run(inputs, trained, options, strategy)
    with inputs.folder.held(), damage_named(inputs.data, inputs.eval_data):
        inputs.folder.start(step, ("eval",) if run.evaluates_first else ())
        inputs.folder.note_start(_start(step))
        run.announce(trained.model, inputs.data, resumed)
        return run.train()


class _Inputs(NamedTuple):
    """What a run is made of, checked against each other before anything is built."""

    config: BertConfig
    data: PretrainingData
    eval_data: PretrainingData | None
    tokenizer: BertTokenizer
    masking: Masking
    settings: dict[str, Any]
    location: RunLocation
    folder: RunFolder
    goes_on: bool  # from a checkpoint of its own


class _Trained(NamedTuple):
    """What a checkpoint holds, and what it is trained with."""

    model: BertPretrainer
    optimizer: BaseOptimizer
    schedule: Any
    loss_scale: DynamicLossScale | None
    state: RunState
    checkpoint: TrainingCheckpoint


def _check(
    config: BertConfig, options: PretrainingOptions, strategy: tf.distribute.Strategy
) -> _Inputs:
    data = open_records(options.data_dir, strategy)
    eval_data = open_records(options.eval_data_dir, strategy) if options.eval_data_dir else None
    tokenizer = check_data(config, data, eval_data)
    check_options(options, data, strategy)
    config = config.replace(left_to_right=options.objective == "left_to_right")
    masking = create_masking(options, tokenizer, data)
    settings = _settings(config, options, tokenizer, data)
    location = run_location(options.model_dir)
    folder = RunFolder(location.local, settings, is_chief(strategy))
    goes_on = has_checkpoint(location.checkpoints)
    if not goes_on:
        check_source(config, options, tokenizer.vocabulary)
    return _Inputs(config, data, eval_data, tokenizer, masking, settings, location, folder, goes_on)


def _build(
    inputs: _Inputs, options: PretrainingOptions, strategy: tf.distribute.Strategy
) -> _Trained:
    keras.utils.set_random_seed(options.seed)
    with strategy.scope():
        model = create_model(inputs.config, options, inputs.data.packed, inputs.goes_on)
        optimizer, schedule = create_optimizer_and_schedule(options)
        optimizer.build(model.trainable_variables)
        loss_scale = DynamicLossScale() if "float16" in model.encoder.policy.name else None
    state = RunState()
    kept = state.variables | (loss_scale.variables if loss_scale else {})
    io_device = "/job:localhost" if has_other_hosts(strategy) else None
    checkpoint = TrainingCheckpoint(
        inputs.location.checkpoints, model, optimizer, kept, options.keep_checkpoints, io_device
    )
    return _Trained(model, optimizer, schedule, loss_scale, state, checkpoint)


def _create_run(
    inputs: _Inputs,
    trained: _Trained,
    options: PretrainingOptions,
    strategy: tf.distribute.Strategy,
) -> PretrainingRun:
    """Returns the run, its data from where the checkpoint stands."""
    data, eval_data, masking = inputs.data, inputs.eval_data, inputs.masking
    model = trained.model
    next_sentence = options.next_sentence and data.sentence_task != "none"
    batches = distributed_batches(data, masking, options, strategy, trained.checkpoint.step)
    step = PretrainingStep(
        model,
        trained.optimizer,
        options.seed,
        next_sentence,
        options.accumulation_steps,
        trained.loss_scale,
        compiles_step(),
    )
    with damage_named(eval_data):
        evaluation = create_evaluation(model, eval_data, masking, options, strategy, next_sentence)
    parts = RunParts(
        loop=make_training_loop(step, strategy),
        batches=iter(batches),
        evaluation=evaluation,
        checkpoint=trained.checkpoint,
        state=trained.state,
        schedule=trained.schedule,
        folder=inputs.folder,
        save_preset=lambda path: model.save_to_preset(path, inputs.tokenizer),
        upload=inputs.location.upload,
    )
    predictions = data.max_predictions_per_seq or masking.max_predictions_per_seq
    flops = pretraining_flops(inputs.config, options.batch_size, data.max_seq_length, predictions)
    peak = _peak_flops(options, model, strategy)
    return PretrainingRun(options, parts, strategy, next_sentence, flops, peak, inputs.goes_on)


def _of_all_workers(inputs: _Inputs, options: PretrainingOptions) -> dict[str, Any]:
    """Returns what must be the same in all workers: everything but paths."""
    eval_examples = inputs.eval_data and inputs.eval_data.num_examples
    told = dataclasses.asdict(options) | {"eval_examples": eval_examples}
    told = {name: value for name, value in told.items() if not name.endswith("_dir")}
    return inputs.settings | {"options": told}


def _start(step: int) -> dict[str, Any]:
    """Returns what a later reader of the run folder wants to know about this start."""
    return {
        "step": step,
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "command": shlex.join(sys.argv),
        "versions": package_versions(),
        "machine": platform.platform(),
        "devices": describe_devices(),
    }


def _peak_flops(
    options: PretrainingOptions, model: keras.Model, strategy: tf.distribute.Strategy
) -> float | None:
    tflops = options.peak_tflops
    if tflops is None and model.encoder.policy.compute_dtype != "float32":
        tflops = peak_tflops(strategy)
    return tflops and tflops * 1e12


def _settings(
    config: BertConfig,
    options: PretrainingOptions,
    tokenizer: BertTokenizer,
    data: PretrainingData,
) -> dict[str, Any]:
    fixed = {
        name: value
        for name, value in dataclasses.asdict(options).items()
        if name not in _FREE_OPTIONS
    }
    if not options.time_budget:
        fixed["warmup_steps"] = options.scheduled_warmup_steps
    return {
        "config": config.to_dict(),
        "options": fixed,
        "vocabulary_sha256": tokenizer.vocabulary.sha256,
        "num_examples": data.num_examples,
        "max_seq_length": data.max_seq_length,
    }


def load_config(
    model: str, vocab_size: int, ignore_config_keys: Collection[str] = ()
) -> BertConfig:
    """Returns the config that a `--model` flag names.

    Args:
        model: a named size, which takes the vocabulary's size, or a config file as it is, also
            that of a model on the Hub: "hf://org/name/config.json".
        vocab_size: entries of the vocabulary.
        ignore_config_keys: unknown keys of the file to pass over, see `BertConfig.from_dict`.

    Raises:
        ValueError: the name is unknown or the file is not a config.
        FileNotFoundError: the file does not exist.
    """
    if model.startswith(hub.SCHEME):
        folder = hub.local_folder(model.removesuffix("/config.json"))
        return BertConfig.from_file(folder, "hf", ignore_config_keys)
    if model.endswith(".json") or os.sep in model or Path(model).exists():
        return BertConfig.from_file(local_copy(model), ignore_config_keys=ignore_config_keys)
    return BertConfig.from_name(model, vocab_size=vocab_size)
