"""Many requests at once to an exported model in a server process of its own.

    make benchmark NAME=serving_load ARGS='--clients=200 --seconds=180'

Every client sends one request after the other, of one to eight texts of mixed lengths. Printed are
requests and errors, percentiles of latency, and the server's memory along the way. The server is
prediction_server.py with the model of --model_dir, a fine-tuned classifier or an encoder; where it
is unset an encoder of 2 layers of 128 with fresh weights.

The exit status is 1 if a request failed or a client died, if the server's memory grew by more than
--most_growth over the second half of the time, or if one of the last answers is not that of the
Keras model in the same folder.
"""

import collections
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent import futures
from pathlib import Path
from typing import NamedTuple

import numpy as np
from absl import app, flags

from keras_bert.serving.client import GrpcClient

_MODEL_DIR = flags.DEFINE_string("model_dir", None, "Model folder; unset: bert_tiny, untrained.")
# The largest difference of an answer to the Keras model in float32, by the dtype that is served.
_TOLERANCES = {"float32": 1e-5, "bfloat16": 5e-2}
_DTYPE = flags.DEFINE_enum("dtype", "float32", list(_TOLERANCES), "Of the exported model.")
_CLIENTS = flags.DEFINE_integer("clients", 200, "Requests at a time.", lower_bound=1)
_WARMUP = flags.DEFINE_integer(
    "warmup", 2000, "Requests before the clock starts: new lengths take memory that stays."
)
_SECONDS = flags.DEFINE_integer("seconds", 180, "How long, after the warm-up.", lower_bound=10)
_MOST_GROWTH = flags.DEFINE_float(
    "most_growth", 20, "Of the server's memory in the second half of the time, in MB a minute."
)
_COMPARED = flags.DEFINE_integer("compared", 300, "Texts whose answers are compared.")

_NAME = "load"
_WORDS = "the a film was very good bad it book saw \u4e2d\u6587 caf\u00e9 unbelievable , .".split()


class Answer(NamedTuple):
    """A text and the vector that the server gave for it."""

    text: str
    vector: Sequence[float]


class Load:
    """Clients that ask until they are told to stop.

    Args:
        server: host:port.
        output: the output of the model that is kept for comparison.

    Attributes:
        latencies: seconds of each answered request.
        errors: how often each sentence was the answer.
        answers: the last ones.
    """

    def __init__(self, server: str, output: str):
        self.latencies: list[float] = []
        self.errors: collections.Counter[str] = collections.Counter()
        self.answers: collections.deque[Answer] = collections.deque(maxlen=_COMPARED.value)
        self._output = output
        self._stop = threading.Event()
        self._connections = [GrpcClient(server, _NAME, timeout=600) for _ in range(8)]
        self._threads = futures.ThreadPoolExecutor(_CLIENTS.value)
        self._clients = [self._threads.submit(self._ask, i) for i in range(_CLIENTS.value)]

    def stop(self) -> None:
        """Waits for the requests under way; counts clients that died among the errors."""
        self._stop.set()
        self._threads.shutdown()
        for client in self._clients:
            if (error := client.exception()) is not None:
                self.errors[f"a client died: {error!r}"] += 1

    def _ask(self, number: int) -> None:
        draw = random.Random(number)
        client = self._connections[number % len(self._connections)]
        while not self._stop.is_set():
            texts = [_text(draw) for _ in range(draw.randint(1, 8))]
            start = time.perf_counter()
            try:
                vectors = client.predict({"text": texts})[self._output]
            except (ValueError, ConnectionError, TimeoutError) as error:
                self.errors[str(error)] += 1
                time.sleep(1)  # a server that is gone refuses thousands of requests a second
                continue
            self.latencies.append(time.perf_counter() - start)
            if len(vectors) != len(texts):
                self.errors["an answer for another number of texts"] += 1
            self.answers.extend(map(Answer, texts, vectors))


def _text(draw: random.Random) -> str:
    length = int(draw.choice([3, 10, 30, 100]) * draw.uniform(0.5, 1.5))
    return " ".join(draw.choices(_WORDS, k=length))


def untrained(folder: Path) -> Path:
    """Writes a small encoder: load and memory do not depend on what a model has learned."""
    from keras_bert import BertConfig, BertEncoder, BertTokenizer

    vocabulary = Path(__file__).resolve().parents[1] / "tests" / "golden" / "vocab_uncased.txt"
    tokenizer = BertTokenizer.from_vocab(str(vocabulary))
    config = BertConfig.from_name("bert_tiny", vocab_size=len(tokenizer.vocabulary))
    BertEncoder(config).save_to_preset(str(folder), tokenizer)
    return folder


def export(folder: Path, target: Path) -> Path:
    """Exports the model; returns the folder of its version."""
    from keras_bert import ExportOptions, export_saved_model

    return export_saved_model(folder, target, options=ExportOptions(dtype=_DTYPE.value))


