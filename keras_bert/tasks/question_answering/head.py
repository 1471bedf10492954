"""The answer to a question as a span of a text (paper sections 4.2 and 4.3)."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import tensorflow as tf

from keras_bert.counts import check_count
from keras_bert.finetuning.collapse import one_answer
from keras_bert.finetuning.head import FinetuningHead, place_of
from keras_bert.models.span_labeler import BertSpanLabeler
from keras_bert.signatures.code_points import code_points
from keras_bert.tasks.question_answering.answer_selection import (
    SelectionSettings,
    answered_questions,
    select_answers,
)
from keras_bert.tasks.question_answering.answer_table import COLUMNS, answer_row
from keras_bert.tasks.question_answering.metrics import best_null_threshold
from keras_bert.tasks.question_answering.questions import AnsweredQuestion, Question
from keras_bert.tasks.question_answering.windows import (
    END_LOGITS,
    START_LOGITS,
    EncodedQuestions,
    WindowSettings,
    encode_questions,
)
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.training.losses import SmoothedCrossentropy


@dataclasses.dataclass(frozen=True)
class SpanHead(FinetuningHead):
    """Extractive question answering; predictions are `AnsweredQuestion`s.

    Attributes:
        has_unanswerable: whether some questions have no answer in their context (SQuAD 2.0).
        doc_stride: by how many pieces windows of a long context are apart.
        max_query_length: the most pieces of a question.
        max_answer_length: the most pieces of an answer.
        n_best_size: how many candidates are kept.
        null_threshold: the null score above which a question has no answer; chosen on the
            validation data.
    """

    kind: ClassVar[str] = "span"
    example_class: ClassVar[type | None] = Question
    example_form: ClassVar[str] = "Question(id, question, context)"
    model_class: ClassVar[type] = BertSpanLabeler
    per_position: ClassVar[bool] = True
    # Each member has chosen its own.
    member_fields: ClassVar[tuple[str, ...]] = ("null_threshold",)

    has_unanswerable: bool = False
    doc_stride: int = 128
    max_query_length: int = 64
    max_answer_length: int = 30
    n_best_size: int = 20
    null_threshold: float = 0.0

    def __post_init__(self) -> None:
        for name in ("max_answer_length", "n_best_size"):
            check_count(name, getattr(self, name))

    def window_settings(self, max_seq_length: int) -> WindowSettings:
        """Returns how contexts are cut for rows of so many positions; see there what is refused."""
        return WindowSettings(max_seq_length, self.doc_stride, self.max_query_length)

    def selection_settings(self) -> SelectionSettings:
        """Returns what may be answered."""
        return SelectionSettings(
            self.n_best_size, self.max_answer_length, self.has_unanswerable, self.null_threshold
        )

    def check_labels(self, examples: Sequence[Question], split: str) -> None:
        """Refuses answers that do not stand in their context where they say."""
        for number, question in enumerate(examples):
            for answer in question.answers or ():
                answer.check(question.context, place_of(split, number))

    def encode(
        self,
        tokenizer: Tokenizer,
        examples: Sequence[Question],
        max_seq_length: int,
        description: str,
    ) -> EncodedQuestions:
        """Makes the windows of all contexts; a row is a window."""
        settings = self.window_settings(max_seq_length)
        return encode_questions(tokenizer, examples, settings, description)

    def loss(self, label_smoothing: float = 0.0) -> dict[str, SmoothedCrossentropy]:
        """Returns the cross-entropy over positions, for starts and for ends.

        Raises:
            ValueError: labels are to be smoothed, which would spread them over the padding, too.
        """
        if label_smoothing:
            raise ValueError(
                f"label_smoothing is {label_smoothing}, but a span has no classes to smooth: leave "
                "out --label_smoothing"
            )
        return {name: SmoothedCrossentropy() for name in (START_LOGITS, END_LOGITS)}

    def predictions(
        self,
        outputs: Mapping[str, Sequence[Any]],
        encoded: EncodedQuestions,
        examples: Sequence[Question],
    ) -> list[AnsweredQuestion]:
        """Selects the answer of each question."""
        answers: list[AnsweredQuestion] = []
        first = 0
        with tf.device("CPU"):  # lists and integers, next to no arithmetic
            for contexts, windows in encoded.chunks:
                rows = slice(first, first + len(windows.rows))
                asked = examples[len(answers) : len(answers) + len(contexts.row_starts)]
                found = select_answers(
                    contexts,
                    windows,
                    np.concatenate(outputs[START_LOGITS][rows]),
                    np.concatenate(outputs[END_LOGITS][rows]),
                    code_points(tf.constant([question.context for question in asked])),
                    self.selection_settings(),
                )
                answers += answered_questions(asked, found)
                first = rows.stop
        return answers

    def references(self, examples: Sequence[Question]) -> Sequence[Question] | None:
        """Returns the questions themselves, where all answers are known."""
        return None if any(question.answers is None for question in examples) else examples

    def tuned(
        self, predictions: Sequence[AnsweredQuestion], references: Sequence[Question]
    ) -> Self:
        """Takes the threshold with the best F1."""
        if not self.has_unanswerable:
            return self
        threshold = best_null_threshold(predictions, references)
        return dataclasses.replace(self, null_threshold=threshold)

    def of_ensemble(self, members: Sequence[Self]) -> Self:
        """Sums the thresholds: null scores are differences of logits, which are summed too."""
        threshold = sum(member.null_threshold for member in members)
        return dataclasses.replace(self, null_threshold=threshold)

    def ensemble_logits(self, members: Sequence[Any]) -> tf.Tensor:
        """Sums the logits of starts, or of ends: the score of a span is the sum of all members'."""
        return tf.add_n([tf.cast(member, tf.float32) for member in members])

    def collapse(
        self,
        predictions: Sequence[AnsweredQuestion],
        references: Sequence[Question],
    ) -> str | None:
        """Names the one answer that all questions get."""
        right = [tuple(answer.text for answer in question.answers or ()) for question in references]
        return one_answer([answered.answer.text for answered in predictions], right)

    def answer_columns(self) -> list[str]:
        """Returns the answer, its probability and its place; with SQuAD 2.0 the null score."""
        return list(COLUMNS if self.has_unanswerable else COLUMNS[:-1])

    def answer_rows(self, prediction: AnsweredQuestion, example: Question) -> list[list[str]]:
        """Returns one row."""
        text, start, end, _, probability = prediction.answer
        row = answer_row(text, probability, start, end, prediction.null_score)
        return [row[: len(self.answer_columns())]]

    def example_table(self, examples: Sequence[Question]) -> tuple[list[str], list[list[str]]]:
        """Returns id, question and context."""
        rows = [[question.id, question.question, question.context] for question in examples]
        return ["id", "question", "context"], rows

    def needs_segments(self, examples: Any) -> bool:
        """Always: question and context are two segments."""
        return True
