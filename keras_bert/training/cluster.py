"""Several processes that train one model: who writes, and how they decide together."""

import contextlib
import json
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether this process writes the run's files: the first worker, or the only one."""
    return strategy.extended.should_checkpoint


class Decision(NamedTuple):
    """What all processes do next: steps to make, seconds of training so far, whether to stop."""

    steps: int
    seconds: float
    stop: bool


def check_workers(strategy: tf.distribute.Strategy, step: int, settings: Mapping[str, Any]) -> None:
    """Makes sure that all workers are about to do the same.

    Workers without a common folder would go on from different steps: each would train a model of
    its own with the gradients of all.

    Args:
        strategy: the `tf.distribute` strategy of the run.
        step: where this worker stands; 0 as long as it does not know.
        settings: what it was told, without paths; nothing where that was compared before.

    Raises:
        ValueError: they differ; raised in all workers.
    """
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return
    told = zlib.crc32(json.dumps(settings, sort_keys=True).encode())  # one number to compare
    gather = tf.function(_gathered)
    row = tf.constant([step, told], tf.float64)
    rows = gather(strategy, row).numpy()  # [workers, 2]
    steps, tellings = [int(row[0]) for row in rows], {row[1] for row in rows}
    problem = None
    if len(set(steps)) > 1:
        problem = (
            f"the workers stand at different steps ({', '.join(map(str, steps))}): give all of "
            "them one --model_dir that each can read, on a shared disk or in a bucket"
        )
    elif len(tellings) > 1:
        problem = (
            "the workers were started with different options, model or data: give all of them "
            "the same command and the same records, and name --mixed_precision where their "
            "processors differ"
        )
    if problem is not None:
        # Another worker may still be fetching its rows from this process, which is about to end.
        # Once all have begun to gather again they have them, and how that ends matters to nobody.
        with contextlib.suppress(tf.errors.OpError):
            gather(strategy, row)
        raise ValueError(problem)


class Agreement:
    """Lets all processes of a run take the same decision.

    Clocks differ and a signal reaches one process only, but all must make the same number of steps
    and end at the same one: a process alone in a collective operation waits for ever.

    Args:
        strategy: the `tf.distribute` strategy of the run.
    """

    def __init__(self, strategy: tf.distribute.Strategy):
        self._strategy = strategy
        self._several = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        self._gather = tf.function(_gathered)

    def __call__(self, own: Decision) -> Decision:
        """Returns the chief's steps and seconds; stops when any process was told to."""
        if not self._several:
            return own
        row = tf.constant([own.steps, own.seconds, own.stop], tf.float64)  # [3]
        rows = self._gather(self._strategy, row).numpy()
        return Decision(int(rows[0, 0]), float(rows[0, 1]), bool(rows[:, 2].any()))

    def chiefs(self, numbers: Mapping[str, float]) -> dict[str, float]:
        """Returns the chief's numbers; every process names the same ones."""
        if not self._several or not numbers:
            return dict(numbers)
        row = tf.constant(list(numbers.values()), tf.float64)  # [numbers]
        rows = self._gather(self._strategy, row).numpy()
        return dict(zip(numbers, rows[0].tolist(), strict=True))


def _gathered(strategy: tf.distribute.Strategy, row: tf.Tensor) -> tf.Tensor:
    """Returns the rows [N] of all replicas, [replicas, N]."""
    return strategy.gather(strategy.run(lambda: row[None]), axis=0)
