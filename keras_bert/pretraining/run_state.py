"""What a pretraining run remembers besides weights and moments."""

import math

import tensorflow as tf

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
