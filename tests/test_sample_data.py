"""The sample data is what its README says."""

import csv
import gzip
import itertools
import re
import statistics
from collections import Counter, defaultdict
from pathlib import Path

from tests import command_process

SAMPLE_DATA = Path(__file__).parents[1] / "tools" / "sample_data"


def _chapters():
    with open(SAMPLE_DATA / "bible_chapters.tsv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def _verses():
    with gzip.open(SAMPLE_DATA / "bible_verse_pairs.tsv.gz", "rt", encoding="utf-8") as file:
        return [line.rstrip("\n").split("\t") for line in file]


def _first_verses():
    verses = _verses()
    first, start = {}, 0
    for chapter in _chapters():
        first[chapter["book"], int(chapter["chapter"])] = verses[start]
        start += int(chapter["verses"])
    assert start == len(verses) == 7904
    assert all(len(verse) == 2 for verse in verses)
    return first


def test_there_are_the_260_chapters_of_the_new_testament():
    chapters = _chapters()
    assert len(chapters) == 260
    assert len({chapter["book"] for chapter in chapters}) == 27


def test_chapters_start_where_they_start_in_any_bible():
    first = _first_verses()
    expected = {
        ("John", 1): "In the beginning was the Word",
        ("Luke", 2): "And it came to pass in those days, that there went out a decree",
        ("1 Corinthians", 13): "Though I speak with the tongues of men and of angels",
        ("Hebrews", 11): "Now faith is the substance of things hoped for",
        ("Revelation", 14): "And I looked, and, lo, a Lamb stood on the mount Sion",
        ("Revelation", 21): "And I saw a new heaven and a new earth",
        ("Revelation", 22): "And he shewed me a pure river of water of life",
    }
    for chapter, words in expected.items():
        assert first[chapter][0].startswith(words)


def test_a_pair_is_one_verse_in_every_book():
    """Two translations share words, of one verse far more than of two that follow each other."""
    starts = [0, *itertools.accumulate(int(chapter["verses"]) for chapter in _chapters())]
    words = [[set(re.findall(r"\w{4,}", side.lower())) for side in verse] for verse in _verses()]
    by_book = defaultdict(list)
    for chapter, (start, end) in zip(_chapters(), itertools.pairwise(starts), strict=True):
        for index in range(start, end - 1):
            ours, (same, after) = words[index][0], (words[index][1], words[index + 1][1])
            by_book[chapter["book"]].append((_overlap(ours, same), _overlap(ours, after)))
    for book, overlaps in by_book.items():
        same, after = map(statistics.mean, zip(*overlaps, strict=True))
        assert same > 0.25 and same > 3 * after, book


def _overlap(ours, theirs):
    return len(ours & theirs) / max(len(ours | theirs), 1)


def test_the_novels_are_six():
    with gzip.open(SAMPLE_DATA / "austen.txt.gz", "rt", encoding="utf-8") as file:
        text = file.read()
    assert 3_900_000 < len(text) < 4_100_000
    for hero in ("Dashwood", "Darcy", "Bertram", "Knightley", "Tilney", "Wentworth"):
        assert hero in text


def test_verses_to_search_for_are_of_no_two_splits(tmp_path):
    tool = SAMPLE_DATA.parent / "prepare_sample_data.py"
    done = command_process.run([tool, f"--output_dir={tmp_path}"])
    assert done.returncode == 0, done.stderr[-2000:]
    splits = {}
    for split in ("train", "validation", "test"):
        with open(tmp_path / "verses" / f"{split}.csv", encoding="utf-8", newline="") as file:
            splits[split] = [(row["text"], row["positive"]) for row in csv.DictReader(file)]
    verses = Counter(tuple(verse) for verse in _verses())
    assert sum(map(Counter, splits.values()), Counter()) == verses
    # Some verses are the same in several chapters.
    assert len(set(splits["train"]) & set(splits["test"])) < 3
