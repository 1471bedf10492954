"""From start and end logits to the likeliest answers (run_squad.py of google-research/bert)."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from keras_bert.tasks.question_answering.questions import AnsweredQuestion, Candidate, Question
from keras_bert.tasks.question_answering.windows import Pieces, Window

_NO_SPAN = -1


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
