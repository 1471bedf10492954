"""Labels of natural language inference, and what they say of labels that nobody trained for.

A model of inference tells whether a text (the premise) entails a sentence (the hypothesis). Asked
whether a text entails "This example is sport.", it classifies by labels that are named with the
question: zero-shot classification (Yin et al. 2019, https://arxiv.org/abs/1909.00161).

Shapes: N texts, L labels that are asked about.
"""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

# How their names begin, in any case: "entailment", "contradiction", "Contradicts".
_ENTAILMENT, _CONTRADICTION = "entail", "contradict"
# What messages call such a model.
INFERENCE_MODEL = (
    "a model of natural language inference, with one label that begins with 'entail' and, of three "
    "and more, one that begins with 'contradict'"
)


class InferenceLabels(NamedTuple):
    """Places of two classes among the labels of a model of natural language inference."""

    contradiction: int
    entailment: int


def inference_labels(labels: Sequence[str]) -> InferenceLabels | None:
    """Returns which classes say that a text entails a sentence, and that it contradicts it.

    Of two classes the one beside entailment is the contradiction: "not_entailment".

    Args:
        labels: names of the classes.

    Returns:
        Their places; None where the names do not tell one of each.
    """
    entailing, contradicting = (
        [place for place, label in enumerate(labels) if label.lower().startswith(start)]
        for start in (_ENTAILMENT, _CONTRADICTION)
    )
    if len(labels) == 2 and len(entailing) == 1:
        contradicting = [1 - entailing[0]]
    if len(entailing) != 1 or len(contradicting) != 1:
        return None
    return InferenceLabels(contradicting[0], entailing[0])


def label_scores(logits: tf.Tensor, there: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns scores of labels of which one is right, and of labels each of which may be.

    Those of Hugging Face's `ZeroShotClassificationPipeline`: a softmax of entailment over the
    labels of a text, and for each label by itself a softmax of contradiction and entailment. A text
    with one label has the second as the first, too, which else would be 1.

    Args:
        logits: float32 [N, L, 2], of contradiction and entailment.
        there: bool [N, L], which labels there are; the others have score 0.

    Returns:
        Both float32 [N, L].
    """
    each = tf.where(there, tf.nn.softmax(logits)[..., 1], 0.0)  # [N, L]
    together = tf.nn.softmax(tf.where(there, logits[..., 1], -float("inf")))  # [N, L]
    alone = tf.equal(tf.reduce_sum(tf.cast(there, tf.int32), axis=1, keepdims=True), 1)  # [N, 1]
    # A row without any label has no softmax.
    return tf.where(alone, each, tf.where(there, together, 0.0)), each
