"""Numbers that a person reads, from the sums that a step returns."""

import math

from keras_bert.pretraining.losses import WeightedSums
from keras_bert.pretraining.step import StepSums

_LARGEST_EXPONENT = 50.0  # a perplexity of e^50 says "diverged" as well as infinity does


def pretraining_metrics(sums: StepSums, next_sentence: bool = True) -> dict[str, float]:
    """Returns mean losses, accuracies and the perplexity of the masked language model.

    Args:
        sums: sums of one or more steps.
        next_sentence: whether the next sentence loss is part of the total.
    """
    masked_lm_loss, masked_lm_accuracy = _means(sums.masked_lm)
    next_sentence_loss, next_sentence_accuracy = _means(sums.next_sentence)
    metrics = {
        "loss": masked_lm_loss + (next_sentence_loss if next_sentence else 0.0),
        "masked_lm_loss": masked_lm_loss,
        "masked_lm_accuracy": masked_lm_accuracy,
        "perplexity": math.exp(min(masked_lm_loss, _LARGEST_EXPONENT)),
    }
    if next_sentence:
        metrics["next_sentence_loss"] = next_sentence_loss
        metrics["next_sentence_accuracy"] = next_sentence_accuracy
    return metrics


def _means(sums: WeightedSums) -> tuple[float, float]:
    weight = max(float(sums.weight), 1.0)
    return float(sums.loss) / weight, float(sums.correct) / weight
