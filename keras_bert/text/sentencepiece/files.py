"""The files of a SentencePiece tokenizer: ALBERT's spiece.model, DeBERTa's spm.model, XLM-R's.

That of XLM-R and of CamemBERT is sentencepiece.bpe.model, or tokenizer.json, which holds the same.
"""

import dataclasses
import functools
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_bert.storage import files
from keras_bert.text import tokenizer_config
from keras_bert.text.corpus_tokenizer import TextsToIds
from keras_bert.text.framing import (
    ALBERT_TOKENS,
    BERT_FRAMING,
    BERT_TOKENS,
    ROBERTA_FRAMING,
    ROBERTA_TOKENS,
)
from keras_bert.text.sentencepiece.model import read_pieces
from keras_bert.text.sentencepiece.preparation import prepare_text
from keras_bert.text.sentencepiece.unigram_json import camembert_order, is_unigram, model_of
from keras_bert.text.sentencepiece.unigram_json import scheme_of as unigram_scheme
from keras_bert.text.tokenizer_config import (
    MODEL_FILES,
    ROLES,
    SENTENCEPIECE_FILES,
    TOKENIZER_JSON,
    missing_vocabulary,
)
from keras_bert.text.vocabulary import SENTENCEPIECE_SPACE, Vocabulary

_SCHEMES = {
    "AlbertTokenizer": "albert",
    "XLMRobertaTokenizer": "xlm_roberta",
    "CamembertTokenizer": "camembert",
    "DebertaV2Tokenizer": "deberta",
}
_OF_ROBERTAS = ("xlm_roberta", "camembert")
# How models of a scheme begin, where ids depend on it, and whose they are.
_FIRST_PIECES = {
    "xlm_roberta": ("XLM-R", ["<unk>", "<s>", "</s>"]),
    "camembert": ("CamemBERT", ["<unk>", "<s>", "</s>"]),
    "deberta": ("DeBERTa", ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]),
}
# Entries of CamemBERT's vocabulary that no text becomes: fairseq's own places, once more those of
# the model.
_NOT_USED = ("<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED")
# Unicode's, which the graph strips before a mask; `\s` would add U+001C to U+001F.
_WHITE_SPACE = "[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"


