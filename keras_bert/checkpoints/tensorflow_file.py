"""TensorFlow checkpoints as arrays: flat ones of TensorFlow 1, object graphs of TensorFlow 2."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.checkpoints.name_table import Tensors

_GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
_VALUE = "VARIABLE_VALUE"
_INDEX = ".index"
# Stands for a slash inside the name of one edge (Keras names one "output_bias/bias").
_SLASH = "|"


def find_prefix(folder: str | os.PathLike) -> Path:
    """Returns the prefix of the one checkpoint in a folder.

    With several, that is the latest one that the folder's `checkpoint` file names.

    Raises:
        FileNotFoundError: there is none, or its data is missing.
        ValueError: there are several, and no `checkpoint` file names the latest.
    """
    import tensorflow as tf

    found = sorted(Path(folder).glob(f"*{_INDEX}"))
    if not found:
        raise FileNotFoundError(f"{folder} holds no TensorFlow checkpoint (*{_INDEX})")
    prefix = found[0].with_name(found[0].name.removesuffix(_INDEX))
    if len(found) > 1:
        latest = tf.train.latest_checkpoint(folder)
        if latest is None:
            names = ", ".join(path.name for path in found)
            raise ValueError(f"{folder} holds several checkpoints ({names}): keep one of them")
        prefix = Path(latest)
    if not list(prefix.parent.glob(f"{prefix.name}.data-*")):
        raise FileNotFoundError(f"{prefix}.data-* does not exist: the checkpoint is incomplete")
    return prefix


def is_object_graph(prefix: str | os.PathLike) -> bool:
    """Whether a checkpoint was written by `tf.train.Checkpoint`."""
    return _reader(prefix).has_tensor(_GRAPH_KEY)


def read_flat(prefix: str | os.PathLike) -> Tensors:
    """Opens a TensorFlow 1 checkpoint.

    Raises:
        ValueError: the file is damaged.
    """
    reader = _reader(prefix)
    shapes = {name: tuple(shape) for name, shape in reader.get_variable_to_shape_map().items()}
    return Tensors(
        str(prefix), dict(sorted(shapes.items())), lambda name: _read(reader, name, prefix)
    )


def write_flat(tensors: Mapping[str, np.ndarray], prefix: str | os.PathLike) -> None:
    """Writes a checkpoint that TensorFlow 1 reads."""
    import tensorflow as tf

    names = list(tensors)
    with tf.device("CPU"):
        tf.raw_ops.SaveV2(
            prefix=str(prefix),
            tensor_names=names,
            shape_and_slices=[""] * len(names),
            tensors=[tensors[name] for name in names],
        )


class ObjectGraph:
    """The variables of a TensorFlow 2 checkpoint, found by walking from object to object.

    A variable that several objects share is stored once, under the key of whichever object comes
    first; walking the graph finds it from all of them. In a path, "|" is a slash within a name.

    Args:
        prefix: path of the checkpoint without ".index".

    Raises:
        ValueError: the checkpoint is damaged.
    """

    def __init__(self, prefix: str | os.PathLike):
        # Part of the TensorFlow wheel, and the only description of the format there is.
        from tensorflow.core.protobuf import trackable_object_graph_pb2

        graph = trackable_object_graph_pb2.TrackableObjectGraph()
        reader = _reader(prefix)
        graph.ParseFromString(_read(reader, _GRAPH_KEY, prefix))
        self._nodes = graph.nodes
        self._reader = reader
        self._shapes = reader.get_variable_to_shape_map()
        self.source = str(prefix)

    def shape_of(self, path: str) -> tuple[int, ...] | None:
        """Returns the shape of the variable at a path of edges, None if there is none."""
        key = self._key_of(path)
        return None if key is None else tuple(self._shapes[key])

    def _key_of(self, path: str) -> str | None:
        node = self._walk(path)
        if node is None:
            return None
        return next((item.checkpoint_key for item in node.attributes if item.name == _VALUE), None)

    def has(self, path: str) -> bool:
        """Whether a path of edges leads to an object."""
        return self._walk(path) is not None

    def _walk(self, path: str) -> Any:
        node, rest = self._nodes[0], path.replace(_SLASH, "/")
        while rest:
            for child in node.children:
                if f"{rest}/".startswith(f"{child.local_name}/"):
                    node, rest = self._nodes[child.node_id], rest[len(child.local_name) + 1 :]
                    break
            else:
                return None
        return node

    def tensors(self, paths: list[str]) -> Tensors:
        """Returns the variables at these paths under them, the others under their keys."""
        keys = {path: key for path in paths if (key := self._key_of(path))}
        found = set(keys.values())
        keys |= {key: key for key in self._shapes if key not in found and key != _GRAPH_KEY}
        shapes = {name: tuple(self._shapes[key]) for name, key in keys.items()}
        return Tensors(
            self.source, shapes, lambda name: _read(self._reader, keys[name], self.source)
        )

    def named_tensors(self) -> Tensors:
        """Returns all variables under the names of their layers, where these are their own."""
        keys: dict[str, str] = {}
        for node in self._nodes:
            for item in node.attributes:
                if item.name == _VALUE and item.checkpoint_key in self._shapes:
                    unnamed = item.full_name in ("", "Variable") or item.full_name in keys
                    keys[item.checkpoint_key if unnamed else item.full_name] = item.checkpoint_key
        shapes = {name: tuple(self._shapes[key]) for name, key in keys.items()}
        return Tensors(self.source, shapes, lambda name: self._reader.get_tensor(keys[name]))


def write_object_graph(
    tensors: Mapping[str, np.ndarray],
    shared: Mapping[str, str],
    prefix: str | os.PathLike,
) -> None:
    """Writes a checkpoint that `tf.train.Checkpoint` restores by attribute names.

    Args:
        tensors: the values by path of edges. An edge whose name holds a slash spells it "|".
        shared: path of edges -> another path that leads to the same object.
        prefix: the files to write.
    """
    import tensorflow as tf

    root = tf.train.Checkpoint()
    for path, value in tensors.items():
        _attach(root, path, tf.Variable(value))
    for path, target in shared.items():
        node = root
        for name in target.split("/"):
            node = getattr(node, name.replace(_SLASH, "/"))
        _attach(root, path, node)
    root.write(str(prefix))


def _attach(root: Any, path: str, value: Any) -> None:
    import tensorflow as tf

    *parents, last = path.split("/")
    node = root
    for name in parents:
        if not hasattr(node, name):
            setattr(node, name, tf.train.Checkpoint())
        node = getattr(node, name)
    setattr(node, last.replace(_SLASH, "/"), value)


def _reader(prefix: str | os.PathLike) -> Any:
    import tensorflow as tf

    try:
        return tf.train.load_checkpoint(str(prefix))
    except (ValueError, tf.errors.OpError) as error:
        raise ValueError(f"{prefix} is no readable TensorFlow checkpoint: {error}") from None


def _read(reader: Any, name: str, prefix: str | os.PathLike) -> Any:
    import tensorflow as tf

    try:
        return reader.get_tensor(name)
    # A data file that was cut short, told as an IndexError; one with other bytes, as DataLossError.
    except (IndexError, ValueError, tf.errors.OpError) as error:
        raise ValueError(f"{prefix}.data-* is damaged at {name}: {error}") from None
