"""Labels that are named with the texts of a file: what is asked, what is read, what is written.

    text [N], labels [L] --> a score for each label, or entities --> columns beside the file's own

A model in this process (`zero_shot.py`, `entity_recognizer.py`) and one that a server runs
(`serving/remote_prediction.py`) answer alike and share this. Imports no TensorFlow.
"""

import abc
import dataclasses
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from keras_bert.counts import check_number, check_switch
from keras_bert.storage.paths import check_output
from keras_bert.storage.tables import Table, check_columns
from keras_bert.storage.text_lines import check_distinct_labels, texts_table
from keras_bert.tasks.classification.answer_table import (
    check_separable,
    label_columns,
    scored_row,
)
from keras_bert.tasks.tagging import answer_table as tagging

# Signatures of exports, and their inputs.
SERVE_ZERO_SHOT = "serve_zero_shot"
SERVE_THRESHOLD = "serve_threshold"
LABELS, THRESHOLD = "labels", "threshold"
_TEXT = "text"
# What errors say labels are for.
TO_CLASSIFY = "to classify by"
TO_LOOK_FOR = "to look for"

DEFAULT_THRESHOLD = 0.5


class NamedLabels(abc.ABC):
    """Labels that a model is asked about in every text of a file.

    Attributes:
        labels: L different ones.
        signature: the one of an export that answers.
        served_by: ends an error's sentence where a model has none: which exports do.
    """

    signature: ClassVar[str]
    served_by: ClassVar[str]
    labels: Sequence[str]

    @property
    @abc.abstractmethod
    def columns(self) -> list[str]:
        """The columns that answers add to those of the file."""

    @abc.abstractmethod
    def request(self, texts: Sequence[str]) -> dict[str, list]:
        """Returns the inputs of the signature, N values each."""

    @abc.abstractmethod
    def served_rows(self, answer: Mapping[str, Any]) -> list[list[str]]:
        """Returns the fields of `columns`, row by row, of the signature's outputs for one text.

        Raises:
            ValueError: a score is not finite.
        """

    def read(
        self, input_path: str | os.PathLike, output_path: str | os.PathLike, column: str = _TEXT
    ) -> tuple[Table, list[str]]:
        """Reads a file and its texts; what can be refused is refused here, before anyone is asked.

        Args:
            input_path: a table with a column of texts, or a .txt with a text a line, which is a
                table of the column `text`.
            output_path: where answers will be written.
            column: the column of the texts.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: it is no such file, lacks the column or has one of `columns`; or the output
                is the input.
        """
        check_output(output_path, input_path)
        table = texts_table(Path(input_path), _TEXT)
        own = column == _TEXT
        remedy = "rename the column of the texts" if own else "name one that is there"
        texts = table.texts(column, remedy)
        check_columns(input_path, table.columns, self.columns)
        return table, texts


@dataclasses.dataclass(frozen=True)
class CandidateLabels(NamedLabels):
    """Labels that texts are classified by without training.

    Attributes:
        labels: two or more; for `multi_label` one will do.
        multi_label: whether a text may have several of them, or none.

    Raises:
        ValueError: `check_distinct_labels` refuses them; there is one, and every text would get it;
            one of several has "|" in it; or `multi_label` is neither True nor False.
    """

    signature: ClassVar[str] = SERVE_ZERO_SHOT
    served_by: ClassVar[str] = (
        "candidate labels are asked of an export of one model of natural language inference, such "
        "as a run of --task=mnli"
    )

    labels: Sequence[str]
    multi_label: bool = False

    def __post_init__(self) -> None:
        labels = check_distinct_labels(self.labels, TO_CLASSIFY)
        object.__setattr__(self, "labels", labels)  # frozen
        check_switch("multi_label", self.multi_label)
        if len(labels) == 1 and not self.multi_label:
            raise ValueError(
                f"{labels[0]!r} is the only label, which every text would get: give more of them, "
                "or multi_label for texts that may have none"
            )
        if self.multi_label:
            check_separable(labels, "candidate_labels has")

    @property
    def columns(self) -> list[str]:
        """Those of a classifier of these labels."""
        return label_columns(self.labels, self.multi_label)

    def rows(self, scores: Sequence[float]) -> list[list[str]]:
        """Returns one row of L scores."""
        return [scored_row(self.labels, scores, self.multi_label)]

    def request(self, texts: Sequence[str]) -> dict[str, list]:
        """Returns texts, and the labels of each."""
        return {_TEXT: [*texts], LABELS: [[*self.labels]] * len(texts)}

    def served_rows(self, answer: Mapping[str, Any]) -> list[list[str]]:
        """Returns one row."""
        scores = answer["multi_label_scores" if self.multi_label else "scores"]
        _check_finite(scores)
        return self.rows(scores)


@dataclasses.dataclass(frozen=True)
class EntityLabels(NamedLabels):
    """Labels of entities that are looked for.

    Attributes:
        labels: one or more.
        threshold: the probability above which a span is an entity.

    Raises:
        ValueError: `check_distinct_labels` or `checked_threshold` refuses them.
    """

    signature: ClassVar[str] = SERVE_THRESHOLD
    served_by: ClassVar[str] = (
        "labels of entities are asked of an export of a run of --task=gliner, or of a folder of "
        "GLiNER"
    )

    labels: Sequence[str]
    threshold: float = DEFAULT_THRESHOLD

    def __post_init__(self) -> None:
        # The fields are frozen.
        object.__setattr__(self, "labels", check_distinct_labels(self.labels, TO_LOOK_FOR))
        object.__setattr__(self, "threshold", checked_threshold(self.threshold))

    @property
    def columns(self) -> list[str]:
        """Those of an entity in running text."""
        return tagging.span_columns("entity", "start", "end")

    def request(self, texts: Sequence[str]) -> dict[str, list]:
        """Returns texts, and labels and threshold of each."""
        count = len(texts)
        labels = [[*self.labels]] * count
        return {_TEXT: [*texts], LABELS: labels, THRESHOLD: [self.threshold] * count}

    def served_rows(self, answer: Mapping[str, Any]) -> list[list[str]]:
        """Returns a row for each entity."""
        _check_finite(answer["scores"])
        found = tagging.served(answer)
        assert found is not None  # the outputs of the signature are those of a tagger
        return found[1]


def checked_threshold(threshold: float) -> float:
    """Returns a threshold of probabilities.

    Raises:
        ValueError: it is not from 0 to below 1.
    """
    if not 0 <= check_number("threshold", threshold) < 1:
        raise ValueError(f"threshold is {threshold}: it must be from 0 to below 1")
    return float(threshold)


def _check_finite(scores: Iterable[float]) -> None:
    """Refuses what `models/finite_outputs.py` refuses of a model that is here."""
    for score in scores:
        if not math.isfinite(score):
            raise ValueError(
                f"the served model answers {score}, which is no number to go by: its weights are "
                "damaged, or too large for the dtype; export another checkpoint, or float32"
            )
