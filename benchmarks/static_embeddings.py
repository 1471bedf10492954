"""Static embeddings beside their teacher, and beside Model2Vec with the same table.

    make benchmark NAME=static_embeddings ARGS='--runs=5'

MiniLM of six layers becomes tables of static embeddings. Quality: nDCG at 10 of finding each verse
of 1611 among those of today's English (test.csv of tools/prepare_sample_data.py). Speed: raw
strings to vectors, the reviews of food_reviews.py; sides take turns, MiniLM has a part of them.
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

from keras_bert import SentenceEncoder, distill_static_embeddings

flags.DEFINE_integer("runs", 5, "Runs of each side.", lower_bound=1)
flags.DEFINE_integer("texts", 8000, "Texts of a run; MiniLM has 160.", lower_bound=160)

_ROOT = Path(__file__).resolve().parents[1]
_OF_TEACHER = 160
# Name of the table -> how it is made.
TABLES: dict[str, dict[str, Any]] = {
    "256 numbers": {},
    "all 384 numbers": {"width": None},
    "64 numbers": {"width": 64},
    "256 numbers, all pieces weigh alike": {"sif_coefficient": None},
}


def verses(folder: Path) -> tuple[list[str], list[str]]:
    """Returns the verses of 1611, and those of today's English that say the same."""
    tool = str(_ROOT / "tools" / "prepare_sample_data.py")
    subprocess.run([sys.executable, tool, f"--output_dir={folder}"], check=True, cwd=_ROOT)
    with open(folder / "verses" / "test.csv", encoding="utf-8", newline="") as file:
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


def main(_: list[str]) -> None:
    """Measures and prints two tables."""
    import model2vec

    source = packages.minilm()
    teacher = SentenceEncoder.from_preset(source, pooling="mean")
    with tempfile.TemporaryDirectory() as scratch:
        queries, texts = verses(Path(scratch) / "data")
        print("| vectors | nDCG at 10 | made in, s |")
        print("|---|---|---|")
        print(f"| MiniLM | {ndcg(teacher, queries, texts):.1f} | |", flush=True)
        for number, (name, arguments) in enumerate(TABLES.items()):
            folder = Path(scratch) / f"{number}"
            start = time.perf_counter()
            with contextlib.redirect_stderr(io.StringIO()):
                distill_static_embeddings(
                    source, folder, model2vec=True, pooling="mean", **arguments
                )
            took = time.perf_counter() - start
            found = ndcg(SentenceEncoder.from_preset(folder), queries, texts)
            print(f"| {name} | {found:.1f} | {took:.0f} |", flush=True)
        ours = SentenceEncoder.from_preset(Path(scratch) / "0")
        peer = model2vec.StaticModel.from_pretrained(str(Path(scratch) / "0"))

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
