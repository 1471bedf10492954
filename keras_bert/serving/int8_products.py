"""Dense layers of a served model whose products oneDNN computes in 8-bit integers.

Each column of a kernel has a scale of its own, and each row of what it is multiplied with has one,
and a smallest value, which are found while it runs (dynamic quantization): an answer does not
depend on the other texts of its batch. Products of integers are exact, so nothing else is rounded.
"""

import contextlib
import functools
import gc
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

_LARGEST_INPUT = 255  # unsigned
_LEAST_SPAN = 1e-30  # of rows that are one value
_LARGEST_WEIGHT = 127
# Processors without VNNI add two products in 16 bits, which end at 32,767 in silence. These two lie
# among four neighbours of a column, as oneDNN arranges it: 255 * 128 is 32,640.
_LARGEST_PAIR = 128
_NEIGHBORS = 4


def quantize(model: keras.Model) -> None:
    """Turns the dense layers of a float32 model into those of Keras in 8 bits, in place.

    Args:
        model: built, for inference only.
    """
    with _nothing_to_collect():
        model.quantize("int8", filters=_is_dense)


def quantize_for_onednn(model: keras.Model) -> None:
    """Turns the dense layers of a float32 model into those of this module, in place.

    Args:
        model: built, for inference only.

    Raises:
        ValueError: this TensorFlow has no such product.
    """
    _check_runs()
    config = keras.quantizers.Int8QuantizationConfig(weight_quantizer=_ColumnQuantizer())
    with _nothing_to_collect():
        model.quantize(config=config, filters=_is_dense)
    for layer in model._flatten_layers():
        if _is_dense(layer):
            # Keras has no seam for another product: this is where it calls its own.
            layer.quantized_call = _Dense(layer)


def _is_dense(layer: keras.layers.Layer) -> bool:
    # Embeddings are looked up, not multiplied.
    return isinstance(layer, keras.layers.Dense)


@contextlib.contextmanager
def _nothing_to_collect() -> Iterator[None]:
    # Keras collects garbage once for each layer, and each time Python looks at all objects of the
    # process, with TensorFlow a third of a second. Frozen ones are not looked at.
    if gc.get_freeze_count():  # the caller froze some: unfreezing would undo that, too
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.collect()


class _ColumnQuantizer(keras.quantizers.Quantizer):
    """Kernels [I, O] as int8, and what each column was multiplied by, [1, O]."""

    def __call__(self, x: Any, to_numpy: bool = False) -> tuple[np.ndarray, np.ndarray]:
        kernel = keras.ops.convert_to_numpy(x).astype(np.float32)
        sizes = np.abs(kernel)
        filled = np.pad(sizes, ((0, -len(sizes) % _NEIGHBORS), (0, 0)))
        groups = np.sort(filled.reshape(-1, _NEIGHBORS, kernel.shape[1]), axis=1)
        pairs = (groups[:, -1] + groups[:, -2]).max(axis=0)  # [O]
        # Rounding adds up to a half to each of the two.
        steps = np.maximum(sizes.max(axis=0) / _LARGEST_WEIGHT, pairs / (_LARGEST_PAIR - 1))
        scales = 1 / np.maximum(steps, np.finfo(np.float32).tiny)
        return np.rint(kernel * scales).astype(np.int8), scales[np.newaxis]


class _Dense:
    """What a dense layer does in place of Keras' own products, which are slow on processors."""

    def __init__(self, layer: keras.layers.Dense) -> None:
        self.layer = layer
        # What a row that is 1 everywhere gives, [O]: smallest values are taken off the rows.
        sums = keras.ops.convert_to_numpy(layer.kernel).sum(axis=0, dtype=np.int32)
        self.shifts = sums / keras.ops.convert_to_numpy(layer.kernel_scale)

    def __call__(self, inputs: Any, training: bool | None = None) -> tf.Tensor:
        layer = self.layer
        rows = tf.reshape(inputs, [-1, inputs.shape[-1]])  # [T, I]
        smallest = tf.reduce_min(rows, axis=-1, keepdims=True)  # [T, 1]
        span = tf.reduce_max(rows, axis=-1, keepdims=True) - smallest
        steps = _LARGEST_INPUT / tf.maximum(span, _LEAST_SPAN)  # in one
        # A cast cuts off, so a half more rounds.
        unsigned = tf.cast(rows * steps + (0.5 - smallest * steps), tf.uint8)
        outputs = _multiply(unsigned, layer.kernel) * (1 / steps) * (1 / layer.kernel_scale)
        outputs += self._shift(smallest)  # [T, O]
        if layer.activation is not None:
            outputs = layer.activation(outputs)
        return tf.reshape(outputs, [*tf.unstack(tf.shape(inputs)[:-1]), layer.units])

    def _shift(self, smallest: Any) -> tf.Tensor:
        """Returns `smallest * shifts + bias` [T, O] in one pass, as a product."""
        shifts, bias = tf.constant(self.shifts, tf.float32), self.layer.bias
        bias = tf.zeros_like(shifts) if bias is None else tf.convert_to_tensor(bias)
        factors = tf.concat([smallest, tf.ones_like(smallest)], axis=-1)  # [T, 2]
        return factors @ tf.stack([shifts, bias])


def _multiply(rows: Any, kernel: Any) -> tf.Tensor:
    """Returns `rows @ kernel`, float32 [T, O], of uint8 [T, I] and int8 [I, O]."""
    # With ranges that are those of the integers themselves, every step is 1.
    return tf.raw_ops.QuantizedMatMulWithBiasAndDequantize(
        a=tf.bitcast(rows, tf.quint8),
        b=tf.bitcast(tf.convert_to_tensor(kernel), tf.qint8),
        bias=tf.bitcast(tf.zeros([kernel.shape[1]], tf.int32), tf.qint32),
        min_a=0.0,
        max_a=255.0,
        min_b=-127.0,
        max_b=127.0,
        min_freezed_output=0.0,
        max_freezed_output=1.0,
        Toutput=tf.float32,
        input_quant_mode="SCALED",
    )


@functools.cache
def _check_runs() -> None:
    rows, kernel = np.full([1, 2], 255, np.uint8), np.full([2, 1], 64, np.int8)
    try:
        found = int(tf.function(_multiply)(rows, kernel)[0, 0])
    except tf.errors.OpError:
        found = 0
    if found != 255 * 128:
        raise ValueError(
            "dtype is 'int8_onednn', and this TensorFlow has no products of 8-bit integers by "
            "oneDNN (it was built without, or TF_ENABLE_ONEDNN_OPTS=0 is set): take dtype 'int8' "
            "or 'float32'"
        )
