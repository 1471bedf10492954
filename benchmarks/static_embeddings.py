"""Static embeddings beside their teacher, trained, and beside Model2Vec with the same table.

    make benchmark NAME=static_embeddings ARGS='--runs=5'

MiniLM of six layers becomes tables of static embeddings. Quality: nDCG at 10 of finding each verse
of 1611 among those of today's English (test.csv of tools/prepare_sample_data.py). Training: the
first of these tables, and a fresh one for the same pieces, learn from the pairs of train.csv; the
learning rate is that of the best nDCG on validation.csv, seed 0. --data names another folder of
such files for it, of which every other .csv is a test, such as the manuals of the benchmark
search. Speed: raw strings to vectors, the reviews of food_reviews.py; sides take turns, MiniLM
has a part of them.
"""

import contextlib
import csv
import io
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import food_reviews
import numpy as np
import packages
from absl import app, flags

from keras_bert import (
    FinetuningOptions,
    SentenceEncoder,
    create_task,
    distill_static_embeddings,
    search,
)

_PARTS = ("untrained", "trained", "speed")
flags.DEFINE_multi_enum("parts", list(_PARTS), list(_PARTS), "Only these.")
flags.DEFINE_integer("runs", 5, "Runs of each side.", lower_bound=1)
flags.DEFINE_integer("texts", 8000, "Texts of a run; MiniLM has 160.", lower_bound=160)
flags.DEFINE_string("data", None, "Folder of pairs to learn from; unset: the verses.")
flags.DEFINE_integer("seeds", 3, "Trained tables of each start.", lower_bound=2)
flags.DEFINE_integer("epochs", 4, "Passes over the pairs.", lower_bound=1)
flags.DEFINE_integer("batch_size", 256, "Pairs of a step.", lower_bound=1)

_ROOT = Path(__file__).resolve().parents[1]
_OF_TEACHER = 160
# Name of the table -> how it is made.
TABLES: dict[str, dict[str, Any]] = {
    "256 numbers": {},
    "all 384 numbers": {"width": None},
    "64 numbers": {"width": 64},
    "256 numbers, all pieces weigh alike": {"sif_coefficient": None},
}
# Start -> numbers of a fresh table, or None, and the learning rates that are tried.
STARTS: dict[str, tuple[int | None, tuple[float, ...]]] = {
    "distilled from MiniLM": (None, (0.01, 0.03, 0.1)),
    "fresh": (256, (0.03, 0.1, 0.3)),
}


def verses(folder: Path) -> Path:
    """Returns the folder of pairs of verses."""
    if not folder.is_dir():
        tool = str(_ROOT / "tools" / "prepare_sample_data.py")
        subprocess.run([sys.executable, tool, f"--output_dir={folder}"], check=True, cwd=_ROOT)
    return folder / "verses"


