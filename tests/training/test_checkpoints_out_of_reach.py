"""A store that does not answer is no empty one: a run would begin anew over its checkpoints."""

import pytest
import tensorflow as tf

from keras_bert.training.checkpointing import has_checkpoint, latest_step


def test_a_store_that_does_not_answer_is_told(tmp_path, monkeypatch):
    (tmp_path / "step-500.index").touch()
    assert has_checkpoint(str(tmp_path)) and latest_step(str(tmp_path)) == 500
    assert not has_checkpoint(str(tmp_path / "none"))

    def unavailable(path):
        raise tf.errors.UnavailableError(None, None, "503 backend error")

    monkeypatch.setattr(tf.io.gfile, "listdir", unavailable)
    with pytest.raises(tf.errors.UnavailableError, match="503"):
        has_checkpoint(str(tmp_path))
