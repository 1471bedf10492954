"""Rematerialization: encoder blocks that are computed again on the way back, to save memory."""

from typing import Any

import keras

from keras_bert.layers.encoder_block import EncoderBlock


def rematerialize(encoder: keras.Model) -> None:
    """Makes every block of an encoder keep only its input until its gradient is asked for.

    The block is then computed a second time, with the same dropout masks: results and gradients
    stay as they are, the memory for activations falls to about that of one block, and a step takes
    about a third more operations.

    Args:
        encoder: a `BertEncoder`.
    """
    for layer in encoder.layers:
        if isinstance(layer, EncoderBlock):
            layer.call = _rematerialized(layer)


def _rematerialized(block: EncoderBlock) -> Any:
    call = block.call
    states = [v for v in block.non_trainable_variables if v.path.endswith("seed_generator_state")]

    def rematerialized_call(
        hidden: Any, input_mask: Any, training: bool = False, return_probs: bool = False
    ) -> Any:
        if not training or return_probs:
            return call(hidden, input_mask, training=training, return_probs=return_probs)
        seeds = [(state, state.value) for state in states]

        def with_same_masks(hidden: Any) -> Any:
            # A draw changes the state of its generator; the second must repeat the first.
            with keras.StatelessScope(state_mapping=seeds):
                return call(hidden, input_mask, training=True)

        return keras.remat(with_same_masks)(hidden)

    return rematerialized_call
