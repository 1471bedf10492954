"""Signatures of classifiers and regressors.

Shapes: N texts or pairs, C labels, H width; of texts in windows W windows of the text that has the
most, R windows of all texts.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

import tensorflow as tf

from keras_bert.config import BertConfig
from keras_bert.features import ENCODER_FEATURES
from keras_bert.finetuning.task import TaskDescription
from keras_bert.signatures.base import SignatureFamily, Tensors, string_vector, with_a_column
from keras_bert.signatures.options import ExportOptions
from keras_bert.tasks.classification.head import LABEL_SEPARATOR, TextHead
from keras_bert.text.packing import pad_rows
from keras_bert.text.preprocessor import TEXT, TEXT_PAIR


class TextSignatures(SignatureFamily):
    """`text` and for pairs `text_pair`, string [N] -> labels or numbers.

    Classes: `label`, string [N], the likeliest; `scores`, float32 [N, C], all probabilities;
    `labels`, string [N, C], whose they are (repeated in each row, because row-wise clients such as
    TF Serving's REST interface want one first axis). Several labels: the same with `likely_labels`,
    string [N], in place of `label`: those with a probability above one half, joined by "|".
    Regression: `score`, float32 [N].

    A model that was trained on windows reads texts of any length in the same windows.

    Args:
        description: the task.
        *arguments: see `SignatureFamily`.
    """

    sample: Mapping[str, Any] = {TEXT: "One text.", TEXT_PAIR: "Another text."}
    joins_members = True

    def __init__(self, description: TaskDescription, *arguments: Any):
        super().__init__(*arguments)
        self._head = cast(TextHead, description.head)  # the one that `KINDS` has beside this
        self.labels = description.labels
        self._names = [TEXT, TEXT_PAIR] if description.takes_pairs else [TEXT]
        self._classifier = self.model.get_layer("classifier")
        # None where a text is one row.
        self._windows = self._head.text_windows(self.max_seq_length)

    def string_inputs(self) -> dict[str, tf.TensorSpec]:
        """Returns one text or two."""
        return {name: string_vector(name) for name in self._names}

    def answer(self, **texts: tf.Tensor) -> Tensors:
        """Returns labels and scores, or numbers."""
        # Members that read the same rows get them once; windows are each member's own.
        rows = self.preprocess(texts) if self._windows is None and self.shares_rows else None
        logits = [member._logits(texts, rows) for member in self.members]
        values = self._head.postprocess(self.joined(logits))
        if self._head.label_type == "regression":
            return {"score": values}
        # [C] -> [N, C]
        labels = tf.tile(tf.constant(self.labels)[None], [tf.shape(values)[0], 1])
        outputs = {"scores": values, "labels": labels}
        if self._head.label_type == "class":
            best = tf.argmax(values, axis=-1)  # [N]
            return {"label": tf.gather(tf.constant(self.labels), best), **outputs}
        likely = tf.ragged.boolean_mask(labels, values > 0.5)  # [N, likely labels]
        joined = tf.strings.reduce_join(likely, axis=-1, separator=LABEL_SEPARATOR)  # [N]
        return {"likely_labels": joined, **outputs}

    @property
    def scores_pairs(self) -> bool:
        """Whether the model says one thing of a pair: a number, or which of two classes it has."""
        one_of_two = self._head.label_type == "class" and len(self.labels) == 2
        return len(self._names) == 2 and (one_of_two or self._head.label_type == "regression")

    def pair_scores(
        self, texts: tf.Tensor, text_pairs: tf.Tensor, label: str | None = None
    ) -> tf.Tensor:
        """Returns the number of each pair [N], or the log-odds of one of two classes: float32 [N].

        Args:
            texts: N texts.
            text_pairs: N texts.
            label: the class; None for a number.
        """
        logits = self._logits(dict(zip(self._names, (texts, text_pairs), strict=True)), None)
        logits = tf.cast(logits, tf.float32)  # [N, 1] or [N, 2]
        if label is None:
            return logits[:, 0]
        place = self.labels.index(label)
        return logits[:, place] - logits[:, 1 - place]

    def _logits(self, texts: dict[str, tf.Tensor], rows: Tensors | None) -> tf.Tensor:
        """Returns the logits of the texts, [N, C]; their rows are made where they are not given."""
        if self._windows is not None:
            return self._classifier(self._in_windows(texts[TEXT]))
        return self._classifier(self.encoder.pooled_output(rows or self.preprocess(texts)))

    def id_inputs(self) -> dict[str, tf.TensorSpec]:
        """Returns the encoder's inputs, int32 [N, S] each, or [N, W, S] of a model of windows."""
        if self._windows is None:
            return super().id_inputs()
        return {
            feature.name: tf.TensorSpec([None, None, None], feature.dtype, name=feature.name)
            for feature in ENCODER_FEATURES
        }

    def _in_windows(self, text: tf.Tensor) -> tf.Tensor:
        """Returns the pooled windows of each text, [N, H]."""
        assert self._windows is not None
        vocabulary = self.tokenizer.vocabulary
        ids, segments = self._windows.rows(self.tokenizer(text), vocabulary)  # [N, windows, pieces]
        inputs = with_a_column(pad_rows(ids.values, segments.values, vocabulary))  # [R, S] each
        # [R, H] -> [N, windows, H] -> [N, W, H]
        vectors = ids.with_values(self.encoder.pooled_output(inputs)).to_tensor()
        there = tf.sequence_mask(ids.row_lengths(), tf.shape(vectors)[1], tf.int32)  # [N, W]
        return self.model.get_layer("window_pooling")(vectors, there[:, :, None])


def with_text_pair(
    description: TaskDescription, options: ExportOptions, config: BertConfig
) -> TaskDescription:
    """Returns a description that takes pairs, or one text, as the options state.

    Raises:
        ValueError: the model was trained on the other, or knows one segment only.
    """
    if description.task and options.text_pair != description.takes_pairs:
        trained_on = "pairs" if description.takes_pairs else "text alone"
        raise ValueError(f"the model was trained on {trained_on}: leave out --text_pair")
    if options.text_pair and not config.takes_pairs:
        raise ValueError("the model knows one segment only: leave out --text_pair")
    names = (TEXT, TEXT_PAIR) if options.text_pair else (TEXT,)
    return dataclasses.replace(description, text_columns={name: name for name in names})
