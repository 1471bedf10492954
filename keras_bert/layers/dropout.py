"""Dropout whose masks come from 16-bit integers (Srivastava et al. 2014).

On a CPU the random numbers are the slowest part of dropout: 32 bits a unit, of which a comparison
uses few. Here each 32-bit word makes the masks of two units:

    words    int32  [..., H / 2]   drawn
    integers uint16 [..., H]       the same bits
    kept     bool   [..., H]       integers >= threshold

The threshold follows from the factor 1 / (1 - rate) *as the number format holds it*, so that the
mean stays what it was. In bfloat16 the factor for rate 0.1 is 1.109375; units are dropped at the
rate 1 - 1 / 1.109375 = 0.0986. (A bfloat16 uniform has 7 random bits and would drop 13 of 128,
which makes the mean 0.33 % low.)
"""

from typing import Any

import keras
import numpy as np
from keras import ops

_INTEGERS = 2**16


@keras.saving.register_keras_serializable("keras_bert")
class Dropout(keras.layers.Dropout):
    """Sets units to zero at random in training and scales the others, which keeps the mean.

    Args:
        rate: fraction of the units that are dropped, at least 0 and below 1. In bfloat16 to within
            0.004, as far as its factor can say it; rates below that may drop nothing.
        seed: seed of the masks; None draws one.
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs: Any):
        if kwargs.get("noise_shape") is not None:
            raise ValueError(
                "noise_shape is not known here: take keras.layers.Dropout to drop rows or columns"
            )
        super().__init__(rate, seed=seed, **kwargs)

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Returns the inputs [..., H], in training some of them zero and the others scaled."""
        if not training or not self.rate:
            return inputs
        *rows, width = ops.shape(inputs)
        half = -(-width // 2)  # rounded up
        words = keras.random.randint(
            (*rows, half, 1), -(2**31), 2**31 - 1, "int32", self.seed_generator
        )
        # [..., H / 2, 1] -> [..., H / 2, 2] -> [..., H]
        integers = ops.reshape(ops.view(words, "uint16"), (*rows, 2 * half))[..., :width]
        scale, threshold = scale_and_threshold(self.rate, inputs.dtype)
        kept = ops.cast(ops.greater_equal(integers, threshold), inputs.dtype)  # [..., H], 0 or 1
        return inputs * (kept * ops.cast(scale, inputs.dtype))


def scale_and_threshold(rate: float, dtype: Any) -> tuple[float, int]:
    """Returns the factor of kept units in a number format, and the least integer that is kept."""
    scale = float(np.asarray(1 / (1 - rate), keras.backend.standardize_dtype(dtype)))
    return scale, round(_INTEGERS * (1 - 1 / scale))
