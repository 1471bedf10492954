"""Sentences of words with a tag for each word: what a tag head learns from."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple, Self

from keras_bert.finetuning.task import TaskData
from keras_bert.storage.text_lines import check_parts

# The column of the words in `TaskData.text_columns`.
WORD = "word"


class _Fields(NamedTuple):
    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    document: int = 0
    line: int = 0


class TaggedSentence(_Fields):
    """A sentence.

    Attributes:
        words: at least one.
        tags: one for each word, entities in BIO; None where they are not known.
        document: number of its document; neighbours in one document follow each other.
        line: where it begins in its file.

    Raises:
        ValueError: words or tags are one string, a word is none, or there is no word.
    """

    __slots__ = ()

    # A NamedTuple cannot check its own fields.
    def __new__(
        cls,
        words: Sequence[str],
        tags: Sequence[str] | None = None,
        document: int = 0,
        line: int = 0,
    ) -> Self:
        """Makes a sentence."""
        words = check_parts(words, "words", "word")
        if not words:
            raise ValueError("the sentence has no words: give at least one, or leave it out")
        tags = None if tags is None else check_parts(tags, "tags", "tag")
        return super().__new__(cls, words, tags, document, line)


@dataclasses.dataclass(frozen=True)
class TaggedData(TaskData):
    """The data of a tagging task, splits of `TaggedSentence`.

    Attributes:
        plain: whether every tag is its word's own, see `TagHead`.
    """

    plain: bool = False
