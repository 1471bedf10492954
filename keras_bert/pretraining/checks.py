"""What a pretraining run refuses before anything is built."""

import math
from typing import Any

import tensorflow as tf

from keras_bert.config import BertConfig, read_json
from keras_bert.counts import LARGEST_SEED, check_count
from keras_bert.data.records.record_groups import RecordGroups
from keras_bert.data.records.record_set import PretrainingData
from keras_bert.pretraining.options import PretrainingOptions
from keras_bert.storage import hub
from keras_bert.storage.paths import check_no_pattern
from keras_bert.storage.remote_folders import local_copy
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.loading import load_tokenizer
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.training.base_optimizer import check_decay

# Counts with the least that each may be.
_COUNTS = {
    **dict.fromkeys(("train_steps", "batch_size", "accumulation_steps", "checkpoint_steps"), 1),
    **dict.fromkeys(("steps_per_loop", "eval_steps", "preset_steps", "max_skipped_steps"), 0),
    # A warmup of 0.1 is no tenth of the run but less than a step; ranges are looked at elsewhere.
    **dict.fromkeys(("warmup_steps", "schedule_steps", "keep_checkpoints"), 0),
}
_FINITE = ("learning_rate", "weight_decay_rate", "time_budget")


def check_data(
    config: BertConfig, data: PretrainingData, eval_data: PretrainingData | None
) -> Tokenizer:
    """Returns the tokenizer of the records.

    Raises:
        ValueError: records, vocabulary and config do not fit each other.
    """
    tokenizer = load_tokenizer(data.folder)
    for together in (data, eval_data):
        if together is None:
            continue
        together.check_vocabulary(tokenizer.vocabulary)
        is_several = isinstance(together, RecordGroups)
        for records in together.groups.values() if is_several else [together]:
            if records.max_seq_length > config.max_position_embeddings:
                raise ValueError(
                    f"the records in {records.folder} are up to {records.max_seq_length} pieces "
                    f"long but the model has {config.max_position_embeddings} positions "
                    "(max_position_embeddings): make shorter records or raise it"
                )
    if data.sentence_task != "none" and not config.takes_pairs:
        raise ValueError(
            f"the records in {data.folder} are pairs of segments but the model's type_vocab_size "
            f"is {config.type_vocab_size}: it needs 2, or make records with --sentence_task=none"
        )
    if eval_data is not None:
        for name in ("sentence_task", "packed"):
            held_out, training = getattr(eval_data, name), getattr(data, name)
            if held_out != training:
                raise ValueError(
                    f"the held-out records in {eval_data.folder} were made with {name} "
                    f"{held_out!r}, those in {data.folder} with {training!r}: make both alike"
                )
        # One tokenizer reads both; that of groups is one, see `RecordGroups`.
        lowercase = {
            records.manifest.lowercase
            for together in (data, eval_data)
            for records in together.groups.values() or [together]
            if records.manifest
        }
        if len(lowercase) > 1:
            raise ValueError(
                f"of the held-out records in {eval_data.folder} and those in {data.folder} one is "
                "of lower-cased text and the other is not: make both alike"
            )
    tokenizer.vocabulary.check_size(config.vocab_size)
    padding = tokenizer.vocabulary.pad_id
    if config.first_position and config.pad_token_id != padding:
        # Here masks say what is padding; in other libraries the id does, and positions follow.
        raise ValueError(
            f"pad_token_id is {config.pad_token_id} and the vocabulary's padding {padding}; "
            f"positions of a {config.model_type} begin behind it: give both the same id"
        )
    return tokenizer


def check_options(options: PretrainingOptions, strategy: tf.distribute.Strategy) -> None:
    """Checks what concerns neither model nor records.

    Raises:
        ValueError: an option is out of its range or does not go with another.
    """
    for name, least in _COUNTS.items():
        check_count(name, getattr(options, name), least)
    check_count("seed", options.seed, 0, LARGEST_SEED)
    if not options.learning_rate > 0:  # nor is NaN
        raise ValueError(f"learning_rate is {options.learning_rate}: it must be above 0")
    for name in _FINITE:
        if math.isinf(getattr(options, name) or 0):
            raise ValueError(f"{name} is {getattr(options, name)}: it must be a finite number")
    if not options.weight_decay_rate >= 0:
        raise ValueError(f"weight_decay_rate is {options.weight_decay_rate}: it must be 0 or more")
    check_decay("beta_2", options.beta_2)
    if options.peak_tflops is not None and not 0 < options.peak_tflops < math.inf:
        raise ValueError(
            f"peak_tflops is {options.peak_tflops}: it must be above 0 and finite, or left out"
        )
    if options.eval_steps and not options.eval_data_dir:
        raise ValueError(
            f"eval_steps is {options.eval_steps}, but there are no held-out records to evaluate "
            "on: give their folder with --eval_data_dir, or leave it out"
        )
    parts = strategy.num_replicas_in_sync * options.accumulation_steps
    if options.batch_size % parts:
        raise ValueError(
            f"batch_size {options.batch_size} is not divisible by {parts} "
            f"({strategy.num_replicas_in_sync} replicas times {options.accumulation_steps} "
            "accumulation_steps): choose a multiple"
        )
    if options.time_budget is not None and not options.time_budget > 0:
        raise ValueError(f"time_budget is {options.time_budget}: it must be above 0 seconds")
    if options.time_budget and not 0 <= options.warmup_proportion < 1:
        raise ValueError(
            f"warmup_steps is {options.warmup_steps} and train_steps is {options.train_steps}: "
            "their ratio is that of the warmup to the time_budget, and must be from 0 to below 1"
        )
    end = options.schedule_steps
    if end is not None and (end < options.train_steps or options.time_budget):
        raise ValueError(
            f"schedule_steps is {end} and train_steps is {options.train_steps}"
            f"{' with a time budget' if options.time_budget else ''}: the schedule of a run that "
            "another one goes on from ends after it, and follows steps"
        )
    if options.time_budget and options.schedule != "linear":
        raise ValueError(
            f"schedule is {options.schedule!r} but a time_budget has the linear one only: "
            "leave one of the two out"
        )


