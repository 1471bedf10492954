"""Texts as weights of words whose products say which text answers which (SPLADE)."""

import dataclasses
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import keras
import numpy as np

from keras_bert.checkpoints import sentence_modules, sparse_modules
from keras_bert.choices import SparseActivation, check_choice
from keras_bert.config import BertConfig
from keras_bert.counts import check_count, check_number
from keras_bert.features import INPUT_MASK
from keras_bert.finetuning.encoded_rows import EncodedRows
from keras_bert.finetuning.inference import InferenceRunner
from keras_bert.models.embedders.sentence_embedder import UnflattenVectors
from keras_bert.models.embedders.sparse_embedder import BertSparseEmbedder, trained_activation
from keras_bert.models.masked_lm import BIAS
from keras_bert.storage import hub
from keras_bert.tasks.sentence_embedding.answer_table import similarity_row
from keras_bert.tasks.sentence_embedding.compared_texts import ComparedTextsHead
from keras_bert.tasks.sentence_embedding.examples import EmbeddingExample
from keras_bert.tasks.sentence_embedding.ranking_loss import SparseEmbeddingLoss
from keras_bert.tasks.sentence_embedding.sparse_vectors import SparseVectors

_INITIAL_ACTIVE_DIMS = 128
# Examples whose scores say where training begins.
_TEXTS_LOOKED_AT, _TEXTS_AT_A_TIME = 128, 16


@dataclasses.dataclass(frozen=True)
class SparseEmbeddingHead(ComparedTextsHead):
    """A sparse vector for each text: a weight for each word that it is about.

    Predictions are the vectors of the texts, `SparseVectors` for each example. What is written is a
    masked language model, as sentence-transformers has its sparse encoders. Further arguments are
    those of `ComparedTextsHead`: temperature (1), prompts, and how much a teacher's scores count.

    Attributes:
        activation: "relu" or "log1p_relu", see `SparseWeights`; None takes what the model folder
            says that training starts from, and "relu" where it says nothing.
        query_regularizer_weight: how much it counts that queries have few weights; see
            `SparseEmbeddingLoss`.
        document_regularizer_weight: the same of texts to be found.
        initial_active_dims: as many weights a text has before training, in the mean: the scores of
            a masked language model mean the same whatever is added to all of them, and so much is
            that they begin sparse. 0 leaves them as they are. None does so with a folder that holds
            a sparse encoder, and is 128 for others, or a quarter of a small vocabulary.

    Raises:
        ValueError: there is no such activation, or another argument is out of its range.
    """

    kind: ClassVar[str] = "sparse_embedding"
    model_class: ClassVar[type] = BertSparseEmbedder

    activation: SparseActivation | None = None
    query_regularizer_weight: float = 5e-5
    document_regularizer_weight: float = 3e-5
    initial_active_dims: int | None = None
    temperature: float = dataclasses.field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.activation is not None:
            check_choice("activation", self.activation, SparseActivation)
        for name in ("query_regularizer_weight", "document_regularizer_weight"):
            value = check_number(name, getattr(self, name))
            if not 0 <= value < math.inf:
                raise ValueError(f"{name} is {value}: it must be 0 or above")
            object.__setattr__(self, name, float(value))  # frozen
        check_count("initial_active_dims", self.initial_active_dims, least=0)

    def for_folder(self, folder: str | os.PathLike) -> Self:
        """Returns the head with activation and prompts of the folder, unless others are asked for.

        Raises:
            ValueError: the folder has something behind its words that cannot be trained on.
        """
        local = hub.local_folder(folder)
        changes: dict[str, Any] = self.prompts_of(local)
        changes["activation"] = trained_activation(local, self.activation)
        if self.initial_active_dims is None and sparse_modules.is_sparse_folder(local):
            changes["initial_active_dims"] = 0
        return dataclasses.replace(self, **changes)

    def check_config(self, config: BertConfig) -> None:
        """Refuses to begin with more weights than there are words."""
        if (self.initial_active_dims or 0) >= config.vocab_size:
            raise ValueError(
                f"initial_active_dims is {self.initial_active_dims}, but the vocabulary has only "
                f"{config.vocab_size:,} pieces: give fewer"
            )

    def prepare(self, model: BertSparseEmbedder, rows: EncodedRows) -> None:
        """Shifts the scores of all words alike, so that few are above 0 in some of the texts."""
        count = self.initial_active_dims
        if count is None:
            count = min(_INITIAL_ACTIVE_DIMS, model.config.vocab_size // 4)
        if not count:
            return
        bias = model.get_layer(BIAS)
        if not bias.use_bias:
            if self.initial_active_dims is not None:
                raise ValueError(
                    f"initial_active_dims is {self.initial_active_dims}, but the model "
                    f"(model_type {model.config.model_type!r}) has no bias of words that could "
                    "shift their scores: leave it out"
                )
            return
        like = model.input[INPUT_MASK]
        scores = UnflattenVectors(dtype="float32")(bias.output, like)  # [B, R, V]
        run = InferenceRunner(keras.Model(model.input, scores))
        found = run(rows.some(_TEXTS_LOOKED_AT), _TEXTS_AT_A_TIME, description="looking at scores")
        every = np.concatenate(found.outputs)  # [texts, V]
        shift = np.quantile(every, 1.0 - count / every.shape[1])
        bias.bias.assign(bias.bias.value - shift)

    def model_arguments(self) -> dict[str, Any]:
        """Returns the activation."""
        return {} if self.activation is None else {"activation": self.activation}

    def loss(self, label_smoothing: float = 0.0) -> keras.losses.Loss:
        """Returns the loss of answers, a teacher's scores too, and of how much a search costs.

        Raises:
            ValueError: there is label smoothing.
        """
        self.check_smoothing(label_smoothing)
        return SparseEmbeddingLoss(
            self.temperature,
            self.teacher_weight,
            self.teacher_temperature,
            self.query_regularizer_weight,
            self.document_regularizer_weight,
        )

    def keeping(self) -> Callable[[np.ndarray], SparseVectors]:
        """Returns what takes the zeros out of the vectors [R, V] of an example."""
        return SparseVectors.from_dense

    def collapse(
        self, predictions: Sequence[SparseVectors], references: Sequence[EmbeddingExample]
    ) -> str | None:
        """Says so where all vectors are empty."""
        if not any(vectors.active_dims.any() for vectors in predictions):
            return "all vectors are empty (lower the regularizer weights)"
        return None

    def answer_rows(self, prediction: Any, example: EmbeddingExample) -> list[list[str]]:
        """Returns one row."""
        first, second = prediction[:1].to_dense()[0], prediction[1:2].to_dense()[0]
        return [similarity_row(float(first @ second))]

    def write_files(self, folder: Path, max_seq_length: int) -> None:
        """Writes length of rows and prompts to where sentence-transformers looks for them."""
        sentence_modules.write_length(folder, max_seq_length)
        sparse_modules.write_prompts(folder, self.query_prompt or "", self.document_prompt or "")
