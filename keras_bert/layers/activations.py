"""The activation functions that a config can name.

Two functions are called "gelu" in the field: x times the normal distribution function (with erf),
and its approximation with tanh, which google-research/bert computes. They differ in the fourth
digit, so each has a name of its own here; `BertConfig` translates the names in others' files.

All of them are elementwise: a tensor of any shape in, the same shape and dtype out.
"""

from collections.abc import Callable
from functools import partial

from keras import ops

_FUNCTIONS = {
    "gelu": partial(ops.gelu, approximate=False),  # x * Phi(x), with erf
    "gelu_tanh": partial(ops.gelu, approximate=True),  # 0.5 x (1 + tanh(0.7979 (x + 0.0447 x^3)))
    "relu": ops.relu,
    "silu": ops.silu,  # x * sigmoid(x)
    "tanh": ops.tanh,
}


def activation_function(name: str) -> Callable:
    """Returns the elementwise function that `BertConfig.hidden_act` names."""
    return _FUNCTIONS[name]
