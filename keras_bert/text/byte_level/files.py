"""The files of byte-level BPE: vocab.json and merges.txt, or tokenizer.json alone."""

import dataclasses
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_bert.storage import files, hub
from keras_bert.text import tokenizer_config
from keras_bert.text.byte_level.byte_alphabet import BYTE_CHARACTERS
from keras_bert.text.corpus_tokenizer import TextsToIds
from keras_bert.text.framing import ROBERTA_FRAMING, ROBERTA_TOKENS, SpecialTokens
from keras_bert.text.tokenizer_config import (
    MERGES,
    ROLES,
    TOKENIZER_JSON,
    VOCAB_JSON,
    missing_vocabulary,
)
from keras_bert.text.vocabulary import BYTE_LEVEL_SPACE, Vocabulary


class ByteLevelSettings(NamedTuple):
    """How text is treated; arguments of `ByteLevelBpeTokenizer`."""

    add_prefix_space: bool = False
    keep_special_tokens: bool = False


@dataclasses.dataclass(frozen=True)
class ByteLevelBpeFiles:
    """What a `ByteLevelBpeTokenizer` is made of.

    Attributes:
        vocabulary: the pieces.
        merges: pairs of pieces in the order in which they are merged.
        settings: how text is treated.

    Raises:
        ValueError: a byte is no piece, there is no merge, or one makes something that is no piece.
    """

    vocabulary: Vocabulary
    merges: tuple[tuple[str, str], ...]
    settings: ByteLevelSettings = ByteLevelSettings()

    def __post_init__(self) -> None:
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
        lines = Path(merges).read_text(encoding="utf-8").split("\n")
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
        return cls(_vocabulary(_read_ids(vocab), str(vocab), special_tokens), tuple(pairs))

    @classmethod
    def read(cls, folder: str | os.PathLike) -> "ByteLevelBpeFiles":
        """Reads vocab.json and merges.txt, else tokenizer.json; and tokenizer_config.json.

        Raises:
            FileNotFoundError: the folder has no vocabulary.
            ValueError: a file is damaged or missing beside others, tokenizer.json holds another
                kind of tokenizer, or there are added tokens.
        """
        folder = hub.local_folder(folder)
        path = folder / tokenizer_config.FILE_NAME
        stored = tokenizer_config.read_json(path) if path.is_file() else {}
        special = tokenizer_config.special_tokens(folder, ROBERTA_TOKENS)
        tokenizer_config.check_added(
            folder, lambda token: _finds(str(token.get("content")), special)
        )
        missing = [name for name in (VOCAB_JSON, MERGES) if not (folder / name).is_file()]
        if not missing or not (folder / TOKENIZER_JSON).is_file():
            if missing:
                raise missing_vocabulary(
                    folder,
                    f"{folder} has no {' and no '.join(missing)}: byte-level BPE needs "
                    f"{VOCAB_JSON} and {MERGES}, or {TOKENIZER_JSON}; add what the model was "
                    "published with",
                )
            found = cls.of_files(folder / VOCAB_JSON, folder / MERGES, special)
            prefix = False
        else:
            found, prefix = _read_tokenizer_json(folder / TOKENIZER_JSON, special)
        values = {"add_prefix_space": stored.get("add_prefix_space", prefix)}
        values["keep_special_tokens"] = stored.get("keep_special_tokens", False)
        for name, value in values.items():
            if not isinstance(value, bool):
                raise ValueError(f"{path}: {name} is {value!r}; it must be true or false")
        return dataclasses.replace(found, settings=ByteLevelSettings(**values))

    def save(self, folder: str | os.PathLike) -> None:
        """Writes vocab.json, merges.txt and tokenizer_config.json."""
        folder = Path(folder)
        ids = {token: index for index, token in enumerate(self.vocabulary.tokens)}
        lines = ["#version: 0.2", *(" ".join(pair) for pair in self.merges)]
        special = self.vocabulary.special_tokens
        stored = {
            "tokenizer_class": "RobertaTokenizer",
            **self.settings._asdict(),
            **{name: getattr(special, name.removesuffix("_token")) for name in ROLES},
            "bos_token": special.cls,
            "eos_token": special.sep,
        }
        contents = {
            tokenizer_config.FILE_NAME: json.dumps(stored, indent=2) + "\n",
            MERGES: "\n".join(lines) + "\n",
            VOCAB_JSON: json.dumps(ids, ensure_ascii=False),
        }
        for name, content in contents.items():
            with files.atomic_file(folder / name) as temporary:
                temporary.write_text(content, encoding="utf-8")

    def file_names(self) -> tuple[str, ...]:
        """Names of the files that `save` writes."""
        return VOCAB_JSON, MERGES, tokenizer_config.FILE_NAME

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
        from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

        vocabulary = source.vocabulary
        ids = {token: index for index, token in enumerate(vocabulary.tokens)}
        self._tokenizer = Tokenizer(models.BPE(vocab=ids, merges=list(source.merges)))
        self._tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(
            add_prefix_space=source.settings.add_prefix_space
        )
        if source.settings.keep_special_tokens:
            mask = vocabulary.special_tokens.mask
            self._tokenizer.add_special_tokens(
                [
                    AddedToken(token, lstrip=token == mask, normalized=False)
                    for token in vocabulary.special_tokens
                ]
            )

    def __call__(self, texts: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        found = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        sizes = np.array([len(encoding) for encoding in found], np.int64)
        ids = np.fromiter((i for e in found for i in e.ids), np.int32, int(sizes.sum()))
        return ids, sizes


def _finds(token: str, special_tokens: SpecialTokens) -> bool:
    # fairseq fills its dictionaries up with madeupword0000 and so on, which no text holds.
    return token in special_tokens or token.startswith("madeupword")


def _read_ids(path: str | os.PathLike) -> dict[str, int]:
    return tokenizer_config.read_json(Path(path))


def _vocabulary(ids: dict[str, int], source: str, special_tokens: SpecialTokens) -> Vocabulary:
    tokens = sorted(ids, key=ids.__getitem__)
    for index, token in enumerate(tokens):
        if ids[token] != index:
            raise ValueError(
                f"{source}: {token!r} has the id {ids[token]}, but {index} is the next free one: "
                "ids must be 0, 1, 2, ... without gaps"
            )
    return Vocabulary(tokens, special_tokens, BYTE_LEVEL_SPACE, ROBERTA_FRAMING)


def _read_tokenizer_json(
    path: Path, special_tokens: SpecialTokens
) -> tuple[ByteLevelBpeFiles, bool]:
    """Reads a tokenizer.json of byte-level BPE; also whether a space is put before texts."""
    stored = tokenizer_config.read_json(path)
    model, splitting = stored.get("model") or {}, stored.get("pre_tokenizer") or {}
    # What would give other ids than GPT-2's way.
    others = {
        "model.type": (model.get("type"), ("BPE",)),
        "model.continuing_subword_prefix": (model.get("continuing_subword_prefix"), (None, "")),
        "model.end_of_word_suffix": (model.get("end_of_word_suffix"), (None, "")),
        "model.ignore_merges": (model.get("ignore_merges"), (None, False)),
        "pre_tokenizer.type": (splitting.get("type"), ("ByteLevel",)),
        "pre_tokenizer.use_regex": (splitting.get("use_regex"), (None, True)),
        "normalizer": (stored.get("normalizer"), (None,)),
        "post_processor.type": (
            (stored.get("post_processor") or {}).get("type"),
            (None, "ByteLevel", "RobertaProcessing"),
        ),
    }
    for name, (value, expected) in others.items():
        if value not in expected:
            raise ValueError(
                f"{path}: {name} is {value!r}, RoBERTa's is {expected[-1]!r}: give the folder of a "
                "tokenizer like RoBERTa's"
            )
    try:
        added = {token["content"]: token["id"] for token in stored.get("added_tokens") or ()}
        pairs = tuple(
            (str(first), str(second))
            for first, second in (
                p.split(" ") if isinstance(p, str) else p for p in model["merges"]
            )
        )
        ids = dict(model["vocab"]) | added
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is damaged: model.vocab, model.merges or an entry of added_tokens is missing "
            f"or of another form ({error!r}); fetch the file again"
        ) from None
    vocabulary = _vocabulary(ids, str(path), special_tokens)
    return ByteLevelBpeFiles(vocabulary, pairs), bool(splitting.get("add_prefix_space"))
