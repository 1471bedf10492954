"""What `unicodedata` and `str.lower` of Python 3.11 say (Unicode 14), on a later Python too.

Python 3.12 has Unicode 15.0 and Python 3.13 has 15.1. Both add characters and change none of the
older ones in what is asked here; `fingerprint` proves it. So a later Python answers as 3.11 does
when the characters that are new to it are treated as what they were before: unassigned (category
Cn), in their own place (combining class 0), without a decomposition and without case.
"""

import hashlib
import re
import sys
import unicodedata
from collections.abc import Callable

# DerivedAge.txt of the Unicode Character Database, ages 15.0 and 15.1.
_LATER_RANGES = (
    "\u0cf3\u0ece\u2ffc-\u2fff\u31ef\U00010efd-\U00010eff\U0001123f-\U00011241"
    "\U00011b00-\U00011b09\U00011f00-\U00011f10\U00011f12-\U00011f3a\U00011f3e-\U00011f59"
    "\U0001342f\U00013439-\U00013455\U0001b132\U0001b155\U0001d2c0-\U0001d2d3"
    "\U0001df25-\U0001df2a\U0001e030-\U0001e06d\U0001e08f\U0001e4d0-\U0001e4f9\U0001f6dc"
    "\U0001f774-\U0001f776\U0001f77b-\U0001f77f\U0001f7d9\U0001fa75-\U0001fa77"
    "\U0001fa87-\U0001fa88\U0001faad-\U0001faaf\U0001fabb-\U0001fabd\U0001fabf"
    "\U0001face-\U0001facf\U0001fada-\U0001fadb\U0001fae8\U0001faf7-\U0001faf8\U0002b739"
    "\U0002ebf0-\U0002ee5d\U00031350-\U000323af"
)
_LATER = re.compile(f"([{_LATER_RANGES}])")

# What `fingerprint` returns on Python 3.11, where no character is later.
FINGERPRINT = "3106643dbdb7e0625b9ad1bf446b7b331a8e7c7f070575c5aa0128fa760259c0"


def category(character: str) -> str:
    """Returns the general category of a character."""
    return "Cn" if _LATER.match(character) else unicodedata.category(character)


def combining(character: str) -> int:
    """Returns the canonical combining class of a character."""
    return 0 if _LATER.match(character) else unicodedata.combining(character)


def decomposed(text: str) -> str:
    """Returns the canonical decomposition of a text (NFD)."""
    return _between_later(lambda part: unicodedata.normalize("NFD", part), text)


def lower(text: str) -> str:
    """Returns a text as `str.lower` makes it."""
    return _between_later(str.lower, text)


def _between_later(change: Callable[[str], str], text: str) -> str:
    # An unassigned character stays, marks do not move across it, and it ends a Greek word: what
    # is before it and what is behind it are two texts. `split` returns it at the odd places.
    parts = _LATER.split(text)
    parts[::2] = map(change, parts[::2])
    return "".join(parts)


def fingerprint() -> str:
    """Returns a hash of every answer for every code point."""
    digest = hashlib.sha256()
    for start in range(0, sys.maxunicode + 1, 1 << 12):
        characters = [chr(code_point) for code_point in range(start, start + (1 << 12))]
        # A line end keeps the characters apart. Sigma shows how its neighbours see a character.
        answers = (
            "".join(map(category, characters)),
            "".join(map(chr, map(combining, characters))),
            decomposed("\n".join(characters)),
            lower("\n".join(f"{c}\u03a3 A{c}\u03a3" for c in characters)),
        )
        digest.update("\n".join(answers).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
