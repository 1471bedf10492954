"""The signature `generate` of a masked language model: texts with [MASK] in, sampled texts out.

Shapes: N texts, S positions, P masks of the text that has most.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from keras_bert.features import INPUT_IDS, INPUT_MASK
from keras_bert.generation.blanks import fill_blanks
from keras_bert.generation.chains import Chains
from keras_bert.generation.draws import chain_seeds
from keras_bert.generation.options import GenerationOptions
from keras_bert.generation.sampler import TextSampler
from keras_bert.signatures.base import Tensors, with_a_column
from keras_bert.signatures.code_points import valid_text
from keras_bert.tasks.fill_mask.signatures import MaskedLMSignatures
from keras_bert.text.preprocessor import TEXT

GENERATE = "generate"
SEED = "seed"


class GenerationSignatures(MaskedLMSignatures):
    """Those of a masked language model, and `generate`.

    `text` with [MASK] in it, string [N], and `seed`, int64 [N] -> `text`, string [N], with sampled
    pieces in the places of the masks. What is answered for a text follows from the text and its
    seed alone, so that requests can be joined; it is the first sample of
    `TextGenerator.infill([text], seed=seed)`. Masks behind the longest row that the model takes are
    left as they are.
    """

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        sweeps, top_k = self.options.generate_sweeps, self.options.generate_top_k
        assert sweeps is not None
        how = GenerationOptions(
            sweeps=sweeps,
            top_k=top_k,
            burn_in=sweeps // 2 if top_k else 0,
            temperature=self.options.generate_temperature,
        )
        # Gibbs sampling computes no energies, which take rows of their own.
        self._sampler = TextSampler(self.model, self.tokenizer.vocabulary, how, rows=1)

    def more_answers(self) -> dict[str, Callable[..., Tensors]]:
        """Returns `generate`."""
        return {GENERATE: self.generate}

    def more_inputs(self) -> dict[str, dict[str, tf.TensorSpec]]:
        """Returns the seeds that `generate` takes beside the texts."""
        seeds = tf.TensorSpec([None], tf.int64, name=SEED)
        return {GENERATE: self.string_inputs() | {SEED: seeds}}

    def generate(self, text: tf.Tensor, seed: tf.Tensor) -> Tensors:
        """Returns the texts with sampled pieces in the places of [MASK]."""
        inputs = with_a_column(self.preprocess(text))
        ids, mask = inputs[INPUT_IDS], inputs[INPUT_MASK]
        vocabulary = self.tokenizer.vocabulary
        is_mask = tf.equal(ids, vocabulary.mask_id)  # [N, S]
        columns = tf.ragged.boolean_mask(
            tf.tile(tf.range(tf.shape(ids)[1])[None], [tf.shape(ids)[0], 1]), is_mask
        )  # [N, masks]
        chains = Chains(
            mask,
            columns.to_tensor(),  # [N, P]
            tf.reduce_sum(tf.cast(is_mask, tf.int32), axis=1),
            chain_seeds(seed, tf.zeros_like(seed)),
        )
        state = self._sampler.sweeps(chains, self._sampler.start(ids, chains))
        pieces = tf.gather(
            tf.constant(vocabulary.tokens),
            tf.ragged.boolean_mask(state.ids, is_mask),
        )  # [N, masks]
        return {TEXT: fill_blanks(valid_text(text), pieces, vocabulary.special_tokens.mask)}
