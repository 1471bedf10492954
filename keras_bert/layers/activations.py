"""The activation functions that a config can name.

Two functions are called "gelu" in the field: x times the normal distribution function (with erf),
and its approximation with tanh, which google-research/bert computes. They differ in the fourth
digit, so each has a name of its own here; `BertConfig` translates the names in others' files.

Both are x times a gate m(x) that opens from 0 to 1, and their derivative is m + x m'. In training
it is written out, in float32. It takes m from the forward pass, or where it is one loop, computes m
again: inside of a loop that costs less than to keep it.

All of them are elementwise: a tensor of any shape in, the same shape and dtype out.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

from keras import ops

from keras_bert.layers.one_loop import gains_from_one_loop, one_loop, with_gradient


@functools.cache  # so that all blocks share what is compiled
def activation_function(name: str) -> Callable:
    """Returns the function `f(x, training=False)` that `BertConfig.hidden_act` names."""
    function = _FUNCTIONS[name]
    if name not in _GATES:
        return lambda x, training=False: function(x)
    # Without training it is Keras', which TensorFlow knows as a part of matrix products.
    learning = _gated(*_GATES[name])
    return lambda x, training=False: learning(x) if training else function(x)


_FUNCTIONS: dict[str, Callable] = {
    # x Phi(x), Phi being the normal distribution function (arXiv:1606.08415)
    "gelu": lambda x: ops.gelu(x, approximate=False),
    # 0.5 x (1 + tanh(0.7979 (x + 0.0447 x^3)))
    "gelu_tanh": lambda x: ops.gelu(x, approximate=True),
    "relu": ops.relu,
    "silu": ops.silu,  # x * sigmoid(x)
    "tanh": ops.tanh,
}


def _gated(gate: Callable, slope: Callable) -> Callable:
    """Returns the function x m(x) with a gradient of its own.

    Args:
        gate: returns m(x), of x in float32.
        slope: returns m'(x), of x and m(x).
    """

    def gate_of(x: Any) -> Any:
        return gate(ops.cast(x, "float32"))

    def value(x: Any, gate_of_x: Any) -> Any:
        return ops.cast(ops.cast(x, "float32") * gate_of_x, x.dtype)

    def product(x: Any, gate_of_x: Any, upstream: Any) -> Any:
        x_32, upstream_32 = ops.cast(x, "float32"), ops.cast(upstream, "float32")
        derivative = gate_of_x + x_32 * slope(x_32, gate_of_x)
        return ops.cast(upstream_32 * derivative, x.dtype)

    value_in_one_loop = one_loop(lambda x: value(x, gate_of(x)))
    product_in_one_loop = one_loop(lambda x, upstream: product(x, gate_of(x), upstream))

    @with_gradient
    def function(x: Any) -> tuple[Any, Callable]:
        if in_one_loop := gains_from_one_loop(x):
            result = value_in_one_loop(x)
        else:
            gate_of_x = gate_of(x)
            result = value(x, gate_of_x)

        def gradient(upstream: Any) -> Any:
            if in_one_loop:
                return product_in_one_loop(x, upstream)
            return product(x, gate_of_x, upstream)

        return result, gradient

    return function


def _normal_distribution(x: Any) -> Any:
    """Returns Phi(x)."""
    # By erf: TensorFlow has vector instructions for it, and none for the erfc that Keras takes.
    return 0.5 + 0.5 * ops.erf(x * math.sqrt(0.5))


def _normal_density(x: Any, _: Any) -> Any:
    """Returns phi(x) = Phi'(x)."""
    return ops.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))


_A, _C = 0.044715, math.sqrt(2 / math.pi)


def _tanh_gate(x: Any) -> Any:
    """Returns (1 + tanh u) / 2 with u = c (x + a x^3)."""
    return 0.5 + 0.5 * ops.tanh(_C * x * (1 + _A * x * x))


def _tanh_gate_slope(x: Any, gate: Any) -> Any:
    """Returns (1 - tanh(u)^2) / 2 times du / dx = c (1 + 3 a x^2)."""
    # 1 - t^2 = (1 + t) (1 - t), and 1 + t is twice the gate.
    return 2 * gate * (1 - gate) * (_C * (1 + 3 * _A * x * x))


_GATES: dict[str, tuple[Callable, Callable]] = {
    "gelu": (_normal_distribution, _normal_density),
    "gelu_tanh": (_tanh_gate, _tanh_gate_slope),
}
