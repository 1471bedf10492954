"""Several fine-tuned models that answer as one (the ensembles of section 4.2 of the paper).

    classes, tags, choices   the mean of the members' probabilities
    numbers                  the mean
    spans                    the sum of the members' logits of starts and of ends, then one answer

Texts and choices are answered as a whole, so that each member may read them with a vocabulary and a
length of its own. Tags and spans are joined piece by piece: their members must cut the same windows
of the same pieces.
"""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import tensorflow as tf

from keras_bert.counts import needed_count
from keras_bert.finetuning.head import FinetuningHead, PerExample, class_order
from keras_bert.finetuning.inference import InferenceRunner
from keras_bert.finetuning.task import TaskDescription
from keras_bert.tasks.finetuned_model import AnsweringModel, FinetunedModel
from keras_bert.tasks.kinds import kind_of, load_description
from keras_bert.text.base_tokenizer import Tokenizer
from keras_bert.text.loading import load_tokenizer

Folder = str | os.PathLike


@dataclasses.dataclass(frozen=True)
class EnsembleDescription:
    """What is known of an ensemble before its models are opened.

    Attributes:
        folders: those of the members.
        description: the task of the ensemble: that of the first member, whose labels give the
            order, and a null threshold that is the sum of all.
        descriptions: those of the members.
        tokenizers: those of the members; members with equal ones share one.
        class_orders: for each member where the classes of `description` stand among its own; None
            where they stand in this order.
    """

    folders: tuple[Folder, ...]
    description: TaskDescription
    descriptions: tuple[TaskDescription, ...]
    tokenizers: tuple[Tokenizer, ...]
    class_orders: tuple[np.ndarray | None, ...]

    @classmethod
    def read(cls, folders: Folder | Sequence[Folder]) -> Self:
        """Reads what fine-tuning runs left and checks that they can answer together.

        Args:
            folders: the `--model_dir` of each run, at least one.

        Raises:
            FileNotFoundError: a folder is not that of a complete run.
            ValueError: a folder is given twice, or members differ in what they must agree in.
        """
        if isinstance(folders, str | os.PathLike):
            folders = [folders]  # not its letters
        if not folders:
            raise ValueError("an ensemble needs a model: give at least one folder")
        real = [os.path.realpath(folder) for folder in folders]
        for index, path in enumerate(real):
            if path in real[:index]:
                raise ValueError(
                    f"{folders[index]} is given twice: an ensemble counts a model once"
                )
        descriptions = tuple(load_description(folder) for folder in folders)
        if not descriptions[0].head.joins_members:
            raise ValueError(
                f"{folders[0]} has a {descriptions[0].head.kind} head, and models of that kind do "
                "not answer together: give one folder"
            )
        for folder, member in zip(folders, descriptions, strict=True):
            _check_tasks(f"{folder}", member, f"{folders[0]}", descriptions[0])
        tokenizers: list[Tokenizer] = []
        for tokenizer in map(load_tokenizer, folders):
            tokenizers.append(
                next((known for known in tokenizers if _are_equal(known, tokenizer)), tokenizer)
            )
        first, head = descriptions[0], descriptions[0].head
        if head.per_position:
            for folder, tokenizer in zip(folders, tokenizers, strict=True):
                if tokenizer is not tokenizers[0]:
                    raise ValueError(
                        f"{folder} has another vocabulary, or other settings of its tokenizer, "
                        f"than {folders[0]}: {kind_of(first).models} in an ensemble must read the "
                        "same pieces; fine-tune all of them from models with one tokenizer"
                    )
        orders = tuple(class_order(member.labels, first.labels) for member in descriptions)
        joined = head.of_ensemble([member.head for member in descriptions])
        description = dataclasses.replace(first, head=joined)
        return cls(tuple(folders), description, descriptions, tuple(tokenizers), orders)

    @property
    def shares_rows(self) -> bool:
        """Whether all members read the same rows of token ids."""
        lengths = {member.max_seq_length for member in self.descriptions}
        return len(lengths) == 1 and all(one is self.tokenizers[0] for one in self.tokenizers)

    def join(self, logits: Sequence[Any]) -> tf.Tensor:
        """Joins logits [..., C] of all members, each in the order of its own classes."""
        ordered = [
            values if order is None else tf.gather(values, order, axis=-1)
            for values, order in zip(logits, self.class_orders, strict=True)
        ]
        return self.description.head.ensemble_logits(ordered)


