"""Checkpoints of a training run: everything that the next step depends on."""

import contextlib
import os
import re
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

_NAME = "step"
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"  # ends the name of a variable in TensorFlow's files
# What TensorFlow writes before a checkpoint, or its list of them, gets its name.
_TEMPORARY = re.compile(
    rf"{_NAME}-\d+_temp|{_NAME}-\d+\..*\.tempstate\d+|checkpoint\.tmp[0-9a-f]{{32}}"
)
# Errors of a store that is out of reach, which say nothing of the files in it.
_OUT_OF_REACH = (
    tf.errors.UnavailableError,
    tf.errors.DeadlineExceededError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.PermissionDeniedError,
    tf.errors.UnauthenticatedError,
)


class TrainingCheckpoint:
    """Saves and restores weights, optimizer slots, step and a run's own numbers, atomically.

    Variables are stored under their paths. Dropout seeds are not stored: they follow from the step
    (see `PretrainingStep`), and so does the position in the data.

    Args:
        folder: where the files go; any file system that TensorFlow knows.
        model: the model being trained.
        optimizer: its optimizer, built.
        state: further variables by name.
        keep: how many of the latest checkpoints stay.
        io_device: the device whose machine reads and writes the files; None for that of each
            variable, which for a TPU slice is another machine than this one.

    Raises:
        ValueError: `keep` is below 1, or two variables have the same path.
    """

    def __init__(
        self,
        folder: str | os.PathLike,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        state: Mapping[str, tf.Variable],
        keep: int = 3,
        io_device: str | None = None,
    ):
        if keep < 1:
            raise ValueError(f"keep_checkpoints is {keep}: a run needs one at least to be resumed")
        self._folder = os.fspath(folder)
        self._optimizer = optimizer
        self._files = tf.train.CheckpointOptions(experimental_io_device=io_device)
        self._stored = {
            "model": _by_path(model.weights),
            "optimizer": _by_path(optimizer.variables),
            "state": dict(state),
        }
        self._checkpoint = tf.train.Checkpoint(**self._stored)
        self._manager = tf.train.CheckpointManager(
            self._checkpoint, self._folder, max_to_keep=keep, checkpoint_name=_NAME
        )
        self._tidied = False

    @property
    def step(self) -> int:
        """Steps done."""
        return int(self._optimizer.iterations.numpy())

    def restore(self, folder: str | None = None) -> tuple[bool, list[str]]:
        """Goes back to the latest checkpoint that is whole.

        Args:
            folder: where checkpoints are looked for; by default where this one writes them.

        Returns:
            Whether there was one, and a sentence for each later one that is damaged.

        Raises:
            ValueError: there are checkpoints but none can be restored: they are damaged, or of
                another model; or the latest one cannot be reached, which a later start may do.
        """
        folder = folder or self._folder
        damaged: list[str] = []
        found = _by_step(folder)
        for path in [found[number] for number in sorted(found, reverse=True)]:
            try:
                self._checkpoint.restore(path, options=self._files).assert_consumed()
                return True, damaged
            except _OUT_OF_REACH as error:
                raise ValueError(
                    f"checkpoint {path} cannot be reached: {_first_line(error)}; start the same "
                    "command again when it can"
                ) from error
            # TensorFlow reports a damaged file as one of half a dozen unrelated exceptions.
            except Exception as error:
                damaged.append(f"checkpoint {path} cannot be restored: {_first_line(error)}")
        if damaged:
            raise ValueError(f"{damaged[0]}; nor can any other in {folder}")
        return False, []

    def difference(self, folder: str) -> str | None:
        """Compares names and shapes of variables with those of another run's latest checkpoint.

        Args:
            folder: where the other run keeps its checkpoints.

        Returns:
            The first difference in words; None where there is none, or nothing to be read, which
            `restore` tells.
        """
        found = _by_step(folder)
        try:
            shapes = tf.train.load_checkpoint(found[max(found)]).get_variable_to_shape_map()
        except (ValueError, tf.errors.OpError):  # there is none, or it is damaged
            return None
        # "model/layer_0..output..kernel/.ATTRIBUTES/VARIABLE_VALUE": a dot is written as two.
        there = {
            name.removesuffix(_VALUE).replace("..", "."): tuple(shape)
            for name, shape in shapes.items()
            if name.endswith(_VALUE) and name.partition("/")[0] in self._stored
        }
        here = {
            f"{part}/{name}": tuple(variable.shape)
            for part, variables in self._stored.items()
            for name, variable in variables.items()
        }
        for name in sorted(there.keys() | here.keys()):
            was, now = there.get(name, "missing"), here.get(name, "missing")
            if was != now:
                return f"{name} is {was} there, {now} here"
        return None

    def save(self) -> str:
        """Writes a checkpoint of the present step and returns its path.

        The first one removes what a process left that was killed while it wrote: nothing else
        would, and it is as large as a checkpoint.
        """
        if not self._tidied:
            _remove_unfinished(self._folder)
            self._tidied = True
        return self._manager.save(checkpoint_number=self.step, options=self._files)


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def has_checkpoint(folder: str) -> bool:
    """Returns whether a folder holds a checkpoint, whole or damaged."""
    return bool(_by_step(folder))


def latest_step(folder: str) -> int:
    """Returns the step of the latest checkpoint, whole or damaged; 0 where there is none."""
    return max(_by_step(folder), default=0)


def _by_step(folder: str) -> dict[int, str]:
    # By the files that are there: the manager's own list of them is a file that may be lost.
    found = {}
    for name in _names(folder):
        number = re.fullmatch(rf"{_NAME}-(\d+)\.index", name)
        if number:
            found[int(number[1])] = os.path.join(folder, name.removesuffix(".index"))
    return found


def _remove_unfinished(folder: str) -> None:
    names = _names(folder)
    for name in names:
        # The index of a checkpoint is written last: data without it are of none.
        data = re.fullmatch(rf"({_NAME}-\d+)\.data-\d+-of-\d+", name)
        if _TEMPORARY.fullmatch(name) or (data and f"{data[1]}.index" not in names):
            path = os.path.join(folder, name)
            if os.path.islink(path):  # nothing that TensorFlow made
                continue
            with contextlib.suppress(tf.errors.OpError):  # no run ends for what cannot be removed
                remove = tf.io.gfile.rmtree if tf.io.gfile.isdir(path) else tf.io.gfile.remove
                remove(path)


def _names(folder: str) -> list[str]:
    try:
        return [name.rstrip("/") for name in tf.io.gfile.listdir(folder)]  # "/" ends a bucket's
    except tf.errors.NotFoundError:  # any other error is none of a folder that is not there
        return []


def _by_path(variables: list[Any]) -> dict[str, tf.Variable]:
    """Returns variables by path, "." for "/", which TensorFlow's object graph keeps to itself."""
    stored: dict[str, tf.Variable] = {}
    for variable in variables:
        # They follow from the step, see `DropoutSeeds`.
        if variable.path.endswith("seed_generator_state"):
            continue
        # "layer_0/output/kernel" is stored as "layer_0.output.kernel".
        name = variable.path.replace("/", ".")
        if name in stored:
            raise ValueError(
                f"two variables have the path {variable.path}, of which one would be lost: give "
                "their layers names that differ, or make the second encoder of a model in a scope, "
                '`with keras.name_scope("second")`'
            )
        stored[name] = variable.value
    return stored
