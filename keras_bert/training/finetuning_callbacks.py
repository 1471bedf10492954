"""What happens between the steps and epochs of fine-tuning."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np

from keras_bert.progress import Progress
from keras_bert.training.run_folder import RunFolder

Metrics = dict[str, float]


class StepReport(keras.callbacks.Callback):
    """Moves the progress on and stops a run whose loss is lost.

    Args:
        progress: counts steps.

    Raises:
        ValueError: while training, when the loss is no longer finite.
    """

    def __init__(self, progress: Progress):
        super().__init__()
        self._progress = progress
        self._epoch = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Notes the number of the epoch."""
        self._epoch = epoch + 1

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Reports a step."""
        loss = float(logs["loss"])
        if not math.isfinite(loss):
            raise ValueError(
                f"the loss is {loss} at step {batch + 1} of epoch {self._epoch}: lower "
                "--learning_rate; no model was written"
            )
        self._progress.update(1, epoch=self._epoch, loss=f"{loss:.4f}")


class BestEpoch(keras.callbacks.Callback):
    """Evaluates after each epoch and keeps the weights of the best one, or of the last.

    Args:
        evaluate: measures the model on the validation data; returns nothing where there is none.
        best_by: the metric whose highest value is the best.
        folder: where metrics are logged.
        progress: where they are shown.

    Attributes:
        history: for each epoch its number, its training loss and what `evaluate` returned.
        best_epoch: counted from 1.
        best_metrics: what `evaluate` returned after it.
        best_weights: the weights after it.
    """

    def __init__(
        self,
        evaluate: Callable[[], Metrics],
        best_by: str,
        folder: RunFolder,
        progress: Progress,
    ):
        super().__init__()
        self._progress = progress
        self._evaluate = evaluate
        self._best_by = best_by
        self._folder = folder
        self.history: list[Mapping[str, Any]] = []
        self.best_epoch = 0
        self.best_metrics: Metrics = {}
        self.best_weights: list[np.ndarray] = []

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Evaluates and compares."""
        loss, metrics = float(logs["loss"]), self._evaluate()
        self._log(epoch + 1, loss, metrics)
        if not metrics or not self.best_metrics or self._is_better(metrics):
            self.best_epoch, self.best_metrics = epoch + 1, metrics
            self.best_weights = self.model.get_weights()

    def _is_better(self, metrics: Metrics) -> bool:
        # The loss decides between equals: on small validation sets accuracies are often equal.
        new, best = (
            (values[self._best_by], -values["loss"]) for values in (metrics, self.best_metrics)
        )
        return new > best

    def _log(self, epoch: int, loss: float, metrics: Metrics) -> None:
        self.history.append({"epoch": epoch, "train_loss": loss, "validation": metrics})
        step = int(self.model.optimizer.iterations)
        self._folder.log("train", step, {"epoch": epoch, "loss": loss})
        shown = f"epoch {epoch}: train loss {loss:.4f}"
        if metrics:
            self._folder.log("validation", step, {"epoch": epoch, **metrics})
            values = ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())
            shown += f"; validation {values}"
        self._progress.write(shown)
