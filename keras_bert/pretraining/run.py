"""The host's side of pretraining: when to call the loop, save, evaluate and stop."""

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_bert.data.records.record_set import PretrainingData
from keras_bert.pretraining.loss_watch import LossWatch
from keras_bert.pretraining.metrics import pretraining_metrics
from keras_bert.pretraining.options import PretrainingOptions
from keras_bert.pretraining.run_state import RunState
from keras_bert.pretraining.step import LoopResult
from keras_bert.progress import Progress
from keras_bert.training.checkpointing import TrainingCheckpoint
from keras_bert.training.cluster import Agreement, Decision, is_chief
from keras_bert.training.run_folder import RunFolder
from keras_bert.training.schedules import TimeBudgetDecay
from keras_bert.training.termination import Termination

# One host call of the loop lasts about this long when `steps_per_loop` is left to the code: long
# enough that the call costs nothing, short enough that progress is seen and SIGTERM is heeded.
_SECONDS_PER_LOOP = 2.0

Metrics = dict[str, float]


class RunParts(NamedTuple):
    """What a run is put together from.

    Attributes:
        loop: from `make_training_loop`, a `tf.function`.
        batches: what the loop reads.
        evaluation: measures the model on held-out records, or None.
        checkpoint: saves and restores.
        state: numbers that checkpoints keep.
        schedule: the learning rate of a step.
        folder: where metrics and models go.
        save_preset: writes the model into a folder.
        upload: brings the files to where they belong, where that is not the local disk.
    """

    loop: Any
    batches: Iterator
    evaluation: Callable[[], Metrics] | None
    checkpoint: TrainingCheckpoint
    state: RunState
    schedule: Any
    folder: RunFolder
    save_preset: Callable[[Any], None]
    upload: Callable[[], None]


