"""BertMaskedLM: predicts the pieces at given positions."""

import os
from collections.abc import Collection, Mapping
from typing import Any

import keras

from keras_bert.checkpoints.checkpoint import Checkpoint
from keras_bert.config import BertConfig
from keras_bert.features import MASKED_LM_POSITIONS
from keras_bert.layers.embeddings import WordEmbedding
from keras_bert.layers.masked_lm import (
    FurtherColumns,
    MaskedLanguageModelTransform,
    OutputBias,
    PickedStates,
)
from keras_bert.models import preset
from keras_bert.models.encoder import BertEncoder, as_encoder, encoder_inputs
from keras_bert.models.task_model import TaskModel

# The layers of the head; the last ones where it has columns of words beside the word embeddings, or
# a table of words of its own.
TRANSFORM, BIAS = "masked_lm_transform", "masked_lm_bias"
FURTHER_COLUMNS, OUTPUT_WORDS = "masked_lm_columns", "output_embeddings"


def load_masked_lm(
    folder: str | os.PathLike, ignore_config_keys: Collection[str] = (), **arguments: Any
) -> "BertMaskedLM":
    """Opens a model folder of any format to ask it for words; `from_preset` opens it to train it.

    Args:
        folder: the folder, or hf://org/name.
        ignore_config_keys: unknown keys of its config to pass over, see `BertConfig.from_dict`.
        **arguments: arguments of the constructor other than `config`.

    Raises:
        FileNotFoundError: there is no such folder.
        ValueError: it holds no head that predicts words, and a fresh one knows none.
    """
    checkpoint = preset.read_checkpoint(folder, ignore_config_keys)
    check_predicts_words(folder, checkpoint)
    return preset.from_checkpoint(BertMaskedLM, checkpoint, arguments)


def check_predicts_words(folder: str | os.PathLike, checkpoint: Checkpoint) -> None:
    """Makes sure that a checkpoint has trained what predicts masked words.

    Args:
        folder: where it was read from, for the error.
        checkpoint: the weights.

    Raises:
        ValueError: it holds no head that predicts words, and a fresh one knows none; or it does so
            with an output matrix of its own.
    """
    if not checkpoint.predicts_words:
        raise ValueError(
            f"{folder} holds a {checkpoint.architecture}, which predicts no masked words: give a "
            "model with a masked LM head"
        )
    checkpoint.check_masked_lm()


def check_fills_gaps(model: Any) -> None:
    """Makes sure that a model tells what a mask hides.

    Raises:
        ValueError: it predicts no words, or reads from left to right.
    """
    if not isinstance(model, BertMaskedLM):
        raise ValueError(
            f"the model is a {type(model).__name__}: give a BertMaskedLM, which predicts words"
        )
    if model.config.left_to_right:
        raise ValueError(
            "the model reads from left to right, so what follows a mask cannot tell what it "
            "hides: give a model that was pretrained with masked words"
        )


@keras.saving.register_keras_serializable("keras_bert")
class BertMaskedLM(TaskModel):
    """Masked language model: the encoder's inputs and `masked_lm_positions` [B, P] in, logits out.

    The output, `[B, P, V]` in float32, scores every vocabulary entry at the predicted positions
    with the word embeddings themselves (paper section 3.1, task 1).

    Args:
        config: the numbers, a `BertConfig` or its dict; or the encoder itself, which then may serve
            several heads.
        packed: whether sequences hold several documents, see `BertEncoder`.
        seed: seed of all dropouts; None draws one.
        dtype: a Keras dtype policy; None takes the global one.
    """

    def __init__(
        self,
        config: BertConfig | Mapping[str, Any] | BertEncoder,
        packed: bool = False,
        seed: int | None = None,
        dtype: Any = None,
        name: str = "bert_masked_lm",
        **kwargs: Any,
    ):
        encoder = as_encoder(config, packed=packed, seed=seed, dtype=dtype)
        inputs = masked_lm_inputs(encoder.packed)  # [B, S] each, and positions [B, P]
        # The encoder takes its own inputs only; the positions are for the head.
        encoded = encoder(
            {name: inputs[name] for name in encoder.input},
            output_positions=inputs[MASKED_LM_POSITIONS],
        )
        logits = masked_lm_logits(encoder, encoded["sequence_output"])  # [B, P, H] -> [B, P, V]
        super().__init__(encoder, inputs=inputs, outputs=logits, name=name, **kwargs)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {"packed": self.encoder.packed}


