"""The host's side of fine-tuning: epochs of `model.fit`, evaluations, checkpoints, the end."""

import contextlib
import dataclasses
import functools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.finetuning.encoded_rows import TrainingBatches
from keras_bert.finetuning.metrics import goodness
from keras_bert.finetuning.options import ResolvedOptions
from keras_bert.finetuning.state import FinetuningCheckpoint
from keras_bert.progress import Progress
from keras_bert.training.cluster import Agreement, Decision, is_chief
from keras_bert.training.run_folder import RunFolder
from keras_bert.training.termination import TerminatedError, Termination

Metrics = dict[str, float]

# How much of a run may be lost when nothing else is asked for: seldom enough that writing costs
# little, and never in a run that lasts no longer.
_SECONDS_BETWEEN_CHECKPOINTS = 300.0
# How long workers go on before they ask each other whether one of them was told to stop.
_SECONDS_BETWEEN_DECISIONS = 2.0


class DivergenceError(ValueError):
    """The loss of a run is no longer finite."""


@dataclasses.dataclass
class FinetuningRun:
    """Trains to the end, from wherever the run stands.

    Args:
        options: `epochs`, `patience` and `checkpoint_steps` are used.
        model: compiled, its `train_step` a `FinetuningStep`.
        batches: what it learns from.
        tokens_per_step: real tokens of a step, on average.
        evaluate: measures the model on the validation data; returns nothing where there is none.
        best_by: the metric whose best value tells the epoch.
        folder: where metrics are logged.
        checkpoint: keeps the run; what it holds is restored.
        strategy: where it runs; all processes but the chief write nothing.

    Attributes:
        state: where the run stands.
        damaged: a sentence for each checkpoint that could not be restored.
        best_weights: those of the best epoch so far.

    Raises:
        ValueError: there are checkpoints, but none can be restored.
    """

    options: ResolvedOptions
    model: keras.Model
    batches: TrainingBatches
    tokens_per_step: float
    evaluate: Callable[[], Metrics]
    best_by: str
    folder: RunFolder
    checkpoint: FinetuningCheckpoint
    strategy: tf.distribute.Strategy

    def __post_init__(self) -> None:
        self._agree = Agreement(self.strategy)
        self.state, self.best_weights, self.damaged = self.checkpoint.restore()
        self._clock = self._saved_at = time.perf_counter()

    @property
    def step(self) -> int:
        """Steps done in all epochs."""
        return self.state.epoch * len(self.batches) + self.state.step

    @property
    def awaits_evaluation(self) -> bool:
        """Whether all steps of an epoch are done, and its evaluation is not."""
        return self.state.step == len(self.batches)

    def train(self, progress: Progress, termination: Termination) -> None:
        """Trains until all epochs are done, or no better one came for `patience` epochs.

        Args:
            progress: counts steps.
            termination: says whether the process was asked to end.

        Raises:
            DivergenceError: the loss or, but for float16, a gradient is not finite.
            TerminatedError: the process, or another worker, was asked to end.
        """

        def rank(values: Metrics) -> tuple[float, float]:
            # The loss decides between equals: on small validation sets accuracies are often equal.
            return goodness(self.best_by, values[self.best_by]), -values["loss"]

        self._clock = self._saved_at = time.perf_counter()
        while not self._finished():
            state = self.state
            if not self.awaits_evaluation:
                self.model.fit(
                    self.strategy.distribute_datasets_from_function(
                        functools.partial(self.batches.epoch, state.epoch, state.step)
                    ),
                    initial_epoch=state.epoch,
                    epochs=state.epoch + 1,
                    steps_per_epoch=len(self.batches) - state.step,
                    shuffle=False,  # the batches do it
                    verbose=0,
                    callbacks=[_Steps(self, progress, termination)],
                )
            # The epoch is over: evaluate, compare, log.
            with self.evaluation_time():
                # The chief's: what workers on other processors measure may differ in the last
                # digits.
                metrics = self._agree.chiefs(self.evaluate())
            state = self.state
            state.epoch, state.step = state.epoch + 1, 0
            loss = state.loss.value
            state.history.append({"epoch": state.epoch, "train_loss": loss, "validation": metrics})
            if not metrics or not state.best_metrics or rank(metrics) > rank(state.best_metrics):
                state.best_epoch, state.best_metrics = state.epoch, metrics
                self.best_weights = self.model.get_weights()
            self._take_time()
            self.folder.log("train", self.step, {"epoch": state.epoch, "loss": loss})
            shown = f"epoch {state.epoch}: train loss {loss:.4f}"
            if metrics:
                self.folder.log("validation", self.step, {"epoch": state.epoch, **metrics})
                values = ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())
                shown += f"; validation {values}"
            progress.write(shown)
            if self._finished() and state.epoch < self.options.epochs:
                progress.write(
                    f"stopped: no better {self.best_by} for {self.options.patience} epochs"
                )

    @contextlib.contextmanager
    def evaluation_time(self, after_training: bool = False) -> Iterator[None]:
        """Keeps the time within out of that of training.

        Args:
            after_training: whether nothing is trained any more. Such time is counted only where it
                is cut short, by `save`.
        """
        started, whole = time.perf_counter(), False
        try:
            yield
            whole = True
        finally:
            if not (whole and after_training):
                self.state.evaluation_seconds += time.perf_counter() - started

    def save(self) -> None:
        """Saves where the run stands, in the chief."""
        self._take_time()
        if is_chief(self.strategy):
            self.checkpoint.save(self.state, self.best_weights)
        self._saved_at = time.perf_counter()

    def after_step(self, logs: Mapping[str, float]) -> None:
        """Takes note of a step; saves when that is due.

        Raises:
            DivergenceError: see `train`.
        """
        loss, state = logs["loss"], self.state
        where = f"at step {state.step + 1} of epoch {state.epoch + 1}: lower --learning_rate"
        if not math.isfinite(loss):
            raise DivergenceError(f"the loss is {loss} {where}; no model was written")
        if not logs["updated"] and self.model.encoder.policy.compute_dtype != "float16":
            raise DivergenceError(f"a gradient is not finite {where}; no model was written")
        state.add_step(loss, logs["examples"], len(self.batches))
        state.tokens += self.tokens_per_step
        interval = self.options.checkpoint_steps
        waited = time.perf_counter() - self._saved_at
        if self.step % interval == 0 if interval else waited > _SECONDS_BETWEEN_CHECKPOINTS:
            self.save()

    def decide(self, seconds_per_step: float, termination: Termination) -> int:
        """Returns after how many steps to ask again.

        Raises:
            TerminatedError: this or another process was asked to end.
        """
        steps = 1
        if isinstance(self.strategy, tf.distribute.MultiWorkerMirroredStrategy):
            steps = max(1, int(_SECONDS_BETWEEN_DECISIONS / seconds_per_step))
        decision = self._agree(Decision(steps, 0.0, termination.requested))
        if decision.stop:
            raise TerminatedError
        return decision.steps

    def _finished(self) -> bool:
        state, patience = self.state, self.options.patience
        waited = state.epoch - state.best_epoch
        return state.epoch >= self.options.epochs or (patience is not None and waited >= patience)

    def _take_time(self) -> None:
        now = time.perf_counter()
        self.state.seconds += now - self._clock
        self._clock = now


class _Steps(keras.callbacks.Callback):
    """Shows the steps of an epoch, saves between them, and ends the run when it is to end."""

    def __init__(self, run: FinetuningRun, progress: Progress, termination: Termination):
        super().__init__()
        self._run = run
        self._progress = progress
        self._termination = termination
        self._tokens = run.state.tokens
        self._steps, self._next_decision = 0, 1
        self._started = time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._run.after_step({name: float(np.mean(value)) for name, value in logs.items()})
        self._steps += 1
        state, seconds = self._run.state, time.perf_counter() - self._started
        rate = (state.tokens - self._tokens) / seconds
        self._progress.update(
            1,
            epoch=state.epoch + 1,
            loss=f"{state.loss.value:.4f}",
            real_tokens_per_s=f"{rate:,.0f}",
        )
        if self._steps == self._next_decision:
            self._next_decision += self._run.decide(seconds / self._steps, self._termination)
