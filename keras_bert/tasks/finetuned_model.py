"""A fine-tuned model with its tokenizer: examples in, predictions out."""

import abc
import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, cast

import keras
import numpy as np
import tensorflow as tf

from keras_bert.counts import needed_count
from keras_bert.finetuning.encoded_rows import EncodedRows
from keras_bert.finetuning.head import FinetuningHead, PerExample
from keras_bert.finetuning.inference import InferenceRunner
from keras_bert.finetuning.model_preparation import leave_out_unread
from keras_bert.finetuning.plan import describe_task
from keras_bert.finetuning.start import read_start
from keras_bert.finetuning.task import (
    TEST,
    TRAIN,
    VALIDATION,
    Metric,
    Task,
    TaskData,
    TaskDescription,
)
from keras_bert.models.task_model import TaskModel
from keras_bert.storage.files import atomic_folder
from keras_bert.storage.paths import check_local, check_replaceable
from keras_bert.tasks.classification.head import LabeledTexts, TextHead
from keras_bert.tasks.kinds import load_description
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.loading import load_tokenizer


class AnsweringModel(abc.ABC):
    """What a fine-tuned model and an ensemble of them have in common.

    Attributes:
        description: its task.
    """

    description: TaskDescription

    @abc.abstractmethod
    def predict_examples(self, examples: Any, batch_size: int = 32) -> PerExample:
        """Returns one prediction for each example, as the head defines it.

        Args:
            examples: what the head encodes; labels are not looked at.
            batch_size: rows per call of a model.

        Raises:
            ValueError: they are other examples than those of the head.
        """

    def predict(
        self, texts: Sequence[str], text_pairs: Sequence[str] | None = None, batch_size: int = 32
    ) -> np.ndarray:
        """Returns probabilities float32 [N, C], or the numbers of a regression float32 [N].

        For models of a text or a pair of texts; those of other heads take `predict_examples`.

        Args:
            texts: N texts.
            text_pairs: N second texts, where the model was trained on pairs.
            batch_size: texts per call of the model.

        Raises:
            ValueError: the model has another kind of head, a single string stands in place of a
                list, one of the texts is none, or pairs are given to a model of single texts, or
                the other way round.
        """
        head = self.description.head
        if not isinstance(head, TextHead):
            examples = f"a list of {head.example_form}" if head.example_form else "its examples"
            raise ValueError(
                f"predict answers texts, but the {head.kind} head of the model does not: give "
                f"{examples} to predict_examples"
            )
        found = LabeledTexts(texts, text_pairs)
        if self.description.takes_pairs != (text_pairs is not None):
            wants = "pairs of texts: give" if self.description.takes_pairs else "texts: leave out"
            raise ValueError(f"the model was trained on {wants} text_pairs")
        if not len(found):
            width = len(self.description.labels) or 1
            return head.postprocess(np.zeros([0, width], np.float32)).numpy()
        # What a `TextHead` makes.
        return cast(np.ndarray, self.predict_examples(found, batch_size))


