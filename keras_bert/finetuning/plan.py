"""A fine-tuning run as it will be, checked before anything is computed."""

import dataclasses
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import tensorflow as tf

from keras_bert.checkpoints.static_embeddings.folders import is_static_folder
from keras_bert.config import BertConfig
from keras_bert.finetuning.distillation import (
    Losses,
    TeacherFolder,
    distilled_losses,
    teacher_digest,
)
from keras_bert.finetuning.head import FinetuningHead
from keras_bert.finetuning.model_preparation import check_fresh_layers
from keras_bert.finetuning.options import FREE_OPTIONS, FinetuningOptions, ResolvedOptions
from keras_bert.finetuning.start import check_fresh_table, check_table_options, read_start
from keras_bert.finetuning.task import (
    TEST,
    TRAIN,
    UNLABELED,
    VALIDATION,
    Task,
    TaskData,
    TaskDescription,
)
from keras_bert.models.embedders.static_embedder import StaticEmbeddingConfig
from keras_bert.models.preset import CONFIG_FILE, check_opens_as_preset, weights_digest
from keras_bert.models.surgery.layer_selection import check_separate_layers, parsed_layers
from keras_bert.storage.paths import check_folder, check_no_pattern
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.training.checkpointing import latest_step
from keras_bert.training.cluster import check_workers, is_chief
from keras_bert.training.precision import resolved_precision
from keras_bert.training.run_folder import (
    RUN_FILE,
    RunFolder,
    check_precision,
    default_values,
)
from keras_bert.training.strategy import create_strategy