@dataclasses.dataclass(frozen=True)
class FinetunedEnsemble(AnsweringModel):
    """Several fine-tuned models that answer as one, as a `FinetunedModel` does.

    Probabilities are the means of the members', for tags those of each word; numbers are means;
    spans are chosen by the sums of the members' logits. All members are in memory at once.

    Attributes:
        members: the models.
        description: the task of the ensemble.
        ensemble: how the answers of its members are joined.

    Example:
        >>> model = FinetunedEnsemble.load(["runs/a", "runs/b"])  # doctest: +SKIP
        >>> model.predict(["a good film"])  # doctest: +SKIP
    """

    members: tuple[FinetunedModel, ...]
    description: TaskDescription
    ensemble: EnsembleDescription

    @classmethod
    def load(cls, folders: Folder | Sequence[Folder]) -> Self:
        """Opens the `--model_dir` of several fine-tuning runs, in float32.

        Args:
            folders: the first gives the order of the labels.

        Raises:
            FileNotFoundError: a folder is not that of a complete run.
            ValueError: a folder is given twice, a file is damaged, or members differ in the kind of
                task, their labels, whether they take pairs, in windows and their pooling, or, for
                tags and spans, in the tokenizer or `max_seq_length`.
        """
        return cls.open(EnsembleDescription.read(folders))

    @classmethod
    def open(cls, ensemble: EnsembleDescription) -> Self:
        """Opens the models of an ensemble of which the rest has been read."""
        parts = zip(ensemble.folders, ensemble.tokenizers, ensemble.descriptions, strict=True)
        members = tuple(FinetunedModel.open(*part) for part in parts)
        return cls(members, ensemble.description, ensemble)

    def predict_examples(self, examples: Any, batch_size: int = 32) -> PerExample:
        """Returns one prediction for each example, as the head defines it.

        Args:
            examples: what the head encodes; labels are not looked at.
            batch_size: rows per call of each model.

        Raises:
            ValueError: they are other examples than those of the head, or `batch_size` is below 1.
        """
        self.description.head.check_examples(examples)
        if not len(examples):
            return []
        needed_count("batch_size", batch_size)
        examples = self.description.head.without_labels(examples)
        encoded, outputs = None, []
        for number, member in enumerate(self.members, start=1):
            of = f"model {number} of {len(self.members)}"
            head, length = member.description.head, member.description.max_seq_length
            if encoded is None or not self.ensemble.shares_rows:
                read_by = "" if self.ensemble.shares_rows else f", {of}"
                encoded = head.encode(member.tokenizer, examples, length, f"tokenizing{read_by}")
            run = InferenceRunner(member.model)
            found = run(encoded, batch_size, head.per_position, description=f"predicting, {of}")
            outputs.append(found.outputs)
        joined = _each_row(self.ensemble.join, outputs)
        # Where rows differ, the head looks at the outputs alone.
        return self.description.head.predictions(joined, encoded, examples)


def _each_row(join: Any, outputs: Sequence[Any]) -> Any:
    """Joins the members' `Inference.outputs`, which have the same form."""
    if isinstance(outputs[0], dict):
        return {name: _each_row(join, [part[name] for part in outputs]) for name in outputs[0]}
    with tf.device("CPU"):  # many small arrays
        if isinstance(outputs[0], list):
            return [join(rows).numpy() for rows in zip(*outputs, strict=True)]
        return join(outputs).numpy()


def _check_tasks(
    name: str, member: TaskDescription, first_name: str, first: TaskDescription
) -> None:
    """Checks that a member does what the first one does.

    Raises:
        ValueError: it does not.
    """
    if member.head.kind != first.head.kind:
        raise ValueError(
            f"{name} has a {member.head.kind} head but {first_name} a {first.head.kind} head: an "
            "ensemble has models of one kind of task"
        )
    if sorted(member.labels) != sorted(first.labels):
        raise ValueError(
            f"{name} has the labels {', '.join(member.labels)} but {first_name} has "
            f"{', '.join(first.labels)}: an ensemble needs equal ones (in any order)"
        )
    own, wanted = _agreed(member), _agreed(first)
    for field, value in wanted.items():
        if own[field] != value:
            raise ValueError(
                f"{name} has {field} {own[field]} but {first_name} has {value}: members of an "
                "ensemble must agree in it"
            )


def _agreed(description: TaskDescription) -> dict[str, Any]:
    """Returns what all members must have alike, by name."""
    head: FinetuningHead = description.head
    fields = {
        field.name: getattr(head, field.name)
        for field in dataclasses.fields(head)
        if field.name not in ("labels", *head.member_fields)
    }
    # Which texts are read; and of windows, where they are cut.
    fields["texts"] = " and ".join(sorted(description.text_columns)) or "none"
    if head.per_position:
        fields["max_seq_length"] = description.max_seq_length
    return fields


def _are_equal(first: Tokenizer, second: Tokenizer) -> bool:
    return type(first) is type(second) and first.get_config() == second.get_config()
