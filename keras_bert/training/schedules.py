"""Learning-rate schedules: warmup, then decay, by step or by the clock."""

from typing import Any

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("keras_bert")
class WarmupLinearDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warmup, then linear decay to zero (google-research/bert, optimization.py).

    Step t counts from 0. During warmup the rate is `learning_rate * t / warmup_steps`, after it
    `learning_rate * (1 - t / train_steps)`: the decay counts from the start, as in the original,
    and the very first step of a warmup has rate zero.

    Args:
        learning_rate: the peak.
        train_steps: steps of the whole run.
        warmup_steps: steps of the warmup; 0 for none.

    Raises:
        ValueError: the warmup is longer than the run.
    """

    def __init__(self, learning_rate: float, train_steps: int, warmup_steps: int = 0):
        if not 0 <= warmup_steps <= train_steps or train_steps < 1:
            raise ValueError(
                f"warmup_steps is {warmup_steps} and train_steps is {train_steps}: "
                "the warmup must end within the run"
            )
        self.learning_rate = learning_rate
        self.train_steps = train_steps
        self.warmup_steps = warmup_steps

    def __call__(self, step: Any) -> tf.Tensor:
        """Returns the rate (float32 scalar) of a step (integer scalar)."""
        step = tf.cast(step, tf.float32)
        decayed = 1.0 - tf.minimum(step, self.train_steps) / self.train_steps
        warming = step / max(self.warmup_steps, 1)
        return self.learning_rate * tf.where(step < self.warmup_steps, warming, decayed)

    def get_config(self) -> dict[str, Any]:
        """Keeps every argument."""
        return {
            "learning_rate": self.learning_rate,
            "train_steps": self.train_steps,
            "warmup_steps": self.warmup_steps,
        }


@keras.saving.register_keras_serializable("keras_bert")
class TimeBudgetDecay(keras.optimizers.schedules.LearningRateSchedule):
    """The same shape over a share of the time instead of a number of steps.

    The training loop assigns `progress`, the share of the budget that is spent; the rate reaches
    zero when the time is up, however fast the machine is.

    Args:
        learning_rate: the peak.
        warmup_share: share of the time for the warmup.
    """

    def __init__(self, learning_rate: float, warmup_share: float = 0.1):
        self.learning_rate = learning_rate
        self.warmup_share = warmup_share
        self.progress = tf.Variable(
            0.0, trainable=False, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA
        )

    def __call__(self, step: Any) -> tf.Tensor:
        """Returns the rate (float32 scalar) at the present `progress`."""
        progress = tf.convert_to_tensor(self.progress)
        warming = progress / max(self.warmup_share, 1e-9)
        decayed = (1.0 - progress) / (1.0 - self.warmup_share)
        return self.learning_rate * tf.clip_by_value(tf.minimum(warming, decayed), 0.0, 1.0)

    def get_config(self) -> dict[str, Any]:
        """Keeps every argument."""
        return {"learning_rate": self.learning_rate, "warmup_share": self.warmup_share}
