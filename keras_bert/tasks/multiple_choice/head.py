"""Which of several continuations fits a text (paper section 4.4).

Shapes: E examples, K choices of the example of a batch that has the most.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.finetuning.collapse import chance_loss, one_answer
from keras_bert.finetuning.encoded_rows import EncodedRows, pack_texts
from keras_bert.finetuning.head import FinetuningHead, place_of
from keras_bert.finetuning.metrics import calibration_bins
from keras_bert.models.multiple_choice import BertMultipleChoice
from keras_bert.progress import Progress
from keras_bert.storage.text_lines import check_parts, check_string
from keras_bert.tasks.multiple_choice.answer_table import COLUMNS, choice_row
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.preprocessor import BertPreprocessor
from keras_bert.training.losses import SmoothedCrossentropy, smoothed


@dataclasses.dataclass(frozen=True)
class ChoiceExample:
    """A text and what may follow it.

    Attributes:
        context: the text.
        choices: at least two continuations; one alone can be asked for, not learned.
        label: index of the right one; None where it is not known.

    Raises:
        ValueError: context or a choice is no string, the choices are one string, or there is none.
    """

    context: str
    choices: tuple[str, ...]
    label: int | None = None

    def __post_init__(self) -> None:
        # Frozen.
        object.__setattr__(self, "context", check_string(self.context, "the context"))
        object.__setattr__(self, "choices", check_parts(self.choices, "choices", "choice"))
        if not self.choices:
            raise ValueError(f"{self.context[:60]!r} has no choices: give at least two")


@dataclasses.dataclass(frozen=True)
class ChoiceHead(FinetuningHead):
    """Multiple choice; every example may have its own number of choices.

    Predictions are probabilities, float32 [choices] for each example.
    """

    kind: ClassVar[str] = "choice"
    example_class: ClassVar[type | None] = ChoiceExample
    example_form: ClassVar[str] = "ChoiceExample(context, choices)"
    model_class: ClassVar[type] = BertMultipleChoice

    def check_labels(self, examples: Sequence[ChoiceExample], split: str) -> None:
        """Refuses what is no index of a choice of its example, and one choice alone."""
        for number, example in enumerate(examples):
            label, count = example.label, len(example.choices)
            if count < 2:
                raise ValueError(f"{place_of(split, number)} has one choice: give at least two")
            if not isinstance(label, int | np.integer) or not 0 <= label < count:
                raise ValueError(
                    f"{place_of(split, number)} has the label {label!r} and {count} choices: give "
                    f"the index of one, a whole number from 0 to {count - 1}"
                )

    def encode(
        self,
        tokenizer: Tokenizer,
        examples: Sequence[ChoiceExample],
        max_seq_length: int,
        description: str,
    ) -> EncodedRows:
        """Packs every choice with its context as a pair of texts."""
        counts = np.array([len(example.choices) for example in examples], np.int64)
        contexts = [example.context for example in examples for _ in example.choices]
        choices = [choice for example in examples for choice in example.choices]
        preprocessor = BertPreprocessor(tokenizer, max_seq_length, pad_to="longest")
        with Progress(len(choices), "choice", description) as progress:
            ids, segments = pack_texts(preprocessor, contexts, choices, progress.update)
        targets = None
        if all(example.label is not None for example in examples):
            # One at the right choice and zero at the others, int32 [E, choices].
            numbers = np.concatenate([np.arange(count) for count in counts])
            right = np.repeat([example.label for example in examples], counts)
            hot = (numbers == right).astype(np.int32)
            targets = tf.RaggedTensor.from_row_lengths(hot, counts)
        return EncodedRows(
            tf.RaggedTensor.from_row_lengths(ids, counts),
            tf.RaggedTensor.from_row_lengths(segments, counts),
            tokenizer.vocabulary.pad_id,
            max_seq_length,
            targets,
        )

    def loss(self, label_smoothing: float = 0.0) -> keras.losses.Loss:
        """Returns cross-entropy over the choices that an example has."""
        return ChoiceCrossentropy(label_smoothing)

    def predictions(
        self,
        outputs: Sequence[np.ndarray],
        encoded: EncodedRows,
        examples: Sequence[ChoiceExample],
    ) -> list[np.ndarray]:
        """Returns the softmax of the scores of each example."""
        return [tf.nn.softmax(scores).numpy() for scores in outputs]

    def references(self, examples: Sequence[ChoiceExample]) -> list[int] | None:
        """Returns the indices of the right choices."""
        known = [example.label for example in examples if example.label is not None]
        return known if len(known) == len(examples) else None

    def collapse(self, predictions: Sequence[np.ndarray], references: Sequence[int]) -> str | None:
        """Names the one index that all answers take."""
        return one_answer([f"choice {scores.argmax()}" for scores in predictions], references)

    def calibration(
        self, predictions: Sequence[np.ndarray], references: Sequence[int]
    ) -> np.ndarray:
        """Compares the probability of the likeliest choice with how often it is the right one."""
        right = [
            scores.argmax() == label for scores, label in zip(predictions, references, strict=True)
        ]
        return calibration_bins(np.array([scores.max() for scores in predictions]), np.array(right))

    def chance_loss(
        self,
        examples: Sequence[ChoiceExample],
        label_smoothing: float = 0.0,
    ) -> float | None:
        """Returns the logarithm of the number of choices, for indices tell nothing.

        None where examples differ in it: then the loss of guessing is not that of the few steps
        that it would be compared with.
        """
        counts = {len(example.choices) for example in examples}
        return chance_loss(np.ones(counts.pop())) if len(counts) == 1 else None

    def answer_columns(self) -> list[str]:
        """Returns the index of the predicted choice, its text and all probabilities."""
        return list(COLUMNS)

    def answer_rows(self, prediction: np.ndarray, example: ChoiceExample) -> list[list[str]]:
        """Returns one row; the probabilities stand in one field, separated by spaces."""
        best = int(prediction.argmax())
        return [choice_row(best, example.choices[best], prediction)]

    def example_table(self, examples: Sequence[ChoiceExample]) -> tuple[list[str], list[list[str]]]:
        """Returns context and choices."""
        most = max(len(example.choices) for example in examples)
        names = ["context", *(f"choice{index}" for index in range(most))]
        return names, [
            [example.context, *example.choices, *[""] * (most - len(example.choices))]
            for example in examples
        ]

    def needs_segments(self, examples: Any) -> bool:
        """Always: context and choice are two segments."""
        return True


@keras.saving.register_keras_serializable("keras_bert")
class ChoiceCrossentropy(SmoothedCrossentropy):
    """Cross-entropy of scores [B, K] and targets [B, K]: 1, 0, or below 0 for a missing choice.

    Args:
        label_smoothing: the fraction of the target that is spread evenly over an example's choices.
    """

    def __init__(
        self, label_smoothing: float = 0.0, name: str = "choice_crossentropy", **kwargs: Any
    ):
        super().__init__(label_smoothing, name=name, **kwargs)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Returns the loss of each example, [B]."""
        targets = ops.cast(y_true, "float32")
        there = ops.cast(targets >= 0, "float32")
        scores = ops.where(targets >= 0, ops.cast(y_pred, "float32"), -1e9)
        log_probabilities = ops.log_softmax(scores)  # [B, K]
        mean = ops.sum(log_probabilities * there, axis=-1) / ops.sum(there, axis=-1)
        right = ops.argmax(targets, axis=-1, keepdims=True)  # [B, 1]
        told = ops.take_along_axis(log_probabilities, right, axis=-1)[:, 0]  # [B]
        return smoothed(told, mean, self.label_smoothing)
