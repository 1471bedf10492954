"""Fine-tuning: a model folder and labeled examples in, a model folder for the task out."""

import dataclasses
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_bert.checkpoints.peft.settings import is_adapter_folder
from keras_bert.finetuning.collapse import no_better_than_chance
from keras_bert.finetuning.distillation import Imitation, distilled_rows
from keras_bert.finetuning.encoded_rows import EncodedRows, TrainingBatches
from keras_bert.finetuning.head import FinetuningHead, PerExample
from keras_bert.finetuning.measurement import Measurement
from keras_bert.finetuning.model_preparation import create_model, finetuning_optimizer
from keras_bert.finetuning.options import FinetuningOptions
from keras_bert.finetuning.plan import RunPlan
from keras_bert.finetuning.prediction_table import write_predictions
from keras_bert.finetuning.result import FinetuningResult
from keras_bert.finetuning.run import DivergenceError, FinetuningRun
from keras_bert.finetuning.state import FinetuningCheckpoint
from keras_bert.finetuning.step import FinetuningStep
from keras_bert.finetuning.task import TRAIN, UNLABELED, Task, TaskData, TaskDescription
from keras_bert.models.surgery import lora_adapter
from keras_bert.progress import Progress
from keras_bert.storage import hub
from keras_bert.training.base_optimizer import BaseOptimizer
from keras_bert.training.cluster import is_chief
from keras_bert.training.precision import DynamicLossScale, create_loss_scale
from keras_bert.training.strategy import has_other_hosts
from keras_bert.training.termination import TerminatedError, Termination

SUBMISSION_FOLDER = "submission"
# What PEFT opens, beside the sums that all else does.
ADAPTER_FOLDER = "adapter"

_SHORTEST_FIXED_LENGTH = 32


def finetune(
    task: Task,
    data: TaskData,
    init_from: str | os.PathLike,
    model_dir: str | os.PathLike,
    options: FinetuningOptions = FinetuningOptions(),  # noqa: B008 (frozen)
    keep_finished: bool = False,
) -> FinetuningResult | None:
    """Fine-tunes a model on a task and writes it to `model_dir`.

    The folder becomes a preset with `task.json`, `metrics.json`, `metrics.jsonl`, TensorBoard
    events and `predictions_<split>.csv` for each split but the training data. The weights are those
    of the epoch with the best first metric on the validation data (the lower loss among equals), or
    of the last epoch where there is no such data. While it runs, `checkpoints/` keeps what the same
    call needs to go on with a run that was stopped, and end as if it never had been. A run with
    `lora_rank` has `adapter/` besides, see `save_lora_adapter`.

    Args:
        task: what is learned.
        data: what `task.read` returned.
        init_from: the model folder to start from.
        model_dir: the folder to write. A run that was stopped there goes on; one that was finished
            may be done again; any other is refused.
        options: settings of the run.
        keep_finished: where this very run was finished before, return what it measured.

    Returns:
        What it measured; None when SIGTERM ended the run early. It is saved then, and the same call
        goes on with it.

    Raises:
        FileNotFoundError: `init_from` is not a model folder.
        ValueError: model, data and options do not fit, `model_dir` holds something else or is
            written to by another process, workers were told different things, or the loss is no
            longer finite.
    """
    plan = RunPlan.checked(task, data, init_from, model_dir, options)
    finished = FinetuningResult.finished(model_dir) if keep_finished else None
    plan.check_workers(finished is not None)
    if finished is not None:
        return finished

    keras.utils.set_random_seed(plan.options.seed)
    splits = _encode(plan, data)
    trainer = _Trainer.prepared(plan, data, splits)
    with plan.folder.held(), Termination() as termination:
        measure = Measurement(
            task, plan.description.head, data, splits, trainer.model, plan.options, termination
        )
        run = trainer.open_run(plan, measure, best_by=next(iter(task.metrics)))
        _announce(plan, data, trainer, run.step)
        try:
            with Progress(trainer.steps, "step", "fine-tuning", run.step, at_once=True) as progress:
                run.train(progress, termination)
            trainer.model.set_weights(run.best_weights)
            with run.evaluation_time(after_training=True):
                head, metrics, predictions = measure.all_splits()
        except TerminatedError:
            run.save()
            print(
                f"stopped by SIGTERM at step {run.step}, which is saved: the same command goes on "
                "from there",
                file=sys.stderr,
            )
            return None
        except DivergenceError:
            plan.folder.remove_checkpoints()
            raise
        result = _result(plan, data, head, run, measure, metrics, predictions)
        if is_chief(plan.strategy):
            description = dataclasses.replace(plan.description, head=head)
            # The model first: what its head has for other libraries says more than the model does.
            trainer.model.save_to_preset(os.fspath(model_dir), plan.tokenizer)
            _write_adapter(plan, trainer.model)
            _write(plan.folder.path, task, data, description, predictions)
            result.save(model_dir)
            plan.folder.remove_checkpoints()
    return result


