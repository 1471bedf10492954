"""One way to the tokenizer of any model folder."""

import importlib
import os
from typing import Any

from keras_bert.checkpoints.gliner.settings import tokenizer_folder
from keras_bert.checkpoints.sentence_modules import encoder_source
from keras_bert.text import tokenizer_config
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.tokenizer_files import Family, family_of

# Class of each family, and its module.
_TOKENIZERS: dict[Family, tuple[str, str]] = {
    "wordpiece": ("BertTokenizer", "tokenizer"),
    "byte_level_bpe": ("ByteLevelBpeTokenizer", "byte_level.tokenizer"),
    "sentencepiece": ("SentencePieceTokenizer", "sentencepiece.tokenizer"),
}


def load_tokenizer(folder: str | os.PathLike, **settings: Any) -> Tokenizer:
    """Opens the tokenizer of a model folder, of whichever family and format.

    `tokenizer_class` in tokenizer_config.json says which it is; where that is missing or unknown,
    the files do: vocab.txt is WordPiece, vocab.json with merges.txt byte-level BPE, spiece.model,
    sentencepiece.bpe.model and spm.model SentencePiece, and tokenizer.json says it inside.

    Args:
        folder: the folder, or `hf://org/name` for one on the Hugging Face Hub.
        **settings: arguments of the tokenizer that replace those of the folder, such as
            `keep_special_tokens=True`.

    Raises:
        FileNotFoundError: the folder or its vocabulary does not exist.
        ValueError: a file is damaged, or holds a tokenizer that the package does not have.

    Example:
        tokenizer = load_tokenizer("hf://FacebookAI/roberta-base")
        ids, starts, ends = tokenizer.tokenize_with_offsets(["Hello world"])
    """
    local = tokenizer_folder(tokenizer_config.local_folder(encoder_source(folder)))
    name = _TOKENIZERS[family_of(local)][0]
    return tokenizer_class(name).from_preset(local, **settings)


def tokenizer_class(name: str) -> Any:
    """Returns the class of a tokenizer by its name.

    Raises:
        ValueError: there is none of that name.
    """
    for known, module in _TOKENIZERS.values():
        if known == name:
            return getattr(importlib.import_module(f"keras_bert.text.{module}"), name)
    names = ", ".join(known for known, _ in _TOKENIZERS.values())
    raise ValueError(f"tokenizer_class is {name!r}: expected one of {names}")
