"""BertEntityMatcher: entities of any kinds, which a row names before its words (GLiNER).

    input_ids   [CLS] <<ENT>> person <<ENT>> place <<SEP>> Ada  was born in London [SEP]
                        |              |                    |    |   |    |   |
    label_positions     1              3     word_positions 6    7   8    9   10

    input_ids, input_mask, segment_ids --> encoder --> states at both --> scores [B, W, K, T]

A probability is the sigmoid of a score; that of a span and a label says whether the span is an
entity of that kind. Shapes: B rows, S positions, W words, K words of the widest span, T labels.
"""

import os
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.checkpoints.checkpoint import Checkpoint
from keras_bert.checkpoints.gliner import folder as gliner
from keras_bert.checkpoints.gliner.settings import (
    is_gliner_folder,
    rows_with_markers,
)
from keras_bert.checkpoints.model_classes import ENTITY_MATCHER
from keras_bert.config import BertConfig, read_json
from keras_bert.counts import check_count, needed_count
from keras_bert.models import preset
from keras_bert.models.encoder import BertEncoder, as_config, as_encoder, encoder_inputs
from keras_bert.models.entities.span_scores import SpanLabelScores
from keras_bert.models.task_model import TaskModel
from keras_bert.storage import hub

# Positions in a row: of the first piece of each word, and of the marker before each label.
WORD_POSITIONS, LABEL_POSITIONS = "word_positions", "label_positions"
# What fills a row: no word, no label. A word without pieces has 0, the position of [CLS].
NO_POSITION = -1
SCORES_LAYER = "entity_scores"

_WORDS = "word_embeddings/embeddings"


