"""The answer to a question as a span of a text (paper sections 4.2 and 4.3)."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from keras_bert.finetuning.collapse import one_answer
from keras_bert.finetuning.head import FinetuningHead
from keras_bert.models.span_labeler import BertSpanLabeler
from keras_bert.tasks.question_answering.answer_selection import SelectionSettings, select_answer
from keras_bert.tasks.question_answering.metrics import best_null_threshold
from keras_bert.tasks.question_answering.questions import AnsweredQuestion, Question
from keras_bert.tasks.question_answering.windows import (
    END_LOGITS,
    START_LOGITS,
    EncodedQuestions,
    WindowSettings,
    encode_questions,
)
from keras_bert.text.tokenizer import BertTokenizer
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
    model_class: ClassVar[type] = BertSpanLabeler
    per_position: ClassVar[bool] = True

    has_unanswerable: bool = False
    doc_stride: int = 128
    max_query_length: int = 64
    max_answer_length: int = 30
    n_best_size: int = 20
    null_threshold: float = 0.0

    def __post_init__(self) -> None:
        for name in ("max_answer_length", "n_best_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be at least 1")

    def encode(
        self,
        tokenizer: BertTokenizer,
        examples: Sequence[Question],
        max_seq_length: int,
        description: str,
    ) -> EncodedQuestions:
        """Makes the windows of all contexts; a row is a window."""
        settings = WindowSettings(max_seq_length, self.doc_stride, self.max_query_length)
        return encode_questions(tokenizer, examples, settings, description)

    def loss(self, label_smoothing: float = 0.0) -> dict[str, SmoothedCrossentropy]:
        """Returns the cross-entropy over positions, for starts and for ends."""
        return {name: SmoothedCrossentropy(label_smoothing) for name in (START_LOGITS, END_LOGITS)}

    def predictions(
        self,
        outputs: Mapping[str, Sequence[Any]],
        encoded: EncodedQuestions,
        examples: Sequence[Question],
    ) -> list[AnsweredQuestion]:
        """Selects the answer of each question."""
        settings = SelectionSettings(
            self.n_best_size, self.max_answer_length, self.has_unanswerable, self.null_threshold
        )
        rows = zip(encoded.windows, outputs[START_LOGITS], outputs[END_LOGITS], strict=True)
        answers = []
        for index, group in itertools.groupby(rows, key=lambda row: row[0].question):
            windows, starts, ends = zip(*group, strict=True)
            context = encoded.contexts[index]
            answers.append(select_answer(examples[index], context, windows, starts, ends, settings))
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
        columns = ["answer", "score", "start", "end"]
        return [*columns, "null_score"] if self.has_unanswerable else columns

    def answer_rows(self, prediction: AnsweredQuestion, example: Question) -> list[list[str]]:
        """Returns one row."""
        text, start, end, _, probability = prediction.answer
        row = [text, f"{probability:.6g}", str(start), str(end)]
        return [[*row, f"{prediction.null_score:.6g}"] if self.has_unanswerable else row]

    def example_table(self, examples: Sequence[Question]) -> tuple[list[str], list[list[str]]]:
        """Returns id, question and context."""
        rows = [[question.id, question.question, question.context] for question in examples]
        return ["id", "question", "context"], rows

    def needs_segments(self, examples: Any) -> bool:
        """Always: question and context are two segments."""
        return True
