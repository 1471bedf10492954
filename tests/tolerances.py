"""How far two results may be apart, decided here for all tests, so that they hold on any processor.

Same graph and same shapes: not at all, use `np.testing.assert_array_equal`. Other numbers in tests
are of another kind: digits that a file holds, shares that a model learns, estimates of a plan.
"""

from collections.abc import Mapping
from typing import Any

import pytest

# For functions of tests that are given a tolerance.
EXACT = {"rtol": 0, "atol": 0}

# The same arithmetic in another order or shape (another batch size, padding, length, graph or
# number of threads): processors sum the products of a matrix multiplication in orders of their
# own, and AMX, AVX512 and AVX2 kernels choose them by shape. Seen: 1.07e-6 between two float32
# softmax outputs on a Xeon with AMX. Scores, logits and hidden states are of the order of 1.
REORDERED = {"rtol": 1e-5, "atol": 1e-5}

# Weights after training steps that differ as above. Adam divides each gradient by its own size, so
# what rounding leaves of a gradient moves the weight by a part of the learning rate (1e-3 or more
# in these tests), not by a part of the weight.
REORDERED_UPDATES = {"rtol": 0, "atol": 1e-5}

# The same after fourteen updates, in each of which the parts add up. Seen in the position table of
# a multiple choice head: 1.12e-5.
REORDERED_FOURTEEN_UPDATES = {"rtol": 1e-5, "atol": 3e-5}

# Adam's second moments are squares of gradients, far below 1, with twice their relative error.
REORDERED_MOMENTS = {"rtol": 2e-4, "atol": 2e-6}

# Another library with the same weights, in float32, on hidden states, probabilities and logits.
ORACLE = {"rtol": 1e-5, "atol": 1e-5}

# A formula in float32 against the same in float64 or by hand, on numbers of the order of 1: losses,
# learning rates divided by their peak, means, ten updates of an optimizer. One operation rounds by
# 6e-8 of its result.
FORMULA = {"rtol": 1e-6, "atol": 1e-6}

# Weights that steps of a learning rate near zero (1e-7 and less) have left where they were. A step
# without bias correction moves a weight by up to three times the rate.
UNMOVED = {"rtol": 0, "atol": 1e-5}

# Another runtime (LiteRT, ONNX) that computes tanh, erf and softmax by approximations of its own.
CONVERTED = {"rtol": 0, "atol": 1e-4}

# bfloat16 keeps 8 bits of a number (0.4 %), and each of the two layers rounds hidden states of the
# order of 1 a dozen times.
BFLOAT16 = {"rtol": 0, "atol": 0.1}

# After a few steps in bfloat16 or float16: weights and losses against the same in another order,
# and a loss of about 4 against that of float32.
HALF_PRECISION_TRAINING = {"rtol": 1e-3, "atol": 1e-3}
HALF_PRECISION_LOSS = {"rtol": 0, "atol": 5e-3}

# Weights rounded to 8 bits, in steps of 1/127 of the largest weight of a row.
INT8_LOGITS = {"rtol": 0, "atol": 1.0}
INT8_PROBABILITIES = {"rtol": 0, "atol": 0.1}


def approx(expected: Any, tolerance: Mapping[str, float]) -> Any:
    """Returns `pytest.approx` (for numbers and dictionaries of them) with one of the above."""
    return pytest.approx(expected, rel=tolerance["rtol"], abs=tolerance["atol"])
