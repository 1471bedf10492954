"""Reads a corpus as a stream of documents; never more than one document in memory."""

import hashlib
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Protocol

from keras_bert.choices import DecodingErrors, check_choice
from keras_bert.data.corpus.documents import Document, document_sentences
from keras_bert.data.corpus.parquet_files import ENDING as PARQUET_ENDING
from keras_bert.data.corpus.parquet_files import ParquetFile
from keras_bert.data.corpus.text_files import TextFile
from keras_bert.data.corpus.tfds_texts import find_shards
from keras_bert.progress import Progress
from keras_bert.storage.data_sets import is_tfds
from keras_bert.storage.paths import file_identity, find_files
from keras_bert.storage.text_lines import check_listed

# Files are worked on in groups of at least this much text, which no chunk crosses. Large enough
# that short files find other documents beside them, small enough for many machines.
GROUP_BYTES = 64_000_000


class Source(Protocol):
    """One file of a corpus."""

    @property
    def name(self) -> str:
        """What errors and plans call it."""

    @property
    def size(self) -> int:
        """Its bytes, for progress."""

    @property
    def text_bytes(self) -> int:
        """About how many bytes of text it holds."""

    def fingerprint(self) -> str:
        """Returns what changes when its content does."""

    def documents(self, numbers: Iterator[int]) -> Iterator[tuple[Document, int]]:
        """Yields the documents, each with the bytes that were read until then."""


class Corpus:
    """Files of text as an iterable of `Document`s, read afresh each time.

    `.txt` (and any other ending but `.csv` and `.tsv`): UTF-8 text with a blank line between
    documents; a line is a sentence or a paragraph. `.jsonl`, `.ndjson`, `.json`: a JSON object a
    line, with the document in one field. All also with `.gz`, `.bz2`, `.xz` or `.zst` behind.
    `.parquet`: a document a row, in one column. `tfds:name/config`: the "train" split of TensorFlow
    Datasets, a document an example. A document does not reach over the end of its file.

    Args:
        inputs: paths, globs or tfds: names, or a single one; addresses such as gs://bucket/file go
            through tf.io.gfile. One that is named twice, as a.txt and ./a.txt, is read once.
        text_field: the field of a JSON object, the column of a Parquet file or the feature of a
            data set that holds the text.
        errors: "strict", or "replace" to read bytes that are not UTF-8 as U+FFFD.

    Attributes:
        sources: the files.
        total_bytes: the bytes of all files.
        bytes_read: how many of these the iteration under way has read.

    Raises:
        FileNotFoundError: an input matches no file.
        ValueError: an input is a folder, a table, no known data set, or a file whose library (extra
            `files`) is not installed or that has no such column; or `errors` is neither of the two.
    """

    def __init__(
        self,
        inputs: str | os.PathLike | Sequence[str | os.PathLike],
        text_field: str = "text",
        errors: DecodingErrors = "strict",
    ):
        check_choice("errors", errors, DecodingErrors)
        if isinstance(inputs, str | os.PathLike):  # its letters would be paths
            inputs = (inputs,)
        check_listed(inputs, "inputs", "paths or globs")
        # In the order of the inputs, each once.
        found: dict[str, Source] = {}
        for given in [os.fspath(path) for path in inputs] or [None]:
            sources: list[Source] = []
            if given and is_tfds(given):
                sources += find_shards(given, text_field, errors)
            else:
                for path in find_files([given] if given else []):
                    kind = ParquetFile if path.lower().endswith(PARQUET_ENDING) else TextFile
                    sources.append(kind.at(path, text_field, errors))
            for source in sources:
                found.setdefault(file_identity(source.name), source)
        self._open(list(found.values()))

    @classmethod
    def of(cls, sources: Sequence[Source]) -> "Corpus":
        """Makes a corpus of sources that were found before."""
        corpus = cls.__new__(cls)
        corpus._open(sources)
        return corpus

    def _open(self, sources: Sequence[Source]) -> None:
        self.sources: tuple[Source, ...] = tuple(sources)
        self.total_bytes = sum(source.size for source in self.sources)
        self.bytes_read = 0

    @property
    def paths(self) -> list[str]:
        """The names of the files."""
        return [source.name for source in self.sources]

    @property
    def text_bytes(self) -> int:
        """About how many bytes of text the files hold."""
        return sum(source.text_bytes for source in self.sources)

    def __iter__(self) -> Iterator[Document]:
        """Yields the documents.

        Raises:
            ValueError: a file is not UTF-8, not JSON lines, or damaged; names file and place.
        """
        numbers = itertools.count()
        bytes_before = 0
        for source in self.sources:
            for document, read in source.documents(numbers):
                self.bytes_read = bytes_before + read
                yield document
            bytes_before += source.size
            self.bytes_read = bytes_before

    def groups(self) -> "list[Corpus]":
        """Divides the files into groups of `GROUP_BYTES` or more that can be worked on apart."""
        groups: list[list[Source]] = [[]]
        size = 0
        for source in self.sources:
            if size >= GROUP_BYTES:
                groups.append([])
                size = 0
            groups[-1].append(source)
            size += source.text_bytes
        return [Corpus.of(group) for group in groups]

    def fingerprint(self) -> str:
        """Returns a hash that changes when a file does, from the ends of each."""
        lines = (f"{source.name} {source.fingerprint()}\n" for source in self.sources)
        return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()

    def paragraphs(self, progress: Progress | None = None) -> "Paragraphs":
        """Returns the paragraphs of all documents, to be read as often as needed.

        Args:
            progress: is told the bytes that were read.
        """
        return Paragraphs(self, progress)


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
    inputs: str | os.PathLike | Sequence[str | os.PathLike],
    text_field: str = "text",
    errors: DecodingErrors = "strict",
) -> Iterator[list[str]]:
    """Yields each document of a corpus as the list of its sentences.

    Args:
        inputs: paths or globs, see `Corpus`.
        text_field: the field of a JSON object that holds the text.
        errors: "strict" or "replace".
    """
    for document in Corpus(inputs, text_field, errors):
        yield document_sentences(document)
