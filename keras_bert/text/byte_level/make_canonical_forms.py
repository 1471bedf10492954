"""Makes canonical_forms.npz: the decompositions and compositions of the `tokenizers` library.

NFC changes with the Unicode version of the code that does it. The table keeps what the Rust library
does, asked character by character:

    python -m keras_bert.text.byte_level.make_canonical_forms
"""

import sys
import unicodedata
from collections.abc import Callable, Iterable

import numpy as np
from tokenizers import normalizers

from keras_bert.storage import files
from keras_bert.text.byte_level import canonical_forms

_HIGHEST = "\u0345"  # iota subscript, the only mark of its class


def main() -> None:
    """Writes the table beside this file."""
    nfd, nfc = normalizers.NFD().normalize_str, normalizers.NFC().normalize_str
    characters = [chr(c) for c in range(sys.maxunicode + 1) if not 0xD800 <= c < 0xE000]
    forms = {c: form for c in characters if (form := nfd(c)) != c}
    # Two characters that become one, by the one: the last of its decomposition, and what the others
    # become. Hangul too: a syllable of three letters is one of two and the last letter.
    pairs = {c: nfc(form[:-1]) + form[-1] for c, form in forms.items() if nfc(form) == c}
    classes = _mark_classes(nfd, [c for c in characters if c not in forms])
    _check(pairs, classes, min(classes))
    arrays = {
        "decomposed": _code_points(forms),
        "lengths": np.array(list(map(len, forms.values())), np.uint8),
        "sequences": _code_points("".join(forms.values())),
        "marks": _code_points(classes),
        "mark_classes": np.array(list(classes.values()), np.uint8),
        "firsts": _code_points(pair[0] for pair in pairs.values()),
        "seconds": _code_points(pair[1] for pair in pairs.values()),
        "composites": _code_points(pairs),
    }
    with (
        files.atomic_file(canonical_forms.PATH) as temporary,
        temporary.open("wb") as file,
    ):
        np.savez_compressed(file, allow_pickle=False, **arrays)


def _mark_classes(nfd: Callable[[str], str], characters: list[str]) -> dict[str, int]:
    """Returns the place of each mark's combining class among all classes, from 1 on.

    A mark goes before another that has a higher class, of which iota subscript has the highest. One
    mark of each class tells that of every other.
    """
    marks = [c for c in characters if nfd(_HIGHEST + c) != _HIGHEST + c] + [_HIGHEST]
    known = {unicodedata.combining(c): c for c in reversed(marks)}  # Python may know some as 0
    ordered = [known[number] for number in sorted(known) if number]
    for lower, higher in zip(ordered, ordered[1:], strict=False):
        if nfd(higher + lower) != lower + higher:
            raise ValueError(f"{lower!r} and {higher!r} are not in the order of their classes")
    return {c: sum(nfd(one + c) == one + c for one in ordered) for c in sorted(marks)}


def _check(pairs: dict[str, str], classes: dict[str, int], lowest: str) -> None:
    """Checks what the graph relies on."""
    if ord(lowest) < canonical_forms.FIRST_UNSTABLE:
        raise ValueError(f"{lowest!r} is a mark below FIRST_UNSTABLE")
    for composite, pair in pairs.items():
        first, second = pair[0], pair[1]
        # Marks that were passed over stay so when one behind them has been composed.
        before = pairs.get(first, first)[-1]
        if 0 < classes.get(second, 0) < classes.get(before, 0):
            raise ValueError(f"the marks of {composite!r} are not in canonical order")
        if composite in classes or first in classes:
            raise ValueError(f"{composite!r} or its first part is a mark")


def _code_points(characters: Iterable[str]) -> np.ndarray:
    return np.array([ord(character) for character in characters], np.int32)


if __name__ == "__main__":
    main()
