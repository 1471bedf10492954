"""What training, evaluation and tables of answers ask of a head: one small protocol for each.

A head is the part of a task that its model's architecture decides. One class per kind of task plays
all three parts (`FinetuningHead`); whoever needs one part asks for that part only. Serving asks for
the signatures beside it, see `keras_bert.tasks.kinds`.
"""

import abc
import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np

from keras_bert.config import BertConfig
from keras_bert.counts import plain_number
from keras_bert.finetuning.encoded_rows import EncodedRows
from keras_bert.finetuning.ensemble import mean_logits
from keras_bert.text.base_tokenizer import Tokenizer

# One entry for each example: a list, or an array whose first axis is that of the examples.
PerExample = Sequence[Any] | np.ndarray
# What the last axis of the logits is: classes, or choices, of which one is right; labels, of which
# any number is; one number.
LogitsMeaning = Literal["classes", "labels", "number"]


class TrainableHead(abc.ABC):
    """What training needs: the model, its rows, and what it learns by.

    A split is whatever sequence of examples the task's reader returns and `encode` takes.

    Attributes:
        model_class: the Keras model: it is made of a config and `model_arguments`, or opened with
            its `from_preset`.
        per_position: whether the model's outputs have an axis of positions.
        learns_from_teacher: whether its logits can be learned from those of another model.
        learns_by_lora: whether the encoder and a few layers on it are all that learns.
        learns_static: whether a table of static embeddings can learn in place of an encoder.
        defaults: values of `FinetuningOptions` that suit its model better than those of the task.
        static_width: numbers of a fresh table of static embeddings that is to learn; None for what
            the model folder holds.
    """

    model_class: ClassVar[type[Any]]
    per_position: ClassVar[bool] = False
    learns_from_teacher: ClassVar[bool] = True
    learns_by_lora: ClassVar[bool] = True
    learns_static: ClassVar[bool] = False
    defaults: ClassVar[Mapping[str, Any]] = {}

    static_width: int | None = None

    @property
    def reads_pooler(self) -> bool:
        """Whether the model reads the encoder's pooled output: what labels positions does not."""
        return not self.per_position

    @property
    def logits_are(self) -> LogitsMeaning:
        """What the logits mean, by which a student learns from those of a teacher."""
        return "classes"

    def compares_examples(self, examples: Sequence[Any]) -> bool:
        """Tells whether the loss of an example depends on others of its batch."""
        del examples
        return False

    def model_arguments(self) -> dict[str, Any]:
        """Returns the arguments of `model_class` beyond config, seed and dtype."""
        return {}

    @abc.abstractmethod
    def encode(
        self, tokenizer: Tokenizer, examples: Any, max_seq_length: int, description: str
    ) -> EncodedRows:
        """Turns a split into rows of the model's input, with targets where it is labeled.

        Args:
            tokenizer: that of the model.
            examples: the split.
            max_seq_length: the most positions of a row.
            description: what the progress line says.
        """

    @abc.abstractmethod
    def loss(self, label_smoothing: float = 0.0) -> Any:
        """Returns the loss, or the losses by output; what is asked of them: see `FinetuningStep`.

        Raises:
            ValueError: the head knows no label smoothing.
        """

    @abc.abstractmethod
    def needs_segments(self, examples: Any) -> bool:
        """Whether the model must tell two segments apart to learn from a split."""

    def check_config(self, config: BertConfig) -> None:  # noqa: B027  most heads take any
        """Refuses a model with too few positions, or too narrow, for what the head itself makes.

        Args:
            config: of the model; `max_seq_length` is at most its positions.

        Raises:
            ValueError: it needs more.
        """

    def check_labels(self, examples: Any, split: str) -> None:  # noqa: B027  may take any
        """Refuses labels that cannot be learned or measured, before anything is computed.

        Args:
            examples: a split whose examples all have labels.
            split: its name, which the sentence tells with the example: `place_of`.

        Raises:
            ValueError: an example has a label that is none.
        """

    def row_settings(self, max_seq_length: int) -> dict[str, Any]:
        """Returns what decides, beside the tokenizer, which rows are made of an example.

        A teacher reads the rows of its student where both heads have the same. How long a single
        row may be is not among it.

        Args:
            max_seq_length: the most positions of a row.
        """
        return {}

    def chance_loss(self, examples: Any, label_smoothing: float = 0.0) -> float | None:
        """Returns the loss of the best constant guess on a split, where it has a formula."""
        return None

    def prepare(self, model: Any, rows: EncodedRows) -> None:  # noqa: B027  most need nothing
        """Sets what only the data can tell of a model, before it learns.

        Args:
            model: as `model_class` opened it; called where its variables may be assigned.
            rows: those of the training data.
        """

    def class_indices(self, examples: Any) -> Any:
        """Returns the class of each example, int32 [E]; None where it has no single one."""
        return None