def pairs(path: Path) -> tuple[list[str], list[str]]:
    """Returns the queries of a file, such as verses of 1611, and what each of them should find."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = [*csv.DictReader(file)]
    return [row["text"] for row in rows], [row["positive"] for row in rows]


def ndcg(encoder: SentenceEncoder, queries: Sequence[str], texts: Sequence[str]) -> float:
    """Returns the mean over the queries, in hundredths, where text n alone answers query n."""
    asked, held = encoder.encode_query(queries), encoder.encode_document(texts)
    asked, held = (
        rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        for rows in (asked, held)
    )
    scores = asked @ held.T  # [Q, N]
    ahead = (scores > np.diag(scores)[:, None]).sum(axis=1)  # [Q]
    return 100 * float(np.where(ahead < 10, 1 / np.log2(ahead + 2), 0).mean())


def texts_per_second(encode: Callable[[list[str]], Any], texts: list[str]) -> float:
    """Returns the speed of one run."""
    start = time.perf_counter()
    encode(texts)
    return len(texts) / (time.perf_counter() - start)


def distilled(source: Path, folder: Path, **arguments: Any) -> float:
    """Makes a table of an encoder in a folder, in the form of Model2Vec; returns the seconds."""
    start = time.perf_counter()
    with contextlib.redirect_stderr(io.StringIO()):
        distill_static_embeddings(source, folder, model2vec=True, pooling="mean", **arguments)
    return time.perf_counter() - start


def quality(source: Path, test: Path, scratch: Path) -> None:
    """Prints how well tables search that nothing was trained on."""
    teacher = SentenceEncoder.from_preset(source, pooling="mean")
    print("| vectors | nDCG at 10 | made in, s |")
    print("|---|---|---|")
    print(f"| MiniLM | {ndcg(teacher, *pairs(test)):.1f} | |", flush=True)
    for number, (name, arguments) in enumerate(TABLES.items()):
        folder = scratch / f"{number}"
        took = distilled(source, folder, **arguments)
        found = ndcg(SentenceEncoder.from_preset(folder), *pairs(test))
        print(f"| {name} | {found:.1f} | {took:.0f} |", flush=True)


def training(table: Path, data: Path, scratch: Path) -> None:
    """Prints how well tables search before and after they learned from pairs."""
    tests = sorted({*data.glob("*.csv")} - {data / "train.csv", data / "validation.csv"})
    names = " | ".join(f"{test.stem}, as it is | trained" for test in tests)
    print(f"| start | learning rate | validation | {names} | training, s |")
    print(f"|---|---|---|{'---|---|' * len(tests)}---|")
    for name, (width, rates) in STARTS.items():
        task = create_task("retrieval", static_width=width)
        splits = task.read(data)
        options = FinetuningOptions(
            epochs=flags.FLAGS.epochs,
            batch_size=flags.FLAGS.batch_size,
            from_scratch=width is not None,
        )
        told = task, splits, table, scratch / name, options
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            best = search(*told, grid={"learning_rate": rates}).best.point["learning_rate"]
            # A grid of one point: its trial is the first seed and not made again.
            found = search(*told, flags.FLAGS.seeds, {"learning_rate": (best,)})
        runs = {scratch / name / "runs" / run.name: run.measured for run in found.runs}
        measured = [100 * run.metrics["validation"]["ndcg_at_10"] for run in runs.values()]
        cells = [name, f"{best:g}", _spread(measured)]
        for test in tests:
            start = SentenceEncoder.from_preset(table)
            cells.append("" if width else f"{ndcg(start, *pairs(test)):.1f}")
            trained = map(SentenceEncoder.from_preset, runs)
            cells.append(_spread([ndcg(encoder, *pairs(test)) for encoder in trained]))
        seconds = statistics.median(run.seconds for run in runs.values())
        print(f"| {' | '.join(cells)} | {seconds:.0f} |", flush=True)


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def main(_: list[str]) -> None:
    """Measures and prints the tables."""
    values = flags.FLAGS
    source = packages.minilm()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        if "untrained" in values.parts:
            quality(source, verses(scratch / "data") / "test.csv", scratch)
        table = scratch / "table"
        distilled(source, table)
        if "trained" in values.parts:
            data = Path(values.data) if values.data else verses(scratch / "data")
            training(table, data, scratch)
        if "speed" in values.parts:
            speed(source, table)


def speed(source: Path, table: Path) -> None:
    """Prints how fast texts become vectors."""
    import model2vec

    teacher = SentenceEncoder.from_preset(source, pooling="mean")
    ours = SentenceEncoder.from_preset(table)
    peer = model2vec.StaticModel.from_pretrained(str(table))
    reviews = [str(text) for text in food_reviews.load()["train"]["text"]]
    many = (reviews * (flags.FLAGS.texts // len(reviews) + 1))[: flags.FLAGS.texts]
    sides: dict[str, tuple[Callable[[list[str]], Any], list[str]]] = {
        "ours": (lambda part: ours.encode(part, batch_size=1024), many),
        "Model2Vec, one process": (
            lambda part: peer.encode(part, use_multiprocessing=False),
            many,
        ),
        "Model2Vec, as it chooses": (peer.encode, many),
        "MiniLM, float32": (lambda part: teacher.encode(part, batch_size=32), many[:_OF_TEACHER]),
    }
    difference = np.abs(ours.encode(many[:500]) - peer.encode(many[:500])).max()
    speeds: dict[str, list[float]] = {name: [] for name in sides}
    for run in range(flags.FLAGS.runs + 1):
        for name, (encode, part) in sides.items():
            speed = texts_per_second(encode, part)
            if run:  # the first one traces
                speeds[name].append(speed)
    print("\n| side | texts/s | x |")
    print("|---|---|---|")
    own = statistics.median(speeds["ours"])
    for name, found in speeds.items():
        middle = statistics.median(found)
        print(f"| {name} | {middle:,.0f} | {middle / own:.3g} |")
    print(f"\nlargest difference between ours and Model2Vec: {difference:.1e}")


if __name__ == "__main__":
    app.run(main)
