"""What training, evaluation and tables of answers ask of a head: one small protocol for each.

A head is the part of a task that its model's architecture decides. One class per kind of task plays
all three parts (`FinetuningHead`); whoever needs one part asks for that part only. Serving asks for
the signatures beside it, see `keras_bert.tasks.kinds`.
"""

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from keras_bert.finetuning.encoded_rows import EncodedRows
from keras_bert.text.tokenizer import BertTokenizer

# One entry for each example: a list, or an array whose first axis is that of the examples.
PerExample = Sequence[Any] | np.ndarray


class TrainableHead(abc.ABC):
    """What training needs: the model, its rows, and what it learns by.

    A split is whatever sequence of examples the task's reader returns and `encode` takes.

    Attributes:
        model_class: the Keras model: it is made of a config and `model_arguments`, or opened with
            its `from_preset`.
        per_position: whether the model's outputs have an axis of positions.
    """

    model_class: ClassVar[type[Any]]
    per_position: ClassVar[bool] = False

    def model_arguments(self) -> dict[str, Any]:
        """Returns the arguments of `model_class` beyond config, seed and dtype."""
        return {}

    @abc.abstractmethod
    def encode(
        self, tokenizer: BertTokenizer, examples: Any, max_seq_length: int, description: str
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

    def chance_loss(self, examples: Any, label_smoothing: float = 0.0) -> float | None:
        """Returns the loss of the best constant guess on a split, where it has a formula."""
        return None

    def class_indices(self, examples: Any) -> Any:
        """Returns the class of each example, int32 [E]; None where it has no single one."""
        return None


class EvaluatedHead(abc.ABC):
    """What evaluation needs: predictions, what they are compared with, and what went wrong.

    Predictions and references are lists or arrays, as the head itself makes them (`PerExample`).
    """

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
        labels: names of the classes in the order of their indices; empty where there are none, and
            in a task whose data has not been read yet.
    """

    kind: ClassVar[str]

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

    def default_columns(self, examples: Any) -> dict[str, str]:
        """Returns `TaskData.text_columns` of a split, where the task's reader names none."""
        return {}

    def settings(self) -> dict[str, Any]:
        """Returns kind and fields for `task.json`, which holds the labels beside them."""
        fields = dataclasses.asdict(self)
        del fields["labels"]
        return {"kind": self.kind, **fields}


def foreign_labels(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the names of the classes of a model of another library, numbered without names."""
    classes = arguments.get("num_classes") or 0
    return tuple(arguments.get("labels") or (f"LABEL_{index}" for index in range(classes)))
