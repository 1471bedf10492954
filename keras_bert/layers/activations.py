"""The activation functions that a config can name.

Two functions are called "gelu" in the field: x times the normal distribution function (with erf),
and its approximation with tanh, which google-research/bert computes. They differ in the fourth
digit, so each has a name of its own here; `BertConfig` translates the names in others' files.

In training a GELU computes its derivative together with its value, in float32, and keeps nothing
else. Backwards there is one product to do, and half of the bytes are kept that automatic
differentiation would keep.

All of them are elementwise: a tensor of any shape in, the same shape and dtype out.
"""

import math
from collections.abc import Callable
from typing import Any

from keras import ops

from keras_bert.layers.one_loop import in_one_loop


def activation_function(name: str) -> Callable:
    """Returns the function `f(x, training=False)` that `BertConfig.hidden_act` names."""
    if name in _GELUS:
        # Without training it is Keras', which TensorFlow knows as a part of matrix products.
        plain, learning = _FUNCTIONS[name], _differentiable(_GELUS[name])
        return lambda x, training=False: learning(x) if training else plain(x)
    function = _FUNCTIONS[name]
    return lambda x, training=False: function(x)


_FUNCTIONS: dict[str, Callable] = {
    # x Phi(x), Phi being the normal distribution function (arXiv:1606.08415)
    "gelu": lambda x: ops.gelu(x, approximate=False),
    # 0.5 x (1 + tanh(0.7979 (x + 0.0447 x^3)))
    "gelu_tanh": lambda x: ops.gelu(x, approximate=True),
    "relu": ops.relu,
    "silu": ops.silu,  # x * sigmoid(x)
    "tanh": ops.tanh,
}


def _differentiable(value_and_derivative: Callable) -> Callable:
    compute = in_one_loop(value_and_derivative)

    @ops.custom_gradient
    def function(x: Any) -> tuple[Any, Callable]:
        value, derivative = compute(x)

        # Backends hand in the upstream gradient last or by its name.
        def gradient(*arguments: Any, upstream: Any = None) -> Any:
            return (arguments[-1] if upstream is None else upstream) * derivative

        return value, gradient

    return function


def _gelu(x: Any) -> tuple[Any, Any]:
    """Returns x Phi(x) and Phi(x) + x phi(x), phi being the density of Phi."""
    x_32 = ops.cast(x, "float32")
    # By erf: TensorFlow has vector instructions for it, and none for the erfc that Keras takes.
    probability = 0.5 + 0.5 * ops.erf(x_32 * math.sqrt(0.5))  # Phi(x)
    density = ops.exp(-0.5 * x_32 * x_32) * (1 / math.sqrt(2 * math.pi))  # phi(x)
    return ops.cast(x_32 * probability, x.dtype), ops.cast(probability + x_32 * density, x.dtype)


def _gelu_tanh(x: Any) -> tuple[Any, Any]:
    """Returns y = 0.5 x (1 + t) with t = tanh(u), u = c (x + a x^3), and dy / dx."""
    a, c = 0.044715, math.sqrt(2 / math.pi)
    x_32 = ops.cast(x, "float32")
    square = x_32 * x_32
    t = ops.tanh(c * x_32 * (1 + a * square))
    half = 0.5 * (1 + t)
    # dy / dx = 0.5 (1 + t) + 0.5 x (1 - t^2) du / dx, and du / dx = c (1 + 3 a x^2)
    slope = half + 0.5 * x_32 * (1 - t * t) * (c * (1 + 3 * a * square))
    return ops.cast(x_32 * half, x.dtype), ops.cast(slope, x.dtype)


_GELUS: dict[str, Callable] = {"gelu": _gelu, "gelu_tanh": _gelu_tanh}
