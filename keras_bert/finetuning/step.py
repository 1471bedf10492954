"""One step of fine-tuning: the same update for any number of replicas and micro-batches."""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_bert.finetuning.distillation import Imitation
from keras_bert.training.base_optimizer import BaseOptimizer
from keras_bert.training.dropout_seeds import DropoutSeeds
from keras_bert.training.precision import DynamicLossScale

_TOKENS = "real tokens"  # among the counts by name of an output


class Batch(NamedTuple):
    """Inputs and targets by name (or one tensor), and float32 [B]: 0 for what fills a batch."""

    inputs: Any
    targets: Any
    weights: tf.Tensor


class FinetuningStep:
    """A `train_step` for `model.fit` in place of that of Keras.

    Each loss is the sum over the examples of the *global* batch, each times its weight, divided by
    their number; that of tags is divided by the number of labeled pieces. So a batch gives the same
    update however it is spread over replicas and micro-batches, and however many examples fill it
    up. A model with several outputs learns by the mean of their losses, as run_squad.py does with
    starts and ends. Dropout masks follow from the seed and the step.

    Args:
        model: the model; its trainable variables are those that the optimizer was built with.
        optimizer: sums gradients over replicas itself.
        loss: the loss, or the losses by output. `call` returns a number for each example, [B]. A
            loss with a method `counted(y_true)`, which returns zeros and ones [B, S], has one for
            each position.
        seed: seed of the dropout masks.
        accumulation_steps: micro-batches into which a replica cuts its batch to save memory.
        loss_scale: keeps float16 gradients from vanishing; None where numbers have the range of
            float32.
        imitation: compares the layers with those of a teacher, a mean over the real tokens of the
            global batch; None for the losses alone.
    """

    def __init__(
        self,
        model: keras.Model,
        optimizer: BaseOptimizer,
        loss: keras.losses.Loss | Mapping[str, keras.losses.Loss],
        seed: int,
        accumulation_steps: int = 1,
        loss_scale: DynamicLossScale | None = None,
        imitation: Imitation | None = None,
    ):
        self._model = model
        self._optimizer = optimizer
        self._losses = loss if isinstance(loss, Mapping) else {"": loss}
        self._dropout_seeds = DropoutSeeds(model, seed)
        self._accumulation_steps = accumulation_steps
        self._loss_scale = loss_scale
        self._imitation = imitation
        self._variables = model.trainable_variables

    def __call__(self, data: tuple[Any, Any, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Runs in a replica on its part of the global batch.

        Returns:
            float32, equal on all replicas when averaged, as Keras does: the `loss` of the global
            batch, the number of its `examples`, and whether the model was `updated`, 0 or 1.
        """
        context = tf.distribute.get_replica_context()
        batch = Batch(*data)
        # How many examples a part has, and what the sum of each loss is divided by.
        real = tf.cast(batch.weights > 0, tf.float32)
        counts = {
            name: tf.reduce_sum(_counted(loss, _part(batch.targets, name), real))
            for name, loss in self._losses.items()
        }
        if self._imitation:
            counts[_TOKENS] = self._imitation.count(batch.inputs, real)
        examples, counts = context.all_reduce(
            tf.distribute.ReduceOp.SUM, (tf.reduce_sum(real), counts)
        )
        step = self._optimizer.iterations.value
        if self._accumulation_steps == 1:
            gradients, loss = self._gradients(batch, counts, step, 0)
        else:
            # [B, ...] -> [parts, b, ...]
            parts = tf.nest.map_structure(self._split, batch)

            def add_part(part: tf.Tensor, total: list[tf.Tensor], loss: tf.Tensor) -> tuple:
                micro_batch = tf.nest.map_structure(lambda value: value[part], parts)  # [b, ...]
                gradients, more = self._gradients(micro_batch, counts, step, part)
                return part + 1, [a + b for a, b in zip(total, gradients, strict=True)], loss + more

            nothing = [tf.zeros(variable.shape, variable.dtype) for variable in self._variables]
            _, gradients, loss = tf.while_loop(
                lambda part, *_: part < self._accumulation_steps,
                add_part,
                (tf.constant(0), nothing, tf.zeros(())),
                parallel_iterations=1,
            )
        scale = self._scale()
        updated = self._optimizer.apply_where_finite(gradients, self._variables, loss, scale)
        if self._loss_scale:
            self._loss_scale.update(updated)
        result = {
            "loss": loss * context.num_replicas_in_sync,
            "examples": examples,
            "updated": tf.cast(updated, tf.float32),
        }
        if isinstance(context.strategy, tf.distribute.MultiWorkerMirroredStrategy):
            # Keras averages over the first axis of what workers return.
            result = {name: value[None] for name, value in result.items()}
        return result

    def _scale(self) -> tf.Tensor | float:
        return self._loss_scale.value if self._loss_scale else 1.0

    def _gradients(
        self, batch: Batch, counts: Mapping[str, tf.Tensor], step: tf.Tensor, part: Any
    ) -> tuple[list[tf.Tensor], tf.Tensor]:
        seeds = self._dropout_seeds.at(step, part)
        with self._dropout_seeds.scope(seeds), tf.GradientTape() as tape:
            recorded = self._imitation.recorder.states() if self._imitation else nullcontext()
            with recorded as states:
                outputs = self._model(batch.inputs, training=True)
            loss = tf.zeros(())
            for name, of_output in self._losses.items():
                targets = _part(batch.targets, name)
                losses = of_output.call(targets, _part(outputs, name))  # [B], or [B, S]
                weighted = tf.reduce_sum(losses * _counted(of_output, targets, batch.weights))
                # No labeled piece, no loss.
                loss += weighted / tf.maximum(counts[name], 1.0)
            loss = loss / len(self._losses)
            if self._imitation and states:
                imitated = self._imitation(states, batch.inputs, batch.weights)  # a sum, []
                loss += imitated / tf.maximum(counts[_TOKENS], 1.0)
            scaled = loss * self._scale()
        variables = [variable.value for variable in self._variables]
        gradients = tape.gradient(scaled, variables, unconnected_gradients="zero")
        return [tf.convert_to_tensor(gradient) for gradient in gradients], loss

    def _split(self, value: tf.Tensor) -> tf.Tensor:
        """[B, ...] to [accumulation_steps, B / accumulation_steps, ...]."""
        shape = tf.concat([[self._accumulation_steps, -1], tf.shape(value)[1:]], axis=0)
        return tf.reshape(value, shape)


def _part(values: Any, name: str) -> Any:
    return values[name] if name else values


def _counted(loss: keras.losses.Loss, targets: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Returns how much each number counts that `loss.call` returns: [B], or [B, S]."""
    if not hasattr(loss, "counted"):
        return weights
    return loss.counted(targets) * weights[:, None]
