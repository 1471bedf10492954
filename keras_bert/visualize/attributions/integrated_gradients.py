"""Integrated gradients (Sundararajan et al. 2017): what each token contributes to a logit.

The text x is compared with a baseline b that says nothing: the same sequence with [MASK] for every
piece, [CLS] and [SEP] kept. Word embeddings e move on the straight line between them,

    e(m) = e(b) + m (e(x) - e(b)),    m from 0 to 1, one number for each token

and a token's share of f(x) - f(b), f being the logit that is explained, is

    integral over a from 0 to 1 of  df / dm_token  at  m = (a, ..., a)

which is the sum over the width of (e(x) - e(b)) times the gradient, as in the paper. All shares
together are f(x) - f(b) ("completeness"). The integral is a sum over 16 Gauss-Legendre points in
each of 1, 2, 4, ... parts of the line, until that holds to a tolerance.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.counts import needed_count

# Where the logits differ by less, the error is told in parts of this.
_SMALLEST_DIFFERENCE = 1e-3
# Of one part of the line: between -1 and 1, with their weights.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
# Tokens of one call of the model, forward and backward: about 0.2 GB a layer at the width of base.
_MOST_TOKENS = 2048
_MOST_ROWS = 16


class Attribution(NamedTuple):
    """What the tokens of an input contribute to a logit.

    Attributes:
        scores: float32 [S]; positive where a token raises the logit. 0 for kept tokens.
        logit: that of the text.
        baseline_logit: that of the baseline.
        error: how far the sum of the scores is from the difference of both, in parts of it.
        points: at how many points between baseline and text gradients were taken.
    """

    scores: np.ndarray
    logit: float
    baseline_logit: float
    error: float
    points: int


class IntegratedGradients:
    """Integrated gradients of one model; its graph is made once for texts of all lengths.

    Args:
        model: one of the package's models, with an `encoder`; in float32.
        pick: the logits [K] that are explained, from the model's outputs for K rows and the two
            indices of a `Target`, int32 [2].
    """

    def __init__(self, model: Any, pick: Callable[[Any, tf.Tensor], tf.Tensor]):
        self._model = model
        self._pick = pick
        rows = {name: (1, *tensor.shape[1:]) for name, tensor in model.input.items()}
        self._values_and_gradients = tf.function(
            self._trace,
            input_signature=[
                {name: tf.TensorSpec(shape, tf.int32) for name, shape in rows.items()},
                tf.TensorSpec([None], tf.bool),
                tf.TensorSpec([], tf.int32),
                tf.TensorSpec([2], tf.int32),
                tf.TensorSpec([None], tf.float32),
            ],
        )

    def __call__(
        self,
        inputs: Mapping[str, tf.Tensor],
        indices: tuple[int, int],
        is_kept: np.ndarray,
        baseline_id: int,
        tolerance: float = 0.005,
        max_points: int = 1024,
    ) -> Attribution:
        """Returns what each token contributes to a logit.

        Args:
            inputs: the model's inputs for one text, int32 [1, ...] each; `input_ids` holds S ids.
            indices: which logit, for `pick`.
            is_kept: bool [S], tokens that the baseline has, too.
            baseline_id: id of the piece that stands for all others in the baseline.
            tolerance: the error above which points are doubled.
            max_points: the most points, at least 16; the error that is left then is told.

        Raises:
            ValueError: `max_points` is below 16, or no whole number.
        """
        max_points = needed_count("max_points", max_points, least=len(_NODES))
        rows_of_call = max(1, min(_MOST_ROWS, _MOST_TOKENS // len(is_kept)))

        def run(alphas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            parts = [
                self._values_and_gradients(
                    {name: tf.constant(tensor) for name, tensor in inputs.items()},
                    tf.constant(is_kept),
                    tf.constant(baseline_id, tf.int32),
                    tf.constant(indices, tf.int32),
                    tf.constant(rows),
                )
                for rows in np.split(
                    alphas.astype(np.float32), range(rows_of_call, len(alphas), rows_of_call)
                )
            ]
            logits, gradients = (np.concatenate(part) for part in zip(*parts, strict=True))
            return logits, gradients

        (baseline_logit, logit), _ = run(np.array([0.0, 1.0]))
        difference = float(logit - baseline_logit)
        least = max(abs(difference), _SMALLEST_DIFFERENCE)
        parts = 1
        while True:
            # The 16 points of each part: [parts, 1] + [16] -> [parts * 16], from 0 to 1.
            starts = np.arange(parts)[:, None] / parts
            points = (starts + (_NODES + 1) / (2 * parts)).ravel()
            weights = np.tile(_WEIGHTS, parts) / (2 * parts)
            _, gradients = run(points)
            scores = (weights @ gradients.astype(np.float64)).astype(np.float32)  # [S]
            error = abs(float(scores.sum()) - difference) / least
            if error <= tolerance or 2 * len(points) > max_points:
                return Attribution(scores, float(logit), float(baseline_logit), error, len(points))
            parts *= 2

    def _trace(
        self,
        inputs: dict[str, tf.Tensor],
        is_kept: tf.Tensor,
        baseline_id: tf.Tensor,
        indices: tf.Tensor,
        alphas: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the logits [K] at K points of the line, and their gradients [K, S]."""
        rows = tf.size(alphas)  # K
        batch = {name: tf.repeat(tensor, rows, axis=0) for name, tensor in inputs.items()}
        # [K, S]: how far on the line each token of each row is.
        multipliers = tf.tile(alphas[:, None], [1, tf.size(is_kept)])

        def between(ids: tf.Tensor, table: tf.Tensor) -> tf.Tensor:
            ends = tf.gather(table, ids)  # [K, S, H]
            starts = tf.gather(table, tf.where(is_kept, ids, baseline_id))  # [K, S, H]
            return starts + multipliers[..., None] * (ends - starts)

        with tf.GradientTape() as tape:
            tape.watch(multipliers)
            with self._model.encoder.word_embeddings.replaced_lookup(between):
                logits = self._pick(self._model(batch, training=False), indices)  # [K]
        return logits, tape.gradient(logits, multipliers)  # [K], [K, S]
