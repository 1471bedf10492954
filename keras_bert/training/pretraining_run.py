"""The host's side of pretraining: when to call the loop, save, evaluate and stop."""

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from keras_bert.data.pretraining_data import PretrainingData
from keras_bert.progress import Progress
from keras_bert.training.checkpointing import TrainingCheckpoint
from keras_bert.training.metrics import pretraining_metrics
from keras_bert.training.pretraining_options import PretrainingOptions
from keras_bert.training.run_folder import RunFolder

# One host call of the loop lasts about this long when `steps_per_loop` is left to the code: long
# enough that the call costs nothing, short enough that progress is seen.
_SECONDS_PER_LOOP = 2.0


class PretrainingRun:
    """The host's side of training: when to call the loop, save, evaluate and stop."""

    def __init__(
        self,
        options: PretrainingOptions,
        checkpoint: TrainingCheckpoint,
        schedule: Any,
        folder: RunFolder,
        next_sentence: bool,
    ):
        self._options = options
        self._checkpoint = checkpoint
        self._schedule = schedule
        self._folder = folder
        self._next_sentence = next_sentence
        self._seconds = float(checkpoint.seconds.numpy())
        self._step = checkpoint.step
        self._seconds_per_step = 0.0

    def announce(
        self, model: keras.Model, data: PretrainingData, strategy: Any, resumed: bool
    ) -> None:
        """Prints what is about to happen, in one line."""
        end = f"{self._options.train_steps} steps"
        if self._options.time_budget:
            end = f"{self._options.time_budget:.0f} s"
        start = f"resumed at step {self._step}" if resumed else "from the start"
        print(
            f"pretraining {model.count_params():,} parameters on {data.num_examples:,} examples of "
            f"up to {data.max_seq_length} pieces, batch {self._options.batch_size}, {end}, "
            f"{strategy.num_replicas_in_sync} replica(s), {model.encoder.policy.name}, {start}",
            flush=True,
        )

    def train(
        self,
        loop: Callable,
        iterator: Iterator,
        evaluation: Callable[[], dict[str, float]] | None,
        save_preset: Callable,
    ) -> dict[str, float]:
        """Runs to the end of the steps or of the time; returns the last evaluation."""
        metrics: dict[str, float] = {}
        with self._progress() as progress:
            while not self._finished():
                count = self._steps_of_next_call()
                self._train_some(loop, iterator, count, progress)
                done = self._finished()
                if done or self._step % self._options.checkpoint_steps == 0:
                    self._checkpoint.save(self._seconds)
                    save_preset()
                if evaluation and (done or self._is_due(self._options.eval_steps)):
                    metrics = evaluation()
                    self._folder.log("eval", self._step, metrics)
                    progress.write(f"step {self._step}: held-out {_as_text(metrics)}")
        if evaluation and not metrics:  # the run was complete before it was started again
            metrics = evaluation()
        return metrics

    def _train_some(
        self, loop: Callable, iterator: Iterator, count: int, progress: Progress
    ) -> None:
        if self._options.time_budget:
            self._schedule.progress.assign(min(1.0, self._seconds / self._options.time_budget))
        rate = float(self._schedule(self._step))
        started = time.perf_counter()
        sums = tf.nest.map_structure(float, loop(iterator, tf.constant(count)))
        seconds = time.perf_counter() - started
        self._seconds += seconds
        self._step += count
        self._seconds_per_step = seconds / count
        metrics = pretraining_metrics(sums, self._next_sentence)
        self._check_finite(metrics["loss"], rate)
        metrics |= {"learning_rate": rate, "tokens_per_second": sums.tokens / seconds}
        self._folder.log("train", self._step, metrics | {"seconds": self._seconds})
        progress.update(
            self._shown_seconds(seconds) if self._options.time_budget else count,
            step=self._step,
            loss=f"{metrics['loss']:.3f}",
            masked_lm_accuracy=f"{metrics['masked_lm_accuracy']:.3f}",
            tokens_per_second=f"{metrics['tokens_per_second']:,.0f}",
        )

    def _shown_seconds(self, seconds: float) -> int:
        end = min(self._seconds, self._options.time_budget)
        return max(0, int(end) - int(self._seconds - seconds))

    def _progress(self) -> Progress:
        if self._options.time_budget:
            total = int(self._options.time_budget)
            return Progress(total, "s", "pretraining", int(self._seconds))
        return Progress(self._options.train_steps, "step", "pretraining", self._step)

    def _finished(self) -> bool:
        if self._options.time_budget:
            return self._seconds >= self._options.time_budget
        return self._step >= self._options.train_steps

    def _steps_of_next_call(self) -> int:
        """Returns how many steps fit before the next checkpoint, evaluation or end."""
        wanted = self._options.steps_per_loop
        if not wanted:
            per_step = self._seconds_per_step
            wanted = max(1, int(_SECONDS_PER_LOOP / per_step)) if per_step else 1
        stops = [_steps_until(self._step, self._options.checkpoint_steps)]
        if self._options.eval_steps:
            stops.append(_steps_until(self._step, self._options.eval_steps))
        if not self._options.time_budget:
            stops.append(self._options.train_steps - self._step)
        return min(wanted, *stops)

    def _is_due(self, interval: int) -> bool:
        return bool(interval) and self._step % interval == 0

    def _check_finite(self, loss: float, rate: float) -> None:
        if not math.isfinite(loss):
            raise ValueError(
                f"the loss is {loss} at step {self._step} (learning rate {rate:g}): lower "
                "--learning_rate; the checkpoints in "
                f"{self._folder.checkpoints} are from before"
            )


def _steps_until(step: int, interval: int) -> int:
    return interval - step % interval


def _as_text(metrics: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())
