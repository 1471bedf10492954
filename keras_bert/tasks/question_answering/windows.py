"""Questions and windows of their contexts as rows of the model's input.

A context longer than a row is read in windows that overlap, as in run_squad.py of
google-research/bert. Training, evaluation and served models cut with the functions here, which run
eagerly and in graphs; tests hold them against NumPy loops (`tests/tasks/span_oracle.py`).

Shapes: N questions, P pieces of the contexts, W windows of all contexts (rows of the input).
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.counts import check_count
from keras_bert.finetuning.encoded_rows import EncodedRows
from keras_bert.progress import Progress
from keras_bert.signatures.windows import cut, has_most_context, spread
from keras_bert.tasks.question_answering.questions import Answer, Question
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.framing import BERT_FRAMING, Framing
from keras_bert.text.packing import join_pieces
from keras_bert.text.vocabulary import Vocabulary

_TEXTS_PER_CALL = 256  # of the tokenizer
# Questions whose windows are made and whose answers are selected together: what selection needs in
# memory grows with the characters of their contexts, of which each has its own copy.
_QUESTIONS_PER_CHUNK = 256
_CHARACTERS_PER_CHUNK = 2_000_000
# [CLS] question [SEP] context [SEP].
# Weight of a window's length beside a piece's context, as in `_check_is_max_context` of
# google-research/bert (run_squad.py).
_LENGTH_WEIGHT = 0.01

START_LOGITS, END_LOGITS = "start_logits", "end_logits"


class Contexts(NamedTuple):
    """The pieces of the contexts of N questions; questions may share the pieces of a context.

    Attributes:
        ids: int32 [P].
        starts: int32 [P], the first character of each piece in its context.
        ends: int32 [P], behind the last one.
        row_starts: int64 [N], where the pieces of the context of each question begin.
        row_lengths: int64 [N].
    """

    ids: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    row_starts: tf.Tensor
    row_lengths: tf.Tensor

    @classmethod
    def of_rows(
        cls, ids: tf.RaggedTensor, starts: tf.RaggedTensor, ends: tf.RaggedTensor
    ) -> "Contexts":
        """Takes what `Tokenizer.tokenize_with_offsets` gives, [N, pieces] each."""
        return cls(ids.values, starts.values, ends.values, ids.row_starts(), ids.row_lengths())

    def of(self, questions: tf.Tensor) -> "Contexts":
        """Returns the contexts of some questions, int64 indices; pieces keep their numbers."""
        return self._replace(
            row_starts=tf.gather(self.row_starts, questions),
            row_lengths=tf.gather(self.row_lengths, questions),
        )


class Windows(NamedTuple):
    """Windows of contexts, those of a question one after the other; int64 [W] each.

    Attributes:
        rows: the question.
        offsets: the first piece in the window, counted in its context.
        lengths: pieces of the context in the window.
        positions: where in the row they begin.
    """

    rows: tf.Tensor
    offsets: tf.Tensor
    lengths: tf.Tensor
    positions: tf.Tensor

    @property
    def row_lengths(self) -> tf.Tensor:
        """The positions of each row, int64 [W]: one more [SEP] ends it."""
        return self.positions + self.lengths + 1


class EncodedQuestions(EncodedRows):
    """Rows of windows.

    Attributes:
        chunks: for some questions at a time, in order, their contexts and windows.
    """

    chunks: list[tuple[Contexts, Windows]]


@dataclasses.dataclass(frozen=True)
class WindowSettings:
    """How contexts are cut.

    Attributes:
        max_seq_length: the most positions of a row.
        doc_stride: by how many pieces the next window begins later; at most by its length.
        max_query_length: the most pieces of a question; longer ones are cut.
        framing: that of the model's family, as its vocabulary knows it.

    Raises:
        ValueError: a question of full length would leave no room for the context.
    """

    max_seq_length: int
    doc_stride: int
    max_query_length: int
    framing: Framing = BERT_FRAMING

    def __post_init__(self) -> None:
        for name in ("doc_stride", "max_query_length"):
            check_count(name, getattr(self, name))
        room = self.max_seq_length - self.max_query_length - self.framing.special_in_pair
        if room < 1:
            raise ValueError(
                f"max_seq_length is {self.max_seq_length}: a question of max_query_length "
                f"{self.max_query_length} and {self.framing.special_in_pair} special tokens leave "
                "no room for the context; raise the first or lower the second"
            )


def cut_windows(
    query_lengths: tf.Tensor, context_lengths: tf.Tensor, settings: WindowSettings
) -> Windows:
    """Cuts contexts; one without pieces has one empty window.

    Args:
        query_lengths: int64 [N], pieces of each question, at most `max_query_length`.
        context_lengths: int64 [N], pieces of each context.
        settings: windows move by `doc_stride`, but by no more than their length.
    """
    room = settings.max_seq_length - settings.framing.special_in_pair - query_lengths  # [N]
    stride = tf.minimum(room, settings.doc_stride)
    rows, offsets, lengths = cut(context_lengths, room, stride)  # [W] each
    # Behind [CLS], the question and what stands between two texts.
    positions = tf.gather(query_lengths, rows) + 1 + settings.framing.separators
    return Windows(rows, offsets, lengths, positions)


def window_rows(
    windows: Windows, queries: tf.RaggedTensor, contexts: Contexts, vocabulary: Vocabulary
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Returns ids and segments of the rows [CLS] question [SEP] window [SEP], int32 [W, pieces].

    Args:
        windows: the windows.
        queries: int32 [N, pieces], the questions that they were cut for.
        contexts: of these questions.
        vocabulary: tells the ids of [CLS] and [SEP].
    """
    first = tf.gather(contexts.row_starts, windows.rows) + windows.offsets  # [W], among the P
    # [W, pieces] indices
    pieces = tf.ragged.range(first, first + windows.lengths).with_row_splits_dtype(tf.int64)
    return join_pieces(
        tf.gather(queries, windows.rows), tf.gather(contexts.ids, pieces), vocabulary
    )


