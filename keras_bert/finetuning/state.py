"""Where a fine-tuning run stands: what its checkpoints keep besides weights and moments."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf

from keras_bert.storage.files import atomic_file
from keras_bert.training.base_optimizer import BaseOptimizer
from keras_bert.training.checkpointing import TrainingCheckpoint
from keras_bert.training.precision import DynamicLossScale

# The latest, and one to go back to where it is damaged.
_KEPT = 2
# The loss at the end of a run is the mean over this fraction of the last epoch's steps.
_LAST_FRACTION = 0.25


@dataclasses.dataclass
class LossMean:
    """The mean of losses, each weighted by the number of its examples."""

    total: float = 0.0
    examples: float = 0.0

    def add(self, loss: float, examples: float) -> None:
        """Counts the loss of a batch."""
        self.total += loss * examples
        self.examples += examples

    @property
    def value(self) -> float:
        """The mean; infinite before the first batch."""
        return self.total / self.examples if self.examples else math.inf


@dataclasses.dataclass
class FinetuningState:
    """Where a run stands.

    Attributes:
        epoch: epochs that are done, their evaluation too.
        step: steps done in the epoch under way.
        loss: mean training loss of the epoch under way, or of the last one.
        last_loss: the same over the last quarter of its steps.
        tokens: real tokens trained so far.
        seconds: time so far, that of evaluations included.
        evaluation_seconds: time that evaluations took.
        history: for each epoch its number, training loss and metrics of the validation data.
        best_epoch: counted from 1; 0 before the first.
        best_metrics: those of the validation data after it.
    """

    epoch: int = 0
    step: int = 0
    loss: LossMean = dataclasses.field(default_factory=LossMean)
    last_loss: LossMean = dataclasses.field(default_factory=LossMean)
    tokens: float = 0.0
    seconds: float = 0.0
    evaluation_seconds: float = 0.0
    history: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    best_epoch: int = 0
    best_metrics: dict[str, float] = dataclasses.field(default_factory=dict)

    def add_step(self, loss: float, examples: float, steps_per_epoch: int) -> None:
        """Takes note of a step."""
        if self.step == 0:
            self.loss, self.last_loss = LossMean(), LossMean()
        self.loss.add(loss, examples)
        if self.step >= int(steps_per_epoch * (1 - _LAST_FRACTION)):
            self.last_loss.add(loss, examples)
        self.step += 1

    def to_json(self) -> str:
        """Returns everything as text; numbers come back as they were."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Reads what `to_json` wrote."""
        content = json.loads(text)
        means = {name: LossMean(**content[name]) for name in ("loss", "last_loss")}
        return cls(**content | means)


class FinetuningCheckpoint:
    """Saves and restores a run: weights, moments, step, state, and the weights of the best epoch.

    The latter lie in files of their own, written once an epoch at most.

    Args:
        folder: where the files go.
        model: the model being trained.
        optimizer: its optimizer, built.
        loss_scale: the loss scale of float16 training; None for other precisions.
        io_device: see `TrainingCheckpoint`.
    """

    def __init__(
        self,
        folder: Path,
        model: keras.Model,
        optimizer: BaseOptimizer,
        loss_scale: DynamicLossScale | None,
        io_device: str | None = None,
    ):
        self._folder = folder
        self._text = tf.Variable("", dtype=tf.string, trainable=False)
        kept = {"state": self._text} | (loss_scale.variables if loss_scale else {})
        self._checkpoint = TrainingCheckpoint(str(folder), model, optimizer, kept, _KEPT, io_device)
        self._saved_step: int | None = None
        self._saved_best = 0

    @property
    def step(self) -> int:
        """Steps done in all epochs."""
        return self._checkpoint.step

    def restore(self) -> tuple[FinetuningState, list[np.ndarray], list[str]]:
        """Goes back to the latest checkpoint that is whole.

        Returns:
            The state, that of a new run where there is no checkpoint; the weights of the best
            epoch so far; and a sentence for each checkpoint that is damaged.

        Raises:
            ValueError: none can be restored, or the weights of the best epoch cannot be read.
        """
        restored, damaged = self._checkpoint.restore()
        if not restored:
            return FinetuningState(), [], []
        state = FinetuningState.from_json(self._text.numpy().decode())
        self._saved_step, self._saved_best = self.step, state.best_epoch
        if not state.best_epoch:
            return state, [], damaged
        path = self._best_file(state.best_epoch)
        try:
            with np.load(path) as arrays:
                best = [arrays[name] for name in arrays.files]  # in the order they were written
        except Exception as error:  # a damaged file is reported in half a dozen ways
            raise ValueError(
                f"{path} cannot be read ({error}): remove {self._folder} to begin the run anew"
            ) from error
        return state, best, damaged

    def save(self, state: FinetuningState, best_weights: list[np.ndarray]) -> None:
        """Writes a checkpoint, unless there is one of this very step.

        Written over, that could be left half old and half new. An evaluation since then, which is
        all that can have happened, is repeated by a run that goes on from it.
        """
        if self._saved_step == self.step:
            return
        best = self._best_file(state.best_epoch)
        # One that is there may be of a part of the run that was lost and has been redone.
        if state.best_epoch != self._saved_best:
            with atomic_file(best) as path, open(path, "wb") as file:
                np.savez(file, *best_weights)
        self._text.assign(state.to_json())
        self._checkpoint.save()
        kept = {best, self._best_file(self._saved_best)}
        for path in self._folder.glob(self._best_file("*").name):
            if path not in kept:
                path.unlink()
        self._saved_step, self._saved_best = self.step, state.best_epoch

    def _best_file(self, epoch: int | str) -> Path:
        return self._folder / f"best-epoch-{epoch}.npz"
