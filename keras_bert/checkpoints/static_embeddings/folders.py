"""Folders of static embeddings: one vector for each piece, and a text is the mean of those of it.

Model2Vec             config.json with model_type "model2vec"; model.safetensors with `embeddings`
                      [V, W], perhaps `mapping` [V] to fewer rows and `weights` [V]; tokenizer.json
sentence-transformers modules.json that begins with StaticEmbedding, in whose folder
                      model.safetensors has `embedding.weight` [V, W]; tokenizer.json beside it,
                      whose `truncation` says to how many pieces texts are cut, if to any

Model2Vec writes a modules.json, too, and leaves unknown pieces out of the mean, which
sentence-transformers does not: a folder of Model2Vec is read as Model2Vec reads it.
"""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.checkpoints import sentence_modules, sentence_prompts, torch_state
from keras_bert.checkpoints.name_table import Tensors
from keras_bert.checkpoints.sentence_modules import (
    MODULES_FILE,
    STATIC_EMBEDDING,
    Normalize,
    SentenceModules,
)
from keras_bert.config import read_json
from keras_bert.counts import check_count
from keras_bert.storage.files import write_json

TOKENIZER_FILE = "tokenizer.json"

_CONFIG_FILE = "config.json"
_MODEL_TYPE = "model2vec"
_MODULE_CLASS = f"sentence_transformers.models.{STATIC_EMBEDDING}"
_NORMALIZE_CLASS = "sentence_transformers.models.Normalize"
_NORM_FOLDER = "1_Normalize"
_HERE = "."  # the path of a module beside modules.json, as Model2Vec writes it
# What Model2Vec cuts texts to where its config.json says nothing.
_MAX_LENGTH = 512
_TABLE, _MODEL2VEC_TABLE = "embedding.weight", "embeddings"
_MAPPING, _WEIGHTS = "mapping", "weights"
_TRUNCATION = "truncation"  # of tokenizer.json


@dataclasses.dataclass(frozen=True)
class StaticTable:
    """What a folder of static embeddings says.

    Attributes:
        vectors: a row for each piece, [V, W], of any floating dtype or int8.
        modules: the steps behind the mean, prompts and similarity; `max_seq_length` is the most
            pieces of a text, None for all.
        tokenizer_folder: where its tokenizer.json lies.
        drops_unknown: whether unknown pieces are left out of the mean.
        is_model2vec: whether the form is that of Model2Vec. Then texts are cut to as many times the
            median length of a piece as they may have pieces, before they are cut into these.
    """

    vectors: np.ndarray
    modules: SentenceModules
    tokenizer_folder: Path
    drops_unknown: bool
    is_model2vec: bool


def is_static_folder(folder: str | os.PathLike) -> bool:
    """Whether a folder holds static embeddings, of Model2Vec or of sentence-transformers.

    Raises:
        ValueError: `config.json` or `modules.json` in it is damaged.
    """
    return _is_model2vec(Path(folder)) or _is_static_module(Path(folder))


def check_has_encoder(folder: str | os.PathLike) -> None:
    """Refuses a folder of static embeddings where an encoder is needed.

    Args:
        folder: a local folder.

    Raises:
        ValueError: it is one. Of a damaged file those tell who read it.
    """
    try:
        is_static = is_static_folder(folder)
    except ValueError:
        return
    if is_static:
        raise ValueError(
            f"{folder} holds static embeddings, a vector for each piece and no encoder: give a "
            "folder with an encoder; SentenceEncoder opens this one, and the tasks retrieval and "
            "similarity train it"
        )


def read(folder: str | os.PathLike) -> StaticTable:
    """Reads a folder of either form.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file is damaged, a tensor is missing or of another shape, or a module cannot
            be reproduced.
    """
    folder = Path(folder)
    if _is_model2vec(folder):
        return _read_model2vec(folder)
    (_, path), *rest = sentence_modules.module_list(folder, (STATIC_EMBEDDING,), "static embedding")
    prompts = sentence_prompts.read(folder)
    inner = folder / path
    length = _truncation(inner)
    modules = SentenceModules(
        ("mean",),
        sentence_modules.read_steps(folder, rest, f"{STATIC_EMBEDDING}, and then"),
        length,
        prompt=prompts.default,
        prompts=prompts.by_name,
        query_prompt=prompts.query,
        document_prompt=prompts.document,
        similarity=prompts.similarity,
    )
    tensors = torch_state.read(inner)
    name = _TABLE if _TABLE in tensors.shapes else _MODEL2VEC_TABLE
    return StaticTable(_table(tensors, name), modules, inner, False, False)


def write(
    folder: Path,
    vectors: np.ndarray,
    tokenizer: Mapping[str, Any],
    normalize: bool,
    model2vec: bool,
) -> None:
    """Writes a folder, which `read`, Model2Vec and sentence-transformers open.

    Args:
        folder: exists; other files in it stay.
        vectors: a row for each piece, float32 or float16 [V, W].
        tokenizer: content of the tokenizer.json.
        normalize: whether vectors of texts are divided by their length.
        model2vec: whether the form is that of Model2Vec, else that of sentence-transformers.
    """
    torch_state.write({_MODEL2VEC_TABLE if model2vec else _TABLE: vectors}, folder)
    # Neither library pads, and each has a length of its own.
    write_json(folder / TOKENIZER_FILE, {**tokenizer, _TRUNCATION: None, "padding": None})
    entries = [{"idx": 0, "name": "0", "path": _HERE, "type": _MODULE_CLASS}]
    if normalize:
        (folder / _NORM_FOLDER).mkdir(exist_ok=True)
        write_json(folder / _NORM_FOLDER / _CONFIG_FILE, {})
        entries.append({"idx": 1, "name": "1", "path": _NORM_FOLDER, "type": _NORMALIZE_CLASS})
    if model2vec:
        config = {
            "model_type": _MODEL_TYPE,
            "architectures": ["StaticModel"],
            "hidden_dim": vectors.shape[1],
            "normalize": normalize,
            "embedding_dtype": vectors.dtype.name,
            "max_length": _MAX_LENGTH,
        }
        write_json(folder / _CONFIG_FILE, config)
    else:
        sentence_prompts.write(folder, "", "", prompts={})
    write_json(folder / MODULES_FILE, entries)


