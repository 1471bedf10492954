"""Documents of a corpus, cut into parts where one is larger than memory allows."""

import codecs
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from keras_bert.data.corpus.sentences import split_sentences, with_spaces

# A longer document comes in parts of about this size, which bounds the memory that it takes.
MAX_DOCUMENT_CHARACTERS = 1_000_000
_MAX_PARAGRAPH_CHARACTERS = 100_000
BYTE_ORDER_MARK = "\ufeff"  # which Windows puts in front of a file


class Document(NamedTuple):
    """A document, or a part of a very large one.

    Attributes:
        number: index of the document in the corpus; the parts of one document share it.
        paragraphs: its lines that are not blank; each holds one or more sentences.
    """

    number: int
    paragraphs: list[str]


def document_sentences(document: Document, keep_spaces: bool = False) -> list[str]:
    """Returns the sentences of a document.

    Args:
        document: the document.
        keep_spaces: whether a sentence that follows another one of its paragraph behind white space
            begins with a space. The first sentence of a paragraph never does.
    """
    sentences: list[str] = []
    for paragraph in document.paragraphs:
        found = split_sentences(paragraph)
        sentences += with_spaces(paragraph, found) if keep_spaces else found
    return sentences


def documents_of_lines(lines: Iterable[str], numbers: Iterator[int]) -> Iterator[Document]:
    """Groups lines into documents; a blank line ends one.

    Args:
        lines: the lines.
        numbers: gives each document its number.
    """
    number = next(numbers)
    paragraphs: list[str] = []
    size = 0
    for line in lines:
        line = line.strip()
        if line == BYTE_ORDER_MARK:
            line = ""  # of a file that was joined to this one, and begins with a blank line
        if line:
            paragraphs.append(line)
            size += len(line)
        if paragraphs and (not line or size >= MAX_DOCUMENT_CHARACTERS):
            yield Document(number, paragraphs)
            paragraphs, size = [], 0
        if not line:
            number = next(numbers)
    if paragraphs:
        yield Document(number, paragraphs)


def split_lines(text: str) -> list[str]:
    """Returns the lines of a text, whose ends are LF, CR LF or CR alone."""
    # Converters that met CR LF twice have left CR CR LF, which is one end, too.
    return re.split(r"\r*\n|\r", text)


def decoded(content: bytes, errors: str, name: str, field: str) -> str:
    """Returns the text of a field that a file of records holds as bytes.

    Args:
        content: its bytes, of any buffer.
        errors: "strict", or "replace" to read bytes that are not UTF-8 as U+FFFD.
        name: of the record, for the message.
        field: of the record, for the message.

    Raises:
        ValueError: the bytes are not UTF-8.
    """
    try:
        return codecs.decode(content, "utf-8", errors)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name} is not UTF-8 at byte {error.start} of {field!r}: pass --errors=replace to "
            "read such bytes as U+FFFD"
        ) from None


def documents_of_text(text: str, numbers: Iterator[int]) -> Iterator[Document]:
    """Returns the one document that a text is, in parts if it is very long.

    Args:
        text: the text; a line is a paragraph, see `split_lines`, and blank lines end no document.
        numbers: gives the document its number.
    """
    lines = (part for line in split_lines(text) for part in _parts(line))
    # What is blank, or a byte order mark alone, would end the document.
    filled = (line for line in lines if line.strip() not in ("", BYTE_ORDER_MARK))
    return documents_of_lines(filled, numbers)


def _parts(line: str) -> Iterator[str]:
    """Cuts a very long paragraph, at white space where there is any."""
    start = 0
    while len(line) - start > _MAX_PARAGRAPH_CHARACTERS:
        end = start + _MAX_PARAGRAPH_CHARACTERS
        space = line.rfind(" ", start + 1, end)
        end = end if space < 0 else space
        yield line[start:end]
        start = end
    yield line[start:]
