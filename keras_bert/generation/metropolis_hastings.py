"""Metropolis-Hastings with the model's own conditionals as proposals.

Goyal et al. 2022 (arXiv:2106.02736), section 3.2. A piece is proposed for position t as in Gibbs
sampling, and accepted with the probability

    min(1, exp(-E(x') / T) q(x_t | rest) / (exp(-E(x) / T) q(x'_t | rest)))

with which exp(-E(x) / T) is stationary; q are the conditionals at temperature T. The conditionals
of a masked language model belong to no joint distribution, so that Gibbs sampling alone has none
that could be written down.

The same row of the model, with t masked, gives q and what x_t and x'_t add to their energies; the
other pieces of x' take a row each. The energy of x is known from before, and a proposal of what
stands there already is accepted without computing anything.

Shapes: C chains, S positions, P blanks of the chain that has most, V pieces.
"""

from typing import NamedTuple

import tensorflow as tf

from keras_bert.generation.chains import Chains, at, replace
from keras_bert.generation.conditionals import Conditionals
from keras_bert.generation.draws import Stream, draw, uniforms, visiting_order
from keras_bert.generation.energy import EnergyFunction, total
from keras_bert.generation.options import VisitingOrder


class ChainState(NamedTuple):
    """Where chains are.

    Attributes:
        ids: int32 [C, S].
        energies: float64 [C], of `ids`.
        best_ids: int32 [C, S], those of lowest energy so far.
        best_energies: float64 [C].
        accepted: int32 [C], how many proposals were accepted, those of the same piece too.
    """

    ids: tf.Tensor
    energies: tf.Tensor
    best_ids: tf.Tensor
    best_energies: tf.Tensor
    accepted: tf.Tensor


def first_state(ids: tf.Tensor, chains: Chains, energy: EnergyFunction) -> ChainState:
    """Returns the state of chains that begin at `ids` [C, S], which hold no [MASK]."""
    energies = total(energy.terms(ids, chains, chains.is_piece))
    return ChainState(ids, energies, ids, energies, tf.zeros_like(chains.counts))


def metropolis_hastings_sweep(
    conditionals: Conditionals,
    energy: EnergyFunction,
    chains: Chains,
    state: ChainState,
    sweep: tf.Tensor,
    temperature: tf.Tensor,
    order: VisitingOrder,
) -> ChainState:
    """Proposes a piece for every blank once, and accepts or rejects it.

    Args:
        conditionals: the model.
        energy: the energy.
        chains: where the blanks are.
        state: where the chains are.
        sweep: int64 scalar, the number of the sweep.
        temperature: float32 scalar, T.
        order: "sequential" or "random".
    """
    steps = tf.range(tf.cast(chains.width, tf.int64))
    numbers = uniforms(chains.seeds, Stream.PIECE, sweep, steps)  # [C, P]
    thresholds = uniforms(chains.seeds, Stream.ACCEPTANCE, sweep, steps)  # [C, P]
    visited = visiting_order(chains.seeds, sweep, chains.counts, chains.width, order == "random")
    columns = tf.gather(chains.positions, visited, batch_dims=1)  # [C, P]
    all_columns = tf.range(tf.shape(state.ids)[1])  # [S]

    def step(number: tf.Tensor, state: ChainState) -> tuple[tf.Tensor, ChainState]:
        # 1. The proposal, from the row with position t masked.
        column, blank = columns[:, number], visited[:, number]  # [C] each
        active = number < chains.counts  # [C]; others have fewer blanks
        chosen = (all_columns == column[:, None]) & active[:, None]  # [C, S]
        masked = replace(state.ids, chosen, conditionals.mask_id)
        logits = conditionals.logits(masked, chains.input_mask, column[:, None])[:, 0]  # [C, V]
        proposals = conditionals.log_probabilities(logits, temperature)  # [C, V]
        old = at(state.ids, column)  # [C]
        new = draw(proposals, at(numbers, blank))
        proposed = replace(state.ids, chosen, new[:, None])  # [C, S]
        # 2. Its energy: all other pieces, and the new one by the row above.
        changed = active & (new != old)
        others = chains.is_piece & ~chosen & changed[:, None]
        energies = total(energy.terms(proposed, chains, others))
        energies += tf.cast(energy.of_piece(logits, new), tf.float64)
        # 3. The acceptance.
        ratio = tf.gather(proposals, old, batch_dims=1) - tf.gather(proposals, new, batch_dims=1)
        gain = (state.energies - energies) / tf.cast(temperature, tf.float64)
        probability = tf.exp(tf.minimum(0.0, tf.cast(gain, tf.float32) + ratio))
        moves = changed & (at(thresholds, blank) < probability)  # [C]
        ids = tf.where(moves[:, None], proposed, state.ids)
        energies = tf.where(moves, energies, state.energies)
        better = energies < state.best_energies
        return number + 1, ChainState(
            ids,
            energies,
            tf.where(better[:, None], ids, state.best_ids),
            tf.where(better, energies, state.best_energies),
            state.accepted + tf.cast(moves | (active & ~changed), tf.int32),
        )

    _, state = tf.while_loop(
        lambda number, _: number < chains.width,
        step,
        (tf.constant(0), state),
        shape_invariants=(tf.TensorShape([]), ChainState(*(part.shape for part in state))),
        parallel_iterations=1,
    )
    return state
