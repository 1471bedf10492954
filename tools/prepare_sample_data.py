"""Prepares the sample data for the quickstart: corpora, and two data sets of verses.

    python tools/prepare_sample_data.py --output_dir=quickstart_output/data

Five novels and the verses of the training chapters become the corpus, the sixth novel is held out.
The pair data set asks whether two verses of different translations are the same verse; its negative
pairs are neighbours in one chapter. The verses data set asks to find each verse of 1611 among those
of today's English (run_finetuning.py --task=retrieval). Chapters are split, so no verse of the test
set, in either translation, is seen before in pretraining or fine-tuning.
"""

import csv
import gzip
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from absl import flags

from keras_bert import command_line
from keras_bert.storage.files import atomic_file
from keras_bert.storage.paths import check_local

flags.DEFINE_string("output_dir", None, "Folder to write.")
flags.DEFINE_integer("seed", 1, "Seed of the split and of the negative pairs.")
flags.mark_flags_as_required(["output_dir"])

_SAMPLE_DATA = Path(__file__).parent / "sample_data"
_SIXTH_NOVEL = "\nPersuasion\nby\nJane Austen\n"
_SPLITS = {"train": 0.8, "validation": 0.1, "test": 0.1}


class Verse(NamedTuple):
    """One verse in both translations."""

    king_james: str
    world_english: str


def main(_: Sequence[str]) -> None:
    """Reads the flags and writes all files."""
    if not _SAMPLE_DATA.is_dir():
        raise FileNotFoundError(
            "the sample data is not part of the installed package: run this tool in a clone of the "
            "repository"
        )
    check_local("--output_dir", flags.FLAGS.output_dir)
    folder = Path(flags.FLAGS.output_dir)
    rng = random.Random(flags.FLAGS.seed)
    novels = gzip.open(_SAMPLE_DATA / "austen.txt.gz", "rt", encoding="utf-8").read()
    five, sixth = novels.split(_SIXTH_NOVEL)
    splits = _split(_read_chapters(), rng)
    _write(folder / "corpus" / "train" / "novels.txt", five)
    _write(folder / "corpus" / "train" / "verses.txt", _as_documents(splits["train"]))
    _write(folder / "corpus" / "eval" / "persuasion.txt", sixth)
    for name, chapters in splits.items():
        _write_pairs(folder / "pairs" / f"{name}.csv", chapters, rng)
        verses = [verse for chapter in chapters for verse in chapter]
        _write_table(folder / "verses" / f"{name}.csv", ("text", "positive"), verses)
        print(f"{name}: {len(chapters)} chapters, {sum(map(len, chapters))} verses")


def _read_chapters() -> list[list[Verse]]:
    with gzip.open(_SAMPLE_DATA / "bible_verse_pairs.tsv.gz", "rt", encoding="utf-8") as file:
        verses = [Verse(*line.rstrip("\n").split("\t")) for line in file]
    with open(_SAMPLE_DATA / "bible_chapters.tsv", encoding="utf-8", newline="") as file:
        sizes = [int(row["verses"]) for row in csv.DictReader(file, delimiter="\t")]
    source = iter(verses)
    return [[next(source) for _ in range(size)] for size in sizes]


def _split(chapters: list[list[Verse]], rng: random.Random) -> dict[str, list[list[Verse]]]:
    shuffled = rng.sample(chapters, len(chapters))
    splits, start = {}, 0.0
    for name, share in _SPLITS.items():
        first, last = (round(len(chapters) * edge) for edge in (start, start + share))
        splits[name] = shuffled[first:last]
        start += share
    return splits


def _as_documents(chapters: list[list[Verse]]) -> str:
    """Returns every chapter of every translation as a document, a verse a line."""
    translations = ([verse[i] for verse in chapter] for i in (0, 1) for chapter in chapters)
    return "\n\n".join("\n".join(verses) for verses in translations) + "\n"


def _write_pairs(path: Path, chapters: list[list[Verse]], rng: random.Random) -> None:
    """Writes for each verse its own translation and that of a neighbour, in random order."""
    rows = []
    for chapter in chapters:
        for index, verse in enumerate(chapter):
            neighbours = [i for i in (index - 1, index + 1) if 0 <= i < len(chapter)]
            if neighbours:
                other = chapter[rng.choice(neighbours)]
                rows.append((verse.king_james, verse.world_english, "same"))
                rows.append((verse.king_james, other.world_english, "other"))
    rng.shuffle(rows)
    _write_table(path, ("text", "text_pair", "label"), rows)


def _write_table(path: Path, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)


def _write(path: Path, text: str) -> None:
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    command_line.run(main)
