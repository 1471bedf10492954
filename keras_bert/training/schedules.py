"""Learning-rate schedules: warmup, then decay, by step or by the clock."""

import math
from typing import Any

import keras
import tensorflow as tf

from keras_bert.choices import ScheduleName, check_choice
from keras_bert.counts import check_count, check_number, needed_count


class WarmupSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warmup; a subclass says what comes after it.

    Step t counts from 0. During warmup the rate is `learning_rate * t / warmup_steps`, so the very
    first step of a warmup has rate zero, as in the original.

    Args:
        learning_rate: the peak of the learning rate.
        train_steps: steps of the whole run.
        warmup_steps: steps of the warmup; 0 for none.

    Raises:
        ValueError: the rate is no number of 0 or above, a number of steps is no whole number, or
            the warmup is longer than the run.
    """

    def __init__(self, learning_rate: float, train_steps: int, warmup_steps: int = 0):
        self.learning_rate = check_number("learning_rate", learning_rate)
        if not 0 <= self.learning_rate < math.inf:  # nor is NaN
            raise ValueError(f"learning_rate is {learning_rate}: it must be 0 or above, and finite")
        self.train_steps = needed_count("train_steps", train_steps)
        # A part of the run, such as 0.1, would be no warmup.
        self.warmup_steps = needed_count("warmup_steps", warmup_steps, least=0)
        if warmup_steps > train_steps:
            raise ValueError(
                f"warmup_steps is {warmup_steps} and train_steps is {train_steps}: "
                "the warmup must end within the run"
            )

    def __call__(self, step: Any) -> tf.Tensor:
        """Returns the rate (float32 scalar) of a step (integer scalar)."""
        step = tf.cast(step, tf.float32)
        warming = step / max(self.warmup_steps, 1)  # 0 to 1
        after = self._after_warmup(tf.minimum(step, self.train_steps))  # 1 to 0, of the peak
        return self.learning_rate * tf.where(step < self.warmup_steps, warming, after)

    def _after_warmup(self, step: tf.Tensor) -> tf.Tensor:
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            "learning_rate": self.learning_rate,
            "train_steps": self.train_steps,
            "warmup_steps": self.warmup_steps,
        }


@keras.saving.register_keras_serializable("keras_bert")
class WarmupLinearDecay(WarmupSchedule):
    """Linear warmup, then linear decay to zero (google-research/bert, optimization.py).

    After the warmup the rate is `learning_rate * (1 - t / train_steps)`: the decay counts from the
    start of the run, as in the original.
    """

    def _after_warmup(self, step: tf.Tensor) -> tf.Tensor:
        return 1.0 - step / self.train_steps


@keras.saving.register_keras_serializable("keras_bert")
class WarmupPolynomialDecay(WarmupSchedule):
    """Linear warmup, then `learning_rate * (1 - t / train_steps) ** power`.

    Args:
        learning_rate: the peak of the learning rate.
        train_steps: steps of the whole run.
        warmup_steps: steps of the warmup; 0 for none.
        power: 1 is `WarmupLinearDecay`; less stays high for longer.

    Raises:
        ValueError: of `WarmupSchedule`, or the power is not above 0 or not finite.
    """

    def __init__(
        self, learning_rate: float, train_steps: int, warmup_steps: int = 0, power: float = 0.5
    ):
        super().__init__(learning_rate, train_steps, warmup_steps)
        if not 0 < check_number("power", power) < math.inf:
            raise ValueError(
                f"power is {power}: it must be above 0, or the rate does not decay, and finite"
            )
        self.power = power

    def _after_warmup(self, step: tf.Tensor) -> tf.Tensor:
        return (1.0 - step / self.train_steps) ** self.power

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {"power": self.power}


@keras.saving.register_keras_serializable("keras_bert")
class WarmupCosineDecay(WarmupSchedule):
    """Linear warmup, then half a cosine from the peak to zero (Loshchilov & Hutter 2017).

    The cosine starts where the warmup ends, so the rate has no jump.
    """

    def _after_warmup(self, step: tf.Tensor) -> tf.Tensor:
        length = max(self.train_steps - self.warmup_steps, 1)
        return 0.5 * (1.0 + tf.cos(math.pi * (step - self.warmup_steps) / length))


@keras.saving.register_keras_serializable("keras_bert")
class WarmupConstant(WarmupSchedule):
    """Linear warmup, then the peak to the end and beyond."""

    def _after_warmup(self, step: tf.Tensor) -> tf.Tensor:
        return tf.ones_like(step)


@keras.saving.register_keras_serializable("keras_bert")
class WarmupStableDecay(WarmupSchedule):
    """Linear warmup, the peak, then linear decay to zero (Hägele et al. 2024, arXiv:2405.18392).

    A run can be prolonged from any checkpoint of its stable part.

    Args:
        learning_rate: the peak of the learning rate.
        train_steps: steps of the whole run.
        warmup_steps: steps of the warmup; 0 for none.
        decay_steps: steps of the decay; None for a tenth of the run, or what the warmup leaves of
            the run where that is less.

    Raises:
        ValueError: of `WarmupSchedule`, or warmup and decay together are longer than the run.
    """

    def __init__(
        self,
        learning_rate: float,
        train_steps: int,
        warmup_steps: int = 0,
        decay_steps: int | None = None,
    ):
        super().__init__(learning_rate, train_steps, warmup_steps)
        check_count("decay_steps", decay_steps, least=0)
        left = train_steps - warmup_steps
        if decay_steps is None:
            decay_steps = min(math.ceil(train_steps / 10), left)
        if decay_steps > left:
            raise ValueError(
                f"decay_steps is {decay_steps} but the warmup leaves {left} of {train_steps} "
                "steps: warmup and decay must fit in the run"
            )
        self.decay_steps = decay_steps

    def _after_warmup(self, step: tf.Tensor) -> tf.Tensor:
        return tf.minimum(1.0, (self.train_steps - step) / max(self.decay_steps, 1))

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {"decay_steps": self.decay_steps}


_SCHEDULES: dict[ScheduleName, type[WarmupSchedule]] = {
    "linear": WarmupLinearDecay,
    "polynomial": WarmupPolynomialDecay,
    "cosine": WarmupCosineDecay,
    "constant": WarmupConstant,
    "warmup_stable_decay": WarmupStableDecay,
}


def create_schedule(
    name: ScheduleName, learning_rate: float, train_steps: int, warmup_steps: int
) -> WarmupSchedule:
    """Returns the schedule of a name, its further arguments at their defaults.

    Raises:
        ValueError: the name is unknown, or of `WarmupSchedule`.
    """
    check_choice("schedule", name, ScheduleName)
    return _SCHEDULES[name](learning_rate, train_steps, warmup_steps)


@keras.saving.register_keras_serializable("keras_bert")
class TimeBudgetDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warmup and linear decay over a budget of time instead of a number of steps.

    The training loop assigns `progress`, the proportion of the budget that is spent; the rate
    reaches zero when the time is up, however fast the machine is.

    Args:
        learning_rate: the peak of the learning rate.
        warmup_proportion: proportion of the time for the warmup.
    """

    def __init__(self, learning_rate: float, warmup_proportion: float = 0.1):
        self.learning_rate = learning_rate
        self.warmup_proportion = warmup_proportion
        # A variable, because the schedule is traced into the training step and the clock is not.
        self.progress = tf.Variable(
            0.0, trainable=False, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA
        )

    def __call__(self, step: Any) -> tf.Tensor:
        """Returns the rate (float32 scalar) at the present `progress`."""
        progress = tf.convert_to_tensor(self.progress)
        warming = progress / max(self.warmup_proportion, 1e-9)  # 0 to 1 and beyond
        # beyond 1, then 1 to 0: the lower line counts
        decayed = (1.0 - progress) / (1.0 - self.warmup_proportion)
        return self.learning_rate * tf.clip_by_value(tf.minimum(warming, decayed), 0.0, 1.0)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {"learning_rate": self.learning_rate, "warmup_proportion": self.warmup_proportion}
