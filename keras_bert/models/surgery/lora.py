"""Low-rank adaptation (LoRA): an encoder that learns by small matrices beside its frozen ones.

    x [T, I] -+- W [I, O], frozen ------------------------- + --> [T, O]
              +-- A [I, r] -- B [r, O] -- times alpha / r --+

W of each dense layer of the blocks stays as it was pretrained; A and B learn what the task adds to
it (Hu et al. 2021, arXiv:2106.09685). B begins as zeros, so that the model begins as it was.
"""

import contextlib
import math
import numbers
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.counts import LARGEST_SEED, check_count
from keras_bert.layers.dense import Dense

# Variables beside those of a plain model.
_ADDED = ("lora_kernel_a", "lora_kernel_b")


def enable_lora(
    encoder: Any, rank: int = 8, alpha: float | None = None, seed: int | None = None
) -> None:
    """Makes an encoder learn by low-rank matrices beside each dense layer of its blocks.

    They alone are trained, and the pooler: embeddings, norms, biases and the dense layers
    themselves are frozen. What stands behind the encoder learns as before. Gradients of the frozen
    matrices, a third of the products of a step, are not computed, and the optimizer keeps moments
    of what is trained alone. Query, key and value are one layer here and share A; A starts as
    Keras' own LoRA does, uniform up to sqrt(6 / I).

    A preset holds the sums W + alpha / r A B in float32: a model like any other, of which all
    learns. So do `.keras` and `.weights.h5` files, in the number format of the computation, as
    Keras writes them. What is frozen here are variables: compile after it, and leave the
    `trainable` of the encoder and its layers alone.

    Args:
        encoder: a `BertEncoder` or one of a family, such as `model.encoder` of a model with a head,
            before the model is compiled; it is changed in place.
        rank: columns of A and rows of B, r.
        alpha: alpha of the scale alpha / r; None for r, a scale of 1.
        seed: seed of the first values of A; None draws one.

    Raises:
        ValueError: it is no encoder; a number is out of its range; or the encoder has such matrices
            already, is frozen, its weights are quantized, or a dense layer of a variant computes
            something of its own.

    Example:
        >>> encoder = BertEncoder(BertConfig.from_name("bert_tiny"))
        >>> enable_lora(encoder, rank=4)
        >>> sum(variable.value.numpy().size for variable in encoder.trainable_variables)
        32896
    """
    if not hasattr(encoder, "encoder_blocks"):
        raise ValueError(
            f"encoder is a {type(encoder).__name__}: give a BertEncoder, such as model.encoder"
        )
    if check_count("rank", rank) is None:
        raise ValueError("rank is None: it must be a whole number, at least 1")
    check_count("seed", seed, 0, LARGEST_SEED)
    if alpha is not None and not (isinstance(alpha, numbers.Real) and 0 < alpha < math.inf):
        raise ValueError(f"alpha is {alpha!r}: it must be a number above 0 and finite")
    # Blocks that share their layers, as ALBERT's do, have one pair of matrices for all.
    layers = {
        id(layer): layer
        for block in encoder.encoder_blocks()
        for layer in block._flatten_layers()
        if isinstance(layer, keras.layers.Dense)
    }
    if not any(layer.trainable for layer in layers.values()):
        raise ValueError(f"{encoder.name} is frozen, and would learn nothing: set trainable first")
    for layer in layers.values():
        if layer.lora_enabled:
            raise ValueError(f"{layer.path} has low-rank matrices already: enable them once")
        if layer.quantization_mode:
            raise ValueError(
                f"{layer.path} is quantized ({layer.quantization_mode}): enable LoRA of the model "
                "that was not, and quantize what was trained"
            )
        if type(layer).call not in (keras.layers.Dense.call, Dense.call):
            raise ValueError(
                f"{layer.path} is a {type(layer).__name__} with a call of its own, beside which "
                "there are no low-rank matrices: make it a keras.layers.Dense"
            )
    pooler = {id(weight) for weight in encoder.get_layer("pooler").trainable_variables}
    for weight in encoder.trainable_variables:
        weight.trainable = id(weight) in pooler
    for index, layer in enumerate(layers.values()):
        start = keras.initializers.HeUniform(seed=None if seed is None else seed + index)
        layer.enable_lora(rank, alpha, a_initializer=start)
        # Keras calls what it finds under these names: no class for a choice of the run.
        layer.call = _call_apart(layer)
        layer.load_own_variables = _load_and_start(layer, start)


@contextlib.contextmanager
def merged_lora(model: Any) -> Iterator[list[Any]]:
    """Gives a model plain dense layers W + alpha / r A B, in float32, while files are written.

    Args:
        model: any model of the package, with low-rank matrices or without.

    Yields:
        The weights of a model without such matrices.
    """
    layers = [
        layer
        for layer in model._flatten_layers()
        if isinstance(layer, keras.layers.Dense) and layer.lora_enabled
    ]
    kept = [ops.convert_to_numpy(_kernel(layer)) for layer in layers]
    try:
        for layer in layers:
            a, b = (ops.convert_to_numpy(getattr(layer, name)) for name in _ADDED)
            _kernel(layer).assign_add(layer.lora_alpha / layer.lora_rank * (a @ b))
            # Keras would add them once more, and in bfloat16 where it computes so.
            layer.lora_enabled = False
        yield [weight for weight in model.weights if weight.name not in _ADDED]
    finally:
        for layer, kernel in zip(layers, kept, strict=True):
            _kernel(layer).assign(kernel)
            layer.lora_enabled = True


def plain_weights(model: Any) -> list[np.ndarray]:
    """Returns `model.get_weights()` of the model without low-rank matrices, see `merged_lora`."""
    with merged_lora(model) as weights:
        return [ops.convert_to_numpy(weight) for weight in weights]


def _load_and_start(layer: keras.layers.Dense, start: keras.initializers.Initializer) -> Callable:
    """Returns a dense layer's `load_own_variables` behind which A and B can learn.

    Keras makes zeros of both, and the gradient of each is a product with the other.
    """
    load = layer.load_own_variables

    def load_own_variables(store: Any) -> None:
        load(store)
        layer.lora_kernel_a.assign(start(layer.lora_kernel_a.shape))

    return load_own_variables


def _kernel(layer: keras.layers.Dense) -> Any:
    """Returns the variable W, which `layer.kernel` is not: that is the sum."""
    return next(weight for weight in layer.weights if weight.name == "kernel")


def _call_apart(layer: keras.layers.Dense) -> Callable:
    """Returns a dense layer's `call` with A and B apart from W.

    Keras computes the sum W + A B first, whose gradient is as large a product as that of W.
    """
    kernel = _kernel(layer)

    def call(inputs: Any, training: bool | None = None) -> Any:
        low = ops.matmul(inputs, layer.lora_kernel_a) * (layer.lora_alpha / layer.lora_rank)
        outputs = ops.matmul(inputs, kernel)  # [..., O]
        if layer.bias is not None:
            outputs = outputs + layer.bias  # right behind the product, with which it is fused
        outputs = outputs + ops.matmul(low, layer.lora_kernel_b)
        return outputs if layer.activation is None else layer.activation(outputs)

    return call
