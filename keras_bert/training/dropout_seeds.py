"""Dropout masks that follow from a run's seed and the step, whatever ran before."""

from typing import Any

import keras
import tensorflow as tf


class DropoutSeeds:
    """Replaces the dropout seeds that Keras keeps in variables by values computed from the step.

    A resumed run draws the masks of the run that was never stopped, and replicas, which would share
    the mirrored variable, draw different ones.

    Args:
        model: the model whose dropouts get the seeds.
        seed: seed of the run.
    """

    def __init__(self, model: keras.Model, seed: int):
        self._seed = seed
        self._variables = [
            variable
            for variable in model.non_trainable_variables
            if variable.path.endswith("seed_generator_state")
        ]

    def at(self, step: tf.Tensor, part: Any) -> tf.Tensor:
        """Returns int32 [dropouts, 2], the seeds of this replica for a micro-batch of a step.

        Args:
            step: index of the step, an integer scalar.
            part: index of the micro-batch, an integer or an integer scalar.
        """
        context = tf.distribute.get_replica_context()
        replica = tf.cast(context.replica_id_in_sync_group, tf.int32)  # []
        # Folded in one after the other: a change of any of the four numbers changes all seeds.
        key = tf.constant([self._seed % 2**31, 0x6B65], tf.int32)
        for number in (tf.cast(step, tf.int32), replica, tf.cast(part, tf.int32)):
            key = tf.random.experimental.stateless_fold_in(key, number)  # [2]
        return tf.random.stateless_uniform(
            (len(self._variables), 2), key, 0, 2**31 - 1, dtype=tf.int32
        )

    def scope(self, seeds: tf.Tensor) -> keras.StatelessScope:
        """Returns a scope in which the model draws its masks from what `at` returned."""
        # [2] for each generator
        pairs = zip(self._variables, tf.unstack(seeds, len(self._variables)), strict=True)
        return keras.StatelessScope(
            state_mapping=[(v, tf.cast(seed, v.dtype)) for v, seed in pairs]
        )
