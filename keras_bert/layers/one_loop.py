"""Functions as one loop: on a processor XLA compiles their elementwise operations together.

TensorFlow runs one operation after the other, and each goes through the memory once: an exact GELU
and its derivative read and write the widest tensor of a block some thirty times. Compiled as one
function it is read once. Sums over the rows of a norm gain with what stands around them; matrix
products, softmax and random numbers are faster outside of XLA.

Accelerators are left alone: what XLA compiles as a whole, it joins anyway.
"""

import contextlib
import contextvars
import functools
import math
import os
from collections.abc import Callable, Iterator
from typing import Any

import keras
from keras import ops

# Below it a call of compiled code costs more than it saves, and compiling takes tenths of a second.
LEAST_ELEMENTS = 2**17

# Of float32 numbers: XLA splits their loops over threads less well than TensorFlow its operations.
# With four threads nothing is gained (`benchmarks/layer_speed.py` measures both).
MOST_THREADS = 3

# 0 in the environment turns it off.
SWITCH = "KERAS_BERT_ONE_LOOP"

_FOR_ACCELERATOR = contextvars.ContextVar("graph_of_accelerator", default=False)


def one_loop(function: Callable) -> Callable:
    """Returns a function compiled as one loop, to be called where `gains_from_one_loop`.

    It is for functions whose gradient is written by hand: its own has loops of several outputs.

    Args:
        function: of elementwise operations and sums along an axis, tensors in and a single large
            one out: of several, XLA makes a loop that runs on one thread.
    """

    @functools.cache
    def compiled() -> Callable:
        import tensorflow as tf

        return tf.function(function, jit_compile=True, autograph=False)

    return lambda *tensors: compiled()(*tensors)


def gains_from_one_loop(tensor: Any) -> bool:
    """Tells whether functions of a tensor are faster as one loop.

    That is where `is_graph_of_processor`, for a shape that is known when the graph is made and of
    at least `LEAST_ELEMENTS` elements; in float32 with at most `MOST_THREADS`.
    """
    if os.environ.get(SWITCH) == "0" or not is_graph_of_processor():
        return False
    if not tensor.shape.is_fully_defined() or math.prod(tensor.shape) < LEAST_ELEMENTS:
        return False
    return tensor.dtype.size < 4 or _threads() <= MOST_THREADS


def is_graph_of_processor() -> bool:
    """Tells whether a graph of TensorFlow is made, and there is no accelerator to run it."""
    if keras.backend.backend() != "tensorflow" or _FOR_ACCELERATOR.get():
        return False
    import tensorflow as tf

    if tf.executing_eagerly():
        return False
    return all(device.device_type == "CPU" for device in tf.config.list_logical_devices())


def with_gradient(function: Callable) -> Callable:
    """Returns a function of tensors with a gradient of its own, under every backend.

    Args:
        function: takes tensors, not variables; returns its value, and a function from the gradient
            of that to those of its arguments.
    """

    @ops.custom_gradient
    def differentiable(*tensors: Any) -> tuple[Any, Callable]:
        value, gradient = function(*tensors)

        # Backends hand in the upstream gradient last or by its name.
        def of_tensors(*arguments: Any, upstream: Any = None) -> Any:
            return gradient(arguments[-1] if upstream is None else upstream)

        return value, of_tensors

    return differentiable


@contextlib.contextmanager
def graph_of_accelerator() -> Iterator[None]:
    """Graphs that are traced within are those of an accelerator, which need not be there."""
    token = _FOR_ACCELERATOR.set(True)
    try:
        yield
    finally:
        _FOR_ACCELERATOR.reset(token)


def _threads() -> int:
    """Returns how many threads TensorFlow may give an operation."""
    import tensorflow as tf

    if threads := tf.config.threading.get_intra_op_parallelism_threads():
        return threads
    if hasattr(os, "sched_getaffinity"):  # Linux: TensorFlow has a thread for each it may use
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
