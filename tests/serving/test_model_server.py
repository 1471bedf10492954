"""The client and predict.py against a server process. Oracle: the graph in this process, exactly.

The server is model_server.py, which loads the exports with tensorflow and tensorflow_text alone.
"""

import contextlib
import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from keras_bert.serving.client import ServerError, connect
from keras_bert.tasks.predict import predict_file
from tests.conftest import write_csv
from tests.serving import model_server
from tests.signatures.live_models import request_of
from tests.signatures.tiny_models import FORMS, MODELS, ask, random_texts

ROOT = Path(__file__).parents[2]
# What gRPC carries: floats and integers, strings of one, two and three axes.
OVER_GRPC = ("classes", "spans", "choices", "encoder", "masked_lm")


@contextlib.contextmanager
def server(base_paths, *flags):
    """Yields the ports of a server process."""
    models = [f"{name}={path}" for name, path in base_paths.items()]
    process = subprocess.Popen(
        [sys.executable, "-I", model_server.__file__, *flags, *models],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.stdin.close()
        assert process.wait(timeout=60) == 0


@pytest.fixture(scope="module")
def base_paths(exported, tmp_path_factory):
    """Returns a function: folders of versions by name; of "two" the older one is a regression."""

    def paths(names):
        two = tmp_path_factory.mktemp("versions")
        for version, name in ((1, "number"), (2, "classes")):
            shutil.copytree(exported(name), two / str(version))
        return {name: exported(name).parent for name in names} | {"two": two}

    return paths


def check_answers(address, name, folder):
    request = request_of(name)
    expected = ask(folder, **request)
    found = connect(address, name, timeout=300).predict(request)
    if not address.startswith("grpc") and len(expected) == 1:
        expected = {"": next(iter(expected.values()))}
    assert found.keys() == expected.keys()
    for output, values in expected.items():
        if values.dtype == object:
            assert found[output] == np.char.decode(values.astype("S")).tolist(), output
        else:
            np.testing.assert_array_equal(np.array(found[output], values.dtype), values, output)


def check_other_requests(address, folder):
    """Versions, other signatures, refusals."""
    # The newest version unless one asks for another.
    assert connect(address, "two").predict({"text": ["the"]})["label"]
    (old,) = connect(address, "two", version=1).predict({"text": ["the"]}).values()
    np.testing.assert_array_equal(np.float32(old), ask(folder, text=["the"])["score"])
    ids = {"input_ids": [[2, 5, 3]], "input_mask": [[1, 1, 1]], "segment_ids": [[0, 0, 1]]}
    found = connect(address, "encoder").predict(ids, "serve_ids")
    assert np.shape(found["sequence_output"]) == (1, 3, 16)
    found = connect(address, "encoder").predict({"text": ["the film", ""]}, "serve_tokens")
    assert found["tokens"] == [["[CLS]", "the", "film", "[SEP]"], ["[CLS]", "[SEP]", "", ""]]
    for model, version, signature, inputs, sentence in (
        ("nothing", None, "serving_default", {"text": ["a"]}, r"Latest\(nothing\)"),
        ("two", 9, "serving_default", {"text": ["a"]}, r"Specific\(two, 9\)"),
        ("two", None, "serve_nothing", {"text": ["a"]}, '"serve_nothing" not found'),
        ("two", None, "serving_default", {"words": ["a"]}, r"are \['words'\], expected .*'text'"),
        ("encoder", None, "serve_ids", _wide(25), "24 positions"),
    ):
        with pytest.raises(ServerError, match=sentence):
            connect(address, model, version=version).predict(inputs, signature)


def _wide(length):
    return {name: [[1] * length] for name in ("input_ids", "input_mask", "segment_ids")}


def check_tool(address, folder, tmp_path):
    """`predict.py --server` writes what predict.py writes of the folder, of another column too."""
    texts = [f"the {text}" for text in random_texts(9, seed=6)]
    write_csv(tmp_path / "in.csv", ["id", "text"], list(enumerate(texts)))
    command = [sys.executable, ROOT / "tools" / "predict.py", f"--server={address}"]
    command += ["--served_model=classes", "--batch_size=4"]
    command += [f"--input={tmp_path / 'in.csv'}", f"--output={tmp_path / 'out.csv'}"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([*map(str, command)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"10 predictions: {tmp_path / 'out.csv'}\n"
    predict_file(folder, tmp_path / "in.csv", tmp_path / "live.csv")
    content = (tmp_path / "in.csv").read_text(encoding="utf-8")
    (tmp_path / "in.csv").write_text(content.replace("text", "body", 1), encoding="utf-8")
    command[-1] = f"--output={tmp_path / 'body.csv'}"
    command.append("--column=text=body")
    subprocess.run([*map(str, command)], env=environment, check=True)
    renamed = (tmp_path / "out.csv").read_text(encoding="utf-8").replace("text", "body", 1)
    assert (tmp_path / "body.csv").read_text(encoding="utf-8") == renamed
    found, live = (
        list(csv.DictReader(open(tmp_path / file, encoding="utf-8", newline="")))
        for file in ("out.csv", "live.csv")
    )
    for ours, theirs in zip(found, live, strict=True):
        assert list(ours) == list(theirs)
        for column, value in theirs.items():
            if column.startswith("score_"):
                assert float(ours[column]) == pytest.approx(float(value), abs=2e-5)
            else:
                assert ours[column] == value


def check_server(address, names, model_folder, tmp_path):
    for name in names:
        check_answers(address, name, model_folder(name))
    check_other_requests(address, model_folder("number"))
    check_tool(address, model_folder("classes"), tmp_path)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(FORMS, marks=pytest.mark.slow, id="forms"),
        pytest.param(MODELS, marks=pytest.mark.long, id="all"),
    ],
)
def test_rest_answers_as_the_graph(names, base_paths, model_folder, tmp_path):
    with server(base_paths(names)) as ports:
        check_server(f"127.0.0.1:{ports['rest']}", names, model_folder, tmp_path)


@pytest.mark.oracle  # tensorflow-serving-api
@pytest.mark.parametrize(
    "names",
    [
        pytest.param(OVER_GRPC, id="forms"),
        pytest.param(MODELS, marks=pytest.mark.long, id="all"),
    ],
)
def test_grpc_answers_as_the_graph(names, base_paths, model_folder, tmp_path):
    with server(base_paths(names), "--grpc") as ports:
        check_server(f"grpc://127.0.0.1:{ports['grpc']}", names, model_folder, tmp_path)
