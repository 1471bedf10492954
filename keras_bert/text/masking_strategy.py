"""What the masked language model hides, and how often, in the graph and in whole corpora alike.

No TensorFlow here: options and the workers of data creation import it.
"""

import dataclasses
import math
from typing import Any

import numpy as np

from keras_bert.counts import check_count, check_number

# The generator SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators"
# (2014), with the constants of Vigna's public domain version.
INCREMENT = np.uint64(0x9E3779B97F4A7C15)
MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)

KEY_BITS = 31  # of a non-negative int32, which tf.math.top_k sorts
UNIFORM_BITS = 24  # what float32 holds exactly

# Random bits of their own: the order of pieces and words takes the indices below 2 ** 32.
REPLACEMENTS = 1 << 32
RUN_LENGTHS = 2 << 32

# A run of n words is drawn with a probability in proportion to 1 / n, n up to 3 (ALBERT,
# arXiv:1909.11942, section 4.1): the sums of the first weights.
RUN_WEIGHTS = np.cumsum([1.0, 1 / 2, 1 / 3]).astype(np.float32)

# The options that say how masks are drawn, in data creation and in pretraining.
_OPTIONS = (
    "masking masked_lm_prob mask_token_rate random_token_rate max_predictions_per_seq".split()
)


def predictions_per_sequence(
    max_predictions_per_seq: int | None, masked_lm_prob: float, max_seq_length: int
) -> int:
    """Returns the most masked positions of a sequence: as told, or room for the rate of a full one.

    Args:
        max_predictions_per_seq: what was told, or None.
        masked_lm_prob: rate of the pieces that are chosen.
        max_seq_length: pieces of the longest sequence, special tokens counted.

    Raises:
        ValueError: the rate is out of its range.
    """
    _check_masked_lm_prob(masked_lm_prob)
    if max_predictions_per_seq is not None:
        return max_predictions_per_seq
    return max(1, math.ceil(masked_lm_prob * max_seq_length))


def masking_options(options: Any) -> dict[str, Any]:
    """Returns those options about masks that are not at their defaults.

    Args:
        options: a dataclass that has all of these options.
    """
    fields = {field.name: field.default for field in dataclasses.fields(options)}
    values = {name: getattr(options, name) for name in _OPTIONS}
    return {name: value for name, value in values.items() if value != fields[name]}


def check_rates(
    max_predictions_per_seq: int,
    masked_lm_prob: float,
    mask_token_rate: float,
    random_token_rate: float,
) -> None:
    """Raises ValueError unless the numbers of a masking are in their ranges."""
    check_count("max_predictions_per_seq", max_predictions_per_seq)
    _check_masked_lm_prob(masked_lm_prob)
    rates = {"mask_token_rate": mask_token_rate, "random_token_rate": random_token_rate}
    for name, rate in rates.items():
        if not 0 <= check_number(name, rate) <= 1:  # nor is NaN
            raise ValueError(f"{name} is {rate}: it must be from 0 to 1")
    if mask_token_rate + random_token_rate > 1:
        raise ValueError(
            f"mask_token_rate {mask_token_rate} and random_token_rate {random_token_rate} are "
            "together above 1: the rest of the chosen pieces stays as it is and cannot be negative"
        )


def _check_masked_lm_prob(masked_lm_prob: float) -> None:
    if not 0 < check_number("masked_lm_prob", masked_lm_prob) <= 1:  # nor is NaN
        raise ValueError(f"masked_lm_prob is {masked_lm_prob}: it must be above 0 and at most 1")
