"""Reads a data frame out of an unpacked R package (its lazy-load database) without R."""

import bz2
import lzma
import warnings
import zlib
from pathlib import Path
from typing import Any


def read(base: Path, name: str) -> Any:
    """Returns the object `name` of the database `base`.rdx and `base`.rdb, most often a frame.

    The index (.rdx) tells the offset and length of each object in the data (.rdb). Needs rdata.
    """
    import rdata

    warnings.filterwarnings("ignore", module="rdata")

    def convert(content: bytes) -> Any:
        return rdata.conversion.convert(rdata.parser.parse_data(content))

    index = convert(_whole(base.with_suffix(".rdx").read_bytes()))
    offset, length = (int(number) for number in index["variables"][name][:2])
    with open(base.with_suffix(".rdb"), "rb") as file:
        file.seek(offset)
        return convert(_entry(file.read(length)))


def _whole(blob: bytes) -> bytes:
    if blob.startswith(b"\x1f\x8b"):
        return zlib.decompress(blob, zlib.MAX_WBITS | 16)
    if blob.startswith(b"BZh"):
        return bz2.decompress(blob)
    return lzma.decompress(blob) if blob.startswith(b"\xfd7zXZ\x00") else zlib.decompress(blob)


def _entry(blob: bytes) -> bytes:
    """Decompresses an entry: 4 bytes of length, a letter for bzip2 and xz, the content."""
    letter = blob[4:5]
    if letter == b"2":
        return bz2.decompress(blob[5:])
    if letter == b"Z":
        filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 1 << 26}]
        return lzma.decompress(blob[5:], format=lzma.FORMAT_RAW, filters=filters)
    return blob[5:] if letter == b"0" else zlib.decompress(blob[4:])