class PretrainingRun:
    """The host's side of training.

    Args:
        options: what the run is told.
        parts: what it is put together from.
        strategy: where it runs; all processes but the chief write nothing.
        next_sentence: whether the next sentence loss counts.
        flops_per_step: operations of a step, by arithmetic.
        peak_flops: operations per second that the devices could make, or None if unknown.
        goes_on: whether it goes on from a checkpoint of its own.
    """

    def __init__(
        self,
        options: PretrainingOptions,
        parts: RunParts,
        strategy: tf.distribute.Strategy,
        next_sentence: bool,
        flops_per_step: float,
        peak_flops: float | None,
        goes_on: bool,
    ):
        self._options = options
        self._parts = parts
        self._strategy = strategy
        self._next_sentence = next_sentence
        self._flops_per_step = flops_per_step
        self._peak_flops = peak_flops
        self._agree = Agreement(strategy)
        self._watch = LossWatch(parts.state, options.max_skipped_steps)
        self._step = parts.checkpoint.step
        self._seconds = parts.state["seconds"]
        self._seconds_per_step = 0.0
        self._metrics: Metrics = {}
        self._goes_on = goes_on
        self._saved_step = self._step if goes_on else None

    @property
    def evaluates_first(self) -> bool:
        """Whether it begins with an evaluation.

        The evaluation of a step comes after its checkpoint, so nobody knows whether the process
        that wrote the checkpoint lived to see the end of it.
        """
        return self._goes_on and self._evaluation_is_due()

    def announce(self, model: keras.Model, data: PretrainingData, resumed: bool) -> None:
        """Prints what is about to happen, in one line."""
        end = f"{self._options.train_steps} steps"
        if self._options.time_budget:
            end = f"{self._options.time_budget:.0f} s"
        start = f"resumed at step {self._step}" if resumed else "from the start"
        print(
            f"pretraining {model.count_params():,} parameters on {data.num_examples:,} examples of "
            f"up to {data.max_seq_length} pieces, batch {self._options.batch_size}, {end}, "
            f"{self._strategy.num_replicas_in_sync} replica(s), {model.encoder.policy.name}, "
            f"{start}",
            flush=True,
        )

    def train(self) -> Metrics | None:
        """Trains to the end and returns the last metrics on held-out records.

        Returns:
            None when SIGTERM stopped the run, which is saved and can be resumed.

        Raises:
            ValueError: too many steps in a row were not finite.
        """
        # Traced before the clock runs: half a minute for a large model is no training.
        self._parts.loop.get_concrete_function(self._parts.batches, tf.constant(1))
        with self._progress() as progress, Termination() as termination:
            if self._goes_on:
                self._after_checkpoint(progress)
            decision = self._decide(termination)
            while not self._finished():
                if decision.stop:
                    self._save()
                    progress.write(
                        f"stopped by SIGTERM at step {self._step}, which is saved: the same "
                        "command goes on from there"
                    )
                    return None
                self._train_some(decision.steps, progress)
                decision = self._decide(termination)
                self._after_steps(progress)
        return self._metrics

    def _decide(self, termination: Termination) -> Decision:
        decision = self._agree(
            Decision(self._steps_of_next_call(), self._seconds, termination.requested)
        )
        self._seconds = decision.seconds
        return decision

    def _after_steps(self, progress: Progress) -> None:
        # Saved before it is evaluated: a machine that is taken away leaves half a minute, and an
        # evaluation may take longer.
        if self._evaluation_is_due() or self._checkpoint_is_due():
            self._save()
            self._after_checkpoint(progress)

    def _after_checkpoint(self, progress: Progress) -> None:
        if self._evaluation_is_due():
            self._evaluate(progress)
        if self._checkpoint_is_due() and is_chief(self._strategy):
            self._parts.save_preset(self._parts.folder.preset)
        if is_chief(self._strategy):
            self._parts.upload()

    def _evaluation_is_due(self) -> bool:
        due = self._finished() or self._is_due(self._options.eval_steps)
        return self._parts.evaluation is not None and due

    def _checkpoint_is_due(self) -> bool:
        return self._finished() or self._is_due(self._options.checkpoint_steps)

    def _evaluate(self, progress: Progress) -> None:
        self._metrics = self._parts.evaluation()
        self._parts.folder.log("eval", self._step, self._metrics)
        progress.write(f"step {self._step}: held-out {_as_text(self._metrics)}")
        if self._metrics["loss"] < self._parts.state["best_loss"]:
            self._parts.state["best_loss"] = self._metrics["loss"]
            if is_chief(self._strategy):
                self._parts.save_preset(self._parts.folder.best_preset)

    def _save(self) -> None:
        if self._saved_step == self._step:
            return  # written over, it could be left half old and half new
        self._saved_step = self._step
        self._parts.state["seconds"] = self._seconds
        if is_chief(self._strategy):
            # Metrics first: a run that goes on forgets those after its checkpoint, but cannot find
            # those that are missing before it.
            self._parts.upload()
            self._parts.checkpoint.save()

    def _train_some(self, count: int, progress: Progress) -> None:
        schedule = self._parts.schedule
        if isinstance(schedule, TimeBudgetDecay):
            schedule.progress.assign(min(1.0, self._seconds / self._options.time_budget))
        rate = float(schedule(self._step))
        started = time.perf_counter()
        result = tf.nest.map_structure(
            lambda value: value.numpy(), self._parts.loop(self._parts.batches, tf.constant(count))
        )
        seconds = time.perf_counter() - started
        for line in self._watch.look(self._step + 1, result.losses, result.updated, rate):
            self._parts.folder.note(self._step + 1, line)
            progress.write(line)
        self._seconds += seconds
        self._step += count
        self._seconds_per_step = seconds / count
        metrics = self._measured(result, count / seconds, seconds) | {"learning_rate": rate}
        self._parts.folder.log("train", self._step, metrics | {"seconds": self._seconds})
        shown = self._shown_seconds(seconds) if self._options.time_budget else count
        progress.update(shown, step=self._step, **_shown(metrics))

    def _measured(self, result: LoopResult, steps_per_second: float, seconds: float) -> Metrics:
        metrics: Metrics = {}
        if result.updated.any():
            metrics |= pretraining_metrics(result.sums, self._next_sentence)
        metrics["tokens_per_second"] = float(result.sums.tokens) / seconds
        if self._peak_flops:
            rate = self._flops_per_step * steps_per_second
            metrics["model_flop_utilization"] = rate / self._peak_flops
        skipped = self._parts.state["skipped_steps"]
        return metrics | ({"skipped_steps": skipped} if skipped else {})

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
        return bool(interval) and self._step > 0 and self._step % interval == 0


def _steps_until(step: int, interval: int) -> int:
    return interval - step % interval


def _shown(metrics: Metrics) -> dict[str, str]:
    formats = {
        "loss": ".3f",
        "masked_lm_accuracy": ".3f",
        "tokens_per_second": ",.0f",
        "model_flop_utilization": ".1%",
        "skipped_steps": ".0f",
    }
    return {name: f"{metrics[name]:{form}}" for name, form in formats.items() if name in metrics}


def _as_text(metrics: Metrics) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())
