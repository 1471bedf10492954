"""Rematerialization (gradient checkpointing): blocks are computed again in the backward pass."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from keras_bert.layers.encoder_block import EncoderBlock
from keras_bert.models.encoder import BertEncoder

# Of a block's call that is changed already.
_MARK = "is_rematerialized"


def rematerialize(encoder: BertEncoder) -> None:
    """Makes every block of an encoder keep only its input until its gradient is asked for.

    The block is then computed a second time, with the same dropout masks: results and gradients
    stay as they are, the memory for activations falls to about that of one block, and a step takes
    about a third more operations. A second call changes nothing.

    Args:
        encoder: the `BertEncoder` whose blocks are changed in place.

    Raises:
        ValueError: a block is not an `EncoderBlock`.
    """
    for block in encoder.encoder_blocks():
        if not isinstance(block, EncoderBlock):
            raise ValueError(
                f"{block.name} is a {type(block).__name__}, which cannot be rematerialized: derive "
                "it from EncoderBlock or leave out --remat"
            )
        if getattr(block.call, _MARK, False):
            continue
        # Keras calls what it finds under this name: no class for a choice of the run.
        block.call = _rematerialized(block)  # type: ignore[method-assign]


def _rematerialized(block: EncoderBlock) -> Any:
    call = block.call
    states = [v for v in block.non_trainable_variables if v.path.endswith("seed_generator_state")]

    def rematerialized_call(
        hidden: Any,
        input_mask: Any,
        training: bool = False,
        return_probs: bool = False,
        **further: Any,
    ) -> Any:
        if not training or return_probs:
            # Nothing is kept for a gradient here, so there is nothing to save.
            return call(hidden, input_mask, training=training, return_probs=return_probs, **further)
        seeds = [(state, state.value) for state in states]

        def with_same_masks(hidden: tf.Tensor) -> tf.Tensor:
            # A draw changes the state of its generator; the second must repeat the first.
            with keras.StatelessScope(state_mapping=seeds):
                return call(hidden, input_mask, training=True, **further)

        return _computed_again(with_same_masks, hidden)

    setattr(rematerialized_call, _MARK, True)
    return rematerialized_call


def _computed_again(function: Callable[[tf.Tensor], tf.Tensor], argument: tf.Tensor) -> tf.Tensor:
    @tf.custom_gradient
    def once(argument: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        def gradient(upstream: tf.Tensor, variables: Any = ()) -> tuple:
            with tf.GradientTape() as tape:
                # XLA computes equal things once and would keep all that was to be thrown away.
                # The sum makes the second pass different: the number is zero (or not a number, as
                # the gradient will be), but no compiler may conclude that. `tf.recompute_grad`
                # compares booleans, which XLA sees through.
                first = tf.reshape(upstream, [-1])[0]  # []
                zero = tf.cast(tf.where(tf.math.is_nan(first), first, 0), argument.dtype)
                again = argument + zero
                # The second forward pass, under a tape, and its gradient at once: [B, S, H].
                tape.watch(again)
                result = function(again)
            gradients = tape.gradient(result, [again, *variables], upstream)
            return gradients[0], gradients[1:]

        return function(argument), gradient

    return once(argument)
