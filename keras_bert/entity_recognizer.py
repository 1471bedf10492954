"""Named entities of any kinds, named when asked (GLiNER).

`tasks/entity_recognition/signatures.py` has the graph, which exports share.
"""

import dataclasses
import os
from collections.abc import Sequence
from typing import Self

import numpy as np
import tensorflow as tf

from keras_bert.counts import check_switch
from keras_bert.finetuning.prediction_table import write_answers
from keras_bert.models.finite_outputs import check_finite
from keras_bert.progress import Progress
from keras_bert.serving.served_folder import open_signatures
from keras_bert.signatures.base import SignatureFamily
from keras_bert.signatures.length_batches import batches_by_length
from keras_bert.signatures.options import ExportOptions
from keras_bert.storage.text_lines import check_distinct_labels, check_strings
from keras_bert.tasks.entity_recognition.signatures import EntitySignatures
from keras_bert.tasks.named_labels import (
    DEFAULT_THRESHOLD,
    TO_LOOK_FOR,
    EntityLabels,
    checked_threshold,
)
from keras_bert.tasks.tagging.answer_table import span_row


@dataclasses.dataclass(frozen=True)
class NamedEntity:
    """An entity in a text.

    Attributes:
        start: its first character (code point) in the text.
        end: behind its last character.
        text: `text[start:end]`.
        label: one of those that were asked for.
        score: its probability.
    """

    start: int
    end: int
    text: str
    label: str
    score: float


class EntityRecognizer:
    """Finds entities of the kinds that are named with the texts.

    A model scores each span of words of a text against each label (GLiNER, Zaratiana et al. 2023,
    https://arxiv.org/abs/2311.08526). Words, scores and entities are those of the package `gliner`,
    but for two things: a text that is longer than a row of the model is read in windows that
    overlap, where `gliner` leaves the rest out; and a row has at most as many positions as the
    config of the encoder says, where `gliner` lets a DeBERTa read on.

    Args:
        signatures: of such a model.

    Raises:
        ValueError: it is another model.

    Example:
        recognizer = EntityRecognizer.from_preset("runs/ner")
        for entity in recognizer.recognize(["Ada was born in London."], ["person", "place"])[0]:
            print(entity.text, entity.label, entity.score)
    """

    def __init__(self, signatures: SignatureFamily):
        if not isinstance(signatures, EntitySignatures):
            raise ValueError(
                "the model does not score spans of words against labels: give a run of "
                "--task=gliner, or a folder of GLiNER"
            )
        self._signatures = signatures
        # Traced once for every number of texts and labels.
        self._find = tf.function(
            signatures.find,
            input_signature=[
                tf.TensorSpec([None], tf.string),
                tf.TensorSpec([None, None], tf.string),
                tf.TensorSpec([None], tf.float32),
                tf.TensorSpec([], tf.bool),
                tf.TensorSpec([], tf.bool),
            ],
            autograph=False,
        )

    @classmethod
    def from_preset(cls, folder: str | os.PathLike, max_seq_length: int | None = None) -> Self:
        """Opens a model.

        Args:
            folder: a run of run_finetuning.py --task=gliner, a folder of GLiNER, or
                `hf://org/name`.
            max_seq_length: the most positions of a row, labels among them; None takes those of the
                training, of a folder of GLiNER all.

        Raises:
            FileNotFoundError: it is no model folder.
            ValueError: it is another model, or the length is longer than the model.
        """
        return cls(open_signatures(folder, ExportOptions(max_seq_length=max_seq_length)))

    def recognize(
        self,
        texts: Sequence[str],
        labels: Sequence[str],
        threshold: float = DEFAULT_THRESHOLD,
        flat: bool = True,
        multi_label: bool = False,
        batch_size: int = 8,
    ) -> list[list[NamedEntity]]:
        """Returns the entities of each text, by their first character.

        Of the spans above the threshold the most probable one is taken, then the next one that does
        not stand against those taken before.

        Args:
            texts: N texts, of any length.
            labels: what to look for, in words: "person", "date of birth". All of them stand in
                each row, so that they take its positions, and what is found of one depends a little
                on the others.
            threshold: the probability above which a span is an entity.
            flat: True: no two entities overlap. False: one may lie inside another.
            multi_label: whether the same span may have several of the labels.
            batch_size: texts of a call of the model.

        Raises:
            ValueError: one string was given in place of a list, a text or a label is none, there
                are no labels, one is blank or named twice, all of them leave no room for a word,
                the threshold is not from 0 to below 1, a switch is neither True nor False, the
                batch size is below 1, or what the model says is not finite.
        """
        texts = check_strings(texts)
        labels = self._checked_labels(labels)
        threshold = checked_threshold(threshold)
        _check_switches(flat, multi_label)
        answers: list[list[NamedEntity]] = [[] for _ in texts]
        batches = batches_by_length([len(text) for text in texts], batch_size)
        with Progress(len(texts), "text", "finding entities") as progress:
            for places in batches:
                part = [texts[place] for place in places]
                found = self._find(
                    tf.constant(part),
                    tf.constant([labels] * len(part)),
                    tf.fill([len(part)], tf.constant(threshold, tf.float32)),
                    tf.constant(flat),
                    tf.constant(multi_label),
                )
                rows, _, names, starts, ends, scores = (value.numpy() for value in found)
                check_finite(scores)
                for row, name, start, end, score in zip(
                    rows, names, starts.tolist(), ends.tolist(), scores.tolist(), strict=True
                ):
                    text = part[row][start:end]
                    answers[places[row]].append(
                        NamedEntity(start, end, text, name.decode("utf-8"), score)
                    )
                progress.update(len(places))
        return answers

    def _checked_labels(self, labels: Sequence[str]) -> tuple[str, ...]:
        found = check_distinct_labels(labels, TO_LOOK_FOR)
        room = self._signatures.label_room
        pieces = int(np.sum(1 + self._signatures.tokenizer(list(found)).row_lengths().numpy()))
        if pieces > room:
            raise ValueError(
                f"the {len(found)} labels with their markers have {pieces} pieces, and a row of "
                f"{self._signatures.max_seq_length} positions has room for {room}, with one of the "
                "text: ask for fewer or shorter labels at a time, or give a larger max_seq_length"
            )
        return found


