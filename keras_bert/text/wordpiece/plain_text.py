"""The fast path: texts that need nothing but ASCII lower-casing before they are cut into pieces.

tf.text can split such texts into words itself, in the same pass that finds the pieces, several
times faster than `normalization`. Which texts these are is decided text by text, in the graph, by
one regular expression: ASCII without control characters, and non-ASCII characters that are words of
their own (typographic quotes and dashes, CJK punctuation and ideographs).

Non-ASCII *letters* take the other path, so that every word of several characters is ASCII and the
limit of 200 (or other) characters a word is one of as many bytes, which is what tf.text counts.
"""

import numpy as np
import tensorflow as tf

from keras_bert.text.wordpiece import unicode_table as table
from keras_bert.text.wordpiece.longest_match import fast_wordpiece_tokenizer

_ASCII = ("\t", "\n", "\r", *map(chr, range(0x20, 0x7F)))
# Blocks whose characters have kept their category since long before Unicode 14, so that every
# build of tf.text (which asks the Unicode library it was linked with) sees them as we do.
_NON_ASCII_RANGES = (
    (0x00A1, 0x00BF),  # Latin-1 punctuation
    (0x2010, 0x2027),  # general punctuation: dashes, quotes, ellipsis
    (0x2030, 0x205E),
    (0x3001, 0x301F),  # CJK punctuation
    (0x4E00, 0x9FA5),  # CJK ideographs
    (0xFF01, 0xFF65),  # full-width punctuation
)


class PlainText(tf.Module):
    """Tokenizes texts that need no normalization.

    Args:
        tokens: the vocabulary, as `wordpiece.matchable_tokens` gives it.
        lowercase: lower-case the text.
        tables: the normalization that the texts must not need.
        excluded: ASCII characters that plain texts may not hold.
        max_characters: a longer word is [UNK].
    """

    def __init__(
        self,
        tokens: list[str],
        lowercase: bool,
        tables: table.NormalizationTables,
        excluded: str,
        max_characters: int,
    ):
        super().__init__(name="plain_text")
        self._lowercase = lowercase
        self._pattern = _pattern(tables, excluded)
        self._tokenizer = fast_wordpiece_tokenizer(tokens, max_characters, splits_words=True)

    def matches(self, texts: tf.Tensor) -> tf.Tensor:
        """Tells which texts are plain: string [N] -> bool [N]."""
        return tf.strings.regex_full_match(texts, self._pattern)

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids of the pieces of plain texts: string [N] -> int32 [N, pieces]."""
        return self._tokenizer.tokenize(tf.strings.lower(texts) if self._lowercase else texts)


def _pattern(tables: table.NormalizationTables, excluded: str) -> str:
    # Those that become one character, themselves, and are words of their own.
    candidates = np.concatenate([np.arange(a, b + 1) for a, b in _NON_ASCII_RANGES])
    alone = candidates | table.COUNT_ONE | table.IS_ALONE
    alone = candidates[candidates + tables.offsets.of(candidates) == alone]
    characters = sorted({*map(ord, _ASCII), *alone.tolist()} - set(map(ord, excluded)))
    # As ranges of a regular expression: code points 9 10 13 become \x{9}-\x{a}\x{d}-\x{d}.
    present = set(characters)
    starts = [c for c in characters if c - 1 not in present]
    ends = [c for c in characters if c + 1 not in present]
    ranges = [f"\\x{{{a:x}}}-\\x{{{b:x}}}" for a, b in zip(starts, ends, strict=True)]
    return "[" + "".join(ranges) + "]*"
