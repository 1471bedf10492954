"""Exports asked in a process that has TensorFlow and its text operations alone."""

import json
import os
import subprocess
import sys

import numpy as np

# Runs outside the repository, isolated from its path.
_CODE = """
import json, sys
import numpy as np, tensorflow as tf, tensorflow_text
requests, answers = sys.argv[1:]
results, loaded = {}, {}
for index, (folder, signature, inputs) in enumerate(json.load(open(requests))):
    if folder not in loaded:
        loaded[folder] = tf.saved_model.load(folder)
    function = loaded[folder].signatures[signature]
    dtypes = {k: spec.dtype for k, spec in function.structured_input_signature[1].items()}
    tensors = {k: tf.constant(v, dtypes[k]) for k, v in inputs.items()}
    for name, value in function(**tensors).items():
        results[f"{index}/{name}"] = value.numpy()
assert not any(name.split(".")[0] == "keras_bert" for name in sys.modules)
np.savez(answers, **{k: np.char.decode(v.astype("S")) if v.dtype == object else v
                     for k, v in results.items()})
"""


def ask_fresh_process(tmp_path, requests, python=sys.executable, environment=()):
    """Returns the outputs of each request by name.

    Args:
        tmp_path: a folder for its files.
        requests: (folder of a version, name of a signature, inputs by name) each.
        python: the interpreter.
        environment: variables that it has besides, by name.
    """
    files = [tmp_path / "requests.json", tmp_path / "answers.npz"]
    files[0].write_text(json.dumps([[str(folder), *rest] for folder, *rest in requests]))
    command = [python, "-I", "-c", _CODE, *files]
    done = subprocess.run(
        [*map(str, command)],
        cwd=tmp_path,
        env={**os.environ, **dict(environment)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    answers = [{} for _ in requests]
    for key, values in np.load(files[1]).items():
        index, name = key.split("/")
        answers[int(index)][name] = values
    return answers


def as_text(values):
    """Strings of a graph as the answers above have them; other values as they are."""
    return np.char.decode(values.astype("S")) if values.dtype == object else values
