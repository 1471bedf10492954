"""The activation functions that a config can name.

Two functions are called "gelu" in the field: x times the normal distribution function (with erf),
and its approximation with tanh, which google-research/bert computes. They differ in the fourth
digit, so each has a name of its own here; `BertConfig` translates the names in others' files.

All of them are elementwise: a tensor of any shape in, the same shape and dtype out.
"""

import math
from collections.abc import Callable
from typing import Any

from keras import ops


def activation_function(name: str) -> Callable:
    """Returns the function `f(x, training=False)` that `BertConfig.hidden_act` names."""
    if name == "gelu":
        return _gelu
    function = _FUNCTIONS[name]
    return lambda x, training=False: function(x)


_FUNCTIONS: dict[str, Callable] = {
    # 0.5 x (1 + tanh(0.7979 (x + 0.0447 x^3)))
    "gelu_tanh": lambda x: ops.gelu(x, approximate=True),
    "relu": ops.relu,
    "silu": ops.silu,  # x * sigmoid(x)
    "tanh": ops.tanh,
}


def _gelu(x: Any, training: bool = False) -> Any:
    """Returns x * Phi(x), Phi being the normal distribution function (arXiv:1606.08415)."""
    # Keras computes it with erfc, which TensorFlow knows as a part of matrix products where nothing
    # is kept for a gradient. By itself it has no vector instructions for erfc, but for erf.
    return _differentiable_gelu(x) if training else ops.gelu(x, approximate=False)


@ops.custom_gradient
def _differentiable_gelu(x: Any) -> tuple[Any, Callable]:
    x_32 = ops.cast(x, "float32")
    probability = 0.5 + 0.5 * ops.erf(x_32 * math.sqrt(0.5))  # Phi(x)

    # With what the forward pass has computed: the derivative of x Phi(x) is Phi(x) + x phi(x).
    # Backends hand in the upstream gradient last or by its name.
    def gradient(*arguments: Any, upstream: Any = None) -> Any:
        upstream = arguments[-1] if upstream is None else upstream
        x_32 = ops.cast(x, "float32")  # again: kept as x alone, of half the bytes in bfloat16
        density = ops.exp(-0.5 * x_32 * x_32) * (1 / math.sqrt(2 * math.pi))  # phi(x)
        return ops.cast(ops.cast(upstream, "float32") * (probability + x_32 * density), x.dtype)

    return ops.cast(x_32 * probability, x.dtype), gradient
