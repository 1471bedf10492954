"""How well a vocabulary covers a text."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from keras_bert.text.tokenizer import BertTokenizer


class Coverage(NamedTuple):
    """Counts of a tokenized text.

    Attributes:
        words: number of words; one that is [UNK] counts too.
        pieces: number of pieces.
        unknown: number of words that are [UNK].
    """

    words: int
    pieces: int
    unknown: int

    @property
    def pieces_per_word(self) -> float:
        """How many pieces a word takes on average."""
        return self.pieces / max(self.words, 1)

    @property
    def unknown_rate(self) -> float:
        """Share of the words that are [UNK]."""
        return self.unknown / max(self.words, 1)


def measure_coverage(tokenizer: BertTokenizer, texts: Sequence[str]) -> Coverage:
    """Counts words, pieces and unknown words of texts.

    Args:
        tokenizer: makes the pieces.
        texts: the texts.
    """
    ids = tokenizer(texts).flat_values.numpy()
    vocabulary = tokenizer.vocabulary
    words = int(np.count_nonzero(~vocabulary.continuation_mask[ids]))
    return Coverage(words, len(ids), int(np.count_nonzero(ids == vocabulary.unk_id)))
