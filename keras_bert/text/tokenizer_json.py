"""Vocabularies of folders that Hugging Face's transformers 5 wrote: they are in tokenizer.json."""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from keras_bert.text.vocabulary import CONTINUATION_PREFIX, Vocabulary

FILE_NAME = "tokenizer.json"


class StoredTokenizer(NamedTuple):
    """What a tokenizer.json says.

    Attributes:
        vocabulary: the pieces, added tokens included.
        normalizer: the arguments of its `BertNormalizer`, {} when it has another one or none.
    """

    vocabulary: Vocabulary
    normalizer: dict[str, Any]


def read(path: str | os.PathLike) -> StoredTokenizer:
    """Reads the vocabulary of a WordPiece tokenizer.json.

    Args:
        path: the file.

    Raises:
        ValueError: it is no WordPiece tokenizer with the prefix "##", or its ids have gaps.
    """
    path = Path(path)
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON ({error}): repair or remove it") from None
    model = stored.get("model") or {}
    kind, prefix = model.get("type"), model.get("continuing_subword_prefix")
    if (kind, prefix) != ("WordPiece", CONTINUATION_PREFIX):
        raise ValueError(
            f"{path} holds a {kind} model with the prefix {prefix!r}; BERT's is WordPiece with "
            f"{CONTINUATION_PREFIX!r}: pass the folder of a BERT model"
        )
    added = {token["content"]: token["id"] for token in stored.get("added_tokens") or ()}
    normalizer = stored.get("normalizer") or {}
    is_bert = normalizer.get("type") == "BertNormalizer"
    ids = model["vocab"] | added
    tokens = sorted(ids, key=ids.__getitem__)
    for index, token in enumerate(tokens):
        if ids[token] != index:
            raise ValueError(
                f"{path}: {token!r} has the id {ids[token]}, but {index} is the next free one: "
                "ids must be 0, 1, 2, ... without gaps"
            )
    return StoredTokenizer(Vocabulary(tokens), normalizer if is_bert else {})
