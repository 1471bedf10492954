"""What the tokenizer files of all families have in common: their names, and how they are read.

tokenizer_config.json     the class, the settings, names of the special tokens
special_tokens_map.json   names of the special tokens, in older folders
added_tokens.json         tokens and ids, as transformers 4 writes them
tokenizer.json            what transformers 5 writes alone: pieces, ids and steps

What the settings mean and where the pieces are each family's own files say (`wordpiece/files.py`,
`byte_level/files.py`, `sentencepiece/files.py`).
"""

import json
import os
import reprlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from keras_bert.checkpoints.gliner.settings import marker_names
from keras_bert.checkpoints.peft.settings import base_folder, is_adapter_folder
from keras_bert.checkpoints.sentence_modules import encoder_source
from keras_bert.storage import hub
from keras_bert.text import vocabulary as vocabulary_module
from keras_bert.text.framing import (
    BERT_FRAMING,
    BERT_TOKENS,
    ROBERTA_FRAMING,
    SpecialTokens,
    rows,
)

FILE_NAME = "tokenizer_config.json"
TOKENIZER_JSON = "tokenizer.json"
SPECIAL_TOKENS_MAP = "special_tokens_map.json"
ADDED_TOKENS = "added_tokens.json"
# Of byte-level BPE, and of each scheme of SentencePiece.
VOCAB_JSON, MERGES = "vocab.json", "merges.txt"
SENTENCEPIECE_FILES = {
    "albert": "spiece.model",
    "xlm_roberta": "sentencepiece.bpe.model",
    "camembert": "sentencepiece.bpe.model",
    "deberta": "spm.model",
}
MODEL_FILES = tuple(dict.fromkeys(SENTENCEPIECE_FILES.values()))
# Every file that holds pieces: a folder with none of them has no tokenizer.
VOCABULARY_FILES = (vocabulary_module.FILE_NAME, VOCAB_JSON, TOKENIZER_JSON, *MODEL_FILES)
TOKENIZER_FILES = (*VOCABULARY_FILES, MERGES, FILE_NAME)
# Names of the special tokens in the files, in the order of `SpecialTokens`.
ROLES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")

# A WordPiece tokenizer with the special tokens and rows of RoBERTa.
MPNET_CLASS = "MPNetTokenizer"
# Values of `tokenizer_class` that say nothing of the tokenizer.
GENERAL_CLASSES = ("", "PreTrainedTokenizerFast", "TokenizersBackend")


def read_json(path: Path) -> dict[str, Any]:
    """Returns the object that a JSON file holds.

    Raises:
        ValueError: it is no JSON, or something else than an object.
    """
    try:
        stored = json.loads(path.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON ({error}): repair or remove it") from None
    if not isinstance(stored, dict):
        raise ValueError(f"{path} holds a JSON {type(stored).__name__}; an object is expected")
    if path.name in (TOKENIZER_JSON, FILE_NAME, SPECIAL_TOKENS_MAP):
        _check_forms(stored, path)
    if path.name in (TOKENIZER_JSON, FILE_NAME, SPECIAL_TOKENS_MAP, ADDED_TOKENS):
        stored = _without_markers(stored, path)
    return stored


def _without_markers(stored: dict[str, Any], path: Path) -> dict[str, Any]:
    """Returns a file of a tokenizer without the tokens that GLiNER adds, which no text holds."""
    markers = marker_names(path.parent)
    if not markers:
        return stored
    if path.name == ADDED_TOKENS:
        return {token: index for token, index in stored.items() if token not in markers}

    def is_marker(token: Any) -> bool:
        return (token.get("content") if isinstance(token, dict) else token) in markers

    left = dict(stored)
    for key in ("added_tokens", "additional_special_tokens", "extra_special_tokens"):
        if isinstance(stored.get(key), list):
            left[key] = [token for token in stored[key] if not is_marker(token)]
    decoder = stored.get("added_tokens_decoder") or {}
    if decoder:
        left["added_tokens_decoder"] = {i: t for i, t in decoder.items() if not is_marker(t)}
    return left


# Types of the values that are looked into, by key; null is as good as none.
_FORMS: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("model", "normalizer", "pre_tokenizer", "post_processor"), dict),
    "added_tokens": list,
    "added_tokens_decoder": dict,
    "additional_special_tokens": list,
    "extra_special_tokens": (dict, list),
}


def _check_forms(stored: Mapping[str, Any], path: Path) -> None:
    """Refuses a file of a tokenizer that holds something else than its format says."""
    damaged = [
        f"{key} is {reprlib.repr(stored[key])}"
        for key, form in _FORMS.items()
        if not isinstance(stored.get(key), (form, type(None)))
    ]
    for token in () if damaged else stored.get("added_tokens") or ():
        is_token = isinstance(token, dict) and isinstance(token.get("content"), str)
        if not is_token or type(token.get("id")) is not int:
            damaged.append(f"an entry of added_tokens is {reprlib.repr(token)}")
    vocab = None if damaged else (stored.get("model") or {}).get("vocab")
    if isinstance(vocab, dict):
        others = [token for token, index in vocab.items() if type(index) is not int]
        damaged += [f"model.vocab has the id {vocab[token]!r} for {token!r}" for token in others]
    if damaged:
        raise ValueError(f"{path} is damaged: {damaged[0]}; fetch the file again")


