"""Pretraining: records in, a run folder with checkpoints, metrics and a preset out."""

import dataclasses
import os
import platform
import re
import shlex
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from keras_bert.config import BertConfig
from keras_bert.data.records.record_set import PretrainingData
from keras_bert.models import preset
from keras_bert.models.surgery.layer_selection import (
    check_same_widths,
    parsed_layers,
    select_layers,
)
from keras_bert.pretraining.checks import (
    check_config,
    check_data,
    check_options,
    check_source,
    check_steps,
    is_run,
)
from keras_bert.pretraining.evaluation import create_evaluation
from keras_bert.pretraining.inputs import damage_named, distributed_batches, open_records
from keras_bert.pretraining.monitor import RunState
from keras_bert.pretraining.objectives.objective import Objective
from keras_bert.pretraining.objectives.registry import create_objective
from keras_bert.pretraining.options import PretrainingOptions
from keras_bert.pretraining.run import PretrainingRun
from keras_bert.pretraining.step import PretrainingStep, make_training_loop
from keras_bert.storage import hub
from keras_bert.storage.paths import check_no_file, check_no_pattern
from keras_bert.storage.remote_folders import local_copy, run_location
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.training.base_optimizer import NOT_DECAYED, BaseOptimizer
from keras_bert.training.checkpointing import TrainingCheckpoint, has_checkpoint
from keras_bert.training.cluster import check_workers, is_chief
from keras_bert.training.devices import describe_devices, package_versions, peak_tflops
from keras_bert.training.optimizer import optimizer_class
from keras_bert.training.precision import create_loss_scale, dtype_policy, resolved_precision
from keras_bert.training.rematerialization import rematerialize
from keras_bert.training.run_folder import RunFolder, check_precision, default_values
from keras_bert.training.schedules import TimeBudgetDecay, create_schedule
from keras_bert.training.strategy import compiles_step, has_other_hosts

# Options that a resumed run may change: they do not touch the model, the data or the schedule.
_FREE_OPTIONS = (
    "model_dir data_dir eval_data_dir steps_per_loop checkpoint_steps eval_steps keep_checkpoints "
    "preset_steps accumulation_steps max_skipped_steps peak_tflops remat ignore_config_keys"
).split()
# What decides which losses and masks there are.
_KIND_OF_RECORDS = ("sentence_task", "packed", "segmented", "max_predictions_per_seq")


