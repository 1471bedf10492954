"""The 256 characters that stand for bytes in byte-level vocabularies. No TensorFlow here.

Files of pieces are text, so GPT-2 writes each byte as a printable character: bytes that are one in
Latin-1 as themselves, the others as characters from U+0100 on, in order. A space is "Ġ".
"""

_PRINTABLE = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
_OTHERS = [byte for byte in range(256) if byte not in _PRINTABLE]

# The character of each byte.
BYTE_CHARACTERS = tuple(
    chr(byte if byte in _PRINTABLE else 0x100 + _OTHERS.index(byte)) for byte in range(256)
)
_BYTES = {character: byte for byte, character in enumerate(BYTE_CHARACTERS)}


def token_bytes(token: str) -> bytes | None:
    """Returns the bytes that a piece stands for, None where it is spelled in other characters."""
    if any(character not in _BYTES for character in token):
        return None
    return bytes(_BYTES[character] for character in token)
