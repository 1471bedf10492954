"""Makes character_forms.npz: characters decomposed without accents, and lower-cased.

Run it with Python 3.11, whose Unicode is 14, only to make the file anew:

    python -m keras_bert.text.sentencepiece.make_character_forms
"""

import sys
import unicodedata
from collections.abc import Callable

import numpy as np

from keras_bert.storage import files
from keras_bert.text.sentencepiece import preparation

_UNICODE_VERSION = "14.0.0"


def main() -> None:
    """Writes the table beside this file."""
    if unicodedata.unidata_version != _UNICODE_VERSION:
        raise SystemExit(
            f"this Python has Unicode {unicodedata.unidata_version}; the table needs "
            f"{_UNICODE_VERSION}: run it with Python 3.11"
        )
    arrays = {**_forms("lower", str.lower), **_forms("decomposition", _without_accents)}
    with (
        files.atomic_file(preparation.PATH) as temporary,
        temporary.open("wb") as file,
    ):
        np.savez_compressed(file, allow_pickle=False, **arrays)


def _without_accents(character: str) -> str:
    parts = unicodedata.normalize("NFKD", character)
    return "".join(part for part in parts if unicodedata.category(part)[0] != "M")


def _forms(name: str, form: Callable[[str], str]) -> dict[str, np.ndarray]:
    changed = [(c, form(c)) for c in map(chr, range(sys.maxunicode + 1)) if form(c) != c]
    return {
        f"{name}_code_points": np.array([ord(c) for c, _ in changed], np.int32),
        f"{name}_lengths": np.array([len(found) for _, found in changed], np.uint8),
        f"{name}_forms": np.array([ord(p) for _, found in changed for p in found], np.int32),
    }


if __name__ == "__main__":
    main()
