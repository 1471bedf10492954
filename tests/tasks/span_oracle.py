"""Windows of contexts and the choice of answers with NumPy loops, an oracle for the package's.

It is what the package itself used before it trained and evaluated with the functions that served
models use, and was held against transformers' form of run_squad.py like them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from keras_bert import BertTokenizer
from keras_bert.tasks.question_answering.answer_selection import SelectionSettings
from keras_bert.tasks.question_answering.head import SpanHead
from keras_bert.tasks.question_answering.questions import AnsweredQuestion, Candidate, Question

_NO_SPAN = -1
# What the number of pieces counts beside the context of a piece on its poorer side.
_LENGTH_SHARE = 0.01


class Pieces(NamedTuple):
    """The pieces of a text: ids and character offsets, int32 [pieces] each."""

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


class Window(NamedTuple):
    """One row.

    Attributes:
        first: the first piece of the context in this row.
        position: its index in the row.
        is_best: bool [pieces], for each piece of the window whether no other window shows it with
            more context.
    """

    first: int
    position: int
    is_best: np.ndarray


def window_bounds(pieces: int, room: int, doc_stride: int) -> list[tuple[int, int]]:
    """Returns first piece and length of each window.

    Args:
        pieces: of the context; one empty window where there are none.
        room: the most pieces of a window.
        doc_stride: see `WindowSettings`; windows move by at most their length.
    """
    bounds, start = [], 0
    while True:
        length = min(room, pieces - start)
        bounds.append((start, length))
        if start + length == pieces:
            return bounds
        start += min(length, doc_stride)


def best_windows(bounds: Sequence[tuple[int, int]], pieces: int) -> list[np.ndarray]:
    """Returns for each window which of its pieces have their most context there.

    Context is what stands on the poorer side of a piece; the first window wins among equals.
    """
    best_score = np.full(pieces, -1.0)
    best_window = np.zeros(pieces, np.int64)
    for index, (start, length) in enumerate(bounds):
        place = np.arange(length)
        score = np.minimum(place, length - 1 - place) + _LENGTH_SHARE * length
        part = slice(start, start + length)
        better = score > best_score[part]
        best_score[part][better] = score[better]
        best_window[part][better] = index
    return [
        best_window[start : start + length] == index for index, (start, length) in enumerate(bounds)
    ]


def answer_pieces(context: Pieces, start: int, end: int) -> tuple[int, int] | None:
    """Returns the first and the last piece that share a character with a span of the context.

    Args:
        context: the pieces.
        start: first character.
        end: behind the last character.

    Returns:
        None where no piece touches the span.
    """
    touching = np.flatnonzero((context.ends > start) & (context.starts < end))
    return (int(touching[0]), int(touching[-1])) if len(touching) else None


class _Span(NamedTuple):
    """A span of characters with its score."""

    start: int
    end: int
    score: float


def select_answer(
    question: Question,
    context: Pieces,
    windows: Sequence[Window],
    starts: Sequence[np.ndarray],
    ends: Sequence[np.ndarray],
    settings: SelectionSettings,
) -> AnsweredQuestion:
    """Returns the answer to one question from all windows of its context.

    Args:
        question: the question.
        context: the pieces of its context.
        windows: its windows.
        starts: for each window the logits of a start, float32 [length].
        ends: for each window the logits of an end, float32 [length].
        settings: what may be answered.
    """
    spans: list[_Span] = []
    for window, start_logits, end_logits in zip(windows, starts, ends, strict=True):
        spans += _spans(context, window, start_logits, end_logits, settings)
    null = min(float(s[0]) + float(e[0]) for s, e in zip(starts, ends, strict=True))
    spans = _different(question.context, sorted(spans, key=lambda span: -span.score), settings)
    found = [(question.context[span.start : span.end], *span) for span in spans]
    if settings.has_unanswerable or not found:
        found.append(("", _NO_SPAN, _NO_SPAN, null))
    found.sort(key=lambda candidate: -candidate[-1])
    n_best = _with_probabilities(found)
    best_span = next((candidate for candidate in n_best if candidate.text), n_best[0])
    null_score = null - best_span.score
    empty = next((candidate for candidate in n_best if not candidate.text), None)
    take_null = settings.has_unanswerable and null_score > settings.null_threshold
    answer = empty if take_null and empty is not None else best_span
    return AnsweredQuestion(answer, best_span, null_score, tuple(n_best))


def _spans(
    context: Pieces,
    window: Window,
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    settings: SelectionSettings,
) -> list[_Span]:
    """Returns the spans of one window among its best starts and ends."""
    size = len(window.is_best)
    part = slice(window.position, window.position + size)
    # Candidates are picked among all positions, as in the original: where [CLS] is among the best
    # it takes one of the places.
    first = _best(start_logits, settings.n_best_size) - window.position
    last = _best(end_logits, settings.n_best_size) - window.position
    first = first[(first >= 0) & (first < size)]
    last = last[(last >= 0) & (last < size)]
    first = first[window.is_best[first]]
    length = last[None, :] - first[:, None] + 1
    rows, columns = np.nonzero((length >= 1) & (length <= settings.max_answer_length))
    starts, ends = start_logits[part], end_logits[part]
    return [
        _Span(
            int(context.starts[window.first + begin]),
            int(context.ends[window.first + end]),
            float(starts[begin]) + float(ends[end]),
        )
        for begin, end in zip(first[rows], last[columns], strict=True)
    ]


def _best(logits: np.ndarray, count: int) -> np.ndarray:
    return np.argsort(-logits, kind="stable")[:count]


def _different(text: str, spans: Sequence[_Span], settings: SelectionSettings) -> list[_Span]:
    """Returns the best span of each different answer text."""
    best: dict[str, _Span] = {}
    for span in spans:
        if len(best) == settings.n_best_size:
            break
        best.setdefault(text[span.start : span.end], span)
    best.pop("", None)
    return list(best.values())


def _with_probabilities(found: Sequence[tuple[str, int, int, float]]) -> list[Candidate]:
    scores = np.array([candidate[-1] for candidate in found], np.float64)
    odds = np.exp(scores - scores.max())
    return [
        Candidate(*candidate, float(share))
        for candidate, share in zip(found, odds / odds.sum(), strict=True)
    ]


def answers(
    tokenizer: BertTokenizer,
    head: SpanHead,
    max_seq_length: int,
    questions: Sequence[Question],
    starts: Sequence[np.ndarray],
    ends: Sequence[np.ndarray],
) -> list[AnsweredQuestion]:
    """Answers questions from the logits of all of their rows.

    Args:
        tokenizer: that of the model.
        head: how contexts are cut and what may be answered.
        max_seq_length: the most positions of a row.
        questions: the questions.
        starts: for each row the logits of a start, float32 [length].
        ends: for each row the logits of an end, float32 [length].
    """
    queries = tokenizer([question.question for question in questions]).row_lengths().numpy()
    pieces = tokenizer.tokenize_with_offsets([question.context for question in questions])
    contexts = zip(*(np.split(r.values.numpy(), r.row_splits[1:-1]) for r in pieces), strict=True)
    found, first = [], 0
    for question, query, context in zip(
        questions, queries, map(Pieces._make, contexts), strict=True
    ):
        query = min(query, head.max_query_length)
        bounds = window_bounds(len(context.ids), max_seq_length - query - 3, head.doc_stride)
        best = best_windows(bounds, len(context.ids))
        windows = [
            Window(start, query + 2, is_best)
            for (start, _), is_best in zip(bounds, best, strict=True)
        ]
        rows = slice(first, first + len(windows))
        settings = head.selection_settings()
        found.append(select_answer(question, context, windows, starts[rows], ends[rows], settings))
        first = rows.stop
    assert first == len(starts)
    return found
