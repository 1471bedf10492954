"""BertClassifier: one label, or one number, for a text or a pair of texts."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras

from keras_bert.checkpoints.checkpoint import PROBLEM_TYPES
from keras_bert.choices import TokenPooling
from keras_bert.config import BertConfig
from keras_bert.models.encoder import BertEncoder, as_encoder, encoder_inputs
from keras_bert.models.task_model import (
    TaskModel,
    checked_classes,
    output_dropout,
    output_layer,
    sentence_vectors,
)


@keras.saving.register_keras_serializable("keras_bert")
class BertClassifier(TaskModel):
    """Sequence classification on the pooled output (paper figure 4 a, b), or on unit vectors.

    Inputs: those of the encoder. Output: logits [B, C], float32; with one class, a regression.

    Args:
        config: the numbers, a `BertConfig` or its dict; or the encoder itself, which then may serve
            several heads.
        num_classes: number of labels, C; 1 for regression. None counts `labels`.
        labels: names of the labels in the order of the logits; kept in presets.
        problem_type: what the logits mean, in the words of transformers: "regression",
            "single_label_classification" or "multi_label_classification"; None where nobody said
            so. Kept in presets and written into Hugging Face's config; it changes no logit.
        pooling: "mean", "cls" or "max" of the vectors of the tokens, divided by its length, in
            place of the pooled output and without dropout, as an encoder of sentences has it
            (SetFit, arXiv:2209.11055); None for the pooled output. Kept in presets; no format but
            ours has it.
        seed: seed of all dropouts; None draws one.
        dtype: a Keras dtype policy; None takes the global one.

    Raises:
        ValueError: there is no class, the number of labels is not `num_classes`, or the problem
            type or the pooling is unknown; or it is that of a piece that sees nothing of the text.
    """

    def __init__(
        self,
        config: BertConfig | Mapping[str, Any] | BertEncoder,
        num_classes: int | None = None,
        labels: Sequence[str] | None = None,
        problem_type: str | None = None,
        pooling: TokenPooling | None = None,
        seed: int | None = None,
        dtype: Any = None,
        name: str = "bert_classifier",
        **kwargs: Any,
    ):
        num_classes, labels = checked_classes(num_classes, labels)
        if problem_type not in (None, *PROBLEM_TYPES):
            raise ValueError(
                f"problem_type is {problem_type!r}: choose one of {', '.join(PROBLEM_TYPES)}"
            )
        encoder = as_encoder(config, seed=seed, dtype=dtype)
        inputs = encoder_inputs()  # int32 [B, S] each
        if pooling is None:
            vectors = output_dropout(encoder)(encoder.pooled(inputs))  # [B, H]
        else:
            vectors = sentence_vectors(encoder, inputs, pooling)  # [B, H]
        logits = output_layer(encoder, num_classes, "classifier")(vectors)  # [B, C]
        super().__init__(encoder, inputs=inputs, outputs=logits, name=name, **kwargs)
        self.num_classes = num_classes
        self.labels = labels
        self.problem_type = problem_type
        self.pooling = pooling

    def head_config(self) -> dict[str, Any]:
        """Returns the number of classes, their labels and what they mean; the pooling, if any."""
        head = {
            "num_classes": self.num_classes,
            "labels": self.labels,
            "problem_type": self.problem_type,
        }
        return head if self.pooling is None else head | {"pooling": self.pooling}
