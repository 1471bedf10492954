"""Signatures of extractive question answering.

The graph does what `windows` and `answer_selection` beside it do with NumPy, and tests hold both
against each other. Shapes: N questions, W windows of all contexts, P pieces of all contexts, M
candidates of all questions.
"""

import dataclasses
from typing import Any, ClassVar, NamedTuple, cast

import tensorflow as tf

from keras_bert.config import BertConfig
from keras_bert.features import INPUT_IDS, INPUT_MASK, SEGMENT_IDS
from keras_bert.finetuning.task import TaskDescription
from keras_bert.signatures.base import (
    SignatureFamily,
    Tensors,
    string_vector,
    with_a_column,
)
from keras_bert.signatures.code_points import CodePoints, code_points
from keras_bert.signatures.options import ExportOptions
from keras_bert.signatures.windows import column, has_most_context, spread
from keras_bert.tasks.question_answering.head import SpanHead
from keras_bert.tasks.question_answering.windows import WindowSettings

QUESTION = "question"
CONTEXT = "context"

# [CLS] question [SEP] context [SEP].
_SPECIAL_TOKENS = 3
# As in `windows`: what the number of pieces counts beside the context of a piece.
_LENGTH_SHARE = 0.01
_NO_SPAN = -1
# An odd number and its inverse modulo 2 ** 64: the base of a rolling hash.
_BASE = 6364136223846793005
_INVERSE = pow(_BASE, -1, 2**64) - 2**64


class _Windows(NamedTuple):
    """Rows of the model's input.

    Attributes:
        inputs: of the encoder.
        rows: int64 [W], the question of each.
        first: int64 [W], the first piece of the context, counted over all contexts.
        lengths: int64 [W], pieces of the context.
        positions: int64 [W], where in the row they begin.
    """

    inputs: Tensors
    rows: tf.Tensor
    first: tf.Tensor
    lengths: tf.Tensor
    positions: tf.Tensor


