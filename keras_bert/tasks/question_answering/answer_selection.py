"""From start and end logits to the likeliest answers (run_squad.py of google-research/bert).

Evaluation and served models select with the functions here, which run eagerly and in graphs; tests
hold them against loops over candidates (`tests/tasks/span_oracle.py`).

Shapes: N questions, W windows of all contexts, T positions of all windows, B starts and ends that
are looked at in each window, M spans of all questions.
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from keras_bert.signatures.code_points import CodePoints
from keras_bert.tasks.question_answering.questions import AnsweredQuestion, Candidate, Question
from keras_bert.tasks.question_answering.windows import Contexts, Windows, in_best_window

# Where "there is no answer" starts and ends.
NO_SPAN = -1
# An odd number and its inverse modulo 2 ** 64: the base of a rolling hash.
_BASE = 6364136223846793005
_INVERSE = pow(_BASE, -1, 2**64) - 2**64


@dataclasses.dataclass(frozen=True)
class SelectionSettings:
    """What may be answered.

    Attributes:
        n_best_size: how many starts, ends and candidates are looked at.
        max_answer_length: the most pieces of an answer.
        has_unanswerable: whether "there is no answer" is one.
        null_threshold: the null score above which it is taken.
    """

    n_best_size: int
    max_answer_length: int
    has_unanswerable: bool
    null_threshold: float


class Spans(NamedTuple):
    """Spans that may be answers; [M] each.

    Attributes:
        rows: int64, the question.
        starts: int32, first character in its context.
        ends: int32, behind the last one.
        scores: float64, sum of both logits.
    """

    rows: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    scores: tf.Tensor

    def at(self, indices: tf.Tensor) -> "Spans":
        """Returns some of them."""
        return Spans(*(tf.gather(field, indices) for field in self))


class Selection(NamedTuple):
    """The answers to N questions, and what else might be.

    Attributes:
        spans: different texts, those of a question together, the best first.
        probabilities: float64 [M], each among the candidates of its question.
        splits: int64 [N + 1], where the spans of each question begin.
        has_null: bool [N], whether "there is no answer" is a candidate too: where the settings say
            so, and where there is no span.
        is_null: bool [N], whether it is the answer; else the best span is.
        nulls: float64 [N], the sum of both logits of "there is no answer".
        null_probabilities: float64 [N], its probability where it is a candidate.
        null_scores: float64 [N], how much `nulls` are above the score of the best span.
    """

    spans: Spans
    probabilities: tf.Tensor
    splits: tf.Tensor
    has_null: tf.Tensor
    is_null: tf.Tensor
    nulls: tf.Tensor
    null_probabilities: tf.Tensor
    null_scores: tf.Tensor


def select_answers(
    contexts: Contexts,
    windows: Windows,
    start_logits: tf.Tensor,
    end_logits: tf.Tensor,
    characters: CodePoints,
    settings: SelectionSettings,
) -> Selection:
    """Selects the answers of N questions from all windows of their contexts.

    Args:
        contexts: the pieces.
        windows: the windows.
        start_logits: float [T], of a start, the positions of all windows without padding.
        end_logits: float [T], of an end.
        characters: of the N contexts.
        settings: what may be answered.
    """
    start_logits, end_logits = (tf.cast(part, tf.float64) for part in (start_logits, end_logits))
    cls = tf.cumsum(windows.row_lengths, exclusive=True)  # [W]
    # "There is no answer": both logits of [CLS], the least of a question's windows, [W] -> [N].
    null = tf.math.unsorted_segment_min(
        tf.gather(start_logits, cls) + tf.gather(end_logits, cls),
        windows.rows,
        tf.size(contexts.row_lengths, tf.int64),
    )
    spans = _spans(contexts, windows, start_logits, end_logits, settings)
    # By question, then the best first; equals keep their order.
    spans = spans.at(tf.argsort(-spans.scores, stable=True))
    spans = spans.at(tf.argsort(spans.rows, stable=True))
    return _selection(_different(spans, characters, settings.n_best_size), null, settings)


def answered_questions(
    questions: Sequence[Question], selection: Selection
) -> list[AnsweredQuestion]:
    """Returns the answers to N questions with their candidates, the best first."""
    spans, probabilities, splits, has_null, is_null, *nulls = tf.nest.map_structure(
        lambda values: values.numpy().tolist(), selection
    )
    answers = []
    for index, question in enumerate(questions):
        null, null_probability, null_score = (values[index] for values in nulls)
        of_question = slice(splits[index], splits[index + 1])
        fields = (values[of_question] for values in (*spans[1:], probabilities))
        found = [
            Candidate(question.context[start:end], start, end, *scores)
            for start, end, *scores in zip(*fields, strict=True)
        ]
        empty = Candidate("", NO_SPAN, NO_SPAN, null, null_probability)
        best_span = found[0] if found else empty
        if has_null[index]:
            # Behind the spans of the same score: sorting keeps the order of equals.
            found = sorted([*found, empty], key=lambda candidate: -candidate.score)
        answer = empty if is_null[index] else best_span
        answers.append(AnsweredQuestion(answer, best_span, null_score, tuple(found)))
    return answers


def _spans(
    contexts: Contexts,
    windows: Windows,
    start_logits: tf.Tensor,
    end_logits: tf.Tensor,
    settings: SelectionSettings,
) -> Spans:
    """Returns the spans of every window among its best starts and ends."""
    count = settings.n_best_size

    def best(logits: tf.Tensor) -> tf.Tensor:
        # Candidates are picked among all positions, as in the original: where [CLS] is among the
        # best it takes one of the positions.
        rows = tf.RaggedTensor.from_row_lengths(logits, windows.row_lengths, validate=False)
        padded = rows.to_tensor(-float("inf"))  # [T] -> [W, positions]
        # Rows shorter than the list of the best need fillers.
        padded = tf.pad(padded, [[0, 0], [0, count]], constant_values=-float("inf"))
        positions = tf.cast(tf.math.top_k(padded, count).indices, tf.int64)
        return positions - windows.positions[:, None]  # [W, B], among the context's pieces

    first, last = best(start_logits), best(end_logits)  # [W, B] each
    lengths = windows.lengths[:, None]  # [W, 1]
    # Positions of the question and of special tokens are below 0 or behind the window's pieces.
    first_ok = (first >= 0) & (first < lengths)
    # A start counts only in the window that shows it with most context: [W, B] indices into [E].
    entry = tf.cumsum(windows.lengths, exclusive=True)[:, None] + first
    # One more entry, for windows without pieces.
    in_best = tf.pad(in_best_window(windows, contexts.row_lengths), [[0, 1]])
    first_ok &= tf.gather(in_best, tf.where(first_ok, entry, 0))
    last_ok = (last >= 0) & (last < lengths)
    # A space that is a piece of its own stands for no character of an answer, whose offsets leave
    # spaces out: none begins or ends with it. One more, for contexts without pieces.
    seen = tf.pad(contexts.starts < contexts.ends, [[0, 1]])
    before = (tf.gather(contexts.row_starts, windows.rows) + windows.offsets)[:, None]  # [W, 1]
    first_ok &= tf.gather(seen, tf.where(first_ok, before + first, 0))
    last_ok &= tf.gather(seen, tf.where(last_ok, before + last, 0))
    length = last[:, None, :] - first[:, :, None] + 1  # [W, B, B]
    allowed = (length >= 1) & (length <= settings.max_answer_length)
    allowed &= first_ok[:, :, None] & last_ok[:, None, :]  # every start with every end
    window, row, column = tf.unstack(tf.where(allowed), axis=1)  # [M] each
    # Back from pairs to pieces of the window, [M], and from these to the logits and the context.
    begin = tf.gather_nd(first, tf.stack([window, row], axis=1))
    end = tf.gather_nd(last, tf.stack([window, column], axis=1))
    position = tf.gather(tf.cumsum(windows.row_lengths, exclusive=True) + windows.positions, window)
    question = tf.gather(windows.rows, window)
    piece = tf.gather(contexts.row_starts, question) + tf.gather(windows.offsets, window)
    return Spans(
        question,
        tf.gather(contexts.starts, piece + begin),
        tf.gather(contexts.ends, piece + end),
        tf.gather(start_logits, position + begin) + tf.gather(end_logits, position + end),
    )


def _selection(spans: Spans, null: tf.Tensor, settings: SelectionSettings) -> Selection:
    # Spans of questions 0 0 2: splits 0 2 2 3, found 1 0 1.
    questions = tf.size(null, tf.int64)
    splits = tf.searchsorted(spans.rows, tf.range(questions + 1), out_type=tf.int64)  # [N + 1]
    found = splits[1:] > splits[:-1]
    # The best span of each question is the first of its own; there is one more score behind the
    # last for questions without any.
    indices = tf.where(found, splits[:-1], splits[-1])
    best = tf.where(found, tf.gather(tf.pad(spans.scores, [[0, 1]]), indices), null)
    null_scores = null - best
    has_null = settings.has_unanswerable | ~found
    # A softmax over the candidates of each question: the largest score is taken off before exp.
    top = tf.where(has_null, tf.maximum(best, null), best)  # [N]
    odds = tf.exp(spans.scores - tf.gather(top, spans.rows))  # [M]
    null_odds = tf.exp(null - top)
    total = tf.math.unsorted_segment_sum(odds, spans.rows, questions)
    total += tf.where(has_null, null_odds, 0.0)
    return Selection(
        spans,
        odds / tf.gather(total, spans.rows),
        splits,
        has_null,
        has_null & (null_scores > settings.null_threshold) | ~found,
        null,
        null_odds / total,
        null_scores,
    )


def _different(spans: Spans, characters: CodePoints, most: int) -> Spans:
    """Keeps the best span of each different text, at most so many for each question."""
    # A hash of the code points, int64 [M], equal for equal texts of one question: strings of all
    # candidates would take the length of the context times their number. Modulo 2 ** 64.
    # Sums of c0, c1 b, c2 b^2, ...: a text is the difference of two of them, divided by b^start.
    ones = tf.ones_like(characters.values, tf.int64)
    powers = tf.math.cumprod(ones * _BASE, exclusive=True)
    inverse = tf.math.cumprod(ones * _INVERSE, exclusive=True)
    sums = tf.cumsum((tf.cast(characters.values, tf.int64) + 1) * powers)
    sums = tf.concat([[tf.constant(0, tf.int64)], sums], axis=0)
    row_starts = tf.gather(characters.row_starts, spans.rows)
    starts = row_starts + tf.cast(spans.starts, tf.int64)
    ends = row_starts + tf.cast(spans.ends, tf.int64)
    text = (tf.gather(sums, ends) - tf.gather(sums, starts)) * tf.gather(inverse, starts)
    keys = ((text * _BASE) + (ends - starts)) * _BASE + spans.rows
    # Keys 7 5 7: index 0 1 0, so that the first span, the best one, stands for each text.
    _, index = tf.unique(keys, out_idx=tf.int64)
    count = tf.reduce_max(tf.concat([index, [-1]], axis=0)) + 1
    positions = tf.range(tf.size(keys, tf.int64))
    spans = spans.at(tf.math.unsorted_segment_min(positions, index, count))
    # How many better ones its question has: the index less that of the question's first span.
    rank = tf.range(count) - tf.searchsorted(spans.rows, spans.rows, out_type=tf.int64)
    return spans.at(tf.where(rank < most)[:, 0])
