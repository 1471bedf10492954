"""A dense layer whose bias learns by a product.

    d bias = 1 1 1 ... 1 [1, T] x upstream [T, O]

TensorFlow has an operation for that sum, which takes a processor with AMX twice as long and adds up
in bfloat16: of 4,096 numbers around 0 it is off by 5 % of what sums are like, of as many positive
ones it gives a quarter of the sum. The product is rounded once.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_bert.layers.one_loop import is_graph_of_processor, with_gradient

# Of float16 numbers a processor may add up the products in as few bits.
_SUMMED_IN_FLOAT32 = ("float32", "bfloat16")


@keras.saving.register_keras_serializable("keras_bert")
class Dense(keras.layers.Dense):
    """Keras' layer; in training only the gradient of its bias is another computation."""

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Returns [..., O] for inputs [..., I]."""
        outputs = ops.matmul(inputs, self.kernel)  # [..., O]
        if self.bias is not None:
            outputs = add_bias(outputs, self.bias) if training else ops.add(outputs, self.bias)
        return outputs if self.activation is None else self.activation(outputs)

    def quantize(self, mode: Any = None, type_check: bool = True, **arguments: Any) -> None:
        """Quantizes the kernel as Keras does with layers of its own class."""
        # Without training, this one computes what they do.
        super().quantize(mode, type_check=False, **arguments)


def add_bias(outputs: Any, bias: Any) -> Any:
    """Returns outputs [..., O] plus a bias [O], in training."""
    dtype = keras.backend.standardize_dtype(outputs.dtype)
    if dtype not in _SUMMED_IN_FLOAT32 or not is_graph_of_processor():
        return ops.add(outputs, bias)
    # A copy, as functions with gradients of their own take tensors, not variables.
    return _add_with_a_product_for_the_gradient(outputs, ops.copy(bias))


@with_gradient
def _add_with_a_product_for_the_gradient(outputs: Any, bias: Any) -> tuple[Any, Callable]:
    def gradient(upstream: Any) -> tuple[Any, Any]:  # [..., O]
        tokens = ops.reshape(upstream, (-1, bias.shape[-1]))  # [T, O]
        ones = ops.ones((1, ops.shape(tokens)[0]), tokens.dtype)
        return upstream, ops.matmul(ones, tokens)[0]  # [..., O] and [1, T] x [T, O] -> [O]

    return ops.add(outputs, bias), gradient
