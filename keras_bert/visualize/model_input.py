"""What a model reads of a text: its tokens, and what of the text each of them stands for."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

from keras_bert.config import BertConfig
from keras_bert.text import packing
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.framing import between
from keras_bert.text.vocabulary import MASK, Vocabulary


class Token(NamedTuple):
    """One position of the model's input.

    Attributes:
        piece: its entry of the vocabulary, such as "##ing".
        text: what of the text became it; the entry itself for [CLS] and [SEP].
        segment: 0 for the first text, 1 for the second.
        word: index of its word, counted from 0 over both texts; [CLS] and [SEP] are words, too.
        is_special: whether it is [CLS] or [SEP], which the text does not hold.
        start: where it begins in its text, in code points; 0 for [CLS] and [SEP].
        end: where it ends.
    """

    piece: str
    text: str
    segment: int
    word: int
    is_special: bool
    start: int = 0
    end: int = 0


class ModelInput(NamedTuple):
    """A text or a pair of texts as a model reads it.

    Attributes:
        features: the encoder's inputs, int32 [1, S] each.
        tokens: S tokens.
        words: W words, as they stand in the text.
        cut_pieces: how many pieces of the text did not fit.
        texts: the text, or both.
        mask: how the vocabulary spells [MASK].
    """

    features: Mapping[str, tf.Tensor]
    tokens: tuple[Token, ...]
    words: tuple[str, ...]
    cut_pieces: int
    texts: tuple[str, ...]
    mask: str = MASK


def read_texts(
    tokenizer: Tokenizer,
    config: BertConfig,
    text: str,
    text_pair: str | None = None,
    max_seq_length: int | None = None,
    max_query_length: int | None = None,
) -> ModelInput:
    """Returns what a model reads of a text or a pair of texts, cut as `BertPreprocessor` cuts it.

    Args:
        tokenizer: that of the model.
        config: that of the model.
        text: the text.
        text_pair: the second text of a pair.
        max_seq_length: the most tokens; None takes all positions of the model.
        max_query_length: the most pieces of the first text of a pair, where it is a question: it is
            cut to these, and the second to what is left.

    Raises:
        ValueError: a text is no string, or the model knows one segment only and there are two.
    """
    texts = [text] if text_pair is None else [text, text_pair]
    for name, given in zip(("text", "text_pair"), texts, strict=False):
        if not isinstance(given, str):
            raise ValueError(f"{name} is a {type(given).__name__}: give one string")
    if text_pair is not None and not config.takes_pairs:
        raise ValueError(
            f"text_pair is given but the model's type_vocab_size is {config.type_vocab_size}: it "
            "needs 2 segments; leave text_pair out"
        )
    ids, starts, ends = tokenizer.tokenize_with_offsets(texts)  # ragged [1 or 2, pieces] each
    rows = [ids[index : index + 1] for index in range(len(texts))]  # ragged [1, pieces]
    vocabulary, length = tokenizer.vocabulary, max_seq_length or config.max_position_embeddings
    if text_pair is None:
        rows = [packing.truncate(rows[0], length - vocabulary.framing.special_in_single)]
    else:
        if max_query_length is not None:
            rows[0] = packing.truncate(rows[0], max_query_length)
            room = length - vocabulary.framing.special_in_pair - int(rows[0].row_lengths()[0])
            rows[1] = packing.truncate(rows[1], max(1, room))
        rows = list(
            packing.truncate_pair(rows[0], rows[1], length - vocabulary.framing.special_in_pair)
        )
    second = None if text_pair is None else rows[1]
    features = packing.pack(rows[0], second, vocabulary, length, pad_to_max=False)  # int32 [1, S]
    kept = [int(row.row_lengths()[0]) for row in rows]
    pieces = [
        _Pieces(*(part[index].numpy()[:count].tolist() for part in (ids, starts, ends)))
        for index, count in enumerate(kept)
    ]
    tokens, words = _describe(texts, pieces, vocabulary)
    cut = int(tf.size(ids.flat_values)) - sum(kept)
    return ModelInput(
        features, tuple(tokens), tuple(words), cut, tuple(texts), vocabulary.special_tokens.mask
    )


class _Pieces(NamedTuple):
    ids: list[int]
    starts: list[int]
    ends: list[int]


def _describe(
    texts: Sequence[str], pieces: Sequence[_Pieces], vocabulary: Vocabulary
) -> tuple[list[Token], list[str]]:
    """Returns the tokens of [CLS] first [SEP] second [SEP], and their words."""
    special = vocabulary.special_tokens
    cls, closing_row = special.cls, [special.sep] if vocabulary.framing.ends else []
    closing, *more = between(vocabulary.framing, special)
    tokens = [Token(cls, cls, 0, 0, True)]
    words = [cls]
    for segment, (text, found) in enumerate(zip(texts, pieces, strict=True)):
        word_start = 0
        if segment:
            for token in more:
                words.append(token)
                tokens.append(Token(token, token, segment, len(words) - 1, True))
        for index, start, end in zip(*found, strict=True):
            piece = vocabulary.tokens[index]
            if vocabulary.continuation_mask[index] and not tokens[-1].is_special:
                words[-1] = text[word_start:end]
            else:
                word_start = start
                words.append(text[start:end])
            tokens.append(Token(piece, text[start:end], segment, len(words) - 1, False, start, end))
        for token in [closing] if segment + 1 < len(texts) else closing_row:
            words.append(token)
            tokens.append(Token(token, token, segment, len(words) - 1, True))
    return tokens, words
