"""What happens between the steps and epochs of fine-tuning."""

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np

from keras_bert.progress import Progress
from keras_bert.training.run_folder import RunFolder

Metrics = dict[str, float]


# The loss at the end of a run is the mean over this share of the last epoch's steps.
_LAST_SHARE = 0.25


class DivergenceError(ValueError):
    """The loss of a run is no longer finite."""


class StepReport(keras.callbacks.Callback):
    """Moves the progress on and stops a run whose loss is lost.

    Args:
        progress: counts steps.
        tokens_per_step: real tokens of a step, on average.

    Attributes:
        last_loss: mean training loss over the last quarter of the last epoch.
        tokens: real tokens trained so far.

    Raises:
        DivergenceError: while training, when the loss is no longer finite.
    """

    def __init__(self, progress: Progress, tokens_per_step: float):
        super().__init__()
        self._progress = progress
        self._tokens_per_step = tokens_per_step
        self._epoch = 0
        self._means: list[float] = []
        self._started = 0.0
        self.last_loss = math.inf
        self.tokens = 0.0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Notes the number of the epoch."""
        self._epoch = epoch + 1
        self._means = []
        self._started = time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Reports a step."""
        loss = float(logs["loss"])  # the mean over the epoch so far
        if not math.isfinite(loss):
            raise DivergenceError(
                f"the loss is {loss} at step {batch + 1} of epoch {self._epoch}: lower "
                "--learning_rate; no model was written"
            )
        self._means.append(loss)
        self.tokens += self._tokens_per_step
        rate = self._tokens_per_step * (batch + 1) / (time.perf_counter() - self._started)
        self._progress.update(
            1, epoch=self._epoch, loss=f"{loss:.4f}", real_tokens_per_s=f"{rate:,.0f}"
        )

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Takes the loss of the last steps out of the running means."""
        count = len(self._means)
        first = int(count * (1 - _LAST_SHARE))
        before = first * self._means[first - 1] if first else 0.0
        self.last_loss = (count * self._means[-1] - before) / (count - first)


class BestEpoch(keras.callbacks.Callback):
    """Evaluates after each epoch and keeps the weights of the best one, or of the last.

    Args:
        evaluate: measures the model on the validation data; returns nothing where there is none.
        best_by: the metric whose highest value is the best.
        folder: where metrics are logged.
        progress: where they are shown.
        patience: stop after so many epochs without a better one; None goes on.

    Attributes:
        history: for each epoch its number, its training loss and what `evaluate` returned.
        best_epoch: counted from 1.
        best_metrics: what `evaluate` returned after it.
        best_weights: the weights after it.
        seconds: time that the evaluations took.
    """

    def __init__(
        self,
        evaluate: Callable[[], Metrics],
        best_by: str,
        folder: RunFolder,
        progress: Progress,
        patience: int | None = None,
    ):
        super().__init__()
        self._progress = progress
        self._evaluate = evaluate
        self._best_by = best_by
        self._folder = folder
        self._patience = patience
        self.history: list[Mapping[str, Any]] = []
        self.best_epoch = 0
        self.best_metrics: Metrics = {}
        self.best_weights: list[np.ndarray] = []
        self.seconds = 0.0

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Evaluates and compares."""
        started = time.perf_counter()
        loss, metrics = float(logs["loss"]), self._evaluate()
        self.seconds += time.perf_counter() - started
        self._log(epoch + 1, loss, metrics)
        if not metrics or not self.best_metrics or self._is_better(metrics):
            self.best_epoch, self.best_metrics = epoch + 1, metrics
            self.best_weights = self.model.get_weights()
        elif self._patience is not None and epoch + 1 - self.best_epoch >= self._patience:
            self._progress.write(f"stopped: no better {self._best_by} for {self._patience} epochs")
            self.model.stop_training = True

    def _is_better(self, metrics: Metrics) -> bool:
        # The loss decides between equals: on small validation sets accuracies are often equal.
        new, best = (
            (values[self._best_by], -values["loss"]) for values in (metrics, self.best_metrics)
        )
        return new > best

    def _log(self, epoch: int, loss: float, metrics: Metrics) -> None:
        self.history.append({"epoch": epoch, "train_loss": loss, "validation": metrics})
        step = int(self.model.optimizer.iterations.numpy())
        self._folder.log("train", step, {"epoch": epoch, "loss": loss})
        shown = f"epoch {epoch}: train loss {loss:.4f}"
        if metrics:
            self._folder.log("validation", step, {"epoch": epoch, **metrics})
            values = ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())
            shown += f"; validation {values}"
        self._progress.write(shown)
