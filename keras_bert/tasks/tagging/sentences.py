"""Sentences of words with a tag for each word: what a tag head learns from."""

import dataclasses
from typing import NamedTuple

from keras_bert.finetuning.task import TaskData

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


@dataclasses.dataclass(frozen=True)
class TaggedData(TaskData):
    """The data of a tagging task, splits of `TaggedSentence`.

    Attributes:
        plain: whether every tag is its word's own, see `TagHead`.
    """

    plain: bool = False
