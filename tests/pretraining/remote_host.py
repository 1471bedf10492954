"""A TPU's host and the process that drives it, played by two processes with disks of their own.

    python remote_host.py host PORT RECORDS
    python remote_host.py driver PORT RECORDS FOLDER

Either has its own file system in memory, with the records at ram://records, and its own temporary
folder. The driver writes the model to FOLDER.
"""

import sys
from pathlib import Path

import tensorflow as tf


def host(port, records):
    _put(Path(records), "ram://records")
    server = tf.distribute.Server({"worker": [f"localhost:{port}"]}, "worker", 0)
    print("ready", flush=True)
    server.join()


def driver(port, records, folder):
    from keras_bert.pretraining.pretrain import pretrain
    from tests.pretraining.pretraining_runs import run_options, tiny_config

    _put(Path(records), "ram://records")
    tf.config.experimental_connect_to_cluster(
        tf.train.ClusterSpec({"worker": [f"localhost:{port}"]})
    )
    strategy = tf.distribute.OneDeviceStrategy("/job:worker/replica:0/task:0/device:CPU:0")
    options = {"eval_data_dir": "ram://records", "eval_steps": 5, "checkpoint_steps": 5}
    for train_steps in (10, 20):  # the second run goes on from the first, to restore as well
        options["schedule_steps"] = 20
        start = {"init_from": "ram://run-10"} if train_steps == 20 else {}
        run = run_options(
            "ram://records", f"ram://run-{train_steps}", train_steps=train_steps, **options, **start
        )
        pretrain(tiny_config(), run, strategy)
    _get("ram://run-20/preset", Path(folder))


def _put(folder, remote):
    tf.io.gfile.makedirs(remote)
    for path in folder.iterdir():
        tf.io.gfile.copy(str(path), f"{remote}/{path.name}")


def _get(remote, folder):
    folder.mkdir(parents=True)
    for name in tf.io.gfile.listdir(remote):
        tf.io.gfile.copy(f"{remote}/{name}", str(folder / name))


if __name__ == "__main__":
    {"host": host, "driver": driver}[sys.argv[1]](*sys.argv[2:])
