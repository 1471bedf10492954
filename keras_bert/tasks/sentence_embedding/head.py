"""Texts as vectors whose cosines say how alike they are, or which answers which."""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import keras
import numpy as np
import tensorflow as tf

from keras_bert.checkpoints import sentence_modules, sentence_prompts
from keras_bert.checkpoints.static_embeddings import folders as static_embeddings
from keras_bert.choices import TokenPooling, check_choice
from keras_bert.config import BertConfig
from keras_bert.counts import check_count, plain_number
from keras_bert.finetuning.encoded_rows import pack_texts
from keras_bert.finetuning.task import TRAIN
from keras_bert.models.embedders.sentence_embedder import BertSentenceEmbedder, trained_pooling
from keras_bert.models.embedders.static_embedder import StaticEmbedder, read_trainable
from keras_bert.storage import hub
from keras_bert.tasks.feature_extraction.static_signatures import StaticPieces
from keras_bert.tasks.sentence_embedding.answer_table import similarity_row
from keras_bert.tasks.sentence_embedding.compared_texts import ComparedTextsHead
from keras_bert.tasks.sentence_embedding.examples import EmbeddingExample
from keras_bert.tasks.sentence_embedding.ranking_loss import EmbeddingLoss
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.packing import pad_rows

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
        static_width: numbers of a fresh table of static embeddings over the pieces of the model
            folder, which learns in place of the folder's encoder; None for what the folder holds.

    Raises:
        ValueError: there is no such pooling, another argument is out of its range, or a width of
            vectors is not above 0 or there twice.
    """

    kind: ClassVar[str] = "embedding"
    model_class: ClassVar[type] = BertSentenceEmbedder
    learns_static: ClassVar[bool] = True

    pooling: TokenPooling | None = None
    matryoshka_dims: tuple[int, ...] = ()
    static_width: int | None = None

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
        width = check_count("static_width", self.static_width)
        object.__setattr__(self, "static_width", width)

    def for_folder(self, folder: str | os.PathLike) -> Self:
        """Returns the head with pooling and prompts of the folder, unless others are asked for.

        That of a table of static embeddings is a `StaticEmbeddingHead`.

        Raises:
            ValueError: the folder has more than a pooling that can be trained on.
        """
        local = hub.local_folder(folder)
        if self.static_width is not None or static_embeddings.is_static_folder(local):
            fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(EmbeddingHead)}
            return cast(Self, StaticEmbeddingHead(**fields).of_table(local))
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


@dataclasses.dataclass(frozen=True)
class StaticEmbeddingHead(EmbeddingHead):
    """The same by a table of static embeddings: a text is the mean of the rows of its pieces.

    `EmbeddingHead.for_folder` makes it of a folder of such a table, or where a fresh one is asked
    for. What is written is a folder of the form of the start.

    Attributes:
        model2vec: whether that form is Model2Vec's, which cuts texts as Model2Vec does.
        drops_unknown: whether unknown pieces are left out of the mean.

    Raises:
        ValueError: there is another pooling than the mean.
    """

    kind: ClassVar[str] = "static_embedding"
    model_class: ClassVar[type] = StaticEmbedder
    # A table learns at rates far above those of encoders, and from batches as large as memory
    # allows, as they cost little: see docs/search.md.
    defaults: ClassVar[Mapping[str, Any]] = {"learning_rate": 0.03}

    model2vec: bool = False
    drops_unknown: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pooling not in (None, "mean"):
            raise ValueError(
                f"pooling is {self.pooling!r}, but a static embedding is the mean of the vectors "
                "of its pieces: leave it out"
            )
        object.__setattr__(self, "pooling", "mean")

    def for_folder(self, folder: str | os.PathLike) -> Self:
        """Returns the head as it is: it has been made of a folder."""
        return self

    def of_table(self, folder: Path) -> Self:
        """Returns the head with the form and the prompts of the folder that training starts from.

        Args:
            folder: a local folder: of a table, or any whose pieces a fresh one is for.

        Raises:
            ValueError: the table has something behind the mean that cannot be trained on.
        """
        changes: dict[str, Any] = self.prompts_of(folder)
        if static_embeddings.is_static_folder(folder):
            table = read_trainable(folder)
            changes |= {"model2vec": table.is_model2vec, "drops_unknown": table.drops_unknown}
        return dataclasses.replace(self, **changes)

    def check_labels(self, examples: Sequence[EmbeddingExample], split: str) -> None:
        """Refuses to learn from texts alone, which only dropout makes different from themselves."""
        if split == TRAIN and any(len(example.texts) == 1 for example in examples):
            raise ValueError(
                "the training data has texts alone, and static embeddings have no dropout under "
                "which a text differs from itself: give what answers them in a column positive"
            )

    def model_arguments(self) -> dict[str, Any]:
        """Returns nothing: the pooling is the mean."""
        return {}

    def write_files(self, folder: Path, max_seq_length: int) -> None:
        """Writes length of texts and prompts to where the other libraries look for them."""
        query, document = self.query_prompt or "", self.document_prompt or ""
        static_embeddings.write_settings(folder, max_seq_length, query, document)

    def _packed(
        self,
        tokenizer: Tokenizer,
        rows: Sequence[Sequence[str]],
        max_seq_length: int,
        done: Callable[[int], None],
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Returns the pieces of the texts of all rows, without special tokens around them."""
        pieces = StaticPieces(tokenizer, max_seq_length, self.drops_unknown, self.model2vec)

        def padded(texts: Sequence[str]) -> dict[str, tf.Tensor]:
            ids = pieces(tf.constant(texts))  # [N, pieces]
            return pad_rows(ids, tf.zeros_like(ids), tokenizer.vocabulary)

        return pack_texts(padded, self.read_texts(rows), None, done)
