"""Pieces of the vocabulary against rows of the embedding, in folders that others wrote."""

from typing import Any

from keras_bert.config import BertConfig
from keras_bert.models.masked_lm import BIAS
from keras_bert.text.vocabulary import Vocabulary


def check_rows(vocabulary: Vocabulary, config: BertConfig) -> None:
    """Checks that every piece has a row of the embedding.

    More rows than pieces are right: many models are padded to a multiple of 8 or 64.

    Raises:
        ValueError: there are fewer rows.
    """
    if len(vocabulary) > config.vocab_size:
        raise ValueError(
            f"the vocabulary has {len(vocabulary)} pieces but the embedding of the model only "
            f"{config.vocab_size} rows: put the vocabulary beside it that it was trained with"
        )


def silence_rows(model: Any, vocabulary: Vocabulary) -> None:
    """Makes rows without a piece the least likely of all, whatever was left in them.

    Args:
        model: a `BertMaskedLM`; its output bias is changed.
        vocabulary: its pieces.
    """
    model.get_layer(BIAS).silence(len(vocabulary))
