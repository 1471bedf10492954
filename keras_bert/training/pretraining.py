"""Pretraining: records in, a run folder with checkpoints, metrics and a preset out."""

import dataclasses
import math
import os
import platform
import shlex
import sys
import time
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from keras_bert.config import BertConfig
from keras_bert.data.pretraining_data import PretrainingData
from keras_bert.data.pretraining_pipeline import evaluation_batches, training_batches
from keras_bert.models.pretrainer import BertPretrainer
from keras_bert.text.masking import MaskedLanguageModelMasking
from keras_bert.text.next_token import NextTokenTargets
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.training.base_optimizer import BaseOptimizer
from keras_bert.training.checkpointing import TrainingCheckpoint
from keras_bert.training.cluster import is_chief
from keras_bert.training.devices import describe_devices, peak_tflops
from keras_bert.training.evaluation import evaluate, most_frequent_piece_accuracy
from keras_bert.training.flops import pretraining_flops
from keras_bert.training.optimizer import optimizer_class
from keras_bert.training.precision import DynamicLossScale, dtype_policy
from keras_bert.training.pretraining_checks import check_data, check_options, check_steps
from keras_bert.training.pretraining_options import PretrainingOptions
from keras_bert.training.pretraining_run import PretrainingRun, RunParts
from keras_bert.training.pretraining_step import (
    PretrainingStep,
    make_evaluation_step,
    make_training_loop,
)
from keras_bert.training.rematerialization import rematerialize
from keras_bert.training.remote_folders import local_copy, run_location
from keras_bert.training.run_folder import RunFolder
from keras_bert.training.run_state import RunState
from keras_bert.training.schedules import TimeBudgetDecay, create_schedule
from keras_bert.training.strategy import compiles_step
from keras_bert.version import __version__

# Options that a resumed run may change: they do not touch the model, the data or the schedule.
_FREE_OPTIONS = (
    "model_dir data_dir eval_data_dir steps_per_loop checkpoint_steps eval_steps keep_checkpoints "
    "accumulation_steps max_skipped_steps peak_tflops remat"
).split()
_PACKAGES = ("tensorflow", "tensorflow-text", "keras")


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
    # 1. Check what can be checked before anything is built.
    data = PretrainingData(local_copy(options.data_dir))
    eval_data = None
    if options.eval_data_dir:
        eval_data = PretrainingData(local_copy(options.eval_data_dir))
    tokenizer = check_data(config, data, eval_data)
    check_options(options, data, strategy)
    config = config.replace(left_to_right=options.objective == "left_to_right")
    masking = _masking(options, tokenizer, data)
    settings = _settings(config, options, tokenizer, data)
    location = run_location(options.model_dir)
    folder = RunFolder(location.local, settings, is_chief(strategy))

    # 2. Model, optimizer, checkpoint.
    keras.utils.set_random_seed(options.seed)
    with strategy.scope():
        model = _create_model(config, options)
        optimizer, schedule = _create_optimizer(options)
        optimizer.build(model.trainable_variables)
        loss_scale = DynamicLossScale() if "float16" in model.encoder.policy.name else None
    state = RunState()
    kept = state.variables | (loss_scale.variables if loss_scale else {})
    checkpoint = TrainingCheckpoint(
        location.checkpoints, model, optimizer, kept, options.keep_checkpoints
    )
    resumed = _restore(checkpoint, state, options)
    check_steps(options, checkpoint.step)
    folder.start(checkpoint.step)
    folder.note_start(_start(checkpoint.step))

    # 3. Data, from where the run stands.
    next_sentence = options.next_sentence and data.sentence_task != "none"
    batches = _training_batches(data, masking, options, strategy, checkpoint.step)
    step = PretrainingStep(
        model,
        optimizer,
        options.seed,
        next_sentence,
        options.accumulation_steps,
        loss_scale,
        compiles_step(),
    )

    # 4. Train.
    parts = RunParts(
        loop=make_training_loop(step, strategy),
        batches=iter(batches),
        evaluation=_evaluation(model, eval_data, masking, options, strategy, next_sentence),
        checkpoint=checkpoint,
        state=state,
        schedule=schedule,
        folder=folder,
        save_preset=lambda path: model.save_to_preset(path, tokenizer),
        upload=location.upload,
    )
    predictions = data.max_predictions_per_seq or masking.max_predictions_per_seq
    flops = pretraining_flops(config, options.batch_size, data.max_seq_length, predictions)
    peak = _peak_flops(options, model, strategy)
    run = PretrainingRun(options, parts, strategy, next_sentence, flops, peak)
    run.announce(model, data, resumed)
    return run.train()


def _restore(checkpoint: TrainingCheckpoint, state: RunState, options: PretrainingOptions) -> bool:
    """Goes back to the run's last checkpoint, or on from another's; returns whether it did."""
    restored, damaged = checkpoint.restore()
    if not restored and _is_run(options.init_from):
        restored, damaged = checkpoint.restore(f"{options.init_from}/checkpoints")
        if not restored:
            raise ValueError(f"the run in {options.init_from} has no checkpoint: let it make one")
        state.reset()
    for sentence in damaged:
        print(f"warning: {sentence}; going back to step {checkpoint.step}", file=sys.stderr)
    return restored


def _is_run(init_from: str | None) -> bool:
    return init_from is not None and tf.io.gfile.exists(f"{init_from}/run.json")


