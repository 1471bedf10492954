"""BertDocumentClassifier: one label, or one number, for a text of any length, read in windows.

    [B, W, S] --flatten--> [B * W, S] --encoder--> pooled output [B * W, H]
                                                            |
    logits [B, C] <--dense-- vector of the text [B, H] <--pool windows--+

The encoder sees every window as a row of its own; windows meet in the pooling alone. All shapes are
those of the batch, so that the step compiles for a TPU.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import keras

from keras_bert.checkpoints.checkpoint import PROBLEM_TYPES
from keras_bert.config import BertConfig
from keras_bert.features import INPUT_MASK
from keras_bert.layers.pooling import WindowPooling
from keras_bert.models.encoder import BertEncoder, as_encoder
from keras_bert.models.multiple_choice import inputs_of_rows
from keras_bert.models.task_model import TaskModel, checked_classes, output_dropout, output_layer


@keras.saving.register_keras_serializable("keras_bert")
class BertDocumentClassifier(TaskModel):
    """Classification of texts longer than a row: windows, each through the encoder, then pooled.

    Inputs: those of the encoder, [B, W, S] each; where a text has fewer than W windows, the mask of
    the others is 0. Output: logits [B, C], float32; with one class, a regression. A text of one
    window gets the logits of a `BertClassifier` with the same weights.

    Args:
        config: the numbers, a `BertConfig` or its dict; or the encoder itself, which then may serve
            several heads.
        num_classes: number of labels, C; 1 for regression. None counts `labels`.
        window_pooling: "mean", "max" or "attention", see `WindowPooling`; kept in presets.
        labels: names of the labels in the order of the logits; kept in presets.
        problem_type: what the logits mean, as in `BertClassifier`.
        seed: seed of all dropouts; None draws one.
        dtype: a Keras dtype policy; None takes the global one.

    Raises:
        ValueError: there is no class, the number of labels is not `num_classes`, or the pooling or
            the problem type is unknown.
    """

    def __init__(
        self,
        config: BertConfig | Mapping[str, Any] | BertEncoder,
        num_classes: int | None = None,
        window_pooling: str = "mean",
        labels: Sequence[str] | None = None,
        problem_type: str | None = None,
        seed: int | None = None,
        dtype: Any = None,
        name: str = "bert_document_classifier",
        **kwargs: Any,
    ):
        num_classes, labels = checked_classes(num_classes, labels)
        if problem_type not in (None, *PROBLEM_TYPES):
            raise ValueError(
                f"problem_type is {problem_type!r}: choose one of {', '.join(PROBLEM_TYPES)}"
            )
        encoder = as_encoder(config, seed=seed, dtype=dtype)
        pool = WindowPooling(
            window_pooling,
            encoder.config.initializer_range,
            dtype="float32",
            name="window_pooling",
        )
        inputs, flat = inputs_of_rows()  # [B, W, S] and [B * W, S]
        vectors = encoder.pooled(flat)  # [B * W, H]
        text = output_dropout(encoder)(pool(vectors, inputs[INPUT_MASK]))  # [B, H]
        logits = output_layer(encoder, num_classes, "classifier")(text)  # [B, C]
        super().__init__(encoder, inputs=inputs, outputs=logits, name=name, **kwargs)
        self.num_classes = num_classes
        self.window_pooling = window_pooling
        self.labels = labels
        self.problem_type = problem_type

    def head_config(self) -> dict[str, Any]:
        """Returns the number of classes, their labels, what they mean, and the pooling."""
        return {
            "num_classes": self.num_classes,
            "window_pooling": self.window_pooling,
            "labels": self.labels,
            "problem_type": self.problem_type,
        }
