"""What BERT's optimizers share: two moments, clipping over all replicas, exclusions by path."""

import re
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

# Layer norms and biases are not decayed (google-research/bert, optimization.py). Searched in the
# variable's path: Keras' own `variable.name` is only "gamma", "beta" or "bias".
NOT_DECAYED = (r"norm/(gamma|beta)$", r"bias$")


class BaseOptimizer(keras.optimizers.Optimizer):
    """Two moments and decoupled weight decay; a subclass adds `update_step`.

    Args:
        learning_rate: a number or a Keras schedule.
        weight_decay_rate: decay per unit of learning rate.
        beta_1: decay of the first moment.
        beta_2: decay of the second moment.
        epsilon: added to the root of the second moment.
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
        global_clipnorm: float | None = 1.0,
        not_decayed: Sequence[str] = NOT_DECAYED,
        **kwargs: Any,
    ):
        super().__init__(learning_rate=learning_rate, global_clipnorm=global_clipnorm, **kwargs)
        self.weight_decay_rate = weight_decay_rate
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
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
            "not_decayed": list(self.not_decayed),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> "BaseOptimizer":
        """Rebuilds the optimizer from `get_config`."""
        config = dict(config)
        config.pop("weight_decay", None)  # the base class' own, which these optimizers do not use
        return super().from_config(config, custom_objects)


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
