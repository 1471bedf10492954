"""A model for a vocabulary that got new tokens, each started from the mean of its old pieces."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_bert.counts import needed_count
from keras_bert.models.masked_lm import BIAS, FURTHER_COLUMNS, OUTPUT_WORDS
from keras_bert.models.preset import check_model
from keras_bert.models.surgery.lora import merged_lora

_EMBEDDINGS = "word_embeddings/embeddings"
_OUTPUTS = tuple(f"{name}/embeddings" for name in (FURTHER_COLUMNS, OUTPUT_WORDS)) + (
    f"{BIAS}/bias",
)


def grow_vocabulary(
    model: Any, pieces_of_new_tokens: Mapping[int, Sequence[int]], vocab_size: int
) -> Any:
    """Returns a copy of a model in which new tokens have embeddings of their own.

    A new token starts where the model saw it before: at the mean of the embeddings of the pieces it
    was written with. The same holds for its bias in a masked language model, and for its row of a
    table that scores words. All other weights are copied as they are.

    Args:
        model: any of the package's models; it is left alone.
        pieces_of_new_tokens: for the id of each new token, in an [unused] slot or appended, the
            ids of its pieces so far: what `BertTokenizer.pieces_of_new_tokens` returns. Tokenizers
            of other families have no such method: their pieces follow from merges or a model file.
        vocab_size: entries of the grown vocabulary.

    Raises:
        ValueError: the model is a folder, the size is smaller than its own, an id lies outside, or
            is that of a marker of the model (GLiNER's), an appended token has no pieces to start
            from, or a token has none.

    Example:
        grown = tokenizer.vocabulary.add_tokens(["angioplasty"])
        pieces = tokenizer.pieces_of_new_tokens(grown)
        model = grow_vocabulary(model, pieces, len(grown))
    """
    check_model(model)
    vocab_size = needed_count("vocab_size", vocab_size)
    _check(pieces_of_new_tokens, model, vocab_size)
    grown = type(model).from_config(
        {**model.get_config(), "config": model.config.replace(vocab_size=vocab_size).to_dict()}
    )
    # The order of the weights is that of the layers and does not depend on the vocabulary.
    with merged_lora(model) as weights:
        for source, target in zip(weights, grown.weights, strict=True):
            value = keras.ops.convert_to_numpy(source.value)
            if source.path.endswith((_EMBEDDINGS, *_OUTPUTS)):  # behind a name scope, if any
                # [V, H] -> [new V, H], or [V] -> [new V] for the bias
                larger = np.zeros((vocab_size, *value.shape[1:]), value.dtype)
                larger[: len(value)] = value  # old tokens keep their ids
                for token, parts in pieces_of_new_tokens.items():
                    # "ang ##io ##plast ##y": [4, H] -> [H], summed in float64
                    larger[token] = value[list(parts)].mean(axis=0, dtype=np.float64)
                value = larger
            target.assign(value)
    return grown


def _check(pieces: Mapping[int, Sequence[int]], model: Any, new_size: int) -> None:
    old_size = model.config.vocab_size
    if new_size < old_size:
        raise ValueError(
            f"vocab_size is {new_size} but the model has {old_size} entries: a vocabulary can only "
            "grow"
        )
    for token, parts in pieces.items():
        if not 0 <= token < new_size:
            raise ValueError(
                f"the new token has the id {token}, but the grown vocabulary has {new_size} "
                "entries: pass the length of what add_tokens returned"
            )
        if token in model.marker_ids:
            raise ValueError(
                f"the new token has the id {token}, which is that of a marker of "
                f"{type(model).__name__}: put new words into [unused] entries, or grow the encoder "
                "before it learns entities"
            )
        if not len(parts):
            raise ValueError(
                f"the new token {token} has no pieces to start from: the old tokenizer makes "
                "nothing of it; leave it out"
            )
        for part in parts:
            if not 0 <= part < old_size:
                raise ValueError(
                    f"the piece {part} of the new token {token} is none of the model's {old_size} "
                    "entries: pass the pieces of the old tokenizer"
                )
    missing = [index for index in range(old_size, new_size) if index not in pieces]
    if missing:
        raise ValueError(
            f"vocab_size is {new_size} but the appended token {missing[0]} has no pieces given "
            f"({len(missing)} in all): pass what pieces_of_new_tokens returned"
        )
