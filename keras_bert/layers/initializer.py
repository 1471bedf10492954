"""The initializers of BERT: one for all kernels and tables, others for positions by choice."""

from typing import Any

import keras
import numpy as np

# Wavelengths of the sinusoids go from 2 pi positions to nearly a thousand times as many...
_SLOWEST = 1 / 1000
# ... or begin at 2.2 positions, where the words beside each other are to be told apart: two is the
# least that a table of positions can have.
_QUICKEST = 2.8
# Score at the distance that a head starts to look at; that of the position itself is 0.
_NEIGHBOR_SCORE = 2.0


def truncated_normal(initializer_range: float) -> keras.initializers.Initializer:
    """Returns the normal initializer cut at two standard deviations, as the original uses it."""
    return keras.initializers.TruncatedNormal(stddev=initializer_range)


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

    def __init__(self, initializer_range: float, quickest: float = 1.0):
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
    """Queries and keys by which each head looks at one distance, where positions are `Sinusoids`.

    Attention that starts as a convolution with one impulse a head (Zheng et al. 2024,
    arXiv:2404.01139; Trockman and Kolter 2023, arXiv:2305.09828, start at the position itself). The
    key of a head takes sine and cosine of the position at some frequencies w, and the query the
    same turned by d w, so that query and key agree best at a distance of d:

        query(p) . key(p + t) ~ f(t) = sum_w [cos((t - d) w) - c cos(t w)],   c = mean_w cos(d w)

    The part with c makes f(0) nothing: what a word has in common with itself, which is not to be
    looked at, goes with it. Heads have the distances -1, 1, -2, 2 and so on. The normal initializer
    is added everywhere, and is all there is for values.

    Args:
        initializer_range: standard deviation of the truncated normal part.
        head_size: width of a head, D.
    """

    def __init__(self, initializer_range: float, head_size: int):
        self.initializer_range = initializer_range
        self.head_size = head_size

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        """Returns a kernel [H, 3 A D]: columns of all queries, all keys, all values."""
        width, columns = shape
        heads = columns // 3 // self.head_size
        kernel = np.zeros((width, 3, heads, self.head_size))
        for head in range(heads):
            distance = (head // 2 + 1) * (1 if head % 2 else -1)
            kernel[:, 0, head], kernel[:, 1, head] = self._query_and_key(width, distance)
        normal = truncated_normal(self.initializer_range)(shape, dtype)
        return normal + keras.ops.convert_to_tensor(kernel.reshape(shape), normal.dtype)

    def _query_and_key(self, width: int, distance: int) -> tuple[Any, Any]:
        """Returns both kernels of a head, [H, D] each."""
        query, key = np.zeros((2, width, self.head_size))
        frequencies = _frequencies(width, _QUICKEST)
        # Evenly of the quicker half, wavelengths of 2 to 100 positions, as many as have room.
        waves = min(self.head_size // 2, max(1, len(frequencies) // 2), width // 2)
        if not waves:
            return query, key  # a head of one number
        sines = np.linspace(0, max(0, len(frequencies) // 2 - 1), waves).round().astype(int)
        cosines, columns = sines + len(frequencies), np.arange(waves)
        turn = distance * frequencies[sines]  # [waves]
        own = np.cos(turn).mean()  # c
        key[sines, columns] = key[cosines, waves + columns] = 1.0
        # sin((p + d) w) = sin(p w) cos(d w) + cos(p w) sin(d w), and likewise the cosine.
        query[sines, columns] = query[cosines, waves + columns] = np.cos(turn) - own
        query[cosines, columns] = np.sin(turn)
        query[sines, waves + columns] = -np.sin(turn)
        # Behind the norm of the embeddings words, positions and segments have a third each of a
        # mean square of 1: a pair of sine and cosine has 2/3. So the score at d is as wanted.
        peak = waves * (1 - own**2)  # f(d)
        scale = np.sqrt(_NEIGHBOR_SCORE * 3 / 2 * np.sqrt(self.head_size) / peak)
        return scale * query, scale * key

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {"initializer_range": self.initializer_range, "head_size": self.head_size}


def _frequencies(width: int, quickest: float) -> Any:
    """Returns those of a table's sinusoids, falling in equal ratios: [width / 2]."""
    waves = -(-width // 2)
    return quickest * (_SLOWEST / quickest) ** (np.arange(waves) / waves)


def position_initializer(name: str, initializer_range: float) -> keras.initializers.Initializer:
    """Returns that of the position table, as `BertConfig.position_initializer` names it."""
    if name == "normal":
        return truncated_normal(initializer_range)
    return Sinusoids(initializer_range, _QUICKEST if name == "neighbors" else 1.0)


def attention_initializer(
    name: str, initializer_range: float, head_size: int
) -> keras.initializers.Initializer:
    """Returns that of queries, keys and values: "normal", or "neighbors" for `Neighbors`."""
    if name == "neighbors":
        return Neighbors(initializer_range, head_size)
    return truncated_normal(initializer_range)
