"""The files of a tokenizer, by family: what data creation and every tokenizer start from.

    family             files                                       tokenizer_class
    WordPiece          vocab.txt                                   Bert*, DistilBert*, Electra*
    byte-level BPE     vocab.json and merges.txt                   Roberta*, GPT2*
    SentencePiece      spiece.model                                Albert*
                       sentencepiece.bpe.model                     XLMRoberta*

tokenizer.json, which transformers 5 writes alone, stands for the first two rows. No TensorFlow
here: the workers of data creation read a folder and turn texts into ids with the library that each
family has in C++ or Rust, or with our own WordPiece; the graphs are made of the same values.
"""

import dataclasses
import functools
import json
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from keras_bert.storage import files, hub
from keras_bert.text import tokenizer_config
from keras_bert.text.byte_level.byte_alphabet import BYTE_CHARACTERS
from keras_bert.text.corpus_tokenizer import CorpusTokenizer
from keras_bert.text.framing import (
    ALBERT_TOKENS,
    BERT_FRAMING,
    ROBERTA_FRAMING,
    ROBERTA_TOKENS,
    SpecialTokens,
)
from keras_bert.text.sentencepiece.model import read_pieces
from keras_bert.text.sentencepiece.preparation import prepare_text
from keras_bert.text.vocabulary import (
    BYTE_LEVEL_SPACE,
    FILE_NAME,
    SENTENCEPIECE_SPACE,
    Vocabulary,
)

VOCAB_JSON, MERGES = "vocab.json", "merges.txt"
TOKENIZER_JSON = "tokenizer.json"
# Of each scheme of SentencePiece.
_MODEL_FILES = {"albert": "spiece.model", "xlm_roberta": "sentencepiece.bpe.model"}
MODEL_FILES = tuple(_MODEL_FILES.values())
# Every file that holds pieces: a folder with none of them has no tokenizer.
VOCABULARY_FILES = (FILE_NAME, VOCAB_JSON, TOKENIZER_JSON, *MODEL_FILES)
TOKENIZER_FILES = (*VOCABULARY_FILES, MERGES, tokenizer_config.FILE_NAME)
# Unicode's, which the graph strips before a mask; `\s` would add U+001C to U+001F.
_WHITE_SPACE = "[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
_ROLES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")


