"""What a pretraining run refuses before anything is built."""

import tensorflow as tf

from keras_bert.config import BertConfig
from keras_bert.data.records.record_set import PretrainingData
from keras_bert.pretraining.options import OBJECTIVES, PretrainingOptions
from keras_bert.text.masking_strategy import masking_options
from keras_bert.text.tokenizer import BertTokenizer

_POSITIVE = "train_steps batch_size accumulation_steps checkpoint_steps learning_rate".split()
_NOT_NEGATIVE = "steps_per_loop eval_steps max_skipped_steps weight_decay_rate".split()


def check_data(
    config: BertConfig, data: PretrainingData, eval_data: PretrainingData | None
) -> BertTokenizer:
    """Returns the tokenizer of the records.

    Raises:
        ValueError: records, vocabulary and config do not fit each other.
    """
    tokenizer = BertTokenizer.from_preset(data.folder)
    for records in (data, eval_data):
        if records is not None:
            records.check_vocabulary(tokenizer.vocabulary)
            _check_length(config, records)
    if eval_data is not None:
        for name in ("sentence_task", "packed"):
            held_out, training = getattr(eval_data, name), getattr(data, name)
            if held_out != training:
                raise ValueError(
                    f"the held-out records in {eval_data.folder} were made with {name} "
                    f"{held_out!r}, those in {data.folder} with {training!r}: make both alike"
                )
    tokenizer.vocabulary.check_size(config.vocab_size)
    return tokenizer


def check_options(
    options: PretrainingOptions, data: PretrainingData, strategy: tf.distribute.Strategy
) -> None:
    """Checks what does not concern the model.

    Raises:
        ValueError: an option is out of its range or does not go with another or with the records.
    """
    _check_objective(options, data)
    _check_masking(options, data)
    for name in _POSITIVE:
        if not getattr(options, name) > 0:  # nor is NaN
            raise ValueError(f"{name} is {getattr(options, name)}: it must be above 0")
    for name in _NOT_NEGATIVE:
        if not getattr(options, name) >= 0:
            raise ValueError(f"{name} is {getattr(options, name)}: it must be 0 or more")
    parts = strategy.num_replicas_in_sync * options.accumulation_steps
    if options.batch_size % parts:
        raise ValueError(
            f"batch_size {options.batch_size} is not divisible by {parts} "
            f"({strategy.num_replicas_in_sync} replicas times {options.accumulation_steps} "
            "accumulation_steps): choose a multiple"
        )
    if options.time_budget is not None and not options.time_budget > 0:
        raise ValueError(f"time_budget is {options.time_budget}: it must be above 0 seconds")
    if options.time_budget and not 0 <= options.warmup_rate < 1:
        raise ValueError(
            f"warmup_steps is {options.warmup_steps} and train_steps is {options.train_steps}: "
            "their ratio is that of the warmup to the time_budget, and must be from 0 to below 1"
        )
    if options.time_budget and options.schedule != "linear":
        raise ValueError(
            f"schedule is {options.schedule!r} but a time_budget has the linear one only: "
            "leave one of the two out"
        )


def check_steps(options: PretrainingOptions, step: int, goes_on: bool) -> None:
    """Makes sure that a run that starts at a step has something to do by its schedule.

    Args:
        options: what the run is told.
        step: where it starts.
        goes_on: whether that is where its own last checkpoint stands.

    Raises:
        ValueError: the schedule ends before the run does, or the run it goes on from has come
            to its end.
    """
    end = options.schedule_steps
    if end is not None and (end < options.train_steps or options.time_budget):
        raise ValueError(
            f"schedule_steps is {end} and train_steps is {options.train_steps}"
            f"{' with a time budget' if options.time_budget else ''}: the schedule of a run that "
            "another one goes on from ends after it, and follows steps"
        )
    if step and not goes_on and not options.time_budget and step >= options.train_steps:
        raise ValueError(
            f"{options.init_from} stands at step {step} and train_steps is {options.train_steps}: "
            "train_steps counts the steps of both runs"
        )


def _check_objective(options: PretrainingOptions, data: PretrainingData) -> None:
    if options.objective not in OBJECTIVES:
        raise ValueError(
            f"objective is {options.objective!r}: choose one of {', '.join(OBJECTIVES)}"
        )
    if options.objective == "left_to_right" and data.max_predictions_per_seq is not None:
        raise ValueError(
            f"the records in {data.folder} come with their masks, which objective left_to_right "
            "has no use for: give unmasked records"
        )


def _check_masking(options: PretrainingOptions, data: PretrainingData) -> None:
    """Refuses options that would be without effect."""
    for name, value in masking_options(options).items():
        if options.objective == "left_to_right":
            raise ValueError(
                f"{name} is {value!r}, but objective left_to_right masks nothing: leave it out"
            )
        if data.max_predictions_per_seq is not None:
            raise ValueError(
                f"{name} is {value!r}, but the records in {data.folder} come with their masks: "
                "leave it out, or make records without --static_masking, whose masks are drawn "
                "when they are read"
            )


def _check_length(config: BertConfig, data: PretrainingData) -> None:
    if data.max_seq_length > config.max_position_embeddings:
        raise ValueError(
            f"the records in {data.folder} are up to {data.max_seq_length} pieces long but the "
            f"model has {config.max_position_embeddings} positions (max_position_embeddings): "
            "make shorter records or raise it"
        )
