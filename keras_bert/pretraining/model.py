"""What a pretraining run trains and where it starts: model, optimizer, schedule, checkpoint."""

import dataclasses
import sys
from typing import Any

from keras_bert.config import BertConfig
from keras_bert.models import preset
from keras_bert.models.pretrainer import BertPretrainer
from keras_bert.pretraining.options import PretrainingOptions
from keras_bert.pretraining.run_state import RunState
from keras_bert.pretraining.source import check_config, is_run
from keras_bert.storage.remote_folders import local_copy
from keras_bert.training.base_optimizer import BaseOptimizer
from keras_bert.training.checkpointing import TrainingCheckpoint
from keras_bert.training.optimizer import optimizer_class
from keras_bert.training.precision import dtype_policy
from keras_bert.training.rematerialization import rematerialize
from keras_bert.training.schedules import TimeBudgetDecay, create_schedule


def create_model(
    config: BertConfig, options: PretrainingOptions, packed: bool, restored: bool
) -> BertPretrainer:
    """Returns the model, fresh or with the weights of the model `init_from`.

    Args:
        config: its numbers.
        options: what the run is told.
        packed: whether sequences hold several documents.
        restored: whether the weights will come from a checkpoint anyway.

    Raises:
        ValueError: `init_from` has another configuration.
    """
    precision = dtype_policy(options.mixed_precision)
    arguments: dict[str, Any] = {"seed": options.seed, "dtype": precision, "packed": packed}
    if restored or options.init_from is None or is_run(options.init_from):
        model = BertPretrainer(config, **arguments)
    else:
        source = preset.read_checkpoint(local_copy(options.init_from), options.ignore_config_keys)
        check_config(options.init_from, source.config.to_dict(), config)
        # Under its own dropout, the one thing in which the two may differ.
        source = dataclasses.replace(source, config=config)
        model = preset.from_checkpoint(BertPretrainer, source, arguments)
    if options.remat:
        rematerialize(model.encoder)
    return model


def create_optimizer_and_schedule(options: PretrainingOptions) -> tuple[BaseOptimizer, Any]:
    """Returns the optimizer and the learning rate that it follows."""
    if options.time_budget:
        schedule: Any = TimeBudgetDecay(options.learning_rate, options.warmup_rate)
    else:
        schedule = create_schedule(
            options.schedule,
            options.learning_rate,
            options.scheduled_steps,
            options.scheduled_warmup_steps,
        )
    arguments: dict[str, Any] = {"weight_decay_rate": options.weight_decay_rate}
    if options.optimizer == "adamw":
        arguments["bias_correction"] = options.bias_correction
    return optimizer_class(options.optimizer)(schedule, **arguments), schedule


def restore(checkpoint: TrainingCheckpoint, state: RunState, options: PretrainingOptions) -> bool:
    """Goes back to the run's last checkpoint, or on from that of the run `init_from`.

    Returns:
        Whether there was one; without, the model starts as `create_model` made it.

    Raises:
        ValueError: the run `init_from` has no checkpoint, or none is whole.
    """
    restored, damaged = checkpoint.restore()
    if not restored and is_run(options.init_from):
        restored, damaged = checkpoint.restore(f"{options.init_from}/checkpoints")
        if not restored:
            raise ValueError(f"the run in {options.init_from} has no checkpoint: let it make one")
        state.reset()
    for sentence in damaged:
        print(f"warning: {sentence}; going back to step {checkpoint.step}", file=sys.stderr)
    return restored
