"""Many requests at once to an exported model in a server process of its own.

    python benchmarks/serving_load.py --export_dir=served/reviews [--clients=200] [--seconds=60]

Every client sends one request after the other, of one to eight texts of mixed lengths. Printed are
requests and errors, percentiles of latency, and the server's memory along the way. The server is
prediction_server.py; needs the extra serving.
"""

import collections
import random
import re
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

from absl import app, flags

from keras_bert.export.client import GrpcClient

flags.DEFINE_string("export_dir", None, "Folder of export_saved_model.py, of a model of texts.")
flags.DEFINE_integer("clients", 200, "Requests at a time.", lower_bound=1)
flags.DEFINE_integer("seconds", 60, "How long.", lower_bound=1)
flags.mark_flags_as_required(["export_dir"])

_WORDS = "the a film was very good bad it book saw \u4e2d\u6587 caf\u00e9 unbelievable , .".split()
_MEMORY_CHECKS = 6


def start_server(version: Path, name: str) -> tuple[subprocess.Popen, int]:
    """Starts the server; returns the process and its port."""
    script = Path(__file__).with_name("prediction_server.py")
    process = subprocess.Popen(
        [sys.executable, str(script), str(version), name], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        print(line.strip(), flush=True)
        if found := re.search(r"listening on port (\d+)", line):
            return process, int(found.group(1))
    raise RuntimeError(f"the server ended with status {process.wait()}")


def memory(process: subprocess.Popen) -> float:
    """Returns the resident memory of a process in MB."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1)) / 1024


class Load:
    """Clients that ask until they are told to stop.

    Attributes:
        latencies: seconds of each answered request.
        errors: how often each sentence was the answer.
    """

    def __init__(self, server: str, name: str, clients: int):
        self.latencies: list[float] = []
        self.errors: collections.Counter[str] = collections.Counter()
        self._stop = threading.Event()
        self._connections = [GrpcClient(server, name, timeout=600) for _ in range(8)]
        self._threads = [threading.Thread(target=self._ask, args=(i,)) for i in range(clients)]

    def start(self) -> None:
        """Starts all clients."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Waits for the requests under way."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, number: int) -> None:
        draw = random.Random(number)
        client = self._connections[number % len(self._connections)]
        while not self._stop.is_set():
            texts = [_text(draw) for _ in range(draw.randint(1, 8))]
            start = time.perf_counter()
            try:
                answers = client.predict({"text": texts})
                if any(len(values) != len(texts) for values in answers.values()):
                    self.errors["an answer for another number of texts"] += 1
            except (ValueError, ConnectionError) as error:
                self.errors[str(error)] += 1
            self.latencies.append(time.perf_counter() - start)


def _text(draw: random.Random) -> str:
    length = int(draw.choice([3, 10, 30, 100]) * draw.uniform(0.5, 1.5))
    return " ".join(draw.choices(_WORDS, k=length))


def main(_: list[str]) -> None:
    """Runs the load and prints what came of it; ends with status 1 where a request failed."""
    values = flags.FLAGS
    export_dir = Path(values.export_dir)
    version = max(
        (p for p in export_dir.iterdir() if p.name.isdecimal()), key=lambda p: int(p.name)
    )
    name = export_dir.resolve().name
    process, port = start_server(version, name)
    try:
        load = Load(f"127.0.0.1:{port}", name, values.clients)
        load.start()
        for check in range(_MEMORY_CHECKS):
            time.sleep(values.seconds / _MEMORY_CHECKS)
            seconds = (check + 1) * values.seconds / _MEMORY_CHECKS
            print(f"{seconds:.0f} s: {len(load.latencies):,} requests, {memory(process):.0f} MB")
        load.stop()
    finally:
        process.terminate()
        process.wait()
    cuts = statistics.quantiles(load.latencies, n=100)
    shown = ", ".join(f"p{p} {1000 * cuts[p - 1]:.0f} ms" for p in (50, 90, 99))
    print(f"{len(load.latencies):,} requests, {sum(load.errors.values())} errors; {shown}")
    for sentence, count in load.errors.items():
        print(f"{count} times: {sentence}")
    sys.exit(bool(load.errors))


if __name__ == "__main__":
    app.run(main)
