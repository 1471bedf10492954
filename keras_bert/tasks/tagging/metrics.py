"""Metrics of tags over a whole split; those of entities are seqeval's and conlleval's.

Predictions and references are what `TagHead` gives: one `TagPrediction` and one tuple of tags for
each sentence. Precision, recall and F1 count whole entities of all types together (micro average).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from keras_bert.finetuning.task import Metric
from keras_bert.tasks.tagging.entities import Entity, entities
from keras_bert.tasks.tagging.head import TagPrediction

Predictions = Sequence[TagPrediction]
References = Sequence[Sequence[str]]


class EntityCounts(NamedTuple):
    """How many entities were predicted, how many are there, how many are both."""

    predicted: int
    there: int
    right: int

    @property
    def precision(self) -> float:
        """The fraction of the predicted entities that are right; 0 where none is predicted."""
        return self.right / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """The fraction of the entities that are found; 0 where there are none."""
        return self.right / self.there if self.there else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of both."""
        total = self.predicted + self.there
        return 2 * self.right / total if total else 0.0


def count_entities(predictions: Predictions, references: References) -> EntityCounts:
    """Counts entities; one is right where type, first and last word agree."""
    predicted, there = set[tuple[int, Entity]](), set[tuple[int, Entity]]()
    for sentence, (prediction, tags) in enumerate(zip(predictions, references, strict=True)):
        predicted.update((sentence, entity) for entity in entities(prediction.tags))
        there.update((sentence, entity) for entity in entities(tags))
    return EntityCounts(len(predicted), len(there), len(predicted & there))


def entity_precision(predictions: Predictions, references: References) -> float:
    """Returns the fraction of the predicted entities that are right."""
    return count_entities(predictions, references).precision


def entity_recall(predictions: Predictions, references: References) -> float:
    """Returns the fraction of the entities that are found."""
    return count_entities(predictions, references).recall


def entity_f1(predictions: Predictions, references: References) -> float:
    """Returns the harmonic mean of precision and recall."""
    return count_entities(predictions, references).f1


def tag_accuracy(predictions: Predictions, references: References) -> float:
    """Returns the fraction of the words whose tag is right."""
    pairs = [
        pair
        for prediction, tags in zip(predictions, references, strict=True)
        for pair in zip(prediction.tags, tags, strict=True)
    ]
    return sum(found == told for found, told in pairs) / len(pairs)


ENTITY_METRICS: Mapping[str, Metric] = {
    "f1": entity_f1,
    "precision": entity_precision,
    "recall": entity_recall,
    "accuracy": tag_accuracy,
}
PLAIN_METRICS: Mapping[str, Metric] = {"accuracy": tag_accuracy}
