"""What makes a folder of sentence-transformers a sparse encoder: SPLADE pooling behind words.

`modules.json` lists a masked language model (MLMTransformer, or Transformer with the task
"fill-mask") and SpladePooling, whose folder holds its settings. Names and keys are those that
releases 5 and 6 write. Prompts and lengths stand where those of `sentence_modules` do.
"""

import dataclasses
import os
from pathlib import Path
from typing import cast, get_args

from keras_bert.checkpoints import sentence_prompts
from keras_bert.checkpoints.sentence_modules import (
    MODULES_FILE,
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
_FIRST = (_WORDS, "Transformer")
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
    """

    activation: SparseActivation = "relu"
    max_seq_length: int | None = None
    lowercase: bool = False
    max_active_dims: int | None = None
    prompts: Prompts = Prompts("", {}, "", "", DOT)


def is_sparse_folder(folder: str | os.PathLike) -> bool:
    """Whether a folder is one of a `SparseEncoder` of sentence-transformers.

    Raises:
        ValueError: `modules.json` is damaged.
    """
    file = Path(folder) / MODULES_FILE
    return file.is_file() and any(
        kind.endswith((f".{_POOLING}", ".SparseStaticEmbedding", ".SparseAutoEncoder", ".Router"))
        for kind, _ in module_entries(file)
    )


def model_folder(folder: str | os.PathLike) -> Path:
    """Returns where the masked language model of a folder lies: in it, or in one inside.

    Raises:
        ValueError: `modules.json` is damaged or does not begin with a masked language model.
    """
    folder = Path(folder)
    return folder / _modules(folder)[0][1] if is_sparse_folder(folder) else folder


def read(folder: str | os.PathLike) -> SparseModules:
    """Reads what stands behind the masked language model of a sparse encoder.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file is damaged, or a module or a setting cannot be reproduced; the sentence
            names it.
    """
    folder = Path(folder)
    (_, model_path), *rest = _modules(folder)
    if [name for name, _ in rest] != [_POOLING]:
        found = ", ".join(name for name, _ in rest) or "nothing"
        raise ValueError(
            f"{folder / MODULES_FILE} has {found} behind the masked language model, which cannot "
            f"be reproduced: expected {_POOLING} alone"
        )
    file = folder / rest[0][1] / _CONFIG_FILE
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
    max_seq_length, lowercase = text_settings(folder / model_path, _TASK)
    return SparseModules(
        cast(SparseActivation, activation),
        max_seq_length,
        lowercase,
        most,
        prompts._replace(similarity=DOT),
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
    write(target, modules.activation, vocab_size)
    if (source / MODEL_FILE).is_file():
        stored = read_json(source / MODEL_FILE)
        write_json(target / MODEL_FILE, {**read_json(target / MODEL_FILE), **stored})
    # Said here, wherever the source said it.
    settings = {"max_seq_length": modules.max_seq_length, "do_lower_case": modules.lowercase}
    write_json(target / TRANSFORMER_FILE, settings)


def _modules(folder: Path) -> list[tuple[str, str]]:
    return module_list(folder, _FIRST, "sparse encoder of a masked language model")
