"""Fine-tuning: a model folder and labeled texts in, a model folder for the task out."""

import dataclasses
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_bert.config import BertConfig
from keras_bert.files import atomic_file
from keras_bert.models.classifier import BertClassifier
from keras_bert.models.preset import CONFIG_FILE
from keras_bert.progress import Progress
from keras_bert.text.preprocessor import BertPreprocessor
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.training.encoded_texts import EncodedTexts
from keras_bert.training.finetuned_model import predict_logits
from keras_bert.training.finetuning_callbacks import BestEpoch, Metrics, StepReport
from keras_bert.training.optimizer import create_optimizer
from keras_bert.training.precision import dtype_policy
from keras_bert.training.run_folder import RunFolder
from keras_bert.training.task import TASK_FILE, LabeledTexts, Task, TaskData, TaskDescription

METRICS_FILE = "metrics.json"

_DEFAULT_MAX_SEQ_LENGTH = 128


@dataclasses.dataclass(frozen=True)
class FinetuningOptions:
    """How to fine-tune; the defaults lie in the range of the paper (section A.3).

    Attributes:
        epochs: passes over the training data.
        batch_size: texts per step.
        learning_rate: the peak.
        max_seq_length: the most positions of a text; longer ones are cut. None takes 128, or the
            model's positions where they are fewer.
        warmup_share: share of the steps until the peak.
        from_scratch: take configuration and vocabulary of the given model, not its weights.
        mixed_precision: "auto", "float32", "bfloat16" or "float16".
        seed: of fresh weights, order and dropout.

    Raises:
        ValueError: a value is out of its range.
    """

    epochs: int = 3
    batch_size: int = 32
    learning_rate: float = 3e-5
    max_seq_length: int | None = None
    warmup_share: float = 0.1
    from_scratch: bool = False
    mixed_precision: str = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be at least 1")
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate is {self.learning_rate}: it must be above 0")
        if not 0 <= self.warmup_share < 1:
            raise ValueError(
                f"warmup_share is {self.warmup_share}: it must be a share from 0 up to below 1"
            )


@dataclasses.dataclass(frozen=True)
class FinetuningResult:
    """What a run measured; `metrics.json` holds the same.

    Attributes:
        best_epoch: the epoch whose weights were kept, counted from 1.
        validation: metrics of the kept weights; empty without validation data.
        test: metrics of the kept weights; empty without test data.
        epochs: for each epoch its training loss and the metrics of the validation data.
        seconds: time of the training, evaluations included.
    """

    best_epoch: int
    validation: Metrics
    test: Metrics
    epochs: tuple[Mapping[str, Any], ...]
    seconds: float


def finetune(
    task: Task,
    data: TaskData,
    init_from: str | os.PathLike,
    model_dir: str | os.PathLike,
    options: FinetuningOptions = FinetuningOptions(),  # noqa: B008 (frozen)
) -> FinetuningResult:
    """Fine-tunes a model on a task and writes it to `model_dir`.

    The folder becomes a preset with `task.json`, `metrics.json`, `metrics.jsonl` and TensorBoard
    events. The weights are those of the epoch with the best first metric on the validation data
    (the lower loss among equals), or of the last epoch where there is no such data.

    Args:
        task: what is learned.
        data: what `task.read` returned.
        init_from: the model folder to start from.
        model_dir: the folder to write. The same run may be done again; any other is refused.
        options: how.

    Raises:
        FileNotFoundError: `init_from` is not a model folder.
        ValueError: model, data and options do not fit, `model_dir` holds something else, or the
            loss is no longer finite.
    """
    # 1. Check what can be checked before anything is computed.
    tokenizer = BertTokenizer.from_preset(init_from)
    config = BertConfig.from_file(init_from)
    tokenizer.vocabulary.check_size(config.vocab_size)
    description = _description(task, data, config, options)
    folder = _run_folder(model_dir, init_from, description, data, options)

    # 2. Model and data.
    keras.utils.set_random_seed(options.seed)
    model = _create_model(task, data, init_from, config, options)
    preprocessor = BertPreprocessor(tokenizer, description.max_seq_length, pad_to="longest")
    train = _encode(preprocessor, data.train, "train")
    batches = train.training_batches(data.train.labels, options.batch_size, options.seed)
    _compile(model, task, options, len(batches))

    # 3. Train; keep the best epoch.
    folder.start(0)
    _announce(model, data, train, description, options)
    validate = _evaluation(model, task, preprocessor, data.validation, "validation", options)
    started = time.perf_counter()
    with Progress(options.epochs * len(batches), "step", "fine-tuning") as progress:
        epochs = BestEpoch(validate, next(iter(task.metrics)), folder, progress)
        model.fit(
            batches,
            epochs=options.epochs,
            shuffle=False,  # the batches do it
            verbose=0,
            callbacks=[StepReport(progress), epochs],
        )
    seconds = time.perf_counter() - started
    model.set_weights(epochs.best_weights)

    # 4. Measure once on the test data and write.
    test = _evaluation(model, task, preprocessor, data.test, "test", options)()
    result = FinetuningResult(
        epochs.best_epoch, epochs.best_metrics, test, tuple(epochs.history), seconds
    )
    description.save(model_dir)
    model.save_to_preset(os.fspath(model_dir), tokenizer)
    _write_metrics(model_dir, result)
    return result


