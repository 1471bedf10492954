"""Texts as vectors of their tokens, which say together which text answers which (ColBERT)."""

import dataclasses
import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import keras
import numpy as np
import tensorflow as tf

from keras_bert.checkpoints import multi_vector_modules
from keras_bert.checkpoints.multi_vector_modules import MultiVectorModules
from keras_bert.config import BertConfig
from keras_bert.counts import check_count
from keras_bert.features import INPUT_MASK
from keras_bert.finetuning.encoded_rows import EncodedRows, pack_texts
from keras_bert.finetuning.inference import InferenceRunner
from keras_bert.layers.pooling import UnitTokens
from keras_bert.models.embedders.multi_vector_embedder import BertMultiVectorEmbedder
from keras_bert.models.embedders.sentence_embedder import UnflattenVectors, check_keeps_case
from keras_bert.storage import hub
from keras_bert.storage.text_lines import check_string
from keras_bert.tasks.sentence_embedding.answer_table import similarity_row
from keras_bert.tasks.sentence_embedding.compared_texts import ComparedTextsHead
from keras_bert.tasks.sentence_embedding.examples import EmbeddingExample
from keras_bert.tasks.sentence_embedding.ranking_loss import MultiVectorLoss
from keras_bert.tasks.sentence_embedding.token_rows import TokenRows
from keras_bert.tasks.sentence_embedding.token_vectors import TokenVectors, max_sim
from keras_bert.text.base_tokenizer import Tokenizer

# Examples whose tokens say where the projection begins.
_EXAMPLES_LOOKED_AT, _EXAMPLES_AT_A_TIME = 128, 16
# Vectors of different texts that differ by less than this are one.
_SAME_VECTOR = 1e-3
_QUERY_LENGTH = 32