@keras.saving.register_keras_serializable("keras_bert")
class BertEntityMatcher(TaskModel):
    """GLiNER (Zaratiana et al. 2023, arXiv:2311.08526) on any encoder of the package.

    Inputs: those of the encoder, int32 [B, S]; `word_positions`, int32 [B, W], where the first
    piece of each word stands, 0 for a word without pieces, -1 for none; `label_positions`, int32
    [B, T], where the marker before each label stands, -1 for none. Output: float32 [B, W, K, T],
    the score of each span of up to K words by its first word and its width, for each label; -1e9
    where there is no such span or label. `EntityRecognizer` makes the rows and reads the scores.

    A model that starts from an encoder alone gets three rows of word embeddings behind those of its
    pieces, as GLiNER has them: [FLERT], which nothing reads, <<ENT>> and <<SEP>>. They start as the
    mean of the rows of all pieces. Further rows only pad the table.

    Args:
        config: the numbers, a `BertConfig` or its dict; or the encoder itself, whose table has rows
            for the markers.
        entity_token_id: the id of <<ENT>>; None appends the markers to the vocabulary of the
            config.
        separator_token_id: that of <<SEP>>; None is the next one.
        max_width: the most words of an entity, K.
        max_words: the most words of a row that `EntityRecognizer` makes.
        span_hidden_size: width of the vectors of words, spans and labels; None is that of the
            encoder.
        num_rnn_layers: bidirectional LSTMs on the words.
        head_dropout: dropout inside the projections.
        seed: seed of all dropouts; None draws one.
        dtype: a Keras dtype policy; None takes the global one.

    Raises:
        ValueError: a number is out of its range, or the encoder has no rows for the markers.
    """

    # Nothing reads it.
    frozen_layers = ("encoder/pooler",)

    def __init__(
        self,
        config: BertConfig | Mapping[str, Any] | BertEncoder,
        entity_token_id: int | None = None,
        separator_token_id: int | None = None,
        max_width: int = 12,
        max_words: int = 384,
        span_hidden_size: int | None = None,
        num_rnn_layers: int = 1,
        head_dropout: float = 0.4,
        seed: int | None = None,
        dtype: Any = None,
        name: str = "bert_entity_matcher",
        **kwargs: Any,
    ):
        numbers = config.config if isinstance(config, BertEncoder) else as_config(config)
        if entity_token_id is None:
            entity_token_id = numbers.vocab_size + 1  # behind [FLERT]
        needed_count("entity_token_id", entity_token_id)
        if separator_token_id is None:
            separator_token_id = entity_token_id + 1
        needed_count("separator_token_id", separator_token_id)
        needed_count("max_words", max_words)
        check_count("span_hidden_size", span_hidden_size)
        last = max(entity_token_id, separator_token_id)
        if last >= numbers.vocab_size:
            if isinstance(config, BertEncoder):
                raise ValueError(
                    f"the encoder has {numbers.vocab_size} rows of word embeddings, but the "
                    f"markers have the ids {entity_token_id} and {separator_token_id}: give its "
                    "config, or a model folder to from_preset"
                )
            config = numbers.replace(
                vocab_size=max(last + 1, rows_with_markers(entity_token_id - 1))
            )

        # === Layers ===
        encoder = as_encoder(config, seed=seed, dtype=dtype)
        scores = SpanLabelScores(
            span_hidden_size or encoder.config.hidden_size,
            max_width,
            num_rnn_layers,
            head_dropout,
            seed=encoder.seed,
            dtype=encoder.policy,
            name=SCORES_LAYER,
        )

        # === Functional model ===
        inputs = encoder_inputs()  # int32 [B, S] each
        of_words, of_labels = (
            keras.Input((None,), dtype="int32", name=name)
            for name in (WORD_POSITIONS, LABEL_POSITIONS)
        )
        positions = ops.concatenate([of_words, of_labels], axis=1)  # [B, W + T]
        # What fills a row reads [CLS], which counts nowhere.
        states = encoder(inputs, output_positions=ops.maximum(positions, 0))["sequence_output"]
        outputs = scores(states, of_words, of_labels)  # [B, W, K, T]
        inputs = {**inputs, WORD_POSITIONS: of_words, LABEL_POSITIONS: of_labels}
        super().__init__(encoder, inputs=inputs, outputs=outputs, name=name, **kwargs)

        # === Config ===
        self.entity_token_id = entity_token_id
        self.separator_token_id = separator_token_id
        self.max_width = max_width
        self.max_words = max_words
        self.span_hidden_size = span_hidden_size
        self.num_rnn_layers = num_rnn_layers
        self.head_dropout = head_dropout

    def head_config(self) -> dict[str, Any]:
        """Returns the ids of the markers and what stands behind the encoder."""
        return {
            "entity_token_id": self.entity_token_id,
            "separator_token_id": self.separator_token_id,
            "max_width": self.max_width,
            "max_words": self.max_words,
            "span_hidden_size": self.span_hidden_size,
            "num_rnn_layers": self.num_rnn_layers,
            "head_dropout": self.head_dropout,
        }

    @property
    def marker_ids(self) -> tuple[int, ...]:
        """Rows of the word embeddings of [FLERT], <<ENT>> and <<SEP>>."""
        return self.entity_token_id - 1, self.entity_token_id, self.separator_token_id

    def initial_variables(self, checkpoint: Checkpoint) -> Mapping[str, np.ndarray]:
        """Returns the weights of a checkpoint, with rows for the markers.

        Args:
            checkpoint: the weights, of another model of this class or of an encoder without
                markers, whose rows become the mean of those of all pieces.
        """
        held = dict(super().initial_variables(checkpoint))
        if checkpoint.architecture != ENTITY_MATCHER and _WORDS in held:
            table = held[_WORDS]  # [V, E]
            pieces = self.entity_token_id - 1
            grown = np.zeros([self.config.vocab_size, table.shape[1]], table.dtype)
            grown[:pieces] = table[:pieces]
            # [FLERT], <<ENT>> and <<SEP>>.
            markers = slice(pieces, self.separator_token_id + 1)
            grown[markers] = table[:pieces].mean(axis=0, dtype=np.float64)
            held[_WORDS] = grown
        return held


def folder_head(folder: str | os.PathLike) -> Mapping[str, Any] | None:
    """Returns the arguments of the head of a folder that holds such a model; None of any other.

    Args:
        folder: the folder, or `hf://org/name`.

    Raises:
        ValueError: it is another kind of GLiNER, or a file is damaged.
    """
    local = hub.local_folder(folder)
    if is_gliner_folder(local):
        return gliner.read_head(local)
    file = local / preset.CONFIG_FILE
    content = read_json(file) if file.is_file() else {}
    return content.get("head", {}) if content.get("architecture") == ENTITY_MATCHER else None