class _Candidates(NamedTuple):
    """Spans that may be answers, those of a question together.

    Attributes:
        rows: int64 [M].
        starts: int32 [M], first character in the context.
        ends: int32 [M], behind the last one.
        scores: float64 [M].
    """

    rows: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    scores: tf.Tensor

    def at(self, places: tf.Tensor) -> "_Candidates":
        return _Candidates(*(tf.gather(field, places) for field in self))


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

    sample: ClassVar = {QUESTION: "Who asked?", CONTEXT: "A passenger asked."}

    def __init__(self, description: TaskDescription, *arguments: Any):
        super().__init__(*arguments)
        assert isinstance(description.head, SpanHead)
        self._head = description.head
        # Refuses lengths that leave no room for the context.
        WindowSettings(self.max_seq_length, self._head.doc_stride, self._head.max_query_length)
        self._span = self.model.get_layer("span")

    def string_inputs(self) -> dict[str, tf.TensorSpec]:
        """Returns question and context."""
        return {name: string_vector(name) for name in (QUESTION, CONTEXT)}

    def ids(self, **inputs: tf.Tensor) -> Tensors:
        """Returns start and end logits."""
        return self.model(inputs, training=False)

    def answer(self, question: tf.Tensor, context: tf.Tensor) -> Tensors:
        """Returns the answers."""
        tf.debugging.assert_equal(
            tf.shape(question), tf.shape(context), "every question needs its context"
        )
        query = self.tokenizer(question)[:, : self._head.max_query_length]
        ids, starts, ends = self.tokenizer.tokenize_with_offsets(context)
        windows = self._windows(query, ids)
        logits = self._span(self.encoder.sequence_output(windows.inputs).values)  # [T, 2]
        splits = tf.cumsum(tf.reduce_sum(windows.inputs[INPUT_MASK], axis=-1), exclusive=True)
        first_logits, last_logits = tf.unstack(tf.cast(logits, tf.float64), axis=1)
        questions = tf.size(question, tf.int64)
        null = tf.math.unsorted_segment_min(
            tf.gather(first_logits, splits) + tf.gather(last_logits, splits),
            windows.rows,
            questions,
        )
        found = self._candidates(windows, splits, first_logits, last_logits, ids.values)
        spans = _Candidates(
            tf.gather(windows.rows, found.windows),
            tf.gather(starts.values, found.first),
            tf.gather(ends.values, found.last),
            found.scores,
        )
        characters = code_points(context)
        spans = _different(_sorted(spans), characters, self._head.n_best_size)
        return self._answers(spans, null, characters)

    def _windows(self, query: tf.RaggedTensor, context: tf.RaggedTensor) -> _Windows:
        room = self.max_seq_length - _SPECIAL_TOKENS - query.row_lengths()  # [N]
        pieces = context.row_lengths()
        stride = tf.minimum(room, self._head.doc_stride)
        counts = 1 - -tf.maximum(pieces - room, 0) // stride
        index = tf.ragged.range(counts).with_row_splits_dtype(tf.int64)
        rows = index.value_rowids()
        offset = index.values * tf.gather(stride, rows)
        lengths = tf.minimum(tf.gather(room, rows), tf.gather(pieces, rows) - offset)
        first = tf.gather(context.row_starts(), rows) + offset
        query = tf.gather(query, rows)
        part = tf.ragged.range(first, first + lengths).with_row_splits_dtype(tf.int64)
        vocabulary = self.tokenizer.vocabulary
        sep = column(vocabulary.sep_id, rows)
        head = tf.concat([column(vocabulary.cls_id, rows), query, sep], axis=1)
        tail = tf.concat([tf.gather(context.values, part), sep], axis=1)
        ids = tf.concat([head, tail], axis=1)
        segments = tf.concat([tf.zeros_like(head), tf.ones_like(tail)], axis=1)
        inputs = {
            INPUT_IDS: ids.to_tensor(vocabulary.pad_id),
            INPUT_MASK: tf.ones_like(ids).to_tensor(),
            SEGMENT_IDS: segments.to_tensor(),
        }
        return _Windows(with_a_column(inputs), rows, first, lengths, head.row_lengths())

    def _candidates(
        self,
        windows: _Windows,
        splits: tf.Tensor,
        first_logits: tf.Tensor,
        last_logits: tf.Tensor,
        pieces: tf.Tensor,
    ) -> "_Spans":
        """Returns the spans of every window among its best starts and ends.

        Args:
            windows: the windows.
            splits: int32 [W], where the tokens of each window begin.
            first_logits: float64 [T], of a start.
            last_logits: float64 [T], of an end.
            pieces: [P], of all contexts.
        """
        lengths = tf.reduce_sum(windows.inputs[INPUT_MASK], axis=-1)
        best = self._head.n_best_size

        def top(logits: tf.Tensor) -> tf.Tensor:
            rows = tf.RaggedTensor.from_row_lengths(logits, lengths, validate=False)
            padded = rows.to_tensor(-float("inf"))
            # Rows shorter than the list of the best need fillers.
            padded = tf.pad(padded, [[0, 0], [0, best]], constant_values=-float("inf"))
            places = tf.cast(tf.math.top_k(padded, best).indices, tf.int64)
            return places - windows.positions[:, None]  # [W, best], among the context's pieces

        first, last = top(first_logits), top(last_logits)
        inside = tf.less(first, windows.lengths[:, None]) & (first >= 0)
        first_ok = inside & self._is_best(windows, first, inside, tf.size(pieces, tf.int64))
        last_ok = tf.less(last, windows.lengths[:, None]) & (last >= 0)
        length = last[:, None, :] - first[:, :, None] + 1  # [W, best, best]
        allowed = (length >= 1) & (length <= self._head.max_answer_length)
        allowed &= first_ok[:, :, None] & last_ok[:, None, :]
        window, row, col = tf.unstack(tf.where(allowed), axis=1)
        begin = tf.gather_nd(first, tf.stack([window, row], axis=1))
        end = tf.gather_nd(last, tf.stack([window, col], axis=1))
        offset = tf.cast(tf.gather(splits, window), tf.int64) + tf.gather(windows.positions, window)
        piece = tf.gather(windows.first, window)
        scores = tf.gather(first_logits, offset + begin) + tf.gather(last_logits, offset + end)
        return _Spans(window, piece + begin, piece + end, scores)

    def _is_best(
        self, windows: _Windows, first: tf.Tensor, inside: tf.Tensor, pieces: tf.Tensor
    ) -> tf.Tensor:
        """Tells whether no other window shows these pieces with more context, bool [W, best]."""
        window, piece = spread(windows.first, windows.lengths)
        place = piece - tf.gather(windows.first, window)
        length = tf.gather(windows.lengths, window)
        context = tf.cast(tf.minimum(place, length - 1 - place), tf.float64)
        context += _LENGTH_SHARE * tf.cast(length, tf.float64)
        is_best = has_most_context(context, window, piece, pieces)
        entry = tf.cumsum(windows.lengths, exclusive=True)[:, None] + first
        # One more entry, for windows without pieces.
        return tf.gather(tf.pad(is_best, [[0, 1]]), tf.where(inside, entry, 0))

    def _answers(self, spans: _Candidates, null: tf.Tensor, characters: CodePoints) -> Tensors:
        questions = tf.size(null, tf.int64)
        rows = tf.range(questions)
        counts = tf.math.bincount(
            tf.cast(spans.rows, tf.int32), minlength=tf.cast(questions, tf.int32), dtype=tf.int64
        )
        found = counts > 0
        # The best span of each question is the first of its candidates; there is one more behind
        # the last candidate for questions without any.
        places = tf.where(found, tf.cumsum(counts, exclusive=True), tf.size(spans.rows, tf.int64))
        best = _Candidates(*(tf.pad(field, [[0, 1]]) for field in spans)).at(places)
        best_score = tf.where(found, best.scores, null)
        null_score = null - best_score
        with_null = tf.constant(self._head.has_unanswerable) | ~found
        taken = tf.constant(self._head.has_unanswerable) & (null_score > self._head.null_threshold)
        empty = taken | ~found
        top = tf.where(with_null, tf.maximum(best_score, null), best_score)
        odds = tf.exp(spans.scores - tf.gather(top, spans.rows))
        null_odds = tf.exp(null - top)
        total = tf.math.unsorted_segment_sum(odds, spans.rows, questions)
        total += tf.where(with_null, null_odds, 0.0)
        share = tf.where(empty, null_odds, tf.exp(best_score - top)) / total
        start = tf.where(empty, _NO_SPAN, best.starts)
        end = tf.where(empty, _NO_SPAN, best.ends)
        return {
            "answer": characters.slices(rows, tf.maximum(start, 0), tf.maximum(end, 0)),
            "start": start,
            "end": end,
            "score": tf.cast(share, tf.float32),
            "null_score": tf.cast(null_score, tf.float32),
        }


