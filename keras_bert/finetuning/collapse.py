"""Whether a fine-tuning run failed: one answer for all, or a loss no better than chance.

Small sets and large rates do that to BERT now and then (paper section 4.1; Mosbach et al. 2020,
arXiv:2006.04884). A mean over seeds that counts such runs says nothing.
"""

from collections.abc import Sequence

import numpy as np

REMEDY = (
    "try a lower learning rate, a longer warmup (--warmup_proportion), more epochs, another seed, "
    "or several with --seeds=5"
)
# A loss this close to chance has learned nothing; healthy runs end far below.
_CLOSE_TO_CHANCE = 0.98


def chance_loss(frequencies: np.ndarray | Sequence[float], label_smoothing: float = 0.0) -> float:
    """Returns the cross-entropy of the best constant guess, in nats.

    Args:
        frequencies: how often each class occurs, [C], weights counted in.
        label_smoothing: the fraction of the targets that is spread over all classes.
    """
    rates = np.asarray(frequencies, np.float64) / np.sum(frequencies)
    rates = (1 - label_smoothing) * rates + label_smoothing / len(rates)
    seen = rates[rates > 0]
    return float(-np.sum(seen * np.log(seen)))


def one_answer(
    answers: Sequence[object], references: Sequence[object], told: str | None = None
) -> str | None:
    """Returns what is wrong when all answers are the same though the references are not.

    Args:
        answers: what is predicted.
        references: what is right.
        told: the first answer in words; None for an answer that is one.
    """
    if len(set(answers)) == 1 and len(set(references)) > 1:
        return f"all {len(answers):,} predictions are {told or repr(answers[0])}"
    return None


def no_better_than_chance(train_loss: float, chance: float | None) -> str | None:
    """Returns what is wrong when the training loss at the end is that of a constant guess.

    Args:
        train_loss: mean over the last steps.
        chance: what `chance_loss` returned; None where it is not known. 0 tells nothing either: all
            labels are alike then, and to guess by frequency is to be right.
    """
    if not chance or train_loss < _CLOSE_TO_CHANCE * chance:
        return None
    return (
        f"the training loss ends at {train_loss:.3f}, no better than the {chance:.3f} of "
        "guessing by frequency"
    )
