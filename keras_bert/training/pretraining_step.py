"""One pretraining step: the same mathematics for any number of replicas and micro-batches."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_bert.features import (
    ENCODER_FEATURES,
    EXAMPLE_WEIGHTS,
    INPUT_MASK,
    MASKED_LM_IDS,
    MASKED_LM_POSITIONS,
    MASKED_LM_WEIGHTS,
    NEXT_SENTENCE_LABELS,
)
from keras_bert.training.losses import WeightedSums, classification_sums

Batch = Mapping[str, tf.Tensor]

_MODEL_INPUTS = (*(feature.name for feature in ENCODER_FEATURES), MASKED_LM_POSITIONS)


class StepSums(NamedTuple):
    """What a step adds up, over replicas and micro-batches (float32 scalars)."""

    masked_lm: WeightedSums
    next_sentence: WeightedSums
    tokens: tf.Tensor

    @classmethod
    def zeros(cls) -> "StepSums":
        """Returns the empty sum."""
        nothing = WeightedSums(*(tf.zeros(()) for _ in WeightedSums._fields))
        return cls(nothing, nothing, tf.zeros(()))

    def __add__(self, other: "StepSums") -> "StepSums":
        return tf.nest.map_structure(tf.add, self, other)


def batch_sums(outputs: Mapping[str, tf.Tensor], batch: Batch) -> StepSums:
    """Returns the losses, hits and counts of one batch, not yet divided by anything."""
    labels = batch[NEXT_SENTENCE_LABELS]
    example_weights = batch.get(EXAMPLE_WEIGHTS, tf.ones_like(labels, tf.float32))
    return StepSums(
        classification_sums(outputs["mlm_logits"], batch[MASKED_LM_IDS], batch[MASKED_LM_WEIGHTS]),
        classification_sums(outputs["nsp_logits"], labels, example_weights),
        tf.reduce_sum(tf.cast(batch[INPUT_MASK], tf.float32)),
    )


class PretrainingStep:
    """Computes gradients on each replica, sums them, updates the model.

    The masked LM loss is divided by the number of predictions in the *global* batch and the next
    sentence loss by its number of examples, so that a batch gives the same update however it is
    spread over replicas and micro-batches.

    Args:
        model: a `BertPretrainer`.
        optimizer: sums gradients over replicas itself, as Keras optimizers do.
        seed: of the dropout masks, which depend on it, the step, the replica and the micro-batch.
        next_sentence: whether the next sentence loss counts.
        accumulation_steps: micro-batches into which a replica cuts its batch to save memory.
    """

    def __init__(
        self,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        seed: int,
        next_sentence: bool = True,
        accumulation_steps: int = 1,
    ):
        self._model = model
        self._optimizer = optimizer
        self._seed = seed
        self._next_sentence = float(next_sentence)
        self._accumulation_steps = accumulation_steps
        self._variables = model.trainable_variables
        self._dropout_seeds = [
            variable
            for variable in model.non_trainable_variables
            if variable.path.endswith("seed_generator_state")
        ]

    def __call__(self, batch: Batch) -> StepSums:
        """Runs in a replica on its part of the global batch; returns this replica's sums."""
        counts = self._global_counts(batch)
        step = self._optimizer.iterations.value
        if self._accumulation_steps == 1:
            gradients, sums = self._gradients(batch, counts, step, 0)
        else:
            gradients, sums = self._accumulated_gradients(batch, counts, step)
        self._optimizer.apply(gradients, self._variables)
        return sums

    def _global_counts(self, batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
        counts = [
            tf.reduce_sum(batch[MASKED_LM_WEIGHTS]),
            tf.cast(tf.size(batch[NEXT_SENTENCE_LABELS]), tf.float32),
        ]
        context = tf.distribute.get_replica_context()
        predictions, examples = context.all_reduce(tf.distribute.ReduceOp.SUM, counts)
        return tf.maximum(predictions, 1.0), examples

    def _gradients(
        self, batch: Batch, counts: tuple[tf.Tensor, tf.Tensor], step: tf.Tensor, part: Any
    ) -> tuple[list[tf.Tensor], StepSums]:
        predictions, examples = counts
        with self._dropout_scope(step, part), tf.GradientTape() as tape:
            outputs = self._model({name: batch[name] for name in _MODEL_INPUTS}, training=True)
            sums = batch_sums(outputs, batch)
            loss = sums.masked_lm.loss / predictions
            loss += self._next_sentence * sums.next_sentence.loss / examples
            scaled = self._optimizer.scale_loss(loss)
        variables = [variable.value for variable in self._variables]
        gradients = tape.gradient(scaled, variables, unconnected_gradients="zero")
        return [tf.convert_to_tensor(gradient) for gradient in gradients], sums

    def _accumulated_gradients(
        self, batch: Batch, counts: tuple[tf.Tensor, tf.Tensor], step: tf.Tensor
    ) -> tuple[list[tf.Tensor], StepSums]:
        parts = {name: self._split(value) for name, value in batch.items()}

        def add_part(part: tf.Tensor, total: list[tf.Tensor], sums: StepSums) -> tuple:
            micro_batch = {name: value[part] for name, value in parts.items()}
            gradients, more = self._gradients(micro_batch, counts, step, part)
            return part + 1, [a + b for a, b in zip(total, gradients, strict=True)], sums + more

        nothing = [tf.zeros(variable.shape, variable.dtype) for variable in self._variables]
        start = (tf.constant(0), nothing, StepSums.zeros())
        _, gradients, sums = tf.while_loop(
            lambda part, *_: part < self._accumulation_steps, add_part, start, parallel_iterations=1
        )
        return gradients, sums

    def _split(self, value: tf.Tensor) -> tf.Tensor:
        size = value.shape[0] // self._accumulation_steps
        return tf.reshape(value, (self._accumulation_steps, size, *value.shape[1:]))

    def _dropout_scope(self, step: tf.Tensor, part: Any) -> keras.StatelessScope:
        # The seed states that Keras keeps in variables are replaced by values computed from the
        # step: a resumed run draws the masks of the run that was never stopped, and replicas,
        # which would share the mirrored variable, draw different ones.
        context = tf.distribute.get_replica_context()
        replica = tf.cast(context.replica_id_in_sync_group, tf.int32)
        key = tf.constant([self._seed % 2**31, 0x6B65], tf.int32)
        for number in (tf.cast(step, tf.int32), replica, tf.cast(part, tf.int32)):
            key = tf.random.experimental.stateless_fold_in(key, number)
        seeds = tf.random.stateless_uniform(
            (len(self._dropout_seeds), 2), key, 0, 2**31 - 1, dtype=tf.int32
        )
        values = [tf.cast(seeds[i], v.dtype) for i, v in enumerate(self._dropout_seeds)]
        return keras.StatelessScope(
            state_mapping=list(zip(self._dropout_seeds, values, strict=True))
        )


def make_training_loop(step: PretrainingStep, strategy: tf.distribute.Strategy) -> Callable:
    """Returns `loop(iterator, count)`: a `tf.function` that runs `count` steps in one host call."""

    @tf.function
    def loop(iterator: Any, count: tf.Tensor) -> StepSums:
        sums = StepSums.zeros()
        for _ in tf.range(count):
            per_replica = strategy.run(step, args=(next(iterator),))
            sums = sums + _sum_over_replicas(strategy, per_replica)
        return sums

    return loop


def make_evaluation_step(model: keras.Model, strategy: tf.distribute.Strategy) -> Callable:
    """Returns `evaluate(batch)`: the sums of one global batch without dropout, no update."""

    def replica_sums(batch: Batch) -> StepSums:
        outputs = model({name: batch[name] for name in _MODEL_INPUTS}, training=False)
        return batch_sums(outputs, batch)

    @tf.function
    def evaluate(batch: Any) -> StepSums:
        return _sum_over_replicas(strategy, strategy.run(replica_sums, args=(batch,)))

    return evaluate


def _sum_over_replicas(strategy: tf.distribute.Strategy, sums: StepSums) -> StepSums:
    return tf.nest.map_structure(
        lambda value: strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None), sums
    )
