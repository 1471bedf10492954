"""Parquet files, in which many data sets are handed out: a row is a document."""

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from keras_bert.data.corpus.compression import check_readable
from keras_bert.data.corpus.documents import Document, decoded, documents_of_text
from keras_bert.storage.paths import file_size, fingerprint, open_file

ENDING = ".parquet"
# Rows in memory at once; a document of a large corpus has some kilobytes.
_ROWS_PER_BATCH = 64
# Pages are read one by one. Without a buffer, the text of a whole row group is read at once.
_BUFFER_BYTES = 1 << 20


class ParquetFile(NamedTuple):
    """A file of a corpus.

    Attributes:
        name: its path.
        size: its bytes.
        text_field: the column that holds the text.
        errors: "strict", or "replace" to read bytes that are not UTF-8 as U+FFFD.
        text_bytes: bytes of the column before compression.
        rows: number of rows.
    """

    name: str
    size: int
    text_field: str
    errors: str
    text_bytes: int
    rows: int

    @classmethod
    def at(cls, path: str, text_field: str, errors: str) -> "ParquetFile":
        """Reads what a file says about itself.

        Raises:
            ValueError: pyarrow is not installed, the file is damaged, or it has no such column of
                text.
        """
        check_readable(path)
        import pyarrow as pa

        with _opened(path) as file:
            schema = file.schema_arrow
            if schema.names.count(text_field) != 1:
                raise ValueError(
                    f"{path} has no column {text_field!r} (its columns: "
                    f"{', '.join(schema.names)}): name the one with the text with --text_field"
                )
            kind = schema.field(text_field).type
            text = kind.value_type if pa.types.is_dictionary(kind) else kind
            kinds = pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view
            if not any(is_kind(text) for is_kind in kinds):
                raise ValueError(
                    f"column {text_field!r} of {path} holds {kind}, not text: name the one with "
                    "the text with --text_field"
                )
            rows = file.metadata.num_rows
            text_bytes = sum(
                column.total_uncompressed_size
                for group in map(file.metadata.row_group, range(file.metadata.num_row_groups))
                for column in map(group.column, range(group.num_columns))
                if column.path_in_schema == text_field
            )
        return cls(path, file_size(path), text_field, errors, text_bytes, rows)

    def fingerprint(self) -> str:
        """Returns a hash of its size, beginning and end, which tells a changed file at once."""
        return fingerprint(self.name, self.size)

    def documents(self, numbers: Iterator[int]) -> Iterator[tuple[Document, int]]:
        """Yields the documents, each with about the bytes of the file that were read for it.

        Args:
            numbers: gives each document its number.

        Raises:
            ValueError: the file is damaged, or a row has no text or one that is not UTF-8.
        """
        import pyarrow as pa

        with _opened(self.name) as file:
            # As bytes: pyarrow does not look whether a string is UTF-8.
            contents = (
                content
                for batch in file.iter_batches(_ROWS_PER_BATCH, columns=[self.text_field])
                for content in batch.column(0).cast(pa.large_binary()).to_pylist()
            )
            for row, content in enumerate(contents):
                if content is None:
                    raise ValueError(
                        f"{self.name}, row {row} has no text in column {self.text_field!r}: remove "
                        "such rows, or name another column with --text_field"
                    )
                text = decoded(content, self.errors, f"{self.name}, row {row}", self.text_field)
                for document in documents_of_text(text, numbers):
                    yield document, self.size * (row + 1) // self.rows


@contextlib.contextmanager
def _opened(path: str) -> Iterator[Any]:
    """Opens a file.

    Raises:
        ValueError: it is damaged, found now or while it is read.
    """
    import pyarrow as pa
    from pyarrow import parquet

    with open_file(path) as raw:
        try:
            yield parquet.ParquetFile(
                raw, buffer_size=_BUFFER_BYTES, pre_buffer=False, page_checksum_verification=True
            )
        except (pa.ArrowException, OSError) as error:
            if getattr(error, "errno", None) is not None:
                raise  # of the disk, not of the content
            reason = str(error).strip().splitlines()[0]
            raise ValueError(f"{path} is damaged or no Parquet file ({reason})") from None
