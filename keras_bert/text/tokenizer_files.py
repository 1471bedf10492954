"""Which family's tokenizer a folder holds, and its files: what data creation starts from.

    family             files                                       tokenizer_class
    WordPiece          vocab.txt                                   Bert*, DistilBert*, Electra*,
                                                                   MPNet*, MobileBert*
    byte-level BPE     vocab.json and merges.txt                   Roberta*, GPT2*, Longformer*
    SentencePiece      spiece.model                                Albert*
                       sentencepiece.bpe.model                     XLMRoberta*
                       spm.model                                   DebertaV2*

tokenizer.json, which transformers 5 writes alone, stands for the first two rows and for that of
XLM-R. No TensorFlow here: the workers of data creation read a folder and turn texts into ids with
the library that each family has in C++ or Rust, or with our own WordPiece; the graphs are made of
the same values.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias

from keras_bert.checkpoints.gliner.settings import tokenizer_folder
from keras_bert.storage import hub
from keras_bert.text import tokenizer_config
from keras_bert.text.byte_level.files import ByteLevelBpeFiles
from keras_bert.text.sentencepiece.files import SentencePieceFiles
from keras_bert.text.sentencepiece.unigram_json import UNIGRAM
from keras_bert.text.tokenizer_config import (
    MERGES,
    MODEL_FILES,
    TOKENIZER_JSON,
    VOCAB_JSON,
)
from keras_bert.text.vocabulary import FILE_NAME
from keras_bert.text.wordpiece.files import WordPieceFiles

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
# By the type of the model in tokenizer.json.
_FAMILIES_OF_MODELS: dict[str | None, Family] = {"BPE": "byte_level_bpe", UNIGRAM: "sentencepiece"}
# Names in `tokenizer_class`, which may have "Fast" behind them.
_CLASSES: dict[str, Family] = {
    "XLMRobertaTokenizer": "sentencepiece",
    "CamembertTokenizer": "sentencepiece",
    "AlbertTokenizer": "sentencepiece",
    "DebertaV2Tokenizer": "sentencepiece",
    "RobertaTokenizer": "byte_level_bpe",
    "LongformerTokenizer": "byte_level_bpe",
    "GPT2Tokenizer": "byte_level_bpe",
    "BertTokenizer": "wordpiece",
    "DistilBertTokenizer": "wordpiece",
    "ElectraTokenizer": "wordpiece",
    "MobileBertTokenizer": "wordpiece",
    tokenizer_config.MPNET_CLASS: "wordpiece",
}
# How tokenizers begin that are others in spite of a vocab.txt, such as BertJapaneseTokenizer.
_ALIKE = tuple(name.removesuffix("Tokenizer") for name in _CLASSES)


def family_of(folder: str | os.PathLike) -> Family:
    """Tells the family of a folder's tokenizer: "wordpiece", "byte_level_bpe" or "sentencepiece".

    `tokenizer_class` of tokenizer_config.json decides, or else that of config.json; where it is
    missing, general or unknown, the files do.

    Raises:
        FileNotFoundError: there is no such folder.
        ValueError: the class is unknown, and the files do not say what becomes of a text; or it is
            WordPiece, and there are files of other families alone.
    """
    folder = hub.local_folder(folder)
    if not folder.is_dir():
        raise hub.missing_folder(folder)
    family = _family_of_class(folder, (folder / FILE_NAME).is_file())
    if family == "wordpiece" and _is_other(folder):
        _, path = tokenizer_config.tokenizer_class(folder)
        raise ValueError(
            f"{path} names a WordPiece tokenizer, but there is neither {FILE_NAME} nor "
            f"{TOKENIZER_JSON}: add what the model was published with"
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
        return _family_of_json(folder / TOKENIZER_JSON)
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
    folder = tokenizer_folder(tokenizer_config.local_folder(folder))
    return _READERS[family_of(folder)](folder)


def read_named_file(path: str | os.PathLike) -> TokenizerFiles:
    """Reads the tokenizer that a file belongs to: its name says the family, not what is beside it.

    Args:
        path: a vocab.txt, vocab.json, merges.txt, tokenizer.json, spiece.model,
            sentencepiece.bpe.model or spm.model.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a file is damaged, or tokenizer_config.json beside it is of another tokenizer.
    """
    path = Path(path)
    folder, family = path.parent, _FAMILIES_OF_FILES[path.name]
    if not path.is_file():
        raise FileNotFoundError(f"there is no vocabulary at {path}: check the path")
    if path.name == TOKENIZER_JSON:
        family = _family_of_json(path)
    named = _family_of_class(folder, family == "wordpiece")
    if named not in (None, family):
        _, names = tokenizer_config.tokenizer_class(folder)
        raise ValueError(
            f"{path} is no file of the tokenizer that {names.name} beside it names: give each "
            "tokenizer a folder of its own"
        )
    if family == "sentencepiece":
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
    name, path = tokenizer_config.tokenizer_class(folder)
    family = _CLASSES.get(name.removesuffix("Fast"))
    if family is not None or name in tokenizer_config.GENERAL_CLASSES:
        return family
    # Other families share names of files, and number pieces otherwise.
    if not has_pieces or name.startswith(_ALIKE):
        raise ValueError(
            f"{path} names the tokenizer_class {name!r}, which is none of the package's: BERT's, "
            "DistilBERT's, ELECTRA's, MobileBERT's, MPNet's, RoBERTa's, Longformer's, ALBERT's, "
            "XLM-R's and DeBERTa's of versions 2 and 3 are"
        )
    return None


def _family_of_json(path: Path) -> Family:
    """Returns the family of a tokenizer.json; the reader of WordPiece tells of others."""
    kind = (tokenizer_config.read_json(path).get("model") or {}).get("type")
    return _FAMILIES_OF_MODELS.get(kind, "wordpiece")


def _is_other(folder: Path) -> bool:
    """Whether a folder has a vocabulary, and none that WordPiece could read."""
    if any((folder / name).is_file() for name in (FILE_NAME, TOKENIZER_JSON)):
        return False
    return tokenizer_config.has_vocabulary(folder)