def check_steps(options: PretrainingOptions, step: int, goes_on: bool) -> None:
    """Makes sure that a run that starts at the step of another one has something to do.

    Args:
        options: settings of the run.
        step: where it starts.
        goes_on: whether that is where its own last checkpoint stands.

    Raises:
        ValueError: the run that it goes on from has come to its end.
    """
    if step and not goes_on and not options.time_budget and step >= options.train_steps:
        raise ValueError(
            f"{options.init_from} stands at step {step} and train_steps is {options.train_steps}: "
            "train_steps counts the steps of both runs"
        )


def is_run(init_from: str | None) -> bool:
    """Returns whether a place to start from is a run, which this one would go on with."""
    if init_from is None or init_from.startswith(hub.SCHEME):
        return False
    path = f"{init_from}/run.json"
    # One of fine-tuning has other settings, and its folder is that of a model.
    return tf.io.gfile.exists(path) and "vocabulary_sha256" in read_json(local_copy(path))


def check_source(
    config: BertConfig, options: PretrainingOptions, objective: str, vocabulary: Vocabulary
) -> None:
    """Makes sure, before anything is built, that a run can start from `init_from`.

    The config of a model folder is compared later, when its weights are read.

    Args:
        config: the model's numbers.
        options: settings of the run.
        objective: name of what it is trained for.
        vocabulary: that of the records.

    Raises:
        FileNotFoundError: there is nothing.
        ValueError: it has another vocabulary; or it is a run with another objective, configuration,
            optimizer or loss scale.
    """
    source = options.init_from
    if options.init_layers and (source is None or is_run(source)):
        raise ValueError(
            f"init_layers is {','.join(options.init_layers)}: name the model folder whose layers "
            "are taken with --init_from"
        )
    if source is None:
        return
    if not is_run(source):
        local = hub.local_folder(local_copy(source))
        if not local.is_dir():
            raise FileNotFoundError(
                f"{source} is not a folder: give the folder of a model or a run"
            )
        try:
            sha256 = load_tokenizer(local).vocabulary.sha256
        except FileNotFoundError:  # weights alone: nobody can tell
            sha256 = None
        _check_vocabulary(source, sha256, vocabulary)
        return
    check_no_pattern("init_from", source)
    settings = read_json(local_copy(f"{source}/run.json"))
    _check_vocabulary(source, settings["vocabulary_sha256"], vocabulary)
    trained = settings["options"].get("objective", objective)
    if trained != objective:
        raise ValueError(
            f"the run in {source} has the objective {trained}, but objective is {objective}: its "
            f"checkpoint has other variables; take only its weights, with --init_from={source}"
            "/preset"
        )
    check_config(source, settings["config"], config)
    optimizer = settings["options"]["optimizer"]
    precision = settings["options"]["mixed_precision"]
    if (precision == "float16") != (options.mixed_precision == "float16"):
        raise ValueError(
            f"the run in {source} computed in {precision}, but mixed_precision is "
            f"{options.mixed_precision!r}: float16 has a loss scale, and neither goes on from the "
            "other; take only the weights, with "
            f"--init_from={source}/preset"
        )
    if optimizer != options.optimizer:
        raise ValueError(
            f"the run in {source} holds the moments of {optimizer}, but optimizer is "
            f"{options.optimizer!r}: take {optimizer} too, or only its weights, with "
            f"--init_from={source}/preset"
        )


def check_config(source: str, found: dict[str, Any], config: BertConfig) -> None:
    """Makes sure that a model is of a configuration, but for its dropout and its start values.

    Raises:
        ValueError: it is not; the sentence names a difference.
    """
    wanted = config.to_dict()
    for name in sorted(wanted.keys() | found.keys()):
        if "dropout" in name or name in ("initializer_range", "position_initializer"):
            continue
        # Weights of a discriminator say nothing of the generator that it had.
        if name == "generator_size" and not is_run(source):
            continue
        if wanted.get(name) != found.get(name):
            folder = f"{source}/preset" if is_run(source) else source
            raise ValueError(
                f"{source} holds a model of another configuration than --model ({name} "
                f"{found.get(name)!r}, not {wanted.get(name)!r}): give its own, "
                f"--model={folder}/config.json"
            )


def _check_vocabulary(source: str, sha256: str | None, vocabulary: Vocabulary) -> None:
    if sha256 not in (None, vocabulary.sha256):
        raise ValueError(
            f"{source} was trained with another vocabulary (sha256 {sha256[:12]}...) than the "
            f"records were made with (sha256 {vocabulary.sha256[:12]}...): its embeddings would "
            "belong to other pieces; make the records again with its vocab.txt"
        )