def start_server(version: Path) -> tuple[subprocess.Popen, int]:
    """Starts the server; returns the process and its port."""
    script = Path(__file__).with_name("prediction_server.py")
    process = subprocess.Popen(
        [sys.executable, str(script), str(version), _NAME], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        print(line.strip(), flush=True)
        if found := re.search(r"listening on port (\d+)", line):
            return process, int(found.group(1))
    raise RuntimeError(f"the server ended with status {process.wait()}")


def watch(process: subprocess.Popen, load: Load) -> list[tuple[float, float]]:
    """Waits for the warm-up, then looks at the server every second.

    Returns:
        Seconds since the warm-up and MB that the server has allocated.
    """
    samples: list[tuple[float, float]] = []
    while len(load.latencies) < _WARMUP.value and not load.errors and process.poll() is None:
        time.sleep(0.1)
    load.latencies.clear()
    start = time.perf_counter()
    while (seconds := time.perf_counter() - start) < _SECONDS.value:
        if process.poll() is not None:
            load.errors[f"the server ended with status {process.returncode}"] += 1
            break
        status = Path(f"/proc/{process.pid}/status").read_text()
        if found := re.search(r"RssAnon:\s+(\d+) kB", status):  # none in a process that is ending
            samples.append((seconds, int(found[1]) / 1024))
            if len(samples) % max(1, _SECONDS.value // 6) == 0:
                print(f"{seconds:.0f} s: {len(load.latencies):,} requests, {samples[-1][1]:.0f} MB")
        time.sleep(1)
    return samples


def growth(samples: Sequence[tuple[float, float]]) -> float:
    """Returns the slope of a straight line through the second half of the samples.

    Args:
        samples: seconds and MB.

    Returns:
        MB a minute.
    """
    seconds, megabytes = np.array(samples[len(samples) // 2 :]).T
    return 60 * float(np.polyfit(seconds, megabytes, 1)[0])


def live_answers(folder: Path, texts: Sequence[str]) -> np.ndarray:
    """Returns what the Keras model answers, float32 [N, C] or [N, H]."""
    from keras_bert import BertEncoder, BertPreprocessor, BertTokenizer, FinetunedModel

    if is_classifier(folder):
        return np.asarray(FinetunedModel.load(folder).predict(texts))
    model = BertEncoder.from_preset(str(folder), dtype="float32")
    tokenizer = BertTokenizer.from_preset(folder)
    preprocess = BertPreprocessor(tokenizer, model.config.max_position_embeddings)
    batches = [preprocess(texts[start : start + 16]) for start in range(0, len(texts), 16)]
    return np.concatenate([model(batch)["pooled_output"].numpy() for batch in batches])


def is_classifier(folder: Path) -> bool:
    """Returns whether a fine-tuning run wrote the folder."""
    from keras_bert.finetuning.task import TASK_FILE

    return (folder / TASK_FILE).is_file()


def main(_: list[str]) -> None:
    """Runs the load, prints what came of it and judges it."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(_MODEL_DIR.value) if _MODEL_DIR.value else untrained(Path(scratch) / "model")
        process, port = start_server(export(folder, Path(scratch) / _NAME))
        try:
            load = Load(f"127.0.0.1:{port}", "scores" if is_classifier(folder) else "pooled_output")
            samples = watch(process, load)
            load.stop()
        finally:
            process.kill()
            process.wait()
        if problems := judged(load, samples, folder):
            print(*(f"error: {problem}" for problem in problems), sep="\n")
            sys.exit(1)


def judged(load: Load, samples: Sequence[tuple[float, float]], folder: Path) -> list[str]:
    """Prints latency, memory and difference to the live model; returns what is wrong."""
    problems = [f"{count} times: {sentence}" for sentence, count in load.errors.items()]
    if len(load.latencies) < 2 or len(samples) < 4:
        return [*problems, f"{len(load.latencies)} requests were answered: too few to judge"]
    cuts = statistics.quantiles(load.latencies, n=100)
    latency = ", ".join(f"p{p} {1000 * cuts[p - 1]:.0f} ms" for p in (50, 90, 99))
    rate = len(load.latencies) / samples[-1][0]
    print(f"{len(load.latencies):,} requests, {rate:.0f} a second; {latency}")
    slope = growth(samples)
    print(f"memory in the second half: {slope:+.1f} MB a minute, limit {_MOST_GROWTH.value:g}")
    if slope > _MOST_GROWTH.value:
        problems.append(f"memory grew by {slope:.1f} MB a minute: --most_growth allows less")
    expected = live_answers(folder, [answer.text for answer in load.answers])
    found = np.array([answer.vector for answer in load.answers])
    difference, tolerance = float(np.abs(found - expected).max()), _TOLERANCES[_DTYPE.value]
    print(
        f"{len(found)} answers against the Keras model in float32: largest difference "
        f"{difference:.1e}, tolerance {tolerance:.0e}"
    )
    if not difference <= tolerance:
        problems.append(f"an answer differs by {difference:.1e} from the Keras model's")
    return problems


if __name__ == "__main__":
    app.run(main)
