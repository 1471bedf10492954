"""What a job runs on: the devices it sees and how fast they could be."""

import os
import platform
from typing import Any

import keras
import tensorflow as tf
import tensorflow_text as tf_text

from keras_bert.version import __version__

# Dense bfloat16 operations per second of one replica, in 10^12: the makers' data sheets. A TPU
# replica is a core: v2 and v3 have two of them a chip, and the numbers are half the chip's. The
# first that a device's name begins with counts: cards of a GPU are slower than its modules.
_PEAK_TFLOPS = {
    "NVIDIA A100": 312.0,
    "NVIDIA H100 PCIe": 756.0,
    "NVIDIA H100 NVL": 835.0,
    "NVIDIA H100": 989.0,
    "NVIDIA H200 NVL": 835.0,
    "NVIDIA H200": 989.0,
    "v2": 22.5,
    "v3": 61.5,
    "v4": 275.0,
    "v5litepod": 197.0,
    "v5p": 459.0,
    "v6e": 918.0,
}


def package_versions() -> dict[str, str]:
    """Returns the versions of this package and of what it computes with, by name."""
    # Asked from the modules: on a TPU, TensorFlow's package has another name.
    return {
        "keras_bert": __version__,
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "tensorflow-text": tf_text.__version__,
        "keras": keras.__version__,
    }


def peak_tflops(strategy: tf.distribute.Strategy) -> float | None:
    """Returns the bfloat16 operations per second of all replicas in 10^12, or None if unknown."""
    devices = tf.config.list_logical_devices("TPU") or tf.config.list_logical_devices("GPU")
    kind = _kind_of(devices[0]) if devices else None
    for name, tflops in _PEAK_TFLOPS.items():
        if kind and kind.startswith(name):
            return tflops * strategy.num_replicas_in_sync
    return None


def describe_devices() -> list[dict[str, Any]]:
    """Returns name, type and (for a GPU) model of every device."""
    return [
        {"name": device.name, "type": device.device_type, "kind": _kind_of(device)}
        for device in tf.config.list_logical_devices()
        if device.device_type in ("CPU", "GPU", "TPU")
    ]


def _kind_of(device: Any) -> str | None:
    if device.device_type == "TPU":
        return os.environ.get("TPU_ACCELERATOR_TYPE")  # set on TPU VMs, such as "v5litepod-4"
    if device.device_type == "GPU":
        gpus = tf.config.list_physical_devices("GPU")
        return tf.config.experimental.get_device_details(gpus[0]).get("device_name")
    return None
