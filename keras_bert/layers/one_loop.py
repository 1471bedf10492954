"""Elementwise functions as one loop: on a processor XLA compiles their operations together.

TensorFlow runs one operation after the other, and each goes through the memory once: an exact GELU
with its derivative reads and writes the widest tensor of a block some thirty times. Compiled as one
function it is read once. Only elementwise operations gain: matrix products are faster outside of
XLA (oneDNN), and so are softmax, norms and random numbers.

Accelerators are left alone: what XLA compiles as a whole, it joins anyway.
"""

import functools
import math
import os
from collections.abc import Callable
from typing import Any

import keras

# Below it a call of compiled code costs more than it saves, and compiling takes tenths of a second.
LEAST_ELEMENTS = 2**17

# 0 in the environment turns it off.
SWITCH = "KERAS_BERT_ONE_LOOP"


def in_one_loop(function: Callable) -> Callable:
    """Returns a function of one tensor that runs in one loop where that is faster.

    That is under TensorFlow, in a graph, without an accelerator, for tensors of a shape that is
    known when the graph is made and of at least `LEAST_ELEMENTS` elements. Elsewhere the function
    is called as it is. Gradients do not go through it.

    Args:
        function: of elementwise operations in `keras.ops`: a tensor in, one or several out.
    """

    @functools.cache
    def compiled() -> Callable:
        import tensorflow as tf

        return tf.function(function, jit_compile=True, autograph=False)

    @functools.wraps(function)
    def call(tensor: Any) -> Any:
        return compiled()(tensor) if _gains(tensor) else function(tensor)

    return call


def _gains(tensor: Any) -> bool:
    if keras.backend.backend() != "tensorflow" or os.environ.get(SWITCH) == "0":
        return False
    import tensorflow as tf

    if tf.executing_eagerly() or not tensor.shape.is_fully_defined():
        return False
    if math.prod(tensor.shape) < LEAST_ELEMENTS:
        return False
    return all(device.device_type == "CPU" for device in tf.config.list_logical_devices())
