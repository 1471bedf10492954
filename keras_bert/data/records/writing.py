"""Writes TFRecord files without TensorFlow, which takes longer to load than a small corpus.

A record is its length (8 bytes), a checksum of these, its content and a checksum of that. Checksums
are CRC-32C, worked out for many records at once: eight bytes of each in a step.
"""

import functools
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

# Around each record: its length (8 bytes) and two checksums (4 bytes each).
RECORD_FRAME_BYTES = 16

_POLYNOMIAL = 0x82F63B78  # Castagnoli's, bits reversed (RFC 3720, appendix B.4)
# A checksum starts from all ones: where these four bytes lead from zero.
_START = bytes.fromhex("54641f64")
_BYTES_PER_STEP = 8
_RECORDS_AT_ONCE = 4096
_BYTES_AT_ONCE = 1 << 24
# TensorFlow, lib/hash/crc32c.h: stored checksums are turned by 15 bits and shifted by a constant.
_MASK_DELTA = 0xA282EAD8


def write_records(path: str | os.PathLike, records: Sequence[bytes]) -> None:
    """Writes serialized examples to a TFRecord file."""
    Path(path).write_bytes(frame_records(records))


def frame_records(records: Sequence[bytes]) -> bytes:
    """Returns the content of a TFRecord file with these records."""
    parts: list[bytes] = []
    checksums: list[bytes] = []
    start = 0
    while start < len(records):
        # Records are padded to the longest: neither many nor long ones may take much memory.
        longest = max(map(len, records[start : start + _RECORDS_AT_ONCE]))
        end = start + min(_RECORDS_AT_ONCE, max(1, _BYTES_AT_ONCE // max(longest, 1)))
        checksums += _masked(_crcs(records[start:end]))
        start = end
    for record, checksum in zip(records, checksums, strict=True):
        parts += (_head(len(record)), record, checksum)
    return b"".join(parts)


@functools.lru_cache(maxsize=1 << 14)
def _head(size: int) -> bytes:
    length = size.to_bytes(8, "little")
    return length + _masked(_crcs([length]))[0]


def _masked(crcs: np.ndarray) -> list[bytes]:
    turned = (crcs >> np.uint32(15)) | (crcs << np.uint32(17))
    content = (turned + np.uint32(_MASK_DELTA)).astype("<u4").tobytes()
    return [content[start : start + 4] for start in range(0, len(content), 4)]


def _crcs(contents: Sequence[bytes]) -> np.ndarray:
    """Returns the CRC-32C of each of some byte strings, uint32 [N]."""
    # Zeros in front do not change a state of zero, so strings of all lengths can end in the same
    # column.
    width = -(-(max(map(len, contents)) + 4) // _BYTES_PER_STEP) * _BYTES_PER_STEP
    padded = b"".join((_START + content).rjust(width, b"\0") for content in contents)
    table = np.frombuffer(padded, np.uint8).reshape(len(contents), width)
    words = np.ascontiguousarray(table.view("<u2").T)  # [width / 2, N]
    state = np.zeros(len(contents), np.uint32)
    first, second, third, fourth = _step_tables()
    for step in range(0, len(words), 4):
        low = words[step] ^ (state & np.uint32(0xFFFF)).astype(np.uint16)
        high = words[step + 1] ^ (state >> np.uint32(16)).astype(np.uint16)
        state = first[low] ^ second[high] ^ third[words[step + 2]] ^ fourth[words[step + 3]]
    return ~state


@functools.cache
def _step_tables() -> tuple[np.ndarray, ...]:
    """Returns what each pair of bytes of a step of eight adds to the state, uint32 [65536] each."""
    single = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        single = np.where(single & 1, (single >> 1) ^ np.uint32(_POLYNOMIAL), single >> 1)
    by_distance = [single]  # of a byte with so many bytes behind it
    for _ in range(_BYTES_PER_STEP - 1):
        last = by_distance[-1]
        by_distance.append((last >> np.uint32(8)) ^ single[last & 255])
    pairs = np.arange(1 << 16)
    return tuple(
        by_distance[7 - distance][pairs & 255] ^ by_distance[6 - distance][pairs >> 8]
        for distance in range(0, _BYTES_PER_STEP, 2)
    )
