"""The activation functions that a config can name."""

from collections.abc import Callable
from functools import partial

from keras import ops

_FUNCTIONS = {
    "gelu": partial(ops.gelu, approximate=False),
    "gelu_tanh": partial(ops.gelu, approximate=True),
    "relu": ops.relu,
    "silu": ops.silu,
    "tanh": ops.tanh,
}


def activation_function(name: str) -> Callable:
    """Returns the elementwise function that `BertConfig.hidden_act` names."""
    return _FUNCTIONS[name]