class EvaluatedHead(abc.ABC):
    """What evaluation needs: predictions, what they are compared with, and what went wrong.

    Predictions and references are lists or arrays, as the head itself makes them (`PerExample`).
    """

    def answering(self, model: Any, final: bool) -> Callable[[dict[str, Any]], Any] | None:
        """Returns what answers a batch in evaluation; None where the model itself does.

        A head with such a function measures the loss itself, as a metric of its task.

        Args:
            model: the Keras model.
            final: whether it is for the predictions that are kept, not for an epoch's measures.

        Raises:
            ValueError: the model cannot answer what the head asks.
        """
        return None

    def keeping(self) -> Callable[[np.ndarray], Any] | None:
        """Returns what makes of a row's output that which is kept until all rows are answered.

        None keeps the output itself.
        """
        return None

    @abc.abstractmethod
    def predictions(self, outputs: Any, encoded: Any, examples: Any) -> PerExample:
        """Turns the model's outputs into one prediction for each example.

        Args:
            outputs: for each row of `encoded`, in order, the model's output as NumPy arrays; where
                outputs are `per_position`, a list of arrays cut to the row's length. A dict of
                these where the model has several outputs.
            encoded: what `encode` returned.
            examples: the split.
        """

    @abc.abstractmethod
    def references(self, examples: Any) -> PerExample | None:
        """Returns what metrics compare the predictions with; None for a split without labels."""

    def tuned(self, predictions: Any, references: Any) -> Self:
        """Returns the head with what is chosen on validation data, such as a threshold."""
        return self

    def collapse(self, predictions: Any, references: Any) -> str | None:
        """Returns what is wrong when a model gives one answer for everything, else None."""
        return None

    def confusion(self, predictions: Any, references: Any) -> np.ndarray | None:
        """Returns how often each class (rows) was predicted as each (columns), int64 [C, C].

        None where examples have no single class.
        """
        return None

    def calibration(self, predictions: Any, references: Any) -> np.ndarray | None:
        """Returns how sure predictions are and how often they are right: `calibration_bins`.

        None where predictions are no probabilities of single classes.
        """
        return None


class AnswerTable(abc.ABC):
    """What a table of predictions needs: columns of the examples and of the answers."""

    @abc.abstractmethod
    def example_table(self, examples: Any) -> tuple[list[str], list[list[str]]]:
        """Returns names and values of the columns that show a split: texts and labels."""

    @abc.abstractmethod
    def answer_columns(self) -> list[str]:
        """Returns the names of the columns that a prediction adds to a table."""

    @abc.abstractmethod
    def answer_rows(self, prediction: Any, example: Any) -> list[list[str]]:
        """Returns the rows, most often one, that a prediction adds to a table."""


