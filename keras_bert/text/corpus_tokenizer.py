"""The ids of `BertTokenizer` for whole corpora, in plain Python and without loading TensorFlow.

A corpus repeats its words: each run of characters between two spaces is worked out once and then
remembered, so a text costs a look-up a word.
"""

import re
from collections.abc import Iterable
from typing import Protocol

import numpy as np

from keras_bert.text.vocabulary import CONTINUATION_PREFIX, Vocabulary
from keras_bert.text.wordpiece.normalized_characters import CharacterForms
from keras_bert.text.wordpiece.settings import Settings

# What bounds the memory: 20 to 30 MB. Longer runs (a sentence without spaces) rarely come again.
_MAX_REMEMBERED = 50_000
_LONGEST_REMEMBERED = 32


class TextsToIds(Protocol):
    """Turns texts into ids, many at once and without TensorFlow."""

    def __call__(self, texts: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the pieces of all texts, int32 [pieces], and how many each has, int64 [N]."""


class CorpusTokenizer:
    """Turns texts into ids, many at once: those of `BertTokenizer` for every text.

    Args:
        vocabulary: the word pieces and their ids.
        settings: how text is treated.

    Attributes:
        vocabulary: the word pieces and their ids.
        settings: how text is treated.

    Example:
        >>> vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b", "."])
        >>> ids, sizes = CorpusTokenizer(vocabulary, Settings())(["Ab a.", ""])
        >>> ids.tolist(), sizes.tolist()
        ([5, 6, 5, 7], [4, 0])
    """

    def __init__(self, vocabulary: Vocabulary, settings: Settings):
        self.vocabulary = vocabulary
        self.settings = settings
        self._runs = _Runs(vocabulary, settings)

    def __call__(self, texts: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        """Tokenizes texts.

        Args:
            texts: N strings.

        Returns:
            The pieces of all texts one after the other, int32 [pieces], without [CLS] and [SEP];
            and how many each text has, int64 [N].
        """
        pieces: list[int] = []
        runs, ends = self._runs, [0]
        for text in texts:
            for run in text.split(" "):
                pieces += runs[run]
            ends.append(len(pieces))
            runs.forget_if_full()
        return np.array(pieces, np.int32), np.diff(ends)

    def words(self, text: str) -> list[str]:
        """Returns the words of a text as they are cut into pieces: normalized and split.

        Special tokens that are spelled out are plain text here, whatever the settings.
        """
        return self._runs.words(text)

    def pieces(self, word: str) -> tuple[int, ...]:
        """Returns the ids of the pieces of one of these words."""
        return self._runs.pieces(word)


class _Runs(dict[str, tuple[int, ...]]):
    """The ids of each run of characters without a space; missing ones are worked out."""

    def __init__(self, vocabulary: Vocabulary, settings: Settings):
        super().__init__()
        self._keep_special_tokens = settings.keep_special_tokens
        special = vocabulary.special_tokens
        self._special_ids = {token: (vocabulary.id_of(token),) for token in special}
        self._special_token = re.compile(f"({'|'.join(map(re.escape, special))})")
        self._characters = CharacterForms(settings)
        self._words = _Words(vocabulary, settings.max_input_chars_per_word)

    def __missing__(self, run: str) -> tuple[int, ...]:
        if self._keep_special_tokens:
            parts = self._special_token.split(run)
            ids = tuple(i for part in parts for i in self._special_ids.get(part) or self._ids(part))
        else:
            ids = self._ids(run)
        if len(run) <= _LONGEST_REMEMBERED:
            self[run] = ids
        return ids

    def words(self, text: str) -> list[str]:
        return self._characters.normalized(text).split()

    def pieces(self, word: str) -> tuple[int, ...]:
        self.forget_if_full()
        return self._words[word]

    def _ids(self, run: str) -> tuple[int, ...]:
        return tuple(piece for word in self.words(run) for piece in self._words[word])

    def forget_if_full(self) -> None:
        if len(self) + len(self._words) > _MAX_REMEMBERED:
            self.clear()
            self._words.clear()


class _Words(dict[str, tuple[int, ...]]):
    """The pieces of each word, the longest match first; missing ones are worked out."""

    def __init__(self, vocabulary: Vocabulary, max_characters: int):
        super().__init__()
        self._max_characters = max_characters
        self._pieces = {token: index for index, token in enumerate(vocabulary.tokens)}
        self._longest = max(map(len, vocabulary.tokens))
        self._unknown = (vocabulary.unk_id,)

    def __missing__(self, word: str) -> tuple[int, ...]:
        ids = self._longest_matches(word)
        if len(word) <= _LONGEST_REMEMBERED:
            self[word] = ids
        return ids

    def _longest_matches(self, word: str) -> tuple[int, ...]:
        if len(word) > self._max_characters:
            return self._unknown
        ids, start, prefix = [], 0, ""
        while start < len(word):
            for end in range(min(len(word), start + self._longest), start, -1):
                piece = self._pieces.get(prefix + word[start:end])
                if piece is not None:
                    break
            else:
                return self._unknown
            ids.append(piece)
            start, prefix = end, CONTINUATION_PREFIX
        return tuple(ids)
