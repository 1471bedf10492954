"""Makes unicode_table.npz, the Unicode facts that tokens and sentences rest on.

The original tokenization.py asks Python's `unicodedata`, whose answers change with every Python.
The shipped table fixes them to Unicode 14, the version of Python 3.11, whatever Python runs the
library. Run it with Python 3.11 only to make the file anew:

    python -m keras_bert.text.wordpiece.make_unicode_table
"""

import sys
import unicodedata
from collections.abc import Callable, Iterable

import numpy as np

from keras_bert.storage import files
from keras_bert.text.wordpiece import unicode_table

_UNICODE_VERSION = "14.0.0"


def main() -> None:
    """Writes the table beside this file."""
    if unicodedata.unidata_version != _UNICODE_VERSION:
        raise SystemExit(
            f"this Python has Unicode {unicodedata.unidata_version}; the table needs "
            f"{_UNICODE_VERSION}: run it with Python 3.11"
        )
    arrays = {
        **_run_lengths("kind", _kind),
        **_run_lengths("mark", lambda c: unicodedata.category(c) == "Mn"),
        **_run_lengths("combining", unicodedata.combining),
        **_run_lengths("case", _case_context),
        **_run_lengths("assigned", lambda c: unicodedata.category(c) != "Cn"),
        **_sequences("lower", str.lower),
        **_sequences("decomposition", lambda c: unicodedata.normalize("NFD", c)),
    }
    with files.atomic_file(unicode_table.PATH) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def _characters() -> Iterable[str]:
    return map(chr, range(sys.maxunicode + 1))


def _kind(character: str) -> int:
    category = unicodedata.category(character)
    # "\t", "\n" and "\r" are control characters that the original counts as white space.
    if character in "\t\n\r":
        return unicode_table.SPACE
    if character == "\ufffd" or category in ("Cc", "Cf"):
        return unicode_table.REMOVED
    # `isspace` and not category Zs alone: str.split also splits at line and paragraph separators.
    if character.isspace():
        return unicode_table.SPACE
    if category.startswith("P") or ("!" <= character <= "~" and not character.isalnum()):
        return unicode_table.PUNCTUATION
    return unicode_table.LETTER


def _case_context(character: str) -> int:
    # How str.lower sees a character beside a capital sigma. Python does not publish the two
    # properties, but its answers show them: a sigma ends a word when the nearest character
    # before it that is not case-ignorable is cased.
    if (" " + character + "Σ").lower().endswith("ς"):
        return unicode_table.CASED
    if ("A" + character + "Σ").lower().endswith("ς"):
        return unicode_table.CASE_IGNORABLE
    return unicode_table.CASELESS


def _run_lengths(name: str, value_of: Callable[[str], int]) -> dict[str, np.ndarray]:
    values = np.array([value_of(character) for character in _characters()], np.uint8)
    starts = np.flatnonzero(np.diff(values, prepend=values[0] + 1))
    return {f"{name}_starts": starts.astype(np.int32), f"{name}_values": values[starts]}


def _sequences(name: str, replace: Callable[[str], str]) -> dict[str, np.ndarray]:
    changed = [(c, replace(c)) for c in _characters() if replace(c) != c]
    return {
        f"{name}_keys": np.array([ord(key) for key, _ in changed], np.int32),
        f"{name}_lengths": np.array([len(value) for _, value in changed], np.uint8),
        f"{name}_values": np.array([ord(c) for _, value in changed for c in value], np.int32),
    }


if __name__ == "__main__":
    main()
