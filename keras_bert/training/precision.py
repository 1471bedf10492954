"""Which number format a model computes in."""

import os
from pathlib import Path

import keras
import tensorflow as tf

from keras_bert.choices import Precision, check_choice

# Parts of the values of ONEDNN_MAX_CPU_ISA that let oneDNN multiply bfloat16 in tiles, in vectors.
_WITH_AMX = ("DEFAULT", "ALL", "AMX")
_WITH_AVX512_BF16 = (*_WITH_AMX, "BF16", "FP16", "AVX10")
_CPU_INFO = Path("/proc/cpuinfo")


def dtype_policy(precision: Precision) -> str:
    """Returns the Keras dtype policy for the value of a `--mixed_precision` flag.

    Variables, softmax, layer norm and losses stay in float32 under every policy. "auto" takes
    bfloat16 where the hardware multiplies it faster than float32: on TPUs, on GPUs of compute
    capability 8.0 and later, on processors with AMX and on those of AMD with AVX512-BF16.

    Raises:
        ValueError: the precision is unknown.
    """
    precision = resolved_precision(precision)
    return precision if precision == "float32" else f"mixed_{precision}"


def resolved_precision(precision: Precision) -> Precision:
    """Returns the number format itself, for "auto" that of this machine.

    The hardware alone decides: alike machines agree, and others may not.

    Raises:
        ValueError: the precision is unknown.
    """
    check_choice("mixed_precision", precision, Precision)
    if precision != "auto":
        return precision
    return "bfloat16" if _bfloat16_is_fast() else "float32"


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


def create_loss_scale(policy: keras.DTypePolicy) -> DynamicLossScale | None:
    """Returns the loss scale of a model, None where its numbers have the range of float32."""
    return DynamicLossScale() if policy.compute_dtype == "float16" else None


def _counter(value: float, dtype: tf.DType) -> tf.Variable:
    # All replicas compute the same new value, so the first one's is taken.
    first = tf.VariableAggregation.ONLY_FIRST_REPLICA
    return tf.Variable(value, trainable=False, dtype=dtype, aggregation=first)


def _bfloat16_is_fast() -> bool:
    if tf.config.list_logical_devices("TPU"):
        return True
    gpus = tf.config.get_visible_devices("GPU")  # none under the strategy "cpu"
    if gpus:
        details = tf.config.experimental.get_device_details(gpus[0])
        return details.get("compute_capability", (0, 0)) >= (8, 0)
    # TensorFlow asks the processor and not oneDNN, whose limit may forbid what the processor can:
    # a bfloat16 product under AVX2 aborts the process.
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", "DEFAULT").upper()
    try:
        processor = _CPU_INFO.read_text()
    except OSError:  # not Linux
        return False
    if "amx_bf16" in processor and any(part in limit for part in _WITH_AMX):
        return True
    # Instructions alone promise nothing: an Intel Xeon with AVX512-BF16 and without AMX multiplies
    # bfloat16 at 0.5 to 0.7 times the speed of float32, an AMD EPYC at 1.9 times.
    is_amd = "AuthenticAMD" in processor
    allowed = any(part in limit for part in _WITH_AVX512_BF16)
    return "avx512_bf16" in processor and is_amd and allowed
