"""A run whose device belongs to another machine, as that of a TPU slice does."""

import os
import subprocess
import sys

import numpy as np
import pytest

from tests.pretraining.pretraining_runs import ROOT, free_ports, run_pretraining, weights_of
from tests.tolerances import REORDERED_UPDATES

SCRIPT = str(ROOT / "tests" / "pretraining" / "remote_host.py")


def _start(folder, *arguments):
    # The temporary folder that this names is another one for every process.
    folder.mkdir()
    # AutoGraph imports what it writes there: without this, Python keeps the bytecode of it.
    own = {"PYTHONPATH": str(ROOT), "TMPDIR": "/proc/self/cwd", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen(
        [sys.executable, SCRIPT, *map(str, arguments)],
        cwd=folder,
        env=os.environ | own,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.slow
def test_a_device_of_another_host_trains_alike(corpus, tmp_path):
    (port,) = free_ports(1)
    host = _start(tmp_path / "host", "host", port, corpus / "records")
    try:
        while "ready" not in host.stdout.readline():
            assert host.poll() is None
        arguments = ("driver", port, corpus / "records", tmp_path / "remote" / "preset")
        driver = _start(tmp_path / "driver", *arguments)
        output, _ = driver.communicate(timeout=240)
        assert driver.returncode == 0, output
        assert not list((tmp_path / "driver").iterdir())  # no copy of the records stays behind
    finally:
        host.kill()
        host.communicate()
    run_pretraining(corpus, tmp_path / "local")
    remote = weights_of(tmp_path / "remote")
    for path, value in weights_of(tmp_path / "local").items():
        np.testing.assert_allclose(remote[path], value, **REORDERED_UPDATES, err_msg=path)
