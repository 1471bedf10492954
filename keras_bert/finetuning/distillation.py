"""Fine-tuning with a teacher: its answers to the training rows, and the losses that follow them.

What the teacher says of a row does not change from epoch to epoch, since rows are made once and it
has no dropout. So its logits are computed once, before the first step, and are targets like labels:
a pass of the teacher for the whole run instead of one for each epoch, and 4 bytes a logit. A run
that is resumed computes them again, to the same numbers. Hidden states are thousands of times as
many: where they are compared, the teacher runs inside the step.

    labeled rows      loss = (1 - alpha) * loss of the label + alpha * loss of the teacher's logits
    unlabeled rows    loss =                                   alpha * loss of the teacher's logits

Shapes: E examples, B rows of a batch, K choices of each (1 but for multiple choice), S positions,
C classes.
"""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.config import BertConfig, read_json
from keras_bert.features import INPUT_MASK
from keras_bert.finetuning.encoded_rows import NO_LOGIT, NO_TARGET, EncodedRows
from keras_bert.finetuning.head import FinetuningHead, LogitsMeaning, class_order
from keras_bert.finetuning.inference import InferenceRunner
from keras_bert.finetuning.options import FinetuningOptions
from keras_bert.finetuning.task import TASK_FILE, TRAIN, UNLABELED, TaskData, TaskDescription
from keras_bert.models.encoder import BertEncoder
from keras_bert.models.preset import WEIGHTS_FILE, read_config, weights_digest
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.loading import load_tokenizer
from keras_bert.training.distillation import (
    LayerStates,
    check_imitation,
    imitation_losses,
    soft_label_losses,
    soft_target_losses,
    squared_error,
)
from keras_bert.training.precision import dtype_policy

# Names in the targets of a batch.
_LABELS, _KNOWN, _LOGITS = "labels", "known", "logits"

Losses: TypeAlias = keras.losses.Loss | Mapping[str, keras.losses.Loss]


