"""What a folder of sentence-transformers puts before texts, and how their vectors are compared."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from keras_bert.config import read_json
from keras_bert.storage.files import write_json

MODEL_FILE = "config_sentence_transformers.json"

# What the prompts of texts to search with and of texts to be found are called; the first counts.
_QUERY_PROMPTS = ("query",)
_DOCUMENT_PROMPTS = ("document", "passage", "corpus")
_SIMILARITY = "similarity_fn_name"
COSINE, DOT = "cosine", "dot"  # the first where a folder says nothing


class Prompts(NamedTuple):
    """What a folder puts before texts; see the attributes of `sentence_modules.SentenceModules`."""

    default: str
    by_name: Mapping[str, str]
    query: str
    document: str
    similarity: str


def read(folder: str | os.PathLike) -> Prompts:
    """Reads prompts and similarity of a folder, whatever its modules are.

    An empty prompt is one that nobody gave, as sentence-transformers writes "query" and "document"
    into every folder. Of such texts stands the default there, unless it is the prompt of the
    others: one that is called "query" is not for texts to be found.

    Raises:
        ValueError: the file is damaged, or has no prompt of the name of its default, or a
            similarity that is no name.
    """
    file = Path(folder) / MODEL_FILE
    values = read_json(file) if file.is_file() else {}
    prompts = values.get("prompts") or {}
    if not isinstance(prompts, dict) or not all(
        isinstance(prompt, str | None) for prompt in prompts.values()
    ):
        raise ValueError(f"{file}: prompts is {prompts!r}: expected texts by their names")
    prompts = {name: prompt or "" for name, prompt in prompts.items()}
    name = values.get("default_prompt_name")
    if name is not None and name not in prompts:
        raise ValueError(f"{file}: default_prompt_name is {name!r}, but prompts does not hold it")
    default = "" if name is None else prompts[name]
    of_all = "" if name in (*_QUERY_PROMPTS, *_DOCUMENT_PROMPTS) else default
    query, document = (
        next((prompts[one] for one in names if prompts.get(one)), of_all)
        for names in (_QUERY_PROMPTS, _DOCUMENT_PROMPTS)
    )
    similarity = values.get(_SIMILARITY)
    if not isinstance(similarity, str | None):
        raise ValueError(f"{file}: {_SIMILARITY} is {similarity!r}: expected a name such as cosine")
    return Prompts(default, prompts, query, document, similarity or COSINE)


def write(
    folder: Path, query: str, document: str, similarity: str = COSINE, **settings: Any
) -> None:
    """Writes what stands before texts to search with and before those to be found.

    Where it is the same it stands before every text.

    Args:
        folder: holds the encoder.
        query: the prompt of the former.
        document: that of the latter.
        similarity: how vectors are compared.
        **settings: others of the file, or in place of those.
    """
    content = {
        "prompts": {_QUERY_PROMPTS[0]: query, _DOCUMENT_PROMPTS[0]: document},
        "default_prompt_name": _QUERY_PROMPTS[0] if query and query == document else None,
        _SIMILARITY: similarity,
        **settings,
    }
    write_json(folder / MODEL_FILE, content)


def set_default(folder: Path, name: str, prompt: str) -> None:
    """Puts a prompt before every text of a folder, under a name and beside those that it has.

    Args:
        folder: holds the encoder.
        name: what the prompt is called.
        prompt: the text; "" for none.

    Raises:
        ValueError: the file is damaged.
    """
    file = folder / MODEL_FILE
    values = read_json(file) if file.is_file() else {}
    prompts = {**(values.get("prompts") or {}), name: prompt}
    write_json(file, {**values, "prompts": prompts, "default_prompt_name": name})
