"""Files with a word and its labels a line: CoNLL-2003 and all that look like it."""

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from keras_bert.storage.paths import check_file
from keras_bert.tasks.tagging.sentences import TaggedSentence
from keras_bert.text.wordpiece.unicode_table import is_punctuation

EXTENSIONS = (".txt", ".conll", ".tsv", ".iob", ".bio")
# Files of other tasks, of whose syntax words would be made.
_NO_COLUMNS = (".csv", ".json", ".jsonl")
_DOCUMENT_START = "-DOCSTART-"
_BLANKS = re.compile(r"[ \t]+")
_TAG = re.compile(r"O|[BIESLU]-\S+")


class WordColumns(NamedTuple):
    """Where the columns stand, counted from 0, or from -1 at the end.

    Attributes:
        word: the word.
        label: its label; None for files without labels.
    """

    word: int = 0
    label: int | None = -1


class _Line(NamedTuple):
    """The columns of a line that is not blank."""

    number: int
    fields: list[str]


def read_columns(
    path: str | os.PathLike,
    columns: WordColumns = WordColumns(),  # noqa: B008 (a tuple)
    labels_optional: bool = False,
) -> list[TaggedSentence]:
    """Reads a file of columns; tags are as the file has them.

    A blank line ends a sentence; a line that begins with -DOCSTART- begins a document, and a file
    without any is one. Columns are separated by tabs if the first line of a word has one, by blanks
    otherwise, and blanks beside a tab count nowhere; a no-break space is part of its word. UTF-8,
    with or without a byte order mark.

    Args:
        path: the file.
        columns: where word and label stand.
        labels_optional: whether a file of one column holds words without labels.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is empty, not UTF-8, has a carriage return without a line feed, or a
            line has not the columns that the first one has; the sentence names the line.
    """
    path = Path(path)
    text = _decoded(path)
    separator = _separator(text)
    shape: _Line | None = None
    sentences = []
    document = 0
    for block in _blocks(text, separator):
        if block[0].fields[0].startswith(_DOCUMENT_START):
            document += 1
            block = block[1:]  # a sentence may follow without a blank line
        if not block:
            continue
        if shape is None:
            shape = block[0]
            if labels_optional and len(shape.fields) == 1:
                columns = WordColumns(0, None)
            _check_columns(path, shape, columns)
        sentences.append(_sentence(path, block, document, shape, columns))
    if not sentences:
        raise ValueError(f"{path} has no words: give a file with at least one sentence")
    return sentences


def word_index(path: str | os.PathLike, columns: WordColumns) -> int:
    """Returns where the word stands in a file that `read_columns` reads, counted from 0.

    Args:
        path: the file.
        columns: where word and label stand.
    """
    if columns.word >= 0:
        return columns.word
    text = _decoded(Path(path))
    lines = itertools.chain.from_iterable(_blocks(text, _separator(text)))
    words = (line for line in lines if not line.fields[0].startswith(_DOCUMENT_START))
    return columns.word % len(next(words).fields)


def _sentence(
    path: Path, block: Sequence[_Line], document: int, shape: _Line, columns: WordColumns
) -> TaggedSentence:
    for line in block:
        if len(line.fields) != len(shape.fields):
            raise ValueError(
                f"{path}, line {line.number} has {len(line.fields)} columns but line "
                f"{shape.number} has {len(shape.fields)}: give every word the same columns, and "
                "only blank lines between sentences"
            )
        if not all(line.fields[index] for index in columns if index is not None):
            raise ValueError(
                f"{path}, line {line.number}: the word or its label is empty: fix or remove the "
                "line"
            )
    label = columns.label
    tags = None if label is None else tuple(line.fields[label] for line in block)
    words = tuple(line.fields[columns.word] for line in block)
    return TaggedSentence(words, tags, document, block[0].number)


def _check_columns(path: Path, line: _Line, columns: WordColumns) -> None:
    count = len(line.fields)
    for flag, index in zip(("word_index", "label_index"), columns, strict=True):
        remedy = f"name the right one with --{flag}, counted from 0"
        if columns.label is None:  # of a file to be tagged, which a finished model reads
            remedy = "give the columns that the model was trained on, or words alone"
        if index is not None and not -count <= index < count:
            raise ValueError(
                f"{path}, line {line.number} has {count} columns, so there is none of index "
                f"{index}: {remedy}"
            )
    if columns.label is not None and columns.word % count == columns.label % count:
        raise ValueError(
            f"{path}, line {line.number} has {count} columns, and word and label would be the same "
            "one: put the label beside the word, or name columns with --word_index and "
            "--label_index"
        )