def masked_lm_inputs(packed: bool = False) -> dict[str, keras.KerasTensor]:
    """Returns the encoder's symbolic inputs and the predicted positions [B, P]."""
    positions = keras.Input((None,), dtype="int32", name=MASKED_LM_POSITIONS)
    return {**encoder_inputs(packed), MASKED_LM_POSITIONS: positions}


def masked_lm_logits(encoder: BertEncoder, sequence_output: Any, positions: Any = None) -> Any:
    """Returns logits [B, P, V] of the masked language model head on top of an encoder.

    Args:
        encoder: whose word embeddings the pieces are compared with.
        sequence_output: hidden states [B, P, H] of the predicted positions, or of all, [B, S, H].
        positions: the predicted ones, int32 [B, P], where the states are those of all.
    """
    return output_bias(encoder)(masked_lm_scores(encoder, sequence_output, positions))


def masked_lm_scores(encoder: BertEncoder, sequence_output: Any, positions: Any = None) -> Any:
    """Returns these logits [B, P, V] without the bias of each piece, in the encoder's dtype."""
    config = encoder.config
    transform: keras.layers.Layer
    if config.has_masked_lm_transform:
        transform = MaskedLanguageModelTransform(
            config.transform_act,
            config.initializer_range,
            config.layer_norm_eps,
            config.output_width,
            config.has_biases,
            dtype=encoder.policy,
            name=TRANSFORM,
        )
    else:
        transform = PickedStates(dtype=encoder.policy, name=TRANSFORM)
    words, columns = encoder.word_embeddings, None
    if not config.ties_words:
        words = WordEmbedding(
            config.vocab_size,
            config.embedding_width,
            config.initializer_range,
            dtype=encoder.policy,
            name=OUTPUT_WORDS,
        )
    if config.further_output_width:
        columns = FurtherColumns(
            config.vocab_size,
            config.further_output_width,
            config.initializer_range,
            dtype=encoder.policy,
            name=FURTHER_COLUMNS,
        )
    return _word_scores(transform(sequence_output, positions), words, columns)


def word_scores(model: Any, sequence_output: Any, positions: Any = None) -> Any:
    """Returns the scores [B, P, V] of a model with this head, without the bias of each piece.

    Args:
        model: a `BertMaskedLM`, or another model with its layers.
        sequence_output: hidden states, as in `masked_lm_logits`.
        positions: positions, as there.
    """
    config = model.encoder.config
    words = model.encoder.word_embeddings
    if not config.ties_words:
        words = model.get_layer(OUTPUT_WORDS)
    columns = model.get_layer(FURTHER_COLUMNS) if config.further_output_width else None
    vectors = model.get_layer(TRANSFORM)(sequence_output, positions)
    return _word_scores(vectors, words, columns)


def head_layers(config: BertConfig) -> tuple[str, ...]:
    """Returns the names of the layers of this head, which every model calls so that has it."""
    further = (FURTHER_COLUMNS,) if config.further_output_width else ()
    own = () if config.ties_words else (OUTPUT_WORDS,)
    return TRANSFORM, *further, BIAS, *own


def _word_scores(vectors: Any, words: WordEmbedding, columns: FurtherColumns | None) -> Any:
    # [B, P, E] -> [B, P, V]: scored against the word embeddings themselves, or a table like them.
    if columns is None:
        return words(vectors, reverse=True)
    scores = words(vectors[..., : -columns.units], reverse=True)
    return columns(vectors, scores)


def output_bias(encoder: BertEncoder) -> OutputBias:
    """Returns the layer that adds the bias of each piece to scores [..., V], in float32."""
    return OutputBias(encoder.config.has_masked_lm_transform, dtype=encoder.policy, name=BIAS)
