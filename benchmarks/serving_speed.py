"""Texts per second from raw strings: our exports, Hugging Face, ONNX Runtime, OpenVINO.

    make benchmark NAME=serving_speed ARGS='--texts=1000 --runs=3'

The 6-layer MiniLM and the test reviews of food_reviews.py, cut at 512 pieces; every side returns
the pooled output. In batches of 32 as they come; in batches of like length, for which all texts
must be at hand, as `SentenceTransformer.encode` has them; and one text after the other. Sides take
turns, and the median of each side's runs counts. --sides=TEXT takes those with TEXT in their names
and those of Hugging Face.
"""

import os
import statistics
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# As the kit of a bfloat16 export starts TF Serving; ours in float32 loses 2 % by it.
os.environ.setdefault("TF_ONEDNN_ASSUME_FROZEN_WEIGHTS", "1")

import contest
import food_reviews
import numpy as np
import packages
from absl import app, flags

flags.DEFINE_integer("texts", 1000, "How many reviews.", lower_bound=1)
flags.DEFINE_integer("runs", 3, "Runs of each side.", lower_bound=1)
_INTRA_OP_THREADS = flags.DEFINE_integer(
    "intra_op_threads",
    0,
    "Threads of ours for an operation; 0: as TensorFlow has it.",
    lower_bound=0,
)
_SIDES = flags.DEFINE_multi_string(
    "sides", [], "Parts of names of sides, beside those of Hugging Face."
)

BATCH_SIZE = 32
LONGEST = 512
_INPUTS = ["input_ids", "attention_mask", "token_type_ids"]
# The same three where the file is `export_onnx`'s, and the output's name there.
_OUR_INPUTS = ["input_ids", "input_mask", "segment_ids"]
_OUR_OUTPUT = "pooled_output"
THREADS = len(os.sched_getaffinity(0))

Side = Callable[[list[str]], np.ndarray]


def ours(folder: Path, dtype: str, scratch: Path) -> Side:
    """Returns the SavedModel's answer."""
    import tensorflow as tf

    from keras_bert import ExportOptions, export_saved_model

    options = ExportOptions(dtype=dtype, max_seq_length=LONGEST)
    path = export_saved_model(folder, scratch / dtype, options=options)
    model = tf.saved_model.load(str(path))
    serve = model.signatures["serving_default"]

    # A signature does not keep its model alive.
    def answer(texts: list[str], model: Any = model) -> np.ndarray:
        return serve(text=tf.constant(texts))["pooled_output"].numpy()

    return answer


def hugging_face(folder: Path, dtype: str, compiled: bool = False) -> Side:
    """Returns fast tokenizer and torch model, by torch.compile for any shape if asked for."""
    import torch
    from transformers import AutoTokenizer, BertModel

    torch.set_num_threads(THREADS)
    device = contest.torch_device()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = BertModel.from_pretrained(folder, dtype=getattr(torch, dtype)).to(device).eval()
    if compiled:
        model = torch.compile(model, dynamic=True)

    def answer(texts: list[str]) -> np.ndarray:
        batch = tokenizer(
            texts, padding=True, truncation=True, max_length=LONGEST, return_tensors="pt"
        ).to(device)
        with torch.inference_mode():
            return model(**batch).pooler_output.float().cpu().numpy()

    return answer


def onnx_file(folder: Path, scratch: Path) -> Path:
    """Writes the torch model as ONNX for any shape; returns the file."""
    import torch
    from transformers import AutoTokenizer, BertModel

    path = scratch / "model.onnx"
    if path.is_file():
        return path
    sample = AutoTokenizer.from_pretrained(folder)(["a", "b c"], padding=True, return_tensors="pt")
    model = BertModel.from_pretrained(folder, attn_implementation="eager").eval()

    class PooledOutput(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = model

        def forward(self, ids: Any, mask: Any, types: Any) -> Any:
            return self.bert(ids, attention_mask=mask, token_type_ids=types).pooler_output

    torch.onnx.export(
        PooledOutput(),
        tuple(sample[name] for name in _INPUTS),
        path,
        input_names=_INPUTS,
        output_names=["pooled"],
        dynamic_axes={name: {0: "batch", 1: "length"} for name in _INPUTS},
        dynamo=False,
    )
    return path


def our_onnx_file(folder: Path, scratch: Path, dtype: str = "float32") -> Path:
    """Writes the model as ONNX by `export_onnx`; returns the file."""
    from keras_bert import export_onnx

    path = scratch / f"onnx_{dtype}"
    return (path if path.is_dir() else export_onnx(folder, path, dtype)) / "model.onnx"


def _encoded(folder: Path, ours: bool = False) -> Callable[[list[str]], dict[str, np.ndarray]]:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)

    def encode(texts: list[str]) -> dict[str, np.ndarray]:
        batch = tokenizer(
            texts, padding=True, truncation=True, max_length=LONGEST, return_tensors="np"
        )
        if ours:
            names = zip(_OUR_INPUTS, _INPUTS, strict=True)
            return {name: batch[theirs].astype(np.int32) for name, theirs in names}
        return {name: batch[name] for name in _INPUTS}

    return encode