class TextsToIds(Protocol):
    """Turns texts into ids, many at once and without TensorFlow."""

    def __call__(self, texts: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the pieces of all texts, int32 [pieces], and how many each has, int64 [N]."""


class ByteLevelSettings(NamedTuple):
    """How text is treated; arguments of `ByteLevelBpeTokenizer`."""

    add_prefix_space: bool = False
    keep_special_tokens: bool = False


class SentencePieceSettings(NamedTuple):
    """How text is treated; arguments of `SentencePieceTokenizer`."""

    scheme: str = "albert"
    lowercase: bool = True
    keep_accents: bool = False
    keep_special_tokens: bool = False


@dataclasses.dataclass(frozen=True)
class WordPieceFiles:
    """What a `BertTokenizer` is made of.

    Attributes:
        vocabulary: the pieces.
        settings: how text is treated.
    """

    vocabulary: Vocabulary
    settings: tokenizer_config.Settings

    @classmethod
    def read(cls, folder: str | os.PathLike) -> "WordPieceFiles":
        """Reads vocab.txt or tokenizer.json, and tokenizer_config.json; see `tokenizer_config`."""
        return cls(*tokenizer_config.read(folder))

    def save(self, folder: str | os.PathLike) -> None:
        """Writes vocab.txt and tokenizer_config.json."""
        # Here and below the vocabulary comes last: a folder that has it has the others.
        tokenizer_config.write(folder, self.settings)
        self.vocabulary.save(Path(folder) / FILE_NAME)

    def file_names(self) -> tuple[str, ...]:
        """Names of the files that `save` writes."""
        return FILE_NAME, tokenizer_config.FILE_NAME

    @property
    def lowercase(self) -> bool:
        """Whether text is lower-cased."""
        return self.settings.lowercase

    def texts_to_ids(self) -> TextsToIds:
        """Returns a function from texts to ids."""
        return CorpusTokenizer(self.vocabulary, self.settings)


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
        special = _special_tokens(folder, stored)
        _check_added(path, (stored.get("added_tokens_decoder") or {}).values(), special)
        missing = [name for name in (VOCAB_JSON, MERGES) if not (folder / name).is_file()]
        if not missing or not (folder / TOKENIZER_JSON).is_file():
            if missing:
                raise _missing(
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
            **{name: getattr(special, name.removesuffix("_token")) for name in _ROLES},
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


@dataclasses.dataclass(frozen=True)
class SentencePieceFiles:
    """What a `SentencePieceTokenizer` is made of.

    Attributes:
        model: content of the model file.
        settings: how text is treated.

    Raises:
        ValueError: the bytes are no model, it is not one of the scheme, or there is no such scheme.
    """

    model: bytes = dataclasses.field(repr=False)
    settings: SentencePieceSettings

    def __post_init__(self) -> None:
        if self.settings.scheme not in _MODEL_FILES:
            raise ValueError(
                f"scheme is {self.settings.scheme!r}: it must be one of {', '.join(_MODEL_FILES)}"
            )
        pieces = read_pieces(self.model)
        if self.settings.scheme == "xlm_roberta" and pieces[:3] != ["<unk>", "<s>", "</s>"]:
            raise ValueError(
                f"the SentencePiece model begins with {', '.join(pieces[:3])}; one of XLM-R's kind "
                "with <unk>, <s>, </s>: train it so, or make it an ALBERT's"
            )

    @functools.cached_property
    def vocabulary(self) -> Vocabulary:
        """The pieces and their ids, special tokens among them."""
        pieces = read_pieces(self.model)
        if self.settings.scheme == "albert":
            return Vocabulary(pieces, ALBERT_TOKENS, SENTENCEPIECE_SPACE, BERT_FRAMING)
        # fairseq's order: its own four first, pieces one higher, the mask last.
        tokens = ["<s>", "<pad>", "</s>", "<unk>", *pieces[3:], "<mask>"]
        return Vocabulary(tokens, ROBERTA_TOKENS, SENTENCEPIECE_SPACE, ROBERTA_FRAMING)

    def ids_of_pieces(self) -> list[int]:
        """Returns our id of each id of the model."""
        count = len(read_pieces(self.model))
        if self.settings.scheme == "albert":
            return list(range(count))
        return [3, 0, 2, *range(4, count + 1)]  # <unk>, <s>, </s>, then pieces one higher

    def pieces_of_ids(self) -> list[int]:
        """Returns the model's id of each of our ids; that of <unk> for what it does not have."""
        found = [0] * len(self.vocabulary)
        for piece, index in enumerate(self.ids_of_pieces()):
            found[index] = piece
        return found

    @classmethod
    def read(cls, folder: str | os.PathLike, file: str | None = None) -> "SentencePieceFiles":
        """Reads spiece.model or sentencepiece.bpe.model, and tokenizer_config.json.

        Args:
            folder: the folder, or `hf://org/name` for one on the Hugging Face Hub.
            file: name of the model file. By default the one of the `tokenizer_class`, or the only
                one there is.

        Raises:
            FileNotFoundError: the folder has no such file.
            ValueError: a file is damaged, both are there and no class says which is meant, or the
                tokenizer is CamemBERT's.
        """
        folder = hub.local_folder(folder)
        path = folder / tokenizer_config.FILE_NAME
        stored = tokenizer_config.read_json(path) if path.is_file() else {}
        name, config = str(stored.get("tokenizer_class")), folder / "config.json"
        scheme = _SCHEMES.get(name.removesuffix("Fast"))
        if scheme is None:
            settings = tokenizer_config.read_json(config) if config.is_file() else {}
            if name.startswith("Camembert") or settings.get("model_type") == "camembert":
                raise ValueError(
                    f"{folder} holds the tokenizer of a CamemBERT, which numbers pieces in a way "
                    "that the package does not have: open its encoder alone, and make ids with "
                    "transformers"
                )
        found = [name for name, model in _MODEL_FILES.items() if (folder / model).is_file()]
        if file is not None:
            found = [name for name in found if _MODEL_FILES[name] == file]
        if scheme in found:
            found = [scheme]
        elif not found or scheme is not None:
            needed = [_MODEL_FILES[scheme]] if scheme is not None else MODEL_FILES
            raise _missing(
                folder,
                f"{folder} has no {' and no '.join(needed)}, which holds SentencePiece's "
                "vocabulary; transformers 5 leaves it out where it writes tokenizer.json: add "
                "the file that the model was published with",
            )
        elif len(found) > 1:
            raise ValueError(
                f"{folder} has {' and '.join(MODEL_FILES)}, and no tokenizer_class in "
                f"{tokenizer_config.FILE_NAME} says which is meant: remove the other one"
            )
        scheme = found[0]
        # XLM-R's tokenizer in transformers knows neither of these keys; ours writes and reads them.
        knows_keys = scheme == "albert" or "keep_special_tokens" in stored
        known = stored if knows_keys else {}
        values = {
            "lowercase": known.get("do_lower_case", scheme == "albert"),
            "keep_accents": known.get("keep_accents", scheme != "albert"),
            "keep_special_tokens": stored.get("keep_special_tokens", False),
        }
        for name, value in values.items():
            if not isinstance(value, bool):
                raise ValueError(f"{path}: {name} is {value!r}; it must be true or false")
        model = (folder / _MODEL_FILES[scheme]).read_bytes()
        return cls(model, SentencePieceSettings(scheme, **values))

    def save(self, folder: str | os.PathLike) -> None:
        """Writes the model file and tokenizer_config.json."""
        special, settings = self.vocabulary.special_tokens, self.settings
        is_albert = settings.scheme == "albert"
        stored = {
            "tokenizer_class": "AlbertTokenizer" if is_albert else "XLMRobertaTokenizer",
            "do_lower_case": settings.lowercase,
            "keep_accents": settings.keep_accents,
            "keep_special_tokens": settings.keep_special_tokens,
            **{name: getattr(special, name.removesuffix("_token")) for name in _ROLES},
        }
        with files.atomic_file(Path(folder) / tokenizer_config.FILE_NAME) as temporary:
            temporary.write_text(json.dumps(stored, indent=2) + "\n", encoding="utf-8")
        with files.atomic_file(Path(folder) / _MODEL_FILES[settings.scheme]) as temporary:
            temporary.write_bytes(self.model)

    def file_names(self) -> tuple[str, ...]:
        """Names of the files that `save` writes."""
        return _MODEL_FILES[self.settings.scheme], tokenizer_config.FILE_NAME

    @property
    def lowercase(self) -> bool:
        """Whether text is lower-cased."""
        return self.settings.lowercase

    def texts_to_ids(self) -> TextsToIds:
        """Returns a function from texts to ids, which calls the `sentencepiece` library.

        Raises:
            ValueError: the library is not installed.
        """
        return _SentencePieceLibrary(self)


class _SentencePieceLibrary:
    """The ids of `SentencePieceTokenizer` through the `sentencepiece` library."""

    def __init__(self, source: SentencePieceFiles):
        self._processor = load_library().SentencePieceProcessor(model_proto=source.model)
        self._ids = np.array(source.ids_of_pieces(), np.int32)
        self._settings = source.settings
        self._special = source.vocabulary.special_tokens
        self._special_ids = dict(zip(self._special, source.vocabulary.special_ids, strict=True))
        names = "|".join(map(re.escape, sorted(self._special, key=len, reverse=True)))
        mask = re.escape(self._special.mask)
        self._spelled = re.compile(rf"({_WHITE_SPACE}*{mask}|{names})")

    def __call__(self, texts: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        found = [self._encoded(text) for text in texts]
        sizes = np.array([len(ids) for ids in found], np.int64)
        return np.concatenate([np.zeros(0, np.int32), *found]), sizes

    def _encoded(self, text: str) -> np.ndarray:
        parts = self._spelled.split(text) if self._settings.keep_special_tokens else [text]
        ids = [np.zeros(0, np.int32)]
        for index, part in enumerate(parts):
            if index % 2:
                ids.append(np.array([self._special_ids[part.strip()]], np.int32))
            elif part:
                prepared = prepare_text(part, *self._settings[:3])
                ids.append(self._ids[np.array(self._processor.encode(prepared), np.int64)])
        return np.concatenate(ids)


def load_library() -> Any:
    """Returns the module `sentencepiece`.

    Raises:
        ValueError: it is not installed.
    """
    try:
        import sentencepiece
    except ImportError:
        raise ValueError(
            "this needs the package sentencepiece: pip install sentencepiece"
        ) from None
    return sentencepiece


TokenizerFiles: TypeAlias = WordPieceFiles | ByteLevelBpeFiles | SentencePieceFiles
Family = Literal["wordpiece", "byte_level_bpe", "sentencepiece"]

_READERS: dict[Family, Callable[[str | os.PathLike], TokenizerFiles]] = {
    "wordpiece": WordPieceFiles.read,
    "byte_level_bpe": ByteLevelBpeFiles.read,
    "sentencepiece": SentencePieceFiles.read,
}
_FAMILIES_OF_FILES: dict[str, Family] = {
    FILE_NAME: "wordpiece",
    VOCAB_JSON: "byte_level_bpe",
    MERGES: "byte_level_bpe",
    TOKENIZER_JSON: "wordpiece",  # or what it holds
    **dict.fromkeys(MODEL_FILES, "sentencepiece"),
}
_GENERAL_CLASSES = ("", "None", "PreTrainedTokenizerFast", "TokenizersBackend")
_SCHEMES = {"AlbertTokenizer": "albert", "XLMRobertaTokenizer": "xlm_roberta"}
# Names in `tokenizer_class`, which may have "Fast" behind them.
_CLASSES: dict[str, Family] = {
    "XLMRobertaTokenizer": "sentencepiece",
    "AlbertTokenizer": "sentencepiece",
    "RobertaTokenizer": "byte_level_bpe",
    "GPT2Tokenizer": "byte_level_bpe",
    "BertTokenizer": "wordpiece",
    "DistilBertTokenizer": "wordpiece",
    "ElectraTokenizer": "wordpiece",
}
# How tokenizers begin that are others in spite of a vocab.txt, such as BertJapaneseTokenizer.
_ALIKE = tuple(name.removesuffix("Tokenizer") for name in _CLASSES)


def family_of(folder: str | os.PathLike) -> Family:
    """Tells the family of a folder's tokenizer: "wordpiece", "byte_level_bpe" or "sentencepiece".

    `tokenizer_class` of tokenizer_config.json decides; where it is missing, general or unknown, the
    files do.

    Raises:
        ValueError: the class is unknown, and the files do not say what becomes of a text; or it is
            WordPiece, and there are files of other families alone.
    """
    folder = hub.local_folder(folder)
    family = _family_of_class(folder, (folder / FILE_NAME).is_file())
    if family == "wordpiece" and _is_other(folder):
        raise ValueError(
            f"{folder / tokenizer_config.FILE_NAME} names a WordPiece tokenizer, but there is "
            f"neither {FILE_NAME} nor {TOKENIZER_JSON}: add what the model was published with"
        )
    if family is not None:
        return family
    if (folder / FILE_NAME).is_file():
        return "wordpiece"
    if (folder / MERGES).is_file():
        return "byte_level_bpe"
    if any((folder / file).is_file() for file in MODEL_FILES):
        return "sentencepiece"
    if (folder / TOKENIZER_JSON).is_file():
        model = tokenizer_config.read_json(folder / TOKENIZER_JSON).get("model") or {}
        if model.get("type") == "BPE":
            return "byte_level_bpe"
    elif (folder / VOCAB_JSON).is_file():
        return "byte_level_bpe"  # whose reader tells that the merges are missing
    return "wordpiece"  # whose reader tells what is missing


def read_tokenizer_files(folder: str | os.PathLike) -> TokenizerFiles:
    """Reads the tokenizer of a model folder, of whichever family.

    Args:
        folder: the folder, or `hf://org/name` for one on the Hugging Face Hub.

    Raises:
        FileNotFoundError: it has no vocabulary.
        ValueError: a file is damaged, or no tokenizer of the package is meant.
    """
    return _READERS[family_of(folder)](folder)


def read_named_file(path: str | os.PathLike) -> TokenizerFiles:
    """Reads the tokenizer that a file belongs to: its name says the family, not what is beside it.

    Args:
        path: a vocab.txt, vocab.json, merges.txt, tokenizer.json, spiece.model or
            sentencepiece.bpe.model.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a file is damaged, or tokenizer_config.json beside it is of another tokenizer.
    """
    path = Path(path)
    folder, family = path.parent, _FAMILIES_OF_FILES[path.name]
    if not path.is_file():
        raise FileNotFoundError(f"there is no vocabulary at {path}: check the path")
    if path.name == TOKENIZER_JSON:
        model = tokenizer_config.read_json(path).get("model") or {}
        family = "byte_level_bpe" if model.get("type") == "BPE" else "wordpiece"
    named = _family_of_class(folder, family == "wordpiece")
    if named not in (None, family):
        raise ValueError(
            f"{path} is no file of the tokenizer that {tokenizer_config.FILE_NAME} beside it "
            "names: give each tokenizer a folder of its own"
        )
    if path.name in MODEL_FILES:
        return SentencePieceFiles.read(folder, path.name)
    return _READERS[family](folder)


def _family_of_class(folder: Path, has_pieces: bool) -> Family | None:
    """Returns the family that a folder's `tokenizer_class` names, None where it names none.

    Args:
        folder: the folder.
        has_pieces: whether there are word pieces, which classes of many names read as BERT's does.

    Raises:
        ValueError: it names a tokenizer that the package does not have.
    """
    path = folder / tokenizer_config.FILE_NAME
    name = str(tokenizer_config.read_json(path).get("tokenizer_class")) if path.is_file() else ""
    family = _CLASSES.get(name.removesuffix("Fast"))
    if family is not None or name in _GENERAL_CLASSES:
        return family
    # Other families share names of files, and number pieces otherwise.
    if not has_pieces or name.startswith(_ALIKE):
        raise ValueError(
            f"{path} names the tokenizer_class {name!r}, which is none of the package's: BERT's, "
            "DistilBERT's, ELECTRA's, RoBERTa's, ALBERT's and XLM-R's are"
        )
    return None


def _is_other(folder: Path) -> bool:
    """Whether a folder has a vocabulary, and none that WordPiece could read."""
    if any((folder / name).is_file() for name in (FILE_NAME, TOKENIZER_JSON)):
        return False
    return _has_vocabulary(folder)


def _has_vocabulary(folder: Path) -> bool:
    return any((folder / name).is_file() for name in (*VOCABULARY_FILES, MERGES))


def _missing(folder: Path, sentence: str) -> Exception:
    """Returns the error of a missing file: of a folder without any tokenizer another one."""
    return ValueError(sentence) if _has_vocabulary(folder) else FileNotFoundError(sentence)


def _special_tokens(folder: Path, stored: dict[str, Any]) -> SpecialTokens:
    """Returns the special tokens that a folder names, RoBERTa's where it is silent."""
    path = folder / "special_tokens_map.json"
    named = {**(tokenizer_config.read_json(path) if path.is_file() else {}), **stored}
    values = []
    for name, default in zip(_ROLES, ROBERTA_TOKENS, strict=True):
        value = named.get(name)
        value = value.get("content") if isinstance(value, dict) else value
        values.append(default if value is None else str(value))
    return SpecialTokens(*values)


def _check_added(path: Path, added: Iterable[Any], special_tokens: SpecialTokens) -> None:
    """Refuses tokens that the library would find in texts, and the package would not."""
    for token in added:
        content = token.get("content") if isinstance(token, dict) else token
        # fairseq fills its dictionaries up with madeupword0000 and so on, which no text holds.
        if content not in special_tokens and not str(content).startswith("madeupword"):
            raise ValueError(
                f"{path}: {content!r} is an added token, which byte-level BPE of the package does "
                "not find in texts; give a tokenizer with no more than the special tokens "
                f"{', '.join(special_tokens)}"
            )


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
    _check_added(path, stored.get("added_tokens") or (), special_tokens)
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
