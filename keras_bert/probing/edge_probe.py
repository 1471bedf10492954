"""The edge probe of Tenney et al. (2019, arXiv:1905.06316 and arXiv:1905.05950), for single spans.

    vectors of the words of a span, all layers    [W, L+1, H]
      -> scalar mix: sum of the layers, weighted by a softmax, times a factor
      -> projection to d numbers                  [W, d]
      -> attention pooling over the words         [N, d]
      -> hidden layer (tanh) -> the span's label  [N, C]

A probe that mixes layers 0 to l is learned for each l. All of them are learned at once, with the
layers above masked out of the mix; the last one sees all, and its weights are what is told.

Shapes: K = L+1 probes, W words of N spans, d width of the projection, C labels.
"""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.probing import fitting
from keras_bert.probing.linear_probe import Scale
from keras_bert.probing.options import DEFAULT_BATCH, ProbingOptions

_HIDDEN = -1e9
_LEARNING_RATE = 1e-3
# The logits of the mix have a whole network behind them and move slowly at its learning rate.
_MIX_RATE = 10.0


class Spans(NamedTuple):
    """Spans of a split as examples of `fitting`.

    Attributes:
        values: float16 [L+1, words of the split, H].
        words: int64 [W], the words of all spans one behind the other, as indices into `values`.
        splits: int64 [N+1], span n has words[splits[n]:splits[n + 1]].
        labels: int32 [N].
    """

    values: np.ndarray
    words: np.ndarray
    splits: np.ndarray
    labels: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, spans: Sequence[Sequence[int]], labels: Sequence[int]) -> Any:
        """Makes spans from lists of words."""
        splits = np.cumsum([0, *map(len, spans)])
        words = np.array(list(itertools.chain.from_iterable(spans)), np.int64)
        return cls(values, words, splits, np.array(labels, np.int32))

    def __len__(self) -> int:
        """Returns N."""
        return len(self.labels)

    def batch(self, numbers: np.ndarray) -> tuple[np.ndarray, ...]:
        """Returns vectors [L+1, W, H], the span of each word [W] from 0 up, and labels [N]."""
        starts, ends = self.splits[numbers], self.splits[numbers + 1]
        words = np.concatenate(
            [self.words[start:end] for start, end in zip(starts, ends, strict=True)]
        )
        span_of_word = np.repeat(np.arange(len(numbers), dtype=np.int32), ends - starts)
        return self.values[:, words], span_of_word, self.labels[numbers]


class EdgeProbes(NamedTuple):
    """What was learned.

    Attributes:
        accuracies: float64 [L+1], of the probe that sees the layers up to this one.
        mix: float64 [L+1], the weights of the layers in the probe that sees all; their sum is 1.
    """

    accuracies: np.ndarray
    mix: np.ndarray


def edge_probes(
    train: Spans,
    development: Spans,
    measured: Spans,
    classes: int,
    scale: Scale,
    options: ProbingOptions,
) -> EdgeProbes:
    """Learns the edge probes of layers 0 to l, for each l.

    Args:
        train: what is learned from.
        development: what tells when to stop.
        measured: what accuracy is measured on.
        classes: C.
        scale: of the training words.
        options: how.
    """
    probes, _, hidden_size = scale.mean.shape
    width = options.projection_size
    visible = np.tril(np.ones((probes, probes), bool))  # [K, L+1]: probe k sees layers 0 to k

    def mix(parameters: fitting.Parameters) -> tf.Tensor:
        return tf.nn.softmax(tf.where(visible, parameters["mix"], _HIDDEN))  # [K, L+1]

    def logits(parameters: fitting.Parameters, values: Any, span_of_word: Any) -> tf.Tensor:
        p = parameters
        mixed = tf.einsum("kl,lwh->kwh", p["factor"] * mix(p), scale.apply(values))  # [K, W, H]
        projected = tf.matmul(mixed, p["projection"]) + p["projection_bias"]  # [K, W, d]
        # Softmax over the words of a span, [W, K]; segment operations go along the first axis.
        scores = tf.transpose(tf.matmul(projected, p["attention"])[..., 0])
        largest = tf.stop_gradient(tf.math.segment_max(scores, span_of_word))  # [N, K]
        scores -= tf.gather(largest, span_of_word)
        weights = tf.exp(scores)
        weights /= tf.gather(tf.math.segment_sum(weights, span_of_word), span_of_word)
        weighted = weights[..., None] * tf.transpose(projected, [1, 0, 2])  # [W, K, d]
        pooled = tf.math.segment_sum(weighted, span_of_word)  # [N, K, d]
        hidden = tf.matmul(tf.transpose(pooled, [1, 0, 2]), p["hidden"]) + p["hidden_bias"]
        return tf.matmul(tf.tanh(hidden), p["output"]) + p["output_bias"]  # [K, N, C]

    random = np.random.default_rng(options.seed)

    def drawn(*shape: int) -> np.ndarray:
        # Glorot and Bengio (2010). One draw for all probes, so that they differ by layers alone.
        limit = np.sqrt(6 / sum(shape))
        one = random.uniform(-limit, limit, shape).astype(np.float32)
        return np.repeat(one[None], probes, axis=0)

    start = {
        "mix": np.zeros((probes, probes), np.float32),
        "factor": np.ones((probes, 1), np.float32),
        "projection": drawn(hidden_size, width),
        "projection_bias": np.zeros((probes, 1, width), np.float32),
        "attention": drawn(width, 1),
        "hidden": drawn(width, width),
        "hidden_bias": np.zeros((probes, 1, width), np.float32),
        "output": drawn(width, classes),
        "output_bias": np.zeros((probes, 1, classes), np.float32),
    }
    fitted = fitting.fit(
        logits,
        start,
        train,
        development,
        batch_size=options.probe_batch_size or DEFAULT_BATCH,
        learning_rate=_LEARNING_RATE,
        max_epochs=options.max_epochs,
        seed=options.seed,
        description="edge probe",
        faster={"mix": _MIX_RATE},
    )
    found = fitting.predict(logits, fitted.parameters, measured)  # [K, N]
    return EdgeProbes(
        (found == measured.labels).mean(axis=1), mix(fitted.parameters).numpy()[-1].astype(float)
    )