def onnx_runtime(folder: Path, scratch: Path, ours: str | None = None) -> Side:
    """Returns fast tokenizer and the torch model, or our file of a dtype, in ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    path = our_onnx_file(folder, scratch, ours) if ours else onnx_file(folder, scratch)
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    encode = _encoded(folder, ours is not None)
    return lambda texts: session.run([_OUR_OUTPUT if ours else "pooled"], encode(texts))[0]


def openvino(folder: Path, dtype: str, scratch: Path, ours: bool = False) -> Side:
    """Returns fast tokenizer and the torch model, or our file, in OpenVINO."""
    import openvino

    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": THREADS,
        "INFERENCE_PRECISION_HINT": {"bfloat16": "bf16", "float32": "f32"}[dtype],
    }
    path = (our_onnx_file if ours else onnx_file)(folder, scratch)
    model = openvino.Core().compile_model(path, "CPU", settings)
    encode = _encoded(folder, ours)
    return lambda texts: model(encode(texts))[_OUR_OUTPUT if ours else "pooled"].copy()


def sides(folder: Path, scratch: Path) -> Iterator[tuple[str, Side]]:
    """Yields the name of each side that is asked for and what answers."""
    makers: dict[str, Callable[[], Side]] = {}
    for dtype in ("float32", "bfloat16"):
        makers |= {
            f"ours, {dtype}": partial(ours, folder, dtype, scratch),
            f"Hugging Face, {dtype}": partial(hugging_face, folder, dtype),
            f"torch.compile, {dtype}": partial(hugging_face, folder, dtype, compiled=True),
            f"OpenVINO, {dtype}": partial(openvino, folder, dtype, scratch),
            f"our ONNX file in OpenVINO, {dtype}": partial(
                openvino, folder, dtype, scratch, ours=True
            ),
        }
    makers["ONNX Runtime, float32"] = partial(onnx_runtime, folder, scratch)
    for dtype in ("float32", "int8"):
        makers[f"our ONNX file in ONNX Runtime, {dtype}"] = partial(
            onnx_runtime, folder, scratch, ours=dtype
        )
    makers["ours, bfloat16_onednn"] = partial(ours, folder, "bfloat16_onednn", scratch)
    makers["ours, int8_onednn"] = partial(ours, folder, "int8_onednn", scratch)
    for name in contest.chosen(makers, _SIDES.value, ["Hugging Face"]):
        yield name, makers[name]()


def orders(texts: list[str]) -> dict[str, list[list[str]]]:
    """Returns the batches of each way to ask."""

    def cut(texts: list[str], size: int) -> list[list[str]]:
        return [texts[start : start + size] for start in range(0, len(texts), size)]

    return {
        "as they come": cut(texts, BATCH_SIZE),
        "by length": cut(sorted(texts, key=len, reverse=True), BATCH_SIZE),
        "one at a time": cut(texts[: max(1, len(texts) // 10)], 1),
    }


def main(_: list[str]) -> None:
    """Measures and prints a table."""
    import tensorflow as tf

    # As TF Serving does by --tensorflow_intra_op_parallelism; between operations all are at work.
    tf.config.threading.set_intra_op_parallelism_threads(_INTRA_OP_THREADS.value)
    texts = [str(text) for text in food_reviews.load()["test"]["text"][: flags.FLAGS.texts]]
    with tempfile.TemporaryDirectory() as scratch:
        answers = dict(sides(packages.minilm(), Path(scratch)))
        expected = answers["Hugging Face, float32"](texts[:BATCH_SIZE])
        for name, answer in answers.items():
            distance = np.abs(answer(texts[:BATCH_SIZE]) - expected).max()
            print(f"{name}: largest difference to Hugging Face float32 {distance:.1e}", flush=True)
        for order, batches in orders(texts).items():
            times: dict[str, list[dict[str, float]]] = {name: [] for name in answers}
            for answer in answers.values():  # torch.compile compiles for a single text anew
                answer(batches[0])
            for _ in range(flags.FLAGS.runs):
                for name, answer in answers.items():
                    # Names of the loop at once: the call ends before the next begins.
                    found = contest.measured(lambda: [answer(batch) for batch in batches])  # noqa: B023
                    times[name].append(found)
                    print(f"{order}, {name}: {found['seconds']:.1f} s", flush=True)
            report(order, times, sum(map(len, batches)))


def report(order: str, times: dict[str, list[dict[str, float]]], texts: int) -> None:
    """Prints medians, and how often each side goes into the fastest one of Hugging Face."""
    seconds, processor = (
        {name: statistics.median(run[what] for run in runs) / texts for name, runs in times.items()}
        for what in ("seconds", "processor")
    )
    peer = "Hugging Face, bfloat16"
    print(
        f"\n{order}\n\n| side | texts/s | ms a text | times as fast as {peer} "
        "| texts/s of processor | times as fast |\n|---|---|---|---|---|---|"
    )
    for name in times:
        print(
            f"| {name} | {1 / seconds[name]:.1f} | {1000 * seconds[name]:.1f} "
            f"| {seconds[peer] / seconds[name]:.2f} | {1 / processor[name]:.1f} "
            f"| {processor[peer] / processor[name]:.2f} |"
        )
    print(flush=True)


if __name__ == "__main__":
    app.run(main)
