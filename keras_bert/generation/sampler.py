"""The chains of a batch from their first pieces to their last, by any of the methods.

    blanks --start--> pieces --sweep--> pieces --sweep--> ... --> pieces

`TextSampler` is what `TextGenerator` and the signature `generate` of a SavedModel share: graph
operations only.

Shapes: C chains, S positions, P blanks of the chain that has most.
"""

import tensorflow as tf

from keras_bert.generation.chains import Chains, random_pieces
from keras_bert.generation.conditionals import Conditionals
from keras_bert.generation.energy import EnergyFunction
from keras_bert.generation.gibbs import gibbs_sweep
from keras_bert.generation.metropolis_hastings import (
    ChainState,
    first_state,
    metropolis_hastings_sweep,
)
from keras_bert.generation.options import GenerationOptions
from keras_bert.models.masked_lm import BertMaskedLM
from keras_bert.text.vocabulary import Vocabulary


class TextSampler:
    """Samples what stands in the blanks of rows.

    Args:
        model: the masked language model.
        vocabulary: its pieces.
        options: how.
        rows: rows of an energy per call of the model.

    Raises:
        ValueError: the model cannot generate, see `Conditionals`.
    """

    def __init__(
        self, model: BertMaskedLM, vocabulary: Vocabulary, options: GenerationOptions, rows: int
    ):
        self.conditionals = Conditionals(model, vocabulary)
        self._options = options
        self._energy = EnergyFunction(self.conditionals, options.energy, rows)

    def start(self, ids: tf.Tensor, chains: Chains) -> ChainState:
        """Returns the chains before the first sweep.

        Args:
            ids: int32 [C, S], [MASK] in the blanks, or pieces where the texts are the start.
            chains: where the blanks are.
        """
        options, chosen = self._options, self.conditionals
        if options.start == "random":
            ids = random_pieces(ids, chains, chosen.may_be_drawn)
        if options.method == "gibbs":
            none = tf.zeros(tf.shape(chains.counts), tf.float64)
            return ChainState(ids, none, ids, none, tf.zeros_like(chains.counts))
        if options.start == "mask":
            # [MASK] is no piece of a text, and has no energy: the blanks are filled once, with
            # random numbers of a sweep before the first.
            before, heat = tf.constant(0, tf.int64), tf.constant(options.temperature, tf.float32)
            ids = gibbs_sweep(chosen, chains, ids, before, heat, options.order)
        return first_state(ids, chains, self._energy)

    def sweep(
        self,
        chains: Chains,
        state: ChainState,
        number: tf.Tensor,
        temperature: tf.Tensor,
        after_burn_in: bool = True,
    ) -> ChainState:
        """Returns the chains after one more sweep.

        Args:
            chains: where the blanks are.
            state: where the chains are.
            number: int64 scalar, the number of the sweep from 0 up.
            temperature: float32 scalar.
            after_burn_in: whether `top_k` is in effect.
        """
        order, number = self._options.order, number + 1  # 0 is the sweep of `start`
        if self._options.method != "gibbs":
            return metropolis_hastings_sweep(
                self.conditionals, self._energy, chains, state, number, temperature, order
            )
        top_k = self._options.top_k if after_burn_in else 0
        ids = gibbs_sweep(self.conditionals, chains, state.ids, number, temperature, order, top_k)
        return state._replace(ids=ids)

    def sweeps(self, chains: Chains, state: ChainState) -> ChainState:
        """Returns the chains after all sweeps of a method that keeps its temperature."""
        heat = tf.constant(self._options.temperature, tf.float32)
        # A loop for the sweeps of the burn-in, and one for those after it.
        edges = (0, self._options.burn_in, self._options.sweeps)
        for part, (first, end) in enumerate(zip(edges[:-1], edges[1:], strict=True)):

            def step(number: tf.Tensor, state: ChainState, late: bool = part == 1) -> tuple:
                return number + 1, self.sweep(chains, state, number, heat, late)

            _, state = tf.while_loop(
                lambda number, _, end=end: number < end,
                step,
                (tf.constant(first, tf.int64), state),
                shape_invariants=(tf.TensorShape([]), ChainState(*(p.shape for p in state))),
                parallel_iterations=1,
            )
        return state
