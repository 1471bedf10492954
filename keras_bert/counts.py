"""Counts among options (sizes, steps, seeds), and temperatures.

No TensorFlow here: flags are made of options.
"""

import math
import operator
from typing import Any

# Logits divided by much less are infinite in float32.
_LEAST_TEMPERATURE = 1e-6
# NumPy's and Keras' global seeds have 32 bits.
LARGEST_SEED = (1 << 32) - 1


def check_count(name: str, value: Any, least: int = 1, most: int | None = None) -> int | None:
    """Checks an option that counts something; returns it as an `int`, also where it is NumPy's.

    Args:
        name: of the option, for the error.
        value: what was given; None where the option was left out.
        least: the smallest value that it may have.
        most: the largest one; None for any.

    Raises:
        ValueError: it is no whole number, or out of its range.
    """
    if value is None:
        return None
    if most is not None:
        allowed = f"from {least:,} to {most:,}"
    else:
        allowed = "0 or more" if least == 0 else f"at least {least}"
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} is {value!r}: it must be a whole number, {allowed}") from None
    if number < least or (most is not None and number > most):
        raise ValueError(f"{name} is {value}: it must be {allowed}")
    return number


def check_temperature(name: str, value: float) -> None:
    """Checks what logits are divided by.

    Args:
        name: of the option, for the error.
        value: what was given.

    Raises:
        ValueError: it is too small to divide by, or no finite number.
    """
    if not _LEAST_TEMPERATURE <= value < math.inf:  # nor is NaN
        raise ValueError(
            f"{name} is {value}: it must be finite and at least {_LEAST_TEMPERATURE:g} (a top_k of "
            "1 takes the likeliest pieces)"
        )