@dataclasses.dataclass(frozen=True)
class _Trainer:
    """A model with its training step, and what it is trained on.

    Attributes:
        model: compiled, its `train_step` a `FinetuningStep`.
        optimizer: built.
        loss_scale: of float16; None for other numbers.
        rows: of the training data, those that a teacher labels behind them.
        batches: of one epoch.
        steps: of all epochs.
    """

    model: keras.Model
    optimizer: BaseOptimizer
    loss_scale: DynamicLossScale | None
    rows: EncodedRows
    batches: TrainingBatches
    steps: int

    @classmethod
    def prepared(
        cls, plan: RunPlan, data: TaskData, splits: Mapping[str, EncodedRows]
    ) -> "_Trainer":
        """Opens the model, asks its teacher, if any, and makes the batches."""
        options, head, strategy = plan.options, plan.description.head, plan.strategy
        rows, weights, teaching = splits[TRAIN], plan.example_weights, None
        if plan.teacher is not None:
            with strategy.scope():
                teaching = plan.teacher.open(options)
            # Its answers are computed once, before the optimizer's moments take their memory.
            rows = distilled_rows(plan.teacher, teaching, head, data, splits, options.batch_size)
            if not options.imitated:
                teaching = None  # its weights are not needed any more
            if weights is not None:
                unlabeled = np.ones(len(rows) - len(weights), np.float32)
                weights = np.concatenate([weights, unlabeled])
        batches = rows.training_batches(
            options.batch_size,
            options.seed,
            weights,
            parts=strategy.num_replicas_in_sync * options.accumulation_steps,
            full_batches=plan.on_tpu,
        )
        steps = options.epochs * len(batches)
        with strategy.scope():
            model = create_model(head, plan.init_from, plan.config, options)
            head.prepare(model, splits[TRAIN])
            optimizer = finetuning_optimizer(model, options, steps)
            optimizer.build(model.trainable_variables)
            loss_scale = create_loss_scale(model.encoder.policy)
            # Not compiled by XLA: every length of a batch would be compiled anew.
            model.compile(optimizer, jit_compile=False, auto_scale_loss=False)
        model.train_step = FinetuningStep(
            model,
            optimizer,
            plan.losses,
            options.seed,
            options.accumulation_steps,
            loss_scale,
            Imitation(model, teaching, options) if options.imitated else None,
        )
        # All is built. To build it again, Keras 3 reads a batch and averages it over replicas,
        # which it cannot do with one of several workers.
        model._maybe_symbolic_build = lambda **_: None
        return cls(model, optimizer, loss_scale, rows, batches, steps)

    def open_run(self, plan: RunPlan, measure: Measurement, best_by: str) -> FinetuningRun:
        """Returns the run, at its start or at the latest checkpoint of its folder."""
        folder = plan.folder
        io_device = "/job:localhost" if has_other_hosts(plan.strategy) else None
        checkpoint = FinetuningCheckpoint(
            folder.checkpoints, self.model, self.optimizer, self.loss_scale, io_device
        )
        run = FinetuningRun(
            options=plan.options,
            model=self.model,
            batches=self.batches,
            tokens_per_step=self.rows.real_tokens / len(self.batches),
            evaluate=measure.validation,
            best_by=best_by,
            folder=folder,
            checkpoint=checkpoint,
            strategy=plan.strategy,
        )
        if not run.step:
            folder.remove_checkpoints()
        for sentence in run.damaged:
            print(f"warning: {sentence}; going back to step {run.step}", file=sys.stderr)
        folder.start(run.step, ("train", "validation") if run.awaits_evaluation else ())
        return run


