"""The optimizer of the paper, and `create_optimizer`."""

import re
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.training.schedules import WarmupLinearDecay

# Layer norms and biases are not decayed (google-research/bert, optimization.py). Searched in the
# variable's path: Keras' own `variable.name` is only "gamma", "beta" or "bias".
NOT_DECAYED = (r"norm/(gamma|beta)$", r"bias$")


@keras.saving.register_keras_serializable("keras_bert")
class BertAdamW(keras.optimizers.Optimizer):
    """Adam with decoupled weight decay, as BERT was trained with (`AdamWeightDecayOptimizer`).

    One step, with g the gradient clipped by the global norm over all variables and replicas:

        m <- beta_1 m + (1 - beta_1) g
        v <- beta_2 v + (1 - beta_2) g^2
        w <- w - rate (m / (sqrt(v) + epsilon) + weight_decay_rate w)

    The original has no bias correction. With `bias_correction` m and v are divided by
    1 - beta^t first (Kingma & Ba 2015), which makes fine-tuning on small sets more stable.

    Args:
        learning_rate: a number or a Keras schedule.
        weight_decay_rate: decay per unit of learning rate.
        beta_1: decay of the first moment.
        beta_2: decay of the second moment.
        epsilon: added to the root of the second moment.
        bias_correction: whether the moments are corrected for their zero start.
        global_clipnorm: largest global norm of the gradient; None for no clipping. Under
            tf.distribute the norm is taken after the sum over replicas.
        not_decayed: patterns searched in variable paths; what one matches is not decayed.

    Raises:
        ValueError: on building, when a pattern matches no variable.
    """

    def __init__(
        self,
        learning_rate: Any,
        weight_decay_rate: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        bias_correction: bool = False,
        global_clipnorm: float | None = 1.0,
        not_decayed: Sequence[str] = NOT_DECAYED,
        name: str = "bert_adamw",
        **kwargs: Any,
    ):
        super().__init__(
            learning_rate=learning_rate, global_clipnorm=global_clipnorm, name=name, **kwargs
        )
        self.weight_decay_rate = weight_decay_rate
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.bias_correction = bias_correction
        self.not_decayed = tuple(not_decayed)

    def build(self, variables: Sequence[Any]) -> None:
        """Makes both moments of every variable and decides which variables are decayed."""
        if self.built:
            return
        super().build(variables)
        self._first_moments = self.add_optimizer_variables(variables, "first_moment")
        self._second_moments = self.add_optimizer_variables(variables, "second_moment")
        self._decayed = decayed_variables([v.path for v in variables], self.not_decayed)

    def apply(self, grads: Sequence[Any], trainable_variables: Any = None) -> None:
        """Updates the variables; sparse gradients are made dense, as Adam's moments are."""
        dense = [None if grad is None else tf.convert_to_tensor(grad) for grad in grads]
        super().apply(dense, trainable_variables)

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Updates one variable of one replica in place."""
        index = self._get_variable_index(variable)
        rate = tf.cast(learning_rate, variable.dtype)
        if self._decayed[index] and self.weight_decay_rate:
            variable.assign(variable * (1.0 - rate * self.weight_decay_rate))
        power_1, power_2 = self._beta_powers(variable.dtype)
        # One kernel instead of a dozen passes over the memory. Its formula is
        # rate * sqrt(1 - power_2) / (1 - power_1) * m / (sqrt(v) + epsilon): powers of zero leave
        # the uncorrected form, and the corrected one needs epsilon on the same scale as sqrt(v).
        # It also takes 1 - beta in float32, which is off by 1e-5 for 0.999: rate and epsilon are
        # scaled by what that does to m and sqrt(v).
        scale_1, scale_2 = _float32_excess(self.beta_1), _float32_excess(self.beta_2) ** 0.5
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._first_moments[index].value.handle,
            v=self._second_moments[index].value.handle,
            beta1_power=power_1,
            beta2_power=power_2,
            lr=rate * (scale_2 / scale_1),
            beta1=tf.cast(self.beta_1, variable.dtype),
            beta2=tf.cast(self.beta_2, variable.dtype),
            epsilon=self.epsilon * scale_2 * tf.sqrt(1.0 - power_2),
            grad=tf.cast(gradient, variable.dtype),
        )

    def _beta_powers(self, dtype: Any) -> tuple[tf.Tensor, tf.Tensor]:
        if not self.bias_correction:
            return tf.zeros((), dtype), tf.zeros((), dtype)
        step = tf.cast(self.iterations.value + 1, dtype)
        return tf.cast(self.beta_1, dtype) ** step, tf.cast(self.beta_2, dtype) ** step

    def _clip_gradients(self, grads: Sequence[Any]) -> Sequence[Any]:
        # Keras clips what each replica has; the norm of the whole batch's gradient is known only
        # after the sum over replicas, so clipping happens in `_backend_update_step`.
        return grads

    def _backend_update_step(
        self, grads: Sequence[Any], trainable_variables: Sequence[Any], learning_rate: Any
    ) -> None:
        variables = [getattr(v, "value", v) for v in trainable_variables]
        pairs = self._all_reduce_sum_gradients(list(zip(grads, variables, strict=True)))
        grads = [grad for grad, _ in pairs]
        if self.global_clipnorm is not None:
            grads, _ = tf.clip_by_global_norm(grads, self.global_clipnorm)
        tf.__internal__.distribute.interim.maybe_merge_call(
            self._distributed_tf_update_step,
            self._distribution_strategy,
            list(zip(grads, variables, strict=True)),
            learning_rate,
        )

    def get_config(self) -> dict[str, Any]:
        """Keeps every argument."""
        return super().get_config() | {
            "weight_decay_rate": self.weight_decay_rate,
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "bias_correction": self.bias_correction,
            "not_decayed": list(self.not_decayed),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> "BertAdamW":
        """Rebuilds the optimizer from `get_config`."""
        config = dict(config)
        config.pop("weight_decay", None)  # the base class' own, which this optimizer does not use
        return super().from_config(config, custom_objects)


def _float32_excess(beta: float) -> float:
    return (1.0 - float(np.float32(beta))) / (1.0 - beta)


def decayed_variables(paths: Sequence[str], not_decayed: Sequence[str]) -> list[bool]:
    """Returns for each variable path whether weight decay applies to it.

    Raises:
        ValueError: a pattern matches no path, so it does not do what its author meant.
    """
    for pattern in not_decayed:
        if not any(re.search(pattern, path) for path in paths):
            raise ValueError(
                f"the pattern {pattern!r} of not_decayed matches none of {len(paths)} variables "
                f"(the first is {paths[0]!r}): mend or remove it"
            )
    return [not any(re.search(pattern, path) for pattern in not_decayed) for path in paths]


def create_optimizer(
    learning_rate: float = 1e-4,
    train_steps: int = 1_000_000,
    warmup_steps: int = 10_000,
    **arguments: Any,
) -> BertAdamW:
    """Returns BERT's optimizer under its schedule, for `model.compile` or a loop of one's own.

    The defaults are those of the paper's pretraining (section A.2).

    Args:
        learning_rate: the peak.
        train_steps: steps of the whole run.
        warmup_steps: steps until the peak.
        **arguments: further arguments of `BertAdamW`.
    """
    schedule = WarmupLinearDecay(learning_rate, train_steps, warmup_steps)
    return BertAdamW(schedule, **arguments)
