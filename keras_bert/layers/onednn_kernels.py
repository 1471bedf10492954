"""Operations of an encoder that oneDNN has in bfloat16, for graphs that serve on x86 processors.

oneDNN is the library behind TensorFlow's products on such processors. Two operations that go
through a tensor ten times otherwise are one of its kernels each, which reads and writes bfloat16
and computes in float32:

    softmax    of attention scores; the sum with the mask is joined to the product before it
    norm       a list of tokens [T, H] as a picture of T channels, as Keras 2 did it: TensorFlow has
               a kernel for batches of pictures, and puts oneDNN's layer norm in the place of that
               and of scale and offset

They are taken within `onednn_kernels` only, and no gradient is taken of them. Elsewhere they are
wrong: a GPU lacks that layer norm, and without oneDNN the softmax adds up in 8 bits.

What is not put there, a norm without an offset or in a graph that is not optimized, would be
oneDNN's norm of pictures, which writes beyond its arrays for channels that its blocks do not
divide (seen: a process that is killed). So there is none without an offset, and lists are filled
up to `ALIGNED_TOKENS`.
"""

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

import keras
from keras import ops

# What the number of tokens is a multiple of.
ALIGNED_TOKENS = 32

_TAKEN = contextvars.ContextVar("onednn_kernels", default=False)


@contextlib.contextmanager
def onednn_kernels(taken: bool = True) -> Iterator[None]:
    """Makes norms and softmaxes in bfloat16 kernels of oneDNN in graphs that are traced within.

    Args:
        taken: False changes nothing.
    """
    token = _TAKEN.set(taken)
    try:
        yield
    finally:
        _TAKEN.reset(token)


def takes_onednn_kernel(tensor: Any) -> bool:
    """Tells whether a tensor is in bfloat16 and `onednn_kernels` are taken."""
    return _TAKEN.get() and keras.backend.standardize_dtype(tensor.dtype) == "bfloat16"


def masked_softmax(scores: Any, bias: Any) -> Any:
    """Returns probabilities, bfloat16 [B, A, S, S].

    They are those in float32, rounded.

    Args:
        scores: bfloat16 [B, A, S, S].
        bias: what `score_bias` returned, float32 [B, 1, 1 or S, S]: of a masked score nothing is
            left in bfloat16, and nothing is needed.
    """
    return ops.softmax(scores + ops.cast(bias, scores.dtype))


def norm_of_tokens(inputs: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    """Returns the normalized tokens, bfloat16 [T, H]; mean and variance are float32.

    Args:
        inputs: bfloat16 [T, H], T a multiple of `ALIGNED_TOKENS`.
        gamma: scale [H].
        beta: offset [H].
        epsilon: added to the variance.
    """
    import tensorflow as tf

    tokens, width = tf.shape(inputs)[0], inputs.shape[-1]
    # [T, H] -> [1, T, H, 1]: one picture, a channel a token; mean and variance are a channel's.
    normalized = tf.raw_ops.FusedBatchNormV3(
        x=tf.reshape(inputs, [1, tokens, width, 1]),
        scale=tf.ones([tokens]),
        offset=tf.zeros([tokens]),
        mean=tf.zeros([0]),  # those of earlier batches, of which there are none
        variance=tf.zeros([0]),
        epsilon=epsilon,
        data_format="NCHW",
        is_training=True,  # which computes mean and variance here
    ).y
    scaled = tf.reshape(normalized, [tokens, width]) * tf.cast(gamma, inputs.dtype)
    return scaled + tf.cast(beta, inputs.dtype)  # [T, H]


def check_onednn(values: Any) -> Any:
    """Returns values, or fails where TensorFlow computes a softmax in bfloat16 without oneDNN.

    Args:
        values: integers that a request brings: what follows from constants alone may be computed
            when a graph is loaded, by other kernels.

    Raises:
        tf.errors.InvalidArgumentError: when it runs, with what to do about it.
    """
    import tensorflow as tf

    zero = tf.cast(tf.minimum(tf.abs(tf.reduce_sum(values)), 0), tf.bfloat16)  # []
    scores = tf.reshape(tf.linspace(-4.0, 4.0, 512), [1, -1])  # [1, 512]
    scores = tf.cast(scores, tf.bfloat16) + zero
    found = tf.cast(tf.nn.softmax(scores), tf.float32)
    expected = tf.nn.softmax(tf.cast(scores, tf.float32))
    # Rounded it is right to 2^-9; TensorFlow's own is off by a twentieth.
    furthest = tf.reduce_max(tf.abs(found / expected - 1.0))  # []
    message = (
        "this model was exported with dtype bfloat16_onednn, and here TensorFlow does not compute "
        "in bfloat16 by oneDNN: export it with bfloat16 or float32"
    )
    with tf.control_dependencies([tf.debugging.Assert(furthest < 0.01, [message])]):
        return tf.identity(values)
