"""Folders that only TensorFlow opens; its file system in memory stands for a bucket."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.data.corpus.reading import Corpus
from keras_bert.storage.paths import is_remote
from keras_bert.storage.remote_folders import local_copy, run_location
from tests.pretraining.pretraining_runs import run_pretraining, tiny_config, weights_of
from tests.tolerances import UNMOVED


def _put(folder, remote):
    for path in folder.iterdir():
        tf.io.gfile.makedirs(remote)
        tf.io.gfile.copy(str(path), f"{remote}/{path.name}", overwrite=True)


def _get(remote, folder):
    folder.mkdir()
    for name in tf.io.gfile.listdir(remote):
        tf.io.gfile.copy(f"{remote}/{name}", str(folder / name))


def test_what_is_remote():
    remote = ["gs://bucket/x", "s3://bucket", "ram://x", "file:///runs/x"]
    local = ["runs/x", "/runs/x", "hf://org/name", "tfds:glue/sst2"]
    assert all(map(is_remote, remote))
    assert not any(map(is_remote, local))
    assert local_copy("runs/x") == "runs/x"
    with pytest.raises(FileNotFoundError, match="ram://nowhere/x does not exist"):
        local_copy("ram://nowhere/x")


def test_an_address_is_the_same_for_a_corpus_and_a_model(tmp_path):
    (tmp_path / "a.txt").write_text("One. Two.", encoding="utf-8")
    address = f"file://{tmp_path}/a.txt"
    assert [*Corpus([address])] == [*Corpus([tmp_path / "a.txt"])]
    with open(local_copy(address), encoding="utf-8") as file:
        assert file.read() == "One. Two."
    with pytest.raises(FileNotFoundError, match="no file matches --input 'hf://org/name'"):
        Corpus(["hf://org/name"])


def test_a_copy_of_folders_in_folders():
    tf.io.gfile.makedirs("ram://copied/a/b")
    for name in ("1.txt", "a/2.txt", "a/b/3.txt"):
        with tf.io.gfile.GFile(f"ram://copied/{name}", "w") as file:
            file.write(name)
    folder = local_copy("ram://copied")
    for name in ("1.txt", "a/2.txt", "a/b/3.txt"):
        with open(f"{folder}/{name}") as file:
            assert file.read() == name


@pytest.mark.slow
def test_a_run_in_a_bucket_is_resumed_there_and_equals_a_local_one(corpus, tmp_path, capsys):
    _put(corpus / "records", "ram://bucket/records")
    steps = {"checkpoint_steps": 5, "preset_steps": 10}
    run = {"eval_data_dir": "ram://bucket/records", **steps}
    local = {"eval_data_dir": str(corpus / "records"), **steps}
    run_pretraining(corpus, tmp_path / "local", **local)
    run_pretraining(corpus, "ram://bucket/run", data_dir="ram://bucket/records", **run)
    for step in (15, 20):  # as if it had been stopped after step 10
        for path in tf.io.gfile.glob(f"ram://bucket/run/checkpoints/step-{step}.*"):
            tf.io.gfile.remove(path)
    run_location.cache_clear()  # a new process knows nothing
    run_pretraining(corpus, "ram://bucket/run", data_dir="ram://bucket/records", **run)
    assert "resumed at step 10" in capsys.readouterr().out
    (tmp_path / "back").mkdir()
    for preset in ("preset", "best_preset"):
        _get(f"ram://bucket/run/{preset}", tmp_path / "back" / preset)
    back, expected = weights_of(tmp_path / "back"), weights_of(tmp_path / "local")
    for path, value in expected.items():
        np.testing.assert_array_equal(back[path], value, err_msg=path)
    with tf.io.gfile.GFile("ram://bucket/run/metrics.jsonl") as file:
        assert [line.split('"step": ')[1].split(",")[0] for line in file if "eval" in line] == [
            "20"
        ]
    for name in ("step_10", "step_20"):
        _get(f"ram://bucket/run/kept_presets/{name}", tmp_path / "back" / name)
        for path, value in weights_of(tmp_path / "local", f"kept_presets/{name}").items():
            np.testing.assert_array_equal(weights_of(tmp_path / "back", name)[path], value)
    # They would fill the local disk.
    assert not list(run_location("ram://bucket/run").local.glob("kept_presets/*/*"))
    assert tf.io.gfile.glob("ram://bucket/run/tensorboard/train/events*")
    assert len(tf.io.gfile.GFile("ram://bucket/run/starts.jsonl").read().splitlines()) == 2


@pytest.mark.slow
def test_a_run_starts_from_a_model_in_a_bucket(corpus, tmp_path):
    run_pretraining(corpus, tmp_path / "first", train_steps=4)
    _put(tmp_path / "first" / "preset", "ram://models/first")
    run_pretraining(
        corpus, tmp_path / "next", train_steps=4, init_from="ram://models/first", learning_rate=1e-9
    )
    first, following = weights_of(tmp_path / "first"), weights_of(tmp_path / "next")
    for path, value in first.items():
        np.testing.assert_allclose(following[path], value, **UNMOVED, err_msg=path)
    with pytest.raises(ValueError, match="holds a run with config.hidden_size=32"):
        run_pretraining(
            corpus, tmp_path / "next", train_steps=4, config=tiny_config(hidden_size=64)
        )
