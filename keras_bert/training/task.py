"""What fine-tuning needs to know of a task and of its data."""

import dataclasses
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Self

import numpy as np

from keras_bert.config import read_json
from keras_bert.files import atomic_file

TASK_FILE = "task.json"

LabelType = Literal["class", "regression"]
# A metric takes the logits [N, C] and the labels [N] of a whole split, because correlations and
# F1 are not means over examples. Higher is better for the first metric of a task.
Metric = Callable[[np.ndarray, np.ndarray], float]


@dataclasses.dataclass(frozen=True)
class LabeledTexts:
    """One split of a task's data, N examples.

    Attributes:
        texts: the (first) texts.
        text_pairs: the second texts, or None.
        labels: int32 [N] indices of classes, or float32 [N].
    """

    texts: Sequence[str]
    text_pairs: Sequence[str] | None
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.texts)


@dataclasses.dataclass(frozen=True)
class TaskData:
    """All data of a task.

    Attributes:
        train: what is learned from.
        validation: what the best epoch is chosen by, or None.
        test: what is measured once at the end, or None.
        labels: names of the classes in the order of their indices; empty for regression.
        text_columns: which column of a file holds "text" and, for pairs, "text_pair".
    """

    train: LabeledTexts
    validation: LabeledTexts | None
    test: LabeledTexts | None
    labels: tuple[str, ...]
    text_columns: Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Task:
    """A task as a value.

    Attributes:
        name: what `--task` calls it.
        label_type: "class" or "regression"; decides head and loss.
        read: reads the folder of `--data`.
        metrics: name to function; the first one chooses the best epoch.
    """

    name: str
    label_type: LabelType
    read: Callable[[Path], TaskData]
    metrics: Mapping[str, Metric]


@dataclasses.dataclass(frozen=True)
class TaskDescription:
    """What prediction and export need to know of a fine-tuned model: its `task.json`.

    Attributes:
        task: name of the task.
        label_type: "class" or "regression".
        labels: names of the classes in the order of the logits; empty for regression.
        text_columns: which column of a file holds "text" and, for pairs, "text_pair".
        max_seq_length: the most positions a text took in training.
    """

    task: str
    label_type: LabelType
    labels: tuple[str, ...]
    text_columns: Mapping[str, str]
    max_seq_length: int

    @property
    def takes_pairs(self) -> bool:
        """Whether the model reads two texts at a time."""
        return "text_pair" in self.text_columns

    def save(self, folder: str | os.PathLike) -> None:
        """Writes `task.json` into a model folder."""
        content = json.dumps(dataclasses.asdict(self), indent=2, ensure_ascii=False)
        with atomic_file(Path(folder) / TASK_FILE) as path:
            path.write_text(content + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: str | os.PathLike) -> Self:
        """Reads `task.json` of a model folder.

        Raises:
            FileNotFoundError: the folder is not that of a complete fine-tuning run.
            ValueError: the file is damaged.
        """
        path = Path(folder) / TASK_FILE
        if not path.is_file():
            raise FileNotFoundError(
                f"{path} does not exist: give the --model_dir of a finished run of "
                "run_finetuning.py"
            )
        content = read_json(path)
        fields = {field.name for field in dataclasses.fields(cls)}
        if content.keys() != fields:
            raise ValueError(
                f"{path} has the fields {', '.join(sorted(content))}; expected are "
                f"{', '.join(sorted(fields))}: fine-tune the model anew"
            )
        return cls(**content | {"labels": tuple(content["labels"])})