class SentencePieceSettings(NamedTuple):
    """How text is treated; arguments of `SentencePieceTokenizer`."""

    scheme: str = "albert"
    lowercase: bool = True
    keep_accents: bool = False
    keep_special_tokens: bool = False

    @property
    def mask_strips_left(self) -> bool:
        """Whether a mask that a text spells out takes the white space before it along."""
        return self.scheme != "deberta"


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
        if self.settings.scheme not in SENTENCEPIECE_FILES:
            raise ValueError(
                f"scheme is {self.settings.scheme!r}: it must be one of "
                f"{', '.join(SENTENCEPIECE_FILES)}"
            )
        pieces = read_pieces(self.model)
        family, first = _FIRST_PIECES.get(self.settings.scheme, ("", []))
        if pieces[: len(first)] != first:
            raise ValueError(
                f"the SentencePiece model begins with {', '.join(pieces[: len(first)])}; one of "
                f"{family}'s kind with {', '.join(first)}: train it so, or make it an ALBERT's"
            )

    @functools.cached_property
    def vocabulary(self) -> Vocabulary:
        """The pieces and their ids, special tokens among them."""
        pieces = read_pieces(self.model)
        if self.settings.scheme == "albert":
            return Vocabulary(pieces, ALBERT_TOKENS, SENTENCEPIECE_SPACE, BERT_FRAMING)
        if self.settings.scheme == "deberta":  # the mask is no piece of the model
            pieces = [*pieces, BERT_TOKENS.mask]
            return Vocabulary(pieces, BERT_TOKENS, SENTENCEPIECE_SPACE, BERT_FRAMING)
        if self.settings.scheme == "camembert":
            tokens = camembert_order(pieces[3:])
            return Vocabulary(tokens, ROBERTA_TOKENS, SENTENCEPIECE_SPACE, ROBERTA_FRAMING)
        # fairseq's order: its own four first, pieces one higher, the mask last.
        tokens = ["<s>", "<pad>", "</s>", "<unk>", *pieces[3:], "<mask>"]
        return Vocabulary(tokens, ROBERTA_TOKENS, SENTENCEPIECE_SPACE, ROBERTA_FRAMING)

    def ids_of_pieces(self) -> list[int]:
        """Returns our id of each id of the model."""
        count = len(read_pieces(self.model))
        if self.settings.scheme == "camembert":
            return [3, *range(5, count + 4)]  # <unk>, then all four higher
        if self.settings.scheme != "xlm_roberta":
            return list(range(count))
        return [3, 0, 2, *range(4, count + 1)]  # <unk>, <s>, </s>, then pieces one higher

    def pieces_of_ids(self) -> list[int]:
        """Returns the model's id of each of our ids; that of <unk> for what it does not have."""
        ids = self.ids_of_pieces()
        found = [ids.index(self.vocabulary.unk_id)] * len(self.vocabulary)
        for piece, index in enumerate(ids):
            found[index] = piece
        return found

    @classmethod
    def read(cls, folder: str | os.PathLike, file: str | None = None) -> "SentencePieceFiles":
        """Reads spiece.model, sentencepiece.bpe.model or spm.model, and tokenizer_config.json.

        In place of sentencepiece.bpe.model a tokenizer.json does, which XLM-R's kind and
        CamemBERT's are sometimes published with alone.

        Args:
            folder: the folder, or `hf://org/name` for one on the Hugging Face Hub.
            file: name of the model file. By default the one of the `tokenizer_class`, or the only
                one there is.

        Raises:
            FileNotFoundError: the folder has no such file.
            ValueError: a file is damaged, several are there and no class says which is meant, the
                tokenizer splits texts at punctuation, there are added tokens, or a special one has
                another id.
        """
        folder = tokenizer_config.local_folder(folder)
        path = folder / tokenizer_config.FILE_NAME
        stored = tokenizer_config.read_json(path) if path.is_file() else {}
        (name, _), config = tokenizer_config.tokenizer_class(folder), folder / "config.json"
        scheme = _SCHEMES.get(name.removesuffix("Fast"))
        if scheme is None and config.is_file():
            # As published, where the model type alone tells it from an XLM-R's.
            if tokenizer_config.read_json(config).get("model_type") == "camembert":
                scheme = "camembert"
        scheme, stored_json = _scheme_of(folder, scheme, file)
        json_file = folder / TOKENIZER_JSON
        if stored.get("split_by_punct"):
            raise ValueError(
                f"{path}: split_by_punct is {stored['split_by_punct']!r}: to divide texts at "
                "punctuation before SentencePiece is not supported, and published models do not; "
                "open the encoder alone, and make ids with transformers"
            )
        # Those of XLM-R and CamemBERT in transformers know neither of these keys; ours writes and
        # reads them.
        knows_keys = scheme not in _OF_ROBERTAS or "keep_special_tokens" in stored
        known = stored if knows_keys else {}
        values = {
            "lowercase": known.get("do_lower_case", scheme == "albert"),
            "keep_accents": known.get("keep_accents", scheme != "albert"),
            "keep_special_tokens": stored.get("keep_special_tokens", False),
        }
        for name, value in values.items():
            if not isinstance(value, bool):
                raise ValueError(f"{path}: {name} is {value!r}; it must be true or false")
        model = json_file if stored_json else folder / SENTENCEPIECE_FILES[scheme]
        content = model_of(stored_json, json_file) if stored_json else model.read_bytes()
        try:
            read = cls(content, SentencePieceSettings(scheme, **values))
        except ValueError as error:
            raise ValueError(f"{model}: {error}") from None
        # A tokenizer.json beside the model file has many megabytes, and the same tokens.
        known_tokens = {*read.vocabulary.special_tokens}
        if scheme == "camembert":
            known_tokens.update(_NOT_USED)
        tokenizer_config.check_added(
            folder,
            lambda token: token.get("content") in known_tokens,
            (TOKENIZER_JSON,) if stored_json else (),
        )
        added = folder / tokenizer_config.ADDED_TOKENS
        for token, number in tokenizer_config.read_json(added).items() if added.is_file() else ():
            ours = read.vocabulary.id_of(token)
            if number != ours:
                raise ValueError(
                    f"{added}: {token} has the id {number}, but {ours} with the pieces of "
                    f"{SENTENCEPIECE_FILES[scheme]}: take both files from one model"
                )
        return read

    def save(self, folder: str | os.PathLike) -> None:
        """Writes the model file and tokenizer_config.json."""
        special, settings = self.vocabulary.special_tokens, self.settings
        stored = {
            "tokenizer_class": next(name for name in _SCHEMES if _SCHEMES[name] == settings.scheme),
            "do_lower_case": settings.lowercase,
            "keep_accents": settings.keep_accents,
            "keep_special_tokens": settings.keep_special_tokens,
            **{name: getattr(special, name.removesuffix("_token")) for name in ROLES},
        }
        files.write_json(Path(folder) / tokenizer_config.FILE_NAME, stored)
        with files.atomic_file(Path(folder) / SENTENCEPIECE_FILES[settings.scheme]) as temporary:
            temporary.write_bytes(self.model)

    def file_names(self) -> tuple[str, ...]:
        """Names of the files that `save` writes."""
        return SENTENCEPIECE_FILES[self.settings.scheme], tokenizer_config.FILE_NAME

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


