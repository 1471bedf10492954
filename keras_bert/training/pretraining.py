"""Pretraining: records in, a run folder with checkpoints, metrics and a preset out."""

import dataclasses
import math
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from keras_bert.config import BertConfig
from keras_bert.data.pretraining_data import PretrainingData
from keras_bert.data.pretraining_pipeline import evaluation_batches, training_batches
from keras_bert.models.pretrainer import BertPretrainer
from keras_bert.text.masking import MaskedLanguageModelMasking
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.training.base_optimizer import BaseOptimizer
from keras_bert.training.checkpointing import TrainingCheckpoint
from keras_bert.training.evaluation import evaluate, most_frequent_piece_accuracy
from keras_bert.training.optimizer import optimizer_class
from keras_bert.training.precision import dtype_policy
from keras_bert.training.pretraining_options import PretrainingOptions
from keras_bert.training.pretraining_run import PretrainingRun
from keras_bert.training.pretraining_step import (
    PretrainingStep,
    make_evaluation_step,
    make_training_loop,
)
from keras_bert.training.run_folder import RunFolder
from keras_bert.training.schedules import TimeBudgetDecay, create_schedule

# Options that a resumed run may change: they do not touch the model, the data or the schedule.
_FREE_OPTIONS = (
    "model_dir data_dir eval_data_dir steps_per_loop checkpoint_steps eval_steps keep_checkpoints"
).split()


def pretrain(
    config: BertConfig, options: PretrainingOptions, strategy: tf.distribute.Strategy
) -> dict[str, float]:
    """Pretrains a `BertPretrainer`; returns the metrics of the last evaluation.

    The order of initialisation is: the run's own checkpoint > `init_from` > fresh weights.

    Args:
        config: the model's numbers.
        options: everything else.
        strategy: where it runs.

    Raises:
        FileNotFoundError: there are no records.
        ValueError: options, records, vocabulary and config do not fit each other.
    """
    # 1. Check what can be checked before anything is built.
    data = PretrainingData(options.data_dir)
    eval_data = PretrainingData(options.eval_data_dir) if options.eval_data_dir else None
    tokenizer = _check_data(config, data, eval_data)
    _check_options(config, options, data, strategy)
    folder = RunFolder(options.model_dir, _settings(config, options, tokenizer, data))

    # 2. Model, optimizer, checkpoint.
    keras.utils.set_random_seed(options.seed)
    with strategy.scope():
        model = _create_model(config, options)
        optimizer, schedule = _create_optimizer(options)
        optimizer.build(model.trainable_variables)
        checkpoint = TrainingCheckpoint(
            folder.checkpoints, model, optimizer, options.keep_checkpoints
        )
    resumed = checkpoint.restore()
    folder.start(checkpoint.step)

    # 3. Data, from where the run stands.
    next_sentence = data.sentence_task != "none"
    masking = _masking(options, tokenizer, data)
    batches = _training_batches(data, masking, options, strategy, checkpoint.step)
    evaluation = _evaluation(model, eval_data, masking, options, strategy, next_sentence)
    step = PretrainingStep(
        model, optimizer, options.seed, next_sentence, options.accumulation_steps
    )

    # 4. Train.
    run = PretrainingRun(options, checkpoint, schedule, folder, next_sentence)
    run.announce(model, data, strategy, resumed)
    metrics = run.train(
        make_training_loop(step, strategy),
        iter(batches),
        evaluation,
        lambda: model.save_to_preset(folder.preset, tokenizer),
    )
    return metrics


def _check_data(
    config: BertConfig, data: PretrainingData, eval_data: PretrainingData | None
) -> BertTokenizer:
    tokenizer = BertTokenizer.from_preset(data.folder)
    for records in (data, eval_data):
        if records is not None:
            records.check_vocabulary(tokenizer.vocabulary)
            _check_length(config, records)
    tokenizer.vocabulary.check_size(config.vocab_size)
    return tokenizer


def _check_length(config: BertConfig, data: PretrainingData) -> None:
    if data.max_seq_length > config.max_position_embeddings:
        raise ValueError(
            f"the records in {data.folder} are up to {data.max_seq_length} pieces long but the "
            f"model has {config.max_position_embeddings} positions (max_position_embeddings): "
            "make shorter records or raise it"
        )


def _check_options(
    config: BertConfig,
    options: PretrainingOptions,
    data: PretrainingData,
    strategy: tf.distribute.Strategy,
) -> None:
    parts = strategy.num_replicas_in_sync * options.accumulation_steps
    if options.batch_size % parts:
        raise ValueError(
            f"batch_size {options.batch_size} is not divisible by {parts} (replicas times "
            "accumulation_steps): choose a multiple"
        )
    if options.time_budget is not None and options.time_budget <= 0:
        raise ValueError(f"time_budget is {options.time_budget}: it must be above 0 seconds")
    if options.time_budget and options.schedule != "linear":
        raise ValueError(
            f"schedule is {options.schedule!r} but a time_budget has the linear one only: "
            "leave one of the two out"
        )


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
        return BertPretrainer(config, **arguments)
    model = BertPretrainer.from_preset(options.init_from, **arguments)
    if model.config.vocab_size != config.vocab_size or _shape(model.config) != _shape(config):
        raise ValueError(
            f"{options.init_from} holds a model of another configuration than --model: "
            "give the configuration it was trained with"
        )
    return model


def _shape(config: BertConfig) -> dict[str, Any]:
    return {name: value for name, value in config.to_dict().items() if "dropout" not in name}


def _create_optimizer(options: PretrainingOptions) -> tuple[BaseOptimizer, Any]:
    if options.time_budget:
        share = min(options.warmup_steps / options.train_steps, 0.9)
        schedule: Any = TimeBudgetDecay(options.learning_rate, share)
    else:
        schedule = create_schedule(
            options.schedule, options.learning_rate, options.train_steps, options.warmup_steps
        )
    arguments: dict[str, Any] = {"weight_decay_rate": options.weight_decay_rate}
    if options.optimizer == "adamw":
        arguments["bias_correction"] = options.bias_correction
    return optimizer_class(options.optimizer)(schedule, **arguments), schedule


def _masking(
    options: PretrainingOptions, tokenizer: BertTokenizer, data: PretrainingData
) -> MaskedLanguageModelMasking:
    predictions = options.max_predictions_per_seq or math.ceil(0.15 * data.max_seq_length)
    return MaskedLanguageModelMasking(tokenizer.vocabulary, predictions, strategy=options.masking)


def _training_batches(
    data: PretrainingData,
    masking: MaskedLanguageModelMasking,
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
    masking: MaskedLanguageModelMasking,
    options: PretrainingOptions,
    strategy: tf.distribute.Strategy,
    next_sentence: bool,
) -> Callable[[], dict[str, float]] | None:
    if eval_data is None:
        return None
    dataset = evaluation_batches(eval_data, masking, options.batch_size, options.seed)
    baseline = most_frequent_piece_accuracy(dataset, model.config.vocab_size)
    step = make_evaluation_step(model, strategy)

    def run() -> dict[str, float]:
        metrics = evaluate(step, strategy.experimental_distribute_dataset(dataset), next_sentence)
        return metrics | {"most_frequent_piece_accuracy": baseline}

    return run


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
        return BertConfig.from_file(model)
    return BertConfig.from_name(model, vocab_size=vocab_size)
