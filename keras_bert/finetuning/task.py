"""What fine-tuning needs to know of a task and of its data."""

import collections
import dataclasses
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

from keras_bert.finetuning.head import FinetuningHead
from keras_bert.storage.files import write_json
from keras_bert.storage.tables import Table
from keras_bert.storage.text_lines import check_parts

TASK_FILE = "task.json"

# A metric takes the predictions and the references of a whole split, as its head gives them,
# because correlations and F1 are not means over examples. None where the predictions do not tell:
# some are made once, after the best epoch.
Metric = Callable[[Any, Any], float | None]

TRAIN, VALIDATION, TEST = "train", "validation", "test"
# Examples to learn from that only a teacher answers.
UNLABELED = "unlabeled"


@dataclasses.dataclass(frozen=True)
class TaskData:
    """All data of a task.

    Attributes:
        splits: what is learned from under "train"; what the best epoch is chosen by under
            "validation", if any; examples whose answers come from a teacher under "unlabeled", if
            any; all others, such as "test", are measured once at the end, or
            predicted where they have no labels. Each is what the task's head encodes.
        labels: names of the classes in the order of their indices; empty where there are none.
        text_columns: which column of a table holds "text" and, for pairs, "text_pair"; the columns
            that another head reads under names of its own. Empty for the head's default.

    Raises:
        ValueError: the labels are one string, one of them is none, or one is named twice.
    """

    splits: Mapping[str, Any]
    labels: tuple[str, ...] = ()
    text_columns: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        names = check_parts(self.labels, "labels", "label")
        twice = [name for name, count in collections.Counter(names).items() if count > 1]
        if twice:
            raise ValueError(f"labels has {', '.join(twice)} twice: name each once")
        object.__setattr__(self, "labels", names)  # frozen; of a list or an array, too


@dataclasses.dataclass(frozen=True)
class TaskDescription:
    """What prediction and export need to know of a fine-tuned model: its `task.json`.

    `keras_bert.tasks.kinds.load_description` reads it.

    Attributes:
        task: name of the task.
        head: the head with its settings and labels.
        text_columns: see `TaskData`.
        max_seq_length: the most positions a row took in training.
    """

    task: str
    head: FinetuningHead
    text_columns: Mapping[str, str]
    max_seq_length: int

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes in the order of the logits; empty where there are none."""
        return self.head.labels

    @property
    def takes_pairs(self) -> bool:
        """Whether the model reads two texts at a time."""
        return "text_pair" in self.text_columns

    def as_dict(self) -> dict[str, Any]:
        """Returns what `task.json` holds."""
        return {
            "task": self.task,
            "head": self.head.settings(),
            "labels": list(self.labels),
            "text_columns": self.text_columns,
            "max_seq_length": self.max_seq_length,
        }

    def save(self, folder: str | os.PathLike) -> None:
        """Writes `task.json` into a model folder, and what its head has for other libraries."""
        self.head.write_files(Path(folder), self.max_seq_length)
        write_json(Path(folder) / TASK_FILE, self.as_dict(), ensure_ascii=False)


class PredictionInput(NamedTuple):
    """What a file gives a model to answer.

    Attributes:
        examples: what the head of the model encodes.
        table: names of the file's columns and their values for each example; None where the head
            shows the examples itself.
    """

    examples: Any
    table: tuple[list[str], list[list[str]]] | None = None

    @classmethod
    def of_table(cls, examples: Any, table: Table) -> Self:
        """Returns examples that are the rows of a table."""
        return cls(examples, (list(table.columns), [*map(table.fields, table.rows)]))


PredictionReader = Callable[[Path, TaskDescription], PredictionInput]


@dataclasses.dataclass(frozen=True)
class Task:
    """A task as a value.

    Attributes:
        name: what `--task` calls it.
        head: the kind of head; decides model, loss and predictions.
        read: reads what `--data` names: a folder, or `tfds:name/config`.
        metrics: name to function; the first one chooses the best epoch: the one with its highest
            value, or the least where its name is that of an error, a loss or a perplexity.
        defaults: the values of `FinetuningOptions` that suit this task.
        write_submission: writes the files that the benchmark's leaderboard takes into a folder from
            the predictions of each split; None where there is no such benchmark.
        read_for_prediction: reads a file to be predicted; None where it is one that all tasks of
            this kind read. Looked at in the package's own tasks only, which a model folder can
            name.
    """

    name: str
    head: FinetuningHead
    read: Callable[[str | os.PathLike], TaskData]
    metrics: Mapping[str, Metric]
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    write_submission: Callable[[Path, TaskData, Mapping[str, Any]], list[Path]] | None = None
    read_for_prediction: PredictionReader | None = None
