"""Numbers among options: counts (sizes, steps, seeds), temperatures, and those of NumPy.

No TensorFlow and no NumPy here: flags are made of options, and clients read them.
"""

import dataclasses
import math
import numbers
import operator
import typing
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# Logits divided by much less are infinite in float32.
_LEAST_TEMPERATURE = 1e-6
# NumPy's and Keras' global seeds have 32 bits.
LARGEST_SEED = (1 << 32) - 1
# NVIDIA pads to multiples of 8, others to 64 or 128, Megatron to 128 for each of its GPUs.
_PADDED_TO = (8, 16, 32, 64, 128, 256, 512, 1024)


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
    return None if value is None else needed_count(name, value, least, most)


def needed_count(name: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """Checks an option that counts something and cannot be left out, so that None is refused, too.

    Args:
        name: of the option, for the error.
        value: what was given.
        least: the smallest value that it may have.
        most: the largest one; None for any.

    Raises:
        ValueError: it is no whole number, or out of its range.
    """
    if most is not None:
        allowed = f"from {least:,} to {most:,}"
    else:
        allowed = "0 or more" if least == 0 else f"at least {least}"
    try:
        if isinstance(value, bool):  # which is a number to Python, and none to NumPy
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} is {value!r}: it must be a whole number, {allowed}") from None
    if number < least or (most is not None and number > most):
        raise ValueError(f"{name} is {value}: it must be {allowed}")
    return number


def take_numbers(options: "DataclassInstance") -> None:
    """Makes NumPy's numbers in options Python's own, which the JSON of a job or a run takes.

    Args:
        options: a dataclass, frozen or not.

    Raises:
        ValueError: a string stands for a float or a switch; YAML reads 1e-4 as one, and "false"
            would be true. `check_count` refuses one for a whole number.
    """
    types_of = typing.get_type_hints(type(options))
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        kinds = typing.get_args(types_of[field.name]) or (types_of[field.name],)
        plain = plain_number(value)
        if plain is not value:
            object.__setattr__(options, field.name, plain)
        elif isinstance(value, str) and str not in kinds and {float, bool} & {*kinds}:
            wanted = "a number" if float in kinds else "True or False"
            raise ValueError(f"{field.name} is the string {value!r}: give {wanted}")


def plain_number(value: Any) -> Any:
    """Returns a number of NumPy as one of Python, of which JSON is made; all else as it is.

    Args:
        value: what was given.
    """
    return value.item() if hasattr(value, "item") and value.shape == () else value


def check_switch(name: str, value: Any) -> None:
    """Checks an option that is on or off.

    Args:
        name: of the option, for the error.
        value: what was given.

    Raises:
        ValueError: it is neither True nor False; the string "false" would be true.
    """
    if not isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}: give True or False")


def check_number(name: str, value: Any) -> float:
    """Checks an option that is a number; returns it as a `float`, also where it is NumPy's.

    Args:
        name: of the option, for the error.
        value: what was given; NaN and infinity are left to the caller.

    Raises:
        ValueError: it is none, such as None or a string.
    """
    if not isinstance(value, numbers.Real):
        raise ValueError(f"{name} is {value!r}: it must be a number")
    return float(value)


def check_temperature(name: str, value: float) -> None:
    """Checks what logits are divided by.

    Args:
        name: of the option, for the error.
        value: what was given.

    Raises:
        ValueError: it is too small to divide by, or no finite number.
    """
    if not _LEAST_TEMPERATURE <= check_number(name, value) < math.inf:  # nor is NaN
        raise ValueError(
            f"{name} is {value}: it must be finite and at least {_LEAST_TEMPERATURE:g} (a top_k of "
            "1 takes the likeliest pieces)"
        )


def padded_counts(count: int) -> tuple[int, ...]:
    """Returns a number rounded up to multiples of 8, 16, ... and 1024, ascending.

    Tables are padded so for faster matrix products.
    """
    return tuple(sorted({-count // multiple * -multiple for multiple in _PADDED_TO}))
