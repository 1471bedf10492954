"""Texts as vectors whose cosines say how alike they are, or which answers which."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from keras_bert.checkpoints import sentence_modules
from keras_bert.choices import TokenPooling, check_choice
from keras_bert.finetuning.encoded_rows import EncodedRows, pack_texts
from keras_bert.finetuning.head import FinetuningHead
from keras_bert.models.sentence_embedder import BertSentenceEmbedder
from keras_bert.progress import Progress
from keras_bert.tasks.sentence_embedding.answer_table import COLUMNS, similarity_row
from keras_bert.tasks.sentence_embedding.ranking_loss import EmbeddingLoss
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.preprocessor import BertPreprocessor

# Vectors of different texts that differ by less than this are one.
_SAME_VECTOR = 1e-3


@dataclasses.dataclass(frozen=True)
class EmbeddingExample:
    """Texts that belong together.

    Attributes:
        texts: one text alone, which learns to be told from others (SimCSE); or one to search with,
            one that is to be found and any number of wrong ones; or two, with a score.
        score: how alike the two texts are, from 0 to 1; None where that is not what is known.
    """

    texts: tuple[str, ...]
    score: float | None = None


@dataclasses.dataclass(frozen=True)
class EmbeddingHead(FinetuningHead):
    """A vector for each text, of length 1.

    Predictions are cosines, float, for examples with scores, and the vectors of the texts, float32
    [texts, H], for all others. What is written is the encoder, as sentence-transformers has it.

    Attributes:
        pooling: how vectors of tokens become one: "mean", "cls" or "max"; None takes what the model
            folder says that training starts from, and "mean" where it says nothing.
        temperature: divides the cosines that are learned as logits; see `EmbeddingLoss`.

    Raises:
        ValueError: there is no such pooling, or the temperature is not above 0.
    """

    kind: ClassVar[str] = "embedding"
    model_class: ClassVar[type] = BertSentenceEmbedder
    learns_from_teacher: ClassVar[bool] = False
    compares_examples: ClassVar[bool] = True
    joins_members = False

    pooling: TokenPooling | None = None
    temperature: float = 0.05

    def __post_init__(self) -> None:
        if self.pooling is not None:
            check_choice("pooling", self.pooling, TokenPooling)
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature is {self.temperature}: it must be above 0")

    @property
    def reads_pooler(self) -> bool:
        """Never: vectors are pooled from those of the tokens."""
        return False

    def model_arguments(self) -> dict[str, Any]:
        """Returns the pooling."""
        return {} if self.pooling is None else {"pooling": self.pooling}

    def encode(
        self,
        tokenizer: Tokenizer,
        examples: Sequence[EmbeddingExample],
        max_seq_length: int,
        description: str,
    ) -> EncodedRows:
        """Packs every text by itself; a text alone is there twice, for two masks of dropout."""
        rows = [texts if len(texts) > 1 else texts * 2 for texts, _ in map(_fields, examples)]
        counts = np.array([len(texts) for texts in rows], np.int64)
        texts = [text for row in rows for text in row]
        preprocessor = BertPreprocessor(tokenizer, max_seq_length, pad_to="longest")
        with Progress(len(texts), "text", description) as progress:
            ids, segments = pack_texts(preprocessor, texts, None, progress.update)
        scores = _scores(examples)
        targets: Any = scores
        if scores is None:
            numbers: dict[str, int] = {}
            for text in texts:
                numbers.setdefault(text, len(numbers) + 1)
            flat = np.array([numbers[text] for text in texts], np.int32)
            targets = tf.RaggedTensor.from_row_lengths(flat, counts)  # [E, texts]
        return EncodedRows(
            tf.RaggedTensor.from_row_lengths(ids, counts),
            tf.RaggedTensor.from_row_lengths(segments, counts),
            tokenizer.vocabulary.pad_id,
            max_seq_length,
            targets,
        )

    def loss(self, label_smoothing: float = 0.0) -> keras.losses.Loss:
        """Returns the cross-entropy of the right text in the batch, or the squared error of scores.

        Raises:
            ValueError: there is label smoothing.
        """
        if label_smoothing:
            raise ValueError(
                f"label_smoothing is {label_smoothing}, but texts that belong together have no "
                "classes to smooth: leave out --label_smoothing"
            )
        return EmbeddingLoss(self.temperature)

    def predictions(
        self,
        outputs: Sequence[np.ndarray],
        encoded: EncodedRows,
        examples: Sequence[EmbeddingExample],
    ) -> list[Any]:
        """Returns the cosine of each example with a score, and the vectors of all others."""
        if _scores(examples) is None:
            return list(outputs)
        return [float(vectors[0] @ vectors[1]) for vectors in outputs]

    def references(self, examples: Sequence[EmbeddingExample]) -> Any:
        """Returns the scores, float32 [E], or the texts; None where examples are single texts."""
        scores = _scores(examples)
        if scores is not None:
            return scores
        texts = [example.texts for example in examples]
        return texts if all(len(each) > 1 for each in texts) else None

    def collapse(self, predictions: Sequence[Any], references: Any) -> str | None:
        """Says so where all texts have the same vector, or all pairs the same cosine."""
        if len(predictions) < 2:
            return None
        if isinstance(references, np.ndarray):
            values = np.array(predictions)[:, None]  # [E, 1]
            several = np.ptp(references) > 0
        else:
            values = np.stack([vectors[0] for vectors in predictions])  # [E, H]
            several = len({texts[0] for texts in references}) > 1
        if several and np.max(np.ptp(values, axis=0)) < _SAME_VECTOR:
            return "all texts have the same vector"
        return None

    def answer_columns(self) -> list[str]:
        """Returns the column of the cosine of the first two texts."""
        return list(COLUMNS)

    def answer_rows(self, prediction: Any, example: EmbeddingExample) -> list[list[str]]:
        """Returns one row."""
        if not isinstance(prediction, float):
            prediction = float(prediction[0] @ prediction[1])
        return [similarity_row(prediction)]

    def example_table(
        self, examples: Sequence[EmbeddingExample]
    ) -> tuple[list[str], list[list[str]]]:
        """Returns the texts."""
        most = max(len(example.texts) for example in examples)
        names = ["text", "positive", *(f"negative{index}" for index in range(most - 2))]
        if _scores(examples) is not None:
            names[1] = "text_pair"
        names = names[:most]
        return names, [[*row.texts, *[""] * (most - len(row.texts))] for row in examples]

    def needs_segments(self, examples: Any) -> bool:
        """Never: every text is a row of its own."""
        return False

    def write_files(self, folder: Path, max_seq_length: int) -> None:
        """Writes how long rows are to where sentence-transformers looks for it."""
        sentence_modules.write_length(folder, max_seq_length)


def _fields(example: EmbeddingExample) -> tuple[tuple[str, ...], float | None]:
    return example.texts, example.score


def _scores(examples: Sequence[EmbeddingExample]) -> np.ndarray | None:
    """Returns the scores of a split, float32 [E]; None where its examples have none."""
    known = [example.score for example in examples if example.score is not None]
    if len(known) == len(examples):
        return np.array(known, np.float32)
    if known:
        raise ValueError(
            f"{len(known):,} of {len(examples):,} examples have a score: give all of a split one, "
            "or none"
        )
    return None
