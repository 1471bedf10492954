"""The files of byte-level BPE: vocab.json and merges.txt, or tokenizer.json alone.

RoBERTa        vocab.json, merges.txt      pieces and merges; special tokens by their names
ModernBERT     tokenizer.json              also NFC, added tokens and how rows are made
EuroBERT       tokenizer.json              that of Llama 3: also where words begin
"""

import dataclasses
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from keras_bert.storage import files
from keras_bert.text import tokenizer_config
from keras_bert.text.byte_level.byte_alphabet import BYTE_CHARACTERS
from keras_bert.text.corpus_tokenizer import TextsToIds
from keras_bert.text.framing import (
    ENDED_LLAMA_FRAMING,
    EUROBERT_TOKENS,
    LLAMA_FRAMING,
    MODERNBERT_FRAMING,
    MODERNBERT_TOKENS,
    ROBERTA_FRAMING,
    ROBERTA_TOKENS,
    Framing,
    SpecialTokens,
)
from keras_bert.text.framing import rows as framing_rows
from keras_bert.text.tokenizer_config import (
    MERGES,
    ROLES,
    TOKENIZER_JSON,
    VOCAB_JSON,
    missing_vocabulary,
)
from keras_bert.text.vocabulary import BYTE_LEVEL_SPACE, Vocabulary

NFC = "NFC"
_TEMPLATE, _BYTES = "TemplateProcessing", "ByteLevel"
# Where words begin: by GPT-2's regular expression, or by that of Llama 3, as its files spell it.
WordPattern = Literal["gpt2", "llama3"]
LLAMA_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_LLAMA_SPLIT = {
    "type": "Split",
    "pattern": {"Regex": LLAMA_PATTERN},
    "behavior": "Isolated",
    "invert": False,
}
# Settings of added tokens that the package has for masks alone.
_FLAGS = ("single_word", "lstrip", "rstrip")


class ByteLevelSettings(NamedTuple):
    """How text is treated; arguments of `ByteLevelBpeTokenizer`."""

    add_prefix_space: bool = False
    keep_special_tokens: bool = False


class AddedToken(NamedTuple):
    """A token beside those of `SpecialTokens` that is found in texts and stays whole.

    Attributes:
        content: the token, as texts spell it.
        special: whether it is plain text unless special tokens are kept.
        normalized: whether it is found in the text that normalization leaves, else before.
    """

    content: str
    special: bool = False
    normalized: bool = True