@dataclasses.dataclass(frozen=True)
class TeacherFolder:
    """A fine-tuned model to learn from: what its folder says, before its weights are read.

    Attributes:
        folder: the model folder.
        config: its encoder's numbers.
        head: its head.
        max_seq_length: the most positions of a row that it was trained on.
        tokenizer: its tokenizer.
        same_rows: whether it can read the student's rows: its tokenizer makes the same pieces, it
            cuts long texts alike, and it has as many positions.
    """

    folder: str
    config: BertConfig
    head: FinetuningHead
    max_seq_length: int
    tokenizer: Tokenizer
    same_rows: bool

    @classmethod
    def read(
        cls,
        options: FinetuningOptions,
        student: TaskDescription,
        config: BertConfig,
        tokenizer: Tokenizer,
    ) -> "TeacherFolder":
        """Opens `options.teacher` and refuses it where a student cannot learn from it.

        Args:
            options: `teacher` and the weights are used.
            student: what the student is trained for.
            config: the student's numbers.
            tokenizer: the student's.

        Raises:
            FileNotFoundError: it is no folder of a finished fine-tuning run.
            ValueError: it answers another kind of question or has other labels; or what shall be
                compared position by position is not made of the same pieces.
        """
        if not student.head.learns_from_teacher:
            raise ValueError(
                f"a {student.head.kind} model does not learn from a teacher: leave out --teacher"
            )
        folder = os.fspath(options.teacher or "")
        path = Path(folder) / TASK_FILE
        if not path.is_file():
            raise FileNotFoundError(
                f"{path} does not exist: --teacher is the --model_dir of a finished run of "
                "run_finetuning.py"
            )
        content = read_json(path)
        settings, own = dict(content["head"]), student.head
        kind, labels = settings.pop("kind", None), tuple(content["labels"])
        if kind != own.kind:
            raise ValueError(
                f"the teacher {folder} has a head of the kind {kind!r} and the task one of "
                f"{own.kind!r}: give a teacher that was fine-tuned on the same task"
            )
        if sorted(labels) != sorted(own.labels):
            raise ValueError(
                f"the teacher {folder} has the labels {', '.join(labels) or 'none'} and the data "
                f"{', '.join(own.labels) or 'none'}: give a teacher of the same labels"
            )
        pairs = "text_pair" in content["text_columns"]
        if pairs != student.takes_pairs:
            kinds = {True: "pairs of texts", False: "single texts"}
            raise ValueError(
                f"the teacher {folder} reads {kinds[pairs]} and the data has "
                f"{kinds[student.takes_pairs]}: give a teacher that was fine-tuned on the same task"
            )
        head = type(own)(**settings, labels=labels)
        if head.logits_are != own.logits_are:
            raise ValueError(
                f"the teacher {folder} answers with logits of {head.logits_are} and the task with "
                f"those of {own.logits_are}: give a teacher that was fine-tuned on the same task"
            )
        found = load_tokenizer(folder)
        same = (type(found), found.get_config()) == (type(tokenizer), tokenizer.get_config())
        length = int(content["max_seq_length"])
        his_rows = head.row_settings(length)
        own_rows = own.row_settings(student.max_seq_length)
        cut_alike = his_rows == own_rows
        numbers = read_config(folder, options.ignore_config_keys)
        positions = numbers.max_position_embeddings
        teacher = cls(
            folder,
            numbers,
            head,
            length,
            found,
            same and cut_alike and student.max_seq_length <= positions,
        )
        names = options.imitated
        if names and not cut_alike:
            raise ValueError(
                f"the teacher {folder} cuts texts by {his_rows or 'rows alone'} and the student by "
                f"{own_rows or 'rows alone'}: a hidden_state_weight or attention_weight compares "
                "piece by piece; give both windows of the same max_seq_length, doc_stride and "
                "max_windows, or none"
            )
        if not same and (own.per_position or names):
            what = "a hidden_state_weight or attention_weight" if names else "this kind of task"
            raise ValueError(
                f"the teacher {folder} has another vocabulary or other settings of its tokenizer: "
                f"{what} compares piece by piece; give a teacher with the student's tokenizer"
            )
        if (own.per_position or names) and student.max_seq_length > positions:
            raise ValueError(
                f"max_seq_length is {student.max_seq_length} and the teacher has {positions} "
                "positions: give no more"
            )
        check_imitation(names, config, teacher.config, options.teacher_layers, projected=False)
        return teacher

    def open(self, options: FinetuningOptions) -> Any:
        """Returns the model, frozen, in the number format of the run; call it in the strategy."""
        model = self.head.model_class.from_preset(
            self.folder,
            options.ignore_config_keys,
            dtype=dtype_policy(options.mixed_precision),
            name="teacher",
        )
        model.trainable = False
        return model


def teacher_digest(folder: str | os.PathLike) -> str | None:
    """Returns what changes when another teacher is trained in the same folder.

    Raises:
        FileNotFoundError: no model is there.
    """
    path = Path(folder) / WEIGHTS_FILE
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} does not exist: --teacher is the --model_dir of a finished run of "
            "run_finetuning.py"
        )
    return weights_digest(folder)


def distilled_rows(
    teacher: TeacherFolder,
    model: Any,
    head: FinetuningHead,
    data: TaskData,
    splits: Mapping[str, EncodedRows],
    batch_size: int,
) -> EncodedRows:
    """Returns the rows to train on with the teacher's logits: labeled ones, then unlabeled ones.

    Args:
        teacher: the teacher.
        model: what its `open` returned.
        head: the student's head.
        data: the examples.
        splits: the same, encoded for the student.
        batch_size: rows per call of the teacher.
    """
    run = InferenceRunner(model)
    names = [name for name in (TRAIN, UNLABELED) if name in splits]
    hard: Any = splits[TRAIN].targets
    targets: list[Any] = []
    order = class_order(teacher.head.labels, head.labels)
    for name in names:
        rows, read = splits[name], splits[name]
        if not head.per_position and not teacher.same_rows:
            description = f"tokenizing {name} for the teacher"
            read = teacher.head.encode(
                teacher.tokenizer, data.splits[name], teacher.max_seq_length, description
            )
        logits = run(read, batch_size, head.per_position, description=f"teacher, {name}").outputs
        known = tf.fill([len(rows)], 1.0 if name == TRAIN else 0.0)  # [E]
        labels = hard if name == TRAIN else _no_labels(rows, hard)
        if not isinstance(logits, dict):
            targets.append({_LABELS: labels, _KNOWN: known, _LOGITS: _tensor(logits, order)})
            continue
        targets.append(
            {
                output: {_LABELS: labels[output], _KNOWN: known, _LOGITS: _tensor(values, order)}
                for output, values in logits.items()
            }
        )
    joined = tf.nest.map_structure(lambda *parts: tf.concat(parts, axis=0), *targets)
    return EncodedRows.joined([splits[name] for name in names], joined)


