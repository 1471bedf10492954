"""The energy of a text: what every piece of it adds where it is masked alone.

Goyal, Dyer and Berg-Kirkpatrick 2022, "Exposing the Implicit Energy Networks behind Masked Language
Models via Metropolis-Hastings" (arXiv:2106.02736), section 3:

    raw           E(x) = - sum over t of the logit of x_t,           t masked
    normalized    E(x) = - sum over t of the log-probability of x_t, t masked

The second is the negative pseudo-log-likelihood of Salazar et al. 2020 (`SentenceScorer`). Each
piece is a row of the model, so an energy costs as many rows as the text has pieces.

Shapes: C chains, S positions, V pieces.
"""

import tensorflow as tf

from keras_bert.generation.chains import Chains
from keras_bert.generation.conditionals import Conditionals
from keras_bert.generation.options import Energy


class EnergyFunction:
    """Computes what pieces add to the energy of their texts, rows of the model at a time.

    Args:
        conditionals: the model.
        energy: which energy.
        rows: rows per call of the model.
    """

    def __init__(self, conditionals: Conditionals, energy: Energy, rows: int):
        self._conditionals = conditionals
        self._energy = energy
        self._rows = rows

    def of_piece(self, logits: tf.Tensor, pieces: tf.Tensor) -> tf.Tensor:
        """Returns what `pieces` [C] add by `logits` [C, V] of their masked positions, float32."""
        if self._energy == "normalized":
            logits = tf.nn.log_softmax(logits)
        return -tf.gather(logits, pieces, batch_dims=1)

    def terms(self, ids: tf.Tensor, chains: Chains, needed: tf.Tensor) -> tf.Tensor:
        """Returns what pieces add, float32 [C, S], 0 where it is not needed.

        Only rows that are needed are computed, in calls of equal size.

        Args:
            ids: int32 [C, S], without [MASK] in the blanks.
            chains: their masks.
            needed: bool [C, S], which pieces.
        """
        places = tf.where(needed)  # int64 [N, 2]: chain, position
        count = tf.shape(places)[0]

        def call(start: tf.Tensor, terms: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            # The last call has the last row several times: every call is a program of one shape.
            some = tf.gather(places, tf.minimum(tf.range(start, start + self._rows), count - 1))
            chain, column = some[:, 0], tf.cast(some[:, 1], tf.int32)  # [rows]
            rows = tf.gather(ids, chain)  # [rows, S]
            masked = tf.where(
                tf.range(tf.shape(ids)[1]) == column[:, None], self._conditionals.mask_id, rows
            )
            logits = self._conditionals.logits(
                masked, tf.gather(chains.input_mask, chain), column[:, None]
            )[:, 0]  # [rows, V]
            values = self.of_piece(logits, tf.gather(rows, column, batch_dims=1))
            return start + self._rows, tf.tensor_scatter_nd_update(terms, some, values)

        _, terms = tf.while_loop(
            lambda start, _: start < count,
            call,
            (tf.constant(0), tf.zeros(tf.shape(ids), tf.float32)),
            shape_invariants=(tf.TensorShape([]), ids.shape),
            parallel_iterations=1,
        )
        return terms


def total(terms: tf.Tensor) -> tf.Tensor:
    """Returns the energies, float64 [C], from `terms` [C, S].

    In float64: the difference of two energies of hundreds decides.
    """
    return tf.reduce_sum(tf.cast(terms, tf.float64), axis=1)
