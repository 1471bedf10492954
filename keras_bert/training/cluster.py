"""Several processes that train one model: who writes, and how they decide together."""

from typing import NamedTuple

import tensorflow as tf


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether this process writes the run's files: the first worker, or the only one."""
    return strategy.extended.should_checkpoint


class Decision(NamedTuple):
    """What all processes do next: steps to make, seconds of training so far, whether to stop."""

    steps: int
    seconds: float
    stop: bool


class Agreement:
    """Lets all processes of a run take the same decision.

    Clocks differ and a signal reaches one process only, but all must make the same number of steps
    and end at the same one: a process alone in a collective operation waits for ever.

    Args:
        strategy: where the run runs.
    """

    def __init__(self, strategy: tf.distribute.Strategy):
        self._strategy = strategy
        self._several = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        self._gather = tf.function(self._gathered)

    def __call__(self, own: Decision) -> Decision:
        """Returns the chief's steps and seconds; stops when any process was told to."""
        if not self._several:
            return own
        rows = self._gather(tf.constant([own.steps, own.seconds, own.stop], tf.float64)).numpy()
        return Decision(int(rows[0, 0]), float(rows[0, 1]), bool(rows[:, 2].any()))

    def _gathered(self, row: tf.Tensor) -> tf.Tensor:
        return self._strategy.gather(self._strategy.run(lambda: row[None]), axis=0)