def _description(
    task: Task, data: TaskData, config: BertConfig, options: FinetuningOptions
) -> TaskDescription:
    positions = config.max_position_embeddings
    length = options.max_seq_length
    if length is None:
        length = min(_DEFAULT_MAX_SEQ_LENGTH, positions)
    if length > positions:
        raise ValueError(
            f"max_seq_length is {length} but the model has {positions} positions "
            f"(max_position_embeddings): use at most {positions}"
        )
    if data.train.text_pairs is not None and config.type_vocab_size < 2:
        raise ValueError(
            f"the data has pairs of texts but the model's type_vocab_size is "
            f"{config.type_vocab_size}: it needs 2 segments; choose another model"
        )
    return TaskDescription(task.name, task.label_type, data.labels, dict(data.text_columns), length)


def _run_folder(
    model_dir: str | os.PathLike,
    init_from: str | os.PathLike,
    description: TaskDescription,
    data: TaskData,
    options: FinetuningOptions,
) -> RunFolder:
    path = Path(model_dir)
    if (path / CONFIG_FILE).exists() and not (path / TASK_FILE).exists():
        raise ValueError(
            f"{path} holds a model that no fine-tuning run wrote: choose another --model_dir, "
            "or remove it"
        )
    splits = {"train": data.train, "validation": data.validation, "test": data.test}
    settings = {
        "init_from": os.fspath(init_from),
        "task": dataclasses.asdict(description),
        "options": dataclasses.asdict(options),
        "examples": {name: len(split) for name, split in splits.items() if split is not None},
    }
    return RunFolder(path, settings)


def _create_model(
    task: Task,
    data: TaskData,
    init_from: str | os.PathLike,
    config: BertConfig,
    options: FinetuningOptions,
) -> BertClassifier:
    arguments: dict[str, Any] = {
        "num_classes": 1 if task.label_type == "regression" else len(data.labels),
        "labels": list(data.labels) or None,
        "seed": options.seed,
        "dtype": dtype_policy(options.mixed_precision),
    }
    if options.from_scratch:
        return BertClassifier(config, **arguments)
    return BertClassifier.from_preset(os.fspath(init_from), **arguments)


def _encode(preprocessor: BertPreprocessor, split: LabeledTexts, name: str) -> EncodedTexts:
    return EncodedTexts(preprocessor, split.texts, split.text_pairs, f"tokenizing {name}")


def _compile(
    model: BertClassifier, task: Task, options: FinetuningOptions, steps_per_epoch: int
) -> None:
    steps = options.epochs * steps_per_epoch
    optimizer = create_optimizer(
        options.learning_rate,
        train_steps=steps,
        warmup_steps=int(options.warmup_share * steps),
        # Few steps: without it the first ones are ten times too long, and small sets collapse
        # (Mosbach et al. 2020, arXiv:2006.04884).
        bias_correction=True,
    )
    if model.encoder.policy.name == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    # Not compiled by XLA: every length of a batch would be compiled anew.
    model.compile(optimizer=optimizer, loss=_loss(task), jit_compile=False)


def _loss(task: Task) -> keras.losses.Loss:
    if task.label_type == "regression":
        return keras.losses.MeanSquaredError()
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _announce(
    model: BertClassifier,
    data: TaskData,
    train: EncodedTexts,
    description: TaskDescription,
    options: FinetuningOptions,
) -> None:
    head = f"{len(data.labels)} labels" if data.labels else "one number"
    full = np.mean(train.lengths == description.max_seq_length)
    start = "fresh weights" if options.from_scratch else "pretrained weights"
    print(
        f"fine-tuning {model.count_params():,} parameters ({start}) on {len(train):,} examples "
        f"for {head}, {options.epochs} epochs, batch {options.batch_size}, "
        f"{model.encoder.policy.name}; {full:.1%} of the texts fill all "
        f"{description.max_seq_length} positions",
        flush=True,
    )


def _evaluation(
    model: BertClassifier,
    task: Task,
    preprocessor: BertPreprocessor,
    split: LabeledTexts | None,
    name: str,
    options: FinetuningOptions,
) -> Callable[[], Metrics]:
    """Returns a function that measures the model on a split; no split, no metrics."""
    if split is None:
        return dict
    encoded = _encode(preprocessor, split, name)
    loss = _loss(task)

    def evaluate() -> Metrics:
        logits = predict_logits(model, encoded, options.batch_size, f"evaluating {name}")
        values = {metric: f(logits, split.labels) for metric, f in task.metrics.items()}
        return values | {"loss": float(loss(split.labels, logits))}

    return evaluate


def _write_metrics(model_dir: str | os.PathLike, result: FinetuningResult) -> None:
    with atomic_file(Path(model_dir) / METRICS_FILE) as path:
        path.write_text(json.dumps(dataclasses.asdict(result), indent=2) + "\n", encoding="utf-8")
