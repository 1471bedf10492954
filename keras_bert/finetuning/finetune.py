"""Fine-tuning: a model folder and labeled examples in, a model folder for the task out."""

import dataclasses
import hashlib
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.config import BertConfig
from keras_bert.finetuning.collapse import no_better_than_chance
from keras_bert.finetuning.distillation import (
    Imitation,
    TeacherFolder,
    distilled_losses,
    distilled_rows,
    teacher_digest,
)
from keras_bert.finetuning.encoded_rows import EncodedRows
from keras_bert.finetuning.head import EvaluatedHead, FinetuningHead, PerExample, TrainableHead
from keras_bert.finetuning.inference import Inference, InferenceRunner
from keras_bert.finetuning.model_preparation import create_model, finetuning_optimizer
from keras_bert.finetuning.options import FREE_OPTIONS, FinetuningOptions, ResolvedOptions
from keras_bert.finetuning.prediction_table import write_predictions
from keras_bert.finetuning.result import FinetuningResult
from keras_bert.finetuning.run import DivergenceError, FinetuningRun, Metrics
from keras_bert.finetuning.state import FinetuningCheckpoint
from keras_bert.finetuning.step import FinetuningStep
from keras_bert.finetuning.task import (
    TASK_FILE,
    TEST,
    TRAIN,
    UNLABELED,
    VALIDATION,
    Task,
    TaskData,
    TaskDescription,
)
from keras_bert.models.preset import CONFIG_FILE, read_config
from keras_bert.models.surgery.layer_selection import parsed_layers
from keras_bert.progress import Progress
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.loading import load_tokenizer
from keras_bert.training.checkpointing import latest_step
from keras_bert.training.cluster import check_workers, is_chief
from keras_bert.training.precision import DynamicLossScale
from keras_bert.training.run_folder import RunFolder, default_values
from keras_bert.training.strategy import create_strategy, has_other_hosts
from keras_bert.training.termination import TerminatedError, Termination