def tokenizer_class(folder: Path) -> tuple[str, Path]:
    """Returns the `tokenizer_class` that a folder names, and the file that names it.

    As in transformers it is that of tokenizer_config.json, else that of config.json, where Tohoku's
    Japanese BERTs have it; "" where neither names one.
    """
    for path in (folder / FILE_NAME, folder / "config.json"):
        name = str(read_json(path).get("tokenizer_class") or "") if path.is_file() else ""
        if name:
            return name, path
    return "", folder / FILE_NAME


def special_tokens(folder: Path, defaults: SpecialTokens) -> SpecialTokens:
    """Returns the special tokens that the files of a folder name, the defaults where none does."""
    named: dict[str, Any] = {}
    for name in (SPECIAL_TOKENS_MAP, FILE_NAME):  # the latter counts
        if (folder / name).is_file():
            named |= read_json(folder / name)
    values = []
    for name, default in zip(ROLES, defaults, strict=True):
        value = named.get(name)
        value = value.get("content") if isinstance(value, dict) else value
        values.append(default if value is None else str(value))
    return SpecialTokens(*values)


def rows_of(step: Mapping[str, Any] | None, path: Path) -> tuple[list[str], list[str]]:
    """Returns what a `post_processor` makes of one text A and of two; see `framing.rows`.

    Raises:
        ValueError: it is none of those of the package's families, or damaged.
    """
    if step is None:
        return ["A"], ["A", "B"]
    try:
        if step["type"] == "TemplateProcessing":
            single, pair = (
                [str(part["id"]) for parts in step[name] for part in parts.values()]
                for name in ("single", "pair")
            )
            return single, pair
        framings = {"BertProcessing": BERT_FRAMING, "RobertaProcessing": ROBERTA_FRAMING}
        special = BERT_TOKENS._replace(cls=str(step["cls"][0]), sep=str(step["sep"][0]))
        return rows(framings[step["type"]], special)
    except (AttributeError, LookupError, TypeError):
        raise ValueError(
            f"{path}: post_processor is {reprlib.repr(step)}, which makes no rows that the package "
            "knows: fetch the file again, or open the encoder alone"
        ) from None


def check_added(
    folder: Path,
    finds: Callable[[Mapping[str, Any]], bool],
    names: Iterable[str] = (TOKENIZER_JSON,),
) -> None:
    """Refuses tokens that Hugging Face's tokenizers find in texts, and the package does not.

    Args:
        folder: of the tokenizer.
        finds: whether the tokenizer finds such a token wherever Hugging Face's does, or no text
            holds it: a mapping with `content` and, where the file has them, `single_word` and more.
        names: files in which added tokens stand beside tokenizer_config.json.

    Raises:
        ValueError: there is such a token.
    """
    for name in (FILE_NAME, SPECIAL_TOKENS_MAP, ADDED_TOKENS, *names):
        path = folder / name
        if not path.is_file():
            continue
        stored = read_json(path)
        if name == ADDED_TOKENS:
            tokens: Iterable[Any] = stored
        elif name in (FILE_NAME, SPECIAL_TOKENS_MAP):
            listed = [(stored.get("added_tokens_decoder") or {}).values()]
            # Names of roles and tokens, or tokens alone.
            for key in ("additional_special_tokens", "extra_special_tokens"):
                more = stored.get(key) or ()
                listed.append(more.values() if isinstance(more, dict) else more)
            tokens = [token for some in listed for token in some]
        else:
            tokens = stored.get("added_tokens") or ()
        for token in tokens:
            told = token if isinstance(token, dict) else {"content": token}
            if not finds(told):
                raise ValueError(
                    f"{path}: {told.get('content')!r} is an added token, which the package's "
                    "tokenizer does not find in texts as Hugging Face's do; take it out of the "
                    "file if your texts do not hold it"
                )


def local_folder(folder: str | os.PathLike) -> Path:
    """Returns where the tokenizer of a model folder lies, downloaded if it is `hf://org/name`.

    An adapter of PEFT without a tokenizer of its own has that of its base.

    Raises:
        FileNotFoundError: the base of an adapter is no folder.
        ValueError: a repository cannot be fetched, or an adapter names no base.
    """
    local = hub.local_folder(folder)
    if is_adapter_folder(local) and not has_vocabulary(local):
        return hub.local_folder(encoder_source(base_folder(local)))
    return local


def has_vocabulary(folder: Path) -> bool:
    """Whether a folder holds a file of any family's pieces or merges."""
    return any((folder / name).is_file() for name in (*VOCABULARY_FILES, MERGES))


def missing_vocabulary(folder: Path, sentence: str) -> Exception:
    """Returns the error of a missing file: of a folder without any tokenizer another one."""
    return ValueError(sentence) if has_vocabulary(folder) else FileNotFoundError(sentence)
