"""The sample data is what its README says."""

import csv
import gzip
from pathlib import Path

SAMPLE_DATA = Path(__file__).parents[1] / "tools" / "sample_data"


def _chapters():
    with open(SAMPLE_DATA / "bible_chapters.tsv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def _first_verses():
    with gzip.open(SAMPLE_DATA / "bible_verse_pairs.tsv.gz", "rt", encoding="utf-8") as file:
        verses = [line.rstrip("\n").split("\t") for line in file]
    first, start = {}, 0
    for chapter in _chapters():
        first[chapter["book"], int(chapter["chapter"])] = verses[start]
        start += int(chapter["verses"])
    assert start == len(verses) == 7926
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
        ("Revelation", 22): "And he shewed me a pure river of water of life",
    }
    for chapter, words in expected.items():
        assert first[chapter][0].startswith(words)


def test_the_novels_are_six():
    with gzip.open(SAMPLE_DATA / "austen.txt.gz", "rt", encoding="utf-8") as file:
        text = file.read()
    assert 3_900_000 < len(text) < 4_100_000
    for hero in ("Dashwood", "Darcy", "Bertram", "Knightley", "Tilney", "Wentworth"):
        assert hero in text