def pretrain(
    config: BertConfig,
    options: PretrainingOptions,
    strategy: tf.distribute.Strategy,
    objective: Objective | None = None,
) -> dict[str, float] | None:
    """Pretrains a model; returns the metrics of the last evaluation.

    The order of initialisation is: the run's own checkpoint > `init_from` (another run's checkpoint
    with its moments and step, or a model's weights) > fresh weights.

    Args:
        config: the model's numbers.
        options: settings of the run: records, folder, optimizer, length, checkpoints.
        strategy: the `tf.distribute` strategy that it runs under.
        objective: what is learned; by default the one that `options.objective` names.

    Returns:
        The metrics, empty without held-out records; None when SIGTERM ended the run early. It is
        saved then, and the same call goes on with it.

    Raises:
        FileNotFoundError: there are no records.
        ValueError: options, records, vocabulary and config do not fit each other, or too many steps
            in a row were not finite.
    """
    # 1. Check what can be checked before anything is built.
    check_no_pattern("model_dir", options.model_dir)
    check_no_file("model_dir", options.model_dir)
    data = open_records(options.data_dir, strategy, "data_dir", options.language_alpha)
    eval_data = None
    if options.eval_data_dir:
        eval_data = open_records(options.eval_data_dir, strategy, "eval_data_dir")
    tokenizer = check_data(config, data, eval_data)
    objective = objective or create_objective(options, data)
    objective.check(options, data)
    if eval_data is not None:
        objective.check_held_out(eval_data)
    check_options(options, strategy)
    # Such as `left_to_right`, which belongs to the objective and not to the size.
    config = objective.model_config(config)
    targets = objective.targets(options, tokenizer, data)
    settings = _settings(config, options, objective, tokenizer, data)
    # Before there are variables: each is made by a collective, in which workers with other models
    # would wait for each other. No worker may leave between two collectives where others go on.
    check_workers(strategy, 0, _of_all_workers(settings, options, eval_data))
    location = run_location(options.model_dir)
    check_precision(location.local, settings["options"]["mixed_precision"])
    folder = RunFolder(
        location.local,
        settings,
        is_chief(strategy),
        defaults={"options": default_values(PretrainingOptions)},
        added=("teacher_weights", "records"),
        undecided={"options": {"mixed_precision": "auto"}},
    )
    goes_on = has_checkpoint(location.checkpoints)  # its own; it comes before `init_from`
    if not goes_on:
        check_source(config, options, objective.name, tokenizer.vocabulary)

    # 2. Model and optimizer.
    # Fresh weights follow from the seed; dropout has seeds of its own, see `DropoutSeeds`.
    keras.utils.set_random_seed(options.seed)
    with strategy.scope():
        model = create_model(objective, config, options, data.packed, goes_on)
        # Of a model that does not train them, or has none, there is nothing to leave out.
        paths = [variable.path for variable in model.trainable_variables]
        not_decayed = [
            p for p in objective.not_decayed if any(re.search(p, path) for path in paths)
        ]
        optimizer, schedule = create_optimizer_and_schedule(options, not_decayed)
        optimizer.build(model.trainable_variables)
        loss_scale = create_loss_scale(model.encoder.policy)

    # 3. Go back to the run's last checkpoint, or on from that of the run `init_from`.
    state = RunState()
    kept = state.variables | (loss_scale.variables if loss_scale else {})
    # A TPU slice has other hosts, which cannot write to the disk of this one.
    io_device = "/job:localhost" if has_other_hosts(strategy) else None
    checkpoint = TrainingCheckpoint(
        location.checkpoints, model, optimizer, kept, options.keep_checkpoints, io_device
    )
    resumed, damaged = checkpoint.restore()
    if not resumed and is_run(options.init_from):
        source = f"{options.init_from}/checkpoints"
        if other := checkpoint.difference(source):
            raise ValueError(
                f"the checkpoint of the run in {options.init_from} has other variables ({other}), "
                "as with other losses or a teacher of another width: take only its weights, with "
                f"--init_from={options.init_from}/preset"
            )
        resumed, damaged = checkpoint.restore(source)
        if not resumed:
            raise ValueError(f"the run in {options.init_from} has no checkpoint: let it make one")
        # Moments and step come from the other run; its counts and its best loss stay there.
        state.reset()
    for sentence in damaged:
        print(f"warning: {sentence}; going back to step {checkpoint.step}", file=sys.stderr)
    step = checkpoint.step
    check_workers(strategy, step, {})
    check_steps(options, step, goes_on)

    # 4. Batches from that step on, what is done with them, and what is measured.
    batches = distributed_batches(data, targets, options, strategy, step)
    loop = make_training_loop(
        PretrainingStep(
            model,
            optimizer,
            objective,
            options.seed,
            options.accumulation_steps,
            loss_scale,
            compiles_step(),
        ),
        strategy,
    )
    evaluate = None
    if eval_data is not None:
        # With room for the rate of masks in the held-out records, which may be longer.
        held_out = objective.targets(options, tokenizer, eval_data)
        with damage_named(eval_data):
            evaluate = create_evaluation(model, objective, eval_data, held_out, options, strategy)
    # Records that come masked have a P of their own.
    predictions = data.max_predictions_per_seq or targets.max_predictions_per_seq

    # 5. Train; log, save and evaluate on the way.
    run = PretrainingRun(
        options=options,
        objective=objective,
        loop=loop,
        batches=iter(batches),
        evaluate=evaluate,
        checkpoint=checkpoint,
        state=state,
        schedule=schedule,
        folder=folder,
        save_preset=lambda path: objective.preset_model(model).save_to_preset(path, tokenizer),
        upload=location.upload,
        strategy=strategy,
        flops_per_step=objective.flops(
            config, options.batch_size, data.max_seq_length, predictions
        ),
        peak_flops=_peak_flops(options, model, strategy),
        goes_on=goes_on,
        held_out=None if eval_data is None else eval_data.digest(),
    )
    with folder.held(), damage_named(data, eval_data):
        folder.start(step, ("eval",) if run.evaluates_first else ())
        folder.note_start(_start(step))
        run.announce(model, data, resumed)
        return run.train()


def create_model(
    objective: Objective,
    config: BertConfig,
    options: PretrainingOptions,
    packed: bool,
    restored: bool,
) -> keras.Model:
    """Returns the model to train, fresh or with the weights of the model `init_from`.

    Args:
        objective: what is learned.
        config: the model's numbers.
        options: settings of the run.
        packed: whether sequences hold several documents.
        restored: whether the weights will come from a checkpoint anyway.

    Raises:
        ValueError: `init_from` has another configuration, or `init_layers` names other layers than
            there are.
    """
    precision = dtype_policy(options.mixed_precision)
    arguments: dict[str, Any] = {"seed": options.seed, "dtype": precision, "packed": packed}
    source = None
    if not (restored or options.init_from is None or is_run(options.init_from)):
        source = preset.read_checkpoint(local_copy(options.init_from), options.ignore_config_keys)
        if options.init_layers:
            check_same_widths(source.config, config, options.init_from)
            layers = parsed_layers(
                options.init_layers, source.config.num_hidden_layers, config.num_hidden_layers
            )
            source = select_layers(source, layers, config)
        else:
            found = objective.model_config(source.config)
            check_config(options.init_from, found.to_dict(), config)
            # Under its own dropout and start values, in which alone the two may differ.
            source = dataclasses.replace(source, config=config)
    model = objective.create_model(config, arguments, source)
    if options.remat:
        rematerialize(model.encoder)
    return model


