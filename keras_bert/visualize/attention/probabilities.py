"""The attention probabilities of a model for a text, and what its tokens stand for.

Shapes: L layers, A heads, S tokens, W words.
"""

import os
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_bert.models.encoder import BertEncoder
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.visualize.model_input import Token, read_texts


class Attention(NamedTuple):
    """What a model attends to in a text.

    Attributes:
        tokens: S tokens.
        words: W words, as they stand in the text.
        probabilities: float32 [L, A, S, S], from a token (third axis) to a token (last axis); each
            row sums to 1.
        cut_pieces: how many pieces of the text did not fit the positions of the model.
    """

    tokens: tuple[Token, ...]
    words: tuple[str, ...]
    probabilities: np.ndarray
    cut_pieces: int


def open_model(
    model: Any,
    tokenizer: BertTokenizer | None = None,
    ignore_config_keys: Collection[str] = (),
) -> tuple[BertEncoder, BertTokenizer]:
    """Returns an encoder that gives its attention probabilities, and its tokenizer.

    Args:
        model: a folder of any format that `BertEncoder.from_preset` opens; or a `BertEncoder`, a
            model with a head, or what has one as `model` (a `FinetunedModel`).
        tokenizer: that of the model; None takes that of the folder or of the `FinetunedModel`.
        ignore_config_keys: unknown keys of a folder's config to pass over.

    Raises:
        FileNotFoundError: there is no such folder, or a file of it is missing.
        ValueError: it is no such model, there is no tokenizer, or its vocabulary is another's.
    """
    if isinstance(model, str | os.PathLike):
        encoder = BertEncoder.from_preset(
            os.fspath(model), ignore_config_keys, output_attention_probs=True
        )
        tokenizer = tokenizer or BertTokenizer.from_preset(model, keep_special_tokens=True)
    else:
        tokenizer = tokenizer or getattr(model, "tokenizer", None)
        inner = getattr(model, "model", model)
        encoder = _with_probabilities(getattr(inner, "encoder", inner))
    if tokenizer is None:
        raise ValueError(
            f"there is no tokenizer for the {type(model).__name__}: give tokenizer=, for example "
            "BertTokenizer.from_preset of the folder it came from"
        )
    tokenizer.vocabulary.check_size(encoder.config.vocab_size)
    return encoder, tokenizer


def _with_probabilities(encoder: Any) -> BertEncoder:
    if not isinstance(encoder, BertEncoder):
        raise ValueError(
            f"the model is a {type(encoder).__name__}: give a model folder, a BertEncoder or a "
            "model with a head on one"
        )
    if encoder.output_attention_probs and not encoder.packed:
        return encoder
    # A functional model has the outputs that it was made with, so this is a second one. It takes
    # no name scope of the first along; weights go over by order.
    arguments = encoder.get_config() | {"output_attention_probs": True, "packed": False}
    copy = type(encoder).from_config(arguments)
    copy.set_weights(encoder.get_weights())
    return copy


def read_attention(
    encoder: BertEncoder, tokenizer: BertTokenizer, text: str, text_pair: str | None = None
) -> Attention:
    """Returns what an encoder attends to in a text or a pair of texts.

    Texts that are too long for the model are cut as `BertPreprocessor` cuts them.

    Args:
        encoder: made with `output_attention_probs`.
        tokenizer: that of the encoder.
        text: the text.
        text_pair: the second text of a pair.

    Raises:
        ValueError: a text is no string, or the model knows one segment only and there are two.
    """
    read = read_texts(tokenizer, encoder.config, text, text_pair)
    outputs = encoder(read.features, training=False)["attention_probs"]  # L of [1, A, S, S]
    probabilities = np.stack([keras.ops.convert_to_numpy(layer)[0] for layer in outputs])
    return Attention(read.tokens, read.words, probabilities.astype(np.float32), read.cut_pieces)


def join_pieces(probabilities: np.ndarray, words: Sequence[int]) -> np.ndarray:
    """Joins the pieces of words, as Clark et al. (2019, section 4.1) do.

    Attention to a word is the sum over its pieces, attention from a word the mean over them, so
    that rows still sum to 1.

    Args:
        probabilities: [..., S, S].
        words: S indices of words, counted from 0 in the order of the tokens.

    Returns:
        [..., W, W].
    """
    members = np.eye(max(words) + 1, dtype=probabilities.dtype)[list(words)]  # [S, W]
    to_words = probabilities @ members  # [..., S, W]
    return (members / members.sum(axis=0)).T @ to_words  # [W, S] x [..., S, W] = [..., W, W]
