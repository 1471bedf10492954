"""Texts that are rows of their own and meet in the loss alone: what all such heads share."""

import dataclasses
import math
import os
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from keras_bert.checkpoints import sentence_prompts
from keras_bert.checkpoints.sentence_modules import is_sentence_folder, modules_folder
from keras_bert.checkpoints.sparse_modules import is_sparse_folder
from keras_bert.checkpoints.static_embeddings.folders import is_static_folder
from keras_bert.counts import check_number
from keras_bert.finetuning.encoded_rows import EncodedRows, pack_texts
from keras_bert.finetuning.head import FinetuningHead
from keras_bert.progress import Progress
from keras_bert.storage import hub
from keras_bert.storage.text_lines import check_string
from keras_bert.tasks.sentence_embedding.answer_table import COLUMNS
from keras_bert.tasks.sentence_embedding.examples import EmbeddingExample
from keras_bert.tasks.sentence_embedding.ranking_loss import scored_texts
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.preprocessor import BertPreprocessor


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComparedTextsHead(FinetuningHead):
    """A vector for each text; vectors of texts that belong together learn from each other.

    Attributes:
        temperature: divides the products of vectors that are learned as logits.
        query_prompt: stands before the first text of an example; None takes what the folder says
            that training starts from, mostly nothing.
        document_prompt: the same of its other texts.
        teacher_weight: part of a teacher's scores in the loss, from 0 to 1, where examples have
            some; what is right has the rest.
        teacher_temperature: divides the teacher's scores.

    Raises:
        ValueError: a temperature is not above 0, the weight is no part, or a prompt is no string.
    """

    example_class: ClassVar[type | None] = EmbeddingExample
    example_form: ClassVar[str] = "EmbeddingExample((text, other))"
    learns_from_teacher: ClassVar[bool] = False
    joins_members = False

    temperature: float = 0.05
    query_prompt: str | None = None
    document_prompt: str | None = None
    teacher_weight: float = 0.5
    teacher_temperature: float = 1.0

    def __post_init__(self) -> None:
        for name in ("temperature", "teacher_temperature"):
            if not 0 < check_number(name, getattr(self, name)) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be above 0")
        for name in ("query_prompt", "document_prompt"):
            if getattr(self, name) is not None:
                check_string(getattr(self, name), name)
        if not 0 <= check_number("teacher_weight", self.teacher_weight) <= 1:
            raise ValueError(f"teacher_weight is {self.teacher_weight}: it must be from 0 to 1")
        # Kept in task.json, which takes no numbers of NumPy.
        for name in ("temperature", "teacher_weight", "teacher_temperature"):
            object.__setattr__(self, name, float(getattr(self, name)))

    def compares_examples(self, examples: Sequence[EmbeddingExample]) -> bool:
        """Tells whether texts are told apart; scores of pairs are learned one by one."""
        return _scores(examples) is None

    @property
    def reads_pooler(self) -> bool:
        """Never: vectors are pooled from those of the tokens."""
        return False

    def encode(
        self,
        tokenizer: Tokenizer,
        examples: Sequence[EmbeddingExample],
        max_seq_length: int,
        description: str,
    ) -> EncodedRows:
        """Packs every text by itself; a text alone is there twice, for two masks of dropout."""
        rows = [example.texts for example in examples]
        alone = sum(len(texts) == 1 for texts in rows)
        rows = [texts if len(texts) > 1 else texts * 2 for texts in rows]
        counts = np.array([len(texts) for texts in rows], np.int64)
        texts = [text for row in rows for text in row]
        # "[MASK]" in a text is that token, as in the folder that a run leaves.
        tokenizer = tokenizer.with_settings(keep_special_tokens=True)
        with Progress(len(texts), "text", description) as progress:
            ids, segments = self._packed(tokenizer, rows, max_seq_length, progress.update)
        scores = _scores(examples)
        targets: Any = scores
        if scores is None:
            numbers: dict[str, int] = {}
            for text in texts:
                numbers.setdefault(text, len(numbers) + 1)
            flat = np.array([numbers[text] for text in texts], np.int32)
            taught = _scores_of_texts(examples)
            if taught is not None:
                flat = scored_texts(flat, taught)  # [texts, 2]
            targets = tf.RaggedTensor.from_row_lengths(flat, counts)  # [E, texts]
        encoded = EncodedRows(
            tf.RaggedTensor.from_row_lengths(ids, counts),
            tf.RaggedTensor.from_row_lengths(segments, counts),
            tokenizer.vocabulary.pad_id,
            max_seq_length,
            targets,
        )
        kinds = {
            "pairs with a score": 0 if scores is None else len(rows),
            "texts alone": alone,
            "texts with an answer": len(rows) - alone if scores is None else 0,
        }
        encoded.remark = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items() if count)
        if targets is not scores and targets.shape.rank == 3:
            encoded.remark += " and a teacher's scores"
        return encoded

    def _packed(
        self,
        tokenizer: Tokenizer,
        rows: Sequence[Sequence[str]],
        max_seq_length: int,
        done: Callable[[int], None],
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Returns ids and segments of the texts of all rows, [texts, pieces]; see `pack_texts`."""
        preprocessor = BertPreprocessor(tokenizer, max_seq_length, pad_to="longest")
        return pack_texts(preprocessor, self.read_texts(rows), None, done)

    def read_texts(self, rows: Sequence[Sequence[str]]) -> list[str]:
        """Returns the texts of all rows one behind the other, with what stands before them."""
        prompts = self.query_prompt or "", self.document_prompt or ""
        return [prompts[place > 0] + text for row in rows for place, text in enumerate(row)]

    def check_smoothing(self, label_smoothing: float) -> None:
        """Refuses label smoothing.

        Raises:
            ValueError: there is some.
        """
        if label_smoothing:
            raise ValueError(
                f"label_smoothing is {label_smoothing}, but texts that belong together have no "
                "classes to smooth: leave out --label_smoothing"
            )

    def predictions(
        self, outputs: Sequence[Any], encoded: EncodedRows, examples: Sequence[EmbeddingExample]
    ) -> list[Any]:
        """Returns the vectors of each example."""
        return list(outputs)

    def references(self, examples: Sequence[EmbeddingExample]) -> list[EmbeddingExample]:
        """Returns the examples themselves: their texts and scores."""
        return list(examples)

    def without_labels(self, examples: Sequence[EmbeddingExample]) -> list[EmbeddingExample]:
        """Returns the texts without scores."""
        return [EmbeddingExample(example.texts) for example in examples]

    def answer_columns(self) -> list[str]:
        """Returns the column of the product of the first two texts."""
        return list(COLUMNS)

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

    def prompts_of(self, folder: str | os.PathLike) -> dict[str, str]:
        """Returns the prompts of a folder, those that are not asked for otherwise, by field."""
        local = hub.local_folder(folder)
        if not (is_sentence_folder(local) or is_sparse_folder(local) or is_static_folder(local)):
            return {}
        prompts = sentence_prompts.read(modules_folder(local))
        found = {"query_prompt": prompts.query, "document_prompt": prompts.document}
        return {name: prompt for name, prompt in found.items() if getattr(self, name) is None}

    def settings(self) -> dict[str, Any]:
        """Returns kind and fields; those that say nothing are left out, as in runs before them."""
        fields = super().settings()
        usual = dataclasses.asdict(type(self)())
        kept = ("kind", "pooling", "temperature")
        return {n: v for n, v in fields.items() if n in kept or v not in (usual[n], "")}


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


def _scores_of_texts(examples: Sequence[EmbeddingExample]) -> np.ndarray | None:
    """Returns a teacher's scores of all texts, float32 [texts], 0 for the first of each example.

    None where no example has some.
    """
    known = [example.teacher_scores for example in examples if example.teacher_scores is not None]
    if not known:
        return None
    if len(known) < len(examples):
        raise ValueError(
            f"{len(known):,} of {len(examples):,} examples have scores of a teacher: give all of a "
            "split some, or none"
        )
    for example in examples:
        count = len(example.teacher_scores or ())
        if count != len(example.texts) - 1 or not count:
            raise ValueError(
                f"an example has {count} scores of a teacher and {len(example.texts)} texts: give "
                "one for each text but the first"
            )
    flat = np.array([score for scores in known for score in (0.0, *scores)], np.float32)
    if not np.isfinite(flat).all():
        raise ValueError("a teacher's score is no finite number: take its row out")
    return flat