def _tensor(logits: Any, order: np.ndarray | None) -> tf.Tensor | tf.RaggedTensor:
    """Returns logits in the order of the student's classes, ragged ones as they came in a list.

    Args:
        logits: float [E, C], or a list of arrays [positions or choices, ...].
        order: where the student's classes stand in the last axis; None where they stand as they do.
    """
    whole = isinstance(logits, np.ndarray)
    values = (logits if whole else np.concatenate(logits)).astype(np.float32)
    if order is not None:
        values = values[..., order]
    if whole:
        return tf.constant(values)
    return tf.RaggedTensor.from_row_lengths(values, [len(row) for row in logits])


def _no_labels(rows: EncodedRows, like: Any) -> Any:
    """Returns targets of the form of others for rows without any; their loss has the weight 0."""
    if isinstance(like, Mapping):
        return {name: _no_labels(rows, part) for name, part in like.items()}
    if not isinstance(like, tf.RaggedTensor):
        return tf.zeros([len(rows), *like.shape[1:]], like.dtype)
    if rows.choices is not None:
        values = np.zeros(int(rows.choices.sum()), np.int32)
        return tf.RaggedTensor.from_row_lengths(values, rows.choices)
    # The positions that would carry a label carry the teacher's answer.
    values = np.full(rows.real_tokens, NO_TARGET, np.int32)
    values[slice(None) if rows.positions is None else rows.positions] = 0
    return tf.RaggedTensor.from_row_lengths(values, rows.row_lengths)


def distilled_losses(head: FinetuningHead, losses: Losses, options: FinetuningOptions) -> Losses:
    """Returns the losses of a head joined with those of a teacher's logits, by output if several.

    Args:
        head: the head.
        losses: what its `loss` returned.
        options: `distillation_alpha` and `distillation_temperature` are used.
    """
    if isinstance(losses, Mapping):
        return {name: _distilled(head, loss, options) for name, loss in losses.items()}
    return _distilled(head, losses, options)


def _distilled(
    head: FinetuningHead, loss: keras.losses.Loss, options: FinetuningOptions
) -> "DistillationLoss":
    kind = CountedDistillationLoss if hasattr(loss, "counted") else DistillationLoss
    alpha, temperature = options.distillation_alpha, options.distillation_temperature
    return kind(loss, head.logits_are, alpha, temperature)


class DistillationLoss(keras.losses.Loss):
    """(1 - alpha) * loss of the label + alpha * divergence from the teacher (Hinton et al. 2015).

    Args:
        hard: the loss of labels; its `call` returns [B], or [B, S].
        logits_are: "classes": soft targets with temperature; "labels": the same for
            each label; "number": the squared difference, which no temperature changes.
        alpha: weight of the teacher, from 0 to 1.
        temperature: T.
    """

    def __init__(
        self,
        hard: keras.losses.Loss,
        logits_are: LogitsMeaning,
        alpha: float,
        temperature: float,
    ):
        super().__init__(name="distillation")
        self.hard = hard
        self.logits_are = logits_are
        self.alpha = alpha
        self.temperature = temperature

    def call(self, y_true: Mapping[str, Any], y_pred: Any) -> Any:
        """Returns the loss of each example, [B], or of each of its positions, [B, S].

        Args:
            y_true: `labels`, `known` float32 [B] (0 for a row without a label) and `logits`.
            y_pred: logits of the student.
        """
        student, teacher = ops.cast(y_pred, "float32"), y_true[_LOGITS]
        if self.logits_are == "number":
            soft = squared_error(student, teacher)
        elif self.logits_are == "labels":
            soft = soft_label_losses(student, teacher, self.temperature)
        else:
            # Padded positions and choices that a row does not have get no probability from either.
            student = ops.where(teacher > NO_LOGIT / 2, student, NO_LOGIT)
            soft = soft_target_losses(student, teacher, self.temperature)
        if self.alpha == 1:
            return soft
        hard = self.hard.call(y_true[_LABELS], y_pred)
        known = ops.reshape(y_true[_KNOWN], (-1, *[1] * (len(hard.shape) - 1)))  # [B] or [B, 1]
        return (1 - self.alpha) * known * hard + self.alpha * soft