@dataclasses.dataclass(frozen=True)
class RunPlan:
    """What model, data and options come to.

    Attributes:
        strategy: where it is trained.
        init_from: what the model is opened from, see `Start`.
        tokenizer: of that folder.
        config: the config of the folder, or of the layers that are taken from it.
        description: the task as it is written beside the model.
        options: with the task's defaults.
        losses: the head's, with what the teacher says in them.
        class_weights: the weight of each label; None where all count alike.
        example_weights: float32 [examples], of mean 1; None where all count alike.
        teacher: whom the model learns from, its weights not yet read.
        folder: of the run.
        settings: what defines the run.
    """

    strategy: tf.distribute.Strategy
    init_from: str
    tokenizer: Tokenizer
    config: BertConfig | StaticEmbeddingConfig
    description: TaskDescription
    options: ResolvedOptions
    losses: Losses
    class_weights: Mapping[str, float] | None
    example_weights: np.ndarray | None
    teacher: TeacherFolder | None
    folder: RunFolder
    settings: Mapping[str, Any]

    @classmethod
    def checked(
        cls,
        task: Task,
        data: TaskData,
        init_from: str | os.PathLike,
        model_dir: str | os.PathLike,
        options: FinetuningOptions,
    ) -> "RunPlan":
        """Reads config and tokenizer, and refuses what does not fit together.

        Args:
            task: see `finetune`.
            data: see there.
            init_from: see there.
            model_dir: see there.
            options: see there.

        Raises:
            FileNotFoundError: `init_from` is not a model folder.
            ValueError: model, data and options do not fit, or `model_dir` holds something else.
        """
        check_folder("model_dir", model_dir)
        check_no_pattern("model_dir", model_dir)
        strategy = create_strategy(options.strategy)
        source, tokenizer, config = read_start(init_from, task.head, options.ignore_config_keys)
        if isinstance(config, StaticEmbeddingConfig):
            check_table_options(options)
            check_fresh_table(task.head, options)
        elif options.init_layers:
            layers = parsed_layers(options.init_layers, config.num_hidden_layers)
            check_separate_layers(config)
            config = config.replace(num_hidden_layers=len(layers))
        description = describe_task(
            task, data, config, tokenizer, init_from, options.max_seq_length
        )
        check_splits(description.head, data)
        settings = _settings(init_from, description, data, options)
        settings["weights"] = weights_digest(source)
        if options.teacher:
            settings["teacher"] = teacher_digest(options.teacher)
        resolved = options.resolved({**task.defaults, **description.head.defaults})
        if isinstance(config, BertConfig):
            check_fresh_layers(config, resolved)
        if resolved.patience is not None and VALIDATION not in data.splits:
            raise ValueError(
                f"patience is {resolved.patience} but there is no validation data to wait for: add "
                "a dev file, or leave out --patience"
            )
        head = description.head
        if resolved.lora_rank is not None and not head.learns_by_lora:
            raise ValueError(
                f"lora_rank is {resolved.lora_rank}, but a {head.kind} model has weights beside "
                "the encoder that start fresh and learn whole: leave it out"
            )
        several_parts = resolved.accumulation_steps > 1
        if several_parts and head.compares_examples(data.splits[TRAIN]):
            raise ValueError(
                f"accumulation_steps is {resolved.accumulation_steps}, but the {head.kind} head "
                "compares each example with all others of its batch, of which a part has fewer: "
                "leave it out, and save memory with --remat"
            )
        losses = head.loss(resolved.label_smoothing)
        class_weights, weights = _weights(head, data, resolved)
        if UNLABELED in data.splits and not resolved.teacher:
            raise ValueError(
                f"the data has {len(data.splits[UNLABELED]):,} unlabeled examples, from which "
                "nothing is learned without a teacher: name one with --teacher, or take the file "
                "away"
            )
        teacher = None
        if resolved.teacher and isinstance(config, BertConfig):
            teacher = TeacherFolder.read(resolved, description, config, tokenizer)
            losses = distilled_losses(head, losses, resolved)
        return cls(
            strategy=strategy,
            init_from=source,
            tokenizer=tokenizer,
            config=config,
            description=description,
            options=resolved,
            losses=losses,
            class_weights=class_weights,
            example_weights=weights,
            teacher=teacher,
            folder=_run_folder(model_dir, settings, is_chief(strategy)),
            settings=settings,
        )

    def check_workers(self, finished: bool) -> None:
        """Refuses workers that were told different things, or that see another folder.

        Args:
            finished: whether this worker finds the run done.
        """
        step = latest_step(str(self.folder.checkpoints))
        told = {**self.settings, "init_from": "", "options": dataclasses.asdict(self.options)}
        check_workers(self.strategy, -1 if finished else step, told)

    def check_beside(self, path: Path, options: Mapping[str, Any] | None) -> None:
        """Refuses another run of the folder of one search that has other data or another model.

        Args:
            path: the folder of the other run.
            options: what that run's options shall be beside those of this one; None for any.

        Raises:
            ValueError: it has other data, another model or task, or other options.
        """
        there = RunFolder.open(path).settings
        if options is not None:
            own = {**self.settings, "options": {**self.settings["options"], **options}}
        else:
            own = {**self.settings, "options": there["options"]}
            if there.get("weights") == own["weights"]:
                own["init_from"] = there["init_from"]  # by another path
        _run_folder(path, own, writes=False)

    @property
    def on_tpu(self) -> bool:
        """Whether it is trained on a TPU, where shapes are static."""
        return isinstance(self.strategy, tf.distribute.TPUStrategy)


def describe_task(
    task: Task,
    data: TaskData,
    config: BertConfig | StaticEmbeddingConfig,
    tokenizer: Tokenizer,
    init_from: str | os.PathLike,
    max_seq_length: int | None = None,
) -> TaskDescription:
    """Returns what is kept of a task beside a model.

    Args:
        task: what is learned.
        data: what `task.read` returned.
        config: of the model.
        tokenizer: of the model.
        init_from: the model folder.
        max_seq_length: the most positions of a row; None takes the task's default, or the model's
            positions where they are fewer.

    Raises:
        ValueError: the model cannot read such rows, or the data are no examples of the task.
    """
    length = max_seq_length
    if length is None:
        length = FinetuningOptions().resolved(task.defaults).max_seq_length
    if isinstance(config, BertConfig):  # a table reads texts of any length
        positions = config.max_position_embeddings
        if max_seq_length is None:
            length = min(length, positions)
        if length > positions:
            raise ValueError(
                f"max_seq_length is {length} but the model has {positions} positions "
                f"(max_position_embeddings): use at most {positions}"
            )
    # A head that can learn a table asks for its width alone, which both have.
    task.head.check_config(cast(BertConfig, config))
    if TRAIN not in data.splits:
        there = ", ".join(data.splits) or "none"
        raise ValueError(
            f"the data has no split {TRAIN!r} (there are {there}): name one so to learn from it"
        )
    for split in data.splits.values():
        task.head.check_examples(split)
    pairs = task.head.needs_segments(data.splits[TRAIN])  # which no head of a table does
    if pairs and isinstance(config, BertConfig) and not config.takes_pairs:
        raise ValueError(
            f"the data has pairs of texts but the model's type_vocab_size is "
            f"{config.type_vocab_size}: it needs 2 segments; choose another model"
        )
    head = task.head.with_labels(data.labels).for_tokenizer(tokenizer).for_folder(init_from)
    columns = dict(data.text_columns or head.default_columns(data.splits[TRAIN]))
    return TaskDescription(task.name, head, columns, length)


