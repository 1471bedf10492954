"""One pretraining step: the same mathematics for any number of replicas and micro-batches."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_bert.features import (
    EXAMPLE_WEIGHTS,
    INPUT_MASK,
    MASKED_LM_IDS,
    MASKED_LM_WEIGHTS,
    NEXT_SENTENCE_LABELS,
)
from keras_bert.pretraining.losses import WeightedSums, classification_sums
from keras_bert.training.base_optimizer import BaseOptimizer
from keras_bert.training.dropout_seeds import DropoutSeeds
from keras_bert.training.precision import DynamicLossScale

Batch = Mapping[str, tf.Tensor]


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


class StepResult(NamedTuple):
    """What one step gives back on a replica.

    Attributes:
        sums: this replica's sums; zeros where the step was skipped.
        loss: this replica's part of the loss of the global batch (float32 scalar).
        updated: whether the model was updated; the same on all replicas (boolean scalar).
    """

    sums: StepSums
    loss: tf.Tensor
    updated: tf.Tensor


class LoopResult(NamedTuple):
    """What a call of the training loop gives back, over all replicas.

    Attributes:
        sums: sums of the steps that were not skipped.
        losses: the loss of every step, float32 [count].
        updated: whether each step updated the model, bool [count].
    """

    sums: StepSums
    losses: tf.Tensor
    updated: tf.Tensor


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
    spread over replicas and micro-batches. A batch whose loss or gradient is not finite changes
    nothing but the step's number.

    Args:
        model: a `BertPretrainer`.
        optimizer: sums gradients over replicas itself.
        seed: of the dropout masks, which depend on it, the step, the replica and the micro-batch.
        next_sentence: whether the next sentence loss counts.
        accumulation_steps: micro-batches into which a replica cuts its batch to save memory.
        loss_scale: keeps float16 gradients from vanishing; None where numbers have the range of
            float32.
        compiled: whether XLA compiles forward and backward pass. On a TPU everything is compiled
            anyway; the collectives and the update stay outside on a GPU.
    """

    def __init__(
        self,
        model: keras.Model,
        optimizer: BaseOptimizer,
        seed: int,
        next_sentence: bool = True,
        accumulation_steps: int = 1,
        loss_scale: DynamicLossScale | None = None,
        compiled: bool = False,
    ):
        self._model = model
        self._optimizer = optimizer
        self._next_sentence = next_sentence
        self._accumulation_steps = accumulation_steps
        self._loss_scale = loss_scale
        self._differentiate = self._plain_gradients
        if compiled:
            self._differentiate = tf.function(self._plain_gradients, jit_compile=True)
        self._variables = model.trainable_variables
        self._dropout_seeds = DropoutSeeds(model, seed)

    def __call__(self, batch: Batch) -> StepResult:
        """Runs in a replica on its part of the global batch."""
        counts = self._global_counts(batch)
        step = self._optimizer.iterations.value
        if self._accumulation_steps == 1:
            gradients, sums = self._gradients(batch, counts, step, 0)
        else:
            gradients, sums = self._accumulated_gradients(batch, counts, step)
        loss = self._loss(sums, counts)
        updated = self._optimizer.apply_where_finite(
            gradients, self._variables, loss, self._scale()
        )
        if self._loss_scale:
            self._loss_scale.update(updated)
        kept = tf.cast(updated, tf.float32)
        sums = tf.nest.map_structure(lambda value: tf.math.multiply_no_nan(value, kept), sums)
        return StepResult(sums, loss, updated)

    def _loss(self, sums: StepSums, counts: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        predictions, examples = counts
        loss = sums.masked_lm.loss / predictions
        if self._next_sentence:
            loss += sums.next_sentence.loss / examples
        return loss

    def _scale(self) -> tf.Tensor | float:
        return self._loss_scale.value if self._loss_scale else 1.0

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
        seeds = self._dropout_seeds.at(step, part)
        scale = tf.convert_to_tensor(self._scale())
        return self._differentiate(dict(batch), counts, seeds, scale)

    def _plain_gradients(
        self,
        batch: Batch,
        counts: tuple[tf.Tensor, tf.Tensor],
        seeds: tf.Tensor,
        scale: tf.Tensor,
    ) -> tuple[list[tf.Tensor], StepSums]:
        with self._dropout_seeds.scope(seeds), tf.GradientTape() as tape:
            outputs = self._model({name: batch[name] for name in self._model.input}, training=True)
            sums = batch_sums(outputs, batch)
            loss = self._loss(sums, counts) * scale
        variables = [variable.value for variable in self._variables]
        gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
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


def make_training_loop(step: PretrainingStep, strategy: tf.distribute.Strategy) -> Callable:
    """Returns `loop(iterator, count)`: a `tf.function` that runs `count` steps in one host call.

    It returns a `LoopResult`.
    """

    @tf.function
    def loop(iterator: Any, count: tf.Tensor) -> LoopResult:
        sums = StepSums.zeros()
        losses = tf.TensorArray(tf.float32, count)
        updated = tf.TensorArray(tf.bool, count)
        for i in tf.range(count):
            result = strategy.run(step, args=(next(iterator),))
            sums = sums + _sum_over_replicas(strategy, result.sums)
            losses = losses.write(i, _sum_over_replicas(strategy, result.loss))
            updated = updated.write(i, strategy.experimental_local_results(result.updated)[0])
        return LoopResult(sums, losses.stack(), updated.stack())

    return loop


def make_evaluation_step(model: keras.Model, strategy: tf.distribute.Strategy) -> Callable:
    """Returns `evaluate(batch)`: the sums of one global batch without dropout, no update."""

    def replica_sums(batch: Batch) -> StepSums:
        outputs = model({name: batch[name] for name in model.input}, training=False)
        return batch_sums(outputs, batch)

    @tf.function
    def evaluate(batch: Any) -> StepSums:
        return _sum_over_replicas(strategy, strategy.run(replica_sums, args=(batch,)))

    return evaluate


def _sum_over_replicas(strategy: tf.distribute.Strategy, sums: Any) -> Any:
    return tf.nest.map_structure(
        lambda value: strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None), sums
    )
