"""What a run remembers besides weights and moments, and its watch over the loss.

The watch counts steps that were skipped, tells jumps, and knows when to give up.
"""

import math
from collections.abc import Iterable, Iterator, Sequence

import tensorflow as tf

# A jump is a loss this many standard deviations above the running mean, and a tenth above it: a
# loss that has nearly reached zero varies by many deviations and nobody need look.
_DEVIATIONS = 6.0
_LEAST_RISE = 1.1
# Mean and deviation are those of about the last fifty steps, and are trusted after as many.
_DECAY = 0.98
_STEPS_TO_TRUST = 50
_START = {
    "seconds": 0.0,
    "skipped_steps": 0.0,
    "skipped_in_a_row": 0.0,
    "last_good_loss": math.nan,
    "mean_loss": math.nan,
    "loss_variance": 0.0,
    "losses_seen": 0.0,
    "best_loss": math.inf,
}


class RunState:
    """Numbers of a run that its checkpoints keep; float64, by name.

    `seconds` of training; `skipped_steps`, and how many of them in a row up to now; the
    `last_good_loss`; running mean and variance of the loss and of how many steps; the `best_loss`
    on held-out records.

    Example:
        state = RunState()
        state["seconds"] += 2.5
    """

    def __init__(self) -> None:
        self.variables = {
            name: tf.Variable(value, dtype=tf.float64, trainable=False)
            for name, value in _START.items()
        }

    def reset(self) -> None:
        """Forgets everything, for a run that begins with another one's checkpoint."""
        for name, value in _START.items():
            self[name] = value

    def __getitem__(self, name: str) -> float:
        return float(self.variables[name].numpy())

    def __setitem__(self, name: str, value: float) -> None:
        self.variables[name].assign(value)


class LossWatch:
    """Takes note of the loss of every step.

    Args:
        state: where counts and means are kept.
        max_skipped_steps: how many steps in a row may be skipped.
        model_dir: folder of the run, for the sentence that ends it.
    """

    def __init__(self, state: RunState, max_skipped_steps: int, model_dir: str):
        self._state = state
        self._max_skipped_steps = max_skipped_steps
        self._model_dir = model_dir

    def look(
        self, first_step: int, losses: Sequence[float], updated: Sequence[bool], rate: float
    ) -> Iterator[tuple[int, str]]:
        """Looks at the steps of one call of the loop, one after the other.

        Args:
            first_step: number of the first of them, counted from 1.
            losses: the loss of each.
            updated: whether each made an update.
            rate: the learning rate at the first of them.

        Yields:
            What a person should know: a step, and a line about it.

        Raises:
            ValueError: too many steps in a row were skipped.
        """
        for step, (loss, good) in enumerate(zip(losses, updated, strict=True), first_step):
            if good:
                lines: Iterable[str] = self._look_at_good(step, float(loss))
            else:
                lines = self._skip(step, loss, rate)
            yield from ((step, line) for line in lines)

    def _skip(self, step: int, loss: float, rate: float) -> Iterator[str]:
        state = self._state
        state["skipped_steps"] += 1
        state["skipped_in_a_row"] += 1
        in_a_row = int(state["skipped_in_a_row"])
        last = state["last_good_loss"]
        last_good = "there was no good step" if math.isnan(last) else f"last good loss {last:.4g}"
        yield (
            f"step {step} skipped, loss {loss:.4g}: the loss or a gradient is not finite "
            f"({in_a_row} in a row, learning rate {rate:g}, {last_good})"
        )
        if in_a_row > self._max_skipped_steps:
            # This run goes on under its own learning rate only.
            raise ValueError(
                f"{in_a_row} steps in a row had a loss or a gradient that is not finite, up to "
                f"step {step} (learning rate {rate:g}, {last_good}): look for damaged records, or "
                "start with a lower --learning_rate in another --model_dir, with "
                f"--init_from={self._model_dir}/preset or one of kept_presets if there is one; "
                "they and the checkpoints are as they were before these steps"
            )

    def _look_at_good(self, step: int, loss: float) -> list[str]:
        state = self._state
        state["skipped_in_a_row"] = 0
        state["last_good_loss"] = loss
        mean, deviation = state["mean_loss"], math.sqrt(state["loss_variance"])
        trusted = state["losses_seen"] >= _STEPS_TO_TRUST
        # Running mean and variance of the loss.
        seen = state["losses_seen"]
        if not seen:
            state["mean_loss"] = loss
        # The plain mean at first, the decaying one later.
        weight = max(1.0 - _DECAY, 1.0 / (seen + 1.0))
        difference = loss - state["mean_loss"]
        state["mean_loss"] += weight * difference
        state["loss_variance"] = (1.0 - weight) * (state["loss_variance"] + weight * difference**2)
        state["losses_seen"] = seen + 1.0
        if not trusted or loss < max(mean + _DEVIATIONS * deviation, _LEAST_RISE * mean):
            return []
        return [f"step {step}: the loss jumped to {loss:.4g} (it was {mean:.4g} ± {deviation:.2g})"]