SUBMISSION_FOLDER = "submission"

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
    call needs to go on with a run that was stopped, and end as if it never had been.

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
    # 1. Check what can be checked before anything is computed.
    strategy = create_strategy(options.strategy)
    tokenizer = load_tokenizer(init_from)
    config = read_config(init_from, options.ignore_config_keys)
    tokenizer.vocabulary.check_size(config.vocab_size)
    if options.init_layers:
        layers = parsed_layers(options.init_layers, config.num_hidden_layers)
        config = config.replace(num_hidden_layers=len(layers))
    description = _description(task, data, config, tokenizer, options)
    settings = _settings(init_from, description, data, options)
    if options.teacher:
        settings["teacher"] = teacher_digest(options.teacher)
    options = options.resolved(task.defaults)
    head = description.head
    loss = head.loss(options.label_smoothing)
    weights = _example_weights(head, data, options)
    if UNLABELED in data.splits and not options.teacher:
        raise ValueError(
            f"the data has {len(data.splits[UNLABELED]):,} unlabeled examples, from which nothing "
            "is learned without a teacher: name one with --teacher, or take the file away"
        )
    teacher = None
    if options.teacher:
        teacher = TeacherFolder.read(options, description, config, tokenizer)
        loss = distilled_losses(head, loss, options)
    folder = _run_folder(model_dir, settings, is_chief(strategy))
    finished = FinetuningResult.finished(model_dir) if keep_finished else None
    step = latest_step(str(folder.checkpoints))
    told = {**settings, "init_from": "", "options": dataclasses.asdict(options)}
    check_workers(strategy, -1 if finished else step, told)
    if finished is not None:
        return finished

    # 2. Model and data.
    keras.utils.set_random_seed(options.seed)
    splits = _encode(head, tokenizer, data, description.max_seq_length, strategy)
    train, imitation, teaching = splits[TRAIN], None, None
    if teacher is not None:
        with strategy.scope():
            teaching = teacher.open(options)
        # Its answers are computed once, before the optimizer's moments take their memory.
        train = distilled_rows(teacher, teaching, head, data, splits, options.batch_size)
        if not options.imitated:
            teaching = None  # its weights are not needed any more
        if weights is not None:
            unlabeled = np.ones(len(train) - len(weights), np.float32)
            weights = np.concatenate([weights, unlabeled])
    batches = train.training_batches(
        options.batch_size,
        options.seed,
        weights,
        parts=strategy.num_replicas_in_sync * options.accumulation_steps,
        full_batches=_is_tpu(strategy),
    )
    with strategy.scope():
        model = create_model(head, init_from, config, options)
        optimizer = finetuning_optimizer(model, options, options.epochs * len(batches))
        optimizer.build(model.trainable_variables)
        loss_scale = DynamicLossScale() if "float16" in model.encoder.policy.name else None
        # Not compiled by XLA: every length of a batch would be compiled anew.
        model.compile(optimizer, jit_compile=False, auto_scale_loss=False)
    if options.imitated:
        imitation = Imitation(model, teaching, options)
    model.train_step = FinetuningStep(
        model,
        optimizer,
        loss,
        options.seed,
        options.accumulation_steps,
        loss_scale,
        imitation,
    )
    # All is built. To build it again, Keras 3 reads a batch and averages it over replicas, which it
    # cannot do with one of several workers.
    model._maybe_symbolic_build = lambda **_: None

    # 3. Train; keep the best epoch. 4. Measure it once on all other splits.
    io_device = "/job:localhost" if has_other_hosts(strategy) else None
    checkpoint = FinetuningCheckpoint(folder.checkpoints, model, optimizer, loss_scale, io_device)
    with folder.held(), Termination() as termination:
        measure = _Measurement(task, head, data, splits, model, options, termination)
        run = FinetuningRun(
            options=options,
            model=model,
            batches=batches,
            tokens_per_step=train.real_tokens / len(batches),
            evaluate=measure.validation,
            best_by=next(iter(task.metrics)),
            folder=folder,
            checkpoint=checkpoint,
            strategy=strategy,
        )
        if not run.step:
            folder.remove_checkpoints()
        for sentence in run.damaged:
            print(f"warning: {sentence}; going back to step {run.step}", file=sys.stderr)
        folder.start(run.step, ("train", "validation") if run.awaits_evaluation else ())
        _announce(model, data, train, description, options, run.step)
        try:
            total = options.epochs * len(batches)
            with Progress(total, "step", "fine-tuning", run.step) as progress:
                run.train(progress, termination)
            model.set_weights(run.best_weights)
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
            folder.remove_checkpoints()
            raise

        # 5. Write.
        state = run.state
        chance = head.chance_loss(data.splits[TRAIN], options.label_smoothing)
        result = FinetuningResult(
            best_epoch=state.best_epoch,
            metrics=metrics,
            epochs=tuple(state.history),
            confusion=measure.tables(predictions, head.confusion),
            calibration=measure.tables(predictions, head.calibration),
            collapsed=measure.collapse(predictions)
            or no_better_than_chance(
                state.last_loss.value, None if weights is not None or teacher else chance
            ),
            seconds=state.seconds,
            real_tokens_per_second=state.tokens / (state.seconds - state.evaluation_seconds),
        )
        if is_chief(strategy):
            description = dataclasses.replace(description, head=head)
            _write(model_dir, task, data, description, predictions)
            model.save_to_preset(os.fspath(model_dir), tokenizer)
            result.save(model_dir)
            folder.remove_checkpoints()
    return result


