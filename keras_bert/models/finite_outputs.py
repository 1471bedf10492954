"""What a model says, refused where it is no number: an argmax over NaN is class 0, or [PAD]."""

from typing import Any

import numpy as np


def check_finite(values: Any) -> None:
    """Refuses outputs of a model that are NaN or infinite.

    Args:
        values: an array; whole numbers and truth values are what they are.

    Raises:
        ValueError: a number is not finite.
    """
    values = np.asarray(values)
    if values.dtype.kind in "biu":
        return
    finite = np.isfinite(values)
    if not finite.all():
        raise ValueError(
            f"the model answers {values[~finite][0]}, which is no number to go by: its weights are "
            "damaged, or too large for the dtype; take another checkpoint, or float32"
        )
