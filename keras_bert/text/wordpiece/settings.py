"""How a WordPiece tokenizer treats text: its settings, and where the files of a folder say them.

tokenizer_config.json     the settings under the names that Hugging Face uses
tokenizer.json            what transformers 5 writes: they are in its normalizer
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from keras_bert.counts import check_count
from keras_bert.storage import files
from keras_bert.text.framing import BERT_FRAMING
from keras_bert.text.tokenizer_config import (
    FILE_NAME,
    MPNET_CLASS,
    ROLES,
    TOKENIZER_JSON,
    read_json,
)
from keras_bert.text.vocabulary import MAX_CHARACTERS_PER_WORD, Vocabulary

_CAPITAL_LETTER = re.compile("[A-Z]")
_IN_ANGLES = re.compile("<.+>")
# Names in the file. Hugging Face has no `keep_special_tokens`: its tokenizers always keep them.
_KEYS = {
    "lowercase": "do_lower_case",
    "strip_accents": "strip_accents",
    "split_cjk": "tokenize_chinese_chars",
    "keep_special_tokens": "keep_special_tokens",
}
# In both files; where neither has it the original's counts.
_WORD_LIMIT = "max_input_chars_per_word"
# Names in the `BertNormalizer` of a tokenizer.json.
_NORMALIZER_KEYS = {
    "lowercase": "lowercase",
    "strip_accents": "strip_accents",
    "split_cjk": "handle_chinese_chars",
}


class Settings(NamedTuple):
    """How a tokenizer treats text; the arguments of `BertTokenizer`."""

    lowercase: bool = True
    strip_accents: bool | None = None
    split_cjk: bool = True
    keep_special_tokens: bool = False
    max_input_chars_per_word: int = MAX_CHARACTERS_PER_WORD


def is_cased(vocabulary: Vocabulary) -> bool:
    """Whether the vocabulary holds ASCII capitals: an uncased one can have no use for them.

    Entries in brackets ([CLS], [unused1], the <S> of Google's Chinese vocabulary) do not count.
    """
    return any(
        _CAPITAL_LETTER.search(token)
        for token in vocabulary.tokens
        if not token.startswith("[") and not _IN_ANGLES.fullmatch(token)
    )


def stored_settings(settings: dict[str, Any], folder: Path, is_general: bool = False) -> Settings:
    """Returns settings with those that a folder's tokenizer_config.json names in their place.

    Args:
        settings: of a tokenizer.json, or by default.
        folder: of the tokenizer.
        is_general: whether the class is one that takes from that file only what is ours alone.

    Raises:
        ValueError: the file is damaged, a setting in it is not true, false or (for
            `strip_accents`) null, or a limit is no number.
    """
    path = folder / FILE_NAME
    stored = read_json(path) if path.is_file() else {}
    if is_general:
        stored = {key: stored[key] for key in stored if key == _KEYS["keep_special_tokens"]}
    for argument, key in _KEYS.items():
        if key in stored:
            value = stored[key]
            if not (isinstance(value, bool) or (value is None and key == _KEYS["strip_accents"])):
                raise ValueError(f"{path}: {key} is {value!r}; it must be true or false")
            settings[argument] = stored[key]
    return Settings(**(settings | _word_limit(stored, path)))


def folder_settings(
    vocabulary: Vocabulary, folder: Path, stored: Mapping[str, Any], is_general: bool
) -> Settings:
    """Returns the settings of a folder of transformers.

    One comes from tokenizer_config.json, else from tokenizer.json; else a vocabulary with capital
    letters means cased, any other uncased.

    Args:
        vocabulary: the folder's.
        folder: of the tokenizer.
        stored: its tokenizer.json, empty without one.
        is_general: whether the class is one of which tokenizer.json says all, but what is ours
            alone.

    Raises:
        ValueError: a setting is damaged, or the normalizer's steps are not BERT's.
    """
    path = folder / TOKENIZER_JSON
    steps = _normalizer_steps(stored, path)
    settings: dict[str, Any] = {"lowercase": not is_cased(vocabulary)}
    settings |= _word_limit(stored.get("model") or {}, path)
    for step in steps:
        settings |= {name: step[key] for name, key in _NORMALIZER_KEYS.items() if key in step}
    found = stored_settings(settings, folder, is_general)
    if any(step["type"] == "Lowercase" for step in steps):
        # As sentence-transformers writes it: in front of BERT's own step, which then strips
        # accents where it would have lower-cased.
        strip = found.lowercase if found.strip_accents is None else found.strip_accents
        found = found._replace(lowercase=True, strip_accents=strip)
    return found


def write_settings(
    folder: str | os.PathLike, settings: Settings, vocabulary: Vocabulary, segments: bool = True
) -> None:
    """Writes the settings so that this library and Hugging Face's tokenizers read them.

    Args:
        folder: where tokenizer_config.json is written.
        settings: how text is treated.
        vocabulary: the pieces, of which the special tokens are written.
        segments: whether the model reads segments, which Hugging Face's BERT tokenizer gives unless
            it is told what to give.
    """
    is_bert = vocabulary.framing == BERT_FRAMING
    special = vocabulary.special_tokens
    stored: dict[str, Any] = {
        **{key: getattr(settings, argument) for argument, key in _KEYS.items()},
        "tokenizer_class": "BertTokenizer" if is_bert else MPNET_CLASS,
        **dict(zip(ROLES, special, strict=True)),
    }
    if settings.max_input_chars_per_word != MAX_CHARACTERS_PER_WORD:
        stored[_WORD_LIMIT] = settings.max_input_chars_per_word
    if not is_bert:
        stored |= {"bos_token": special.cls, "eos_token": special.sep}
    elif not segments:
        stored["model_input_names"] = ["input_ids", "attention_mask"]
    files.write_json(Path(folder) / FILE_NAME, stored)


def _word_limit(stored: Mapping[str, Any], path: Path) -> dict[str, int]:
    """Returns how long words may be, where a file tells it."""
    limit = stored.get(_WORD_LIMIT)
    if limit is None:
        return {}
    try:
        check_count(_WORD_LIMIT, limit)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return {_WORD_LIMIT: limit}


def _normalizer_steps(stored: Mapping[str, Any], path: Path) -> list[dict[str, Any]]:
    """Returns the steps that a tokenizer.json normalizes by: BERT's, and maybe lower-casing."""
    if not stored:
        return []
    step = stored.get("normalizer") or {}
    steps = step.get("normalizers") or [] if step.get("type") == "Sequence" else [step]
    kinds = [str(step.get("type")) for step in steps]
    pre_tokenizer = (stored.get("pre_tokenizer") or {}).get("type")
    if (sorted(kinds), pre_tokenizer) not in (
        (["BertNormalizer"], "BertPreTokenizer"),
        (["BertNormalizer", "Lowercase"], "BertPreTokenizer"),
    ):
        raise ValueError(
            f"{path} normalizes by {', '.join(kinds)} and splits by {pre_tokenizer}; the package's "
            "WordPiece does what BertNormalizer and BertPreTokenizer do, and would give other ids: "
            "open the encoder alone, and make ids with transformers"
        )
    if any(step.get("clean_text") is False for step in steps):
        raise ValueError(
            f"{path} keeps control characters (clean_text is false), which the package's WordPiece "
            "removes, so that it would give other ids: open the encoder alone, and make ids with "
            "transformers"
        )
    return steps