class _Measurement:
    """Predictions and metrics of the splits."""

    def __init__(
        self,
        task: Task,
        head: FinetuningHead,
        data: TaskData,
        splits: Mapping[str, EncodedRows],
        model: keras.Model,
        options: ResolvedOptions,
        termination: Termination,
    ):
        self._metrics = task.metrics
        self._head = head
        self._examples = data.splits
        self._splits = splits
        # A process that is told to end does not finish an evaluation first, unless it is one of
        # several, which do so together.
        strategy = model.distribute_strategy
        together = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        before_batch = None if together else termination.check
        answer, final = (head.answering(model, final) for final in (False, True))
        self._run = self._final_run = InferenceRunner(model, before_batch, answer)
        if final is not None:
            self._final_run = InferenceRunner(model, before_batch, final)
        # A head that answers by itself measures the loss by itself.
        self._loss = head.loss() if answer is None else None
        self._batch_size = options.batch_size
        self._references = {name: head.references(split) for name, split in data.splits.items()}

    def validation(self) -> Metrics:
        """Measures the validation data; no split, no metrics."""
        if VALIDATION not in self._splits:
            return {}
        outputs, loss = self._infer(VALIDATION, self._run)
        predictions = self._predictions(VALIDATION, outputs, self._head)
        return self._measures(VALIDATION, predictions, loss)

    def all_splits(self) -> tuple[FinetuningHead, dict[str, Metrics], dict[str, PerExample]]:
        """Returns the tuned head, and metrics and predictions of all splits but "train"."""
        head = self._head
        learned_from = (TRAIN, UNLABELED)
        outputs = {
            name: self._infer(name, self._final_run)
            for name in self._splits
            if name not in learned_from
        }
        if self._references.get(VALIDATION) is not None:
            found = self._predictions(VALIDATION, outputs[VALIDATION].outputs, head)
            head = head.tuned(found, self._references[VALIDATION])
        metrics: dict[str, Metrics] = {}
        predictions: dict[str, PerExample] = {}
        for name, (values, loss) in outputs.items():
            predictions[name] = self._predictions(name, values, head)
            if self._references[name] is not None:
                metrics[name] = self._measures(name, predictions[name], loss)
        return head, metrics, predictions

    def collapse(self, predictions: Mapping[str, PerExample]) -> str | None:
        """Returns what is wrong with the predictions of the first labeled split."""
        for name in (VALIDATION, TEST):
            if name in predictions and self._references[name] is not None:
                return self._head.collapse(predictions[name], self._references[name])
        return None

    def tables(
        self, predictions: Mapping[str, PerExample], table: Callable[[Any, Any], np.ndarray | None]
    ) -> dict[str, list[list[Any]]]:
        """Returns a table of predictions and references of each labeled split.

        Args:
            predictions: of each split.
            table: makes it of both; None where there is no such thing.
        """
        found = {}
        for name, values in predictions.items():
            if self._references[name] is not None:
                made = table(values, self._references[name])
                if made is not None:
                    found[name] = made.tolist()
        return found

    def _infer(self, name: str, run: InferenceRunner) -> Inference:
        labeled = self._references[name] is not None
        return run(
            self._splits[name],
            self._batch_size,
            self._head.per_position,
            self._loss if labeled else None,
            f"evaluating {name}",
        )

    def _predictions(self, name: str, outputs: Any, head: EvaluatedHead) -> PerExample:
        return head.predictions(outputs, self._splits[name], self._examples[name])

    def _measures(self, name: str, predictions: PerExample, loss: float | None) -> Metrics:
        references = self._references[name]
        measured = {key: f(predictions, references) for key, f in self._metrics.items()}
        values = {key: value for key, value in measured.items() if value is not None}
        return values if loss is None else values | {"loss": loss}


def _description(
    task: Task,
    data: TaskData,
    config: BertConfig,
    tokenizer: Tokenizer,
    options: FinetuningOptions,
) -> TaskDescription:
    positions = config.max_position_embeddings
    length = options.max_seq_length
    if length is None:
        length = min(options.resolved(task.defaults).max_seq_length, positions)
    if length > positions:
        raise ValueError(
            f"max_seq_length is {length} but the model has {positions} positions "
            f"(max_position_embeddings): use at most {positions}"
        )
    task.head.check_positions(positions)
    if task.head.needs_segments(data.splits[TRAIN]) and not config.takes_pairs:
        raise ValueError(
            f"the data has pairs of texts but the model's type_vocab_size is "
            f"{config.type_vocab_size}: it needs 2 segments; choose another model"
        )
    head = task.head.with_labels(data.labels).for_tokenizer(tokenizer)
    columns = dict(data.text_columns or head.default_columns(data.splits[TRAIN]))
    return TaskDescription(task.name, head, columns, length)


def _settings(
    init_from: str | os.PathLike,
    description: TaskDescription,
    data: TaskData,
    options: FinetuningOptions,
) -> dict[str, Any]:
    """Returns what defines the run."""
    fixed = dataclasses.asdict(options)
    return {
        "init_from": os.fspath(init_from),
        "task": description.as_dict(),
        "options": {name: value for name, value in fixed.items() if name not in FREE_OPTIONS},
        "examples": {name: _fingerprint(description, data, name) for name in data.splits},
    }