def check_splits(head: FinetuningHead, data: TaskData) -> None:
    """Refuses labels that are none, splits without labels where they are needed, and empty ones.

    Splits that are only predicted, such as a test without labels, need none, and those of examples
    that a teacher answers are not looked at.

    Args:
        head: of the task, with the names of the labels.
        data: what `task.read` returned.

    Raises:
        ValueError: the sentence names the split and, for a label, the example.
    """
    for name, split in data.splits.items():
        if not len(split):
            raise ValueError(f"the split {name!r} has no examples: give some, or leave it out")
        if name == UNLABELED:
            continue
        if head.references(split) is not None:
            head.check_labels(split, name)
        elif name in (TRAIN, VALIDATION):
            used = "is learned from" if name == TRAIN else "chooses the best epoch"
            raise ValueError(
                f"the split {name!r} {used}, but its examples, or some of them, have no labels: "
                f"label all, or name a split that is only predicted {TEST!r}"
            )


def _settings(
    init_from: str | os.PathLike,
    description: TaskDescription,
    data: TaskData,
    options: FinetuningOptions,
) -> dict[str, Any]:
    """Returns what defines the run."""
    fixed = dataclasses.asdict(options)
    fixed["mixed_precision"] = resolved_precision(options.mixed_precision)
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
    if holds_model(path) and not (path / RUN_FILE).exists():
        raise ValueError(
            f"{path} holds a model that no fine-tuning run wrote: choose another --model_dir, "
            "or remove it"
        )
    check_opens_as_preset(path)
    check_precision(path, settings["options"]["mixed_precision"])
    return RunFolder(
        path,
        settings,
        writes,
        defaults={"options": default_values(FinetuningOptions)},
        added=("weights",),
        undecided={"options": {"mixed_precision": "auto"}},
    )


def holds_model(path: Path) -> bool:
    """Whether there is a model in a folder to be written, of a run or not."""
    return (path / CONFIG_FILE).exists() or is_static_folder(path)


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


def _weights(
    head: FinetuningHead, data: TaskData, options: FinetuningOptions
) -> tuple[dict[str, float] | None, np.ndarray | None]:
    """Returns the weight of each label, and of each training example, of mean 1."""
    if options.class_weights is None:
        return None, None
    classes = head.class_indices(data.splits[TRAIN])
    if classes is None:
        raise ValueError(
            f"examples of the {head.kind} head have no single class to weigh: leave out "
            "--class_weights"
        )
    if options.class_weights == "balanced":
        counts = np.bincount(classes, minlength=len(data.labels))
        by_class = len(classes) / (len(counts) * np.maximum(counts, 1))
    else:
        by_class = np.asarray(options.class_weights, np.float64)
        if len(by_class) != len(data.labels):
            raise ValueError(
                f"class_weights has {len(by_class)} numbers but there are {len(data.labels)} "
                f"labels ({', '.join(data.labels)}): give one for each"
            )
    weights = by_class[classes]
    by_label = dict(zip(data.labels, by_class.tolist(), strict=True))
    return by_label, (weights / weights.mean()).astype(np.float32)
