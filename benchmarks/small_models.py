"""Size, parity and latency of the small exports: int8 and bfloat16 SavedModels, LiteRT, ONNX.

    make benchmark NAME=small_models ARGS='--texts=64 --runs=3'

The 6-layer MiniLM and test reviews of food_reviews.py, one at a time, cut at 128 pieces, as token
ids: what is measured is the model alone, the signature `serve_ids`. Parity is that of the last
layer at [CLS] with the float32 SavedModel. Sides take turns.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import get_args

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import food_reviews
import numpy as np
import packages
import tensorflow as tf
from absl import app, flags

from keras_bert import (
    BertPreprocessor,
    BertTokenizer,
    ExportOptions,
    export_litert,
    export_onnx,
    export_saved_model,
)
from keras_bert.serving.formats.litert_onnx import LITERT_DTYPES, ONNX_DTYPES
from keras_bert.signatures.options import ServingDtype

flags.DEFINE_integer("texts", 64, "How many reviews.", lower_bound=2)
flags.DEFINE_integer("runs", 3, "Runs of each side.", lower_bound=1)

LONGEST = 128
THREADS = len(os.sched_getaffinity(0))
PEER = "SavedModel float32"

Inputs = dict[str, np.ndarray]
# Inputs of one text to its vector at [CLS].
Side = Callable[[Inputs], np.ndarray]


def saved_model(path: Path) -> Side:
    """Returns the SavedModel's answer."""
    model = tf.saved_model.load(str(path))
    serve = model.signatures["serve_ids"]

    def answer(inputs: Inputs, model: object = model) -> np.ndarray:
        tensors = {name: tf.constant(values) for name, values in inputs.items()}
        return serve(**tensors)["sequence_output"].numpy()[0, 0]

    return answer


def litert(path: Path) -> Side:
    """Returns the LiteRT file's answer."""
    interpreter = tf.lite.Interpreter(str(path), num_threads=THREADS)
    serve = interpreter.get_signature_runner("serve_ids")
    return lambda inputs: serve(**inputs)["sequence_output"][0, 0]


def onnx(path: Path) -> Side:
    """Returns the ONNX file's answer."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(["sequence_output"], inputs)[0][0, 0]


def openvino(path: Path, precision: str) -> Side:
    """Returns the ONNX file's answer in OpenVINO, computed in "f32" or "bf16"."""
    import openvino

    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": THREADS,
        "INFERENCE_PRECISION_HINT": precision,
    }
    compiled = openvino.Core().compile_model(path, "CPU", settings)
    return lambda inputs: compiled(inputs)["sequence_output"][0, 0].copy()


def sides(model: Path, scratch: Path) -> Iterator[tuple[str, Path, Side]]:
    """Yields the name of each side, its file or folder, and what answers."""
    for dtype in get_args(ServingDtype):
        options = ExportOptions(dtype=dtype)
        path = export_saved_model(model, scratch / f"served_{dtype}", options=options)
        yield f"SavedModel {dtype}", path, saved_model(path)
    for dtype in LITERT_DTYPES:
        path = export_litert(model, scratch / f"litert_{dtype}", dtype) / "model.tflite"
        yield f"LiteRT {dtype}", path, litert(path)
    for dtype in ONNX_DTYPES:
        path = export_onnx(model, scratch / f"onnx_{dtype}", dtype) / "model.onnx"
        yield f"ONNX {dtype}", path, onnx(path)
    path = scratch / "onnx_float32" / "model.onnx"
    yield "ONNX file in OpenVINO, float32", path, openvino(path, "f32")
    yield "ONNX file in OpenVINO, bfloat16", path, openvino(path, "bf16")


def megabytes(path: Path) -> float:
    """Returns the size of a file, or of all files of a folder."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files) / 1e6


def measure(answer: Side, texts: Sequence[Inputs]) -> tuple[np.ndarray, list[float]]:
    """Returns the vectors [N, H] and the milliseconds of each text."""
    vectors, times = [], []
    for inputs in texts:
        start = time.perf_counter()
        vectors.append(answer(inputs))
        times.append(1000 * (time.perf_counter() - start))
    return np.stack(vectors), times


def cosine(first: np.ndarray, second: np.ndarray) -> float:
    """Returns the smallest cosine of rows of two [N, H]."""
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return float(((first * second).sum(axis=1) / lengths).min())


def main(_: list[str]) -> None:
    """Measures and prints a table."""
    model = packages.minilm()
    preprocess = BertPreprocessor(BertTokenizer.from_preset(model), LONGEST, pad_to="longest")
    reviews = food_reviews.load()["test"]["text"][: flags.FLAGS.texts]
    texts = [{k: v.numpy() for k, v in preprocess([str(text)]).items()} for text in reviews]
    with tempfile.TemporaryDirectory() as scratch:
        contest = list(sides(model, Path(scratch)))
        vectors, times = {}, {name: [] for name, _, _ in contest}
        for name, _, answer in contest:  # warm: every length is prepared for once
            vectors[name] = measure(answer, texts)[0]
        for _ in range(flags.FLAGS.runs):
            for name, _, answer in contest:
                times[name] += measure(answer, texts)[1]
        print("| side | MB | ms a text | x | largest difference | smallest cosine |")
        print("|---|---|---|---|---|---|")
        peer = statistics.median(times[PEER])
        for name, path, _ in contest:
            latency = statistics.median(times[name])
            difference = np.abs(vectors[name] - vectors[PEER]).max()
            print(
                f"| {name} | {megabytes(path):.1f} | {latency:.1f} | {latency / peer:.2f} "
                f"| {difference:.1e} | {cosine(vectors[name], vectors[PEER]):.4f} |"
            )


if __name__ == "__main__":
    app.run(main)
