"""Reads a corpus as a stream of documents; never more than one document in memory."""

import codecs
import glob
import gzip
import itertools
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, NamedTuple

from keras_bert.data.sentences import split_sentences
from keras_bert.progress import Progress

# A longer document comes in parts of about this size, which bounds the memory that it takes.
MAX_DOCUMENT_CHARACTERS = 1_000_000
_BLOCK_BYTES = 1 << 20
# A longer line of a text file is cut: it is no paragraph. JSON cannot be cut.
_LONGEST_LINE_BYTES = 1 << 20
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class Document(NamedTuple):
    """A document, or a part of a very large one.

    Attributes:
        number: place of the document in the corpus; the parts of one document share it.
        paragraphs: its lines that are not blank; each holds one or more sentences.
    """

    number: int
    paragraphs: list[str]


class Corpus:
    """Files of text as an iterable of `Document`s, read afresh each time.

    `.txt` (and any other ending): UTF-8 text with a blank line between documents; a line is a
    sentence or a paragraph. `.jsonl`: a JSON object a line, with the document in one field. Both
    also with `.gz` behind. A document does not reach over the end of its file.

    Args:
        inputs: paths or globs; addresses such as gs://bucket/file go through tf.io.gfile.
        text_field: the field of a JSON object that holds the text.
        errors: "strict", or "replace" to read bytes that are not UTF-8 as U+FFFD.

    Raises:
        FileNotFoundError: an input matches no file.
        ValueError: an input is a folder, or `errors` is neither of the two.
    """

    def __init__(
        self, inputs: Sequence[str | os.PathLike], text_field: str = "text", errors: str = "strict"
    ):
        if errors not in ("strict", "replace"):
            raise ValueError(f"errors is {errors!r}: it must be 'strict' or 'replace'")
        self.paths = find_files(inputs)
        self.total_bytes = sum(_file_size(path) for path in self.paths)
        self.bytes_read = 0
        self._text_field = text_field
        self._errors = errors

    def __iter__(self) -> Iterator[Document]:
        """Yields the documents.

        Raises:
            ValueError: a file is not UTF-8, not JSON lines, or a damaged .gz; names file and place.
        """
        numbers = itertools.count()
        bytes_before = 0
        for path in self.paths:
            with _open_file(path) as file:
                lines = self._lines(file, path, bytes_before)
                if _is_jsonl(path):
                    yield from _json_documents(lines, path, self._text_field, numbers)
                else:
                    yield from _text_documents(lines, numbers)
            bytes_before += _file_size(path)
            self.bytes_read = bytes_before

    def paragraphs(self, progress: Progress | None = None) -> "Paragraphs":
        """Returns the paragraphs of all documents, to be read as often as needed.

        Args:
            progress: is told the bytes that were read.
        """
        return Paragraphs(self, progress)

    def _lines(self, file: BinaryIO, path: str, bytes_before: int) -> Iterator[str]:
        """Yields the lines of a file; a very long one of a text file comes in several pieces."""
        content = gzip.open(file) if path.endswith(".gz") else file
        rest, position = b"", 0
        while True:
            block = _read_block(content, path)
            self.bytes_read = bytes_before + file.tell()
            rest += block
            end = len(rest)
            if block:
                end = rest.rfind(b"\n") + 1
                if not end and len(rest) >= _LONGEST_LINE_BYTES and not _is_jsonl(path):
                    end = _cut(rest)
            text = self._decode(rest[:end], path, position)
            lines = text.split("\n")
            if not lines[-1]:
                lines.pop()  # what follows the last line's end is not a line
            yield from lines
            if not block:
                return
            rest, position = rest[end:], position + end

    def _decode(self, content: bytes, path: str, position: int) -> str:
        try:
            return codecs.decode(content, "utf-8", self._errors)
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path} is not UTF-8 at byte {position + error.start}: convert the file, or pass "
                "--errors=replace to read such bytes as U+FFFD"
            ) from None


class Paragraphs:
    """The paragraphs of a corpus as an iterable that starts afresh each time.

    Args:
        corpus: the corpus.
        progress: is told the bytes that were read.
    """

    def __init__(self, corpus: Corpus, progress: Progress | None = None):
        self._corpus = corpus
        self._progress = progress

    def __iter__(self) -> Iterator[str]:
        position = 0
        for document in self._corpus:
            yield from document.paragraphs
            if self._progress:
                self._progress.update(self._corpus.bytes_read - position)
                position = self._corpus.bytes_read