def _start(step: int) -> dict[str, Any]:
    """Returns what a later reader of the run folder wants to know about this start."""
    versions = {name: metadata.version(name) for name in _PACKAGES}
    return {
        "step": step,
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "command": shlex.join(sys.argv),
        "versions": {"keras_bert": __version__, "python": platform.python_version()} | versions,
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
    return {
        "config": config.to_dict(),
        "options": fixed,
        "vocabulary_sha256": tokenizer.vocabulary.sha256,
        "num_examples": data.num_examples,
        "max_seq_length": data.max_seq_length,
    }


def _create_model(config: BertConfig, options: PretrainingOptions) -> BertPretrainer:
    arguments = {"seed": options.seed, "dtype": dtype_policy(options.mixed_precision)}
    if options.init_from is None:
        model = BertPretrainer(config, **arguments)
    else:
        folder = f"{options.init_from}/preset" if _is_run(options.init_from) else options.init_from
        model = BertPretrainer.from_preset(local_copy(folder), **arguments)
        if _shape(model.config) != _shape(config):
            raise ValueError(
                f"{options.init_from} holds a model of another configuration than --model: give "
                f"its own, --model={folder}/config.json"
            )
    if options.remat:
        rematerialize(model.encoder)
    return model


def _shape(config: BertConfig) -> dict[str, Any]:
    return {name: value for name, value in config.to_dict().items() if "dropout" not in name}


def _create_optimizer(options: PretrainingOptions) -> tuple[BaseOptimizer, Any]:
    if options.time_budget:
        share = min(options.warmup_steps / options.train_steps, 0.9)
        schedule: Any = TimeBudgetDecay(options.learning_rate, share)
    else:
        end = options.schedule_steps or options.train_steps
        schedule = create_schedule(
            options.schedule, options.learning_rate, end, options.warmup_steps
        )
    arguments: dict[str, Any] = {"weight_decay_rate": options.weight_decay_rate}
    if options.optimizer == "adamw":
        arguments["bias_correction"] = options.bias_correction
    return optimizer_class(options.optimizer)(schedule, **arguments), schedule


def _masking(
    options: PretrainingOptions, tokenizer: BertTokenizer, data: PretrainingData
) -> MaskedLanguageModelMasking | NextTokenTargets:
    if options.objective == "left_to_right":
        return NextTokenTargets(tokenizer.vocabulary, data.max_seq_length)
    predictions = options.max_predictions_per_seq or math.ceil(0.15 * data.max_seq_length)
    return MaskedLanguageModelMasking(
        tokenizer.vocabulary,
        predictions,
        mask_share=options.mask_share,
        random_share=options.random_share,
        strategy=options.masking,
    )


def _training_batches(
    data: PretrainingData,
    masking: MaskedLanguageModelMasking | NextTokenTargets,
    options: PretrainingOptions,
    strategy: tf.distribute.Strategy,
    step: int,
) -> Iterable:
    def dataset(context: tf.distribute.InputContext) -> tf.data.Dataset:
        return training_batches(
            data,
            masking,
            context.get_per_replica_batch_size(options.batch_size),
            options.seed,
            first_batch=step,
            input_pipeline_id=context.input_pipeline_id,
            num_input_pipelines=context.num_input_pipelines,
            replicas_per_pipeline=context.num_replicas_in_sync // context.num_input_pipelines,
        )

    return strategy.distribute_datasets_from_function(dataset)


def _evaluation(
    model: keras.Model,
    eval_data: PretrainingData | None,
    masking: MaskedLanguageModelMasking | NextTokenTargets,
    options: PretrainingOptions,
    strategy: tf.distribute.Strategy,
    next_sentence: bool,
) -> Callable[[], dict[str, float]] | None:
    if eval_data is None:
        return None
    dataset = evaluation_batches(eval_data, masking, options.batch_size, options.seed)
    baseline = most_frequent_piece_accuracy(dataset, model.config.vocab_size)
    step = make_evaluation_step(model, strategy)
    parts = strategy.distribute_datasets_from_function(
        lambda context: _part_of(dataset, options.batch_size, context)
    )

    def run() -> dict[str, float]:
        metrics = evaluate(step, parts, next_sentence)
        return metrics | {"most_frequent_piece_accuracy": baseline}

    return run


def _part_of(
    dataset: tf.data.Dataset, batch_size: int, context: tf.distribute.InputContext
) -> tf.data.Dataset:
    """Returns one input pipeline's rows of each global batch, in batches for its replicas."""
    rows = batch_size // context.num_input_pipelines
    first = rows * context.input_pipeline_id

    def part(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return {name: value[first : first + rows] for name, value in batch.items()}

    replica_batch = context.get_per_replica_batch_size(batch_size)
    return dataset.map(part).rebatch(replica_batch, drop_remainder=True)


def load_config(model: str, vocab_size: int) -> BertConfig:
    """Returns the config that a `--model` flag names.

    Args:
        model: a named size, which takes the vocabulary's size, or a config file as it is.
        vocab_size: entries of the vocabulary.

    Raises:
        ValueError: the name is unknown or the file is not a config.
        FileNotFoundError: the file does not exist.
    """
    if model.endswith(".json") or os.sep in model or Path(model).exists():
        return BertConfig.from_file(local_copy(model))
    return BertConfig.from_name(model, vocab_size=vocab_size)
