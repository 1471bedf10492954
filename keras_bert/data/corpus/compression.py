"""Compressed files as streams of their content; never more than a block of it in memory."""

import bz2
import gzip
import importlib.util
import lzma
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO

# Of the compressed bytes, given to zstandard at once: it hands out all that they hold, and a block
# of 128 KiB of equal bytes takes 4.
_ZSTD_INPUT_BYTES = 1 << 10
# What `zstd --long=31` writes.
_ZSTD_LARGEST_WINDOW = 1 << 31


class _ZstdContent:
    """The content of a file of Zstandard frames; `zstandard`'s own reader misses a cut-off end.

    Args:
        file: the compressed file.
    """

    def __init__(self, file: BinaryIO):
        import zstandard

        self._error = zstandard.ZstdError
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_LARGEST_WINDOW)
        self._frame = self._decompressor.decompressobj()
        self._file = file

    def read(self, size: int) -> bytes:
        """Returns about so many bytes, b"" at the end."""
        content = bytearray()
        while len(content) < size:
            compressed = self._file.read(_ZSTD_INPUT_BYTES)
            if not compressed:
                if not self._frame.eof:
                    raise EOFError("the last frame has no end")
                break
            while compressed:
                if self._frame.eof:  # another frame follows, as in what pzstd and cat write
                    self._frame = self._decompressor.decompressobj()
                try:
                    content += self._frame.decompress(compressed)
                except self._error as error:
                    raise OSError(str(error)) from None  # as bz2 and gzip do
                compressed = self._frame.unused_data if self._frame.eof else b""
        return bytes(content)


_READERS: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": _ZstdContent,
}
_TABLES = tuple(f"{kind}{ending}" for kind in (".csv", ".tsv") for ending in ("", *_READERS))
_ARCHIVES = (".tar", ".tgz", *(f".tar{ending}" for ending in _READERS))
_LIBRARIES = {".zst": "zstandard", ".parquet": "pyarrow"}


def ending_of(path: str) -> str:
    """Returns the ending of a compressed file, or "" for any other."""
    return next((ending for ending in _READERS if path.lower().endswith(ending)), "")


def check_readable(path: str) -> None:
    """Makes sure that a file is text by its name, and that the library for its kind is there.

    Raises:
        ValueError: it is an archive of files or a table, or the library is not installed.
    """
    if path.lower().endswith(_ARCHIVES):
        raise ValueError(f"{path} is an archive of files: unpack it first, and give its files")
    if path.lower().endswith(_TABLES):
        raise ValueError(
            f"{path} is a table, whose header and other columns are no text: write its texts as "
            ".jsonl, an object with the text in one field a line"
        )
    for ending, library in _LIBRARIES.items():
        if path.lower().endswith(ending) and importlib.util.find_spec(library) is None:
            raise ValueError(
                f"{path} is read with the package {library}, which is not installed: "
                f"pip install {library}"
            )


def open_content(path: str, file: BinaryIO) -> Any:
    """Returns the content of a file, compressed or not, as something with a method `read`.

    Args:
        path: its name, whose ending says how it is compressed.
        file: the file, open for reading bytes.
    """
    ending = ending_of(path)
    return _READERS[ending](file) if ending else file


def read_block(path: str, content: Any, size: int) -> bytes:
    """Returns the next block of what `open_content` opened, b"" at the end.

    Args:
        path: the name of the file.
        content: its content.
        size: about how many bytes.

    Raises:
        ValueError: the file is damaged or cut off.
    """
    try:
        return content.read(size)
    except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        if getattr(error, "errno", None) is not None:
            raise  # of the disk, not of the content
        raise ValueError(
            f"{path} is damaged or cut off ({error}): copy or compress it again"
        ) from None
