"""The attention probabilities of a model for a text, and what its tokens stand for.

Shapes: L layers, A heads, S tokens, W words.
"""

from collections.abc import Sequence
from typing import NamedTuple

import keras
import numpy as np

from keras_bert.models.encoder import BertEncoder
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.visualize.model_input import Token, read_texts


class Attention(NamedTuple):
    """What a model attends to in a text.

    Attributes:
        tokens: S tokens.
        words: W words, as they stand in the text.
        probabilities: float32 [L, A, S, S], from a token (third axis) to a token (last axis); each
            row sums to 1.
        cut_pieces: how many pieces of the text did not fit the positions of the model.
        vocabulary: that of the model.
    """

    tokens: tuple[Token, ...]
    words: tuple[str, ...]
    probabilities: np.ndarray
    cut_pieces: int
    vocabulary: Vocabulary


def read_attention(
    encoder: BertEncoder, tokenizer: Tokenizer, text: str, text_pair: str | None = None
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
    return Attention(
        read.tokens,
        read.words,
        probabilities.astype(np.float32),
        read.cut_pieces,
        tokenizer.vocabulary,
    )


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
