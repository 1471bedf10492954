"""What makes a folder of sentence-transformers a sparse encoder: SPLADE pooling behind words.

`modules.json` lists a masked language model (MLMTransformer, or Transformer with the task
"fill-mask") and SpladePooling, whose folder holds its settings. Or it lists a Router, and
`router_config.json` these two as the route of texts to be found, and for queries
SparseStaticEmbedding: a fixed weight for each word, so that no model reads them (Geng et al. 2024,
arXiv:2411.04403). Names and keys are those that releases 5 and 6 write. Prompts and lengths stand
where those of `sentence_modules` do.
"""

import dataclasses
import os
from pathlib import Path
from typing import Any, NamedTuple, cast, get_args

import numpy as np

from keras_bert.checkpoints import sentence_prompts, torch_state
from keras_bert.checkpoints.sentence_modules import (
    MODULES_FILE,
    ROUTER,
    ROUTER_FILE,
    TRANSFORMER_FILE,
    module_entries,
    module_list,
    text_settings,
)
from keras_bert.checkpoints.sentence_prompts import DOT, MODEL_FILE, Prompts
from keras_bert.choices import SparseActivation
from keras_bert.config import read_json
from keras_bert.storage.files import write_json

_PACKAGE = "sentence_transformers.sparse_encoder.models."
_WORDS, _POOLING = "MLMTransformer", "SpladePooling"
_FIRST = (_WORDS, "Transformer", ROUTER)
_STATIC = "SparseStaticEmbedding"
# Modules that make vectors sparse.
_SPARSE = (_POOLING, _STATIC, "SparseAutoEncoder")
_POOLING_FOLDER = "1_SpladePooling"
_CONFIG_FILE = "config.json"
_TASK = "fill-mask"
_SIMILARITY = "similarity_fn_name"
_MOST_WEIGHTS = "max_active_dims"


@dataclasses.dataclass(frozen=True)
class SparseModules:
    """How a text becomes a sparse vector.

    Attributes:
        activation: how the scores of pieces become weights.
        max_seq_length: the most positions of a row; None takes those of the encoder.
        lowercase: whether texts are lower-cased first, whatever the tokenizer does.
        max_active_dims: the most weights of a vector, the largest ones; None keeps all.
        prompts: what stands before texts.
        query_weights: the weight of each piece that a query has, float32 [V]; None where the model
            reads queries as it reads texts.
    """

    activation: SparseActivation = "relu"
    max_seq_length: int | None = None
    lowercase: bool = False
    max_active_dims: int | None = None
    prompts: Prompts = Prompts("", {}, "", "", DOT)
    query_weights: np.ndarray | None = None


class _Folders(NamedTuple):
    """Where the model of words, its pooling and the weights of queries lie; None without these."""

    model: Path
    pooling: Path
    query: Path | None = None


def is_sparse_folder(folder: str | os.PathLike) -> bool:
    """Whether a folder is one of a `SparseEncoder` of sentence-transformers.

    Raises:
        ValueError: `modules.json`, or `router_config.json` of a Router, is damaged.
    """
    file = Path(folder) / MODULES_FILE
    entries = module_entries(file) if file.is_file() else []
    kinds = [kind for kind, _ in entries]
    for kind, path in entries:
        if kind.endswith(f".{ROUTER}"):
            # Its routes may be those of dense vectors. What is missing is told where it is read.
            router = Path(folder) / path / ROUTER_FILE
            types = read_json(router).get("types") if router.is_file() else None
            kinds += map(str, types.values()) if isinstance(types, dict) else [_POOLING]
    return any(kind.rpartition(".")[2] in _SPARSE for kind in kinds)


def model_folder(folder: str | os.PathLike) -> Path:
    """Returns where the masked language model of a folder lies: in it, or in one inside.

    Raises:
        ValueError: `modules.json` is damaged or does not begin with a masked language model.
    """
    folder = Path(folder)
    return _folders(folder).model if is_sparse_folder(folder) else folder


def read(folder: str | os.PathLike) -> SparseModules:
    """Reads what stands behind the masked language model of a sparse encoder.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file is damaged, or a module or a setting cannot be reproduced; the sentence
            names it.
    """
    folder = Path(folder)
    inner = _folders(folder)
    file = inner.pooling / _CONFIG_FILE
    values = read_json(file)
    strategy = values.get("pooling_strategy", "max")
    if strategy != "max":
        raise ValueError(
            f"{file}: pooling_strategy is {strategy!r}, which cannot be reproduced: expected 'max'"
        )
    activation = values.get("activation_function", "relu")
    if activation not in get_args(SparseActivation):
        raise ValueError(
            f"{file}: activation_function is {activation!r}: expected one of "
            f"{', '.join(get_args(SparseActivation))}"
        )
    prompts = sentence_prompts.read(folder)
    settings = read_json(folder / MODEL_FILE) if (folder / MODEL_FILE).is_file() else {}
    if settings.get(_SIMILARITY) not in (None, DOT):
        raise ValueError(
            f"{folder / MODEL_FILE}: {_SIMILARITY} is {prompts.similarity!r}, but sparse vectors "
            f"are compared by products here: write {DOT!r} there if it will do"
        )
    most = settings.get(_MOST_WEIGHTS)
    if most is not None and (type(most) is not int or most < 1):
        raise ValueError(
            f"{folder / MODEL_FILE}: {_MOST_WEIGHTS} is {most!r}: expected a number above 0"
        )
    max_seq_length, lowercase = text_settings(inner.model, _TASK)
    return SparseModules(
        cast(SparseActivation, activation),
        max_seq_length,
        lowercase,
        most,
        prompts._replace(similarity=DOT),
        None if inner.query is None else _query_weights(inner.query),
    )


