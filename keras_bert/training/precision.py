"""Which number format a model computes in."""

from pathlib import Path

import tensorflow as tf

PRECISIONS = ("auto", "float32", "bfloat16", "float16")


def dtype_policy(precision: str) -> str:
    """Returns the Keras dtype policy for the value of a `--mixed_precision` flag.

    Variables, softmax, layer norm and losses stay in float32 under every policy. "auto" takes
    bfloat16 where the hardware multiplies it faster than float32: on TPUs, on GPUs of compute
    capability 8.0 and later, and on processors with AVX512-BF16 or AMX.

    Raises:
        ValueError: the precision is unknown.
    """
    if precision not in PRECISIONS:
        raise ValueError(
            f"precision {precision!r} is unknown: choose one of {', '.join(PRECISIONS)}"
        )
    if precision == "auto":
        precision = "bfloat16" if _bfloat16_is_fast() else "float32"
    return precision if precision == "float32" else f"mixed_{precision}"


def _bfloat16_is_fast() -> bool:
    if tf.config.list_logical_devices("TPU"):
        return True
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        details = tf.config.experimental.get_device_details(gpus[0])
        return details.get("compute_capability", (0, 0)) >= (8, 0)
    return _processor_multiplies_bfloat16()


def _processor_multiplies_bfloat16() -> bool:
    try:
        flags = Path("/proc/cpuinfo").read_text()
    except OSError:  # not Linux
        return False
    return "avx512_bf16" in flags or "amx_bf16" in flags