def write_settings(folder: Path, max_length: int, query: str, document: str) -> None:
    """Writes how texts are read into a folder that `write` has made.

    Args:
        folder: holds the table.
        max_length: the most pieces of a text.
        query: stands before texts to search with.
        document: stands before texts to be found.
    """
    file = folder / TOKENIZER_FILE
    truncation = {"direction": "Right", "strategy": "LongestFirst", "stride": 0}
    write_json(file, {**read_json(file), _TRUNCATION: {**truncation, "max_length": max_length}})
    if _is_model2vec(folder):
        file = folder / _CONFIG_FILE
        write_json(file, {**read_json(file), "max_length": max_length})
    if query or document:
        sentence_prompts.write(folder, query, document)


def _is_model2vec(folder: Path) -> bool:
    file = folder / _CONFIG_FILE
    return file.is_file() and read_json(file).get("model_type") == _MODEL_TYPE


def _is_static_module(folder: Path) -> bool:
    file = folder / MODULES_FILE
    entries = sentence_modules.module_entries(file) if file.is_file() else []
    return bool(entries) and entries[0][0].endswith(f".{STATIC_EMBEDDING}")


def _read_model2vec(folder: Path) -> StaticTable:
    file = folder / _CONFIG_FILE
    config = read_json(file)
    normalize = config.get("normalize", False)
    if not isinstance(normalize, bool):
        raise ValueError(f"{file}: normalize is {normalize!r}: it must be true or false")
    length = _length(file, config.get("max_length", _MAX_LENGTH))
    prompts = sentence_prompts.read(folder)
    modules = SentenceModules(
        ("mean",),
        (Normalize(),) if normalize else (),
        length,
        prompt=prompts.default,
        prompts=prompts.by_name,
        query_prompt=prompts.query,
        document_prompt=prompts.document,
        similarity=prompts.similarity,
    )
    model = _read_tokenizer(folder).get("model") or {}
    # The first is that of WordPiece and BPE, the second that of Unigram.
    drops_unknown = any(model.get(key) is not None for key in ("unk_token", "unk_id"))
    vectors = _table(torch_state.read(folder), _MODEL2VEC_TABLE)
    return StaticTable(vectors, modules, folder, drops_unknown, True)


def _truncation(folder: Path) -> int | None:
    """Returns to how many pieces a tokenizer.json cuts texts; None where it does not."""
    file = folder / TOKENIZER_FILE
    truncation = _read_tokenizer(folder).get("truncation")
    if truncation is None:
        return None
    if not isinstance(truncation, dict) or truncation.get("direction", "Right") != "Right":
        raise ValueError(
            f"{file}: truncation is {truncation!r}, and only what cuts the ends of texts can be "
            "reproduced: set it to null"
        )
    return _length(file, truncation.get("max_length"))


def _length(file: Path, value: Any) -> int | None:
    """Returns the most pieces of a text that a file states; None for all."""
    try:
        return check_count("max_length", value)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def _read_tokenizer(folder: Path) -> dict[str, Any]:
    if not (folder / TOKENIZER_FILE).is_file():
        raise FileNotFoundError(
            f"there is no {folder / TOKENIZER_FILE}: the folder of static embeddings is incomplete"
        )
    return read_json(folder / TOKENIZER_FILE)


def _table(tensors: Tensors, name: str) -> np.ndarray:
    """Returns a row for each piece: with mapping and weights of Model2Vec in it."""
    known = {name} if name == _TABLE else {name, _MAPPING, _WEIGHTS}
    found = dict(tensors.shapes)
    if name not in found or found.keys() - known or len(found[name]) != 2:
        raise ValueError(
            f"{tensors.source} holds {found}: expected {name} of shape [pieces, width]"
            + (
                f", and perhaps {_MAPPING} and {_WEIGHTS} of shape [pieces]"
                if known > {name}
                else ""
            )
        )
    vectors = tensors.read(name)
    if _MAPPING in found:
        mapping = tensors.read(_MAPPING)
        if mapping.ndim != 1 or ((mapping < 0) | (mapping >= len(vectors))).any():
            raise ValueError(
                f"{tensors.source}: {_MAPPING} has shape {mapping.shape} and numbers from "
                f"{mapping.min()} to {mapping.max()}, but {name} has {len(vectors)} rows: fetch "
                "the file again"
            )
        vectors = vectors[mapping.astype(np.int64)]
    if _WEIGHTS in found:
        weights = tensors.read(_WEIGHTS)
        if weights.shape != (len(vectors),):
            raise ValueError(
                f"{tensors.source}: {_WEIGHTS} has shape {weights.shape}, but there are "
                f"{len(vectors)} pieces: fetch the file again"
            )
        vectors = vectors.astype(np.float32) * weights.astype(np.float32)[:, None]
    return vectors
