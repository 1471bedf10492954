"""The initializers of BERT: one for all kernels and tables, others for positions by choice."""

from typing import Any

import keras
import numpy as np

from keras_bert.config import LEAST_HEAD_SIZE

# Frequencies of the sinusoids, in radians a position: wavelengths from 2 pi positions to nearly a
# thousand times as many.
_QUICKEST, _SLOWEST = 1.0, 1 / 1000
# Where heads are to tell words apart that stand beside each other, from 2.2 positions; two is the
# least that a table of positions can have.
_NEIGHBORS_QUICKEST = 2.8
# Score at the distance that a head starts to look at; that of the position itself is 0.
_NEIGHBOR_SCORE = 2.0


def truncated_normal(initializer_range: float) -> keras.initializers.Initializer:
    """Returns the normal initializer cut at two standard deviations, as the original uses it.

    Each variable takes one of its own: an initializer draws the same numbers at every call.
    """
    return keras.initializers.TruncatedNormal(stddev=initializer_range)


@keras.saving.register_keras_serializable("keras_bert")
class Orthogonal(keras.initializers.Orthogonal):
    """Keras' initializer of recurrent kernels, in every dtype: there is no QR in 16 bits."""

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        """Returns the kernel, drawn in float32."""
        return keras.ops.cast(super().__call__(shape, "float32"), dtype or keras.config.floatx())


