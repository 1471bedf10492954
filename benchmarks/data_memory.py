"""Pretraining data: peak memory and time on 10 MB and on 500 MB of text must not drift apart.

    make benchmark NAME=data_memory ARGS='--megabytes=10,50,500'

The texts of large_texts.py are joined and repeated to each size, in runs of half a megabyte that
begin at places spread over all of it: every size is the same mixture.
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import large_texts
from absl import app, flags
from measured_process import run_measured

_REPOSITORY = Path(__file__).parents[1]
_TEXTS = flags.DEFINE_multi_enum(
    "texts", ["dictionary", "kernel_manual"], list(large_texts.TEXTS), "What is joined."
)
_MEGABYTES = flags.DEFINE_list("megabytes", ["10", "500"], "Sizes to measure.")
_WORKERS = flags.DEFINE_integer("workers", 2, "Number of processes.")
_FILE_BYTES = 50_000_000
_RUN_BYTES = 500_000
# Multiples of the golden ratio are spread evenly over a circle, however many there are.
_GOLDEN_RATIO = (5**0.5 - 1) / 2


def main(_: Sequence[str]) -> None:
    """Measures each size and prints the numbers."""
    parts = (part for name in _TEXTS.value for part in large_texts.TEXTS[name]())
    text = "\n\n".join(parts).encode()
    with tempfile.TemporaryDirectory() as folder:
        vocab = _learn_vocabulary(text, Path(folder))
        for megabytes in map(float, _MEGABYTES.value):
            _measure(text, int(megabytes * 1e6), vocab, Path(folder))


def _learn_vocabulary(text: bytes, folder: Path) -> Path:
    from keras_bert import BertTokenizer, train_vocabulary

    paragraphs = text.decode().split("\n")[::5]
    BertTokenizer(train_vocabulary(paragraphs, 16_000)).save(folder)
    return folder / "vocab.txt"


def _measure(text: bytes, size: int, vocab: Path, folder: Path) -> None:
    corpus, output = folder / f"{size}", folder / f"{size}.records"
    corpus.mkdir()
    for written in range(0, size, _RUN_BYTES):
        start = int(written / _RUN_BYTES * _GOLDEN_RATIO % 1 * (len(text) - _RUN_BYTES))
        run = text[start : start + _RUN_BYTES]
        with open(corpus / f"{written // _FILE_BYTES}.txt", "ab") as file:
            file.write(run[run.find(b"\n\n") : run.rfind(b"\n\n") + 2])
    written = sum(path.stat().st_size for path in corpus.iterdir())
    command = [sys.executable, _REPOSITORY / "tools/create_pretraining_data.py"]
    arguments = {
        "input": corpus / "*.txt",
        "vocab": vocab,
        "output_dir": output,
        "dupe_factor": 1,
        "num_workers": _WORKERS.value,
    }
    cost = run_measured([*command, *(f"--{name}={value}" for name, value in arguments.items())])
    print(
        f"{written / 1e6:6.0f} MB  {cost.seconds:7.1f} s  {cost.cpu_seconds:7.1f} s of the "
        f"processors  peak {cost.peak_bytes / 1e6:6.0f} MB",
        flush=True,
    )


if __name__ == "__main__":
    app.run(main)
