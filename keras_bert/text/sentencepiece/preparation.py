"""What becomes of a text before SentencePiece sees it, in ALBERT's models. No TensorFlow here.

Two quotes in a row become a double one; then each character is decomposed (NFKD) without accents,
and lower-cased, as transformers does. The characters follow Unicode 14 on every Python: the table
was made by `make_character_forms`.
"""

import functools
from pathlib import Path

import numpy as np

PATH = Path(__file__).with_name("character_forms.npz")


@functools.cache
def character_forms(lowercase: bool, keep_accents: bool) -> dict[int, str]:
    """Returns what each code point becomes that does not stay as it is; for `str.translate`.

    Args:
        lowercase: lower-case characters, each by itself.
        keep_accents: leave them composed and with their accents.
    """
    with np.load(PATH) as stored:
        lower = _read(stored, "lower") if lowercase else {}
        if keep_accents:
            return lower
        decomposed = _read(stored, "decomposition")
    return lower | {c: form.translate(lower) for c, form in decomposed.items()}


def prepare_text(text: str, scheme: str, lowercase: bool, keep_accents: bool) -> str:
    """Returns a text as SentencePiece gets it; `SentencePieceTokenizer` does the same in graph.

    Args:
        text: the text.
        scheme: "albert", whose quotes change, or another.
        lowercase: lower-case characters.
        keep_accents: leave them composed and with their accents.
    """
    if scheme == "albert":
        text = text.replace("``", '"').replace("''", '"')
    return text.translate(character_forms(lowercase, keep_accents))


def _read(stored: np.lib.npyio.NpzFile, name: str) -> dict[int, str]:
    forms = "".join(map(chr, stored[f"{name}_forms"].tolist()))
    ends = np.cumsum(stored[f"{name}_lengths"]).tolist()
    code_points = stored[f"{name}_code_points"].tolist()
    return {c: forms[i:j] for c, i, j in zip(code_points, [0, *ends], ends, strict=False)}
