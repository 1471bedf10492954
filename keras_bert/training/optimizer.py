"""The optimizer of the paper, and `create_optimizer`."""

from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_bert.choices import OptimizerName, ScheduleName, check_choice
from keras_bert.training.base_optimizer import BaseOptimizer
from keras_bert.training.lamb import Lamb
from keras_bert.training.schedules import create_schedule


class _SharedNumbers(NamedTuple):
    kept: tf.Tensor  # what decay leaves of a weight
    of_kernel: dict[str, tf.Tensor]  # arguments of ResourceApplyAdam


@keras.saving.register_keras_serializable("keras_bert")
class BertAdamW(BaseOptimizer):
    """Adam with decoupled weight decay, as BERT was trained with (`AdamWeightDecayOptimizer`).

    One step, with g the gradient clipped by the global norm over all variables and replicas:

        m <- beta_1 m + (1 - beta_1) g
        v <- beta_2 v + (1 - beta_2) g^2
        w <- w - rate (m / (sqrt(v) + epsilon) + weight_decay_rate w)

    The original has no bias correction. With `bias_correction` m and v are divided by
    1 - beta^t first (Kingma & Ba 2015), which makes fine-tuning on small sets more stable.

    Args:
        learning_rate: a number or a Keras schedule.
        bias_correction: whether the moments are corrected for their zero start.
        name: name of the optimizer.
        **kwargs: further arguments of `BaseOptimizer`.

    Raises:
        ValueError: on building, when a pattern of `not_decayed` matches no variable.
    """

    def __init__(
        self,
        learning_rate: Any,
        *,
        bias_correction: bool = False,
        name: str = "bert_adamw",
        **kwargs: Any,
    ):
        super().__init__(learning_rate, name=name, **kwargs)
        self.bias_correction = bias_correction

    def shared_numbers(self, rate: tf.Tensor, finite: tf.Tensor) -> _SharedNumbers:
        """Returns what the variables of a learning rate share; see `BaseOptimizer`."""
        beta_1, beta_2 = self.decays(finite, rate.dtype)
        power_1 = power_2 = tf.zeros((), rate.dtype)  # []
        if self.bias_correction:
            step = self.step_count(rate.dtype)
            power_1 = tf.cast(self.beta_1, rate.dtype) ** step
            power_2 = tf.cast(self.beta_2, rate.dtype) ** step
        # The kernel's formula is
        # rate * sqrt(1 - power_2) / (1 - power_1) * m / (sqrt(v) + epsilon): powers of zero leave
        # the uncorrected form, and the corrected one needs epsilon on the same scale as sqrt(v).
        # It also takes 1 - beta in float32, which is off by 1e-5 for 0.999: rate and epsilon are
        # scaled by what that does to m and sqrt(v).
        scale_1, scale_2 = _float32_excess(self.beta_1), _float32_excess(self.beta_2) ** 0.5
        of_kernel = {
            "beta1_power": power_1,
            "beta2_power": power_2,
            "lr": rate * (scale_2 / scale_1),
            "beta1": beta_1,
            "beta2": beta_2,
            "epsilon": self.epsilon * scale_2 * tf.sqrt(1.0 - power_2),
        }
        return _SharedNumbers(1.0 - rate * self.weight_decay_rate, of_kernel)

    def update_step(self, gradient: Any, variable: Any, numbers: _SharedNumbers) -> None:
        """Updates one variable of one replica in place."""
        index = self._get_variable_index(variable)
        if self._decayed[index] and self.weight_decay_rate:
            # Decay of the old weight, apart from the moments: what "decoupled" says.
            variable.assign(variable * numbers.kept)
        # One kernel instead of a dozen passes over the memory.
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._first_moments[index].value.handle,
            v=self._second_moments[index].value.handle,
            grad=tf.cast(gradient, variable.dtype),
            **numbers.of_kernel,
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {"bias_correction": self.bias_correction}


def _float32_excess(beta: float) -> float:
    # 0.999 in float32 is 0.99900001287, so 1 - beta comes out 1.3e-5 too small: returns 0.999987.
    return (1.0 - float(np.float32(beta))) / (1.0 - beta)


_CLASSES: dict[OptimizerName, type[BaseOptimizer]] = {"adamw": BertAdamW, "lamb": Lamb}


def optimizer_class(name: OptimizerName) -> type[BaseOptimizer]:
    """Returns the optimizer of a name.

    Raises:
        ValueError: the name is unknown.
    """
    check_choice("optimizer", name, OptimizerName)
    return _CLASSES[name]


def create_optimizer(
    learning_rate: float = 1e-4,
    train_steps: int = 1_000_000,
    warmup_steps: int = 10_000,
    optimizer: OptimizerName = "adamw",
    schedule: ScheduleName = "linear",
    **arguments: Any,
) -> BaseOptimizer:
    """Returns an optimizer under its schedule, for `model.compile` or a loop of one's own.

    The defaults are those of the paper's pretraining (section A.2).

    Args:
        learning_rate: the peak of the learning rate.
        train_steps: steps of the whole run.
        warmup_steps: steps until the peak.
        optimizer: "adamw" (`BertAdamW`) or "lamb" (`Lamb`).
        schedule: what follows the warmup: "linear", "polynomial", "cosine", "constant" or
            "warmup_stable_decay".
        **arguments: further arguments of the optimizer.

    Raises:
        ValueError: a name is unknown, a number is out of its range, or the warmup is longer than
            the run.
    """
    rate = create_schedule(schedule, learning_rate, train_steps, warmup_steps)
    return optimizer_class(optimizer)(rate, **arguments)
