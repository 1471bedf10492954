"""BertTokenClassifier: a label for every piece."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras

from keras_bert.config import BertConfig
from keras_bert.models.encoder import BertEncoder, as_encoder, encoder_inputs
from keras_bert.models.task_model import (
    TaskModel,
    checked_classes,
    output_dropout,
    output_layer,
    read_tokens,
)


@keras.saving.register_keras_serializable("keras_bert")
class BertTokenClassifier(TaskModel):
    """Token classification on the sequence output (paper figure 4 d).

    Inputs: those of the encoder. Output: logits [B, S, C], float32. Pieces without a label, as
    [CLS] and all but the first of a word, must not count in the loss: give them the target -1 and
    `keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1)`, or let
    `FinetunedModel.from_task` make targets and loss.

    Args:
        config: the numbers, a `BertConfig` or its dict; or the encoder itself, which then may serve
            several heads.
        num_classes: number of labels, C; None counts `labels`.
        labels: names of the labels in the order of the logits; kept in presets.
        seed: seed of all dropouts; None draws one.
        dtype: a Keras dtype policy; None takes the global one.

    Raises:
        ValueError: there is no class, or the number of labels is not `num_classes`.
    """

    def __init__(
        self,
        config: BertConfig | Mapping[str, Any] | BertEncoder,
        num_classes: int | None = None,
        labels: Sequence[str] | None = None,
        seed: int | None = None,
        dtype: Any = None,
        name: str = "bert_token_classifier",
        **kwargs: Any,
    ):
        num_classes, labels = checked_classes(num_classes, labels)
        encoder = as_encoder(config, seed=seed, dtype=dtype)
        inputs = encoder_inputs()  # int32 [B, S] each
        # A label for every piece, [CLS] and padding too: the loss leaves out what has no target.
        read = read_tokens(encoder, encoder(inputs)["sequence_output"])  # [B, S, H]
        read = output_dropout(encoder)(read)
        logits = output_layer(encoder, num_classes, "classifier")(read)  # [B, S, C]
        super().__init__(encoder, inputs=inputs, outputs=logits, name=name, **kwargs)
        self.num_classes = num_classes
        self.labels = labels

    def head_config(self) -> dict[str, Any]:
        """Returns the number of classes and their labels."""
        return {"num_classes": self.num_classes, "labels": self.labels}
