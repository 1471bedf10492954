"""TriviaQA (Joshi et al. 2017, arXiv:1705.03551) as questions in the format of SQuAD.

Its questions come with an answer in several spellings (aliases) and with documents that probably
hold it; nobody marked where. That is distant supervision: the first place in a document where an
alias stands is taken for the answer.

    <data>/qa/wikipedia-train.json           question, aliases, names of documents
    <data>/evidence/wikipedia/<name>         the documents of Wikipedia, "EntityPages"
    <data>/evidence/web/<name>               those that a search found, "SearchResults"
      --an alias in the first words of each-->  <output>/train.json, dev.json, test.json

Where TriviaQA's own script joins the tokens of a tokenizer with spaces and lower-cases answers,
contexts here are cut out of the documents as they are, and so are answers; an alias counts as whole
words only ("us" is not in "must", nor "cafe" in one whose accent is a character of its own, nor "5"
in "2.5" or "5,000").
"""

import contextlib
import dataclasses
import os
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from keras_bert.choices import check_choice
from keras_bert.config import read_json
from keras_bert.counts import check_count
from keras_bert.progress import Progress
from keras_bert.storage.files import atomic_file
from keras_bert.storage.paths import check_folder
from keras_bert.tasks.question_answering.questions import Answer, Question
from keras_bert.tasks.question_answering.squad_files import (
    field_of,
    list_of,
    string_of,
    write_squad,
)

Domain = Literal["wikipedia", "web"]
_SPLITS = {
    "train": "{domain}-train.json",
    "dev": "{domain}-dev.json",
    "test": "{domain}-test-without-answers.json",
}
# Where the documents lie of which a question names the files.
_EVIDENCE = {"EntityPages": "wikipedia", "SearchResults": "web"}


@dataclasses.dataclass
class TriviaCounts:
    """What became of the pairs of a question and a document of one split.

    Attributes:
        written: pairs that were written.
        with_answer: those of them whose text holds an alias.
        left_out: training pairs whose text holds none, and pairs that are there twice.
        missing: pairs whose document is not there, or has no words.
    """

    written: int = 0
    with_answer: int = 0
    left_out: int = 0
    missing: int = 0


def convert_triviaqa(
    data: str | os.PathLike,
    output: str | os.PathLike,
    domain: Domain = "wikipedia",
    max_words: int = 400,
) -> dict[str, TriviaCounts]:
    """Writes TriviaQA's questions as `train.json`, `dev.json` and `test.json` for `--task=squad`.

    A question is written once for each of its documents. Training pairs without an alias in their
    text are left out. Development pairs are all kept, with all aliases as right answers. The test
    questions come without answers.

    Args:
        data: the unpacked archive triviaqa-rc, with the folders `qa` and `evidence`.
        output: the folder to write.
        domain: "wikipedia", or "web" with the documents that a search found.
        max_words: how many words (and punctuation marks) of a document are kept. BERT's paper took
            400 of the documents of Wikipedia, TriviaQA's own script takes 800.

    Returns:
        What became of the pairs of each split.

    Raises:
        FileNotFoundError: there is no training file, or no document of a split.
        ValueError: the domain is unknown, `max_words` is below 1, `output` is no path of a folder,
            a file is damaged, or no document holds an alias.
    """
    check_choice("domain", domain, Domain)
    check_count("max_words", max_words)
    check_folder("output", output)  # before all documents are read
    folder = Path(data)
    paths = {split: folder / "qa" / name.format(domain=domain) for split, name in _SPLITS.items()}
    if not paths["train"].is_file():
        raise FileNotFoundError(
            f"{paths['train']} does not exist: give the folder in which triviaqa-rc was unpacked"
        )
    paths = {split: path for split, path in paths.items() if path.is_file()}
    for split in _SPLITS.keys() - paths.keys():
        if (Path(output) / f"{split}.json").exists():
            raise ValueError(
                f"{output} holds a {split}.json of other data, and {folder} has no {split} "
                "questions: choose another --output"
            )
    counts = {split: TriviaCounts() for split in paths}
    # Each under a hidden name first: splits of one conversion stand there together or not at all.
    with contextlib.ExitStack() as stack:
        for split, path in paths.items():
            questions = list(_questions(path, folder / "evidence", split, max_words, counts[split]))
            if not questions:
                _refuse_empty(path, folder / "evidence", counts[split], max_words)
            temporary = stack.enter_context(atomic_file(Path(output) / f"{split}.json"))
            write_squad(temporary, questions)
    return counts


