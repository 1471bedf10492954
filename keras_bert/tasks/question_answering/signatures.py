"""Signatures of extractive question answering: windows and answers are those of evaluation."""

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

import tensorflow as tf

from keras_bert.config import BertConfig
from keras_bert.finetuning.task import TaskDescription
from keras_bert.models.task_model import read_tokens
from keras_bert.signatures.base import (
    SignatureFamily,
    Tensors,
    string_vector,
    with_a_column,
)
from keras_bert.signatures.code_points import CodePoints, code_points
from keras_bert.signatures.options import ExportOptions
from keras_bert.tasks.question_answering.answer_selection import (
    NO_SPAN,
    Selection,
    select_answers,
)
from keras_bert.tasks.question_answering.head import SpanHead
from keras_bert.tasks.question_answering.questions import CONTEXT, QUESTION
from keras_bert.tasks.question_answering.windows import Contexts, cut_windows, window_rows
from keras_bert.text.packing import pad_rows


class SpanSignatures(SignatureFamily):
    """`question` and `context` of any length, string [N] each -> answers.

    `answer`, string [N], as it stands in the context, empty for "there is no answer"; `start` and
    `end`, int32 [N], its characters (code points), -1 without an answer; `score`, float32 [N], the
    probability of the answer among the candidates; `null_score`, float32 [N], how much likelier "no
    answer" is than the best span: above the threshold that was chosen in training the answer is
    empty, if the model was trained with unanswerable questions.

    Args:
        description: the task.
        *arguments: see `SignatureFamily`.
    """

    sample: Mapping[str, Any] = {QUESTION: "Who asked?", CONTEXT: "A passenger asked."}
    joins_members = True

    def __init__(self, description: TaskDescription, *arguments: Any):
        super().__init__(*arguments)
        assert isinstance(description.head, SpanHead)
        self._head = description.head
        self._window_settings = dataclasses.replace(
            self._head.window_settings(self.max_seq_length),
            framing=self.tokenizer.vocabulary.framing,
        )
        self._span = self.model.get_layer("span")

    def _logits(self, inputs: Tensors) -> tf.Tensor:
        """Returns start and end logits of the real tokens of all rows, [T, 2]."""
        states = self.encoder.sequence_output(inputs).values  # [T, H]
        return self._span(read_tokens(self.model.encoder, states))

    def string_inputs(self) -> dict[str, tf.TensorSpec]:
        """Returns question and context."""
        return {name: string_vector(name) for name in (QUESTION, CONTEXT)}

    def ids(self, **inputs: tf.Tensor) -> Tensors:
        """Returns start and end logits."""
        said = [member.model(inputs, training=False) for member in self.members]
        return {name: self.joined([logits[name] for logits in said]) for name in said[0]}

    def answer(self, question: tf.Tensor, context: tf.Tensor) -> Tensors:
        """Returns the answers."""
        found, characters = self._selection(question, context)
        # Where there is no answer the index may be one too far.
        spans, best = found.spans, found.splits[:-1]
        start, end, probability = (
            tf.where(found.is_null, empty, tf.gather(tf.pad(field, [[0, 1]]), best))
            for field, empty in (
                (spans.starts, NO_SPAN),
                (spans.ends, NO_SPAN),
                (found.probabilities, found.null_probabilities),
            )
        )
        rows = tf.range(tf.size(question, tf.int64))
        return {
            "answer": characters.slices(rows, tf.maximum(start, 0), tf.maximum(end, 0)),
            "start": start,
            "end": end,
            "score": tf.cast(probability, tf.float32),
            "null_score": tf.cast(found.null_scores, tf.float32),
        }

    def best_spans(self, question: tf.Tensor, context: tf.Tensor) -> tf.Tensor:
        """Returns the best span of each context, in numbers that can be compared across contexts.

        Args:
            question: string [N].
            context: string [N].

        Returns:
            float32 [N, 3]: the sum of both logits of the span, less those of "there is no answer"
            where the model may say so; its first character and the one behind its last. These are
            -1 where there is no answer.
        """
        found, _ = self._selection(question, context)
        score = -found.null_scores  # [N]
        if not self._head.has_unanswerable:
            score += found.nulls
        starts, ends = (
            tf.where(found.is_null, NO_SPAN, tf.gather(tf.pad(field, [[0, 1]]), found.splits[:-1]))
            for field in (found.spans.starts, found.spans.ends)
        )
        return tf.stack([tf.cast(part, tf.float32) for part in (score, starts, ends)], axis=1)

    def _selection(self, question: tf.Tensor, context: tf.Tensor) -> tuple[Selection, CodePoints]:
        """Returns the answers to N questions and the characters of their contexts."""
        # The steps of training: pieces, windows, rows of ids.
        query = self.tokenizer(question)[:, : self._head.max_query_length]
        contexts = Contexts.of_rows(*self.tokenizer.tokenize_with_offsets(context))
        windows = cut_windows(query.row_lengths(), contexts.row_lengths, self._window_settings)
        vocabulary = self.tokenizer.vocabulary
        rows = window_rows(windows, query, contexts, vocabulary)  # [W, pieces] each
        inputs = with_a_column(pad_rows(*rows, vocabulary))
        # Members of an ensemble read the same windows.
        logits = self.joined([member._logits(inputs) for member in self.members])  # [T, 2]
        start_logits, end_logits = tf.unstack(logits, axis=1)  # [T] each
        characters = code_points(context)
        settings = self._head.selection_settings()
        found = select_answers(contexts, windows, start_logits, end_logits, characters, settings)
        return found, characters


def with_null_threshold(
    description: TaskDescription, options: ExportOptions, config: BertConfig
) -> TaskDescription:
    """Returns a description with the null score above which a question has no answer, if stated."""
    if options.null_threshold is None:
        return description
    head = cast(SpanHead, description.head)  # the one that `KINDS` has beside this
    head = dataclasses.replace(head, has_unanswerable=True, null_threshold=options.null_threshold)
    return dataclasses.replace(description, head=head)
