"""LAMB, for pretraining with very large batches."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_bert.training.base_optimizer import BaseOptimizer

# Dense layers that are several projections of a self-attention, and how many; and the one beside
# them, whose kernel [H, H] tells how wide each is.
_FUSED = {"query_key_value": 3, "query_key": 2}
_OUTPUT = "output/kernel"


class _SharedNumbers(NamedTuple):
    rate: tf.Tensor
    beta_1: tf.Tensor
    beta_2: tf.Tensor
    correction_1: tf.Tensor
    correction_2: tf.Tensor


@keras.saving.register_keras_serializable("keras_bert")
class Lamb(BaseOptimizer):
    """Adam whose step is scaled per variable (You et al. 2019, arXiv:1904.00962, algorithm 2).

    Step t, counted from 1, with g the gradient clipped by the global norm over all replicas:

        m <- beta_1 m + (1 - beta_1) g
        v <- beta_2 v + (1 - beta_2) g^2
        u = m / (1 - beta_1^t) / (sqrt(v / (1 - beta_2^t)) + epsilon) + weight_decay_rate w
        w <- w - rate |w| / |u| u

    The trust ratio |w| / |u| (the paper's phi is the identity) is 1 where either norm is 0. It is
    that of a variable; but query, key and value, which are three matrices in the authors' BERT and
    lie side by side in one here, have a ratio each.

    Variables that `not_decayed` excludes have neither decay nor trust ratio, as in the authors'
    code: the norm of a bias that starts at zero says nothing about how far it may move.

    Args:
        learning_rate: a number or a Keras schedule.
        name: name of the optimizer.
        **kwargs: further arguments of `BaseOptimizer`.

    Raises:
        ValueError: on building, when a pattern of `not_decayed` matches no variable.
    """

    def __init__(self, learning_rate: Any, name: str = "lamb", **kwargs: Any):
        super().__init__(learning_rate, name=name, **kwargs)

    def build(self, variables: Sequence[Any]) -> None:
        """Makes the moments, and finds the variables that hold several matrices side by side."""
        if self.built:
            return
        super().build(variables)
        layers = [variable.path.rpartition("/")[0] for variable in variables]
        kernels = {variable.path: variable for variable in variables}
        # Such as "layer_0/attention/query_key_value" -> H.
        widths = {
            layer: kernels.get(f"{layer.rpartition('/')[0]}/{_OUTPUT}", variable).shape[0]
            for layer, variable in zip(layers, variables, strict=True)
            if variable.path.endswith("/kernel") and layer.rpartition("/")[2] in _FUSED
        }
        self._parts = [
            _parts(layer, variable.shape[-1], widths[layer]) if layer in widths else []
            for layer, variable in zip(layers, variables, strict=True)
        ]

    def shared_numbers(self, rate: tf.Tensor, finite: tf.Tensor) -> _SharedNumbers:
        """Returns what the variables of a learning rate share; see `BaseOptimizer`."""
        step = self.step_count(rate.dtype)
        corrections = (_correction(beta, step) for beta in (self.beta_1, self.beta_2))
        return _SharedNumbers(rate, *self.decays(finite, rate.dtype), *corrections)

    def update_step(self, gradient: Any, variable: Any, numbers: _SharedNumbers) -> None:
        """Updates one variable of one replica in place."""
        index = self._get_variable_index(variable)
        gradient = tf.cast(gradient, variable.dtype)
        first, second = self._first_moments[index].value, self._second_moments[index].value
        # shape of the variable, like all below
        first.assign(numbers.beta_1 * first + (1.0 - self.beta_1) * gradient)
        second.assign(numbers.beta_2 * second + (1.0 - self.beta_2) * tf.square(gradient))
        corrected = tf.sqrt(second / numbers.correction_2)
        update = first / numbers.correction_1 / (corrected + self.epsilon)
        if self._decayed[index]:
            update += self.weight_decay_rate * variable
            # The trust ratio of the whole, [], or of each part, [parts].
            parts = self._parts[index]
            weight_norm, update_norm = _norms(variable, parts), _norms(update, parts)
            both = (weight_norm > 0.0) & (update_norm > 0.0)
            ratio = tf.where(both, tf.math.divide_no_nan(weight_norm, update_norm), 1.0)
            if parts:
                ratio = tf.repeat(ratio, parts)  # [3] -> [3H], a column each
            update *= ratio
        variable.assign_sub(numbers.rate * update)


def _parts(layer: str, columns: int, width: int) -> list[int]:
    """Returns the columns of each matrix of a projection to H = `width`.

    A kernel [H, 3H] and its bias [3H] have 3 parts, Longformer's [H, 6H] has 6. Where heads share
    keys and values, these are narrower than the query: [H, 2H] is H, H / 2 and H / 2.
    """
    if columns < _FUSED[layer.rpartition("/")[2]] * width:
        return [width, (columns - width) // 2, (columns - width) // 2]
    return [width] * (columns // width)


def _norms(values: Any, parts: Sequence[int]) -> tf.Tensor:
    """Returns the norm of a variable, [], or those of the parts of its last axis, [parts]."""
    if not parts:
        return tf.norm(values)
    if len(set(parts)) > 1:
        return tf.stack([tf.norm(part) for part in tf.split(values, parts, axis=-1)])
    # [H, 3H] -> [H, 3, H]; of a bias [3H] -> [1, 3, H]
    return tf.norm(tf.reshape(values, (-1, len(parts), parts[0])), axis=(0, 2))


def _correction(beta: float, step: tf.Tensor) -> tf.Tensor:
    if not beta:  # no logarithm; a moment that is the last gradient needs no correction
        return tf.ones_like(step)
    # 1 - beta^step, without the digits that float32 loses where beta is close to 1.
    return -tf.math.expm1(step * math.log(beta))
