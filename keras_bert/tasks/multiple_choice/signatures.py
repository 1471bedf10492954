"""Signatures of multiple choice.

Shapes: N examples, K choices, R rows of all examples.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from keras_bert.features import ENCODER_FEATURES, INPUT_IDS, INPUT_MASK
from keras_bert.finetuning.task import TaskDescription
from keras_bert.signatures.base import SignatureFamily, Tensors, string_vector
from keras_bert.signatures.code_points import valid_text
from keras_bert.tasks.multiple_choice.choice_columns import CHOICES
from keras_bert.tasks.multiple_choice.choice_files import CONTEXT


class ChoiceSignatures(SignatureFamily):
    """`context`, string [N], and `choices`, string [N, K] -> the choice that fits.

    Empty strings at the end of a row of choices are none, so that examples may differ in number.
    `choice`, int32 [N], its index from 0, -1 where there is no choice; `choice_text`, string [N];
    `scores`, float32 [N, K], all probabilities.

    Args:
        description: the task.
        *arguments: see `SignatureFamily`.
    """

    sample: Mapping[str, Any] = {
        CONTEXT: "She opened the door.",
        CHOICES: ["And went in.", "And sang."],
    }
    joins_members = True

    def __init__(self, description: TaskDescription, *arguments: Any):
        super().__init__(*arguments)
        self._classifier = self.model.get_layer("classifier")

    def string_inputs(self) -> dict[str, tf.TensorSpec]:
        """Returns context and choices."""
        choices = tf.TensorSpec([None, None], tf.string, name=CHOICES)
        return {CONTEXT: string_vector(CONTEXT), CHOICES: choices}

    def id_inputs(self) -> dict[str, tf.TensorSpec]:
        """Returns the encoder's inputs, int32 [N, K, S] each."""
        return {
            feature.name: tf.TensorSpec([None, None, None], feature.dtype, name=feature.name)
            for feature in ENCODER_FEATURES
        }

    def example(self) -> dict[str, Any]:
        """Returns one example within the limits, that of choices too."""
        found = super().example()
        return {**found, CHOICES: found[CHOICES][: self.options.max_choices]}

    def answer(self, context: tf.Tensor, choices: tf.Tensor) -> Tensors:
        """Returns choices and probabilities."""
        given = tf.cast(tf.not_equal(choices, ""), tf.int32)
        there = tf.cumsum(given, axis=1, reverse=True) > 0  # [N, K]
        texts = tf.boolean_mask(choices, there)  # [R]
        contexts = tf.gather(context, tf.where(there)[:, 0])  # [R], that of each choice
        rows = self.preprocess((contexts, texts))
        logits = self.joined(
            [
                member._logits(
                    rows if self.shares_rows else member.preprocess((contexts, texts)), there
                )
                for member in self.members
            ]
        )
        # Once more: joined logits of a row without any choice are not numbers.
        logits = tf.where(there, logits, -float("inf"))
        # Choices that are not there get probability 0, in rows without any too.
        scores = tf.where(there, tf.nn.softmax(logits), 0.0)
        # One more choice, so that there is a best one where there is none.
        best = tf.argmax(tf.pad(logits, [[0, 0], [0, 1]], constant_values=-float("inf")), axis=-1)
        some = tf.reduce_any(there, axis=1)  # [N]
        text = tf.gather(tf.pad(choices, [[0, 0], [0, 1]]), best, batch_dims=1)
        return {
            "choice": tf.where(some, tf.cast(best, tf.int32), -1),
            "choice_text": valid_text(tf.where(some, text, "")),
            "scores": scores,
        }

    def pair_scores(self, contexts: tf.Tensor, texts: tf.Tensor) -> tf.Tensor:
        """Returns the logit of each text [R] as a choice of its context [R]: float32 [R]."""
        pooled = self.encoder.pooled_output(self.preprocess((contexts, texts)))  # [R, H]
        return tf.cast(self._classifier(pooled)[:, 0], tf.float32)

    def ids(self, **inputs: tf.Tensor) -> Tensors:
        """Returns the logits [N, K] of the Keras model; of an ensemble without padded choices."""
        if len(self.members) == 1:
            return super().ids(**inputs)
        # A mean of probabilities is that over choices that are there.
        there = tf.reduce_any(inputs[INPUT_MASK] > 0, axis=-1)  # [N, K]
        there |= ~tf.reduce_any(there, axis=1, keepdims=True)  # a row without any: all alike
        none = -float("inf")
        said = [
            tf.cast(member.model(inputs, training=False), tf.float32) for member in self.members
        ]
        logits = self.joined([tf.where(there, member, none) for member in said])
        return {"logits": tf.where(there, logits, none)}

    def _logits(self, rows: Tensors, there: tf.Tensor) -> tf.Tensor:
        pooled = self.encoder.pooled_output(rows)  # [R, H]
        # [R] -> [N, K]
        logits = tf.scatter_nd(
            tf.where(there), self._classifier(pooled)[:, 0], tf.shape(there, tf.int64)
        )
        return tf.where(there, logits, -float("inf"))

    def _checks(self, inputs: Tensors) -> list[tf.Operation]:
        checks, most = super()._checks(inputs), self.options.max_choices
        if most is not None:
            # Choices are [N, K], token ids [N, K, S].
            values = inputs[CHOICES if CHOICES in inputs else INPUT_IDS]
            message = f"an example has more than {most} choices: send fewer of each example"
            checks.append(tf.debugging.assert_less_equal(tf.shape(values)[1], most, message))
        return checks
