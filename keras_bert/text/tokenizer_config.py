"""Names of the files of all tokenizers; the vocabulary and the settings of a WordPiece tokenizer.

vocab.txt                 the pieces, one a line; where it is missing:
tokenizer.json            what transformers 5 writes: pieces, ids and a normalizer
tokenizer_config.json     the settings under the names that Hugging Face uses
"""

import json
import os
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from keras_bert.checkpoints import tf_hub
from keras_bert.counts import check_count
from keras_bert.storage import files, hub
from keras_bert.text import vocabulary as vocabulary_module
from keras_bert.text.framing import (
    BERT_FRAMING,
    BERT_TOKENS,
    MPNET_TOKENS,
    ROBERTA_FRAMING,
    Framing,
    SpecialTokens,
    rows,
)
from keras_bert.text.vocabulary import (
    CONTINUATION_PREFIX,
    MAX_CHARACTERS_PER_WORD,
    Vocabulary,
)

FILE_NAME = "tokenizer_config.json"
TOKENIZER_JSON = "tokenizer.json"
SPECIAL_TOKENS_MAP = "special_tokens_map.json"
ADDED_TOKENS = "added_tokens.json"  # tokens and ids, as transformers 4 writes them
# Of byte-level BPE, and of each scheme of SentencePiece.
VOCAB_JSON, MERGES = "vocab.json", "merges.txt"
SENTENCEPIECE_FILES = {
    "albert": "spiece.model",
    "xlm_roberta": "sentencepiece.bpe.model",
    "deberta": "spm.model",
}
MODEL_FILES = tuple(SENTENCEPIECE_FILES.values())
# Every file that holds pieces: a folder with none of them has no tokenizer.
VOCABULARY_FILES = (vocabulary_module.FILE_NAME, VOCAB_JSON, TOKENIZER_JSON, *MODEL_FILES)
TOKENIZER_FILES = (*VOCABULARY_FILES, MERGES, FILE_NAME)
# Names of the special tokens in the files, in the order of `SpecialTokens`.
ROLES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")

# A WordPiece tokenizer with the special tokens and rows of RoBERTa.
MPNET_CLASS = "MPNetTokenizer"
# Values of `tokenizer_class` that say nothing of the tokenizer.
GENERAL_CLASSES = ("", "PreTrainedTokenizerFast", "TokenizersBackend")

_CAPITAL_LETTER = re.compile("[A-Z]")
_IN_ANGLES = re.compile("<.+>")


class Settings(NamedTuple):
    """How a tokenizer treats text; the arguments of `BertTokenizer`."""

    lowercase: bool = True
    strip_accents: bool | None = None
    split_cjk: bool = True
    keep_special_tokens: bool = False
    max_input_chars_per_word: int = MAX_CHARACTERS_PER_WORD


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


def read(folder: str | os.PathLike) -> tuple[Vocabulary, Settings]:
    """Reads the vocabulary and the settings of a model folder.

    The vocabulary is vocab.txt or else that of tokenizer.json. A setting comes from
    tokenizer_config.json, else from tokenizer.json; else a vocabulary with capital letters means
    cased, any other uncased.

    Args:
        folder: the folder, or `hf://org/name` for one on the Hugging Face Hub. A SavedModel of
            TF-Hub's has both in its assets and in `do_lower_case`.

    Raises:
        FileNotFoundError: it has no vocabulary.
        ValueError: a file is damaged, a setting in it is not true, false or (for
            `strip_accents`) null, a limit is no number, or tokenizer.json has steps that are not
            BERT's.
    """
    folder = hub.local_folder(folder)
    if tf_hub.is_saved_model(folder):
        file, lowercase = tf_hub.vocabulary_file(folder)
        vocabulary, folder = Vocabulary.from_file(file), file.parent
        settings: dict[str, Any] = {
            "lowercase": not is_cased(vocabulary) if lowercase is None else lowercase
        }
    else:
        text, as_json = folder / vocabulary_module.FILE_NAME, folder / TOKENIZER_JSON
        stored = read_json(as_json) if as_json.is_file() else {}
        special, framing = _family(folder)
        if text.is_file() or not stored:
            vocabulary = _read_lines(text, special, framing)
        else:
            tokens = _tokens_of(stored, as_json)
            vocabulary = Vocabulary(tokens, _of_vocabulary(special, tokens), framing=framing)
        # Of a general class tokenizer.json says all, in transformers too.
        is_general = bool(stored) and tokenizer_class(folder)[0] in GENERAL_CLASSES[1:]
        _check_rows(stored, as_json, vocabulary, is_general)
        steps = _normalizer_steps(stored, as_json)
        settings = {"lowercase": not is_cased(vocabulary)}
        settings |= _word_limit(stored.get("model") or {}, as_json)
        for step in steps:
            settings |= {name: step[key] for name, key in _NORMALIZER_KEYS.items() if key in step}
        found = _with_stored(settings, folder, is_general)
        if any(step["type"] == "Lowercase" for step in steps):
            # As sentence-transformers writes it: in front of BERT's own step, which then strips
            # accents where it would have lower-cased.
            strip = found.lowercase if found.strip_accents is None else found.strip_accents
            found = found._replace(lowercase=True, strip_accents=strip)
        return vocabulary, found
    return vocabulary, _with_stored(settings, folder)