def _run_folder(
    model_dir: str | os.PathLike, settings: Mapping[str, Any], writes: bool
) -> RunFolder:
    path = Path(model_dir)
    if (path / CONFIG_FILE).exists() and not (path / TASK_FILE).exists():
        raise ValueError(
            f"{path} holds a model that no fine-tuning run wrote: choose another --model_dir, "
            "or remove it"
        )
    return RunFolder(path, settings, writes, {"options": default_values(FinetuningOptions)})


def _fingerprint(description: TaskDescription, data: TaskData, name: str) -> str:
    """Returns what changes with any text or label of a split: a run on other data is another."""
    split = data.splits[name]
    digest = hashlib.sha256()
    for example in split:
        digest.update(repr(example).encode("utf-8", "surrogatepass"))
    references = description.head.references(split)
    if isinstance(references, np.ndarray):  # labels of texts, which their examples do not hold
        digest.update(references.tobytes())
    return f"{len(split)}, sha256 {digest.hexdigest()[:16]}"


def _encode(
    head: TrainableHead,
    tokenizer: Tokenizer,
    data: TaskData,
    max_seq_length: int,
    strategy: tf.distribute.Strategy,
) -> dict[str, EncodedRows]:
    splits = {
        name: head.encode(tokenizer, split, max_seq_length, f"tokenizing {name}")
        for name, split in data.splits.items()
    }
    if _is_tpu(strategy):
        # Every length is compiled once: powers of two up to the maximum.
        lengths = [_SHORTEST_FIXED_LENGTH]
        while lengths[-1] < max_seq_length:
            lengths.append(2 * lengths[-1])
        for encoded in splits.values():
            encoded.fixed_lengths([min(length, max_seq_length) for length in lengths])
    return splits


def _is_tpu(strategy: tf.distribute.Strategy) -> bool:
    return isinstance(strategy, tf.distribute.TPUStrategy)


def _example_weights(
    head: FinetuningHead, data: TaskData, options: FinetuningOptions
) -> np.ndarray | None:
    """Returns the weight of each training example, of mean 1."""
    if options.class_weights is None:
        return None
    classes = head.class_indices(data.splits[TRAIN])
    if classes is None:
        raise ValueError(
            f"examples of a {head.kind} head have no single class to weigh: leave out "
            "--class_weights"
        )
    if options.class_weights == "balanced":
        counts = np.bincount(classes, minlength=len(data.labels))
        by_class = 1.0 / np.maximum(counts, 1)
    else:
        by_class = np.asarray(options.class_weights, np.float64)
        if len(by_class) != len(data.labels):
            raise ValueError(
                f"class_weights has {len(by_class)} numbers but there are {len(data.labels)} "
                f"labels ({', '.join(data.labels)}): give one for each"
            )
    weights = by_class[classes]
    return (weights / weights.mean()).astype(np.float32)


def _announce(
    model: keras.Model,
    data: TaskData,
    train: EncodedRows,
    description: TaskDescription,
    options: FinetuningOptions,
    step: int,
) -> None:
    labels = f", {len(data.labels)} labels" if data.labels else ""
    unlabeled = (
        f" and {len(data.splits[UNLABELED]):,} unlabeled" if UNLABELED in data.splits else ""
    )
    taught = f", teacher {options.teacher}" if options.teacher else ""
    start = "fresh weights" if options.from_scratch else "pretrained weights"
    trained = sum(int(np.prod(weight.shape)) for weight in model.trainable_weights)
    print(
        f"fine-tuning {trained:,} parameters ({start}) on {len(data.splits[TRAIN]):,} examples"
        f"{unlabeled}{labels}{taught}, {options.epochs} epochs, batch {options.batch_size}, "
        f"{model.encoder.policy.name}; {train.full_rows():.1%} of the rows fill all "
        f"{description.max_seq_length} positions{train.remark and f'; {train.remark}'}"
        f"{f'; resumed at step {step}' if step else ''}",
        flush=True,
    )


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