@keras.saving.register_keras_serializable("keras_bert")
class Sinusoids(keras.initializers.Initializer):
    """Sines and cosines of the position (Vaswani et al. 2017, section 3.5), to start a table with.

    Row p is sin(p w_0), ..., sin(p w_n), cos(p w_0), ..., cos(p w_n); the frequencies w fall from
    the quickest towards 1 / 1000 in equal ratios. The row of a position at a fixed distance is then
    a rotation of it, so that attention to a neighbour is one linear map away, where random rows
    must be learned one by one.

    Args:
        initializer_range: root mean square of the entries.
        quickest: the first frequency, in radians a position.
    """

    def __init__(self, initializer_range: float, quickest: float = _QUICKEST):
        self.initializer_range = initializer_range
        self.quickest = quickest

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        """Returns the table [positions, width]; where the width is odd the last cosine is cut."""
        positions, width = shape
        frequencies = _frequencies(width, self.quickest)  # [width / 2]
        angles = np.arange(positions)[:, None] * frequencies  # [positions, width / 2]
        table = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)[:, :width]
        # The mean square of a sine is 1/2.
        return keras.ops.convert_to_tensor(
            table * self.initializer_range * np.sqrt(2), dtype or keras.config.floatx()
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {"initializer_range": self.initializer_range, "quickest": self.quickest}


@keras.saving.register_keras_serializable("keras_bert")
class Neighbors(keras.initializers.Initializer):
    """Queries and keys by which each head looks most at one distance; positions are sinusoids.

    Attention that starts as a convolution with one offset a head, after Zheng et al. 2024
    (arXiv:2404.01139), who fit such weights; Trockman and Kolter 2023 (arXiv:2305.09828) start at
    the position itself. Here they have a closed form. The key of a head takes sine and cosine of
    the position at n frequencies w, and the query the same turned by d w, so that query and key
    agree best at a distance of d:

        query(p) . key(p + t) ~ f(t) = sum_w [cos((t - d) w) - c cos(t w)],   c = mean_w cos(d w)

    f(d) = n (1 - c^2). The part with c makes f(0) nothing, and with it, in the mean, what a word
    has in common with itself, which is not to be looked at. At 64 positions an eighth to a
    sixth of a head's attention is at its distance, eight to ten times as much as evenly. The normal
    initializer is added everywhere, and is all there is for values.

    Args:
        initializer_range: standard deviation of the truncated normal part.
        num_heads: heads that look at a distance, A; those behind them start at random.
        head_size: width of a head, D: at least 16.
        causal: whether positions see only what stands before them. The distances are -1, -2, -3 and
            so on then, else -1, 1, -2, 2 and so on.
    """

    def __init__(
        self, initializer_range: float, num_heads: int, head_size: int, causal: bool = False
    ):
        if head_size < LEAST_HEAD_SIZE:
            raise ValueError(
                f"head_size is {head_size}: too narrow to tell distances apart, so at least "
                f"{LEAST_HEAD_SIZE}"
            )
        self.initializer_range = initializer_range
        self.num_heads = num_heads
        self.head_size = head_size
        self.causal = causal

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        """Returns a kernel [H, 3 P D], P >= A: columns of all queries, all keys, all values."""
        width, columns = shape
        kernel = np.zeros((width, 3, columns // 3 // self.head_size, self.head_size))
        for head in range(self.num_heads):
            if self.causal:
                distance = -(head + 1)
            else:
                distance = (head // 2 + 1) * (1 if head % 2 else -1)
            kernel[:, 0, head], kernel[:, 1, head] = self._query_and_key(width, distance)
        normal = truncated_normal(self.initializer_range)(shape, dtype)
        return normal + keras.ops.convert_to_tensor(kernel.reshape(shape), normal.dtype)

    def _query_and_key(self, width: int, distance: int) -> tuple[Any, Any]:
        """Returns both kernels of a head, [H, D] each."""
        query, key = np.zeros((2, width, self.head_size))
        frequencies = _frequencies(width, _NEIGHBORS_QUICKEST)
        half = len(frequencies) // 2
        # Evenly of the quicker half, wavelengths up to a hundred positions, as many as have room.
        waves = min(self.head_size // 2, half)  # n
        sines = np.linspace(0, half - 1, waves).round().astype(int)
        cosines, columns = sines + len(frequencies), np.arange(waves)
        turn = distance * frequencies[sines]  # d w, [n]
        common = np.cos(turn).mean()  # c
        key[sines, columns] = key[cosines, waves + columns] = 1.0
        # sin((p + d) w) = sin(p w) cos(d w) + cos(p w) sin(d w), and likewise the cosine.
        query[sines, columns] = query[cosines, waves + columns] = np.cos(turn) - common
        query[cosines, columns] = np.sin(turn)
        query[sines, waves + columns] = -np.sin(turn)
        # Behind the norm of the embeddings words, positions and segments have about a third each of
        # a mean square of 1, so that sine^2 + cosine^2 is about 2/3 and the score at d as wanted.
        peak = waves * (1 - common**2)  # f(d)
        scale = np.sqrt(_NEIGHBOR_SCORE * 3 / 2 * np.sqrt(self.head_size) / peak)
        return scale * query, scale * key

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            "initializer_range": self.initializer_range,
            "num_heads": self.num_heads,
            "head_size": self.head_size,
            "causal": self.causal,
        }


def _frequencies(width: int, quickest: float) -> Any:
    """Returns those of a table's sinusoids, falling in equal ratios: [width / 2]."""
    waves = -(-width // 2)
    return quickest * (_SLOWEST / quickest) ** (np.arange(waves) / waves)


def position_initializer(name: str, initializer_range: float) -> keras.initializers.Initializer:
    """Returns that of the position table, as `BertConfig.position_initializer` names it."""
    # One is made, not all: each that is random takes a seed from Keras' global ones.
    if name == "normal":
        return truncated_normal(initializer_range)
    if name in ("sinusoids", "neighbors"):
        quickest = _NEIGHBORS_QUICKEST if name == "neighbors" else _QUICKEST
        return Sinusoids(initializer_range, quickest)
    raise ValueError(
        f"position_initializer is {name!r}: choose one of normal, sinusoids, neighbors"
    )


def attention_initializer(
    name: str, initializer_range: float, num_heads: int, head_size: int
) -> keras.initializers.Initializer:
    """Returns that of queries, keys and values by its name.

    Args:
        name: "normal"; "neighbors", or "previous" for attention from left to right.
        initializer_range: standard deviation of what is random.
        num_heads: heads, A, of which there may be more that start at random.
        head_size: width of a head, D.
    """
    if name == "normal":
        return truncated_normal(initializer_range)
    if name in ("neighbors", "previous"):
        return Neighbors(initializer_range, num_heads, head_size, causal=name == "previous")
    raise ValueError(
        f"attention_initializer is {name!r}: choose one of normal, neighbors, previous"
    )