def read_file(path: str | os.PathLike) -> tuple[Vocabulary, Settings]:
    """Reads a vocab.txt, and the settings of a tokenizer_config.json beside it, if any.

    Without one a vocabulary with capital letters means cased, any other uncased.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: one of the files is damaged.
    """
    vocabulary = _read_lines(Path(path), *_family(Path(path).parent))
    return vocabulary, _with_stored({"lowercase": not is_cased(vocabulary)}, Path(path).parent)


def _with_stored(settings: dict[str, Any], folder: Path, is_general: bool = False) -> Settings:
    """Returns settings with those that a folder's tokenizer_config.json names in their place.

    Args:
        settings: of a tokenizer.json, or by default.
        folder: of the tokenizer.
        is_general: whether the class is one that takes from that file only what is ours alone.
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


def _family(folder: Path) -> tuple[SpecialTokens, Framing]:
    """Returns the special tokens and the rows of a WordPiece tokenizer: MPNet's, or else BERT's."""
    name, _ = tokenizer_class(folder)
    is_mpnet = name.removesuffix("Fast") == MPNET_CLASS
    if name in GENERAL_CLASSES:
        # MPNet's vocabulary holds BERT's special tokens as well: the model or the names tell.
        config = folder / "config.json"
        model_type = read_json(config).get("model_type") if config.is_file() else None
        is_mpnet = model_type == "mpnet" or special_tokens(folder, BERT_TOKENS) == MPNET_TOKENS
    if is_mpnet:
        return special_tokens(folder, MPNET_TOKENS), ROBERTA_FRAMING
    return special_tokens(folder, BERT_TOKENS), BERT_FRAMING


def _of_vocabulary(special: SpecialTokens, tokens: Iterable[str]) -> SpecialTokens:
    """Returns the special tokens, BERT's in place of those that are in no vocabulary."""
    known = {*tokens}
    return SpecialTokens(
        *(t if t in known else default for t, default in zip(special, BERT_TOKENS, strict=True))
    )


def _read_lines(path: Path, special: SpecialTokens, framing: Framing) -> Vocabulary:
    """Reads a vocab.txt; see `Vocabulary.from_file`."""
    if framing == BERT_FRAMING and special != BERT_TOKENS and path.is_file():
        lines = path.read_text(encoding="utf-8-sig", errors="replace").split("\n")
        special = _of_vocabulary(special, map(vocabulary_module.piece_of_line, lines))
    return Vocabulary.from_file(path, special, framing)


def _tokens_of(stored: dict[str, Any], path: Path) -> list[str]:
    """Returns the pieces of a tokenizer.json in the order of their ids."""
    model = stored.get("model") or {}
    kind, prefix = model.get("type"), model.get("continuing_subword_prefix")
    if (kind, prefix) != ("WordPiece", CONTINUATION_PREFIX):
        raise ValueError(
            f"{path} holds a {kind} model with the prefix {prefix!r}; BERT's is WordPiece with "
            f"{CONTINUATION_PREFIX!r}: pass the folder of a BERT model"
        )
    ids = model["vocab"] | {
        token["content"]: token["id"] for token in stored.get("added_tokens") or ()
    }
    tokens = sorted(ids, key=ids.__getitem__)
    for index, token in enumerate(tokens):
        if ids[token] != index:
            raise ValueError(
                f"{path}: {token!r} has the id {ids[token]}, but {index} is the next free one: "
                "ids must be 0, 1, 2, ... without gaps"
            )
    # White space at the edge of a piece, which no word has, is gone from a vocab.txt.
    return [vocabulary_module.piece_of_line(token) for token in tokens]


def _check_rows(
    stored: Mapping[str, Any], path: Path, vocabulary: Vocabulary, is_general: bool
) -> None:
    """Refuses a tokenizer.json that makes other rows of texts than the package does.

    Without a `post_processor` the class makes them, and a general class leaves texts as they are.
    """
    step = stored.get("post_processor")
    if step is None and not is_general:
        return
    expected = rows(vocabulary.framing, vocabulary.special_tokens)
    made = rows_of(step, path)
    if made != expected:
        told, usual = (" and ".join(repr(" ".join(row)) for row in two) for two in (made, expected))
        raise ValueError(
            f"{path}: post_processor makes the rows {told}, the package's tokenizer {usual}: open "
            "the encoder alone, and make ids with transformers"
        )


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


def _normalizer_steps(stored: dict[str, Any], path: Path) -> list[dict[str, Any]]:
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


def write(
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


def is_cased(vocabulary: Vocabulary) -> bool:
    """Whether the vocabulary holds ASCII capitals: an uncased one can have no use for them.

    Entries in brackets ([CLS], [unused1], the <S> of Google's Chinese vocabulary) do not count.
    """
    return any(
        _CAPITAL_LETTER.search(token)
        for token in vocabulary.tokens
        if not token.startswith("[") and not _IN_ANGLES.fullmatch(token)
    )


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
    return stored


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


def has_vocabulary(folder: Path) -> bool:
    """Whether a folder holds a file of any family's pieces or merges."""
    return any((folder / name).is_file() for name in (*VOCABULARY_FILES, MERGES))


def missing_vocabulary(folder: Path, sentence: str) -> Exception:
    """Returns the error of a missing file: of a folder without any tokenizer another one."""
    return ValueError(sentence) if has_vocabulary(folder) else FileNotFoundError(sentence)