def _refuse_empty(path: Path, evidence: Path, counts: TriviaCounts, max_words: int) -> None:
    if counts.left_out:
        raise ValueError(
            f"{path}: no document holds an answer in its first {max_words} words: raise --max_words"
        )
    if not counts.missing:
        raise ValueError(f"{path} names no documents: is it the file of triviaqa-rc?")
    raise FileNotFoundError(
        f"{evidence} holds none of the {counts.missing:,} documents that {path} names: unpack them "
        "there, in the folders wikipedia and web"
    )


def _questions(
    path: Path, evidence: Path, split: str, max_words: int, counts: TriviaCounts
) -> Iterator[Question]:
    """Yields the pairs of a file that are kept, and counts all of them."""
    entries, seen = list_of(read_json(path), "Data", f"{path}"), set()
    with Progress(len(entries), "question", f"reading {split}") as progress:
        for number, entry in enumerate(entries, start=1):
            name = string_of(entry, "QuestionId", f"{path}, question {number}")
            place = f"{path}, question {name!r}"
            asked = string_of(entry, "Question", place)
            spellings = None if split == "test" else _spellings(entry, place)
            for kind, folder in _EVIDENCE.items():
                for page in list_of(entry, kind, place) if kind in entry else ():
                    file = string_of(page, "Filename", place)
                    if Path(file).is_absolute() or ".." in Path(file).parts:
                        raise ValueError(f"{place}: Filename {file!r} lies outside of {evidence}")
                    text = _first_words(evidence / folder / file, max_words)
                    if text is None:
                        counts.missing += 1
                        continue
                    found = None if spellings is None else _find(spellings, text)
                    identity = f"{name}--{file}"
                    if (split == "train" and found is None) or identity in seen:
                        counts.left_out += 1
                        continue
                    seen.add(identity)
                    counts.written += 1
                    counts.with_answer += found is not None
                    answers = () if found is None else (Answer(found[0], found.start()),)
                    if spellings is None:  # not known
                        yield Question(identity, asked, text)
                    elif split == "train":
                        yield Question(identity, asked, text, answers)
                    else:
                        yield Question(identity, asked, text, answers, spellings)
            progress.update()


def _spellings(entry: Any, place: str) -> tuple[str, ...]:
    """Returns all forms of the right answer, each once."""
    answer = field_of(entry, "Answer", place)
    forms = [string_of(answer, "Value", place)]
    for name in ("Aliases", "NormalizedAliases", "HumanAnswers"):
        forms += map(str, list_of(answer, name, place)) if name in answer else ()
    return tuple(dict.fromkeys(form for form in forms if form.strip()))


def _find(spellings: tuple[str, ...], text: str) -> re.Match[str] | None:
    """Finds the first of the spellings in a text, of several there the longest."""
    forms = sorted(spellings, key=len, reverse=True)
    parts = (r"\s+".join(map(re.escape, form.split())) for form in forms)
    in_word = rf"[\w{_combining_marks(text)}]"
    # A point or a comma between two digits is part of a number.
    begins, ends = rf"(?<!{in_word})(?!(?<=\d[.,])\d)", rf"(?!{in_word})(?!(?<=\d)[.,]\d)"
    pattern = rf"{begins}(?:{'|'.join(parts) or '(?!)'}){ends}"
    return re.search(pattern, text, re.IGNORECASE)


def _first_words(path: Path, max_words: int) -> str | None:
    """Returns the beginning of a document; None where there is none, or it has no words."""
    if not path.is_file():
        return None
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    words = re.compile(rf"\w[\w{_combining_marks(text)}]*|[^\w\s]")
    start = end = -1
    for count, word in enumerate(words.finditer(text)):
        if count == max_words:
            break
        start, end = (word.start() if start < 0 else start), word.end()
    return None if start < 0 else text[start:end]


def _combining_marks(text: str) -> str:
    """Returns the accents of a text that are characters of their own, and no letters to `re`."""
    return "".join(sorted(char for char in set(text) if unicodedata.category(char)[0] == "M"))
