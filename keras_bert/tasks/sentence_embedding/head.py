"""Texts as vectors whose cosines say how alike they are, or which answers which."""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import keras
import numpy as np

from keras_bert.checkpoints import sentence_modules, sentence_prompts
from keras_bert.choices import TokenPooling, check_choice
from keras_bert.config import BertConfig
from keras_bert.counts import plain_number
from keras_bert.models.embedders.sentence_embedder import BertSentenceEmbedder, trained_pooling
from keras_bert.storage import hub
from keras_bert.tasks.sentence_embedding.answer_table import similarity_row
from keras_bert.tasks.sentence_embedding.compared_texts import ComparedTextsHead
from keras_bert.tasks.sentence_embedding.examples import EmbeddingExample
from keras_bert.tasks.sentence_embedding.ranking_loss import EmbeddingLoss

# Vectors of different texts that differ by less than this are one.
_SAME_VECTOR = 1e-3


@dataclasses.dataclass(frozen=True)
class EmbeddingHead(ComparedTextsHead):
    """A vector for each text, of length 1.

    Predictions are the vectors of the texts, float32 [texts, H] for each example. What is written
    is the encoder, as sentence-transformers has it. Further arguments are those of
    `ComparedTextsHead`: temperature, prompts, and how much a teacher's scores count.

    Attributes:
        pooling: how vectors of tokens become one: "mean", "cls" or "max"; None takes what the model
            folder says that training starts from, and "mean" where it says nothing.
        matryoshka_dims: the first so many numbers of a vector are learned as vectors, too.

    Raises:
        ValueError: there is no such pooling, another argument is out of its range, or a width of
            vectors is not above 0 or there twice.
    """

    kind: ClassVar[str] = "embedding"
    model_class: ClassVar[type] = BertSentenceEmbedder

    pooling: TokenPooling | None = None
    matryoshka_dims: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pooling is not None:
            check_choice("pooling", self.pooling, TokenPooling)
        given: Any = self.matryoshka_dims
        is_list = isinstance(given, list | tuple | np.ndarray)
        dims = tuple(map(plain_number, given)) if is_list else (given,)
        if len(set(dims)) < len(dims) or any(type(dim) is not int or dim < 1 for dim in dims):
            raise ValueError(
                f"matryoshka_dims is {given!r}: give a list of different whole numbers above 0"
            )
        # A list where it was read from task.json.
        object.__setattr__(self, "matryoshka_dims", dims)

    def for_folder(self, folder: str | os.PathLike) -> Self:
        """Returns the head with pooling and prompts of the folder, unless others are asked for.

        Raises:
            ValueError: the folder has more than a pooling that can be trained on.
        """
        local = hub.local_folder(folder)
        changes: dict[str, Any] = self.prompts_of(local)
        changes["pooling"] = trained_pooling(local, self.pooling, any_prompt=True)
        return dataclasses.replace(self, **changes)

    def check_config(self, config: BertConfig) -> None:
        """Refuses widths of vectors that are not below that of the model."""
        widest = max(self.matryoshka_dims, default=0)
        if widest >= config.hidden_size:
            raise ValueError(
                f"matryoshka_dims has {widest}, but the model's vectors have {config.hidden_size} "
                "numbers, which are learned anyway: give smaller ones"
            )

    def model_arguments(self) -> dict[str, Any]:
        """Returns the pooling."""
        return {} if self.pooling is None else {"pooling": self.pooling}

    def loss(self, label_smoothing: float = 0.0) -> keras.losses.Loss:
        """Returns the loss of what examples have: answers, a teacher's scores too, or similarities.

        Raises:
            ValueError: there is label smoothing.
        """
        self.check_smoothing(label_smoothing)
        return EmbeddingLoss(
            self.temperature, self.matryoshka_dims, self.teacher_weight, self.teacher_temperature
        )

    def collapse(
        self, predictions: Sequence[np.ndarray], references: Sequence[EmbeddingExample]
    ) -> str | None:
        """Says so where different texts have the same vector."""
        several = len({example.texts[0] for example in references}) > 1
        first = np.stack([vectors[0] for vectors in predictions])  # [E, H]
        if several and np.max(np.ptp(first, axis=0)) < _SAME_VECTOR:
            return "all texts have the same vector"
        return None

    def answer_rows(self, prediction: Any, example: EmbeddingExample) -> list[list[str]]:
        """Returns one row."""
        return [similarity_row(float(prediction[0] @ prediction[1]))]

    def write_files(self, folder: Path, max_seq_length: int) -> None:
        """Writes length of rows and prompts to where sentence-transformers looks for them."""
        sentence_modules.write_length(folder, max_seq_length)
        if self.query_prompt or self.document_prompt:
            query, document = self.query_prompt or "", self.document_prompt or ""
            sentence_prompts.write(folder, query, document)
