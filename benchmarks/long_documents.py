"""What the length that a model reads is worth: long documents by ways to read them.

    make benchmark NAME=long_documents ARGS='--data=genres --model_dir=runs/genres'
    make benchmark NAME=long_documents ARGS='--data=mails --model_dir=runs/mails --seeds=3'

Documents of some thousand pieces are classified by their beginning (128 and 512 pieces), by windows
of 512 whose outputs are pooled, and by a model with local attention that sees 2,048 and 4,096
pieces in one sequence. Positions beyond those of the model are copies. All ways start from one
model, take the same steps and choose their epoch by the development documents; accuracies are those
of the test documents. TF-IDF with logistic regression reads all of them, mails up to 20,000
characters. The same command goes on where it was stopped.
"""

import csv
import gzip
import itertools
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import brown
import packages
import spam
from absl import app, flags
from tfidf import tuned_baseline

from keras_bert import (
    FinetuningOptions,
    create_task,
    extend_positions,
    load_encoder,
    load_tokenizer,
    search,
    with_local_attention,
)
from keras_bert.finetuning.task import TEST
from keras_bert.models.preset import read_config
from keras_bert.storage.files import atomic_folder

_NOVELS = Path(__file__).resolve().parents[1] / "tools" / "sample_data" / "austen.txt.gz"
# Novel -> how its first chapter begins, in the order of the file.
_OPENINGS = {
    "Sense and Sensibility": "The family of Dashwood had long been settled",
    "Pride and Prejudice": "It is a truth universally acknowledged",
    "Mansfield Park": "About thirty years ago Miss Maria Ward",
    "Emma": "Emma Woodhouse, handsome, clever, and rich",
    "Northanger Abbey": "No one who had ever seen Catherine Morland",
    "Persuasion": "Sir Walter Elliot, of Kellynch Hall",
}
_PASSAGE_WORDS = 2000
_LONG_MAIL = 3000  # characters, some 700 pieces of prose


class Reading(NamedTuple):
    """A way to read a document.

    Attributes:
        pieces: of one sequence.
        windows: so many sequences, pooled; 1 reads the first alone.
        local: attention is local.
    """

    pieces: int
    windows: int = 1
    local: bool = False

    @property
    def title(self) -> str:
        """What tables call it."""
        if self.local:
            return f"local attention, {self.pieces:,} pieces"
        if self.windows > 1:
            return f"{self.windows} windows of {self.pieces}"
        return f"the first {self.pieces} pieces"


_READINGS = (
    Reading(128),
    Reading(512),
    Reading(512, windows=4),
    Reading(512, windows=8),
    Reading(2048, local=True),
    Reading(4096, local=True),
)


def genres() -> Iterator[tuple[str, str]]:
    """Yields the 500 texts of the Brown corpus, of 2,000 words each, with their 15 genres."""
    for text, genre in zip(brown.texts(), brown.genres(), strict=True):
        yield " ".join(word for sentence in text for word, _ in sentence), genre


def mails() -> Iterator[tuple[str, str]]:
    """Yields the long ones of SpamAssassin's mails, spam or ham."""
    for text, label, _ in spam.mails():
        if len(text) >= _LONG_MAIL:
            yield text, label


def novels() -> Iterator[tuple[str, str]]:
    """Yields passages of 2,000 words of Jane Austen's novels, and which novel each is from."""
    with gzip.open(_NOVELS, "rt", encoding="utf-8") as file:
        text = file.read()
    starts = [text.index(opening) for opening in _OPENINGS.values()]
    for title, start, end in zip(_OPENINGS, starts, [*starts[1:], len(text)], strict=True):
        words = text[start:end].split()
        for first in range(0, len(words) - _PASSAGE_WORDS + 1, _PASSAGE_WORDS):
            yield " ".join(words[first : first + _PASSAGE_WORDS]), title


_DOCUMENTS: Mapping[str, Callable[[], Iterator[tuple[str, str]]]] = {
    "genres": genres,
    "mails": mails,
    "novels": novels,
}