@dataclasses.dataclass(frozen=True)
class MultiVectorHead(ComparedTextsHead):
    """A vector for each token of a text, of length 1.

    Predictions are the vectors of the texts, `TokenVectors` for each example. What is written is
    the encoder with its projection, as sentence-transformers has it. Further arguments are those of
    `ComparedTextsHead`: temperature (0.3), prompts, and how much a teacher's scores count.

    Attributes:
        projection_dim: numbers of a vector; None takes those of the model folder that training
            starts from, and 128 where it has no projection, or the width of a narrower encoder.
        query_length: the most positions of a query; None takes what the folder says, and 32 where
            it says nothing, or those of other texts where these are fewer.
        query_marker: a piece that stands behind [CLS] of a query; the folder tells.
        document_marker: the same of other texts.

    Raises:
        ValueError: an argument is out of its range, or a marker is no string.
    """

    kind: ClassVar[str] = "multi_vector"
    model_class: ClassVar[type] = BertMultiVectorEmbedder

    projection_dim: int | None = None
    query_length: int | None = None
    query_marker: str = ""
    document_marker: str = ""
    temperature: float = dataclasses.field(default=0.3, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        # Kept in task.json, as the temperatures are.
        for name in ("projection_dim", "query_length"):
            object.__setattr__(self, name, check_count(name, getattr(self, name)))
        for name in ("query_marker", "document_marker"):
            check_string(getattr(self, name), name)

    def for_folder(self, folder: str | os.PathLike) -> Self:
        """Returns the head with what a folder of such a model says, unless other is asked for.

        Raises:
            ValueError: the folder has something that cannot be trained on.
        """
        local = hub.local_folder(folder)
        if not multi_vector_modules.is_multi_vector_folder(local):
            prompts: dict[str, Any] = self.prompts_of(local)
            return dataclasses.replace(self, **prompts)
        modules = multi_vector_modules.read(local)
        if multi_vector_modules.model_folder(local) != local:
            raise ValueError(
                f"{folder} has its encoder in a folder of its own, which is not trained from here: "
                "move the files of that folder beside modules.json, and write its path as ''"
            )
        check_keeps_case(folder)
        left_out = {"query expansion": modules.expansion, "a skiplist": modules.skiplist}
        if any(left_out.values()):
            names = " and ".join(name for name, value in left_out.items() if value)
            warnings.warn(
                f"{folder} has {names}, which training leaves out: the trained model has none",
                stacklevel=2,
            )
        # An expanded query has a length of its own, to which longer ones are cut.
        expansion = modules.expansion
        told = {
            "projection_dim": modules.projection.shape[1],
            "query_length": expansion.length if expansion else modules.query_length,
            "query_prompt": modules.prompts.query,
            "document_prompt": modules.prompts.document,
        }
        changes: dict[str, Any] = {
            name: value for name, value in told.items() if getattr(self, name) is None
        }
        changes["query_marker"] = modules.query_marker
        changes["document_marker"] = modules.document_marker
        return dataclasses.replace(self, **changes)

    def check_config(self, config: BertConfig) -> None:
        """Refuses vectors that are wider than the states of the encoder."""
        if (self.projection_dim or 0) > config.hidden_size:
            raise ValueError(
                f"projection_dim is {self.projection_dim}, but the encoder's states have only "
                f"{config.hidden_size} numbers: give at most that"
            )

    def prepare(self, model: BertMultiVectorEmbedder, rows: EncodedRows) -> None:
        """Sets a fresh projection to the directions in which the states of tokens differ most.

        These are the principal components of the states of some of the texts, not centred, so that
        products of vectors begin as near to those of whole states as so few numbers can tell. A
        projection that was trained stays; `--init_layers` and `--from_scratch` take none.
        """
        if model.has_trained_projection:
            return
        project = model.get_layer("projection")
        mask = model.get_layer(f"flat_{INPUT_MASK}").output  # [B * R, S]
        states = UnitTokens(dtype="float32")(project.input, mask)  # [B * R, S, H]
        like = model.input[INPUT_MASK]
        states = UnflattenVectors(dtype="float32")(states, like)  # [B, R, S, H]
        run = InferenceRunner(keras.Model(model.input, states), kept=_without_padding)
        chosen = rows.some(_EXAMPLES_LOOKED_AT)
        products = np.zeros([project.input.shape[-1]] * 2)  # [H, H]
        for tokens in run(chosen, _EXAMPLES_AT_A_TIME, description="looking at tokens").outputs:
            wide = tokens.astype(np.float64)  # [T, H]; of one example, as all take gigabytes
            products += wide.T @ wide
        _, directions = np.linalg.eigh(products)  # [H, H], the largest last
        project.kernel.assign(directions[:, ::-1][:, : model.projection_dim])

    def model_arguments(self) -> dict[str, Any]:
        """Returns the numbers of a vector."""
        return {} if self.projection_dim is None else {"projection_dim": self.projection_dim}

    def loss(self, label_smoothing: float = 0.0) -> keras.losses.Loss:
        """Returns the loss of answers, and of a teacher's scores where examples have some.

        Raises:
            ValueError: there is label smoothing.
        """
        self.check_smoothing(label_smoothing)
        return MultiVectorLoss(
            self.temperature,
            self.teacher_weight,
            self.teacher_temperature,
            self.query_length or _QUERY_LENGTH,
        )

    def keeping(self) -> Callable[[np.ndarray], TokenVectors]:
        """Returns what takes the padding out of the vectors [R, S, D] of an example."""
        # Of a split many texts are kept; scores differ in the fourth digit.
        return lambda vectors: TokenVectors.from_padded(vectors).astype(np.float16)

    def collapse(
        self, predictions: Sequence[TokenVectors], references: Sequence[EmbeddingExample]
    ) -> str | None:
        """Says so where different texts have the same vectors."""
        several = len({example.texts[0] for example in references}) > 1
        means = np.stack(
            [np.mean(vectors[:1].vectors, axis=0) for vectors in predictions]
        )  # [E, D]
        if several and np.max(np.ptp(means, axis=0)) < _SAME_VECTOR:
            return "all texts have the same vectors"
        return None

    def answer_rows(self, prediction: Any, example: EmbeddingExample) -> list[list[str]]:
        """Returns one row."""
        return [similarity_row(float(max_sim(prediction[:1], prediction[1:2])[0, 0]))]

    def write_files(self, folder: Path, max_seq_length: int) -> None:
        """Writes lengths, prompts and markers to where sentence-transformers looks for them."""
        modules = multi_vector_modules.read(folder)
        multi_vector_modules.write(folder, self.modules(modules, max_seq_length))

    def modules(self, modules: MultiVectorModules, max_seq_length: int) -> MultiVectorModules:
        """Returns what a folder says of a model, with all that the head knows.

        Args:
            modules: with its projection.
            max_seq_length: the most positions of a row.
        """
        query, document = self.query_prompt or "", self.document_prompt or ""
        return dataclasses.replace(
            modules,
            query_length=self._query_length(max_seq_length),
            max_seq_length=max_seq_length,
            prompts=modules.prompts._replace(query=query, document=document),
            query_marker=self.query_marker,
            document_marker=self.document_marker,
        )

    def _query_length(self, max_seq_length: int) -> int:
        return min(self.query_length or _QUERY_LENGTH, max_seq_length)

    def _packed(
        self,
        tokenizer: Tokenizer,
        rows: Sequence[Sequence[str]],
        max_seq_length: int,
        done: Callable[[int], None],
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Returns the rows of queries cut to their length, and those of other texts as usual."""
        parts = [
            (
                TokenRows(tokenizer, self._query_length(max_seq_length), self.query_marker),
                [(self.query_prompt or "") + first for first, *_ in rows],
            ),
            (
                TokenRows(tokenizer, max_seq_length, self.document_marker),
                [(self.document_prompt or "") + text for _, *others in rows for text in others],
            ),
        ]
        packed = [pack_texts(make, texts, None, done) for make, texts in parts]
        # Queries 0 1, others 2 3 4 of rows with one and with two of them: 0 2 1 3 4.
        others = iter(range(len(rows), sum(map(len, rows))))
        order = [
            n for row, texts in enumerate(rows) for n in [row, *(next(others) for _ in texts[1:])]
        ]
        ids, segments = (
            tf.gather(tf.concat(both, axis=0), order) for both in zip(*packed, strict=True)
        )
        return ids, segments


def _without_padding(states: np.ndarray) -> np.ndarray:
    """Returns the states [T, H] of the tokens of an example [R, S, H]; those of padding are 0."""
    return states[np.any(states != 0, axis=-1)]
