"""One pretraining step: the same mathematics for any number of replicas and micro-batches.

    global batch [B, S]
      -> replicas       [B / replicas, S]                 each has the whole model
      -> micro-batches  [B / replicas / micro-batches, S] one after the other, to save memory

Each micro-batch gives sums, by the names of the objective's losses, and the gradient of

    loss = sum over names of  scale[name] * sum of losses / count[name]

whose counts are those of the *global* batch and known before the forward pass. So the gradients of
micro-batches are added, those of replicas are added (by the optimizer, which needs the norm of the
whole for clipping), and what comes out is the gradient of the global batch, no matter how it was
cut. The mean of the replicas' means would be another one wherever sequences have different numbers
of predictions.

    loop(iterator, n)                n steps in one call of the host, one `tf.function`
      strategy.run(step)             on every replica:
        counts                         all-reduced
        for each micro-batch:          dropout masks follow from (seed, step, replica, part)
          objective.sums               forward pass and losses
          tape.gradient                of the scaled loss
        optimizer                      all-reduces, clips, updates, unless something is not finite
      sums and losses                  reduced over replicas, for metrics and the watch

An example: two replicas of 3 and 1 predictions, with losses 2 2 2 and 6. The count is 4 on both,
their parts of the loss are 6/4 and 6/4, and the sum is 3.0, the mean over predictions; the mean of
both means would be 4.0.

Shapes: B rows of the global batch, b rows of a micro-batch, S positions, [] a scalar.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_bert.features import INPUT_MASK
from keras_bert.pretraining.objectives.objective import Batch, Objective, WeightedSums
from keras_bert.training.base_optimizer import BaseOptimizer
from keras_bert.training.dropout_seeds import DropoutSeeds
from keras_bert.training.precision import DynamicLossScale


class StepSums(NamedTuple):
    """What a step adds up, over replicas and micro-batches (float32 scalars).

    Attributes:
        by_name: the objective's sums.
        tokens: real pieces.
    """

    by_name: dict[str, WeightedSums]
    tokens: tf.Tensor

    @classmethod
    def zeros(cls, names: Iterable[str]) -> "StepSums":
        """Returns the empty sum under some names."""
        return cls(
            {name: WeightedSums(*(tf.zeros(()) for _ in WeightedSums._fields)) for name in names},
            tf.zeros(()),
        )

    # Sums are added, where other tuples are put one behind the other.
    def __add__(self, other: "StepSums") -> "StepSums":  # type: ignore[override]
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


class PretrainingStep:
    """Computes gradients on each replica, sums them, updates the model.

    A batch whose loss or gradient is not finite changes nothing but the step's number.

    Args:
        model: what the objective's `create_model` returned.
        optimizer: sums gradients over replicas itself.
        objective: the losses.
        seed: seed of the dropout masks, which depend on it, the step, the replica and the
            micro-batch.
        accumulation_steps: micro-batches into which a replica cuts its batch to save memory.
        loss_scale: keeps float16 gradients from vanishing; None where numbers have the range of
            float32.
        compiled: whether XLA compiles the step. On a TPU it is compiled anyway. Of several GPUs
            each has a compiled forward and backward pass; the collectives and the update, which
            waits for them, stay outside.
    """

    def __init__(
        self,
        model: keras.Model,
        optimizer: BaseOptimizer,
        objective: Objective,
        seed: int,
        accumulation_steps: int = 1,
        loss_scale: DynamicLossScale | None = None,
        compiled: bool = False,
    ):
        self._model = model
        self._optimizer = optimizer
        self.objective = objective
        self._accumulation_steps = accumulation_steps
        self._loss_scale = loss_scale
        # The parts that XLA compiles, or not: forward and backward pass, a function of tensors; and
        # the step of the only replica, whose update is a thousand small operations otherwise.
        self._differentiate, self._alone = self._plain_gradients, self._step
        if compiled:
            self._differentiate = tf.function(self._plain_gradients, jit_compile=True)
            self._alone = tf.function(self._step, jit_compile=True)
        self._variables = model.trainable_variables
        self._dropout_seeds = DropoutSeeds(model, seed)

    def __call__(self, batch: Batch) -> StepResult:
        """Runs in a replica on its part of the global batch."""
        context = tf.distribute.get_replica_context()
        return (self._alone if context.num_replicas_in_sync == 1 else self._step)(batch)

    def _step(self, batch: Batch) -> StepResult:
        # The counts of the global batch, [] a name, before anything is computed.
        context = tf.distribute.get_replica_context()
        counts = context.all_reduce(tf.distribute.ReduceOp.SUM, self.objective.counts(batch))
        counts = {name: tf.maximum(count, 1.0) for name, count in counts.items()}
        step = self._optimizer.iterations.value  # []: the seeds of the dropouts follow from it
        if self._accumulation_steps == 1:
            gradients, sums = self._gradients(batch, counts, step, 0)
        else:
            parts = {name: self._split(value) for name, value in batch.items()}  # [parts, b, ...]

            def add_part(part: tf.Tensor, total: list[tf.Tensor], sums: StepSums) -> tuple:
                micro_batch = {name: value[part] for name, value in parts.items()}  # [b, ...]
                gradients, more = self._gradients(micro_batch, counts, step, part)
                return part + 1, [a + b for a, b in zip(total, gradients, strict=True)], sums + more

            # The gradients add up in the dtype of the variables, float32 under every policy.
            nothing = [tf.zeros(variable.shape, variable.dtype) for variable in self._variables]
            start = (tf.constant(0), nothing, StepSums.zeros(self.objective.scales))
            # One after the other: two at once would take the memory that was to be saved.
            _, gradients, sums = tf.while_loop(
                lambda part, *_: part < self._accumulation_steps,
                add_part,
                start,
                parallel_iterations=1,
            )
        loss = self._loss(sums, counts)  # this replica's part of it
        updated = self._optimizer.apply_where_finite(  # bool []
            gradients, self._variables, loss, self._scale()
        )
        if self._loss_scale:
            self._loss_scale.update(updated)
        # Of a skipped step metrics know nothing: NaN * 0 is 0 here.
        kept = tf.cast(updated, tf.float32)  # []: 1, or 0 for a skipped step
        sums = tf.nest.map_structure(lambda value: tf.math.multiply_no_nan(value, kept), sums)
        return StepResult(sums, loss, updated)

    def _loss(self, sums: StepSums, counts: dict[str, tf.Tensor]) -> tf.Tensor:
        return tf.add_n(
            [
                scale * sums.by_name[name].loss / counts[name]
                for name, scale in self.objective.scales.items()
            ]
        )

    def _scale(self) -> tf.Tensor | float:
        return self._loss_scale.value if self._loss_scale else 1.0

    def _gradients(
        self, batch: Batch, counts: dict[str, tf.Tensor], step: tf.Tensor, part: Any
    ) -> tuple[list[tf.Tensor], StepSums]:
        seeds = self._dropout_seeds.at(step, part)  # [dropouts, 2]
        scale = tf.convert_to_tensor(self._scale())  # []
        return self._differentiate(dict(batch), counts, seeds, scale)

    def _plain_gradients(
        self, batch: Batch, counts: dict[str, tf.Tensor], seeds: tf.Tensor, scale: tf.Tensor
    ) -> tuple[list[tf.Tensor], StepSums]:
        with self._dropout_seeds.scope(seeds), tf.GradientTape() as tape:
            # Sums [] a name, of this micro-batch alone; the counts are those of the whole batch.
            sums = batch_sums(self.objective, self._model, batch, training=True)
            loss = self._loss(sums, counts) * scale
        # those of TensorFlow behind Keras
        variables = [variable.value for variable in self._variables]
        # Zeros for a head whose loss is left out; dense ones for the embeddings.
        gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
        return [tf.convert_to_tensor(gradient) for gradient in gradients], sums

    def _split(self, value: tf.Tensor) -> tf.Tensor:
        # [B / replicas, ...] -> [parts, b, ...]: the rows of a part stay next to each other.
        size = value.shape[0] // self._accumulation_steps
        return tf.reshape(value, (self._accumulation_steps, size, *value.shape[1:]))


def batch_sums(objective: Objective, model: keras.Model, batch: Batch, training: bool) -> StepSums:
    """Returns the losses, hits and counts of some rows, not yet divided by anything."""
    tokens = tf.reduce_sum(tf.cast(batch[INPUT_MASK], tf.float32))  # [b, S] -> []
    return StepSums(objective.sums(model, batch, training), tokens)


def make_training_loop(step: PretrainingStep, strategy: tf.distribute.Strategy) -> Callable:
    """Returns `loop(iterator, count)`: a `tf.function` that runs `count` steps in one host call.

    It returns a `LoopResult`.
    """

    @tf.function
    def loop(iterator: Any, count: tf.Tensor) -> LoopResult:
        sums = StepSums.zeros(step.objective.scales)
        losses = tf.TensorArray(tf.float32, count)
        updated = tf.TensorArray(tf.bool, count)
        for i in tf.range(count):
            result = strategy.run(step, args=(next(iterator),))
            sums = sums + _sum_over_replicas(strategy, result.sums)  # [] each
            losses = losses.write(i, _sum_over_replicas(strategy, result.loss))
            # All replicas decide alike, so the first one speaks for all.
            updated = updated.write(i, strategy.experimental_local_results(result.updated)[0])
        return LoopResult(sums, losses.stack(), updated.stack())  # [count] each

    return loop


def make_evaluation_step(
    model: keras.Model, objective: Objective, strategy: tf.distribute.Strategy
) -> Callable:
    """Returns `evaluate(batch)`: the `StepSums` of one global batch, no dropout, no update."""

    def replica_sums(batch: Batch) -> StepSums:
        return batch_sums(objective, model, batch, training=False)

    @tf.function
    def evaluate(batch: Any) -> StepSums:
        return _sum_over_replicas(strategy, strategy.run(replica_sums, args=(batch,)))

    return evaluate


def _sum_over_replicas(strategy: tf.distribute.Strategy, sums: Any) -> Any:
    return tf.nest.map_structure(
        lambda value: strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None), sums
    )
