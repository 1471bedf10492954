"""The pieces in a SentencePiece model file, read without its library. No TensorFlow here.

The file is a protocol buffer, `ModelProto` of sentencepiece_model.proto: field 1 is repeated, a
piece each, whose own field 1 is its spelling.
"""

import base64
from collections.abc import Iterator

_PIECES, _SPELLING = 1, 1
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5  # wire types


def read_pieces(model: bytes) -> list[str]:
    """Returns the pieces of a model in the order of its ids.

    Raises:
        ValueError: the bytes are no such model, or it is the path of one.
    """
    if not isinstance(model, bytes):
        raise ValueError(
            f"the SentencePiece model is a {type(model).__name__}: give the bytes of the file, or "
            "its folder to from_preset"
        )
    try:
        pieces = [
            next(bytes(part) for name, part in _fields(value) if name == _SPELLING).decode()
            for field, value in _fields(memoryview(model))
            if field == _PIECES
        ]
    except (IndexError, StopIteration, UnicodeDecodeError, ValueError) as error:
        raise ValueError(f"this is no SentencePiece model ({error!r})") from None
    if not pieces:
        raise ValueError("this is no SentencePiece model: it holds no piece")
    return pieces


def base64_text(model: bytes) -> str:
    """Returns the bytes of a model as text for JSON."""
    return base64.b64encode(model).decode("ascii")


def model_from_base64(text: str) -> bytes:
    """Returns the bytes that `base64_text` was given."""
    return base64.b64decode(text)


def _fields(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yields number and content of each field that has a length."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        kind = key & 7
        if kind == _VARINT:
            _, place = _varint(data, place)
        elif kind in (_FIXED_64, _FIXED_32):
            place += 8 if kind == _FIXED_64 else 4
        elif kind == _BYTES:
            size, place = _varint(data, place)
            if place + size > len(data):
                raise ValueError("it ends in the middle of a field")
            yield key >> 3, data[place : place + size]
            place += size
        else:
            raise ValueError(f"wire type {kind}")


def _varint(data: memoryview, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, place
