"""What a chip's share of a training step takes, for base and large: the table of docs/tpu.md.

    .venv-tpu-plan/bin/python benchmarks/tpu_memory.py --results=runs/tpu_memory.jsonl

Each row is the training step lowered once and compiled for each kind of chip; that takes minutes of
two cores. Results are kept in a file, so the same command goes on where it was stopped.
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from absl import app, flags

_RESULTS = flags.DEFINE_string("results", None, "File of what is done.", required=True)

_EVERY_CHIP = ("v5e:2x2", "v4:2x2x1", "v6e:2x2")
# Sequences on a chip. The first of each is compiled for every kind of chip.
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


def main(_: list[str]) -> None:
    """Compiles what is not done yet, then prints the tables."""
    path = Path(_RESULTS.value)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    done = [json.loads(line) for line in path.read_text().splitlines()]
    for case, topologies in _cases():
        if any(Case(*row["case"]) == case for row in done):
            continue
        for row in _measured(case, topologies):
            done.append(row)
            print(row, flush=True)
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")
    _print_memory(done)
    _print_operations(done)


def _cases() -> Iterator[tuple[Case, tuple[str, ...]]]:
    for (model, length), batches in _BATCHES.items():
        yield Case(model, length, batches[0], False), _EVERY_CHIP
    for (model, length), batches in _BATCHES.items():
        yield Case(model, length, batches[0], True), _EVERY_CHIP[:1]
        for remat in (False, True):
            yield Case(model, length, batches[1], remat), _EVERY_CHIP[:1]


def _measured(case: Case, topologies: tuple[str, ...]) -> list[dict[str, Any]]:
    """Returns a row for each topology; nothing where one of them cannot be compiled."""
    from keras_bert.training.tpu_compilation import OutOfMemoryError, compile_for_tpu
    from keras_bert.training.tpu_planning import least_flops, lower_in_a_process

    step = _step(case)
    lowered = lower_in_a_process(step)
    rows = []
    for topology in topologies:
        row: dict[str, Any] = {"case": case, "topology": topology}
        try:
            program = compile_for_tpu(lowered.hlo, lowered.num_variables, topology)
        except OutOfMemoryError as error:
            row["does_not_fit"] = str(error)
        else:
            row |= {"memory": program.memory, "variables": program.variables}
            row["ratio"] = program.flops / least_flops(step)
        rows.append(row)
    return rows


def _step(case: Case) -> Any:
    import keras_bert.training.tpu_environment  # noqa: F401  # isort: skip
    from keras_bert.training.pretraining import load_config
    from keras_bert.training.tpu_lowering import StepOptions

    return StepOptions(
        load_config(case.model, 30522),
        case.batch,
        case.length,
        math.ceil(0.15 * case.length),
        remat=case.remat,
    )


def _print_memory(rows: list[dict[str, Any]]) -> None:
    print("\n| model | length | sequences on a chip | GiB | with --remat |\n|---|---|---|---|---|")
    cells = {Case(*row["case"]): row for row in rows if row["topology"] == _EVERY_CHIP[0]}
    for (model, length), batches in _BATCHES.items():
        for batch in batches:
            both = [cells.get(Case(model, length, batch, remat)) for remat in (False, True)]
            print(f"| {model} | {length} | {batch} | {' | '.join(map(_memory, both))} |")


def _print_operations(rows: list[dict[str, Any]]) -> None:
    print("\n| model | length | sequences on a chip | chip | GiB | operations |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        case = Case(*row["case"])
        if not case.remat and case.batch == _BATCHES[case.model, case.length][0]:
            cells = [*case[:3], row["topology"], _memory(row), f"{row.get('ratio', math.nan):.3f}"]
            print(f"| {' | '.join(map(str, cells))} |")


def _memory(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    return f"{row['memory'] / 2**30:.2f}" if "memory" in row else "does not fit"


if __name__ == "__main__":
    app.run(main)
