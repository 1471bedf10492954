"""Sentences of words with a tag for each word: what a tag head learns from."""

from typing import NamedTuple

# The column of the words in `TaskData.text_columns`.
WORD = "word"


class TaggedSentence(NamedTuple):
    """A sentence.

    Attributes:
        words: at least one.
        tags: one for each word, entities in BIO; None where they are not known.
        document: number of its document; neighbours in one document follow each other.
        line: where it begins in its file.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    document: int = 0
    line: int = 0