def write(folder: Path, activation: SparseActivation, vocab_size: int) -> None:
    """Writes `modules.json`, the pooling and empty prompts beside a masked language model.

    Args:
        folder: holds the model.
        activation: how the scores of pieces become weights.
        vocab_size: numbers of a whole vector.
    """
    (folder / _POOLING_FOLDER).mkdir(exist_ok=True)
    settings = {
        "pooling_strategy": "max",
        "activation_function": activation,
        # The key that all releases read.
        "word_embedding_dimension": vocab_size,
    }
    write_json(folder / _POOLING_FOLDER / _CONFIG_FILE, settings)
    paths = {_WORDS: "", _POOLING: _POOLING_FOLDER}
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"{_PACKAGE}{name}"}
        for number, (name, path) in enumerate(paths.items())
    ]
    write_json(folder / MODULES_FILE, modules)
    write_prompts(folder, "", "")


def write_prompts(folder: Path, query: str, document: str) -> None:
    """Writes what stands before texts; see `sentence_prompts.write`."""
    # Without the type, sentence-transformers takes the folder for one of dense vectors.
    sentence_prompts.write(folder, query, document, DOT, model_type="SparseEncoder")


def copy(source: str | os.PathLike, target: str | os.PathLike, vocab_size: int) -> None:
    """Copies everything behind the masked language model of one folder to another.

    Args:
        source: has the model in it, or in a folder of its own.
        target: holds the model, in any format.
        vocab_size: numbers of a whole vector of that one.

    Raises:
        ValueError: a file is damaged, or something in it cannot be reproduced.
    """
    source, target = Path(source), Path(target)
    modules = read(source)
    if modules.query_weights is not None:
        raise ValueError(
            f"{source} has fixed weights for the words of queries ({_STATIC}), which are not "
            "written"
        )
    write(target, modules.activation, vocab_size)
    if (source / MODEL_FILE).is_file():
        stored = read_json(source / MODEL_FILE)
        write_json(target / MODEL_FILE, {**read_json(target / MODEL_FILE), **stored})
    # Said here, wherever the source said it.
    settings = {"max_seq_length": modules.max_seq_length, "do_lower_case": modules.lowercase}
    write_json(target / TRANSFORMER_FILE, settings)


def _folders(folder: Path) -> _Folders:
    (name, path), *rest = module_list(folder, _FIRST, "sparse encoder of a masked language model")
    if name != ROUTER:
        _check_pooling(folder / MODULES_FILE, [name for name, _ in rest])
        return _Folders(folder / path, folder / rest[0][1])
    file = folder / path / ROUTER_FILE
    if not file.is_file():
        raise ValueError(f"{folder / MODULES_FILE} lists a {ROUTER}, but there is no {file}")
    values = read_json(file)
    routes: dict[str, list[tuple[str, str]]] = {}
    try:
        for route, places in values["structure"].items():
            kinds = [values["types"][place].rpartition(".")[2] for place in places]
            routes[route] = list(zip(kinds, places, strict=True))
        if any(".." in place or Path(place).is_absolute() for place in values["types"]):
            raise ValueError("a path leads out of the folder")
    except (KeyError, AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"{file} is no list of routes and modules ({error!r})") from None
    queries, texts = routes.get("query", []), routes.get("document", [])
    if [kind for kind, _ in queries] != [_STATIC] or not texts or texts[0][0] not in _FIRST[:2]:
        found = {route: [kind for kind, _ in several] for route, several in routes.items()}
        raise ValueError(
            f"{file} has the routes {found}, which cannot be reproduced: expected {_STATIC} for "
            f"query, and a masked language model with {_POOLING} for document"
        )
    _check_pooling(file, [kind for kind, _ in texts[1:]])
    inner = folder / path
    return _Folders(inner / texts[0][1], inner / texts[1][1], inner / queries[0][1])


def _check_pooling(file: Path, behind: list[str]) -> None:
    if behind != [_POOLING]:
        raise ValueError(
            f"{file} has {', '.join(behind) or 'nothing'} behind the masked language model, which "
            f"cannot be reproduced: expected {_POOLING} alone"
        )


def _query_weights(folder: Path) -> np.ndarray:
    """Returns the weight of each piece, float32 [V]; a query has no word with one below 0."""
    tensors = torch_state.read(folder)
    shapes: dict[str, Any] = dict(tensors.shapes)
    if set(shapes) != {"weight"} or len(shapes["weight"]) != 1:
        raise ValueError(f"{tensors.source} holds {shapes}: expected one weight for each piece")
    weights = tensors.read("weight").astype(np.float32)
    if not np.all((weights >= 0) & np.isfinite(weights)):
        raise ValueError(
            f"{tensors.source} has a weight that is not finite, or below 0, which cannot be "
            "reproduced"
        )
    return weights
