"""Pretraining: records in, a run folder with checkpoints, metrics and a preset out."""

import dataclasses
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from keras_bert.config import BertConfig
from keras_bert.data.pretraining_data import PretrainingData
from keras_bert.data.pretraining_pipeline import evaluation_batches, training_batches
from keras_bert.models.pretrainer import BertPretrainer
from keras_bert.progress import Progress
from keras_bert.text.masking import MaskedLanguageModelMasking, Strategy
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.training.base_optimizer import BaseOptimizer
from keras_bert.training.checkpointing import TrainingCheckpoint
from keras_bert.training.evaluation import evaluate, most_frequent_piece_accuracy
from keras_bert.training.metrics import pretraining_metrics
from keras_bert.training.optimizer import OptimizerName, optimizer_class
from keras_bert.training.precision import dtype_policy
from keras_bert.training.pretraining_step import (
    PretrainingStep,
    make_evaluation_step,
    make_training_loop,
)
from keras_bert.training.run_folder import RunFolder
from keras_bert.training.schedules import ScheduleName, TimeBudgetDecay, create_schedule

# One host call of the loop lasts about this long when `steps_per_loop` is left to the code: long
# enough that the call costs nothing, short enough that progress is seen.
_SECONDS_PER_LOOP = 2.0


@dataclasses.dataclass(frozen=True)
class PretrainingOptions:
    """What a pretraining run is told; the defaults are the paper's (section A.2).

    Attributes:
        data_dir: folder of records to train on.
        model_dir: the run folder; a run that is there is resumed.
        eval_data_dir: folder of held-out records, or None.
        train_steps: steps of the whole run.
        batch_size: sequences per step over all replicas.
        learning_rate: the peak.
        warmup_steps: steps until the peak; with a time budget its share of `train_steps` is the
            share of the time.
        masking: "token" or "whole_word".
        max_predictions_per_seq: most masked positions of a sequence; None gives room for 15 %.
        accumulation_steps: micro-batches per step and replica.
        steps_per_loop: steps per host call; 0 lets the code find what takes about two seconds.
        checkpoint_steps: steps between checkpoints.
        eval_steps: steps between evaluations; 0 evaluates at the end only.
        keep_checkpoints: how many checkpoints stay.
        time_budget: seconds of training after which the run ends with a learning rate of zero,
            instead of after `train_steps`; None for no budget.
        init_from: a model folder to start from, or None.
        mixed_precision: "auto", "float32", "bfloat16" or "float16".
        optimizer: "adamw", or "lamb" for batches of many thousands.
        schedule: what follows the warmup: "linear", "polynomial", "cosine", "constant" or
            "warmup_stable_decay". A time budget has the linear one only.
        weight_decay_rate: decay of the optimizer.
        bias_correction: whether Adam corrects its moments for their zero start. The original does
            not, and its 10,000 steps of warmup hide what that does: without correction the first
            updates are up to six times too large, which a run of a few thousand steps may not
            recover from. LAMB always corrects them.
        seed: of masks, order, dropout and initial weights.
    """

    data_dir: str
    model_dir: str
    eval_data_dir: str | None = None
    train_steps: int = 1_000_000
    batch_size: int = 256
    learning_rate: float = 1e-4
    warmup_steps: int = 10_000
    masking: Strategy = "token"
    max_predictions_per_seq: int | None = None
    accumulation_steps: int = 1
    steps_per_loop: int = 0
    checkpoint_steps: int = 1000
    eval_steps: int = 0
    keep_checkpoints: int = 3
    time_budget: float | None = None
    init_from: str | None = None
    mixed_precision: str = "auto"
    optimizer: OptimizerName = "adamw"
    schedule: ScheduleName = "linear"
    weight_decay_rate: float = 0.01
    bias_correction: bool = False
    seed: int = 0


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
    run = _Run(options, checkpoint, schedule, folder, next_sentence)
    run.announce(model, data, strategy, resumed)
    metrics = run.train(
        make_training_loop(step, strategy),
        iter(batches),
        evaluation,
        lambda: model.save_to_preset(folder.preset, tokenizer),
    )
    return metrics