@dataclasses.dataclass(frozen=True)
class ByteLevelBpeFiles:
    """What a `ByteLevelBpeTokenizer` is made of.

    Attributes:
        vocabulary: the pieces.
        merges: pairs of pieces in the order in which they are merged.
        settings: how text is treated.
        added_tokens: tokens that are found in texts, beside the special tokens of the vocabulary.
        normalization: "NFC", or None for texts as they are.
        word_pattern: "gpt2" or "llama3": the regular expression by which words begin.
        ignore_merges: whether a word that is a piece stays whole, also where no merges make it.
        mask_strips_left: whether the mask takes the white space before it along, where it is found.

    Raises:
        ValueError: a byte is no piece, there is no merge, one makes something that is no piece, or
            an added token is none; or the normalization or the pattern of words is another, or
            Llama 3's stands beside a prefix space.
    """

    vocabulary: Vocabulary
    merges: tuple[tuple[str, str], ...]
    settings: ByteLevelSettings = ByteLevelSettings()
    added_tokens: tuple[AddedToken, ...] = ()
    normalization: str | None = None
    word_pattern: WordPattern = "gpt2"
    ignore_merges: bool = False
    mask_strips_left: bool = True

    def __post_init__(self) -> None:
        if self.word_pattern not in get_args(WordPattern):
            raise ValueError(
                f"word_pattern is {self.word_pattern!r}: choose one of "
                f"{', '.join(get_args(WordPattern))}"
            )
        if self.word_pattern != "gpt2" and self.settings.add_prefix_space:
            raise ValueError(
                f"add_prefix_space is True, but word_pattern is {self.word_pattern!r}, which knows "
                "no space before texts: leave it out"
            )
        if self.normalization not in (None, NFC):
            raise ValueError(f"normalization is {self.normalization!r}: it must be {NFC!r} or None")
        for added in self.added_tokens:
            if not added.content or added.content not in self.vocabulary:
                raise ValueError(
                    f"the vocabulary has no piece for the added token {added.content!r}: add it"
                )
        missing = [
            b for b, character in enumerate(BYTE_CHARACTERS) if character not in self.vocabulary
        ]
        if missing:
            raise ValueError(
                f"the vocabulary has no piece for the byte {missing[0]:#04x} and "
                f"{len(missing) - 1} others: give one of byte-level BPE, which has all 256"
            )
        if not self.merges:
            raise ValueError("there is no merge: give the merges.txt of the vocabulary")
        for line, (first, second) in enumerate(self.merges, start=1):
            for token in (first, second, first + second):
                if token not in self.vocabulary:
                    raise ValueError(
                        f"merge {line} is {first!r} {second!r}, but the vocabulary has no "
                        f"{token!r}: merges and vocabulary must be those of one model"
                    )

    @classmethod
    def of_files(
        cls,
        vocab: str | os.PathLike,
        merges: str | os.PathLike,
        special_tokens: SpecialTokens = ROBERTA_TOKENS,
    ) -> "ByteLevelBpeFiles":
        """Reads a vocab.json and a merges.txt.

        Raises:
            FileNotFoundError: one of them does not exist.
            ValueError: one of them is damaged.
        """
        for path in (Path(vocab), Path(merges)):
            if not path.is_file():
                raise FileNotFoundError(
                    f"there is no {path}: byte-level BPE needs {VOCAB_JSON} and {MERGES}"
                )
        pairs = []
        try:
            lines = Path(merges).read_text(encoding="utf-8-sig").split("\n")
        except UnicodeDecodeError as error:
            raise ValueError(f"{merges} is not UTF-8 ({error}): fetch the file again") from None
        for number, line in enumerate(lines, start=1):
            line = line.removesuffix("\r")
            if not line or (number == 1 and line.startswith("#version")):
                continue
            pair = line.split(" ")
            if len(pair) != 2:
                raise ValueError(
                    f"{merges}, line {number} is {line!r}: expected two pieces with a space between"
                )
            pairs.append((pair[0], pair[1]))
        ids = tokenizer_config.read_json(Path(vocab))
        return cls(_vocabulary(ids, str(vocab), special_tokens, ROBERTA_FRAMING), tuple(pairs))

    @classmethod
    def read(cls, folder: str | os.PathLike) -> "ByteLevelBpeFiles":
        """Reads vocab.json and merges.txt, or tokenizer.json; and tokenizer_config.json.

        tokenizer.json counts where it says what the other two cannot.

        Raises:
            FileNotFoundError: the folder has no vocabulary.
            ValueError: a file is damaged or missing beside others, tokenizer.json holds another
                kind of tokenizer, or there are added tokens that the package does not find.
        """
        folder = tokenizer_config.local_folder(folder)
        path = folder / tokenizer_config.FILE_NAME
        stored = tokenizer_config.read_json(path) if path.is_file() else {}
        as_json = folder / TOKENIZER_JSON
        told = tokenizer_config.read_json(as_json) if as_json.is_file() else {}
        special = tokenizer_config.special_tokens(folder, _default_tokens(told))
        added = _added_tokens(told, special)
        missing = [name for name in (VOCAB_JSON, MERGES) if not (folder / name).is_file()]
        says_more = bool(added) or told.get("normalizer") or _post_processor(told) == _TEMPLATE
        says_more = says_more or _word_pattern(told) != "gpt2" or _ignores_merges(told)
        use_json = as_json.is_file() and (bool(missing) or says_more)
        contents = {token.content for token in added} if use_json else set()
        tokenizer_config.check_added(folder, lambda token: _finds(token, special, contents))
        if use_json:
            found, prefix = _read_tokenizer_json(as_json, told, special, added)
        elif missing:
            raise missing_vocabulary(
                folder,
                f"{folder} has no {' and no '.join(missing)}: byte-level BPE needs "
                f"{VOCAB_JSON} and {MERGES}, or {TOKENIZER_JSON}; add what the model was "
                "published with",
            )
        else:
            found = cls.of_files(folder / VOCAB_JSON, folder / MERGES, special)
            prefix = False
        values = {"add_prefix_space": stored.get("add_prefix_space", prefix)}
        values["keep_special_tokens"] = stored.get("keep_special_tokens", False)
        for name, value in values.items():
            if not isinstance(value, bool):
                raise ValueError(f"{path}: {name} is {value!r}; it must be true or false")
        return dataclasses.replace(found, settings=ByteLevelSettings(**values))

    def save(self, folder: str | os.PathLike) -> None:
        """Writes vocab.json and merges.txt, or tokenizer.json; and tokenizer_config.json."""
        folder = Path(folder)
        special = self.vocabulary.special_tokens
        stored: dict[str, Any] = {
            "tokenizer_class": "RobertaTokenizer",
            **self.settings._asdict(),
            **{name: getattr(special, name.removesuffix("_token")) for name in ROLES},
        }
        if self._needs_json:
            stored["tokenizer_class"] = tokenizer_config.GENERAL_CLASSES[1]
            stored["model_input_names"] = ["input_ids", "attention_mask"]
            if special.unk == special.sep:  # nothing is unknown
                del stored["unk_token"]
                stored |= {"bos_token": special.cls, "eos_token": special.sep}
            contents = {TOKENIZER_JSON: json.dumps(self.tokenizer_json(), ensure_ascii=False)}
        else:
            # Of a mask that is a mere string transformers 5 leaves the blank before it in the text.
            mask = {
                "__type": "AddedToken",
                **AddedToken(special.mask, special=True, normalized=False)._asdict(),
                **dict.fromkeys(_FLAGS, False),
                "lstrip": True,
            }
            stored |= {"bos_token": special.cls, "eos_token": special.sep, "mask_token": mask}
            ids = {token: index for index, token in enumerate(self.vocabulary.tokens)}
            lines = ["#version: 0.2", *(" ".join(pair) for pair in self.merges)]
            contents = {
                MERGES: "\n".join(lines) + "\n",
                VOCAB_JSON: json.dumps(ids, ensure_ascii=False),
            }
        contents = {tokenizer_config.FILE_NAME: json.dumps(stored, indent=2) + "\n", **contents}
        for name, content in contents.items():
            with files.atomic_file(folder / name) as temporary:
                temporary.write_text(content, encoding="utf-8")

    def file_names(self) -> tuple[str, ...]:
        """Names of the files that `save` writes."""
        pieces = (TOKENIZER_JSON,) if self._needs_json else (VOCAB_JSON, MERGES)
        return *pieces, tokenizer_config.FILE_NAME

    @property
    def _needs_json(self) -> bool:
        """Whether vocab.json and merges.txt do not say all, as they do of a RoBERTa."""
        is_robertas = self.vocabulary.framing == ROBERTA_FRAMING
        is_gpt2s = self.word_pattern == "gpt2" and not self.ignore_merges
        has_more = bool(self.added_tokens) or self.normalization is not None
        return not (is_robertas and is_gpt2s and self.mask_strips_left) or has_more

    def tokenizer_json(self, keep_special_tokens: bool = True) -> dict[str, Any]:
        """Returns what a tokenizer.json holds.

        Args:
            keep_special_tokens: whether the Rust library shall find special tokens in texts, as
                those of Hugging Face do.
        """
        vocabulary, prefix = self.vocabulary, self.settings.add_prefix_space
        special = vocabulary.special_tokens
        added = [
            *(
                (AddedToken(t, True, False), t == special.mask and self.mask_strips_left)
                for t in dict.fromkeys(special)
            ),
            *((token, False) for token in self.added_tokens),
        ]
        ids = {token: index for index, token in enumerate(vocabulary.tokens)}
        added_tokens = [
            {
                "id": ids[token.content],
                **token._asdict(),
                "single_word": False,
                "lstrip": strips_left,
                "rstrip": False,
            }
            for token, strips_left in added
            if keep_special_tokens or not token.special
        ]
        splitting = {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True}
        words = splitting | {"use_regex": True}
        if self.word_pattern == "llama3":
            words = {
                "type": "Sequence",
                "pretokenizers": [_LLAMA_SPLIT, splitting | {"use_regex": False}],
            }
        single, pair = framing_rows(vocabulary.framing, special)
        return {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": sorted(added_tokens, key=lambda token: token["id"]),
            "normalizer": {"type": self.normalization} if self.normalization else None,
            "pre_tokenizer": words,
            "post_processor": {
                "type": _TEMPLATE,
                "single": [_template_part(name, special) for name in single],
                "pair": [_template_part(name, special) for name in pair],
                "special_tokens": {
                    token: {"id": token, "ids": [ids[token]], "tokens": [token]}
                    for token in dict.fromkeys((special.cls, special.sep))
                    if token in pair
                },
            },
            "decoder": splitting | {"use_regex": True},
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": None,
                "continuing_subword_prefix": None,
                "end_of_word_suffix": None,
                "fuse_unk": False,
                "byte_fallback": False,
                "ignore_merges": self.ignore_merges,
                "vocab": ids,
                "merges": [list(pair) for pair in self.merges],
            },
        }

    @property
    def lowercase(self) -> bool:
        """Whether text is lower-cased: never."""
        return False

    def texts_to_ids(self) -> TextsToIds:
        """Returns a function from texts to ids, which calls the Rust library."""
        return _RustByteLevelBpe(self)