@dataclasses.dataclass(frozen=True)
class FinetuningHead(TrainableHead, EvaluatedHead, AnswerTable):
    """One kind of head; its fields are what a finished model keeps of it in `task.json`.

    Attributes:
        kind: name of the kind of head in `task.json`.
        member_fields: fields in which the members of an ensemble may differ.
        example_class: what a split is a sequence of; None where `check_examples` says it.
        example_form: how errors write what an example, or a split, is made as.
        labels: names of the classes in the order of their indices; empty where there are none, and
            in a task whose data has not been read yet.
    """

    kind: ClassVar[str]
    member_fields: ClassVar[tuple[str, ...]] = ()
    example_class: ClassVar[type | None] = None
    example_form: ClassVar[str] = ""

    labels: tuple[str, ...] = dataclasses.field(default=(), kw_only=True)

    @classmethod
    def of_foreign(cls, arguments: Mapping[str, Any]) -> Self:
        """Returns the head of a fine-tuned model of another library.

        Args:
            arguments: what its folder tells: `Checkpoint.head`.
        """
        return cls(labels=foreign_labels(arguments))

    def with_labels(self, labels: Sequence[str]) -> Self:
        """Returns the head for data with these classes."""
        return dataclasses.replace(self, labels=tuple(labels))

    # Whether several models answer as one by what they say of the same rows.
    joins_members: ClassVar[bool] = True

    def of_ensemble(self, members: Sequence[Self]) -> Self:
        """Returns the head of an ensemble, from those of its members; this is the first of them."""
        return self

    def ensemble_logits(self, members: Sequence[Any]) -> Any:
        """Joins what several models say of the same rows, in NumPy arrays or in a graph.

        Args:
            members: float [..., C], the logits of each member, its classes in the order of
                `labels`.

        Returns:
            float32 [..., C]; whatever is made of the logits of one model can be made of them. Their
            probabilities are the mean of the members', if the head says nothing else.
        """
        return mean_logits(members, self.logits_are)

    def for_tokenizer(self, tokenizer: Tokenizer) -> Self:
        """Returns the head with what it keeps of the tokenizer.

        Raises:
            ValueError: it cannot work with this one.
        """
        return self

    def for_folder(self, folder: str | os.PathLike) -> Self:
        """Returns the head with what it keeps of the model folder that training starts from.

        Args:
            folder: the folder, or `hf://org/name`.

        Raises:
            ValueError: it cannot start from this one.
        """
        return self

    def check_examples(self, examples: Any) -> None:
        """Refuses what is no split of this head.

        Raises:
            ValueError: an example is of another class.
        """
        if self.example_class is None:
            return
        if isinstance(examples, self.example_class):
            raise ValueError(
                f"examples is one {self.example_class.__name__}: give a list, also of one"
            )
        for number, example in enumerate(examples):
            if not isinstance(example, self.example_class):
                raise ValueError(
                    f"example {number} (counted from 0) is a {type(example).__name__}: give a list "
                    f"of {self.example_form}"
                )

    def without_labels(self, examples: Any) -> Any:
        """Returns a split to be answered; labels that `encode` takes as they come may stay."""
        return examples

    def default_columns(self, examples: Any) -> dict[str, str]:
        """Returns `TaskData.text_columns` of a split, where the task's reader names none."""
        return {}

    def write_files(self, folder: Path, max_seq_length: int) -> None:
        """Writes what other libraries read of the task beside `task.json`; most heads nothing.

        Args:
            folder: the model folder.
            max_seq_length: the most positions of a row.
        """

    def settings(self) -> dict[str, Any]:
        """Returns kind and fields for `task.json`, which holds the labels beside them."""
        fields = {name: plain_number(value) for name, value in dataclasses.asdict(self).items()}
        del fields["labels"]
        return {"kind": self.kind, **fields}


def place_of(split: str, number: int) -> str:
    """Returns how a sentence about a label names its example.

    Args:
        split: the name of the split.
        number: of the example, from 0.
    """
    return f"example {number} (counted from 0) of the split {split!r}"


def foreign_labels(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the names of the classes of a model of another library, numbered without names."""
    classes = arguments.get("num_classes") or 0
    return tuple(arguments.get("labels") or (f"LABEL_{index}" for index in range(classes)))


def class_order(labels: Sequence[str], wanted: Sequence[str]) -> np.ndarray | None:
    """Returns where the classes `wanted` stand among `labels`; None where the order is the same.

    Of the labels c a b, the wanted a b c are the classes 1 2 0. Both have the same labels.
    """
    if tuple(labels) == tuple(wanted):
        return None
    return np.array([labels.index(label) for label in wanted])