class _Spans(NamedTuple):
    """Spans of pieces: window int64, first and last piece int64, score float64; [M] each."""

    windows: tf.Tensor
    first: tf.Tensor
    last: tf.Tensor
    scores: tf.Tensor


def _sorted(spans: _Candidates) -> _Candidates:
    """Sorts by question, then the best first; equals keep their order."""
    spans = spans.at(tf.argsort(-spans.scores, stable=True))
    return spans.at(tf.argsort(spans.rows, stable=True))


def _different(spans: _Candidates, characters: CodePoints, most: int) -> _Candidates:
    """Keeps the best span of each different text, at most so many for each question."""
    keys = _text_keys(spans, characters)
    _, index = tf.unique(keys, out_idx=tf.int64)
    count = tf.reduce_max(tf.concat([index, [-1]], axis=0)) + 1
    places = tf.range(tf.size(keys, tf.int64))
    spans = spans.at(tf.math.unsorted_segment_min(places, index, count))
    rank = tf.range(count) - tf.searchsorted(spans.rows, spans.rows, out_type=tf.int64)
    return spans.at(tf.where(rank < most)[:, 0])


def _text_keys(spans: _Candidates, characters: CodePoints) -> tf.Tensor:
    """Returns int64 [M], equal for equal texts of one question.

    A hash of the code points, because strings of all candidates would take the length of the
    context times their number. Arithmetic is modulo 2 ** 64.
    """
    ones = tf.ones_like(characters.values, tf.int64)
    powers = tf.math.cumprod(ones * _BASE, exclusive=True)
    inverse = tf.math.cumprod(ones * _INVERSE, exclusive=True)
    sums = tf.cumsum((tf.cast(characters.values, tf.int64) + 1) * powers)
    sums = tf.concat([[tf.constant(0, tf.int64)], sums], axis=0)
    row_starts = tf.gather(characters.row_starts, spans.rows)
    starts = row_starts + tf.cast(spans.starts, tf.int64)
    ends = row_starts + tf.cast(spans.ends, tf.int64)
    text = (tf.gather(sums, ends) - tf.gather(sums, starts)) * tf.gather(inverse, starts)
    return ((text * _BASE) + (ends - starts)) * _BASE + spans.rows


def with_null_threshold(
    description: TaskDescription, options: ExportOptions, config: BertConfig
) -> TaskDescription:
    """Returns a description with the null score above which a question has no answer, if stated."""
    if options.null_threshold is None:
        return description
    head = cast(SpanHead, description.head)  # the one that `KINDS` has beside this
    head = dataclasses.replace(head, has_unanswerable=True, null_threshold=options.null_threshold)
    return dataclasses.replace(description, head=head)
