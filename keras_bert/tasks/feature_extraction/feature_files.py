"""Features on disk: `.npz` (a few arrays for all texts) or `.tfrecord` (an example a text).

Shapes: N texts, U pieces or words of all texts together, D width of the features.

`.npz`: values [U, D]; row_splits int64 [N+1], text n has the rows row_splits[n] to
row_splits[n + 1]; starts and ends int32 [U], where in the text each stands; ids int32 [U], for
pieces alone; text_bytes uint8, the texts in UTF-8 one behind the other, and text_splits int64
[N+1]. `.tfrecord`: text, values (a serialized tensor [units, D]), starts, ends and ids.
"""

import os
import shutil
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.framework.tensor_pb2 import TensorProto

from keras_bert.storage.files import atomic_file
from keras_bert.storage.paths import check_file
from keras_bert.tasks.feature_extraction.extraction import TextFeatures

# What a file of something else, or a part of one, makes their libraries raise.
_DAMAGED = (LookupError, ValueError, EOFError, zipfile.BadZipFile, tf.errors.OpError, DecodeError)


def write_features(
    path: str | os.PathLike, features: Iterable[TextFeatures], dtype: str = "float16"
) -> None:
    """Writes features as they come; the file appears whole or not at all.

    Args:
        path: ends in `.npz` or `.tfrecord`.
        features: features of one level.
        dtype: of the values, "float16" or "float32".

    Raises:
        ValueError: the path ends otherwise, there is no text, or a value is too large for float16.
    """
    write = writer_for(path)
    with atomic_file(path) as temporary:
        write(temporary, _checked(features, dtype))


def writer_for(path: str | os.PathLike) -> Callable[[Path, Iterable[TextFeatures]], None]:
    """Returns what writes files of this ending.

    Raises:
        ValueError: there is none.
    """
    suffix = Path(path).suffix
    if suffix not in _WRITERS:
        raise ValueError(f"{path} must end in {' or '.join(_WRITERS)}: rename it")
    return _WRITERS[suffix]


def _checked(features: Iterable[TextFeatures], dtype: str) -> Iterator[TextFeatures]:
    largest = np.finfo(dtype).max
    text = None
    for text in features:
        found = np.abs(text.values).max(initial=0)
        if np.isnan(found):
            raise ValueError("a feature is not a number: the weights of the model are damaged")
        if found > largest:
            raise ValueError(
                f"a feature is larger than {largest}, the most that {dtype} holds: use float32"
            )
        yield text._replace(values=text.values.astype(dtype))
    if text is None:
        raise ValueError("there is no text to make features of: give at least one")


def read_features(path: str | os.PathLike) -> Iterator[TextFeatures]:
    """Yields what `write_features` wrote.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the path ends neither in `.npz` nor in `.tfrecord`, or the file is another one
            or damaged.
    """
    writer_for(path)
    check_file(path, "a file that write_features wrote")
    return _undamaged(path, _read_npz if Path(path).suffix == ".npz" else _read_records)


def _undamaged(
    path: str | os.PathLike, read: Callable[[str | os.PathLike], Iterator[TextFeatures]]
) -> Iterator[TextFeatures]:
    try:
        yield from read(path)
    except _DAMAGED as error:
        reason = type(error).__name__
        raise ValueError(
            f"{path} holds no features, or is damaged ({reason}): write it again with "
            "extract_features.py"
        ) from error


class _Column:
    """One array of an `.npz` that grows on disk, because its length is known only at the end."""

    def __init__(self, folder: Path, name: str):
        self.name = name
        self.length = 0
        self._path = folder / f"{name}.rows"
        self._file: BinaryIO = open(self._path, "wb")
        self._row_shape: tuple[int, ...] = ()
        self._dtype = np.dtype("uint8")

    def append(self, rows: np.ndarray) -> None:
        self.length += len(rows)
        self._row_shape, self._dtype = rows.shape[1:], rows.dtype
        self._file.write(np.ascontiguousarray(rows).data)

    def copy_to(self, archive: zipfile.ZipFile) -> None:
        self._file.close()
        header = {
            "descr": np.lib.format.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": (self.length, *self._row_shape),
        }
        with archive.open(f"{self.name}.npy", "w", force_zip64=True) as entry:
            np.lib.format.write_array_header_2_0(entry, header)
            with open(self._path, "rb") as rows:
                shutil.copyfileobj(rows, entry, 1 << 20)
        self._path.unlink()


def _write_npz(path: Path, features: Iterable[TextFeatures]) -> None:
    columns: dict[str, _Column] = {}

    def append(name: str, rows: np.ndarray) -> None:
        if name not in columns:
            columns[name] = _Column(path.parent, name)
        columns[name].append(rows)

    append("row_splits", np.zeros([1], np.int64))
    append("text_splits", np.zeros([1], np.int64))
    for text in features:
        append("values", text.values)
        append("starts", text.starts)
        append("ends", text.ends)
        if text.ids is not None:
            append("ids", text.ids)
        append("text_bytes", np.frombuffer(text.text.encode("utf-8"), np.uint8))
        append("row_splits", np.array([columns["values"].length], np.int64))
        append("text_splits", np.array([columns["text_bytes"].length], np.int64))
    with zipfile.ZipFile(path, "w") as archive:
        for column in columns.values():
            column.copy_to(archive)


def _read_npz(path: str | os.PathLike) -> Iterator[TextFeatures]:
    with np.load(path) as arrays:
        parts = {name: arrays[name] for name in arrays.files}
    rows, text_splits = parts["row_splits"], parts["text_splits"]
    for text in range(len(rows) - 1):
        units = slice(rows[text], rows[text + 1])
        content = parts["text_bytes"][text_splits[text] : text_splits[text + 1]].tobytes()
        yield TextFeatures(
            content.decode("utf-8"),
            parts["values"][units],
            parts["starts"][units],
            parts["ends"][units],
            parts["ids"][units] if "ids" in parts else None,
        )


def _write_records(path: Path, features: Iterable[TextFeatures]) -> None:
    with tf.io.TFRecordWriter(os.fspath(path)) as writer:
        for text in features:
            values = tf.io.serialize_tensor(text.values).numpy()
            fields = {
                "text": _bytes(text.text.encode("utf-8")),
                "values": _bytes(values),
                "starts": _integers(text.starts),
                "ends": _integers(text.ends),
            }
            if text.ids is not None:
                fields["ids"] = _integers(text.ids)
            example = tf.train.Example(features=tf.train.Features(feature=fields))
            writer.write(example.SerializeToString())


def _read_records(path: str | os.PathLike) -> Iterator[TextFeatures]:
    for record in tf.data.TFRecordDataset(os.fspath(path)).as_numpy_iterator():
        fields = tf.train.Example.FromString(record).features.feature
        values = TensorProto.FromString(fields["values"].bytes_list.value[0])
        integers = {
            name: np.array(fields[name].int64_list.value, np.int32)
            for name in ("starts", "ends", "ids")
            if name in fields
        }
        yield TextFeatures(
            fields["text"].bytes_list.value[0].decode("utf-8"),
            tf.make_ndarray(values),
            integers["starts"],
            integers["ends"],
            integers.get("ids"),
        )


def _bytes(value: bytes) -> tf.train.Feature:
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def _integers(values: np.ndarray) -> tf.train.Feature:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


_WRITERS = {".npz": _write_npz, ".tfrecord": _write_records}
