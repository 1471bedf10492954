"""What a pretraining run trains and where it starts: model, optimizer, schedule, checkpoint."""

import sys
from typing import Any

import tensorflow as tf

from keras_bert.config import BertConfig
from keras_bert.models.pretrainer import BertPretrainer
from keras_bert.training.base_optimizer import BaseOptimizer
from keras_bert.training.checkpointing import TrainingCheckpoint
from keras_bert.training.optimizer import optimizer_class
from keras_bert.training.precision import dtype_policy
from keras_bert.training.pretraining_options import PretrainingOptions
from keras_bert.training.rematerialization import rematerialize
from keras_bert.training.remote_folders import local_copy
from keras_bert.training.run_state import RunState
from keras_bert.training.schedules import TimeBudgetDecay, create_schedule


def create_model(
    config: BertConfig, options: PretrainingOptions, packed: bool = False
) -> BertPretrainer:
    """Returns the model, fresh or with the weights of `init_from`.

    Args:
        config: its numbers.
        options: what the run is told.
        packed: whether sequences hold several documents.

    Raises:
        ValueError: `init_from` has another configuration.
    """
    precision = dtype_policy(options.mixed_precision)
    arguments: dict[str, Any] = {"seed": options.seed, "dtype": precision, "packed": packed}
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


def create_optimizer_and_schedule(options: PretrainingOptions) -> tuple[BaseOptimizer, Any]:
    """Returns the optimizer and the learning rate that it follows."""
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


def restore(checkpoint: TrainingCheckpoint, state: RunState, options: PretrainingOptions) -> bool:
    """Goes back to the run's last checkpoint, or on from that of the run `init_from`.

    Returns:
        Whether there was one; without, the model starts as `create_model` made it.

    Raises:
        ValueError: the run `init_from` has no checkpoint, or none is whole.
    """
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
