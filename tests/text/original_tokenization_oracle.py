"""BERT's tokenization in plain Python, one character at a time: the oracle of the text tests.

Written from the published algorithm (tokenization.py of google-research/bert), independently of
the library: it asks Python's own `unicodedata` and `str.lower`, of which `unicode_14` hides what
Pythons after 3.11 have added to the version of Unicode that the library fixes.
"""

from collections.abc import Container, Iterable

import unicode_14

_MAX_CHARACTERS = 200
_CJK_BLOCKS = (
    range(0x3400, 0x4DC0),
    range(0x4E00, 0xA000),
    range(0xF900, 0xFB00),
    range(0x20000, 0x2A6E0),
    range(0x2A700, 0x2CEB0),
    range(0x2F800, 0x2FA20),
)


def tokenize(
    text: str,
    vocabulary: Container[str],
    lowercase: bool = True,
    strip_accents: bool | None = None,
    split_cjk: bool = True,
) -> list[str]:
    """Returns the pieces of `text`."""
    words = normalized_words(text, lowercase, strip_accents, split_cjk)
    return [piece for word in words for piece in _longest_matches(word, vocabulary)]


def normalized_words(
    text: str,
    lowercase: bool = True,
    strip_accents: bool | None = None,
    split_cjk: bool = True,
) -> list[str]:
    """Returns the words of `text` before they are cut into pieces."""
    strip = lowercase if strip_accents is None else strip_accents
    cleaned = "".join(map(_clean, text))
    if split_cjk:
        cleaned = "".join(f" {c} " if _is_cjk(c) else c for c in cleaned)
    words = []
    for word in cleaned.split():
        if lowercase:
            word = unicode_14.lower(word)
        if strip:
            decomposed = unicode_14.decomposed(word)
            word = "".join(c for c in decomposed if unicode_14.category(c) != "Mn")
        words.extend(_split_at_punctuation(word))
    return " ".join(words).split()


def _clean(character: str) -> str:
    if character in "\0\ufffd":
        return ""
    if character in " \t\n\r" or unicode_14.category(character) == "Zs":
        return " "
    return "" if unicode_14.category(character) in ("Cc", "Cf") else character


def _is_cjk(character: str) -> bool:
    return any(ord(character) in block for block in _CJK_BLOCKS)


def _split_at_punctuation(word: str) -> Iterable[str]:
    start = 0
    for place, character in enumerate(word):
        if _is_punctuation(character):
            yield from (word[start:place], character)
            start = place + 1
    yield word[start:]


def _is_punctuation(character: str) -> bool:
    symbols = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
    return character in symbols or unicode_14.category(character).startswith("P")


def _longest_matches(word: str, known: Container[str]) -> list[str]:
    if len(word) > _MAX_CHARACTERS:
        return ["[UNK]"]
    pieces, start = [], 0
    while start < len(word):
        prefix = "##" if start else ""
        ends = range(len(word), start, -1)
        end = next((e for e in ends if prefix + word[start:e] in known), None)
        if end is None:
            return ["[UNK]"]
        pieces.append(prefix + word[start:end])
        start = end
    return pieces
