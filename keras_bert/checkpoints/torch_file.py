"""PyTorch's `.bin` files without PyTorch and without running the code that a pickle can carry.

Two layouts: a zip archive (PyTorch >= 1.6) and the older stream of pickles followed by the bytes.
The unpickler knows the handful of names that a dict of tensors needs and refuses all others.
"""

import collections
import contextlib
import dataclasses
import errno
import os
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np

from keras_bert.checkpoints.name_table import Tensors

_STORAGE_TYPES = {
    "FloatStorage": np.dtype(np.float32),
    "DoubleStorage": np.dtype(np.float64),
    "HalfStorage": np.dtype(np.float16),
    "BFloat16Storage": np.dtype(ml_dtypes.bfloat16),
    "LongStorage": np.dtype(np.int64),
    "IntStorage": np.dtype(np.int32),
    "ShortStorage": np.dtype(np.int16),
    "CharStorage": np.dtype(np.int8),
    "ByteStorage": np.dtype(np.uint8),
    "BoolStorage": np.dtype(np.bool_),
}
# What reading raises of a file whose bytes are not those that were written: a flipped bit may stand
# in a name of the archive, in a compressed part or in the pickle.
_DAMAGES = (
    *(pickle.UnpicklingError, struct.error, zipfile.BadZipFile, zlib.error, EOFError),
    *(ValueError, LookupError, TypeError, AttributeError, RuntimeError, MemoryError, SystemError),
)
# First number of a file in the older layout (torch/serialization.py, MAGIC_NUMBER).
_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C


@dataclasses.dataclass(frozen=True)
class _Storage:
    key: str
    dtype: np.dtype
    elements: int


@dataclasses.dataclass(frozen=True)
class _StoredTensor:
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def values(self, flat: np.ndarray) -> np.ndarray:
        """Cuts the tensor out of its storage."""
        last = self.offset + sum(
            (size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True)
        )
        empty = 0 in self.shape
        if min(self.offset, *self.strides, 0) < 0 or (not empty and last >= len(flat)):
            raise ValueError("a tensor reaches beyond its storage: the file is damaged")
        strides = tuple(stride * flat.itemsize for stride in self.strides)
        return np.lib.stride_tricks.as_strided(flat[self.offset :], self.shape, strides).copy()


def read(path: str | os.PathLike) -> Tensors:
    """Opens a file written by `torch.save` of a dict of tensors.

    Args:
        path: the file.

    Raises:
        ValueError: it is damaged or holds anything but tensors.
    """
    with _readable(path):
        if zipfile.is_zipfile(path):
            state, storage = _open_archive(Path(path))
        else:
            state, storage = _open_legacy(Path(path))
        if not isinstance(state, dict) or not all(
            isinstance(name, str) and isinstance(value, _StoredTensor)
            for name, value in state.items()
        ):
            raise ValueError("it holds something other than a dict of named tensors")
        stored: dict[str, _StoredTensor] = state

    def values(name: str) -> np.ndarray:
        with _readable(path):
            return stored[name].values(storage(stored[name].storage))

    return Tensors(str(path), {name: tensor.shape for name, tensor in stored.items()}, values)


@contextlib.contextmanager
def _readable(path: str | os.PathLike) -> Iterator[None]:
    """Turns what damaged bytes raise, in archives and in pickles, into one error of the file."""
    try:
        yield
    except (*_DAMAGES, OSError) as error:
        # A damaged number may ask for a place in front of the file, which no disk refuses.
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        raise ValueError(f"{path} is not a readable PyTorch checkpoint: {error}") from None


def _open_archive(path: Path) -> tuple[Any, Callable[[_Storage], np.ndarray]]:
    with zipfile.ZipFile(path) as archive:
        pickled = next((name for name in archive.namelist() if name.endswith("/data.pkl")), None)
        if pickled is None:
            raise ValueError("the archive holds no data.pkl")
        root = pickled.removesuffix("/data.pkl")
        with archive.open(pickled) as file:
            state = _TensorUnpickler(file).load()

    def storage(wanted: _Storage) -> np.ndarray:
        with zipfile.ZipFile(path) as archive:
            return np.frombuffer(archive.read(f"{root}/data/{wanted.key}"), wanted.dtype)

    return state, storage


def _open_legacy(path: Path) -> tuple[Any, Callable[[_Storage], np.ndarray]]:
    with open(path, "rb") as file:
        if _TensorUnpickler(file).load() != _LEGACY_MAGIC:
            raise ValueError("it starts with neither a zip header nor PyTorch's magic number")
        for _ in ("protocol version", "system information"):
            _TensorUnpickler(file).load()
        unpickler = _TensorUnpickler(file)
        state = unpickler.load()
        starts = {}
        for key in _TensorUnpickler(file).load():
            starts[key] = file.tell() + 8  # behind the number of elements, an int64
            (elements,) = struct.unpack("<q", file.read(8))
            file.seek(elements * unpickler.storages[key].dtype.itemsize, os.SEEK_CUR)

    def storage(wanted: _Storage) -> np.ndarray:
        return np.fromfile(path, wanted.dtype, wanted.elements, offset=starts[wanted.key])

    return state, storage


_ALLOWED = {
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): lambda storage, offset, shape, strides, *_: (
        _StoredTensor(storage, offset, tuple(shape), tuple(strides))
    ),
    ("torch._utils", "_rebuild_parameter"): lambda tensor, *_: tensor,
    **{("torch", name): dtype for name, dtype in _STORAGE_TYPES.items()},
}


class _TensorUnpickler(pickle.Unpickler):
    """Reads one pickle; storages become placeholders, foreign names an error."""

    def __init__(self, file: BinaryIO | Any):
        super().__init__(file, encoding="utf-8")
        self.storages: dict[str, _Storage] = {}

    def find_class(self, module: str, name: str) -> Any:
        """Returns what stands for a name, if a dict of tensors needs it."""
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(
                f"it asks for {module}.{name}, which a dict of tensors does not need: refused"
            )
        return _ALLOWED[module, name]

    def persistent_load(self, identifier: Any) -> _Storage:
        """Returns the placeholder of a storage."""
        if identifier[0] != "storage":
            raise pickle.UnpicklingError(f"unknown kind of stored object {identifier[0]!r}")
        _, dtype, key, _, elements, *_ = identifier
        self.storages[key] = _Storage(key, dtype, elements)
        return self.storages[key]
