"""What BERT's optimizers share: two moments, clipping over all replicas, exclusions by path.

gradients of each replica's part of the loss
  -> summed over replicas          the gradient of the global batch, equal everywhere
  -> norm of all of it             one scalar; finite or not
  -> times the clipping factor     0 where the step is skipped
  -> shared_numbers                rate and decays, once for all variables of a kind
  -> update_step, a variable at a time
"""

import math
import numbers
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.counts import check_number

# Layer norms and biases are not decayed (google-research/bert, optimization.py). Searched in the
# variable's path: Keras' own `variable.name` is only "gamma", "beta" or "bias".
NOT_DECAYED = (r"norm/(gamma|beta)$", r"bias$")
# Of Keras' optimizer: each would change the update in a way that is not the paper's.
_NOT_TAKEN = {
    "clipnorm": "global_clipnorm, the norm of all gradients together",
    "clipvalue": "global_clipnorm, the norm of all gradients together",
    "weight_decay": "weight_decay_rate, and not_decayed for what it leaves out",
}


class BaseOptimizer(keras.optimizers.Optimizer):
    """Two moments and decoupled weight decay; a subclass adds `shared_numbers` and `update_step`.

    `shared_numbers(rate, finite)` returns a named tuple of what all variables of a learning rate
    and a number format share, scalars [] in the format of `rate`; `update_step(gradient, variable,
    numbers)` updates one variable. Where `finite` is false, the gradient and the rate are 0 and
    nothing may change.

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
        ValueError: an argument of Keras' optimizer that this one has another for; a number out of
            its range; patterns that are a string or none of `re`; or, on building, a pattern that
            matches no variable.
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
        for name, instead in _NOT_TAKEN.items():
            if kwargs.get(name) is not None:
                raise ValueError(f"{name} is {kwargs[name]}: these optimizers take {instead}")
        if isinstance(learning_rate, numbers.Real):
            _check_from_zero("learning_rate", learning_rate)
        _check_from_zero("weight_decay_rate", weight_decay_rate)
        # A weight without gradients has moments of 0.
        if not 0 < check_number("epsilon", epsilon) < math.inf:
            raise ValueError(f"epsilon is {epsilon}: it must be above 0 and finite")
        if global_clipnorm is not None and not (
            0 < check_number("global_clipnorm", global_clipnorm) < math.inf
        ):
            raise ValueError(
                f"global_clipnorm is {global_clipnorm}: it must be above 0 and finite, or None for "
                "no clipping"
            )
        for name, beta in (("beta_1", beta_1), ("beta_2", beta_2)):
            check_decay(name, beta)
        super().__init__(learning_rate=learning_rate, global_clipnorm=global_clipnorm, **kwargs)
        self.weight_decay_rate = weight_decay_rate
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.not_decayed = _compiled("not_decayed", not_decayed)
        self.rate_scales = dict(rate_scales or {})
        _compiled("rate_scales", self.rate_scales)
        for pattern, scale in self.rate_scales.items():
            _check_from_zero(f"rate_scales[{pattern!r}]", scale)

    def build(self, variables: Sequence[Any]) -> None:
        """Makes both moments of every variable; decides on its decay and its learning rate."""
        if self.built:
            return
        super().build(variables)
        self._first_moments = self.add_optimizer_variables(variables, "first_moment")
        self._second_moments = self.add_optimizer_variables(variables, "second_moment")
        paths = [variable.path for variable in variables]  # such as "layer_0/attention_norm/gamma"
        self._decayed = decayed_variables(paths, self.not_decayed)
        dtypes = [variable.dtype for variable in variables]
        kinds = list(zip(dtypes, scales_by_path(paths, self.rate_scales), strict=True))
        self._kinds = list(dict.fromkeys(kinds))  # number formats and scales of the learning rate
        self._kind_of = [self._kinds.index(kind) for kind in kinds]

    def apply(self, grads: Sequence[Any], trainable_variables: Any = None) -> None:
        """Updates the variables; sparse gradients are made dense, as Adam's moments are."""
        dense = [None if grad is None else tf.convert_to_tensor(grad) for grad in grads]
        super().apply(dense, trainable_variables)

    def _clip_gradients(self, grads: Sequence[Any]) -> Sequence[Any]:
        # Keras clips what each replica has; the norm of the whole batch's gradient is known only
        # after the sum over replicas, so clipping happens in `_backend_update_step`.
        return grads

    def apply_where_finite(
        self, grads: Sequence[Any], trainable_variables: Sequence[Any], loss: Any, scale: Any = 1.0
    ) -> tf.Tensor:
        """Updates the variables as `apply` does, unless the loss or a gradient is not finite.

        Then weights and moments keep their values; the step counts all the same. There is no
        branch in it: the update runs with a rate of zero and decays of one, which an accelerator
        does in the time of an update that counts.

        Args:
            grads: dense gradients of this replica's part of the loss, times `scale`.
            trainable_variables: what the optimizer was built with, in the same order.
            loss: this replica's part of the loss, a scalar.
            scale: what the loss was multiplied with before the gradients were taken.

        Returns:
            Whether the variables were updated: a boolean scalar, the same on all replicas.
        """
        pairs = self._summed_over_replicas(grads, trainable_variables)
        context = tf.distribute.get_replica_context()
        loss = context.all_reduce(tf.distribute.ReduceOp.SUM, loss)  # []
        # [], of the unscaled gradient
        norm = tf.linalg.global_norm([grad for grad, _ in pairs]) / scale
        finite = tf.math.is_finite(norm) & tf.math.is_finite(loss)
        clipping = tf.ones_like(norm)
        most = self.global_clipnorm  # AutoGraph, which reads this function, knows no `:=`
        if most is not None:
            # norm 4 and limit 1: 1 x min(1/4, 1/1) = 0.25; norm 0.5: 1 x min(2, 1) = 1.
            clipping = most * tf.minimum(1.0 / norm, 1.0 / most)
        # Undoes the scale and clips, in one product for each gradient; NaN x 0 is 0 below.
        factor = tf.where(finite, clipping / scale, 0.0)
        pairs = [(tf.math.multiply_no_nan(grad, factor), variable) for grad, variable in pairs]
        self._update(pairs, self._get_current_learning_rate(), finite)
        self._iterations.assign_add(1)
        return finite

    def _backend_update_step(
        self, grads: Sequence[Any], trainable_variables: Sequence[Any], learning_rate: Any
    ) -> None:
        pairs = self._summed_over_replicas(grads, trainable_variables)
        if self.global_clipnorm is not None:
            grads, variables = zip(*pairs, strict=True)
            grads, _ = tf.clip_by_global_norm(grads, self.global_clipnorm)
            pairs = list(zip(grads, variables, strict=True))
        self._update(pairs, learning_rate, tf.constant(True))

    def _summed_over_replicas(
        self, grads: Sequence[Any], variables: Sequence[Any]
    ) -> list[tuple[Any, Any]]:
        values = [getattr(variable, "value", variable) for variable in variables]
        return self._all_reduce_sum_gradients(list(zip(grads, values, strict=True)))

    def _update(
        self, pairs: Sequence[tuple[Any, Any]], learning_rate: Any, finite: tf.Tensor
    ) -> None:
        # No step with the rate 0, in the form of a step.
        rate = tf.where(finite, tf.cast(learning_rate, tf.float32), 0.0)
        numbers = [
            self.shared_numbers(tf.cast(rate, dtype) * scale, finite)
            for dtype, scale in self._kinds
        ]
        # As Keras does: in a merge call under strategies that need one, else in each replica.
        tf.__internal__.distribute.interim.maybe_merge_call(
            self._update_each, self._distribution_strategy, pairs, numbers
        )

    def _update_each(
        self, distribution: Any, pairs: Sequence[tuple[Any, Any]], numbers: list[Any]
    ) -> None:
        def update(variable: Any, gradient: Any, numbers: Any) -> None:
            self.update_step(gradient, variable, numbers)

        for gradient, variable in pairs:
            kind = self._kind_of[self._get_variable_index(variable)]
            distribution.extended.update(
                variable, update, args=(gradient, numbers[kind]), group=False
            )

    def decays(self, finite: Any, dtype: Any) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the decays of both moments, []: 1, which keeps them, where a step is skipped."""
        return tuple(
            tf.where(finite, tf.cast(beta, dtype), tf.ones((), dtype))
            for beta in (self.beta_1, self.beta_2)
        )

    def step_count(self, dtype: Any) -> tf.Tensor:
        """Returns the number of this step, [], counted from 1."""
        return tf.cast(tf.convert_to_tensor(self.iterations) + 1, dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
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


def _check_from_zero(name: str, value: Any) -> None:
    if not 0 <= check_number(name, value) < math.inf:  # nor is NaN
        raise ValueError(f"{name} is {value}: it must be 0 or above, and finite")


def _compiled(argument: str, patterns: Iterable[str]) -> tuple[str, ...]:
    """Returns patterns of variable paths that are some, before any variable is made."""
    if isinstance(patterns, str):
        raise ValueError(
            f"{argument} is the string {patterns!r}, of which each letter would be a pattern: give "
            f"[{patterns!r}]"
        )
    for pattern in patterns:
        try:
            re.compile(pattern)
        except (re.error, TypeError) as error:
            raise ValueError(
                f"the pattern {pattern!r} of {argument} is no regular expression ({error}): fix or "
                "remove it"
            ) from None
    return tuple(patterns)


def check_decay(name: str, value: float) -> None:
    """Makes sure that a moment decays, also in float32, where 0.99999999 is 1.

    Args:
        name: of the argument.
        value: the decay of a step.

    Raises:
        ValueError: it is out of its range, or too close to 1.
    """
    if not 0 <= value < 1 or np.float32(value) == 1:  # nor is NaN
        raise ValueError(
            f"{name} is {value}: it must be from 0 to below 1, also where it is rounded to "
            "float32; give 0.9999999 at most"
        )


def decayed_variables(paths: Sequence[str], not_decayed: Sequence[str]) -> list[bool]:
    """Returns for each variable path whether weight decay applies to it.

    Raises:
        ValueError: a pattern matches no path, so it does not do what its author meant. Those of
            `NOT_DECAYED` may where no path ends as those of norms or biases do: of a frozen
            encoder only the head is left.
    """
    ends = dict(zip(NOT_DECAYED, (r"(gamma|beta)$", r"bias$"), strict=True))
    meant = [p for p in not_decayed if any(re.search(ends.get(p, ""), path) for path in paths)]
    _check_patterns("not_decayed", meant, paths)
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
                f"(the first is {paths[0]!r}): fix or remove it"
            )
