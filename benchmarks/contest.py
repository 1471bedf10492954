"""A contest of libraries: each side in a process of its own, rounds in turns.

The benchmark that holds a contest is its own worker: `run` starts `python benchmark.py --side=NAME`
for each side, and `answer_rounds` is what such a process does. A side prepares, says so, and then
measures a round whenever it is asked to. All others wait meanwhile.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Round = Mapping[str, float]

# On a GPU, TensorFlow would take all memory at its start, and nothing would be left to the others.
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")


def torch_device() -> str:
    """Returns where a side in PyTorch computes: on the GPU, as TensorFlow does where there is one.

    There its float32 products may be rounded to TF32, as TensorFlow's are.
    """
    import torch

    if not torch.cuda.is_available():
        return "cpu"
    torch.set_float32_matmul_precision("high")
    return "cuda"


def chosen(names: Iterable[str], parts: Sequence[str], always: Sequence[str]) -> list[str]:
    """Returns the sides that a flag --sides takes, in their order.

    Args:
        names: of all sides.
        parts: of names, as given; none takes all.
        always: parts of names that the others are compared with.

    Raises:
        SystemExit: no name holds a part.
    """
    names = list(names)
    for part in parts:
        if not any(part in name for name in names):
            raise SystemExit(f"error: no side has '{part}' in its name: there are {names}")
    wanted = [*parts, *always] if parts else [""]
    return [name for name in names if any(part in name for part in wanted)]


def measured(work: Callable[[], Any], repetitions: int = 1) -> dict[str, float]:
    """Returns seconds and processor seconds of one repetition."""
    start, busy = time.perf_counter(), time.process_time()
    for _ in range(repetitions):
        work()
    return {
        "seconds": (time.perf_counter() - start) / repetitions,
        "processor": (time.process_time() - busy) / repetitions,
    }


def answer_rounds(measure: Callable[[], Round], **facts: Any) -> None:
    """Is a side: prints facts when it is ready, and measures a round for every line it reads.

    Args:
        measure: measures a round.
        **facts: what else there is to tell, such as the seconds until here.
    """
    _tell(facts)
    for _ in sys.stdin:
        found = measure()
        # Kilobytes on Linux: resident memory at its worst moment so far.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        _tell({**found, "peak_mb": peak})


def _tell(values: Mapping[str, Any]) -> None:
    # Libraries print to the standard output as they like; a line of ours begins so.
    print("\n=== " + json.dumps(values), flush=True)


class Side:
    """The process of one side.

    Args:
        name: its name.
        arguments: those of this process's program, `--side` apart.

    Raises:
        RuntimeError: it ended before it was ready.
    """

    def __init__(self, name: str, arguments: Sequence[str]):
        self.name = name
        started = time.perf_counter()
        command = [sys.executable, *arguments, f"--side={name}"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ)
        )
        self.facts = self._read()
        self.seconds_to_ready = time.perf_counter() - started
        self.rounds: list[Round] = []

    def measure(self) -> None:
        """Measures a round."""
        self._process.stdin.write("\n")  # type: ignore[union-attr]
        self._process.stdin.flush()  # type: ignore[union-attr]
        self.rounds.append(self._read())

    def median(self, quantity: str) -> float:
        """Returns the median of a quantity over the rounds."""
        return statistics.median(found[quantity] for found in self.rounds)

    def end(self) -> None:
        """Ends the process."""
        self._process.stdin.close()  # type: ignore[union-attr]
        self._process.wait()

    def _read(self) -> dict[str, Any]:
        for line in self._process.stdout:  # type: ignore[union-attr]
            if line.startswith("=== "):
                return json.loads(line[4:])
        raise RuntimeError(f"{self.name} ended with status {self._process.wait()}: see above")


def run(names: Sequence[str], rounds: int, arguments: Sequence[str]) -> list[Side]:
    """Starts all sides one after the other, lets each measure its rounds in turns, ends them.

    Args:
        names: of the sides.
        rounds: rounds of each.
        arguments: program and flags, as in `sys.argv`.
    """
    sides = []
    for name in names:
        sides.append(Side(name, arguments))
        print(f"{name}: ready after {sides[-1].seconds_to_ready:.1f} s", flush=True)
    for _ in range(rounds):
        for side in sides:
            side.measure()
            found = ", ".join(f"{key} {value:.4g}" for key, value in side.rounds[-1].items())
            print(f"{side.name}: {found}", flush=True)
    for side in sides:
        side.end()
    return sides
