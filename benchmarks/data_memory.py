"""Pretraining data: peak memory and time on 10 MB and on 500 MB of text must not drift apart.

Files of text (plain or .gz) are repeated to either size, each copy as files of its own beginning
at another place, so that no two documents are the same.

    python benchmarks/data_memory.py --text=tools/sample_data/austen.txt.gz --megabytes=10,500
"""

import gzip
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from absl import app, flags
from measured_process import run_measured

_REPOSITORY = Path(__file__).parents[1]
_TEXT = flags.DEFINE_list("text", None, "Files of text.", required=True)
_MEGABYTES = flags.DEFINE_list("megabytes", ["10", "500"], "Sizes to measure.")
_WORKERS = flags.DEFINE_integer("workers", 2, "Number of processes.")
_FILE_BYTES = 50_000_000


def main(_: Sequence[str]) -> None:
    """Measures each size and prints the numbers."""
    text = "\n\n".join(_read(path) for path in _TEXT.value)
    with tempfile.TemporaryDirectory() as folder:
        vocab = _learn_vocabulary(text, Path(folder))
        for megabytes in map(float, _MEGABYTES.value):
            _measure(text, int(megabytes * 1e6), vocab, Path(folder))


def _read(path: str) -> str:
    opened = gzip.open(path, "rb") if path.endswith((".gz", ".dz")) else open(path, "rb")
    with opened as file:
        return file.read().decode("utf-8", "replace")


def _learn_vocabulary(text: str, folder: Path) -> Path:
    from keras_bert.text.tokenizer import BertTokenizer
    from keras_bert.text.vocabulary_training import train_vocabulary

    paragraphs = text[:10_000_000].split("\n")
    BertTokenizer(train_vocabulary(paragraphs, 16_000)).save(folder)
    return folder / "vocab.txt"


def _measure(text: str, size: int, vocab: Path, folder: Path) -> None:
    corpus, output = folder / f"{size}", folder / f"{size}.records"
    corpus.mkdir()
    written = 0
    while written < size:
        # Turned around at another place for each file.
        start = (written // 7) % len(text)
        turned = (text[start:] + text[:start]).encode()[: min(_FILE_BYTES, size - written)]
        (corpus / f"{written:012}.txt").write_bytes(turned[: turned.rfind(b"\n")])
        written += len(turned)
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
