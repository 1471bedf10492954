"""Sentences of words with their entities, and entities with their probabilities."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

from keras_bert.storage.text_lines import check_distinct_labels, check_parts, check_string
from keras_bert.tasks.named_labels import TO_LOOK_FOR


class EntitySpan(NamedTuple):
    """An entity.

    Attributes:
        first: index of its first word.
        last: index of its last word.
        label: what it is.
    """

    first: int
    last: int
    label: str


class ScoredSpan(NamedTuple):
    """An entity that a model finds.

    Attributes:
        first: index of its first word.
        last: index of its last word.
        label: what it is.
        score: the probability of it.
    """

    first: int
    last: int
    label: str
    score: float


@dataclasses.dataclass(frozen=True)
class EntitySentence:
    """A sentence.

    Attributes:
        words: at least one.
        entities: spans of words, of any labels; they may overlap. None where they are not known.
        labels: what evaluation asks for in this sentence; None for all labels of its split.

    Raises:
        ValueError: words are one string, one of them is none, or there is none; an entity lies
            outside, or its label is blank or not among those asked for.
    """

    words: Sequence[str]
    entities: Sequence[EntitySpan] | None = None
    labels: Sequence[str] | None = None

    def __post_init__(self) -> None:
        words = check_parts(self.words, "words", "word")
        if not words:
            raise ValueError("the sentence has no words: give at least one, or leave it out")
        labels = None if self.labels is None else check_distinct_labels(self.labels, TO_LOOK_FOR)
        entities = None
        if self.entities is not None:
            entities = tuple(_checked_span(entity, len(words)) for entity in self.entities)
            if labels is not None:
                unasked = next((e.label for e in entities if e.label not in labels), None)
                if unasked is not None:
                    raise ValueError(
                        f"the sentence has an entity with the label {unasked!r}, which is none of "
                        f"those that are asked for ({', '.join(labels)}): add it to them"
                    )
        for name, value in (("words", words), ("entities", entities), ("labels", labels)):
            object.__setattr__(self, name, value)  # the fields are frozen


def _checked_span(entity: Any, words: int) -> EntitySpan:
    try:
        first, last, label = entity
    except (TypeError, ValueError):
        raise ValueError(
            f"an entity is {repr(entity)[:60]}: give its first word, its last word and its label"
        ) from None
    if type(first) is not int or type(last) is not int or not 0 <= first <= last < words:
        raise ValueError(
            f"an entity has the words {first!r} to {last!r}, but the sentence has {words}: give "
            "indices from 0, those of the first and the last word"
        )
    label = check_string(label, "the label of an entity")
    if not label.strip():
        raise ValueError(f"the entity of the words {first} to {last} has a blank label: name it")
    return EntitySpan(first, last, label)