class _RustByteLevelBpe:
    """The ids of `ByteLevelBpeTokenizer` through the `tokenizers` library."""

    def __init__(self, source: ByteLevelBpeFiles):
        from tokenizers import Tokenizer

        stored = source.tokenizer_json(source.settings.keep_special_tokens)
        self._tokenizer = Tokenizer.from_str(json.dumps(stored))

    def __call__(self, texts: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        found = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        sizes = np.array([len(encoding) for encoding in found], np.int64)
        ids = np.fromiter((i for e in found for i in e.ids), np.int32, int(sizes.sum()))
        return ids, sizes


def _template_part(name: str, special: SpecialTokens) -> dict[str, Any]:
    kind = "SpecialToken" if name in special else "Sequence"
    return {kind: {"id": name, "type_id": 0}}


def _row_step(stored: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the step of a tokenizer.json that makes rows; one for offsets may stand before it."""
    step = stored.get("post_processor") or {}
    steps = step.get("processors")
    if step.get("type") != "Sequence" or not isinstance(steps, list):
        return step
    making = [one for one in steps if not (isinstance(one, Mapping) and one.get("type") == _BYTES)]
    return making[0] if len(making) == 1 and isinstance(making[0], Mapping) else step


def _post_processor(stored: Mapping[str, Any]) -> str | None:
    return _row_step(stored).get("type")


def _splitting(stored: Mapping[str, Any]) -> tuple[WordPattern, Mapping[str, Any]]:
    """Returns the pattern of words in a tokenizer.json, and the step that goes on with bytes."""
    step = stored.get("pre_tokenizer") or {}
    steps = step.get("pretokenizers")
    if step.get("type") == "Sequence" and isinstance(steps, list) and len(steps) == 2:
        split, last = steps
        plain = isinstance(last, Mapping) and last.get("use_regex") is False
        if split == _LLAMA_SPLIT and plain:
            return "llama3", {**last, "use_regex": True}
    return "gpt2", step


def _word_pattern(stored: Mapping[str, Any]) -> WordPattern:
    return _splitting(stored)[0]


def _ignores_merges(stored: Mapping[str, Any]) -> bool:
    return (stored.get("model") or {}).get("ignore_merges") is True


def _default_tokens(stored: Mapping[str, Any]) -> SpecialTokens:
    """Returns the special tokens that a tokenizer.json has where no file names them by role."""
    added = {token.get("content") for token in stored.get("added_tokens") or ()}
    known = {*((stored.get("model") or {}).get("vocab") or ()), *added}
    framed = _row_step(stored).get("special_tokens") or known
    for tokens in (ROBERTA_TOKENS, MODERNBERT_TOKENS, EUROBERT_TOKENS):
        if known.issuperset(tokens) and tokens.cls in framed:
            return tokens
    return ROBERTA_TOKENS


def _is_filler(content: str) -> bool:
    # fairseq fills its dictionaries up with madeupword0000 and so on, which no text holds.
    return content.startswith("madeupword")


def _added_tokens(stored: Mapping[str, Any], special: SpecialTokens) -> tuple[AddedToken, ...]:
    """Returns the tokens that a tokenizer.json adds to the special ones, in the order of ids."""
    tokens = sorted(stored.get("added_tokens") or (), key=lambda token: token.get("id", 0))
    return tuple(
        AddedToken(
            content,
            bool(token.get("special")),
            bool(token.get("normalized", not token.get("special"))),
        )
        for token in tokens
        if (content := token.get("content")) and content not in special and not _is_filler(content)
    )


def _finds(token: Mapping[str, Any], special: SpecialTokens, added: Iterable[str]) -> bool:
    """Whether the tokenizer finds an added token as Hugging Face's do, or no text holds it."""
    content = str(token.get("content"))
    if content in special or _is_filler(content):
        return True
    return content in added and not any(token.get(name) for name in _FLAGS)


def _vocabulary(
    ids: dict[str, int], source: str, special_tokens: SpecialTokens, framing: Framing
) -> Vocabulary:
    others = [token for token, index in ids.items() if type(index) is not int]
    if others:
        raise ValueError(
            f"{source}: {others[0]!r} has the id {ids[others[0]]!r}: ids must be 0, 1, 2, ..."
        )
    tokens = sorted(ids, key=ids.__getitem__)
    for index, token in enumerate(tokens):
        if ids[token] != index:
            raise ValueError(
                f"{source}: {token!r} has the id {ids[token]}, but {index} is the next free one: "
                "ids must be 0, 1, 2, ... without gaps"
            )
    return Vocabulary(tokens, special_tokens, BYTE_LEVEL_SPACE, framing)


def _framing(stored: Mapping[str, Any], path: Path, special: SpecialTokens) -> Framing:
    """Returns how a tokenizer.json makes rows: by a template, or else as RoBERTa.

    Raises:
        ValueError: a template makes other rows than RoBERTa's, ModernBERT's and Llama 3's.
    """
    if _post_processor(stored) != _TEMPLATE:
        if _word_pattern(stored) != "gpt2":
            raise ValueError(
                f"{path}: post_processor has no template, so that it puts nothing around texts: "
                "give the file of a tokenizer whose rows begin with a token, as those of EuroBERT"
            )
        return ROBERTA_FRAMING
    rows = tokenizer_config.rows_of(_row_step(stored), path)
    for framing in (MODERNBERT_FRAMING, ROBERTA_FRAMING, LLAMA_FRAMING, ENDED_LLAMA_FRAMING):
        if rows == framing_rows(framing, special):
            return framing
    made, expected = (
        " and ".join(repr(" ".join(row)) for row in two)
        for two in (rows, framing_rows(MODERNBERT_FRAMING, special))
    )
    raise ValueError(
        f"{path}: post_processor makes the rows {made}, ModernBERT's are {expected}: give the "
        "folder of a tokenizer like ModernBERT's or RoBERTa's"
    )


def _read_tokenizer_json(
    path: Path, stored: dict[str, Any], special: SpecialTokens, added: tuple[AddedToken, ...]
) -> tuple[ByteLevelBpeFiles, bool]:
    """Reads a tokenizer.json of byte-level BPE; also whether a space is put before texts."""
    model, (pattern, splitting) = stored.get("model") or {}, _splitting(stored)
    # What would give other ids than GPT-2's way.
    others = {
        "model.type": (model.get("type"), ("BPE",)),
        "model.continuing_subword_prefix": (model.get("continuing_subword_prefix"), (None, "")),
        "model.end_of_word_suffix": (model.get("end_of_word_suffix"), (None, "")),
        "model.ignore_merges": (model.get("ignore_merges"), (None, True, False)),
        "pre_tokenizer.type": (splitting.get("type"), ("ByteLevel",)),
        "pre_tokenizer.use_regex": (splitting.get("use_regex"), (None, True)),
        "normalizer": (stored.get("normalizer"), (None, {"type": NFC})),
        "post_processor.type": (
            _post_processor(stored),
            (None, "ByteLevel", "RobertaProcessing", _TEMPLATE),
        ),
    }
    for name, (value, expected) in others.items():
        if value not in expected:
            raise ValueError(
                f"{path}: {name} is {value!r}, but that of RoBERTa or ModernBERT is "
                f"{expected[-1]!r}: give the folder of a tokenizer like theirs"
            )
    normalization = (stored.get("normalizer") or {}).get("type")
    try:
        ids = dict(model["vocab"]) | {
            t["content"]: t["id"] for t in stored.get("added_tokens") or ()
        }
        pairs = tuple(
            (str(first), str(second))
            for first, second in (
                p.split(" ") if isinstance(p, str) else p for p in model["merges"]
            )
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is damaged: model.vocab, model.merges or an entry of added_tokens is missing "
            f"or of another form ({error!r}); fetch the file again"
        ) from None
    for token in stored.get("added_tokens") or ():
        if normalization and token["content"] in special and token.get("normalized"):
            raise ValueError(
                f"{path}: the special token {token['content']!r} is looked for after {NFC}, where "
                "the package looks for it before: set its 'normalized' to false"
            )
    masks = [t for t in stored.get("added_tokens") or () if t["content"] == special.mask]
    vocabulary = _vocabulary(ids, str(path), special, _framing(stored, path, special))
    found = ByteLevelBpeFiles(
        vocabulary,
        pairs,
        added_tokens=added,
        normalization=normalization,
        word_pattern=pattern,
        ignore_merges=_ignores_merges(stored),
        mask_strips_left=all(token.get("lstrip") is not False for token in masks),
    )
    return found, bool(splitting.get("add_prefix_space"))
