"""Any model folder of another dialect: which it is, reading and writing it."""

import os
from pathlib import Path
from types import ModuleType
from typing import Literal

from keras_bert.checkpoints import google, hugging_face, model_garden, tensorflow_file, torch_state
from keras_bert.checkpoints.checkpoint import Checkpoint

Format = Literal["google", "hf", "garden"]

_FORMATS: dict[Format, ModuleType] = {
    "google": google,
    "hf": hugging_face,
    "garden": model_garden,
}


def format_of(folder: str | os.PathLike) -> Format:
    """Tells whose checkpoint a folder holds, by its weights.

    Raises:
        FileNotFoundError: it holds no weights of any dialect.
    """
    if torch_state.find(folder):
        return "hf"
    if not list(Path(folder).glob("*.index")):
        raise FileNotFoundError(
            f"{folder} holds no weights: expected model.weights.h5, one of "
            f"{', '.join(torch_state.WEIGHT_FILES)}, or a TensorFlow checkpoint (*.index)"
        )
    prefix = tensorflow_file.find_prefix(folder)
    return "garden" if tensorflow_file.is_object_graph(prefix) else "google"


def read(folder: str | os.PathLike) -> Checkpoint:
    """Reads a folder of Google's, Hugging Face's or Model Garden's.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: the files are damaged or do not belong together.
    """
    return _FORMATS[format_of(folder)].read(folder)


def write(checkpoint: Checkpoint, folder: str | os.PathLike, format: Format) -> None:
    """Writes a checkpoint into a folder that exists.

    Raises:
        ValueError: the format cannot hold the head or a value of the config.
    """
    _FORMATS[format].write(checkpoint, folder)
