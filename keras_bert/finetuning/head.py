"""What fine-tuning, prediction and export ask of each kind of head."""

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from keras_bert.finetuning.encoded_rows import EncodedRows
from keras_bert.text.tokenizer import BertTokenizer


@dataclasses.dataclass(frozen=True)
class FinetuningHead(abc.ABC):
    """One kind of head; its fields are the settings that a finished model keeps in `task.json`.

    A split is whatever sequence of examples the task's reader returns and `encode` takes.

    Attributes:
        kind: its name in `task.json`.
        model_class: the Keras model.
        per_position: whether the model's outputs have an axis of positions.
    """

    kind: ClassVar[str]
    model_class: ClassVar[type]
    per_position: ClassVar[bool] = False

    @abc.abstractmethod
    def model_arguments(self, labels: tuple[str, ...]) -> dict[str, Any]:
        """Returns the arguments of `model_class` beyond config, seed and dtype."""

    @abc.abstractmethod
    def encode(
        self,
        tokenizer: BertTokenizer,
        examples: Any,
        labels: tuple[str, ...],
        max_seq_length: int,
        description: str,
    ) -> EncodedRows:
        """Turns a split into rows of the model's input, with targets where it is labeled.

        Args:
            tokenizer: that of the model.
            examples: the split.
            labels: names of the classes in the order of their indices.
            max_seq_length: the most positions of a row.
            description: what the progress line says.
        """

    @abc.abstractmethod
    def loss(self, label_smoothing: float = 0.0) -> Any:
        """Returns the loss, or the losses by output; what is asked of them: see `FinetuningStep`.

        Raises:
            ValueError: the head knows no label smoothing.
        """

    def loss_weights(self) -> Mapping[str, float] | None:
        """Returns what each loss counts where there are several; None adds them up."""
        return None

    @abc.abstractmethod
    def predictions(
        self, outputs: Any, encoded: EncodedRows, examples: Any, labels: tuple[str, ...]
    ) -> Sequence[Any]:
        """Turns the model's outputs into one prediction for each example.

        Args:
            outputs: for each row of `encoded`, in order, the model's output as NumPy arrays; where
                outputs are `per_position`, a list of arrays cut to the row's length. A dict of
                these where the model has several outputs.
            encoded: what `encode` returned.
            examples: the split.
            labels: names of the classes.
        """

    @abc.abstractmethod
    def references(self, examples: Any, labels: tuple[str, ...]) -> Sequence[Any] | None:
        """Returns what metrics compare the predictions with; None for a split without labels."""

    @abc.abstractmethod
    def answer_columns(self, labels: tuple[str, ...]) -> list[str]:
        """Returns the names of the columns that a prediction adds to a table."""

    @abc.abstractmethod
    def answer_rows(
        self, prediction: Any, example: Any, labels: tuple[str, ...]
    ) -> list[list[str]]:
        """Returns the rows, most often one, that a prediction adds to a table."""

    @abc.abstractmethod
    def example_table(self, examples: Any) -> tuple[list[str], list[list[str]]]:
        """Returns names and values of the columns that show a split: texts and labels."""

    def tuned(self, predictions: Sequence[Any], references: Sequence[Any]) -> Self:
        """Returns the head with what is chosen on validation data, such as a threshold."""
        return self

    def settings(self) -> Mapping[str, Any]:
        """Returns the fields, for `task.json`."""
        return dataclasses.asdict(self)

    def collapse(
        self, predictions: Sequence[Any], references: Sequence[Any], labels: tuple[str, ...]
    ) -> str | None:
        """Returns what is wrong when a model gives one answer for everything, else None."""
        return None

    def confusion(
        self, predictions: Sequence[Any], references: Sequence[Any], labels: tuple[str, ...]
    ) -> np.ndarray | None:
        """Returns how often each class (rows) was predicted as each (columns), int64 [C, C].

        None where examples have no single class.
        """
        return None

    def guessing_loss(
        self, examples: Any, labels: tuple[str, ...], label_smoothing: float = 0.0
    ) -> float | None:
        """Returns the loss of the best constant guess on a split, where it has a formula."""
        return None

    def class_indices(self, examples: Any) -> Any:
        """Returns int32 [E], the class of each example, for class weights.

        Raises:
            ValueError: the examples of this head have no single class.
        """
        raise ValueError(
            f"examples of a {self.kind} head have no single class to weigh: leave out "
            "--class_weights"
        )

    def needs_segments(self, data: Any) -> bool:
        """Whether the model must tell two segments apart to learn from `TaskData`."""
        return False

    def no_predictions(self, labels: tuple[str, ...]) -> Sequence[Any]:
        """Returns what `predictions` would return for no examples."""
        return []
