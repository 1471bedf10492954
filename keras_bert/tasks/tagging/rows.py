"""Sentences of words as rows of the model's input, and where in them each word stands.

Shapes: R rows, W words of all sentences together.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.finetuning.encoded_rows import NO_TARGET, EncodedRows
from keras_bert.progress import Progress
from keras_bert.tasks.tagging.sentences import TaggedSentence
from keras_bert.tasks.tagging.windows import windows
from keras_bert.text.base_tokenizer import Tokenizer

_SENTENCES_PER_CALL = 512
# [CLS] and [SEP].
_SPECIAL_TOKENS = 2


class EncodedWords(EncodedRows):
    """Rows of words.

    Attributes:
        positions: int64, the index of the first piece of each word that has one among all pieces
            of all rows.
        words: int64, the indices of these words among all words.
    """

    positions: np.ndarray
    words: np.ndarray


class _Row(NamedTuple):
    """The pieces of one window.

    Attributes:
        ids: int32 [pieces], special tokens included.
        positions: of the first pieces of the words that count here.
        words: indices of these words in their sentence.
    """

    ids: np.ndarray
    positions: np.ndarray
    words: np.ndarray


def encode_sentences(
    tokenizer: Tokenizer,
    sentences: Sequence[TaggedSentence],
    labels: tuple[str, ...],
    max_seq_length: int,
    document_context: bool,
    description: str,
) -> EncodedWords:
    """Makes one row of each sentence, several of one that is too long.

    Args:
        tokenizer: that of the model.
        sentences: the split; the tags, where all have some, are labels.
        labels: names of the tags.
        max_seq_length: the most positions of a row. A word of more pieces is cut to them.
        document_context: fill rows with the pieces that stand before and after in the document.
        description: what the progress line says.

    Raises:
        ValueError: a row has no room for a word.
    """
    room = max_seq_length - _SPECIAL_TOKENS
    if room < 1:
        raise ValueError(f"max_seq_length is {max_seq_length}: it must be at least 3 for a word")
    vocabulary = tokenizer.vocabulary
    special = np.array([vocabulary.cls_id, *vocabulary.end_ids], np.int32)
    pieces = _tokenized(tokenizer, sentences, description)
    context = _Context(sentences, pieces) if document_context else None
    known = all(sentence.tags is not None for sentence in sentences)
    index = {label: i for i, label in enumerate(labels)}
    ids, targets, positions, words = [], [], [], []
    before, words_before = 0, 0
    for number, sentence in enumerate(sentences):
        tags = sentence.tags if known else None
        for row in _rows(number, pieces[number], room, context, special):
            ids.append(row.ids)
            positions.append(before + row.positions)
            words.append(words_before + row.words)
            before += len(row.ids)
            if tags is not None:
                target = np.full(len(row.ids), NO_TARGET, np.int32)
                target[row.positions] = [index[tags[word]] for word in row.words]
                targets.append(target)
        words_before += len(sentence.words)
    lengths = [len(row) for row in ids]
    ragged = tf.RaggedTensor.from_row_lengths(np.concatenate(ids), lengths)
    encoded = EncodedWords(
        ragged,
        tf.zeros_like(ragged),
        vocabulary.pad_id,
        max_seq_length,
        ragged.with_values(np.concatenate(targets)) if known else None,
    )
    encoded.positions = np.concatenate(positions)
    encoded.words = np.concatenate(words)
    return encoded


def _tokenized(
    tokenizer: Tokenizer, sentences: Sequence[TaggedSentence], description: str
) -> list[list[np.ndarray]]:
    """Returns the pieces of each word of each sentence."""
    found = []
    with Progress(len(sentences), "sentence", description) as progress:
        for start in range(0, len(sentences), _SENTENCES_PER_CALL):
            part = sentences[start : start + _SENTENCES_PER_CALL]
            words = tf.ragged.constant([list(sentence.words) for sentence in part])
            pieces = tokenizer.tokenize_words(words)
            flat = np.split(pieces.flat_values.numpy(), pieces.values.row_splits.numpy()[1:-1])
            splits = pieces.row_splits.numpy()
            found += [flat[first:last] for first, last in zip(splits, splits[1:], strict=False)]
            progress.update(len(part))
    return found


def _rows(
    number: int,
    pieces: Sequence[np.ndarray],
    room: int,
    context: "_Context | None",
    special: np.ndarray,
) -> Iterator[_Row]:
    cut = [word[:room] for word in pieces]
    for window in windows([len(word) for word in cut], room):
        own = np.concatenate(cut[window.start : window.end])
        left, right = _NOTHING, _NOTHING
        if context is not None and window.end - window.start == len(cut):
            left, right = context.around(number, room - len(own))
        lengths = [len(word) for word in cut[window.start : window.end]]
        starts = 1 + len(left) + np.cumsum([0, *lengths[:-1]])
        counting = np.array(
            [word for word in range(window.first, window.last) if len(cut[word])], np.int64
        )
        ids = np.concatenate([special[:1], left, own, right, special[1:]])
        yield _Row(ids, starts[counting - window.start], counting)


class _Context:
    """The pieces of documents as one sequence, and where sentences stand in it."""

    def __init__(self, sentences: Sequence[TaggedSentence], pieces: list[list[np.ndarray]]):
        joined = [np.concatenate(words) for words in pieces]
        self._pieces = np.concatenate(joined)
        self._ends = np.cumsum([len(part) for part in joined])
        self._starts = self._ends - [len(part) for part in joined]
        documents = np.array([sentence.document for sentence in sentences])
        new = np.flatnonzero(np.diff(documents)) + 1
        document = np.cumsum(np.isin(np.arange(len(documents)), new))
        self._document_starts = self._starts[[0, *new]][document]
        self._document_ends = self._ends[[*(new - 1), len(documents) - 1]][document]

    def around(self, number: int, room: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the pieces before and after a sentence, half of the room each.

        Where one side has less than half, the other takes what is left over.
        """
        start, end = self._starts[number], self._ends[number]
        before, after = start - self._document_starts[number], self._document_ends[number] - end
        left = min(before, max(room // 2, room - after))
        right = min(after, room - left)
        return self._pieces[start - left : start], self._pieces[end : end + right]


_NOTHING = np.zeros(0, np.int32)