def in_best_window(windows: Windows, context_lengths: tf.Tensor) -> tf.Tensor:
    """Tells for each piece of each window whether no other window shows it with more context.

    Context is what stands on the poorer side of a piece; the first window wins among equals.

    Args:
        windows: the windows.
        context_lengths: int64 [N], pieces of the contexts that they were cut from.

    Returns:
        bool [E], the pieces of all windows one after the other.
    """
    # Here every question has pieces of its own, also where questions share a context.
    first = tf.gather(tf.cumsum(context_lengths, exclusive=True), windows.rows) + windows.offsets
    window, piece = spread(first, windows.lengths)  # [E]
    index = piece - tf.gather(first, window)
    length = tf.gather(windows.lengths, window)
    context = tf.cast(tf.minimum(index, length - 1 - index), tf.float64)
    context += _LENGTH_WEIGHT * tf.cast(length, tf.float64)
    return has_most_context(context, window, piece, tf.reduce_sum(context_lengths))


def answer_positions(
    windows: Windows, contexts: Contexts, starts: tf.Tensor, ends: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Finds answers in the rows of windows.

    An answer is the pieces that share a character with it.

    Args:
        windows: the windows.
        contexts: what they were cut from.
        starts: int32 [N], the first character of each answer.
        ends: int32 [N], behind the last one; not above `starts` where there is no answer.

    Returns:
        Positions of its first and last piece, int32 [W] each; 0, that of [CLS], where the window
        does not hold the whole answer.
    """
    row, piece = spread(contexts.row_starts, contexts.row_lengths)  # [E]
    touching = tf.gather(contexts.ends, piece) > tf.gather(starts, row)
    touching &= tf.gather(contexts.starts, piece) < tf.gather(ends, row)
    # [E] -> the pieces of answers, then [N]: the least and the greatest of each question.
    row, piece = row[touching], piece[touching]
    index = piece - tf.gather(contexts.row_starts, row)
    questions = tf.size(starts, tf.int64)
    first = tf.math.unsorted_segment_min(index, row, questions)  # [N]
    last = tf.math.unsorted_segment_max(index, row, questions)  # below `first` without a piece
    found = tf.gather(first <= last, windows.rows)  # [W]
    # [N] -> [W]: counted in the window, which may begin behind the answer or end before it.
    first = tf.gather(first, windows.rows) - windows.offsets
    last = tf.gather(last, windows.rows) - windows.offsets
    found &= (first >= 0) & (last < windows.lengths)
    first, last = (tf.where(found, place + windows.positions, 0) for place in (first, last))
    return tf.cast(first, tf.int32), tf.cast(last, tf.int32)


def encode_questions(
    tokenizer: Tokenizer,
    questions: Sequence[Question],
    settings: WindowSettings,
    description: str,
) -> EncodedQuestions:
    """Makes the rows of questions, with targets where all answers are known.

    The target of a window is the first answer where the window holds all of it, else [CLS].

    Args:
        tokenizer: that of the model.
        questions: the questions, at least one.
        settings: how contexts are cut.
        description: what the progress line says.
    """
    settings = dataclasses.replace(settings, framing=tokenizer.vocabulary.framing)
    queries, query_of = _tokenized(tokenizer, [q.question for q in questions], "questions")
    contexts, context_of = _tokenized(tokenizer, [q.context for q in questions], description)
    known = all(question.answers is not None for question in questions)
    ids, segments, targets, chunks = [], [], [], []
    for part in _chunks_of(questions):
        query = tf.gather(queries[0], query_of[part])[:, : settings.max_query_length]
        context = Contexts.of_rows(*contexts).of(context_of[part])
        windows = cut_windows(query.row_lengths(), context.row_lengths, settings)
        rows = window_rows(windows, query, context, tokenizer.vocabulary)
        ids.append(rows[0])
        segments.append(rows[1])
        if known:
            # First character and the one behind the last; equal ones where there is no answer.
            first = [q.answers[0] if q.answers else Answer("", 0) for q in questions[part]]
            begins = tf.constant([answer.start for answer in first], tf.int32)  # [N]
            ends = begins + tf.constant([len(answer.text) for answer in first], tf.int32)
            targets.append(answer_positions(windows, context, begins, ends))
        chunks.append((context, windows))
    named = None
    if known:
        starts, ends = zip(*targets, strict=True)
        named = {START_LOGITS: tf.concat(starts, axis=0), END_LOGITS: tf.concat(ends, axis=0)}
    encoded = EncodedQuestions(
        tf.concat(ids, axis=0),
        tf.concat(segments, axis=0),
        tokenizer.vocabulary.pad_id,
        settings.max_seq_length,
        named,
    )
    encoded.chunks = chunks
    return encoded


def _chunks_of(questions: Sequence[Question]) -> Iterator[slice]:
    start, characters = 0, 0
    for end, question in enumerate(questions):
        characters += len(question.context)
        full = end - start == _QUESTIONS_PER_CHUNK or characters > _CHARACTERS_PER_CHUNK
        if full and end > start:
            yield slice(start, end)
            start, characters = end, len(question.context)
    yield slice(start, len(questions))


def _tokenized(
    tokenizer: Tokenizer, texts: Sequence[str], description: str
) -> tuple[list[tf.RaggedTensor], np.ndarray]:
    """Tokenizes every different text once: many questions share a context.

    Returns:
        Ids, first characters and characters behind the last, int32 [texts, pieces] each, of the
        different texts; and for each of `texts` which of them it is, int64 [N].
    """
    index: dict[str, int] = {}
    texts_of = [index.setdefault(text, len(index)) for text in texts]
    different = list(index)
    parts = []
    with Progress(len(different), "text", description) as progress:
        for start in range(0, len(different), _TEXTS_PER_CALL):
            part = different[start : start + _TEXTS_PER_CALL]
            parts.append(tokenizer.tokenize_with_offsets(part))
            progress.update(len(part))
    return [tf.concat(rows, axis=0) for rows in zip(*parts, strict=True)], np.array(texts_of)
