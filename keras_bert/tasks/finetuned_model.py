"""A fine-tuned model with its tokenizer: examples in, predictions out."""

import abc
import dataclasses
import os
from collections.abc import Sequence
from typing import Any, Self, cast

import numpy as np

from keras_bert.finetuning.head import PerExample
from keras_bert.finetuning.inference import InferenceRunner
from keras_bert.finetuning.task import TaskDescription
from keras_bert.models.task_model import TaskModel
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
                list, or pairs are given to a model of single texts, or the other way round.
        """
        head = self.description.head
        if not isinstance(head, TextHead):
            raise ValueError(
                f"predict answers texts, but the model has a {head.kind} head: give its examples "
                "to predict_examples"
            )
        for name, given in (("texts", texts), ("text_pairs", text_pairs)):
            if isinstance(given, str):  # else a text for each of its letters
                raise ValueError(f"{name} is the string {given[:60]!r}: give a list, also of one")
        if self.description.takes_pairs != (text_pairs is not None):
            wants = "pairs of texts: give" if self.description.takes_pairs else "texts: leave out"
            raise ValueError(f"the model was trained on {wants} text_pairs")
        if not len(texts):
            width = len(self.description.labels) or 1
            return head.postprocess(np.zeros([0, width], np.float32)).numpy()
        found = self.predict_examples(LabeledTexts(texts, text_pairs), batch_size)
        return cast(np.ndarray, found)  # what a `TextHead` makes


@dataclasses.dataclass(frozen=True)
class FinetunedModel(AnsweringModel):
    """What a fine-tuning run leaves behind.

    Attributes:
        model: the Keras model.
        tokenizer: the tokenizer it was trained with.
        description: its task.
    """

    model: TaskModel
    tokenizer: Tokenizer
    description: TaskDescription

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

    def predict_examples(self, examples: Any, batch_size: int = 32) -> PerExample:
        """Returns one prediction for each example, as the head defines it.

        Args:
            examples: what the head encodes; labels are not looked at.
            batch_size: rows per call of the model.
        """
        if not len(examples):
            return []
        head, length = self.description.head, self.description.max_seq_length
        examples = head.without_labels(examples)
        encoded = head.encode(self.tokenizer, examples, length, "tokenizing")
        run = InferenceRunner(self.model, answer=head.answering(self.model, final=True))
        outputs = run(encoded, batch_size, head.per_position).outputs
        return head.predictions(outputs, encoded, examples)
