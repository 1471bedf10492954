"""Model folders: `config.json`, `vocab.txt`, `tokenizer_config.json`, `model.weights.h5`."""

import importlib
import json
import os
from pathlib import Path
from typing import Any

import h5py
import keras

from keras_bert.config import BertConfig, find_config_file, read_json
from keras_bert.files import atomic_file

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.weights.h5"

# Where each architecture that a preset may name lives; classes import this module, so their
# modules are looked up only when a folder is opened.
_ARCHITECTURES = {
    "BertEncoder": "encoder",
    "BertPretrainer": "pretrainer",
    "BertMaskedLM": "masked_lm",
    "BertClassifier": "classifier",
    "BertMultipleChoice": "multiple_choice",
    "BertTokenClassifier": "token_classifier",
    "BertSpanLabeler": "span_labeler",
}


def save(model: Any, folder: str | os.PathLike, tokenizer: Any = None) -> None:
    """Writes a model as a preset folder, each file whole or not at all.

    Args:
        model: one of the package's models.
        folder: the folder; other files in it stay.
        tokenizer: a `BertTokenizer`, written as `vocab.txt` and `tokenizer_config.json`.

    Raises:
        ValueError: the tokenizer's vocabulary is not of the config's size.
    """
    folder = Path(folder)
    if tokenizer is not None:
        tokenizer.vocabulary.check_size(model.config.vocab_size)
        tokenizer.save(folder)
    with atomic_file(folder / WEIGHTS_FILE) as path:
        _save_weights(model, path)
    content = {
        "architecture": type(model).__name__,
        "config": model.config.to_dict(),
        "head": model.head_config(),
    }
    with atomic_file(folder / CONFIG_FILE) as path:
        path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def load(cls: type, folder: str | os.PathLike, arguments: dict[str, Any]) -> Any:
    """Opens a preset folder as a model of class `cls`.

    A folder of the same class and head comes back as it was. Otherwise the encoder is taken over
    whole, parts of the head where name and shape agree, and the rest starts fresh.

    Args:
        cls: the class to build.
        folder: a folder written by `save`.
        arguments: arguments of the constructor of `cls` other than `config`.

    Raises:
        FileNotFoundError: the folder is not a preset.
        ValueError: a file in it is damaged, or a head argument is missing.
    """
    folder = Path(folder)
    content = _read_content(folder)
    config = BertConfig.from_file(folder / CONFIG_FILE)
    source_class, head = _architecture(content, folder), content.get("head", {})
    own_head = {key: value for key, value in head.items() if value is not None}
    if cls is source_class:
        arguments = own_head | arguments
    model = _build(cls, config, arguments)
    if cls is source_class and model.head_config() == head:
        _load_weights(model, folder)
        return model
    source = source_class(config, **own_head)
    _load_weights(source, folder)
    copy_matching_variables(source, model)
    return model


def copy_matching_variables(source: Any, target: Any) -> list[str]:
    """Copies weights between models with the same encoder, by variable path.

    Args:
        source: the model to read.
        target: the model to write; variables of its head without a counterpart stay.

    Returns:
        The paths of the variables that stayed.

    Raises:
        ValueError: a variable of the target's encoder has no counterpart.
    """
    values = {variable.path: variable for variable in source.weights}
    encoder_paths = {variable.path for variable in getattr(target, "encoder", target).weights}
    left = []
    for variable in target.weights:
        value = values.get(variable.path)
        if value is not None and value.shape == variable.shape:
            variable.assign(value)
        elif variable.path in encoder_paths:
            raise ValueError(f"the encoder has no variable {variable.path} {variable.shape}")
        else:
            left.append(variable.path)
    return left


def _read_content(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder: give the folder of a model")
    content = read_json(find_config_file(folder))
    if "architecture" not in content:
        raise ValueError(
            f"{folder}/{CONFIG_FILE} names no architecture: it was not written by save_to_preset"
        )
    return content


def _architecture(content: dict[str, Any], folder: Path) -> type:
    name = content["architecture"]
    if name not in _ARCHITECTURES:
        raise ValueError(
            f"{folder}/{CONFIG_FILE} names the architecture {name!r}: expected one of "
            f"{', '.join(_ARCHITECTURES)}"
        )
    module = importlib.import_module(f"keras_bert.models.{_ARCHITECTURES[name]}")
    return getattr(module, name)


def _build(cls: type, config: BertConfig, arguments: dict[str, Any]) -> Any:
    try:
        return cls(config, **arguments)
    except TypeError as error:
        raise ValueError(f"{cls.__name__}.from_preset: {error}") from None


def _save_weights(model: keras.Model, path: Path) -> None:
    # Keras writes the optimizer of a compiled model along: two thirds of the file, and no part of
    # what a preset is.
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None:
        model.save_weights(path)
        return
    model.optimizer = None
    try:
        model.save_weights(path)
    finally:
        model.optimizer = optimizer


def _load_weights(model: keras.Model, folder: Path) -> None:
    path = folder / WEIGHTS_FILE
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: the model folder is incomplete")
    try:
        _check_number_of_weights(model, path)
        model.load_weights(path)
    except (ValueError, OSError, KeyError) as error:
        raise ValueError(f"{path} does not fit the config beside it: {error}") from None


def _check_number_of_weights(model: keras.Model, path: Path) -> None:
    # Keras says nothing of weights in the file that the model does not have.
    stored = []
    with h5py.File(path) as file:
        file.visititems(lambda name, item: stored.append(name) if _is_weight(name, item) else None)
    if len(stored) != len(model.weights):
        raise ValueError(f"it holds {len(stored)} weights, the model has {len(model.weights)}")


def _is_weight(name: str, item: Any) -> bool:
    return isinstance(item, h5py.Dataset) and "seed_generator" not in name
