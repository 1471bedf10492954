"""Any model folder of another dialect: which it is, reading and writing it."""

import os
from collections.abc import Collection
from pathlib import Path
from types import ModuleType
from typing import Literal

from keras_bert.checkpoints import (
    encoder_decoder,
    google,
    hugging_face,
    model_garden,
    tensorflow_file,
    tf_hub,
    torch_state,
)
from keras_bert.checkpoints.checkpoint import Checkpoint
from keras_bert.checkpoints.gliner import folder as gliner
from keras_bert.checkpoints.gliner.settings import is_gliner_folder
from keras_bert.checkpoints.jina import task_adapters
from keras_bert.checkpoints.model_classes import ENCODER_DECODER
from keras_bert.config import CONFIG_FILES, BertConfig, Dialect

Format = Literal["google", "hf", "garden", "gliner"]
# SavedModels are read here; `keras_bert.serving.formats.tf_hub` writes them.
SourceFormat = Literal["google", "hf", "garden", "gliner", "tfhub"]

# By `Format` and by `SourceFormat`.
_FORMATS: dict[str, ModuleType] = {
    "google": google,
    "hf": hugging_face,
    "garden": model_garden,
    "gliner": gliner,
}
_READERS: dict[str, ModuleType] = {**_FORMATS, "tfhub": tf_hub}


def format_of(folder: str | os.PathLike) -> SourceFormat:
    """Tells whose checkpoint a folder holds, by its weights.

    Raises:
        FileNotFoundError: it holds no weights of any dialect.
    """
    if is_gliner_folder(folder):
        return "gliner"
    if torch_state.find(folder):
        return "hf"
    if tf_hub.is_saved_model(folder):
        return "tfhub"
    if not list(Path(folder).glob("*.index")):
        raise FileNotFoundError(
            f"{folder} holds no weights: expected model.weights.h5, one of "
            f"{', '.join(torch_state.WEIGHT_FILES)}, a TensorFlow checkpoint (*.index), "
            f"or {tf_hub.MODEL_FILE}"
        )
    prefix = tensorflow_file.find_prefix(folder)
    return "garden" if tensorflow_file.is_object_graph(prefix) else "google"


def read_config(folder: str | os.PathLike, ignore_config_keys: Collection[str] = ()) -> BertConfig:
    """Reads the config of a folder; weights beside it tell whose it is where it does not.

    Args:
        folder: the folder.
        ignore_config_keys: unknown keys of the config to pass over, see `BertConfig.from_dict`.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: the config is damaged or not a BERT's.
    """
    if tf_hub.is_saved_model(folder):
        return tf_hub.read(folder, ignore_config_keys).config
    if is_gliner_folder(folder):
        return gliner.read_config(folder, ignore_config_keys)
    dialect: Dialect | None = None
    if torch_state.find(folder):
        dialect = "hf"
    elif list(Path(folder).glob("*.index")):
        if not any((Path(folder) / name).exists() for name in CONFIG_FILES):
            return google.read_config(folder, ignore_config_keys)
        dialect = "google"  # Model Garden shares Google's
    return BertConfig.from_file(folder, dialect, ignore_config_keys)


def read(
    folder: str | os.PathLike,
    ignore_config_keys: Collection[str] = (),
    adapter: str | None = None,
) -> Checkpoint:
    """Reads a folder of Google's, Hugging Face's, Model Garden's or GLiNER's, or a SavedModel.

    Args:
        folder: the folder.
        ignore_config_keys: unknown keys of the config to pass over, see `BertConfig.from_dict`.
        adapter: a task of Jina Embeddings v3 as it is published, whose adapter is added.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: the files are damaged or do not belong together, or there is no such adapter.
    """
    format = format_of(folder)
    if adapter is not None:
        if format != "hf":
            raise task_adapters.no_adapters(adapter, folder)
        return hugging_face.read(folder, ignore_config_keys, adapter)
    if format == "hf" and encoder_decoder.is_encoder_decoder(folder):
        return encoder_decoder.read(folder, ignore_config_keys)
    return _READERS[format].read(folder, ignore_config_keys)


def writable(checkpoint: Checkpoint, format: Format) -> Checkpoint:
    """Returns what of a checkpoint a format has a place for: of its head, of padding."""
    if format == "gliner":
        return gliner.writable(checkpoint)
    if format == "hf" and checkpoint.architecture != ENCODER_DECODER:
        return hugging_face.writable(checkpoint)
    return checkpoint


def write(checkpoint: Checkpoint, folder: str | os.PathLike, format: Format) -> None:
    """Writes a checkpoint into a folder that exists.

    Raises:
        ValueError: the format cannot hold the head or a value of the config.
    """
    if pooling := checkpoint.head.get("pooling"):
        raise ValueError(
            f"the {checkpoint.architecture} tells classes apart by pooled vectors of tokens "
            f"(pooling {pooling!r}), and the format {format} has no such head: convert its encoder "
            "alone (from_preset of BertEncoder, save_to_preset), or export it to be served"
        )
    if format == "hf" and checkpoint.architecture == ENCODER_DECODER:
        encoder_decoder.write(checkpoint, folder)
    else:
        _FORMATS[format].write(checkpoint, folder)
