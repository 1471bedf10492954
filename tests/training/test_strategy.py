"""Strategies by name: a TPU that is not ready, a TPU that would not be used."""

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
