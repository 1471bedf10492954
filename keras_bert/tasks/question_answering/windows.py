"""Questions and windows of their contexts as rows of the model's input.

A context longer than a row is read in windows that overlap, as in run_squad.py of
google-research/bert. Shapes: R rows.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.finetuning.encoded_rows import EncodedRows
from keras_bert.progress import Progress
from keras_bert.tasks.question_answering.questions import Question
from keras_bert.text.tokenizer import BertTokenizer

_TEXTS_PER_CALL = 256
# [CLS] question [SEP] context [SEP].
_SPECIAL_TOKENS = 3
# What the number of pieces counts beside the context of a piece on its poorer side.
_LENGTH_SHARE = 0.01

START_LOGITS, END_LOGITS = "start_logits", "end_logits"


class Pieces(NamedTuple):
    """The pieces of a text: ids and character offsets, int32 [pieces] each."""

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


class Window(NamedTuple):
    """One row.

    Attributes:
        question: index of the question.
        first: the first piece of the context in this row.
        position: its place in the row.
        is_best: bool [pieces], for each piece of the window whether no other window shows it with
            more context.
    """

    question: int
    first: int
    position: int
    is_best: np.ndarray


class EncodedQuestions(EncodedRows):
    """Rows of windows.

    Attributes:
        windows: one for each row, those of a question one after the other.
        contexts: for each question the pieces of its context.
    """

    windows: list[Window]
    contexts: list[Pieces]


@dataclasses.dataclass(frozen=True)
class WindowSettings:
    """How contexts are cut.

    Attributes:
        max_seq_length: the most positions of a row.
        doc_stride: by how many pieces a window is moved to become the next one.
        max_query_length: the most pieces of a question; longer ones are cut.

    Raises:
        ValueError: a question of full length would leave no room for the context, or windows would
            leave pieces out.
    """

    max_seq_length: int
    doc_stride: int
    max_query_length: int

    def __post_init__(self) -> None:
        for name in ("doc_stride", "max_query_length"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be at least 1")
        room = self.max_seq_length - self.max_query_length - _SPECIAL_TOKENS
        if room < 1:
            raise ValueError(
                f"max_seq_length is {self.max_seq_length}: a question of max_query_length "
                f"{self.max_query_length} and 3 special tokens leave no room for the context; "
                "raise the first or lower the second"
            )


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


def encode_questions(
    tokenizer: BertTokenizer,
    questions: Sequence[Question],
    settings: WindowSettings,
    description: str,
) -> EncodedQuestions:
    """Makes the rows of questions, with targets where all answers are known.

    The target of a window is the first answer where the window holds all of it, else [CLS].

    Args:
        tokenizer: that of the model.
        questions: the questions.
        settings: how contexts are cut.
        description: what the progress line says.
    """
    asked = _tokenized(tokenizer, [question.question for question in questions], "questions")
    contexts = _tokenized(tokenizer, [question.context for question in questions], description)
    known = all(question.answers is not None for question in questions)
    special = tokenizer.vocabulary.cls_id, tokenizer.vocabulary.sep_id
    ids, segments, targets, all_windows = [], [], [], []
    for index, question in enumerate(questions):
        query = asked[index].ids[: settings.max_query_length]
        for window, row in _rows(index, query, contexts[index], settings, special):
            all_windows.append(window)
            ids.append(row)
            segments.append(np.where(np.arange(len(row)) < window.position, 0, 1))
            if known:
                targets.append(_target(question, contexts[index], window))
    encoded = EncodedQuestions(
        _ragged(ids),
        _ragged(segments),
        tokenizer.vocabulary.pad_id,
        settings.max_seq_length,
        _named_targets(targets) if known else None,
    )
    encoded.windows = all_windows
    encoded.contexts = contexts
    return encoded


def _tokenized(tokenizer: BertTokenizer, texts: Sequence[str], description: str) -> list[Pieces]:
    """Tokenizes every different text once: many questions share a context."""
    different = list(dict.fromkeys(texts))
    found: dict[str, Pieces] = {}
    with Progress(len(different), "text", description) as progress:
        for start in range(0, len(different), _TEXTS_PER_CALL):
            part = different[start : start + _TEXTS_PER_CALL]
            parts = zip(*(_split(ragged) for ragged in _offsets(tokenizer, part)), strict=True)
            found.update((text, Pieces(*pieces)) for text, pieces in zip(part, parts, strict=True))
            progress.update(len(part))
    return [found[text] for text in texts]


def _offsets(tokenizer: BertTokenizer, texts: list[str]) -> Sequence[tf.RaggedTensor]:
    return tokenizer.tokenize_with_offsets(texts)


def _split(ragged: tf.RaggedTensor) -> list[np.ndarray]:
    return np.split(ragged.flat_values.numpy(), ragged.row_splits.numpy()[1:-1])


def _rows(
    index: int,
    query: np.ndarray,
    context: Pieces,
    settings: WindowSettings,
    special: tuple[int, int],
) -> Iterator[tuple[Window, np.ndarray]]:
    cls, sep = special
    room = settings.max_seq_length - len(query) - _SPECIAL_TOKENS
    bounds = window_bounds(len(context.ids), room, settings.doc_stride)
    head = np.concatenate([[cls], query, [sep]])
    for (start, length), is_best in zip(
        bounds, best_windows(bounds, len(context.ids)), strict=True
    ):
        row = np.concatenate([head, context.ids[start : start + length], [sep]])
        yield Window(index, start, len(head), is_best), row


def _target(question: Question, context: Pieces, window: Window) -> tuple[int, int]:
    nowhere = (0, 0)  # [CLS]
    if not question.answers:
        return nowhere
    text, start = question.answers[0]
    span = answer_pieces(context, start, start + len(text))
    if span is None:
        return nowhere
    first, last = (piece - window.first for piece in span)
    if first < 0 or last >= len(window.is_best):
        return nowhere
    return first + window.position, last + window.position


def _ragged(rows: Sequence[np.ndarray]) -> tf.RaggedTensor:
    values = np.concatenate(rows) if rows else np.zeros(0)
    return tf.RaggedTensor.from_row_lengths(
        values.astype(np.int32), np.array([len(row) for row in rows], np.int64)
    )


def _named_targets(targets: Sequence[tuple[int, int]]) -> dict[str, tf.Tensor]:
    both = np.array(targets, np.int32).reshape(-1, 2)
    return {START_LOGITS: tf.constant(both[:, 0]), END_LOGITS: tf.constant(both[:, 1])}
