"""What BERT's optimizers share: two moments, clipping over all replicas, exclusions by path."""

import re
from collections.abc import Iterable, Mapping, Sequence
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
        rate_scales: patterns searched in variable paths, and what the learning rate of the
            variables is multiplied with; the first that matches counts.

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
        rate_scales: Mapping[str, float] | None = None,
        **kwargs: Any,
    ):
        super().__init__(learning_rate=learning_rate, global_clipnorm=global_clipnorm, **kwargs)
        self.weight_decay_rate = weight_decay_rate
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.not_decayed = tuple(not_decayed)
        self.rate_scales = dict(rate_scales or {})

    def build(self, variables: Sequence[Any]) -> None:
        """Makes both moments of every variable; decides on its decay and its learning rate."""
        if self.built:
            return
        super().build(variables)
        self._first_moments = self.add_optimizer_variables(variables, "first_moment")
        self._second_moments = self.add_optimizer_variables(variables, "second_moment")
        paths = [variable.path for variable in variables]
        self._decayed = decayed_variables(paths, self.not_decayed)
        self._rate_scales = scales_by_path(paths, self.rate_scales)

    def rate_of(self, index: int, learning_rate: Any, dtype: Any) -> tf.Tensor:
        """Returns the learning rate of a variable, by its index."""
        return tf.cast(learning_rate, dtype) * self._rate_scales[index]

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
            "rate_scales": self.rate_scales,
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
    _check_patterns("not_decayed", not_decayed, paths)
    return [not any(re.search(pattern, path) for pattern in not_decayed) for path in paths]


def scales_by_path(paths: Sequence[str], scales: Mapping[str, float]) -> list[float]:
    """Returns for each variable path the scale of the first pattern that matches it, or 1.

    Raises:
        ValueError: a pattern matches no path.
    """
    _check_patterns("rate_scales", scales, paths)
    return [
        next((scale for pattern, scale in scales.items() if re.search(pattern, path)), 1.0)
        for path in paths
    ]


def _check_patterns(argument: str, patterns: Iterable[str], paths: Sequence[str]) -> None:
    for pattern in patterns:
        if not any(re.search(pattern, path) for path in paths):
            raise ValueError(
                f"the pattern {pattern!r} of {argument} matches none of {len(paths)} variables "
                f"(the first is {paths[0]!r}): mend or remove it"
            )