class CountedDistillationLoss(DistillationLoss):
    """The same for a loss of which only some positions count."""

    def counted(self, y_true: Mapping[str, Any]) -> Any:
        """Returns float32 [B, S]: 1 where a piece carries a label, or would carry one."""
        return self.hard.counted(y_true[_LABELS])


class BlockRecorder:
    """Keeps what goes into the blocks of an encoder, and what the last one returns.

    Heads of fine-tuned models return logits alone. The blocks of the encoder, wherever it stands in
    a model, are made to tell what they saw in the pass under way.

    Args:
        encoder: the encoder, whose blocks are changed in place; from then on its last block is
            computed at all positions.
    """

    def __init__(self, encoder: BertEncoder):
        self._encoder = encoder
        self._states: list[Any] | None = None
        encoder.narrows_last_block = False  # its output is compared at all positions
        for block in encoder.encoder_blocks():
            # Keras calls what it finds under this name, as for rematerialization.
            block.call = self._recorded(block.call)  # type: ignore[method-assign]

    def _recorded(self, call: Callable) -> Callable:
        def recorded_call(hidden: Any, *arguments: Any, **named: Any) -> Any:
            result = call(hidden, *arguments, **named)
            if self._states is not None:
                if not self._states:
                    self._states.append(hidden)
                self._states.append(result)
            return result

        return recorded_call

    @contextlib.contextmanager
    def states(self) -> Iterator[LayerStates]:
        """Returns a context in which one forward pass fills the states that it gives."""
        self._states = []
        try:
            yield LayerStates(self._encoder, self._states)
        finally:
            self._states = None


class Imitation:
    """The losses of hidden states and attention in a step of fine-tuning.

    loss = hidden_state_weight * squared error of hidden states
         + attention_weight    * squared error of attention scores

    Means over real tokens, summed over the student's layers (Jiao et al. 2020, section 3.1).

    Args:
        model: the student.
        teacher: the frozen teacher, whose inputs are the student's.
        options: the weights and `teacher_layers`.
    """

    def __init__(self, model: Any, teacher: Any, options: FinetuningOptions):
        self._teacher = teacher
        self._weights = options.imitated
        self._layers = check_imitation(
            self._weights,
            model.config,
            teacher.config,
            options.teacher_layers,
            projected=False,
        )
        # Of the blocks as they are, rematerialized or not.
        self.recorder = BlockRecorder(model.encoder)
        self._teacher_recorder = BlockRecorder(teacher.encoder)

    def count(self, inputs: Mapping[str, Any], real: Any) -> Any:
        """Returns the number of real tokens of the rows that are real, a float32 scalar."""
        return ops.sum(self._token_weights(inputs, real))

    def __call__(self, student: LayerStates, inputs: Mapping[str, Any], weights: Any) -> Any:
        """Returns the sum of the losses of all tokens, a float32 scalar.

        Args:
            student: what the student's blocks made of the inputs.
            inputs: of the batch, [B, S] each, or [B, K, S].
            weights: of the examples, float32 [B].
        """
        with self._teacher_recorder.states() as teacher:
            self._teacher(inputs, training=False)
        mask = inputs[INPUT_MASK]
        visible = ops.reshape(mask, (-1, ops.shape(mask)[-1]))  # [B * K, S]
        losses = imitation_losses(self._weights, student, teacher, self._layers, visible)
        total = sum(self._weights[name] * values for name, values in losses.items())
        return ops.sum(total * self._token_weights(inputs, weights))

    def _token_weights(self, inputs: Mapping[str, Any], weights: Any) -> Any:
        """Returns the weight of each token, float32 [B * K, S]."""
        mask = ops.cast(inputs[INPUT_MASK], "float32")  # [B, S] or [B, K, S]
        of_rows = ops.reshape(weights, (-1, *[1] * (len(mask.shape) - 1)))
        return ops.reshape(mask * of_rows, (-1, ops.shape(mask)[-1]))