def create_optimizer_and_schedule(
    options: PretrainingOptions, not_decayed: Sequence[str] = ()
) -> tuple[BaseOptimizer, Any]:
    """Returns the optimizer and the learning rate that it follows."""
    if options.time_budget:
        schedule: Any = TimeBudgetDecay(options.learning_rate, options.warmup_proportion)
    else:
        schedule = create_schedule(
            options.schedule,
            options.learning_rate,
            options.scheduled_steps,
            options.scheduled_warmup_steps,
        )
    arguments: dict[str, Any] = {
        "weight_decay_rate": options.weight_decay_rate,
        "beta_2": options.beta_2,
        "not_decayed": (*NOT_DECAYED, *not_decayed),
    }
    if options.optimizer == "adamw":
        arguments["bias_correction"] = options.bias_correction
    return optimizer_class(options.optimizer)(schedule, **arguments), schedule


def _settings(
    config: BertConfig,
    options: PretrainingOptions,
    objective: Objective,
    tokenizer: Tokenizer,
    data: PretrainingData,
) -> dict[str, Any]:
    """Returns what defines the run: a folder whose `run.json` differs is another run's."""
    fixed = {
        name: value
        for name, value in dataclasses.asdict(options).items()
        if name not in _FREE_OPTIONS
    }
    fixed["objective"] = objective.name
    fixed["mixed_precision"] = resolved_precision(options.mixed_precision)
    if not options.time_budget:
        fixed["warmup_steps"] = options.scheduled_warmup_steps
    settings = {
        "config": config.to_dict(),
        "options": fixed,
        "vocabulary_sha256": tokenizer.vocabulary.sha256,
        "num_examples": data.num_examples,
        "max_seq_length": data.max_seq_length,
        "records": {name: getattr(data, name) for name in _KIND_OF_RECORDS},
    }
    if options.teacher:
        settings["teacher_weights"] = preset.weights_digest(local_copy(options.teacher))
    if data.groups:
        settings["languages"] = {name: group.num_examples for name, group in data.groups.items()}
    return settings


def _of_all_workers(
    settings: dict[str, Any], options: PretrainingOptions, eval_data: PretrainingData | None
) -> dict[str, Any]:
    """Returns what must be the same in all workers: everything but paths."""
    told = dataclasses.asdict(options) | settings["options"]
    told["eval_examples"] = eval_data and eval_data.num_examples
    # A folder may have another path on each machine.
    told = {name: value for name, value in told.items() if not name.endswith("_dir")}
    return settings | {"options": told}


def _peak_flops(
    options: PretrainingOptions, model: keras.Model, strategy: tf.distribute.Strategy
) -> float | None:
    # The peaks of the data sheets are those of bfloat16: in float32 none is known.
    tflops = options.peak_tflops
    if tflops is None and model.encoder.policy.compute_dtype != "float32":
        tflops = peak_tflops(strategy)
    return tflops and tflops * 1e12


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


def load_config(
    model: str,
    vocab_size: int | None,
    ignore_config_keys: Collection[str] = (),
    pad_token_id: int | None = None,
) -> BertConfig:
    """Returns the config that a `--model` flag names.

    Args:
        model: a named size, which takes size and [PAD] of the vocabulary, or a config file as it
            is, also that of a model on the Hub: "hf://org/name/config.json". What is called as a
            size is that size; a file or folder of that name is given as "./bert_mini".
        vocab_size: entries of the vocabulary; None leaves those of the published model.
        ignore_config_keys: unknown keys of the file to pass over, see `BertConfig.from_dict`.
        pad_token_id: id of [PAD] in the vocabulary; None leaves that of the published model.

    Raises:
        ValueError: the name is unknown or the file is not a config.
        FileNotFoundError: the file does not exist.
    """
    if model.startswith(hub.SCHEME):
        folder = hub.local_folder(model.removesuffix("/config.json"))
        return BertConfig.from_file(folder, "hf", ignore_config_keys)
    if model.endswith(".json") or os.sep in model:
        return BertConfig.from_file(local_copy(model), ignore_config_keys=ignore_config_keys)
    numbers = {"vocab_size": vocab_size, "pad_token_id": pad_token_id}
    try:
        return BertConfig.from_name(
            model, **{name: number for name, number in numbers.items() if number is not None}
        )
    except ValueError:
        if not Path(model).exists():
            raise
    return BertConfig.from_file(model, ignore_config_keys=ignore_config_keys)
