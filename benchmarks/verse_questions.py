"""Questions about verses of the New Testament: a folder in the format of SQuAD.

From the sample data of this repository, which has each verse in two translations. The question is a
verse of the King James Version in which a name is replaced by "who"; the context is the paragraph
around it in the World English Bible, and the answer that name in the verse of the same number. So
question and context say the same in other words. Unanswerable questions have a paragraph of another
chapter in which the name does not occur.
"""

import csv
import gzip
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from keras_bert import Answer, Question, write_squad

_SAMPLE_DATA = Path(__file__).resolve().parents[1] / "tools" / "sample_data"
_VERSES_OF_A_PARAGRAPH = 6
# Words with a capital letter behind one without: what begins a sentence is no name.
_NAME = re.compile(r"(?<=[a-z] )[A-Z][a-z]+(?: [A-Z][a-z]+)*")
_EVERY = 10  # chapter is for testing, and as many for validation


class Verse(NamedTuple):
    """One verse: what the question is made of, and what the context is."""

    king_james: str
    world_english: str


def names(text: str) -> list[tuple[str, int]]:
    """Returns the names in a text and where each starts."""
    return [(match[0], match.start()) for match in _NAME.finditer(text)]


def write(folder: Path, unanswerable_rate: float = 0.0, seed: int = 0) -> Path:
    """Writes train.json, dev.json and test.json; chapters are not shared between them.

    Args:
        folder: the folder.
        unanswerable_rate: how many of the questions get a paragraph without the answer.
        seed: of what is asked and which paragraphs are exchanged.
    """
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(seed)
    splits: dict[str, list[Question]] = {"train": [], "dev": [], "test": []}
    for number, chapter in enumerate(_chapters()):
        split = {0: "test", 1: "dev"}.get(number % _EVERY, "train")
        splits[split] += _questions(f"{number}", chapter, draw)
    for split, questions in splits.items():
        chosen = _without_some_answers(questions, unanswerable_rate, draw)
        write_squad(folder / f"{split}.json", chosen)
    return folder


def _chapters() -> list[list[Verse]]:
    with gzip.open(_SAMPLE_DATA / "bible_verse_pairs.tsv.gz", "rt", encoding="utf-8") as file:
        verses = iter([Verse(*line.rstrip("\n").split("\t")) for line in file])
    with open(_SAMPLE_DATA / "bible_chapters.tsv", encoding="utf-8", newline="") as file:
        sizes = [int(row["verses"]) for row in csv.DictReader(file, delimiter="\t")]
    return [[next(verses) for _ in range(size)] for size in sizes]


def _questions(chapter: str, verses: list[Verse], draw: random.Random) -> Iterator[Question]:
    for first in range(0, len(verses), _VERSES_OF_A_PARAGRAPH):
        paragraph = verses[first : first + _VERSES_OF_A_PARAGRAPH]
        context = " ".join(verse.world_english for verse in paragraph)
        start = 0
        for index, verse in enumerate(paragraph):
            asked = _asked(verse, draw)
            if asked is not None:
                question, (name, place) = asked
                answer = Answer(name, start + place)
                yield Question(f"{chapter}-{first + index}", question, context, (answer,))
            start += len(verse.world_english) + 1


def _asked(verse: Verse, draw: random.Random) -> tuple[str, tuple[str, int]] | None:
    """Returns the question and the answer in the other translation; None without a common name."""
    known = names(verse.king_james)
    common = [
        found
        for found in names(verse.world_english)
        if [name for name, _ in known].count(found[0]) == 1
        and verse.world_english.count(found[0]) == 1
    ]
    if not common:
        return None
    answer = draw.choice(common)
    start = dict(known)[answer[0]]
    asked = verse.king_james[:start] + "who" + verse.king_james[start + len(answer[0]) :]
    return asked.removeprefix("¶ "), answer


def _without_some_answers(
    questions: list[Question], share: float, draw: random.Random
) -> list[Question]:
    contexts = sorted({question.context for question in questions})
    chosen = []
    for question in questions:
        if draw.random() < share:
            name = question.answers[0].text
            other = draw.choice([context for context in contexts if name not in context])
            question = Question(question.id, question.question, other, ())
        chosen.append(question)
    return chosen
