"""Dropout whose masks come from bytes (Srivastava et al. 2014).

On a CPU the random numbers are the slowest part of dropout: 32 bits a unit, of which a comparison
uses few. Here each 32-bit word makes the masks of four units:

    words  int32 [..., H / 4]   drawn
    bytes  uint8 [..., H]       the same bits
    kept   bool  [..., H]       bytes >= threshold

A byte knows rates in steps of 1/256 only. So the threshold of each row (a token, or a query of the
attention) is one of two neighbours, drawn so often that the mean stays what it was: units are kept
at the rate 1 / scale, the scale being 1 / (1 - rate) *as the number format holds it*. An example:
in bfloat16 the scale for rate 0.1 is 1.109375, and 256 / 1.109375 = 230.76 of 256 bytes have to be
kept: 231 in 76 % of the rows and 230 in the others.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.config import MOST_DROPOUT
from keras_bert.layers.one_loop import gains_from_one_loop, one_loop, with_gradient

_BYTES = 2**8
_LEAST_WORD = -(2**31)


@keras.saving.register_keras_serializable("keras_bert")
class Dropout(keras.layers.Dropout):
    """Sets units to zero at random in training and scales the others, which keeps the mean.

    Args:
        rate: fraction of the units that are dropped, from 0 to 255/256. In bfloat16 to within
            0.004, as far as its factor can say it; rates below that may drop nothing.
        seed: seed of the masks; None draws one.

    Raises:
        ValueError: the rate is above 255/256, or rows or columns are to be dropped.
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs: Any):
        if kwargs.get("noise_shape") is not None:
            raise ValueError(
                "noise_shape is not known here: take keras.layers.Dropout to drop rows or columns"
            )
        if rate > MOST_DROPOUT:
            raise ValueError(
                f"the dropout rate is {rate}: expected at most 255/256, the largest that a byte "
                "can tell from 1"
            )
        super().__init__(rate, seed=seed, **kwargs)

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Returns the inputs [..., H], in training some of them zero and the others scaled."""
        if not training or not self.rate:
            return inputs
        *rows, width = ops.shape(inputs)
        count, quarter = math.prod(rows), -(-width // 4)  # rows; words of one, rounded up
        # One draw for the bytes of all rows and, behind them, for the thresholds.
        words = keras.random.randint(
            (count * (quarter + 1),), _LEAST_WORD, -_LEAST_WORD - 1, "int32", self.seed_generator
        )
        of_units, of_rows = words[: count * quarter], words[count * quarter :]
        # [N / 4] -> [N / 4, 1] -> [N / 4, 4] -> [..., H]
        integers = ops.view(ops.reshape(of_units, (-1, 1)), "uint8")
        integers = ops.reshape(integers, (*rows, 4 * quarter))
        scale, threshold = scale_and_threshold(self.rate, inputs.dtype)
        lower = math.floor(threshold)
        # A word is below the limit at the rate of what the lower threshold is short of.
        limit = min(round((threshold - lower) * 2**32) + _LEAST_WORD, -_LEAST_WORD - 1)
        higher = ops.reshape(ops.less(of_rows, limit), (*rows, 1))
        thresholds = ops.cast(higher, "uint8") + lower  # [..., 1]
        return _dropped(inputs, integers[..., :width], thresholds, scale)  # [..., H]


def _dropped(inputs: Any, integers: Any, thresholds: Any, scale: float) -> Any:
    """Returns inputs [..., H] times `_factors`."""
    if not gains_from_one_loop(inputs):
        return inputs * _factors(integers, thresholds, scale, inputs.dtype)
    times_factors = _times_factors_in_one_loop(scale)

    @with_gradient
    def function(inputs: Any) -> tuple[Any, Callable]:
        value = times_factors(inputs, integers, thresholds)
        return value, lambda upstream: times_factors(upstream, integers, thresholds)

    return function(inputs)


def _factors(integers: Any, thresholds: Any, scale: float, dtype: Any) -> Any:
    """Returns the scale where units are kept and else 0, [..., H].

    Args:
        integers: uint8 [..., H].
        thresholds: the least that is kept, uint8 [..., 1].
        scale: what the kept units are multiplied with.
        dtype: number format of the factors.
    """
    kept = ops.greater_equal(integers, thresholds)  # [..., H]
    return ops.cast(kept, dtype) * ops.cast(scale, dtype)


@functools.cache  # so that all dropouts of a rate share what is compiled
def _times_factors_in_one_loop(scale: float) -> Callable:
    return one_loop(
        lambda x, integers, thresholds: x * _factors(integers, thresholds, scale, x.dtype)
    )


def scale_and_threshold(rate: float, dtype: Any) -> tuple[float, float]:
    """Returns the factor of kept units in a number format, and how many of 256 bytes are not kept.

    The second is a fraction: the mean of the thresholds of all rows.
    """
    scale = float(np.asarray(1 / (1 - rate), keras.backend.standardize_dtype(dtype)))
    return scale, _BYTES * (1 - 1 / scale)