@dataclasses.dataclass(frozen=True)
class FinetunedModel(AnsweringModel):
    """A model with the head of a task: what a fine-tuning run leaves behind, or one for `fit`.

    `load` opens what `finetune` wrote. `from_task` takes a pretrained model, for training loops of
    one's own: `compile`, then `model.fit` on `training_data`, then `save`.

    Attributes:
        model: the Keras model.
        tokenizer: the tokenizer it was trained with.
        description: its task.

    Example:
        >>> task = create_task("conll")
        >>> data = task.read("names")
        >>> tagger = FinetunedModel.from_task(task, data, "bert")
        >>> train = tagger.training_data(data, batch_size=16)
        >>> rate = {"learning_rate": 5e-5, "train_steps": 3 * len(train), "warmup_steps": 20}
        >>> tagger.compile(create_optimizer(**rate, bias_correction=True))
        >>> tagger.model.fit(train, validation_data=tagger.validation_data(data), epochs=3)
        >>> tagger.measure(task.metrics, data)
        >>> tagger.save("tagger")
    """

    model: TaskModel
    tokenizer: Tokenizer
    description: TaskDescription

    @classmethod
    def from_task(
        cls,
        task: Task,
        data: TaskData,
        init_from: str | os.PathLike,
        max_seq_length: int | None = None,
        seed: int | None = None,
        dtype: Any = None,
    ) -> Self:
        """Opens a model folder with the head of a task, which starts fresh if it has none.

        Args:
            task: what is learned.
            data: what `task.read` returned; its labels become those of the model.
            init_from: the model folder.
            max_seq_length: the most positions of a row; None takes the task's default, or the
                model's positions where they are fewer.
            seed: seed of all dropouts; None draws one. A fresh head is drawn by Keras' own seed:
                `keras.utils.set_random_seed`.
            dtype: a Keras dtype policy: "float32", or "mixed_bfloat16"; None takes the global one.

        Raises:
            FileNotFoundError: `init_from` is not a model folder.
            ValueError: model and data do not fit, or it could not learn in such numbers.
        """
        _check_data(data)
        _check_policy(keras.dtype_policies.get(dtype or keras.config.dtype_policy()))
        source, tokenizer, config = read_start(init_from, task.head)
        description = describe_task(task, data, config, tokenizer, init_from, max_seq_length)
        head = description.head
        arguments = {"seed": seed, "dtype": dtype, **head.model_arguments()}
        if head.static_width is None:
            model = head.model_class.from_preset(source, **arguments)
        else:
            model = head.model_class(config, **arguments)
        if data.splits.get(TRAIN) and type(head).prepare is not FinetuningHead.prepare:
            examples, length = data.splits[TRAIN], description.max_seq_length
            head.prepare(model, head.encode(tokenizer, examples, length, "tokenizing"))
        return cls(model, tokenizer, description)

    @classmethod
    def load(cls, folder: str | os.PathLike) -> Self:
        """Opens the `--model_dir` of a fine-tuning run, in float32.

        Raises:
            FileNotFoundError: the folder is not that of a complete run.
            ValueError: a file in it is damaged.
        """
        description = load_description(folder)
        return cls.open(folder, load_tokenizer(folder), description)

    @classmethod
    def open(
        cls, folder: str | os.PathLike, tokenizer: Tokenizer, description: TaskDescription
    ) -> Self:
        """Opens the model of such a folder, of which the rest has been read."""
        model = description.head.model_class.from_preset(os.fspath(folder), dtype="float32")
        return cls(model, tokenizer, description)

    def compile(
        self, optimizer: keras.optimizers.Optimizer, label_smoothing: float = 0.0, **arguments: Any
    ) -> None:
        """Compiles the model with the loss of its head; of several outputs the mean of theirs.

        It is not compiled by XLA, which would begin anew for every length of a batch.

        Args:
            optimizer: that of the training, such as `create_optimizer` makes.
            label_smoothing: the fraction of the target that is spread over all classes.
            **arguments: others of `keras.Model.compile`, such as `metrics`.

        Raises:
            ValueError: the head knows no label smoothing, another loss is given, or a metric of
                Keras is to be measured where only some positions have a target.
        """
        head = self.description.head
        if "loss" in arguments:
            raise ValueError(
                "the loss is that of the head: leave it out, or compile `model` itself with another"
            )
        loss = head.loss(label_smoothing)
        losses = loss if isinstance(loss, Mapping) else {"": loss}
        counts_some = any(hasattr(one, "counted") for one in losses.values())
        for name in ("metrics", "weighted_metrics"):
            if not (metrics := arguments.get(name)):
                continue
            if counts_some:
                raise ValueError(
                    f"{name} would count the positions without a target (-1) as wrong: leave them "
                    "out, and ask `measure` for the metrics of the task"
                )
            if isinstance(loss, Mapping) and not isinstance(metrics, Mapping):
                raise ValueError(
                    f"the model has several outputs: give {name} as a dict, by {' and '.join(loss)}"
                )
        if isinstance(loss, Mapping):
            arguments.setdefault("loss_weights", dict.fromkeys(loss, 1 / len(loss)))
        arguments.setdefault("jit_compile", False)
        leave_out_unread(self.model, head)
        self.model.compile(optimizer, loss=loss, **arguments)

    def training_data(
        self, data: TaskData, batch_size: int = 32, seed: int = 0, split: str = TRAIN
    ) -> tf.data.Dataset:
        """Returns batches for `model.fit`; each pass over them has another order.

        Texts of like length stand in one batch, and a batch is padded to its longest row.

        Args:
            data: what `task.read` returned.
            batch_size: examples of a batch; the last one may have fewer.
            seed: of the orders.
            split: which of its splits.

        Returns:
            (inputs, targets): int32 tensors of the model's inputs by name, and what its loss
            compares with. Its length is the number of batches of an epoch.

        Raises:
            ValueError: there is no such split, it has no labels, labels that are none or those of
                another model, or `batch_size` is below 1.
        """
        rows = self._labeled_rows(data, split, batch_size)
        return rows.training_batches(batch_size, seed).passes()

    def validation_data(
        self, data: TaskData, batch_size: int = 32, split: str = VALIDATION
    ) -> tf.data.Dataset:
        """Returns batches for `validation_data` of `model.fit` and for `model.evaluate`, by length.

        Args:
            data: what `task.read` returned.
            batch_size: examples of a batch.
            split: which of its splits.

        Returns:
            (inputs, targets), as `training_data`.

        Raises:
            ValueError: as `training_data`.
        """
        return self._labeled_rows(data, split, batch_size).inference_batches(batch_size)[0]

    def tuned(self, data: TaskData, batch_size: int = 32, split: str = VALIDATION) -> Self:
        """Returns the model with what its head chooses by the answers to a split.

        That is the threshold of "no answer" in SQuAD 2; other heads choose nothing.

        Args:
            data: what `task.read` returned.
            batch_size: rows per call of the model.
            split: which of its splits.

        Raises:
            ValueError: there is no such split, or it has no labels or those of another model.
        """
        head = self.description.head
        if type(head).tuned is FinetuningHead.tuned:
            return self
        references = self._references(data, split)
        head = head.tuned(self.predict_examples(data.splits[split], batch_size), references)
        return dataclasses.replace(
            self, description=dataclasses.replace(self.description, head=head)
        )

    def measure(
        self, metrics: Mapping[str, Metric], data: TaskData, batch_size: int = 32, split: str = TEST
    ) -> dict[str, float]:
        """Returns the metrics of a task on a split by name, such as F1 of entities.

        Args:
            metrics: those of the task: `task.metrics`.
            data: what `task.read` returned.
            batch_size: rows per call of the model.
            split: which of its splits.

        Raises:
            ValueError: there is no such split, or it has no labels or those of another model.
        """
        references = self._references(data, split)
        predictions = self.predict_examples(data.splits[split], batch_size)
        found = {name: metric(predictions, references) for name, metric in metrics.items()}
        return {name: value for name, value in found.items() if value is not None}

    def save(self, folder: str | os.PathLike, overwrite: bool = False) -> None:
        """Writes a folder that `load`, `predict.py` and `export_saved_model.py` open.

        Args:
            folder: the folder, as a whole or not at all.
            overwrite: replace what is there, with all its files.

        Raises:
            ValueError: the folder is there already and not to be replaced, or it is not local.
        """
        check_local("folder", folder)
        check_replaceable(folder)
        path = Path(folder)
        if path.exists() and not overwrite and (not path.is_dir() or any(path.iterdir())):
            raise ValueError(f"{path} is there already: choose another folder, or say overwrite")
        with atomic_folder(path) as part:
            self.model.save_to_preset(os.fspath(part), self.tokenizer)
            self.description.save(part)

    def _references(self, data: TaskData, split: str) -> PerExample:
        _check_data(data)
        if split not in data.splits:
            there = ", ".join(data.splits)
            raise ValueError(f"the data has no split {split!r} (there are {there}): name another")
        labels = self.description.labels
        if tuple(data.labels) != labels:
            raise ValueError(
                f"the data has the labels {', '.join(data.labels)}, the model {', '.join(labels)}: "
                "read it with those of the model (create_task(..., labels=[...]))"
            )
        examples = data.splits[split]
        self.description.head.check_examples(examples)
        references = self.description.head.references(examples) if len(examples) else None
        if references is None:
            raise ValueError(
                f"the split {split!r} is empty, or some of its examples have no labels: give one "
                "in which all have"
            )
        self.description.head.check_labels(examples, split)
        return references

    def _labeled_rows(self, data: TaskData, split: str, batch_size: int) -> EncodedRows:
        self._references(data, split)  # there are some
        return self._rows(data.splits[split], batch_size)

    def _rows(self, examples: Any, batch_size: int) -> EncodedRows:
        needed_count("batch_size", batch_size)
        head, length = self.description.head, self.description.max_seq_length
        return head.encode(self.tokenizer, examples, length, "tokenizing")

    def predict_examples(self, examples: Any, batch_size: int = 32) -> PerExample:
        """Returns one prediction for each example, as the head defines it.

        Args:
            examples: what the head encodes; labels are not looked at.
            batch_size: rows per call of the model.

        Raises:
            ValueError: they are other examples than those of the head, or `batch_size` is below 1.
        """
        head = self.description.head
        head.check_examples(examples)
        if not len(examples):
            return []
        examples = head.without_labels(examples)
        encoded = self._rows(examples, batch_size)
        answer = head.answering(self.model, final=True)
        run = InferenceRunner(self.model, answer=answer, kept=head.keeping())
        outputs = run(encoded, batch_size, head.per_position).outputs
        return head.predictions(outputs, encoded, examples)


def _check_data(data: Any) -> None:
    if not isinstance(data, TaskData) or not isinstance(data.splits, Mapping):
        given = data.splits if isinstance(data, TaskData) else data
        raise ValueError(
            f"the data is a {type(given).__name__}: give what task.read returns, or "
            'TaskData({"test": examples}) of examples of your own'
        )


def _check_policy(policy: Any) -> None:
    if policy.variable_dtype != "float32":
        raise ValueError(
            f"the dtype policy is {policy.name}, but weights are trained in float32: take float32 "
            "or mixed_bfloat16"
        )
    if policy.compute_dtype == "float16":
        raise ValueError(
            f"the dtype policy is {policy.name}, whose gradients vanish without a loss scale: take "
            "mixed_bfloat16, or float16 in run_finetuning.py"
        )