def _result(
    plan: RunPlan,
    data: TaskData,
    head: FinetuningHead,
    run: FinetuningRun,
    measure: Measurement,
    metrics: Mapping[str, Any],
    predictions: Mapping[str, PerExample],
) -> FinetuningResult:
    state = run.state
    # Neither weighed nor distilled losses are those of guessing.
    plain = plan.example_weights is None and plan.teacher is None
    chance = head.chance_loss(data.splits[TRAIN], plan.options.label_smoothing)
    return FinetuningResult(
        best_epoch=state.best_epoch,
        metrics=dict(metrics),
        epochs=tuple(state.history),
        confusion=measure.tables(predictions, head.confusion),
        calibration=measure.tables(predictions, head.calibration),
        collapsed=measure.collapse(predictions)
        or no_better_than_chance(state.last_loss.value, chance if plain else None),
        seconds=state.seconds,
        real_tokens_per_second=state.tokens / (state.seconds - state.evaluation_seconds),
    )


def _encode(plan: RunPlan, data: TaskData) -> dict[str, EncodedRows]:
    head, max_seq_length = plan.description.head, plan.description.max_seq_length
    splits = {}
    for name, split in data.splits.items():
        if name == UNLABELED:
            split = head.without_labels(split)  # which nothing has checked
        description = f"tokenizing {name}"
        splits[name] = head.encode(plan.tokenizer, split, max_seq_length, description)
    if plan.on_tpu:
        # Every length is compiled once: powers of two up to the maximum.
        lengths = [_SHORTEST_FIXED_LENGTH]
        while lengths[-1] < max_seq_length:
            lengths.append(2 * lengths[-1])
        for encoded in splits.values():
            encoded.fixed_lengths([min(length, max_seq_length) for length in lengths])
    return splits


def _announce(plan: RunPlan, data: TaskData, trainer: _Trainer, step: int) -> None:
    model, rows, options = trainer.model, trainer.rows, plan.options
    labels = f", {len(data.labels)} labels" if data.labels else ""
    unlabeled = (
        f" and {len(data.splits[UNLABELED]):,} unlabeled" if UNLABELED in data.splits else ""
    )
    taught = f", teacher {options.teacher}" if options.teacher else ""
    start = "fresh weights" if options.from_scratch else "pretrained weights"
    trained = sum(int(np.prod(weight.shape)) for weight in model.trainable_weights)
    if plan.class_weights is not None:
        shown = ", ".join(f"{label!r} {value:.4g}" for label, value in plan.class_weights.items())
        print(f"class weights: {shown}")
    print(
        f"fine-tuning {trained:,} parameters ({start}) on {len(data.splits[TRAIN]):,} examples"
        f"{unlabeled}{labels}{taught}, {options.epochs} epochs, batch {options.batch_size}, "
        f"{model.encoder.policy.name}; {rows.full_rows():.1%} of the rows fill all "
        f"{plan.description.max_seq_length} positions{rows.remark and f'; {rows.remark}'}"
        f"{f'; resumed at step {step}' if step else ''}",
        flush=True,
    )


def _write_adapter(plan: RunPlan, model: keras.Model) -> None:
    """Writes what a run learned by LoRA for PEFT, or tells why it cannot."""
    if plan.options.lora_rank is None:
        return
    reason = lora_adapter.hindrance(model)
    if plan.options.init_layers:
        reason = f"there is no model of the layers {plan.options.init_layers} alone to add it to"
    elif is_adapter_folder(plan.init_from):
        reason = f"{plan.init_from}, where the run began, is an adapter itself"
    if reason:
        print(f"no {ADAPTER_FOLDER}/ is written for PEFT: {reason}")
        return
    named = plan.settings["init_from"]
    base = named if hub.is_hub_name(named) else plan.init_from
    folder = plan.folder.path / ADAPTER_FOLDER
    lora_adapter.save_lora_adapter(model, folder, base, plan.tokenizer)


def _write(
    model_dir: str | os.PathLike,
    task: Task,
    data: TaskData,
    description: TaskDescription,
    predictions: Mapping[str, PerExample],
) -> None:
    description.save(model_dir)
    for name, values in predictions.items():
        path = Path(model_dir) / f"predictions_{name}.csv"
        write_predictions(path, description.head, data.splits[name], values)
    if task.write_submission is not None:
        task.write_submission(Path(model_dir) / SUBMISSION_FOLDER, data, predictions)
