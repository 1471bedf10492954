r"""Makes character_classes.npz: what the `tokenizers` library takes for letters, digits and space.

GPT-2's regular expression asks for \p{L}, \p{N} and \s, whose answers change with the Unicode
version of the engine. The table keeps those of the Rust library, asked character by character:

    python -m keras_bert.text.byte_level.make_character_classes
"""

import sys
from collections.abc import Callable

import numpy as np
from tokenizers import pre_tokenizers

from keras_bert.storage import files
from keras_bert.text.byte_level import character_classes


def main() -> None:
    """Writes the table beside this file."""
    split = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str
    classes = np.array([_class(split, c) for c in range(sys.maxunicode + 1)], np.uint8)
    starts = np.flatnonzero(np.diff(classes, prepend=255))  # runs of equal classes
    arrays: dict[str, np.ndarray] = {"starts": starts.astype(np.int32), "classes": classes[starts]}
    with (
        files.atomic_file(character_classes.PATH) as temporary,
        temporary.open("wb") as file,
    ):
        np.savez_compressed(file, allow_pickle=False, **arrays)


def _class(split: Callable[[str], list], code_point: int) -> int:
    if 0xD800 <= code_point < 0xE000:
        return character_classes.OTHER  # half a pair of UTF-16, which no text holds
    # Characters of one class stand together: "aé" is one word, "1é" two.
    for known, number in (
        ("a", character_classes.LETTER),
        ("1", character_classes.DIGIT),
        ("!", character_classes.OTHER),
    ):
        if len(split(known + chr(code_point))) == 1:
            return number
    return character_classes.SPACE


if __name__ == "__main__":
    main()
