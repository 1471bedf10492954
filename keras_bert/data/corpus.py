"""Reads corpora: files of text or JSON lines, a stream of documents out."""

import glob
import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

import tensorflow as tf

from keras_bert.data.sentences import split_sentences

Document = list[str]
"""The sentences of one document."""

# A longer line is read in parts and a longer document is cut into several, so that neither a file
# without line breaks nor an endless document has to fit into memory.
_LINE_BYTES = 1 << 20
_DOCUMENT_CHARACTERS = 1 << 20


def find_files(patterns: str | Sequence[str]) -> list[str]:
    """Returns the files that patterns such as `books/*.txt` match, each pattern's in order.

    Raises:
        FileNotFoundError: a pattern matches no file.
    """
    found: list[str] = []
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        matches = tf.io.gfile.glob(pattern) if "://" in pattern else glob.glob(pattern)
        if not matches:
            raise FileNotFoundError(f"no file matches --input {pattern!r}: check the path")
        found.extend(sorted(matches))
    return list(dict.fromkeys(found))


def read_documents(
    paths: Iterable[str], text_field: str = "text", errors: str = "strict"
) -> Iterator[Document]:
    """Streams the documents of files, never more than about one megabyte at a time.

    Text files (`.txt`, any other ending, and `.gz` of them): a line is a sentence or a paragraph,
    which is split into sentences; blank lines part documents. `.jsonl` and `.jsonl.gz`: an object
    a line, its text field one document.

    Args:
        paths: files.
        text_field: name of the text field of JSON lines.
        errors: "strict", or "replace" to read bytes that are not UTF-8 as U+FFFD.

    Yields:
        Documents of at least one sentence.

    Raises:
        ValueError: bytes that are not UTF-8 (the sentence gives file and byte offset), damaged
            gzip, bad JSON; or no document in all the files.
    """
    empty = True
    for path in paths:
        is_json = path.removesuffix(".gz").endswith(".jsonl")
        lines = _read_lines(path, errors)
        paragraphs = _json_paragraphs(path, lines, text_field) if is_json else lines
        for document in _documents(paragraphs):
            empty = False
            yield document
    if empty:
        raise ValueError("the corpus is empty: no --input file holds a line of text")


def _documents(paragraphs: Iterable[str]) -> Iterator[Document]:
    document: Document = []
    length = 0
    for paragraph in paragraphs:
        sentences = split_sentences(paragraph)
        if document and (not sentences or length > _DOCUMENT_CHARACTERS):
            yield document
            document, length = [], 0
        document.extend(sentences)
        length += len(paragraph)
    if document:
        yield document


def _json_paragraphs(path: str, lines: Iterable[str], text_field: str) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            text = json.loads(line)[text_field]
        except (json.JSONDecodeError, KeyError, TypeError):
            raise ValueError(
                f"{path}, line {number} is not a JSON object with a field {text_field!r}: "
                "mend the line or give the field's name with --text_field"
            ) from None
        yield from str(text).splitlines()
        yield ""  # one object is one document


def _read_lines(path: str, errors: str) -> Iterator[str]:
    """Yields lines without their ends; a line over the limit comes in parts cut at a space."""
    offset = 0
    rest = b""
    with _open(path) as file:
        while True:
            try:
                block = file.readline(_LINE_BYTES)
            except (OSError, EOFError, zlib.error) as error:
                raise ValueError(f"{path} cannot be read to its end: {error}") from None
            line = rest + block
            if not line:
                return
            rest = b""
            if block and not block.endswith(b"\n"):
                line, rest = _cut(line)
            yield _decode(path, line, offset, errors)
            offset += len(line)


def _cut(line: bytes) -> tuple[bytes, bytes]:
    """Cuts an unfinished line after its last space, or between two characters without one."""
    end = line.rfind(b" ") + 1
    if not end:
        end = len(line)
        while end > 1 and line[end - 1] & 0b1100_0000 == 0b1000_0000:  # inside a character
            end -= 1
        end -= 1  # its first byte
    return (line[:end], line[end:]) if end > 0 else (line, b"")


def _decode(path: str, line: bytes, offset: int, errors: str) -> str:
    try:
        text = line.decode("utf-8-sig" if offset == 0 else "utf-8", errors)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not UTF-8 at byte {offset + error.start}: convert the file, or read it "
            "with --errors=replace"
        ) from None
    return text.rstrip("\r\n")


def _open(path: str) -> BinaryIO:
    file = tf.io.gfile.GFile(path, "rb") if "://" in path else open(path, "rb")  # noqa: SIM115
    return gzip.GzipFile(fileobj=file) if path.endswith(".gz") else file
