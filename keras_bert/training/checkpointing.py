"""Checkpoints of a training run: everything that the next step depends on."""

import os
from typing import Any

import keras
import tensorflow as tf


class TrainingCheckpoint:
    """Saves and restores weights, optimizer slots, step and time spent, atomically.

    Variables are stored under their paths. Dropout seeds are not stored: they follow from the step
    (see `PretrainingStep`).

    Args:
        folder: where the files go.
        model: the model being trained.
        optimizer: its optimizer, built.
        keep: how many of the latest checkpoints stay.
    """

    def __init__(
        self,
        folder: str | os.PathLike,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        keep: int = 3,
    ):
        self.seconds = tf.Variable(0.0, dtype=tf.float64, trainable=False)
        self._optimizer = optimizer
        checkpoint = tf.train.Checkpoint(
            model=_by_path(model.weights),
            optimizer=_by_path(optimizer.variables),
            seconds=self.seconds,
        )
        self._manager = tf.train.CheckpointManager(
            checkpoint, str(folder), max_to_keep=keep, checkpoint_name="step"
        )

    @property
    def step(self) -> int:
        """Steps done."""
        return int(self._optimizer.iterations.numpy())

    def restore(self) -> bool:
        """Goes back to the latest checkpoint; returns whether there is one.

        Raises:
            ValueError: the checkpoint is damaged or of another model.
        """
        latest = self._manager.latest_checkpoint
        if latest is None:
            return False
        try:
            self._manager.checkpoint.restore(latest).assert_consumed()
        except (AssertionError, tf.errors.OpError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise ValueError(f"checkpoint {latest} cannot be restored: {reason}") from None
        return True

    def save(self, seconds: float) -> str:
        """Writes a checkpoint of the present step and returns its path."""
        self.seconds.assign(seconds)
        return self._manager.save(checkpoint_number=self.step)


def _by_path(variables: list[Any]) -> dict[str, tf.Variable]:
    stored = {v.path: v.value for v in variables if not v.path.endswith("seed_generator_state")}
    return {path.replace("/", "."): variable for path, variable in stored.items()}