_DATA = flags.DEFINE_enum("data", "genres", sorted(_DOCUMENTS), "What is classified.")
_MODEL_DIR = flags.DEFINE_string("model_dir", None, "Folder of the runs.", required=True)
_INIT_FROM = flags.DEFINE_string("init_from", None, "BERT to start from; unset: MiniLM.")
_SEEDS = flags.DEFINE_integer("seeds", 1, "Runs of each way.", lower_bound=1)
_EPOCHS = flags.DEFINE_integer("epochs", 8, "Passes; the best by the dev documents is kept.")
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 8, "Documents of a step.", lower_bound=1)
_LEARNING_RATE = flags.DEFINE_float("learning_rate", 1e-4, "Peak of all ways.")
_WINDOW = flags.DEFINE_integer("window", 128, "How far local attention sees to each side.")
_POOLING = flags.DEFINE_enum("pooling", "mean", ["mean", "max", "attention"], "Of the windows.")
_EVERY = flags.DEFINE_integer("every", 1, "Of how many documents one is taken.", lower_bound=1)


def write(folder: Path) -> None:
    """Writes train.csv, dev.csv and test.csv: every fifth document of a class is for testing."""
    splits: dict[str, list[tuple[str, str]]] = {"train": [], "dev": [], "test": []}
    seen: Counter[str] = Counter()
    for text, label in itertools.islice(_DOCUMENTS[_DATA.value](), 0, None, _EVERY.value):
        splits[{0: "test", 1: "dev"}.get(seen[label] % 5, "train")].append((text, label))
        seen[label] += 1
    # Half of them tells epochs apart well enough.
    splits["train"] += splits["dev"][1::2]
    splits["dev"] = splits["dev"][::2]
    for name, rows in splits.items():
        with open(folder / f"{name}.csv", "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("text", "label"), *rows])


def start_of(reading: Reading, init_from: Path, folder: Path) -> Path:
    """Returns the model folder that a reading starts from, made of the given one if need be."""
    enough = read_config(init_from).max_position_embeddings >= reading.pieces
    if enough and not reading.local:
        return init_from
    window = f"_window_{_WINDOW.value}" if reading.local else ""
    made = folder / f"from_{reading.pieces}{window}"
    if not made.is_dir():
        encoder = load_encoder(init_from)
        if not enough:
            encoder = extend_positions(encoder, reading.pieces)
        if reading.local:
            encoder = with_local_attention(encoder, _WINDOW.value)
        with atomic_folder(made) as temporary:
            encoder.save_to_preset(temporary, load_tokenizer(init_from))
    return made


def main(_: list[str]) -> None:
    """Trains each way and prints a table."""
    folder = Path(_MODEL_DIR.value)
    with atomic_folder(folder / "data") as temporary:
        write(temporary)  # other data than those of finished runs are refused
    init_from = Path(_INIT_FROM.value or packages.minilm())
    data = create_task("csv").read(folder / "data")
    counts = ", ".join(f"{len(split):,} {name}" for name, split in data.splits.items())
    test = Counter(data.splits[TEST].labels.tolist())
    most = max(test.values()) / sum(test.values())
    print(f"{counts}; the most frequent label: test {most:.4f}", flush=True)
    tuned_baseline(data)
    print("\n| reads | test accuracy | of each run | seconds of a run |\n|---|---|---|---|")
    for reading in _READINGS:
        windows: dict[str, Any] = {}
        if reading.windows > 1:
            windows = {
                "window_pooling": _POOLING.value,
                "max_windows": reading.windows,
                "doc_stride": reading.pieces - 2,  # no piece twice
            }
        options = FinetuningOptions(
            batch_size=_BATCH_SIZE.value,
            learning_rate=_LEARNING_RATE.value,
            max_seq_length=reading.pieces,
        )
        name = reading.title.replace(",", "").replace(" ", "_")
        found = search(
            create_task("csv", **windows),
            data,
            start_of(reading, init_from, folder),
            folder / name,
            options,
            _SEEDS.value,
            {"epochs": [_EPOCHS.value]},
        )
        if found is None:  # SIGTERM; the same command goes on
            return
        runs = [run.result for run in found.runs if run.collapsed is None]
        accuracies = [run.test["accuracy"] for run in runs]
        if not accuracies:
            print(f"| {reading.title} | collapsed | | |", flush=True)
            continue
        each = ", ".join(f"{accuracy:.4f}" for accuracy in accuracies)
        if len(runs) < len(found.runs):
            each += f" ({len(found.runs) - len(runs)} collapsed)"
        seconds = statistics.median(run.seconds for run in runs)
        mean = statistics.mean(accuracies)
        print(f"| {reading.title} | {mean:.4f} | {each} | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    app.run(main)