def read_documents(
    inputs: Sequence[str | os.PathLike], text_field: str = "text", errors: str = "strict"
) -> Iterator[list[str]]:
    """Yields each document of a corpus as the list of its sentences.

    Args:
        inputs: paths or globs, see `Corpus`.
        text_field: the field of a JSON object that holds the text.
        errors: "strict" or "replace".
    """
    for document in Corpus(inputs, text_field, errors):
        yield document_sentences(document)


def document_sentences(document: Document) -> list[str]:
    """Returns the sentences of a document."""
    return [text for paragraph in document.paragraphs for text in split_sentences(paragraph)]


def find_files(inputs: Sequence[str | os.PathLike]) -> list[str]:
    """Returns the files that paths and globs name, each once, those of a glob in sorted order.

    Raises:
        FileNotFoundError: an input matches no file.
        ValueError: an input is a folder.
    """
    if not inputs:
        raise ValueError("--input is empty: give at least one file or glob")
    found: dict[str, None] = {}
    for pattern in [os.fspath(path) for path in inputs]:
        matches = _glob(pattern)
        if not matches:
            raise FileNotFoundError(f"no file matches --input {pattern!r}: check the path")
        for path in matches:
            if os.path.isdir(path):
                raise ValueError(
                    f"--input {path} is a folder: give its files, such as {path.rstrip('/')}/*.txt"
                )
            found[path] = None
    return list(found)


def _is_remote(path: str) -> bool:
    return "://" in path


def _glob(pattern: str) -> list[str]:
    if not _is_remote(pattern):
        # A file whose name holds a bracket is that file, not a glob.
        return [pattern] if os.path.exists(pattern) else sorted(glob.glob(pattern, recursive=True))
    import tensorflow as tf  # only for remote files: it takes seconds to load

    return sorted(tf.io.gfile.glob(pattern))


def _file_size(path: str) -> int:
    if not _is_remote(path):
        return os.path.getsize(path)
    import tensorflow as tf

    return tf.io.gfile.stat(path).length


def _open_file(path: str) -> BinaryIO:
    if not _is_remote(path):
        return open(path, "rb")
    import tensorflow as tf

    return tf.io.gfile.GFile(path, "rb")


def _is_jsonl(path: str) -> bool:
    return path.removesuffix(".gz").endswith(".jsonl")


def _read_block(content: BinaryIO | gzip.GzipFile, path: str) -> bytes:
    try:
        return content.read(_BLOCK_BYTES)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(
            f"{path} is damaged or cut off ({error}): copy or compress it again"
        ) from None


def _cut(content: bytes) -> int:
    """Returns where to cut a line without end: at white space, else between two characters."""
    end = content.rfind(b" ") + 1
    if end:
        return end
    end = len(content) - 1
    while end > 0 and content[end] & 0xC0 == 0x80:  # a byte inside a character
        end -= 1
    return end


def _text_documents(lines: Iterable[str], numbers: Iterator[int]) -> Iterator[Document]:
    number = next(numbers)
    paragraphs: list[str] = []
    size = 0
    for line in lines:
        line = line.strip()
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


def _json_documents(
    lines: Iterable[str], path: str, text_field: str, numbers: Iterator[int]
) -> Iterator[Document]:
    for line_number, line in enumerate(lines, start=1):
        if line.strip():
            text = _json_text(line, f"{path}, line {line_number}", text_field)
            paragraphs = [part for part in text.split("\n") if part.strip()]
            yield from _text_documents(paragraphs, numbers)


def _json_text(line: str, place: str, text_field: str) -> str:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{place} is not JSON ({error.msg}): each line must be an object"
        ) from None
    if not isinstance(record, dict):
        raise ValueError(f"{place} holds a {type(record).__name__}: each line must be an object")
    if not isinstance(record.get(text_field), str):
        raise ValueError(
            f"{place} has no text in field {text_field!r} (its fields: {', '.join(record)}): "
            "name the right one with --text_field"
        )
    return _LONE_SURROGATE.sub("\ufffd", record[text_field])
