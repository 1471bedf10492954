"""The activation functions that a config can name.

Two functions are called "gelu" in the field: x times the normal distribution function (with erf),
and its approximation with tanh, which google-research/bert computes. They differ in the fourth
digit, so each has a name of its own here; `BertConfig` translates the names in others' files.

All of them are elementwise: a tensor of any shape in, the same shape and dtype out.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from keras import ops


def gelu(x: Any) -> Any:
    """Returns x times the normal distribution function (Hendrycks and Gimpel 2016), in float32.

    Keras computes it with erfc, for which TensorFlow has no vector instructions: in bfloat16 that
    takes 20 times as long as erf. The gradient is written by hand, with what the way there has
    computed: phi(x) = exp(-x^2 / 2) / sqrt(2 pi) is the derivative of the distribution function.

    Args:
        x: float [..., I]. A list of tokens [T, I], as served models have it, is left to Keras'
            formula, which TensorFlow recognises and computes inside the matrix product.
    """
    if len(x.shape) == 2:
        return ops.gelu(x, approximate=False)
    return _gelu(x)


@ops.custom_gradient
def _gelu(x: Any) -> tuple[Any, Callable]:
    wide = ops.cast(x, "float32")
    probability = 0.5 + 0.5 * ops.erf(wide * math.sqrt(0.5))

    def gradient(*arguments: Any, upstream: Any = None) -> Any:
        upstream = arguments[-1] if upstream is None else upstream
        wide = ops.cast(x, "float32")
        density = ops.exp(-0.5 * wide * wide) * (1 / math.sqrt(2 * math.pi))
        slope = probability + wide * density
        return ops.cast(ops.cast(upstream, "float32") * slope, x.dtype)

    return ops.cast(wide * probability, x.dtype), gradient


_FUNCTIONS = {
    "gelu": gelu,
    "gelu_tanh": partial(ops.gelu, approximate=True),  # 0.5 x (1 + tanh(0.7979 (x + 0.0447 x^3)))
    "relu": ops.relu,
    "silu": ops.silu,  # x * sigmoid(x)
    "tanh": ops.tanh,
}


def activation_function(name: str) -> Callable:
    """Returns the elementwise function that `BertConfig.hidden_act` names."""
    return _FUNCTIONS[name]
