"""How well a vocabulary covers a text."""

import collections
import heapq
import itertools
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from keras_bert.storage.text_lines import check_several, each_string
from keras_bert.text.corpus_tokenizer import CorpusTokenizer
from keras_bert.text.vocabulary import CONTINUATION_PREFIX

# Distinct words that are counted one by one, some hundred MB; beyond them the rarest are added up
# and forgotten.
_MOST_WORDS = 1_000_000


class Coverage(NamedTuple):
    """Counts of a tokenized text.

    Attributes:
        words: number of words; one that is [UNK] counts too.
        pieces: number of pieces.
        unknown: number of words that are [UNK].
        whole: number of words that are one piece, not [UNK].
        entries_used: how many entries of the vocabulary occur.
        entries: how many it has.
    """

    words: int
    pieces: int
    unknown: int
    whole: int
    entries_used: int
    entries: int

    @property
    def pieces_per_word(self) -> float:
        """How many pieces a word takes on average."""
        return self.pieces / max(self.words, 1)

    @property
    def unknown_rate(self) -> float:
        """Rate of the words that are [UNK]."""
        return self.unknown / max(self.words, 1)

    @property
    def whole_rate(self) -> float:
        """Rate of the words that are one piece, not [UNK]."""
        return self.whole / max(self.words, 1)

    def __str__(self) -> str:
        return (
            f"{self.pieces_per_word:.3f} pieces per word, {100 * self.unknown_rate:.3f} % of the "
            f"words [UNK], {100 * self.whole_rate:.1f} % one piece; {self.entries_used:,} of "
            f"{self.entries:,} entries occur"
        )


class WordCounts:
    """The words of a text, and what a vocabulary makes of them.

    Args:
        tokenizer: makes the pieces.

    Attributes:
        words: how often each distinct word occurs, normalized.
        forgotten: how many distinct words were forgotten because there were too many; they count in
            everything but `words`.
        piece_counts: int64 [V], how often each entry of the vocabulary occurs.
        words_by_pieces: how many words take so many pieces, by the number of pieces; [UNK] is one.
        unknown: how many words are [UNK].
        unknown_characters: how often words are [UNK] that hold a character which is no entry of the
            vocabulary, neither alone nor as a continuation; by the character.
    """

    def __init__(self, tokenizer: CorpusTokenizer):
        self._tokenizer = tokenizer
        bodies = (token.removeprefix(CONTINUATION_PREFIX) for token in tokenizer.vocabulary.tokens)
        self._characters = {body for body in bodies if len(body) == 1}
        self._uncounted: collections.Counter[str] = collections.Counter()
        self.words: collections.Counter[str] = collections.Counter()
        self.forgotten = 0
        self.piece_counts = np.zeros(len(tokenizer.vocabulary), np.int64)
        self.words_by_pieces: collections.Counter[int] = collections.Counter()
        self.unknown = 0
        self.unknown_characters: collections.Counter[str] = collections.Counter()

    @property
    def coverage(self) -> Coverage:
        """The sums."""
        unknown = self.unknown
        return Coverage(
            words=self.words_by_pieces.total(),
            pieces=int(self.piece_counts.sum()),
            unknown=unknown,
            whole=self.words_by_pieces[1] - unknown,
            entries_used=int(np.count_nonzero(self.piece_counts)),
            entries=len(self.piece_counts),
        )

    def add(self, text: str) -> None:
        """Counts the words of a text; `settle` must follow the last one."""
        self._uncounted.update(self._tokenizer.words(text))
        if len(self._uncounted) > _MOST_WORDS:
            self.settle()

    def settle(self) -> None:
        """Works out the pieces of what was added, once for each distinct word."""
        unk = self._tokenizer.vocabulary.unk_id
        for word, count in self._uncounted.items():
            pieces = self._tokenizer.pieces(word)
            self.words_by_pieces[len(pieces)] += count
            for piece in pieces:
                self.piece_counts[piece] += count
            if pieces[0] == unk:
                self.unknown += count
                for character in set(word) - self._characters:
                    self.unknown_characters[character] += count
        self.words.update(self._uncounted)
        self._uncounted.clear()
        if len(self.words) > _MOST_WORDS:
            kept = self.words.most_common(_MOST_WORDS // 2)
            self.forgotten += len(self.words) - len(kept)
            self.words = collections.Counter(dict(kept))

    def recounted(self, tokenizer: CorpusTokenizer) -> "WordCounts":
        """Returns what another vocabulary makes of the same words, without the texts.

        Args:
            tokenizer: makes the pieces; its settings must be the same. Forgotten words do not
                count.
        """
        found = WordCounts(tokenizer)
        found._uncounted.update(self.words)
        found.settle()
        return found

    def pieces(self, word: str) -> list[str]:
        """Returns the pieces of a word."""
        vocabulary = self._tokenizer.vocabulary
        return [vocabulary.tokens[piece] for piece in self._tokenizer.pieces(word)]

    def commonest_unknown(self, count: int) -> list[tuple[str, int]]:
        """Returns the commonest words that are [UNK], and how often they occur."""
        unknown = [self._tokenizer.vocabulary.special_tokens.unk]
        found = (pair for pair in self.words.most_common() if self.pieces(pair[0]) == unknown)
        return list(itertools.islice(found, count))

    def commonest_split(self, count: int) -> list[tuple[str, int]]:
        """Returns the commonest words of several pieces, and how often they occur."""
        found = (pair for pair in self.words.most_common() if len(self.pieces(pair[0])) > 1)
        return list(itertools.islice(found, count))

    def most_split(self, count: int) -> list[tuple[str, int]]:
        """Returns the words of most pieces, the commonest of equals first, and how often each."""
        return heapq.nlargest(
            count, self.words.items(), key=lambda pair: (len(self.pieces(pair[0])), pair[1])
        )


def count_words(tokenizer: CorpusTokenizer, texts: Iterable[str]) -> WordCounts:
    """Counts the words of texts and their pieces; reads the texts as a stream.

    Args:
        tokenizer: makes the pieces.
        texts: the texts.

    Raises:
        ValueError: `texts` is a single string, or a text is none.
    """
    check_several(texts)
    counts = WordCounts(tokenizer)
    for text in each_string(texts):
        counts.add(text)
    counts.settle()
    return counts


def measure_coverage(tokenizer: CorpusTokenizer, texts: Iterable[str]) -> Coverage:
    """Counts words, pieces and unknown words of texts; reads them as a stream.

    Args:
        tokenizer: makes the pieces.
        texts: the texts.

    Raises:
        ValueError: `texts` is a single string, or a text is none.
    """
    return count_words(tokenizer, texts).coverage
