"""Where a job runs: the tf.distribute strategy behind the `--strategy` flag."""

import functools
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import tensorflow as tf

from keras_bert.choices import StrategyName, check_choice

_NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")


def create_strategy(name: StrategyName = "auto", tpu: str | None = None) -> tf.distribute.Strategy:
    """Returns the strategy of that name.

    Args:
        name: "tpu"; "mirrored" for all GPUs of this machine (or all logical CPU devices where there
            is none); "multi_worker" for machines described in TF_CONFIG; "cpu"; or "auto": a TPU
            when `tpu` is given, GPUs when there are any, otherwise the processor.
        tpu: name or address of the TPU, "local" on a TPU VM.

    Raises:
        ValueError: the name is unknown, there is no such device, a TPU is named that the strategy
            would not use, or GPUs are to be left out that TensorFlow has begun with.
    """
    check_choice("strategy", name, StrategyName)
    if tpu and name not in ("auto", "tpu"):
        raise ValueError(
            f"tpu is {tpu!r}, but the strategy {name} uses none: leave it out, or take "
            "--strategy=tpu"
        )
    if name == "auto":
        name = "tpu" if tpu else "mirrored" if tf.config.list_physical_devices("GPU") else "cpu"
        is_chosen = "CUDA_VISIBLE_DEVICES" in os.environ  # perhaps none, on purpose
        if name == "cpu" and not is_chosen and _NVIDIA_DRIVER.exists():
            print(
                "this machine has NVIDIA's driver, but TensorFlow sees no GPU, so the processor is "
                "used: install 'tensorflow[and-cuda]' in the version of tensorflow",
                file=sys.stderr,
            )
    return _CREATORS[name](tpu)


def has_other_hosts(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether this process drives devices of other machines, as those of a TPU slice."""
    if not isinstance(strategy, tf.distribute.TPUStrategy | tf.distribute.OneDeviceStrategy):
        return False  # workers drive their own devices only
    jobs = {tf.DeviceSpec.from_string(name).job for name in strategy.extended.worker_devices}
    return bool(jobs - {None, "localhost"})


def compiles_step() -> bool:
    """Returns whether XLA is asked to compile the training step.

    On a GPU it pays; on a processor it makes steps slower; a TPU compiles without being asked.
    """
    return bool(tf.config.list_logical_devices("GPU"))


# Here and below once a process. A TPU that is initialized again forgets what it holds.
@functools.cache
def _tpu(tpu: str | None) -> tf.distribute.Strategy:
    print(
        f"connecting to the TPU {tpu or 'local'!r}: where there is none, this takes minutes",
        file=sys.stderr,
    )
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=tpu or "local")
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    # RuntimeError: a slice that is not ready, or no client of Google's API to look its name up.
    except (ValueError, OSError, RuntimeError, tf.errors.OpError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(f"no TPU answers at {tpu or 'local'!r}: {reason}") from None
    return tf.distribute.TPUStrategy(resolver)


# TensorFlow starts counting its collective keys anew for each MirroredStrategy, so a second one on
# the same devices meets the collectives of the first.
@functools.cache
def _mirrored(_: str | None) -> tf.distribute.Strategy:
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    if len(devices) == 1:  # where TensorFlow computes anyway: one replica, no wrapping
        return tf.distribute.get_strategy()
    return tf.distribute.MirroredStrategy([device.name for device in devices])


# TensorFlow makes the cluster when it starts, before it computes anything.
@functools.cache
def _multi_worker(_: str | None) -> tf.distribute.Strategy:
    # Without it TensorFlow would take this machine for the whole cluster.
    value = os.environ.get("TF_CONFIG")
    if not value:
        raise ValueError(
            "the strategy multi_worker needs the environment variable TF_CONFIG with the addresses "
            "of all workers and the index of this one: set it, or take --strategy=mirrored"
        )
    example = (
        '{"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type": "worker", "index": 0}}'
    )
    try:
        content = json.loads(value)
    except ValueError as error:
        raise ValueError(f"TF_CONFIG is not JSON ({error}): give it as {example}") from None
    try:
        cluster, task = content["cluster"], content["task"]
        kind, index = task["type"], int(task["index"])
        number = len(cluster.get(kind, ()))
    except (AttributeError, TypeError, KeyError, ValueError):
        raise ValueError(
            f"TF_CONFIG must hold a cluster of workers and a task, as in {example}: it is {value}"
        ) from None
    if kind not in ("chief", "worker"):
        raise ValueError(
            f"TF_CONFIG names a task of type {kind!r}: all processes are workers, or one the chief"
        )
    if not 0 <= index < number:
        raise ValueError(
            f"TF_CONFIG names task {kind} {index}, but its cluster has {number} of them: number "
            "them from 0"
        )
    return tf.distribute.MultiWorkerMirroredStrategy()


def _cpu(_: str | None) -> tf.distribute.Strategy:
    if tf.config.list_physical_devices("GPU"):
        try:
            tf.config.set_visible_devices([], "GPU")  # TensorFlow would take the first one
        except RuntimeError:
            raise ValueError(
                "the strategy cpu comes too late, as TensorFlow has begun with this process's "
                "GPUs: take it in a new process, or set CUDA_VISIBLE_DEVICES=-1 before"
            ) from None
    return tf.distribute.get_strategy()  # the default strategy: one replica, no wrapping


_CREATORS: Mapping[StrategyName, Callable[[str | None], tf.distribute.Strategy]] = {
    "tpu": _tpu,
    "mirrored": _mirrored,
    "multi_worker": _multi_worker,
    "cpu": _cpu,
}
