"""The host's side of pretraining: when to call the loop, save, evaluate and stop."""

import dataclasses
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from keras_bert.data.records.record_groups import RecordGroups
from keras_bert.data.records.record_set import PretrainingData
from keras_bert.pretraining.monitor import LossWatch, RunState
from keras_bert.pretraining.objectives.objective import Objective
from keras_bert.pretraining.options import PretrainingOptions
from keras_bert.pretraining.step import LoopResult
from keras_bert.progress import Progress
from keras_bert.training.checkpointing import TrainingCheckpoint
from keras_bert.training.cluster import Agreement, Decision, is_chief
from keras_bert.training.run_folder import HELD_OUT, RunFolder
from keras_bert.training.schedules import TimeBudgetDecay
from keras_bert.training.termination import Termination

# One host call of the loop lasts about this long when `steps_per_loop` is left to the code: long
# enough that the call costs nothing, short enough that progress is seen and SIGTERM is heeded.
_SECONDS_PER_LOOP = 2.0
# Under a time budget a call has one learning rate, so none lasts longer than this part of it.
_PARTS_OF_BUDGET = 100

Metrics = dict[str, float]


@dataclasses.dataclass
class PretrainingRun:
    """The host's side of training.

    Args:
        options: settings of the run.
        objective: makes metrics of the loop's sums.
        loop: from `make_training_loop`, a `tf.function`.
        batches: what the loop reads.
        evaluate: measures the model on held-out records, or None.
        checkpoint: saves and restores.
        state: numbers that checkpoints keep.
        schedule: the learning rate of a step.
        folder: where metrics and models go.
        save_preset: writes the model into a folder.
        upload: brings the files to where they belong, where that is not the local disk.
        strategy: where it runs; all processes but the chief write nothing.
        flops_per_step: operations of a step, by arithmetic, or None if unknown.
        peak_flops: operations per second that the devices could make, or None if unknown.
        goes_on: whether it goes on from a checkpoint of its own.
        held_out: what tells the held-out records from others; None where there are none.
    """

    options: PretrainingOptions
    objective: Objective
    loop: Any
    batches: Iterator
    evaluate: Callable[[], Metrics] | None
    checkpoint: TrainingCheckpoint
    state: RunState
    schedule: Any
    folder: RunFolder
    save_preset: Callable[[Any], None]
    upload: Callable[[], None]
    strategy: tf.distribute.Strategy
    flops_per_step: float | None
    peak_flops: float | None
    goes_on: bool
    held_out: str | None = None

    def __post_init__(self) -> None:
        self._agree = Agreement(self.strategy)
        self._watch = LossWatch(self.state, self.options.max_skipped_steps, self.options.model_dir)
        self._step = self.checkpoint.step
        self._seconds = self.state["seconds"]
        self._seconds_per_step = 0.0
        self._metrics: Metrics = {}
        # Those that are not left yet.
        self._plateaus = dict(self.objective.plateaus)
        self._evaluated: str | None = None  # the held-out records of the evaluations so far
        if self.goes_on:
            self._take_up_evaluations()
        self._saved_step = self._step if self.goes_on else None

    @property
    def evaluates_first(self) -> bool:
        """Whether it begins with an evaluation.

        The evaluation of a step comes after its checkpoint, so nobody knows whether the process
        that wrote the checkpoint lived to see the end of it.
        """
        return self.goes_on and self._evaluation_is_due()

    def _take_up_evaluations(self) -> None:
        """Goes on from the evaluations of the same held-out records."""
        lines = [line for line in self.folder.read_metrics() if line["step"] <= self._step]
        changes = [n for n, line in enumerate(lines) if line["split"] == HELD_OUT]
        if changes:
            self._evaluated = lines[changes[-1]]["records"]
        if self._has_other_records or len(changes) > 1:
            # The best of a checkpoint may be of the records before.
            self.state["best_loss"] = math.inf
        if self._has_other_records:
            return
        # Of an earlier version nothing tells which records the first evaluations were of.
        for line in lines[changes[-1] if len(changes) > 1 else 0 :]:
            if line["split"] == "eval":
                self._plateaus_left(line)
                # A checkpoint comes before the evaluation of its step, whose loss it lacks. Of a
                # NaN in the second place `min` takes no notice.
                if line["step"] < self._step or not self.evaluates_first:
                    self.state["best_loss"] = min(self.state["best_loss"], line["loss"])

    @property
    def _has_other_records(self) -> bool:
        return None not in (self._evaluated, self.held_out) and self._evaluated != self.held_out

    def announce(self, model: keras.Model, data: PretrainingData, resumed: bool) -> None:
        """Prints what is about to happen, in a line, and of languages their rates.

        The run folder takes note of the held-out records.
        """
        end = f"{self.options.train_steps} steps"
        if self.options.time_budget:
            end = f"{self.options.time_budget:.0f} s"
        start = f"resumed at step {self._step}" if resumed else "from the start"
        print(
            f"pretraining {model.count_params():,} parameters on {data.num_examples:,} examples of "
            f"up to {data.max_seq_length} pieces, batch {self.options.batch_size}, {end}, "
            f"{self.strategy.num_replicas_in_sync} replica(s), {model.encoder.policy.name}, "
            f"{start}",
            flush=True,
        )
        if isinstance(data, RecordGroups):
            drawn = (
                f"{name} {rate:.2%} ({data.groups[name].num_examples:,})"
                for name, rate in data.rates.items()
            )
            print(f"languages drawn at (of examples): {', '.join(drawn)}", flush=True)
        if self._has_other_records:
            print(
                f"the held-out records in {self.options.eval_data_dir} are others than before: the "
                "best model is chosen anew, and the next evaluation replaces best_preset",
                flush=True,
            )
        if self.held_out not in (None, self._evaluated):
            self.folder.note_held_out(self._step, self.held_out)

    def train(self) -> Metrics | None:
        """Trains to the end and returns the last metrics on held-out records.

        Returns:
            None when SIGTERM stopped the run, which is saved and can be resumed.

        Raises:
            ValueError: too many steps in a row were not finite.
        """
        # Traced before the clock runs: half a minute for a large model is no training.
        self.loop.get_concrete_function(self.batches, tf.constant(1))
        with self._progress() as progress, Termination() as termination:
            if self.goes_on:
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
                schedule, budget = self.schedule, self.options.time_budget
                if budget is not None and isinstance(schedule, TimeBudgetDecay):
                    schedule.progress.assign(min(1.0, self._seconds / budget))
                rate = float(schedule(self._step))
                started = time.perf_counter()
                result = tf.nest.map_structure(
                    lambda value: value.numpy(),
                    self.loop(self.batches, tf.constant(decision.steps)),
                )
                seconds = time.perf_counter() - started
                looked = self._watch.look(self._step + 1, result.losses, result.updated, rate)
                for step, line in looked:
                    self.folder.note(step, line)
                    progress.write(line)
                self._seconds += seconds
                self._step += decision.steps
                self._seconds_per_step = seconds / decision.steps
                metrics = self._measured(result, decision.steps / seconds, seconds) | {
                    "learning_rate": rate
                }
                self.folder.log("train", self._step, metrics | {"seconds": self._seconds})
                done = decision.steps
                if budget:  # whole seconds, none of them behind the budget
                    end = int(min(self._seconds, budget))
                    done = max(0, end - int(self._seconds - seconds))
                progress.update(done, step=self._step, **self._shown(metrics))
                decision = self._decide(termination)
                # Saved before it is evaluated: a machine that is taken away leaves half a minute,
                # and an evaluation may take longer.
                if self._evaluation_is_due() or self._checkpoint_is_due() or self._preset_is_due():
                    self._save()
                    self._after_checkpoint(progress)
                    # Once more, all workers together: an evaluation is as long as many steps, and
                    # a signal that came in it would wait for another call of the loop.
                    decision = self._decide(termination)
        return self._metrics

    def _shown(self, metrics: Metrics) -> dict[str, str]:
        """Returns what the progress bar has room for."""
        formats = {"loss": ".3f"}
        formats |= {f"{name}_accuracy": ".3f" for name in self.objective.scales}
        formats |= {
            "tokens_per_second": ",.0f",
            "model_flop_utilization": ".1%",
            "skipped_steps": ".0f",
        }
        return {
            name: f"{metrics[name]:{form}}" for name, form in formats.items() if name in metrics
        }

    def _decide(self, termination: Termination) -> Decision:
        # How many steps fit before the next checkpoint, evaluation or end.
        wanted, budget = self.options.steps_per_loop, self.options.time_budget
        if budget or not wanted:
            most = _SECONDS_PER_LOOP
            if budget:
                most = min(most, budget / _PARTS_OF_BUDGET, budget - self._seconds)
            per_step = self._seconds_per_step  # 0 as long as nobody knows
            fitting = max(1, int(most / per_step)) if per_step else 1
            wanted = min(wanted or fitting, fitting)
        stops = [_steps_until(self._step, self.options.checkpoint_steps)]
        others = (self.options.eval_steps, self.options.preset_steps)
        stops += [_steps_until(self._step, interval) for interval in others if interval]
        if not self.options.time_budget:
            stops.append(self.options.train_steps - self._step)
        decision = self._agree(Decision(min(wanted, *stops), self._seconds, termination.requested))
        self._seconds = decision.seconds
        return decision

    def _after_checkpoint(self, progress: Progress) -> None:
        if self.evaluate is not None and self._evaluation_is_due():
            self._metrics = self.evaluate()
            self.folder.log("eval", self._step, self._metrics)
            # "masked_lm_loss" is of all records, "masked_lm_loss/de" of a language.
            of_groups: dict[str, list[str]] = {"": []}
            for name, value in self._metrics.items():
                metric, _, group = name.partition("/")
                of_groups.setdefault(group, []).append(f"{metric} {value:.4g}")
            for group, shown in of_groups.items():
                place = f"held-out {group}".rstrip()
                progress.write(f"step {self._step}: {place} {', '.join(shown)}")
            for line in self._plateaus_left(self._metrics):
                self.folder.note(self._step, line)
                progress.write(line)
            if self._metrics["loss"] < self.state["best_loss"]:
                self.state["best_loss"] = self._metrics["loss"]
                if is_chief(self.strategy):
                    self.save_preset(self.folder.best_preset)
        if self._checkpoint_is_due() and is_chief(self.strategy):
            self.save_preset(self.folder.preset)
        if self._preset_is_due() and is_chief(self.strategy):
            self.save_preset(self.folder.preset_of(self._step))
        if is_chief(self.strategy):
            self.upload()

    def _plateaus_left(self, metrics: Metrics) -> list[str]:
        """Returns a line for each plateau that held-out metrics are the first to be below."""
        lines = []
        for name, baseline in list(self._plateaus.items()):
            loss, least = metrics.get(name), metrics.get(baseline)
            if loss is not None and least is not None and loss < least:
                del self._plateaus[name]
                lines.append(
                    f"step {self._step}: the plateau is left: {name} {loss:.4g} of held-out "
                    f"records is below {least:.4g}, which takes a look at the context"
                )
        return lines

    def _evaluation_is_due(self) -> bool:
        due = self._finished() or self._is_due(self.options.eval_steps)
        return self.evaluate is not None and due

    def _checkpoint_is_due(self) -> bool:
        return self._finished() or self._is_due(self.options.checkpoint_steps)

    def _preset_is_due(self) -> bool:
        return self._is_due(self.options.preset_steps)

    def _save(self) -> None:
        if self._saved_step == self._step:
            return  # written over, it could be left half old and half new
        self._saved_step = self._step
        self.state["seconds"] = self._seconds
        if is_chief(self.strategy):
            # Metrics first: a run that goes on forgets those after its checkpoint, but cannot find
            # those that are missing before it.
            self.upload()
            self.checkpoint.save()

    def _measured(self, result: LoopResult, steps_per_second: float, seconds: float) -> Metrics:
        metrics: Metrics = {}
        if result.updated.any():
            metrics |= self.objective.metrics(result.sums.by_name)
        metrics["tokens_per_second"] = float(result.sums.tokens) / seconds
        if self.flops_per_step and self.peak_flops:
            rate = self.flops_per_step * steps_per_second
            metrics["model_flop_utilization"] = rate / self.peak_flops
        skipped = self.state["skipped_steps"]
        return metrics | ({"skipped_steps": skipped} if skipped else {})

    def _progress(self) -> Progress:
        if self.options.time_budget:
            total = int(self.options.time_budget)
            return Progress(total, "s", "pretraining", int(self._seconds), at_once=True)
        return Progress(self.options.train_steps, "step", "pretraining", self._step, at_once=True)

    def _finished(self) -> bool:
        if self.options.time_budget:
            return self._seconds >= self.options.time_budget
        return self._step >= self.options.train_steps

    def _is_due(self, interval: int) -> bool:
        return bool(interval) and self._step > 0 and self._step % interval == 0


def _steps_until(step: int, interval: int) -> int:
    return interval - step % interval
