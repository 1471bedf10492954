"""The attention probabilities of a model for a text, and what its tokens stand for.

Shapes: L layers, A heads, S tokens, W words.
"""

import os
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_bert.features import SEGMENT_IDS
from keras_bert.models.encoder import BertEncoder
from keras_bert.text import packing
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.vocabulary import CONTINUATION_PREFIX


class Token(NamedTuple):
    """One position of the model's input.

    Attributes:
        piece: its entry of the vocabulary, such as "##ing".
        text: what of the text became it; the entry itself for [CLS] and [SEP].
        segment: 0 for the first text, 1 for the second.
        word: index of its word, counted from 0 over both texts; [CLS] and [SEP] are words, too.
        is_special: whether it is [CLS] or [SEP], which the text does not hold.
    """

    piece: str
    text: str
    segment: int
    word: int
    is_special: bool


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
    texts = [text] if text_pair is None else [text, text_pair]
    for name, given in zip(("text", "text_pair"), texts, strict=False):
        if not isinstance(given, str):
            raise ValueError(f"{name} is a {type(given).__name__}: give one string")
    if text_pair is not None and encoder.config.type_vocab_size < 2:
        raise ValueError(
            f"text_pair is given but the model's type_vocab_size is "
            f"{encoder.config.type_vocab_size}: it needs 2 segments; leave text_pair out"
        )
    ids, starts, ends = tokenizer.tokenize_with_offsets(texts)  # ragged [1 or 2, pieces] each
    rows = [ids[index : index + 1] for index in range(len(texts))]  # ragged [1, pieces]
    inputs = packing.pack(  # int32 [1, S] each
        rows[0],
        rows[1] if text_pair is not None else None,
        tokenizer.vocabulary,
        encoder.config.max_position_embeddings,
        pad_to_max=False,
    )
    # Beside its pieces the first segment holds [CLS] and [SEP], the second [SEP].
    segments = inputs[SEGMENT_IDS].numpy()[0]
    kept = [int(np.sum(segments == 0)) - 2, int(np.sum(segments == 1)) - 1][: len(texts)]
    pieces = [
        _Pieces(*(part[index].numpy()[:count].tolist() for part in (ids, starts, ends)))
        for index, count in enumerate(kept)
    ]
    tokens, words = _describe(texts, pieces, tokenizer.vocabulary.tokens)
    outputs = encoder(inputs, training=False)["attention_probs"]  # L of [1, A, S, S]
    probabilities = np.stack([keras.ops.convert_to_numpy(layer)[0] for layer in outputs])
    cut = int(tf.size(ids.flat_values)) - sum(kept)
    return Attention(tuple(tokens), tuple(words), probabilities.astype(np.float32), cut)


class _Pieces(NamedTuple):
    ids: list[int]
    starts: list[int]
    ends: list[int]


def _describe(
    texts: Sequence[str], pieces: Sequence[_Pieces], vocabulary: Sequence[str]
) -> tuple[list[Token], list[str]]:
    """Returns the tokens of [CLS] first [SEP] second [SEP], and their words."""
    tokens = [Token("[CLS]", "[CLS]", 0, 0, True)]
    words = ["[CLS]"]
    for segment, (text, found) in enumerate(zip(texts, pieces, strict=True)):
        word_start = 0
        for index, start, end in zip(*found, strict=True):
            piece = vocabulary[index]
            if piece.startswith(CONTINUATION_PREFIX) and not tokens[-1].is_special:
                words[-1] = text[word_start:end]
            else:
                word_start = start
                words.append(text[start:end])
            tokens.append(Token(piece, text[start:end], segment, len(words) - 1, False))
        words.append("[SEP]")
        tokens.append(Token("[SEP]", "[SEP]", segment, len(words) - 1, True))
    return tokens, words


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
