"""The chunks of work that a corpus is divided into."""

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

from keras_bert.data.corpus.documents import MAX_DOCUMENT_CHARACTERS, Document
from keras_bert.data.corpus.reading import Corpus

# Large enough for a choice of other documents to draw from and small enough for many workers.
CHUNK_CHARACTERS = 1_000_000
# A chunk with parts of one document only goes on until here, looking for another document.
_LONE_DOCUMENT_CHARACTERS = 4 * MAX_DOCUMENT_CHARACTERS


class Chunk(NamedTuple):
    """Consecutive documents that are worked on together.

    Attributes:
        group: index of its group of files in the corpus.
        number: index among the chunks of the group.
        documents: the documents, or parts of large ones.
        new_documents: how many of them no earlier chunk held a part of.
        end_position: bytes of the corpus that were read when the chunk was complete.
    """

    group: int
    number: int
    documents: list[Document]
    new_documents: int
    end_position: int

    @property
    def identity(self) -> int:
        """A number that no other chunk of the corpus has."""
        return (self.group << 32) + self.number

    def digest(self, before: str) -> str:
        """Returns a hash of all that its records follow from, and of the chunks before it.

        Args:
            before: the digest of the chunk before; "" for the first.
        """
        parts = [before, str(self.identity), str(self.new_documents)]
        for document in self.documents:
            # No paragraph is empty or holds a line's end, so that no two chunks have one text.
            parts += ["", str(document.number), *document.paragraphs]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def divide(corpus: Corpus, first_group: int = 0) -> Iterator[Chunk]:
    """Groups consecutive documents into chunks of about `CHUNK_CHARACTERS`.

    A chunk holds at least two documents wherever the group of files and the bound on memory allow
    it. The chunks of a group follow from its files alone.

    Args:
        corpus: the corpus.
        first_group: the group of files to begin with; those before are not read.
    """
    position = 0
    for group, files in enumerate(corpus.groups()):
        if group >= first_group:
            yield from divide_group(files, group, position)
        position += files.total_bytes


def divide_group(files: Corpus, group: int, position: int = 0) -> Iterator[Chunk]:
    """Divides one group of files into chunks.

    Args:
        files: the group, from `Corpus.groups`.
        group: its index.
        position: bytes of the corpus before it.
    """
    last_document = -1
    for number, (documents, read) in enumerate(_runs(files)):
        numbers = {document.number for document in documents}
        yield Chunk(group, number, documents, len(numbers - {last_document}), position + read)
        last_document = documents[-1].number


def _runs(corpus: Corpus) -> Iterator[tuple[list[Document], int]]:
    held: tuple[list[Document], int] | None = None
    documents: list[Document] = []
    size = 0
    for document in corpus:
        documents.append(document)
        size += sum(map(len, document.paragraphs))
        if size >= (_LONE_DOCUMENT_CHARACTERS if _is_lone(documents) else CHUNK_CHARACTERS):
            if held:
                yield held
            held = documents, corpus.bytes_read
            documents, size = [], 0
    # A small rest joins the chunk before it.
    if held and (_is_lone(documents) or size < CHUNK_CHARACTERS // 2):
        held = held[0] + documents, corpus.bytes_read
        documents = []
    if held:
        yield held
    if documents:
        yield documents, corpus.bytes_read


def _is_lone(documents: list[Document]) -> bool:
    return not documents or documents[0].number == documents[-1].number
