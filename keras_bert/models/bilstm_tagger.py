"""BertBiLSTMTagger: a BiLSTM on the features of an encoder that does not learn.

    inputs --> frozen encoder --> combine --> 2 x BiLSTM --> dropout --> dense --> logits
    [B, S]     L+1 of [B, S, H]   [B, S, F]   [B, S, 2 * width]                    [B, S, C]

F is H, or 4H where the last four layers are put side by side.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from keras_bert.config import BertConfig
from keras_bert.features import INPUT_MASK
from keras_bert.layers.initializer import Orthogonal
from keras_bert.models.encoder import (
    BertEncoder,
    as_config,
    as_encoder,
    create_encoder,
    encoder_inputs,
)
from keras_bert.models.layer_features import check_strategy, combine
from keras_bert.models.task_model import TaskModel, checked_classes, output_dropout, output_layer

_LAYERS = 2  # as in the paper, section 5.3


@keras.saving.register_keras_serializable("keras_bert")
class BertBiLSTMTagger(TaskModel):
    """The feature-based tagger of the paper (section 5.3): two BiLSTM layers on frozen features.

    Inputs: those of the encoder. Output: logits [B, S, C], float32.

    Args:
        config: the numbers, a `BertConfig` or its dict; or the encoder itself, which is frozen. It
            must return hidden states and have no dropout.
        num_classes: number of labels, C; None counts `labels`.
        labels: names of the labels in the order of the logits; kept in presets.
        features_from: one of `keras_bert.choices.LayerStrategy`; the last four layers
            side by side did best in the paper.
        lstm_width: units of each layer in each direction.
        seed: seed of all dropouts; None draws one.
        dtype: a Keras dtype policy; None takes the global one.

    Raises:
        ValueError: there is no class, the number of labels is not `num_classes`, the model has not
            the layers that `features_from` names, or an encoder that is given has dropout or no
            hidden states.
    """

    frozen_layers = ("encoder",)

    def __init__(
        self,
        config: BertConfig | Mapping[str, Any] | BertEncoder,
        num_classes: int | None = None,
        labels: Sequence[str] | None = None,
        features_from: str = "concat_last_4",
        lstm_width: int = 768,
        seed: int | None = None,
        dtype: Any = None,
        name: str = "bert_bilstm_tagger",
        **kwargs: Any,
    ):
        num_classes, labels = checked_classes(num_classes, labels)
        numbers = config.config if isinstance(config, BertEncoder) else as_config(config)
        check_strategy("features_from", features_from, numbers.num_hidden_layers)

        # === Layers ===
        encoder = _features_encoder(config, seed, dtype)
        recurrent = [
            keras.layers.Bidirectional(
                # Named, because checkpoints find an optimizer's variables by name and Keras counts
                # the unnamed layers of a process.
                keras.layers.LSTM(
                    lstm_width,
                    recurrent_initializer=Orthogonal(),
                    return_sequences=True,
                    dtype=encoder.policy,
                    name="lstm",
                ),
                dtype=encoder.policy,
                name=f"bilstm_{index}",
            )
            for index in range(_LAYERS)
        ]

        # === Functional model ===
        inputs = encoder_inputs()
        mask = keras.ops.cast(inputs[INPUT_MASK], "bool")  # [B, S]: padding does not move the state
        hidden = combine(encoder(inputs)["hidden_states"], features_from)  # [B, S, H or 4H]
        for layer in recurrent:
            hidden = layer(hidden, mask=mask)  # [B, S, 2 * width]
        # [B, S, C]
        logits = output_layer(encoder, num_classes, "classifier")(output_dropout(encoder)(hidden))
        super().__init__(encoder, inputs=inputs, outputs=logits, name=name, **kwargs)

        # === Config ===
        self.config = numbers
        self.num_classes = num_classes
        self.labels = labels
        self.features_from = features_from
        self.lstm_width = lstm_width

    def head_config(self) -> dict[str, Any]:
        """Returns the number of classes, their labels and what the BiLSTM is."""
        return {
            "num_classes": self.num_classes,
            "labels": self.labels,
            "features_from": self.features_from,
            "lstm_width": self.lstm_width,
        }


def _features_encoder(
    config: BertConfig | Mapping[str, Any] | BertEncoder, seed: int | None, dtype: Any
) -> BertEncoder:
    """Returns an encoder without dropout, so that features are always the same.

    Frozen layers drop units, too: `fit` runs every layer as in training.
    """
    if not isinstance(config, BertEncoder):
        config = as_config(config)
        without_dropout = config.replace(
            **dict.fromkeys(_encoder_dropouts(config), 0.0),
            classifier_dropout=config.output_dropout_prob,
        )
        return create_encoder(without_dropout, output_hidden_states=True, seed=seed, dtype=dtype)
    encoder = as_encoder(config, seed=seed, dtype=dtype)
    if not encoder.output_hidden_states:
        raise ValueError(f"{encoder.name} returns no hidden states: give output_hidden_states=True")
    drops = {name: rate for name, rate in _encoder_dropouts(encoder.config).items() if rate}
    if drops:
        told = ", ".join(f"{name} {rate}" for name, rate in drops.items())
        raise ValueError(
            f"{encoder.name} has dropout ({told}), which would change the features from step to "
            f"step: give one whose config has {' and '.join(drops)} 0"
        )
    return encoder


def _encoder_dropouts(config: BertConfig) -> dict[str, float]:
    """Returns the rates of all dropouts of an encoder by field, those of variants among them."""
    return {
        field.name: getattr(config, field.name)
        for field in dataclasses.fields(config)
        if "dropout" in field.name and field.name != "classifier_dropout"
    }