def _decoded(path: Path) -> str:
    check_file(path, "a file of words and labels")
    content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}, line {line} is not UTF-8: convert the file to UTF-8") from None
    # Line ends of old Macs would make one line of all words, of which the first one is read.
    if lone := re.search(r"\r(?!\n)", text):
        line = text.count("\n", 0, lone.start()) + 1
        raise ValueError(
            f"{path}, line {line} has a carriage return that no line feed follows: write line ends "
            "as \\n or \\r\\n"
        )
    return text


def _lines(text: str) -> Iterator[tuple[int, str]]:
    # Not splitlines: a word may be or hold another line end, such as U+2028.
    for number, line in enumerate(text.split("\n"), start=1):
        yield number, line.removesuffix("\r")


def _separator(text: str) -> str | None:
    for _, line in _lines(text):
        if line.strip() and not line.startswith(_DOCUMENT_START):
            return "\t" if "\t" in line else None
    return None


def _blocks(text: str, separator: str | None) -> Iterator[list[_Line]]:
    """Yields the lines between blank ones; -DOCSTART- always begins a block."""
    block: list[_Line] = []
    for number, line in _lines(text):
        blank = not line.strip()
        if block and (blank or line.startswith(_DOCUMENT_START)):
            yield block
            block = []
        if not blank:
            # Not split(): numbers such as ten thousand hold a no-break space in many languages.
            parts = line.split(separator) if separator else _BLANKS.split(line.strip(" \t"))
            # A tag with a blank behind it would be one more.
            block.append(_Line(number, [part.strip(" ") for part in parts]))
    if block:
        yield block


def read_sentences(
    path: str | os.PathLike,
    columns: WordColumns = WordColumns(),  # noqa: B008 (a tuple)
) -> list[TaggedSentence]:
    """Reads what is to be tagged: a file of columns, or a sentence a line; labels are left out.

    A `.txt` holds columns if it has -DOCSTART-, or if it has a blank line and all others have
    equally many columns, which are one, are separated by tabs or end in a tag as of BIO. Otherwise
    each of its lines is a sentence, split at white space and before and after the punctuation
    around words; blank lines are passed over. Other endings mean columns, but those of tables and
    JSON. Of a file of one column that column is the words, wherever they stood in training.

    Args:
        path: the file.
        columns: where the word stands.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is empty, not UTF-8, has a carriage return without a line feed or
            uneven columns; it is a table or JSON; or it is a `.txt` whose lines may be words with
            columns or sentences of equally many words.
    """
    path = Path(path)
    text = _decoded(path)
    if path.suffix.lower() in _NO_COLUMNS:
        raise ValueError(
            f"{path} is no file of words: write a sentence a line, in a .txt, or a word a line "
            "with blank lines between sentences, in a .conll"
        )
    if path.suffix.lower() != ".txt" or _holds_columns(path, text):
        return read_columns(path, columns._replace(label=None), labels_optional=True)
    lines = ((number, tuple(split_words(line))) for number, line in _lines(text))
    sentences = [TaggedSentence(words, None, 0, number) for number, words in lines if words]
    if not sentences:
        raise ValueError(f"{path} has no words: give a file with at least one sentence")
    return sentences


def _holds_columns(path: Path, text: str) -> bool:
    separator = _separator(text)
    blocks = list(_blocks(text, separator))
    if any(block[0].fields[0].startswith(_DOCUMENT_START) for block in blocks):
        return True
    counts = {len(line.fields) for line in itertools.chain(*blocks)}
    if len(blocks) < 2 or len(counts) > 1:
        return False
    (count,) = counts
    last = {line.fields[-1] for line in itertools.chain(*blocks)}
    # Sentences of equally many words look the same, and of each all but a word would be lost; but
    # no text ends each of its lines in a tag.
    if separator is None and count > 1 and not all(map(_TAG.fullmatch, last)):
        raise ValueError(
            f"{path} may hold words with {count} columns or sentences of {count} words: rename it "
            "to .conll for columns, or remove its blank lines for a sentence a line"
        )
    return True


def split_words(line: str) -> Iterator[str]:
    """Yields the words of a line: split at white space, punctuation around them by itself.

    Example:
        >>> list(split_words('He said: "U.S. troops".'))
        ['He', 'said', ':', '"', 'U.S', '.', 'troops', '"', '.']
    """
    for chunk in line.split():
        start, end = 0, len(chunk)
        while start < end and is_punctuation(chunk[start]):
            start += 1
        while end > start and is_punctuation(chunk[end - 1]):
            end -= 1
        yield from chunk[:start]
        if start < end:
            yield chunk[start:end]
        yield from chunk[end:]
