"""What a training step takes on one chip, for base and large: the table of docs/tpu.md.

    make benchmark NAME=tpu_memory ARGS='--results=runs/tpu_memory.jsonl'

Each row is the training step lowered and compiled; that takes minutes of two cores. Results are
kept in a file, so the same command goes on where it was stopped.
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from absl import app, flags

_RESULTS = flags.DEFINE_string("results", None, "File of what is done.", required=True)

_CHIP = "v5e:2x2"
_OTHER_CHIPS = ("v4:2x2x1", "v6e:2x2")
# Sequences on a chip; the first of each also on those of the other chips.
_BATCHES = {
    ("bert_base", 128): (64, 256),
    ("bert_base", 512): (16, 64),
    ("bert_large", 128): (32, 128),
    ("bert_large", 512): (8, 32),
}


class Case(NamedTuple):
    """One row."""

    model: str
    length: int
    batch: int
    remat: bool
    topology: str


def main(_: list[str]) -> None:
    """Compiles what is not done yet, then prints the tables."""
    path = Path(_RESULTS.value)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    rows = map(json.loads, path.read_text().splitlines())
    done = {Case(*row.pop("case")): row for row in rows}
    for case in _cases():
        if case not in done:
            done[case] = _measured(case)
            print(case, done[case], flush=True)
            with path.open("a") as file:
                file.write(json.dumps({"case": case} | done[case]) + "\n")
    _print_memory(done)
    _print_operations(done)


def _cases() -> Iterator[Case]:
    """Yields the rows, those that matter most first."""
    first = [(*size, batches[0]) for size, batches in _BATCHES.items()]
    second = [(*size, batches[1]) for size, batches in _BATCHES.items()]
    yield from (Case(*row, remat, _CHIP) for remat in (False, True) for row in first)
    yield from (Case(*row, False, topology) for topology in _OTHER_CHIPS for row in first)
    yield from (Case(*row, remat, _CHIP) for remat in (True, False) for row in second)


def _measured(case: Case) -> dict[str, Any]:
    from keras_bert.tpu.compilation import OutOfMemoryError, compile_for_tpu
    from keras_bert.tpu.planning import least_flops, lower_in_a_process

    step = _step(case)
    lowered = lower_in_a_process(step)
    try:
        program = compile_for_tpu(lowered.hlo, lowered.num_variables, case.topology)
    except OutOfMemoryError as error:
        return {"does_not_fit": str(error)}
    return {"memory": program.memory, "ratio": program.flops / least_flops(step)}


def _step(case: Case) -> Any:
    import keras_bert.tpu.environment  # noqa: F401  # isort: skip
    from keras_bert.pretraining.pretrain import load_config
    from keras_bert.tpu.lowering import StepOptions

    return StepOptions(
        load_config(case.model, 30522),
        case.batch,
        case.length,
        math.ceil(0.15 * case.length),
        remat=case.remat,
    )


def _print_memory(done: dict[Case, dict[str, Any]]) -> None:
    print("\n| model | length | sequences on a chip | GiB | with --remat |\n|---|---|---|---|---|")
    for (model, length), batches in _BATCHES.items():
        for batch in batches:
            both = [done.get(Case(model, length, batch, remat, _CHIP)) for remat in (False, True)]
            print(f"| {model} | {length} | {batch} | {' | '.join(map(_memory, both))} |")


def _print_operations(done: dict[Case, dict[str, Any]]) -> None:
    print("\n| model | length | sequences on a chip | chip | GiB | operations |")
    print("|---|---|---|---|---|---|")
    for case, row in done.items():
        if not case.remat and "ratio" in row:
            cells = [*case[:3], case.topology, _memory(row), f"{row['ratio']:.3f}"]
            print(f"| {' | '.join(map(str, cells))} |")


def _memory(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    return f"{row['memory'] / 2**30:.2f}" if "memory" in row else "does not fit"


if __name__ == "__main__":
    app.run(main)
