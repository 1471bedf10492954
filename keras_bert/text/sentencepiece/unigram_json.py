"""A SentencePiece model out of XLM-R's tokenizer.json, or CamemBERT's, without its model file.

The file holds all that the model has: pieces with their scores, and the table by which characters
are normalized. What is made of it is the same protocol buffer, `ModelProto` of
sentencepiece_model.proto, with the defaults for the rest: a blank before the text, no blanks at its
ends, none behind another. No TensorFlow here.
"""

import base64
import binascii
import reprlib
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from keras_bert.text.framing import ROBERTA_FRAMING, ROBERTA_TOKENS, rows
from keras_bert.text.tokenizer_config import rows_of
from keras_bert.text.vocabulary import SENTENCEPIECE_SPACE

UNIGRAM = "Unigram"
# fairseq's order: entries of its own first and one last, the pieces of the model between them. In
# CamemBERT's the model's first three follow once more, and are the ones that count.
_LAST = "<mask>"
_FIRST = {
    "xlm_roberta": ["<s>", "<pad>", "</s>", "<unk>"],
    "camembert": [
        *("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>"),
        *("<unk>NOTUSED", "<s>", "</s>"),
    ],
}
# Fields of the messages, and types of pieces.
_PIECES, _NORMALIZER = 1, 3  # of ModelProto
_SPELLING, _SCORE, _TYPE = 1, 2, 3  # of SentencePiece
_NAME, _TABLE = 1, 2  # of NormalizerSpec
_NORMAL, _UNKNOWN, _CONTROL = 1, 2, 3
_VARINT, _BYTES, _FIXED_32 = 0, 2, 5  # wire types
# What stands beside the table of characters in files of some years: SentencePiece does it anyway.
_BLANKS = ({"type": "Strip", "strip_left": False, "strip_right": True},)


def is_unigram(stored: Mapping[str, Any]) -> bool:
    """Whether a tokenizer.json holds pieces of SentencePiece with scores."""
    return (stored.get("model") or {}).get("type") == UNIGRAM


def camembert_order(pieces: Iterable[str]) -> list[str]:
    """Returns CamemBERT's vocabulary of the pieces behind the first three of its model."""
    return [*_FIRST["camembert"], *pieces, _LAST]


def scheme_of(stored: Mapping[str, Any]) -> str:
    """Returns whose pieces a tokenizer.json holds, by the first: "camembert" or "xlm_roberta"."""
    vocab = stored["model"].get("vocab")
    first = vocab[0] if isinstance(vocab, list) and vocab else None
    is_camembert = isinstance(first, list) and first[:1] == _FIRST["camembert"][:1]
    return "camembert" if is_camembert else "xlm_roberta"


def model_of(stored: Mapping[str, Any], path: Path) -> bytes:
    """Returns the content of the model file that a tokenizer.json was made of.

    Args:
        stored: content of tokenizer.json, see `is_unigram`.
        path: of that file, for messages.

    Raises:
        ValueError: it is damaged, or neither of XLM-R's kind nor CamemBERT's.
    """
    model = stored["model"]
    try:
        scores = [(str(piece), float(score)) for piece, score in model["vocab"]]
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            f"{path} is damaged: vocab is no list of pieces with their scores; fetch the file again"
        ) from None
    names = [piece for piece, _ in scores]
    first = _FIRST[scheme_of(stored)]
    if names[: len(first)] != first or names[-1] != _LAST or model.get("unk_id") != 3:
        raise ValueError(
            f"{path}: the pieces begin with {', '.join(names[:4])} and end with "
            f"{', '.join(names[-1:])}: those of XLM-R's kind begin with "
            f"{', '.join(_FIRST['xlm_roberta'])}, those of CamemBERT's with "
            f"{', '.join(_FIRST['camembert'])}, and end with {_LAST}; open the encoder alone, and "
            "make ids with transformers"
        )
    if model.get("byte_fallback"):
        raise ValueError(f"{path}: byte_fallback is true, which XLM-R's kind does not have")
    _check_steps(stored, path)
    table = _table(stored.get("normalizer"), path)
    pieces = [("<unk>", 0.0, _UNKNOWN), ("<s>", 0.0, _CONTROL), ("</s>", 0.0, _CONTROL)]
    pieces += [(piece, score, _NORMAL) for piece, score in scores[len(first) : -1]]
    return b"".join(_field(_PIECES, _piece(*piece)) for piece in pieces) + _field(
        _NORMALIZER, _field(_NAME, b"nmt_nfkc" if table else b"identity") + _field(_TABLE, table)
    )


def _check_steps(stored: Mapping[str, Any], path: Path) -> None:
    """Refuses other steps than those of SentencePiece with XLM-R's rows."""
    splits = stored.get("pre_tokenizer") or {}
    steps = splits.get("pretokenizers") if splits.get("type") == "Sequence" else [splits]
    steps = [step if isinstance(step, Mapping) else {} for step in steps or ()]
    kinds = [step.get("type") for step in steps]
    last = steps[-1] if steps else {}
    blank = last.get("add_prefix_space", True) and last.get("prepend_scheme", "always") == "always"
    if (
        kinds not in (["WhitespaceSplit", "Metaspace"], ["Metaspace"])
        or last.get("replacement") != SENTENCEPIECE_SPACE
        or not blank
    ):
        raise ValueError(
            f"{path}: pre_tokenizer is {reprlib.repr(splits)}: Metaspace with a blank before the "
            "text is expected, alone or behind WhitespaceSplit"
        )
    if rows_of(stored.get("post_processor"), path) != rows(ROBERTA_FRAMING, ROBERTA_TOKENS):
        raise ValueError(
            f"{path}: post_processor makes other rows than <s> A </s> and <s> A </s> </s> B </s>: "
            "give the folder of a tokenizer like XLM-R's"
        )


def _table(normalizer: Mapping[str, Any] | None, path: Path) -> bytes:
    """Returns the table of characters, b"" without one."""
    if normalizer is None:
        return b""
    steps = normalizer.get("normalizers") if normalizer.get("type") == "Sequence" else [normalizer]
    table = b""
    for step in steps or ():
        step = step if isinstance(step, Mapping) else {"type": step}
        if step.get("type") == "Precompiled" and not table:
            try:
                table = base64.b64decode(step["precompiled_charsmap"] or "", validate=True)
            except (KeyError, TypeError, binascii.Error):
                raise ValueError(f"{path} is damaged: precompiled_charsmap is no base 64") from None
        elif step not in _BLANKS and not _joins_blanks(step):
            raise ValueError(
                f"{path}: normalizer has {reprlib.repr(step)}: a Precompiled table of characters "
                "is expected, and what SentencePiece does with blanks"
            )
    return table


def _joins_blanks(step: Mapping[str, Any]) -> bool:
    """Whether a step replaces several blanks by one."""
    replaces = step.get("type") == "Replace" and step.get("pattern") == {"Regex": " {2,}"}
    return replaces and step.get("content") in (" ", SENTENCEPIECE_SPACE)


def _piece(spelling: str, score: float, kind: int) -> bytes:
    parts: Iterable[bytes] = (
        _field(_SPELLING, spelling.encode("utf-8")),
        bytes([_SCORE << 3 | _FIXED_32]) + struct.pack("<f", score),
        bytes([_TYPE << 3 | _VARINT, kind]),
    )
    return b"".join(parts)


def _field(number: int, content: bytes) -> bytes:
    """Returns a field that has a length."""
    size, length = bytearray(), len(content)
    while length > 127:
        size.append(length & 127 | 128)
        length >>= 7
    return bytes([number << 3 | _BYTES, *size, length]) + content
