"""How well a vocabulary covers a text."""

import itertools
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from keras_bert.text.corpus_tokenizer import CorpusTokenizer

_TEXTS_PER_CALL = 4096  # bounds the memory


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

    def __str__(self) -> str:
        whole = self.whole / max(self.words, 1)
        return (
            f"{self.pieces_per_word:.3f} pieces per word, {100 * self.unknown_rate:.3f} % of the "
            f"words [UNK], {100 * whole:.1f} % one piece; {self.entries_used:,} of "
            f"{self.entries:,} entries occur"
        )


def measure_coverage(tokenizer: CorpusTokenizer, texts: Iterable[str]) -> Coverage:
    """Counts words, pieces and unknown words of texts; reads them as a stream.

    Args:
        tokenizer: makes the pieces.
        texts: the texts.
    """
    vocabulary = tokenizer.vocabulary
    counts = np.zeros(len(vocabulary), np.int64)
    whole = 0
    stream = iter(texts)
    while block := list(itertools.islice(stream, _TEXTS_PER_CALL)):
        ids, sizes = tokenizer(block)
        counts += np.bincount(ids, minlength=len(vocabulary))
        # Whole words: pieces that start a word and that none continues.
        continues = np.append(vocabulary.continuation_mask[ids], False)
        continues[np.cumsum(sizes) - sizes] = False  # a text starts with a word of its own
        whole += int(np.count_nonzero(~continues[:-1] & ~continues[1:]))
    unknown = int(counts[vocabulary.unk_id])
    return Coverage(
        words=int(counts[~vocabulary.continuation_mask].sum()),
        pieces=int(counts.sum()),
        unknown=unknown,
        whole=whole - unknown,
        entries_used=int(np.count_nonzero(counts)),
        entries=len(vocabulary),
    )
