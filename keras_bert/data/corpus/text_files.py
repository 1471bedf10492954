"""Text and JSON lines, plain or compressed, as a stream of documents."""

import codecs
import json
from collections.abc import Iterable, Iterator
from typing import BinaryIO, NamedTuple

from keras_bert.data.corpus.compression import check_readable, ending_of, open_content, read_block
from keras_bert.data.corpus.documents import (
    BYTE_ORDER_MARK,
    Document,
    documents_of_lines,
    documents_of_text,
    split_lines,
)
from keras_bert.storage.paths import file_size, fingerprint, open_file
from keras_bert.storage.surrogates import without_lone_surrogates

_BLOCK_BYTES = 1 << 20
# A longer line of a text file is cut: it is no paragraph. JSON cannot be cut.
_LONGEST_LINE_BYTES = 1 << 20
# Large sets are often lines under the name of .json.
_JSON_ENDINGS = (".jsonl", ".ndjson", ".json")


class TextFile(NamedTuple):
    """A file of a corpus.

    Attributes:
        name: its path.
        size: its bytes.
        text_field: the field of a JSON object that holds the text.
        errors: "strict", or "replace" to read bytes that are not UTF-8 as U+FFFD.
    """

    name: str
    size: int
    text_field: str
    errors: str

    @classmethod
    def at(cls, path: str, text_field: str, errors: str) -> "TextFile":
        """Looks up the size of a file.

        Raises:
            ValueError: it is an archive of files, or the library that decompresses it is not
                installed.
        """
        check_readable(path)
        return cls(path, file_size(path), text_field, errors)

    @property
    def text_bytes(self) -> int:
        """About how many bytes of text it holds; prose compresses to about a third."""
        return 3 * self.size if ending_of(self.name) else self.size

    def fingerprint(self) -> str:
        """Returns a hash of its size, beginning and end, which tells a changed file at once."""
        return fingerprint(self.name, self.size)

    def documents(self, numbers: Iterator[int]) -> Iterator[tuple[Document, int]]:
        """Yields the documents, each with the bytes of the file that were read for it.

        Args:
            numbers: gives each document its number.

        Raises:
            ValueError: the file is not UTF-8, not JSON lines, or damaged; names the place.
        """
        with open_file(self.name) as file:
            lines = self._lines(file)
            documents = self._of_json(lines, numbers) if self._is_jsonl else None
            for document in documents or documents_of_lines(lines, numbers):
                yield document, file.tell()

    @property
    def _is_jsonl(self) -> bool:
        return self.name.lower().removesuffix(ending_of(self.name)).endswith(_JSON_ENDINGS)

    def _of_json(self, lines: Iterable[str], numbers: Iterator[int]) -> Iterator[Document]:
        for line_number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            place = f"{self.name}, line {line_number}"
            try:
                # Files that were joined have one in the middle, too.
                record = json.loads(line.removeprefix(BYTE_ORDER_MARK))
            except (ValueError, RecursionError) as error:  # also numbers of thousands of digits
                why = getattr(error, "msg", error)
                raise ValueError(
                    f"{place} is not JSON ({why}): each line must be an object"
                ) from None
            if not isinstance(record, dict):
                kind = type(record).__name__
                raise ValueError(f"{place} holds a {kind}: each line must be an object")
            text = record.get(self.text_field)
            if self.text_field in record and not isinstance(text, str):
                raise ValueError(
                    f"{place} has {json.dumps(text)[:60]} in field {self.text_field!r}, not a "
                    "text: remove such lines, or name another field with --text_field"
                )
            if not isinstance(text, str):
                raise ValueError(
                    f"{place} has no text in field {self.text_field!r} (its fields: "
                    f"{', '.join(record)}): name the right one with --text_field"
                )
            yield from documents_of_text(without_lone_surrogates(text), numbers)

    def _check_no_json(self, block: bytes) -> None:
        """Refuses JSON lines under the name of a text, whose braces and names would be words.

        Args:
            block: the beginning of the content.
        """
        line = block.removeprefix(codecs.BOM_UTF8).lstrip().partition(b"\n")[0]
        if not line.startswith(b"{"):
            return
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            return
        if isinstance(record.get(self.text_field), str):
            raise ValueError(
                f"{self.name} begins with a JSON object whose field {self.text_field!r} holds a "
                "text, but its name is that of a text: let it end in .jsonl (before .gz and the "
                "like), so that the field alone is read"
            )

    def _lines(self, file: BinaryIO) -> Iterator[str]:
        """Yields the lines of a file; a very long one of a text file comes in several pieces."""
        content = open_content(self.name, file)
        blocks: list[bytes] = []  # of a line that has not ended yet
        position = 0
        while True:
            block = read_block(self.name, content, _BLOCK_BYTES)
            # An array would have to be in memory as a whole.
            begins = not position and not blocks
            if self._is_jsonl and begins and block.lstrip().startswith(b"["):
                raise ValueError(
                    f"{self.name} is one array: write each document as a line of its own, such as "
                    '{"text": "..."}'
                )
            if not self._is_jsonl and begins:
                self._check_no_json(block)
            waiting, end = sum(map(len, blocks)), block.rfind(b"\n") + 1
            if not self._is_jsonl:
                # A CR is the end of a line unless a LF comes behind it, perhaps in the next block.
                end = max(end, block.rstrip(b"\r").rfind(b"\r") + 1)
            if block and not end and (self._is_jsonl or waiting + len(block) < _LONGEST_LINE_BYTES):
                blocks.append(block)
                continue
            rest = b"".join([*blocks, block])
            end = waiting + end if end else _cut(rest) if block else len(rest)
            try:
                text = codecs.decode(rest[:end], "utf-8", self.errors)
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{self.name} is not UTF-8 at byte {position + error.start}"
                    f"{' of its content' if ending_of(self.name) else ''}: convert the file, or "
                    "pass --errors=replace to read such bytes as U+FFFD"
                ) from None
            if not position:
                text = text.removeprefix(BYTE_ORDER_MARK)
            lines = text.split("\n") if self._is_jsonl else split_lines(text)
            # What follows the last line's end is not a line.
            yield from lines if lines[-1] else lines[:-1]
            if not block:
                return
            blocks, position = [rest[end:]], position + end


def _cut(content: bytes) -> int:
    """Returns where to cut a line without end: at white space, else between two characters."""
    end = content.rfind(b" ") + 1
    if end:
        return end
    end = len(content) - 1
    while end > 0 and content[end] & 0xC0 == 0x80:  # a byte inside a character
        end -= 1
    return end
