"""The weights of a Hugging Face folder: safetensors or `.bin`, whole or in shards."""

import os
from collections.abc import Mapping
from pathlib import Path

import ml_dtypes  # noqa: F401  registers bfloat16 with NumPy, where safetensors looks for it
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from keras_bert.checkpoints import torch_file
from keras_bert.checkpoints.name_table import Tensors
from keras_bert.config import read_json

SAFETENSORS_FILE = "model.safetensors"
# In the order of preference: safetensors first, since it holds nothing but tensors.
WEIGHT_FILES = (
    SAFETENSORS_FILE,
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)


def find(folder: str | os.PathLike) -> Path | None:
    """Returns the file that holds, or lists, the weights of a folder, if there is one."""
    return next(
        (Path(folder) / name for name in WEIGHT_FILES if (Path(folder) / name).is_file()), None
    )


def read(folder: str | os.PathLike) -> Tensors:
    """Opens the weights of a folder.

    Raises:
        FileNotFoundError: there are none, or a shard is missing.
        ValueError: a file is damaged.
    """
    path = find(folder)
    if path is None:
        raise FileNotFoundError(f"{folder} holds none of {', '.join(WEIGHT_FILES)}")
    if path.suffix != ".json":
        return read_file(path)
    # An index of shards: tensor -> file beside it.
    shard_of = read_json(path).get("weight_map")
    if not isinstance(shard_of, dict):
        raise ValueError(f"{path} has no weight_map: it lists no shards")
    for name in shard_of.values():
        if not isinstance(name, str) or name in ("", ".", "..") or Path(name).name != name:
            raise ValueError(
                f"{path} places a tensor in {name!r}: the name of a file beside it is expected, "
                "without folders"
            )
    shards = {name: read_file(path.parent / name) for name in sorted(set(shard_of.values()))}
    for tensor, shard in shard_of.items():
        if tensor not in shards[shard].shapes:
            raise ValueError(f"{shard} does not hold {tensor}, which {path} places there")
    return Tensors(
        str(path),
        {name: shape for shard in shards.values() for name, shape in shard.shapes.items()},
        lambda name: next(s for s in shards.values() if name in s.shapes).read(name),
    )


def write(
    tensors: Mapping[str, np.ndarray], folder: str | os.PathLike, name: str = SAFETENSORS_FILE
) -> None:
    """Writes one safetensors file; transformers wants its framework named in it."""
    path = Path(folder) / name
    path.touch()
    mode = path.stat().st_mode
    save_file(dict(tensors), path, metadata={"format": "pt"})
    path.chmod(mode)  # safetensors 0.8 leaves a file that only its owner may read


def read_file(path: Path) -> Tensors:
    """Opens one file, `.safetensors` or `.bin`.

    Raises:
        FileNotFoundError: there is none.
        ValueError: it is damaged.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: the folder is incomplete")
    if path.suffix == ".bin":
        return torch_file.read(path)
    try:
        file = safe_open(path, framework="numpy")
    except SafetensorError as error:
        raise ValueError(f"{path} is not a readable safetensors file: {error}") from None
    shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}
    return Tensors(str(path), shapes, file.get_tensor)
