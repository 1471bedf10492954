"""Which number format a model computes in."""

import functools
import os
import time
from pathlib import Path

import tensorflow as tf

from keras_bert.choices import Precision, check_choice

# Parts of the values of ONEDNN_MAX_CPU_ISA that let oneDNN multiply bfloat16 in hardware.
_WITH_BFLOAT16 = ("DEFAULT", "ALL", "BF16", "FP16", "AMX", "AVX10")
# Products of each format that are timed; the fastest counts, the first one warms.
_PRODUCTS = 6


def dtype_policy(precision: Precision) -> str:
    """Returns the Keras dtype policy for the value of a `--mixed_precision` flag.

    Variables, softmax, layer norm and losses stay in float32 under every policy. "auto" takes
    bfloat16 where the hardware multiplies it faster than float32: on TPUs, on GPUs of compute
    capability 8.0 and later, and on processors with AVX512-BF16 or AMX where a few products, timed
    once in a process, are faster in it.

    Raises:
        ValueError: the precision is unknown.
    """
    check_choice("mixed_precision", precision, Precision)
    if precision == "auto":
        precision = "bfloat16" if _bfloat16_is_fast() else "float32"
    return precision if precision == "float32" else f"mixed_{precision}"


class DynamicLossScale:
    """A factor that keeps float16 gradients in the range of their format.

    It is halved whenever a gradient overflows, a step that counts for nothing, and doubled after
    2,000 steps without one (Micikevicius et al. 2018, arXiv:1710.03740). To be made in the scope of
    the strategy.
    """

    _STEPS_TO_DOUBLE = 2000

    def __init__(self) -> None:
        self.value = _counter(2.0**15, tf.float32)
        self.good_steps = _counter(0, tf.int32)

    @property
    def variables(self) -> dict[str, tf.Variable]:
        """What a checkpoint keeps, by name."""
        return {"loss_scale": self.value, "loss_scale_good_steps": self.good_steps}

    def update(self, finite: tf.Tensor) -> None:
        """Takes note, in a replica, of whether the gradients of a step were finite."""
        steps = tf.where(finite, self.good_steps + 1, 0)  # []
        is_long = steps >= self._STEPS_TO_DOUBLE
        grown = tf.where(is_long, self.value * 2.0, self.value.read_value())
        self.value.assign(tf.where(finite, grown, tf.maximum(self.value * 0.5, 1.0)))
        self.good_steps.assign(tf.where(is_long, 0, steps))


def _counter(value: float, dtype: tf.DType) -> tf.Variable:
    # All replicas compute the same new value, so the first one's is taken.
    first = tf.VariableAggregation.ONLY_FIRST_REPLICA
    return tf.Variable(value, trainable=False, dtype=dtype, aggregation=first)


def _bfloat16_is_fast() -> bool:
    if tf.config.list_logical_devices("TPU"):
        return True
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        details = tf.config.experimental.get_device_details(gpus[0])
        return details.get("compute_capability", (0, 0)) >= (8, 0)
    # TensorFlow asks the processor and not oneDNN, whose limit may forbid what the processor can:
    # a bfloat16 product under AVX2 aborts the process.
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", "DEFAULT").upper()
    if not any(part in limit for part in _WITH_BFLOAT16):
        return False
    try:
        flags = Path("/proc/cpuinfo").read_text()
    except OSError:  # not Linux
        return False
    return ("avx512_bf16" in flags or "amx_bf16" in flags) and _bfloat16_products_are_faster()


@functools.cache
def _bfloat16_products_are_faster() -> bool:
    # Instructions for bfloat16 promise nothing: an Intel Xeon with AVX512-BF16 and without AMX
    # multiplies it at 0.5 to 0.7 times the speed of float32, an AMD EPYC with it at 1.9 times.
    with tf.init_scope(), tf.device("CPU:0"):
        shapes = ([256, 768], [768, 768])
        sides = {
            dtype: [tf.ones(shape, dtype) for shape in shapes]
            for dtype in (tf.float32, tf.bfloat16)
        }
        times: dict[tf.DType, list[float]] = {dtype: [] for dtype in sides}
        for _ in range(_PRODUCTS):
            for dtype, matrices in sides.items():  # in turns, as other work comes and goes
                started = time.perf_counter()
                tf.matmul(*matrices).numpy()
                times[dtype].append(time.perf_counter() - started)
    return min(times[tf.bfloat16]) < min(times[tf.float32])
