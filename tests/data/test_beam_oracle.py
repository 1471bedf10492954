"""Records that Apache Beam makes against those of the local processes."""

import os
import signal
import threading
import time
from collections import Counter

import pytest
import tensorflow as tf

from keras_bert.data.corpus import reading as corpus_module
from keras_bert.data.creation.create import create_pretraining_data
from keras_bert.data.creation.options import CreationOptions

pytestmark = pytest.mark.beam


@pytest.fixture
def make(novels, vocab, tmp_path, monkeypatch):
    """Makes records of three files in two groups, on Beam or here."""
    from keras_bert.data.creation.beam import create_pretraining_data_with_beam

    text = novels.read_text(encoding="utf-8")
    paths = [str(tmp_path / f"{number}.txt") for number in range(3)]
    for number in range(3):
        part = text[number * 300_000 : (number + 1) * 300_000]
        (tmp_path / f"{number}.txt").write_text(part, encoding="utf-8")
    monkeypatch.setattr(corpus_module, "GROUP_BYTES", 500_000)

    def run(on_beam, arguments=("--direct_running_mode=in_memory",), inputs=paths, **changes):
        output = tmp_path / ("beam" if on_beam else "local")
        options = CreationOptions(
            tuple(inputs), str(vocab), str(output), 64, dupe_factor=2, num_shards=3, **changes
        )
        if on_beam:
            create_pretraining_data_with_beam(options, arguments)
        else:
            create_pretraining_data(options)
        return output

    return run


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"static_masking": True, "masking": "ngram"},
        {"sentence_task": "none", "pack": True},
        {"sentence_task": "none", "cross_documents": True, "static_masking": True},
    ],
)
def test_beam_makes_the_same_examples_and_the_same_files(make, changes):
    local, on_beam = make(False, **changes), make(True, **changes)
    assert examples(on_beam) == examples(local)
    assert contents(on_beam) == contents(local)


def test_a_column_of_a_parquet_file_is_read_on_beam_too(make, novels, tmp_path):
    import pyarrow  # comes with Beam
    from pyarrow import parquet

    documents = novels.read_text(encoding="utf-8")[:200_000].split("\n\n")
    table = pyarrow.table({"text": ["not this one"] * len(documents), "words": documents})
    parquet.write_table(table, tmp_path / "novels.parquet", row_group_size=20)
    changes = {"inputs": [str(tmp_path / "novels.parquet")], "text_field": "words"}
    local, on_beam = make(False, **changes), make(True, **changes)
    assert examples(on_beam) == examples(local)
    assert contents(on_beam) == contents(local)


def test_a_cluster_that_loses_a_worker_makes_the_same_files(make):
    """Two processes of Dask; one of them is killed while it works."""
    from dask.distributed import Client, LocalCluster, default_client

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        before = client.run(os.getpid)
        assert len(set(before.values()) | {os.getpid()}) == 3
        killer = threading.Thread(target=kill_a_busy_worker, args=(cluster, before))
        killer.start()
        runner = "apache_beam.runners.dask.dask_runner.DaskRunner"
        address = cluster.scheduler_address
        on_dask = make(
            True, [f"--runner={runner}", f"--dask_client_address={address}", "--dask_npartitions=2"]
        )
        killer.join()
        if default_client() is not client:
            default_client().close()  # Beam's, which it may leave open
        # The scheduler is of this process; the worker that was killed comes back under a new name.
        assert len(before.keys() - cluster.scheduler.workers.keys()) == 1
    assert contents(on_dask) == contents(make(False))


def kill_a_busy_worker(cluster, processes):
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        time.sleep(0.01)  # it may be busy for tenths of a second
        workers = list(cluster.scheduler.workers.values())
        busy = [worker.address for worker in workers if worker.processing]
        if busy:
            os.kill(processes[busy[0]], signal.SIGKILL)
            return


def test_finished_records_are_not_touched_and_nothing_comes_of_an_empty_corpus(make, tmp_path):
    make(True)
    with pytest.raises(FileExistsError, match="holds finished records already"):
        make(True)
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text("\n", encoding="utf-8")
    (tmp_path / "beam" / "manifest.json").rename(tmp_path / "beam" / "mine.json")
    with pytest.raises(FileExistsError, match="holds examples-00000-of-00003.tfrecord, which wou"):
        make(True)
    for path in (tmp_path / "beam").glob("*.tfrecord"):
        path.unlink()
    with pytest.raises(ValueError, match="is empty or too short for one example"):
        make(True)
    left = {path.name for path in (tmp_path / "beam").iterdir()}
    assert left == {"mine.json", "vocab.txt", "tokenizer_config.json"}


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def examples(folder):
    paths = [str(path) for path in folder.glob("*.tfrecord")]
    return Counter(tf.data.TFRecordDataset(paths).as_numpy_iterator())
