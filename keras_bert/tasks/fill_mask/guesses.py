"""Guesses for [MASK] in a text."""

import re
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.counts import needed_count
from keras_bert.features import INPUT_IDS, MASKED_LM_POSITIONS
from keras_bert.models.finite_outputs import check_finite
from keras_bert.models.masked_lm import BertMaskedLM, check_fills_gaps
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.preprocessor import BertPreprocessor

# How others write the mask.
_MASK_OF_OTHERS = re.compile(r"\[mask\]|<mask>", re.IGNORECASE)


class Guess(NamedTuple):
    """A piece and the probability that the model gives it."""

    piece: str
    probability: float


def fill_mask(
    model: BertMaskedLM, tokenizer: Tokenizer, text: str, top: int = 5
) -> list[list[Guess]]:
    """Returns the likeliest pieces for every [MASK] of a text.

    Args:
        model: the masked language model.
        tokenizer: its tokenizer, made with `keep_special_tokens=True`.
        text: holds [MASK] once or more.
        top: how many guesses for each.

    Returns:
        For each [MASK], in order, `top` guesses, the likeliest first; fewer where the vocabulary
        has no more.

    Raises:
        ValueError: there is no [MASK] within the model's length, the tokenizer would read it as
            plain text, the model reads from left to right, `top` is below 1, or a probability is
            not finite.
    """
    check_fills_gaps(model)
    needed_count("top", top)
    if not tokenizer.keep_special_tokens:
        raise ValueError(
            f"the tokenizer reads {tokenizer.vocabulary.special_tokens.mask} as plain text: make "
            "it with keep_special_tokens=True"
        )
    mask = tokenizer.vocabulary.special_tokens.mask
    if not text.strip():
        raise ValueError(
            f"text is {text!r}, which holds no word: give one with {mask} where a word is missing"
        )
    length = model.config.max_position_embeddings
    inputs = BertPreprocessor(tokenizer, length, pad_to="longest")([text])
    positions = np.flatnonzero(inputs[INPUT_IDS][0] == tokenizer.vocabulary.mask_id)
    if not len(positions):
        shown = text if len(text) <= 60 else f"{text[:60]}..."
        is_cut = len(tokenizer([text]).values) > length - 2  # [CLS] and [SEP]
        place = f"the first {length} pieces of {shown!r} hold" if is_cut else f"{shown!r} holds"
        other = next((found for found in _MASK_OF_OTHERS.findall(text) if found != mask), None)
        remedy = f"write {mask}, not {other}" if other else "put it where a word is missing"
        raise ValueError(f"{place} no {mask}: {remedy}")
    inputs[MASKED_LM_POSITIONS] = tf.constant(positions[None], tf.int32)
    logits = model(inputs, training=False)[0]  # [P, V]
    # Rows without a piece, of embeddings padded to a multiple of 8, are no guess.
    probabilities = tf.nn.softmax(logits[:, : len(tokenizer.vocabulary)])
    check_finite(probabilities)
    best = tf.math.top_k(probabilities, min(top, len(tokenizer.vocabulary)))
    return [
        [Guess(tokenizer.vocabulary.tokens[i], float(p)) for p, i in zip(values, ids, strict=True)]
        for values, ids in zip(best.values.numpy(), best.indices.numpy(), strict=True)
    ]
