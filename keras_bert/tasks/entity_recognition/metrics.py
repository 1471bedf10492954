"""Metrics of entities over a whole split: one is right where label, first and last word agree.

Precision, recall and F1 count entities of all labels together (micro average), as seqeval does of
tags. Entities that are wider than any span of the model count as missed.
"""

from collections.abc import Iterable, Mapping, Sequence

from keras_bert.finetuning.task import Metric
from keras_bert.tasks.entity_recognition.sentences import EntitySpan, ScoredSpan
from keras_bert.tasks.tagging.metrics import EntityCounts

Predictions = Sequence[Iterable[ScoredSpan]]
References = Sequence[Iterable[EntitySpan]]


def count_spans(predictions: Predictions, references: References) -> EntityCounts:
    """Counts the entities that are predicted, those that are there, and those that are both."""
    found = {(n, *span[:3]) for n, spans in enumerate(predictions) for span in spans}
    there = {(n, *span) for n, spans in enumerate(references) for span in spans}
    return EntityCounts(len(found), len(there), len(found & there))


def span_precision(predictions: Predictions, references: References) -> float:
    """Returns the fraction of the predicted entities that are right."""
    return count_spans(predictions, references).precision


def span_recall(predictions: Predictions, references: References) -> float:
    """Returns the fraction of the entities that are found."""
    return count_spans(predictions, references).recall


def span_f1(predictions: Predictions, references: References) -> float:
    """Returns the harmonic mean of precision and recall."""
    return count_spans(predictions, references).f1


SPAN_METRICS: Mapping[str, Metric] = {
    "f1": span_f1,
    "precision": span_precision,
    "recall": span_recall,
}
