"""Strategies by name: a TPU that is not ready or would not be used, a device without others."""

import subprocess
import sys

import pytest
import tensorflow as tf

from keras_bert.training.strategy import create_strategy


def test_a_tpu_slice_that_is_not_ready_is_told_in_one_sentence(monkeypatch):
    def look_up(tpu):
        # As TensorFlow's client does, tensorflow/python/tpu/client/client.py.
        raise RuntimeError(f'TPU "{tpu}" is not yet ready; state: "CREATING"')

    monkeypatch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", look_up)
    with pytest.raises(ValueError, match='no TPU answers at .slice.: TPU "slice" is not yet ready'):
        create_strategy("tpu", "slice")


@pytest.mark.parametrize("name", ["mirrored", "multi_worker", "cpu"])
def test_a_tpu_that_the_strategy_would_not_use_is_refused(name):
    with pytest.raises(ValueError, match=f"tpu is .local., but the strategy {name} uses none"):
        create_strategy(name, "local")


@pytest.mark.slow
def test_a_device_without_others_needs_no_mirror():
    """In a process of its own: this one has two logical devices."""
    script = """
import tensorflow as tf
from keras_bert.training.strategy import create_strategy
found = create_strategy("mirrored")
several = len(tf.config.list_logical_devices("GPU")) > 1
assert several or found is tf.distribute.get_strategy(), found
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_gpus_that_tensorflow_has_begun_with_cannot_be_left_out(monkeypatch):
    tf.config.list_logical_devices()  # begins
    with pytest.raises(RuntimeError, match="cannot be modified after being initialized") as theirs:
        tf.config.set_visible_devices([], "CPU")  # as of GPUs, where there are some

    def refuse(devices, kind):
        raise theirs.value

    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["a GPU"])
    monkeypatch.setattr(tf.config, "set_visible_devices", refuse)
    with pytest.raises(ValueError, match="the strategy cpu comes too late, .*: take it in a new"):
        create_strategy("cpu")
