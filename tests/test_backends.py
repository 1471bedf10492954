"""The core on another backend: its own tests again, in a process of their own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
CORE = ["tests/layers", "tests/models"]
# Takes its variant through training, checkpoints and serving, which are TensorFlow's.
NOT_CORE = "--ignore=tests/models/test_encoder_seam.py"


@pytest.mark.oracle
@pytest.mark.timeout(1800)
def test_layers_and_models_pass_their_tests_on_jax():
    tests = [*CORE, NOT_CORE, "-m", "not slow and not oracle"]
    command = [sys.executable, "-m", "pytest", "-q", *tests]
    environment = os.environ | {"KERAS_BACKEND": "jax"}
    run = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=900
    )
    assert run.returncode == 0, run.stdout[-3000:]
    passed = re.search(r"(\d+) passed", run.stdout)
    assert passed and int(passed[1]) > 70, run.stdout[-300:]
