"""The core on another backend: its own tests again, in a process of their own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
# test_encoder_seam takes its variant through training, checkpoints and serving, which are
# TensorFlow's. test_presets is about files; so is much of test_vocabulary_growth.
CORE = ("layers", "models/test_encoder.py", "models/test_packed_encoder.py")
OTHERS = (
    *("models/test_heads.py", "models/test_left_to_right.py", "models/test_bilstm_tagger.py"),
    *("models/test_presets.py", "models/test_vocabulary_growth.py"),
)
# Left to the long test. JAX compiles each operation for each shape, and most of these have many:
# other windows, and that no document reaches another it is packed with, say the same.
LEFT_OUT = (
    "layers/test_local_attention.py::test_every_position_gets_what_the_mask_gives_it[1-",
    "layers/test_local_attention.py::test_every_position_gets_what_the_mask_gives_it[4-0]",
    "layers/test_local_attention.py::test_every_position_gets_what_the_mask_gives_it[4-1]",
    "layers/test_rotary_attention.py::test_only_distances_count",
    "layers/test_rotary_attention.py::test_from_left_to_right_a_prefix_says_what_it_says_alone",
    "layers/test_rotary_attention.py::test_what_the_gate_lets_through_is_dropped",
    "models/test_packed_encoder.py::test_a_document_packed_has_the_activations_that_it_has_alone",
    "models/test_packed_encoder.py::test_predictions_of_packed_documents_are_those_of_each_alone",
    # The number of parameters, of two large models, is no matter of JAX.
    "models/test_encoder.py::test_parameter_count",
)


@pytest.mark.oracle
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("paths", "left_out", "least"),
    [
        (CORE, LEFT_OUT, 50),
        pytest.param((*CORE, *OTHERS), (), 110, marks=pytest.mark.long),
    ],
)
def test_layers_and_models_pass_their_tests_on_jax(paths, left_out, least):
    tests = [*(f"tests/{path}" for path in paths), "-m", "not slow and not oracle and not long"]
    tests += [f"--deselect=tests/{name}" for name in left_out]
    command = [sys.executable, "-m", "pytest", "-q", *tests]
    # What is compiled runs once or twice: to optimize it takes longer than it saves.
    environment = os.environ | {"KERAS_BACKEND": "jax", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    run = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=900
    )
    assert run.returncode == 0, run.stdout[-3000:]
    passed = re.search(r"(\d+) passed", run.stdout)
    assert passed and int(passed[1]) > least, run.stdout[-300:]
