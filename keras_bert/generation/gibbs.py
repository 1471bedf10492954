"""Gibbs sampling: a blank after the other is masked and drawn anew, given all others.

Wang and Cho 2019, "BERT has a Mouth, and It Must Speak: BERT as a Markov Random Field Language
Model" (arXiv:1902.04094). A sweep over "the ? film ?", from left to right:

    the [MASK] film was    draw from what the model expects:  the old  film was
    the old  film [MASK]                                      the old  film ended

With order=parallel the model sees the text as it stands, and all blanks are drawn from one call.

Shapes: C chains, S positions, P blanks of the chain that has most, V pieces.
"""

import tensorflow as tf

from keras_bert.generation.chains import Chains, at, fill, replace
from keras_bert.generation.conditionals import Conditionals
from keras_bert.generation.draws import Stream, draw, uniforms, visiting_order
from keras_bert.generation.options import VisitingOrder


def gibbs_sweep(
    conditionals: Conditionals,
    chains: Chains,
    ids: tf.Tensor,
    sweep: tf.Tensor,
    temperature: tf.Tensor,
    order: VisitingOrder,
    top_k: int = 0,
) -> tf.Tensor:
    """Draws every blank once.

    Args:
        conditionals: the model.
        chains: where the blanks are.
        ids: int32 [C, S].
        sweep: int64 scalar, the number of the sweep.
        temperature: float32 scalar.
        order: in which order.
        top_k: draw from so many of the likeliest pieces; 0 from all.

    Returns:
        int32 [C, S].
    """
    steps = tf.range(tf.cast(chains.width, tf.int64))
    numbers = uniforms(chains.seeds, Stream.PIECE, sweep, steps)  # [C, P]
    if order == "parallel":
        logits = conditionals.logits(ids, chains.input_mask, chains.positions)  # [C, P, V]
        drawn = draw(conditionals.log_probabilities(logits, temperature, top_k), numbers)
        return fill(ids, chains, drawn)
    visited = visiting_order(chains.seeds, sweep, chains.counts, chains.width, order == "random")
    columns = tf.gather(chains.positions, visited, batch_dims=1)  # [C, P]
    all_columns = tf.range(tf.shape(ids)[1])  # [S]

    def step(number: tf.Tensor, ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        column = columns[:, number]  # [C]
        # Chains with fewer blanks are done, and keep what they have.
        chosen = (all_columns == column[:, None]) & (number < chains.counts[:, None])  # [C, S]
        masked = replace(ids, chosen, conditionals.mask_id)
        logits = conditionals.logits(masked, chains.input_mask, column[:, None])[:, 0]  # [C, V]
        distribution = conditionals.log_probabilities(logits, temperature, top_k)
        drawn = draw(distribution, at(numbers, visited[:, number]))  # [C]
        return number + 1, replace(ids, chosen, drawn[:, None])

    _, ids = tf.while_loop(
        lambda number, _: number < chains.width,
        step,
        (tf.constant(0), ids),
        shape_invariants=(tf.TensorShape([]), ids.shape),
        parallel_iterations=1,
    )
    return ids