def _check_switches(flat: bool, multi_label: bool) -> None:
    check_switch("flat", flat)
    check_switch("multi_label", multi_label)


def recognize_file(
    model_dir: str | os.PathLike,
    input_path: str | os.PathLike,
    output_path: str | os.PathLike,
    labels: Sequence[str],
    threshold: float = DEFAULT_THRESHOLD,
    flat: bool = True,
    multi_label: bool = False,
    batch_size: int = 8,
) -> int:
    """Writes a CSV with a row for each entity that `EntityRecognizer` finds in the texts of a file.

    A row has the input's columns, and `entity`, `predicted_label`, `start`, `end` (characters) and
    `score`. Texts without entities have none.

    Args:
        model_dir: see `EntityRecognizer.from_preset`.
        input_path: a table with the column `text`, or a .txt with a text a line.
        output_path: the CSV to write.
        labels: see `EntityRecognizer.recognize`, as all that follow.
        threshold: see there.
        flat: see there.
        multi_label: see there.
        batch_size: see there.

    Returns:
        The number of texts.

    Raises:
        FileNotFoundError: model or input do not exist.
        ValueError: the input has no such column, or one that the output adds; or see
            `EntityRecognizer`.
    """
    # What can be refused is refused before the model is opened.
    named = EntityLabels(labels, threshold)
    _check_switches(flat, multi_label)
    table, texts = named.read(input_path, output_path)
    recognizer = EntityRecognizer.from_preset(model_dir)
    found = recognizer.recognize(
        texts, named.labels, named.threshold, flat, multi_label, batch_size
    )
    answers = (
        [span_row(one.text, one.label, one.start, one.end, one.score) for one in entities]
        for entities in found
    )
    columns = [*table.columns, *named.columns]
    write_answers(output_path, columns, map(table.fields, table.rows), answers)
    return len(texts)