def _scheme_of(
    folder: Path, scheme: str | None, file: str | None
) -> tuple[str, dict[str, Any] | None]:
    """Returns whose pieces a folder has, and tokenizer.json where that is read for them.

    Args:
        folder: the folder.
        scheme: what the `tokenizer_class` says, if it does.
        file: the only model file that counts; None for any.
    """
    found = [name for name, model in SENTENCEPIECE_FILES.items() if (folder / model).is_file()]
    if file is not None:
        found = [name for name in found if SENTENCEPIECE_FILES[name] == file]
    if scheme != "camembert":  # whose file has the name of XLM-R's
        found = [name for name in found if name != "camembert"]
    json_file, stored_json = folder / TOKENIZER_JSON, None
    if not found and scheme in (None, *_OF_ROBERTAS) and json_file.is_file():
        stored_json = tokenizer_config.read_json(json_file)
    if scheme in found:
        found = [scheme]
    elif stored_json and is_unigram(stored_json):
        found = [unigram_scheme(stored_json)]
    elif not found or scheme is not None:
        needed = [SENTENCEPIECE_FILES[scheme]] if scheme is not None else MODEL_FILES
        raise missing_vocabulary(
            folder,
            f"{folder} has no {' and no '.join(needed)}, which holds SentencePiece's "
            "vocabulary; transformers 5 leaves it out where it writes tokenizer.json, which is "
            "read of XLM-R's kind and CamemBERT's alone: add the file that the model was published "
            "with",
        )
    elif len(found) > 1:
        names = " and ".join(SENTENCEPIECE_FILES[name] for name in found)
        raise ValueError(
            f"{folder} has {names}, and no tokenizer_class in {tokenizer_config.FILE_NAME} or "
            "config.json says which is meant: remove the other"
        )
    return found[0], stored_json


class _SentencePieceLibrary:
    """The ids of `SentencePieceTokenizer` through the `sentencepiece` library."""

    def __init__(self, source: SentencePieceFiles):
        self._processor = load_library().SentencePieceProcessor(model_proto=source.model)
        self._ids = np.array(source.ids_of_pieces(), np.int32)
        self._settings = source.settings
        self._special = source.vocabulary.special_tokens
        self._special_ids = dict(zip(self._special, source.vocabulary.special_ids, strict=True))
        names = "|".join(map(re.escape, sorted(self._special, key=len, reverse=True)))
        before = f"{_WHITE_SPACE}*" if self._settings.mask_strips_left else ""
        self._spelled = re.compile(rf"({before}{re.escape(self._special.mask)}|{names})")

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
