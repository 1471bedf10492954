"""Signatures of classifiers and regressors.

Shapes: N texts or pairs, C labels, H width; of texts in windows W windows of the text that has the
most, R windows of all texts; of zero-shot classification L labels that are asked about, R pairs.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, cast

import tensorflow as tf

from keras_bert.checkpoints.sentence_modules import Normalize, SentenceModules
from keras_bert.config import BertConfig
from keras_bert.features import ENCODER_FEATURES
from keras_bert.finetuning.task import TaskDescription
from keras_bert.signatures.base import SignatureFamily, Tensors, string_vector, with_a_column
from keras_bert.signatures.code_points import valid_text
from keras_bert.signatures.hypotheses import DEFAULT_TEMPLATE, around_label
from keras_bert.signatures.options import ExportOptions
from keras_bert.tasks.classification.answer_table import LABEL_SEPARATOR
from keras_bert.tasks.classification.entailment import (
    INFERENCE_MODEL,
    inference_labels,
    label_scores,
)
from keras_bert.tasks.classification.head import TextHead
from keras_bert.tasks.feature_extraction.sentence_vectors import SentenceVectors
from keras_bert.tasks.named_labels import LABELS, SERVE_ZERO_SHOT
from keras_bert.text.packing import join_pieces, pad_rows, truncate_first
from keras_bert.text.preprocessor import TEXT, TEXT_PAIR

_ZERO_SHOT_OPTIONS = ("hypothesis_template", "max_labels")


class TextSignatures(SignatureFamily):
    """`text` and for pairs `text_pair`, string [N] -> labels or numbers.

    Classes: `label`, string [N], the likeliest; `scores`, float32 [N, C], all probabilities;
    `labels`, string [N, C], whose they are (repeated in each row, because row-wise clients such as
    TF Serving's REST interface want one first axis). Several labels: the same with `likely_labels`,
    string [N], in place of `label`: those with a probability above one half, joined by "|".
    Regression: `score`, float32 [N].

    A model that was trained on windows reads texts of any length in the same windows.

    A model of natural language inference also classifies by labels that a request names:
    `serve_zero_shot` takes `text`, string [N], and `labels`, string [N, L], and returns `scores`
    and `multi_label_scores`, float32 [N, L], and `label`, string [N], the one with the highest of
    the `scores`. Blank labels are none, so that rows may differ in number. See `label_scores`.

    Args:
        description: the task.
        *arguments: see `SignatureFamily`.

    Raises:
        ValueError: options of `serve_zero_shot` are given to another model.
    """

    sample: Mapping[str, Any] = {TEXT: "One text.", TEXT_PAIR: "Another text."}
    joins_members = True

    def __init__(self, description: TaskDescription, *arguments: Any):
        super().__init__(*arguments)
        self._head = cast(TextHead, description.head)  # the one that `KINDS` has beside this
        self.labels = description.labels
        self._names = [TEXT, TEXT_PAIR] if description.takes_pairs else [TEXT]
        self._classifier = self.model.get_layer("classifier")
        # None where the pooled output is read.
        self._pooling = None
        if pooling := getattr(self.model, "pooling", None):
            modules = SentenceModules((pooling,), (Normalize(),))
            self._pooling = SentenceVectors(modules, self.model.config.hidden_size)
        # None where a text is one row.
        self._windows = self._head.text_windows(self.max_seq_length)
        # The folder of another library does not tell what it reads, but inference takes two texts.
        untold = not description.task and self.options.text_pair is None
        reads_pairs = description.takes_pairs or (untold and self.model.config.takes_pairs)
        is_class = self._head.label_type == "class"
        self._inference = inference_labels(self.labels) if reads_pairs and is_class else None
        for name in _ZERO_SHOT_OPTIONS:
            if getattr(self.options, name) is not None and self._inference is None:
                raise ValueError(f"--{name} is for {INFERENCE_MODEL}: leave it out")

    def add_members(
        self, others: Sequence[Self], join: Callable[[Sequence[tf.Tensor]], tf.Tensor]
    ) -> None:
        """Makes these the signatures of an ensemble, which has no `serve_zero_shot`.

        Raises:
            ValueError: options of that signature are given.
        """
        for name in _ZERO_SHOT_OPTIONS:
            if getattr(self.options, name) is not None:
                raise ValueError(f"--{name} is for one model, not for an ensemble: leave it out")
        super().add_members(others, join)

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
    def knows_inference(self) -> bool:
        """Whether it is one model of natural language inference."""
        return self._inference is not None and len(self.members) == 1

    def more_answers(self) -> dict[str, Callable[..., Tensors]]:
        """Returns `serve_zero_shot` of a model of natural language inference."""
        return {SERVE_ZERO_SHOT: self._answer_zero_shot} if self.knows_inference else {}

    def more_inputs(self) -> dict[str, dict[str, tf.TensorSpec]]:
        """Returns the texts and the labels of each."""
        labels = tf.TensorSpec([None, None], tf.string, name=LABELS)
        return {SERVE_ZERO_SHOT: {TEXT: string_vector(TEXT), LABELS: labels}}

    def _answer_zero_shot(self, text: tf.Tensor, labels: tf.Tensor) -> Tensors:
        there = tf.not_equal(tf.strings.strip(labels), "")  # [N, L]
        places = tf.where(there)  # [R, 2]
        before, after = around_label(self.options.hypothesis_template or DEFAULT_TEMPLATE)
        said = tf.strings.join([before, tf.boolean_mask(labels, there), after])  # [R]
        logits = self.inference_logits(text, said, places[:, 0])  # [R, 2]
        shape = tf.concat([tf.shape(labels, tf.int64), [2]], axis=0)
        # [R, 2] -> [N, L, 2]
        scores, each = label_scores(tf.scatter_nd(places, logits, shape), there)
        # One more label, so that there is a best one where there is none; no score is below 0.
        column = [[0, 0], [0, 1]]
        best = tf.argmax(tf.pad(tf.where(there, scores, -1.0), column, constant_values=-1.0), -1)
        label = tf.gather(tf.pad(labels, column), best, batch_dims=1)  # [N]
        some = tf.reduce_any(there, axis=1)  # [N]
        return {
            "label": valid_text(tf.where(some, label, "")),
            "scores": scores,
            "multi_label_scores": each,
        }

    @property
    def pair_room(self) -> int:
        """The most pieces of a text and its hypothesis in a row."""
        return self.max_seq_length - self.tokenizer.vocabulary.framing.special_in_pair

    def inference_logits(
        self, texts: tf.Tensor, sentences: tf.Tensor, numbers: tf.Tensor
    ) -> tf.Tensor:
        """Returns the logits of contradiction and entailment: float32 [R, 2].

        Of a pair that is too long the text is cut, never the hypothesis.

        Args:
            texts: string [N].
            sentences: string [R], the hypotheses.
            numbers: int [R], the text of each hypothesis.
        """
        assert self._inference is not None  # `knows_inference`
        first = tf.gather(self.tokenizer(texts), numbers)  # [R, pieces]
        second = self.tokenizer(sentences)  # [R, pieces]
        check = tf.debugging.assert_less(
            tf.reduce_max(tf.concat([second.row_lengths(), [0]], axis=0)),
            tf.constant(self.pair_room, tf.int64),
            "the hypothesis of a label leaves no room for the text: send shorter labels",
        )
        with tf.control_dependencies([] if check is None else [check]):  # None outside of graphs
            second = second.with_values(tf.identity(second.values))
        vocabulary = self.tokenizer.vocabulary
        ids, segments = join_pieces(
            truncate_first(first, second, self.pair_room), second, vocabulary
        )
        inputs = with_a_column(pad_rows(ids, segments, vocabulary))  # [R, S] each
        logits = self._classifier(self._vectors(inputs))  # [R, C]
        return tf.gather(tf.cast(logits, tf.float32), self._inference, axis=1)

    def _checks(self, inputs: Tensors) -> list[tf.Operation]:
        checks, most = super()._checks(inputs), self.options.max_labels
        if most is not None and LABELS in inputs:
            message = f"an example has more than {most} labels: send fewer of each example"
            checks.append(
                tf.debugging.assert_less_equal(tf.shape(inputs[LABELS])[1], most, message)
            )
        return checks

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
        return self._classifier(self._vectors(rows or self.preprocess(texts)))

    def _vectors(self, rows: Tensors) -> tf.Tensor:
        """Returns what the classifier reads of rows [N, S]: [N, H]."""
        if self._pooling is None:
            return self.encoder.pooled_output(rows)
        states = self.encoder.sequence_output(rows)  # [N, tokens, H]
        return self._pooling(tf.cast(states, tf.float32), None)

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
) -> TaskDescription | None:
    """Returns a description that takes pairs, or one text, as the options state; None if neither.

    Raises:
        ValueError: the model was trained on the other, or knows one segment only.
    """
    if options.text_pair is None:
        return None
    if description.task and options.text_pair != description.takes_pairs:
        trained_on = "pairs" if description.takes_pairs else "text alone"
        raise ValueError(f"the model was trained on {trained_on}: leave out --text_pair")
    if options.text_pair and not config.takes_pairs:
        raise ValueError("the model knows one segment only: leave out --text_pair")
    names = (TEXT, TEXT_PAIR) if options.text_pair else (TEXT,)
    return dataclasses.replace(description, text_columns={name: name for name in names})
