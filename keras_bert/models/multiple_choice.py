"""BertMultipleChoice: which of several continuations fits.

    [B, choices, S] --flatten--> [B * choices, S] --encoder, dense--> [B * choices, 1]
                                                                            |
                        logits [B, choices] <-----------unflatten-----------+

The encoder sees every choice as a row of its own; choices meet only in the softmax of the loss.
"""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from keras_bert.config import BertConfig
from keras_bert.features import ENCODER_FEATURES
from keras_bert.models.encoder import BertEncoder, as_encoder
from keras_bert.models.task_model import TaskModel, output_dropout, output_layer


@keras.saving.register_keras_serializable("keras_bert")
class BertMultipleChoice(TaskModel):
    """Scores every choice by its own pass through the encoder (paper section 4.4).

    Inputs: those of the encoder, [B, choices, S] each. Output: logits [B, choices], float32.

    Args:
        config: the numbers, a `BertConfig` or its dict; or the encoder itself, which then may serve
            several heads.
        seed: seed of all dropouts; None draws one.
        dtype: a Keras dtype policy; None takes the global one.
    """

    def __init__(
        self,
        config: BertConfig | Mapping[str, Any] | BertEncoder,
        seed: int | None = None,
        dtype: Any = None,
        name: str = "bert_multiple_choice",
        **kwargs: Any,
    ):
        encoder = as_encoder(config, seed=seed, dtype=dtype)
        inputs, flat = inputs_of_rows()  # [B, choices, S] and [B * choices, S]
        pooled_output = output_dropout(encoder)(encoder.pooled(flat))  # [B * choices, H]
        scores = output_layer(encoder, 1, "classifier")(pooled_output)  # [B * choices, 1]
        # [B, choices]
        logits = UnflattenChoices(dtype="float32", name="choices")(scores, inputs["input_ids"])
        super().__init__(encoder, inputs=inputs, outputs=logits, name=name, **kwargs)


def inputs_of_rows() -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the inputs of a model whose examples have R rows, and what its encoder takes.

    Returns:
        By name of the feature, integers [B, R, S], and the same as [B * R, S].
    """
    inputs = {
        feature.name: keras.Input((None, None), dtype=feature.dtype, name=feature.name)
        for feature in ENCODER_FEATURES
    }
    return inputs, {key: FlattenChoices(name=f"flat_{key}")(ids) for key, ids in inputs.items()}


@keras.saving.register_keras_serializable("keras_bert")
class FlattenChoices(keras.layers.Layer):
    """Joins batch and choices: [B, choices, S] to [B * choices, S]."""

    def call(self, inputs: Any) -> Any:
        """Returns the same numbers with one axis less."""
        return ops.reshape(inputs, (-1, ops.shape(inputs)[2]))  # [B * choices, S]

    def compute_output_spec(self, inputs: Any) -> keras.KerasTensor:
        """Gives the symbolic shape."""
        return keras.KerasTensor((None, inputs.shape[2]), dtype=inputs.dtype)


@keras.saving.register_keras_serializable("keras_bert")
class UnflattenChoices(keras.layers.Layer):
    """Separates batch and choices again: scores [B * choices, 1] to [B, choices]."""

    def call(self, scores: Any, like: Any) -> Any:
        """Returns the scores in the first two axes of `like` [B, choices, S]."""
        return ops.reshape(scores, (ops.shape(like)[0], ops.shape(like)[1]))  # [B, choices]

    def compute_output_spec(self, scores: Any, like: Any) -> keras.KerasTensor:
        """Gives the symbolic shape."""
        return keras.KerasTensor(like.shape[:2], dtype=scores.dtype)