class _Run:
    """The host's side of training: when to call the loop, save, evaluate and stop."""

    def __init__(
        self,
        options: PretrainingOptions,
        checkpoint: TrainingCheckpoint,
        schedule: Any,
        folder: RunFolder,
        next_sentence: bool,
    ):
        self._options = options
        self._checkpoint = checkpoint
        self._schedule = schedule
        self._folder = folder
        self._next_sentence = next_sentence
        self._seconds = float(checkpoint.seconds.numpy())
        self._step = checkpoint.step
        self._seconds_per_step = 0.0

    def announce(
        self, model: keras.Model, data: PretrainingData, strategy: Any, resumed: bool
    ) -> None:
        """Prints what is about to happen, in one line."""
        end = f"{self._options.train_steps} steps"
        if self._options.time_budget:
            end = f"{self._options.time_budget:.0f} s"
        start = f"resumed at step {self._step}" if resumed else "from the start"
        print(
            f"pretraining {model.count_params():,} parameters on {data.num_examples:,} examples of "
            f"up to {data.max_seq_length} pieces, batch {self._options.batch_size}, {end}, "
            f"{strategy.num_replicas_in_sync} replica(s), {model.encoder.policy.name}, {start}",
            flush=True,
        )

    def train(
        self,
        loop: Callable,
        iterator: Iterator,
        evaluation: Callable[[], dict[str, float]] | None,
        save_preset: Callable,
    ) -> dict[str, float]:
        """Runs to the end of the steps or of the time; returns the last evaluation."""
        metrics: dict[str, float] = {}
        with self._progress() as progress:
            while not self._finished():
                count = self._steps_of_next_call()
                self._train_some(loop, iterator, count, progress)
                done = self._finished()
                if done or self._step % self._options.checkpoint_steps == 0:
                    self._checkpoint.save(self._seconds)
                    save_preset()
                if evaluation and (done or self._is_due(self._options.eval_steps)):
                    metrics = evaluation()
                    self._folder.log("eval", self._step, metrics)
                    progress.write(f"step {self._step}: held-out {_as_text(metrics)}")
        if evaluation and not metrics:  # the run was complete before it was started again
            metrics = evaluation()
        return metrics

    def _train_some(
        self, loop: Callable, iterator: Iterator, count: int, progress: Progress
    ) -> None:
        if self._options.time_budget:
            self._schedule.progress.assign(min(1.0, self._seconds / self._options.time_budget))
        rate = float(self._schedule(self._step))
        started = time.perf_counter()
        sums = tf.nest.map_structure(float, loop(iterator, tf.constant(count)))
        seconds = time.perf_counter() - started
        self._seconds += seconds
        self._step += count
        self._seconds_per_step = seconds / count
        metrics = pretraining_metrics(sums, self._next_sentence)
        self._check_finite(metrics["loss"], rate)
        metrics |= {"learning_rate": rate, "tokens_per_second": sums.tokens / seconds}
        self._folder.log("train", self._step, metrics | {"seconds": self._seconds})
        progress.update(
            self._shown_seconds(seconds) if self._options.time_budget else count,
            step=self._step,
            loss=f"{metrics['loss']:.3f}",
            masked_lm_accuracy=f"{metrics['masked_lm_accuracy']:.3f}",
            tokens_per_second=f"{metrics['tokens_per_second']:,.0f}",
        )

    def _shown_seconds(self, seconds: float) -> int:
        end = min(self._seconds, self._options.time_budget)
        return max(0, int(end) - int(self._seconds - seconds))

    def _progress(self) -> Progress:
        if self._options.time_budget:
            total = int(self._options.time_budget)
            return Progress(total, "s", "pretraining", int(self._seconds))
        return Progress(self._options.train_steps, "step", "pretraining", self._step)

    def _finished(self) -> bool:
        if self._options.time_budget:
            return self._seconds >= self._options.time_budget
        return self._step >= self._options.train_steps

    def _steps_of_next_call(self) -> int:
        """Returns how many steps fit before the next checkpoint, evaluation or end."""
        wanted = self._options.steps_per_loop
        if not wanted:
            per_step = self._seconds_per_step
            wanted = max(1, int(_SECONDS_PER_LOOP / per_step)) if per_step else 1
        stops = [_steps_until(self._step, self._options.checkpoint_steps)]
        if self._options.eval_steps:
            stops.append(_steps_until(self._step, self._options.eval_steps))
        if not self._options.time_budget:
            stops.append(self._options.train_steps - self._step)
        return min(wanted, *stops)

    def _is_due(self, interval: int) -> bool:
        return bool(interval) and self._step % interval == 0

    def _check_finite(self, loss: float, rate: float) -> None:
        if not math.isfinite(loss):
            raise ValueError(
                f"the loss is {loss} at step {self._step} (learning rate {rate:g}): lower "
                "--learning_rate; the checkpoints in "
                f"{self._folder.checkpoints} are from before"
            )


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


def _steps_until(step: int, interval: int) -> int:
    return interval - step % interval


def _as_text(metrics: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())


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
