"""Texts per second from raw strings: our SavedModel, Hugging Face on torch, ONNX Runtime.

    make benchmark NAME=serving_speed ARGS='--texts=1000 --runs=3'

The 6-layer MiniLM and the test reviews of food_reviews.py, in batches of 32 as they come, cut at
512 pieces; every side returns the pooled output. Sides take turns, and the median of each side's
runs counts.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import food_reviews
import numpy as np
import packages
from absl import app, flags

flags.DEFINE_integer("texts", 1000, "How many reviews.", lower_bound=1)
flags.DEFINE_integer("runs", 3, "Runs of each side.", lower_bound=1)

BATCH_SIZE = 32
LONGEST = 512
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

    def answer(texts: list[str], model: Any = model) -> np.ndarray:
        return serve(text=tf.constant(texts))["pooled_output"].numpy()

    return answer


def hugging_face(folder: Path, dtype: str) -> Side:
    """Returns fast tokenizer and torch model."""
    import torch
    from transformers import AutoTokenizer, BertModel

    torch.set_num_threads(THREADS)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = BertModel.from_pretrained(folder, dtype=getattr(torch, dtype)).eval()

    def answer(texts: list[str]) -> np.ndarray:
        batch = tokenizer(
            texts, padding=True, truncation=True, max_length=LONGEST, return_tensors="pt"
        )
        with torch.inference_mode():
            return model(**batch).pooler_output.float().numpy()

    return answer


def onnx_runtime(folder: Path, scratch: Path) -> Side:
    """Returns fast tokenizer and the same torch model as ONNX."""
    import onnxruntime
    import torch
    from transformers import AutoTokenizer, BertModel

    tokenizer = AutoTokenizer.from_pretrained(folder)
    names = ["input_ids", "attention_mask", "token_type_ids"]
    sample = tokenizer(["a", "b c"], padding=True, return_tensors="pt")
    path = scratch / "model.onnx"
    model = BertModel.from_pretrained(folder, attn_implementation="eager").eval()

    class PooledOutput(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = model

        def forward(self, ids: Any, mask: Any, types: Any) -> Any:
            return self.bert(ids, attention_mask=mask, token_type_ids=types).pooler_output

    torch.onnx.export(
        PooledOutput(),
        tuple(sample[name] for name in names),
        path,
        input_names=names,
        output_names=["pooled"],
        dynamic_axes={name: {0: "batch", 1: "length"} for name in names},
        dynamo=False,
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def answer(texts: list[str]) -> np.ndarray:
        batch = tokenizer(
            texts, padding=True, truncation=True, max_length=LONGEST, return_tensors="np"
        )
        return session.run(["pooled"], {name: batch[name] for name in names})[0]

    return answer


def sides(folder: Path, scratch: Path) -> Iterator[tuple[str, Side]]:
    """Yields the name of each side and what answers."""
    for dtype in ("float32", "bfloat16"):
        yield f"ours, {dtype}", ours(folder, dtype, scratch)
        yield f"Hugging Face, {dtype}", hugging_face(folder, dtype)
    yield "ONNX Runtime, float32", onnx_runtime(folder, scratch)


def measure(answer: Side, batches: Sequence[list[str]]) -> tuple[float, float]:
    """Returns seconds and processor seconds for all batches."""
    start, busy = time.perf_counter(), time.process_time()
    for batch in batches:
        answer(batch)
    return time.perf_counter() - start, time.process_time() - busy


def main(_: list[str]) -> None:
    """Measures and prints a table."""
    texts = [str(text) for text in food_reviews.load()["test"]["text"][: flags.FLAGS.texts]]
    batches = [texts[start : start + BATCH_SIZE] for start in range(0, len(texts), BATCH_SIZE)]
    with tempfile.TemporaryDirectory() as scratch:
        contest = dict(sides(packages.minilm(), Path(scratch)))
        expected = contest["Hugging Face, float32"](batches[0])
        for name, answer in contest.items():
            distance = np.abs(answer(batches[0]) - expected).max()
            print(f"{name}: largest difference to Hugging Face float32 {distance:.1e}", flush=True)
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in contest}
        for _ in range(flags.FLAGS.runs):
            for name, answer in contest.items():
                times[name].append(measure(answer, batches))
                seconds, busy = times[name][-1]
                print(f"{name}: {seconds:.1f} s, {busy:.1f} s of processors", flush=True)
    report(times, len(texts))


def report(times: dict[str, list[tuple[float, float]]], texts: int) -> None:
    """Prints medians, and how often each side goes into the fastest one of Hugging Face."""
    rates = {
        name: texts / statistics.median(run[0] for run in runs) for name, runs in times.items()
    }
    work = {name: texts / statistics.median(run[1] for run in runs) for name, runs in times.items()}
    peer = "Hugging Face, bfloat16"
    print(f"\n| side | texts/s | x {peer} | texts/s of processor | x |\n|---|---|---|---|---|")
    for name, rate in rates.items():
        print(
            f"| {name} | {rate:.1f} | {rate / rates[peer]:.2f} "
            f"| {work[name]:.1f} | {work[name] / work[peer]:.2f} |"
        )


if __name__ == "__main__":
    app.run(main)
