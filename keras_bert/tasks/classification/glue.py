"""The tasks of GLUE (Wang et al. 2019, arXiv:1804.07461; gluebenchmark.com) as values.

What the files look like stands in `GLUE`, one entry for each task; everything else follows.
"""

import dataclasses
import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.finetuning import metrics
from keras_bert.finetuning.task import TEST, TRAIN, VALIDATION, Metric, Task, TaskData
from keras_bert.storage.data_sets import is_tfds
from keras_bert.storage.files import atomic_file
from keras_bert.storage.tables import Table, finite_number, read_table, read_unquoted
from keras_bert.tasks.classification import mrpc_files
from keras_bert.tasks.classification.delimited import read_texts_to_predict
from keras_bert.tasks.classification.head import LabeledTexts, TextHead
from keras_bert.tasks.classification.tfds_texts import read_tfds_texts
from keras_bert.text.preprocessor import TEXT, TEXT_PAIR

MISMATCHED_VALIDATION, MISMATCHED_TEST, DIAGNOSTIC = (
    "validation_mismatched",
    "test_mismatched",
    "ax",
)
# Splits whose labels the benchmark keeps.
_SECRET = (TEST, MISMATCHED_TEST, DIAGNOSTIC)
_HIGHEST_SIMILARITY = 5.0

_ACCURACY = {"accuracy": metrics.accuracy}
_ACCURACY_AND_F1 = {"accuracy": metrics.accuracy, "f1": metrics.f1}
_ENTAILMENT = ("entailment", "not_entailment")
_DIAGNOSTIC_FILE = "diagnostic.tsv"
# Where the benchmark distributes it, beside the folder of MNLI.
_DIAGNOSTIC_FOLDER = "diagnostic"
_USUAL_FILES = {TRAIN: "train.tsv", VALIDATION: "dev.tsv", TEST: "test.tsv"}


@dataclasses.dataclass(frozen=True)
class GlueTask:
    """What sets a task of GLUE apart.

    Attributes:
        text: column of the (first) text.
        label: column of the label.
        labels: as they stand in the files, in the benchmark's order; none for a number.
        metrics: those of the benchmark, the first chooses the best epoch.
        submissions: the leaderboard's file for each split.
        text_pair: column of the second text; None for single texts.
        files: name of each split's file.
        columns: of files without a line of names.
        without_names: the splits whose files have no line of names.
        skip_broken: the distributed files are known to have lines with too many or too few columns
            among those with labels.
        tfds_texts: names of both texts in TensorFlow Datasets where they differ from the files'.
    """

    text: str
    label: str
    labels: tuple[str, ...]
    metrics: Mapping[str, Metric]
    submissions: Mapping[str, str]
    text_pair: str | None = None
    files: Mapping[str, str] = dataclasses.field(default_factory=lambda: _USUAL_FILES)
    columns: tuple[str, ...] | None = None
    without_names: tuple[str, ...] = ()
    skip_broken: bool = False
    tfds_texts: tuple[str, str] | None = None

    @property
    def text_columns(self) -> dict[str, str]:
        """Which column holds "text" and, for pairs, "text_pair"."""
        pair = {} if self.text_pair is None else {TEXT_PAIR: self.text_pair}
        return {TEXT: self.text} | pair


_MNLI = GlueTask(
    text="sentence1",
    text_pair="sentence2",
    label="gold_label",
    labels=("entailment", "neutral", "contradiction"),
    metrics=_ACCURACY,
    files={
        TRAIN: "train.tsv",
        VALIDATION: "dev_matched.tsv",
        MISMATCHED_VALIDATION: "dev_mismatched.tsv",
        TEST: "test_matched.tsv",
        MISMATCHED_TEST: "test_mismatched.tsv",
        DIAGNOSTIC: _DIAGNOSTIC_FILE,
    },
    submissions={TEST: "MNLI-m.tsv", MISMATCHED_TEST: "MNLI-mm.tsv", DIAGNOSTIC: "AX.tsv"},
    tfds_texts=("premise", "hypothesis"),
)

GLUE: Mapping[str, GlueTask] = {
    "cola": GlueTask(
        text="sentence",
        label="label",
        labels=("0", "1"),
        metrics={
            "matthews_correlation": metrics.matthews_correlation,
            "accuracy": metrics.accuracy,
        },
        columns=("source", "label", "mark", "sentence"),
        without_names=(TRAIN, VALIDATION),
        submissions={TEST: "CoLA.tsv"},
    ),
    "sst2": GlueTask(
        text="sentence",
        label="label",
        labels=("0", "1"),
        metrics=_ACCURACY,
        submissions={TEST: "SST-2.tsv"},
    ),
    "mrpc": GlueTask(
        text="#1 String",
        text_pair="#2 String",
        label="Quality",
        labels=("0", "1"),
        metrics=_ACCURACY_AND_F1,
        submissions={TEST: "MRPC.tsv"},
        tfds_texts=("sentence1", "sentence2"),
    ),
    "qqp": GlueTask(
        text="question1",
        text_pair="question2",
        label="is_duplicate",
        labels=("0", "1"),
        metrics=_ACCURACY_AND_F1,
        skip_broken=True,
        submissions={TEST: "QQP.tsv"},
    ),
    "stsb": GlueTask(
        text="sentence1",
        text_pair="sentence2",
        label="score",
        labels=(),
        metrics={"pearson": metrics.pearson, "spearman": metrics.spearman},
        submissions={TEST: "STS-B.tsv"},
    ),
    "mnli": _MNLI,
    "qnli": GlueTask(
        text="question",
        text_pair="sentence",
        label="label",
        labels=_ENTAILMENT,
        metrics=_ACCURACY,
        submissions={TEST: "QNLI.tsv"},
    ),
    "rte": GlueTask(
        text="sentence1",
        text_pair="sentence2",
        label="label",
        labels=_ENTAILMENT,
        metrics=_ACCURACY,
        submissions={TEST: "RTE.tsv"},
    ),
    "wnli": GlueTask(
        text="sentence1",
        text_pair="sentence2",
        label="label",
        labels=("0", "1"),
        metrics=_ACCURACY,
        submissions={TEST: "WNLI.tsv"},
    ),
    # The diagnostic set is only a test: a model of MNLI answers it.
    "ax": _MNLI,
}


def glue_task(name: str) -> Task:
    """Returns a task of GLUE.

    Args:
        name: one of `GLUE`.
    """
    facts = GLUE[name]
    head = TextHead("class" if facts.labels else "regression")
    return Task(
        name,
        head,
        functools.partial(_read, name=name),
        facts.metrics,
        write_submission=functools.partial(_write_submission, facts),
        read_for_prediction=functools.partial(
            read_texts_to_predict, read=functools.partial(_read_unlabeled, facts)
        ),
    )


def _read(data: str | os.PathLike, name: str) -> TaskData:
    facts = GLUE[name]
    if is_tfds(data):
        return _read_tfds(os.fspath(data), facts, with_diagnostic=name == "ax")
    folder = Path(data)
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder: give the folder of {name}'s files")
    if name == "mrpc" and mrpc_files.is_original(folder):
        tables = mrpc_files.read_original(folder)
        splits = {split: _labeled_texts(facts, table, True) for split, table in tables.items()}
        return TaskData(splits, facts.labels, facts.text_columns)
    paths = {split: folder / file for split, file in facts.files.items()}
    if DIAGNOSTIC in paths and not paths[DIAGNOSTIC].is_file():
        paths[DIAGNOSTIC] = folder.parent / _DIAGNOSTIC_FOLDER / _DIAGNOSTIC_FILE
    required = (TRAIN, DIAGNOSTIC) if name == "ax" else (TRAIN,)
    for split in required:
        if not paths[split].is_file():
            raise FileNotFoundError(
                f"{paths[split]} does not exist: give a folder with the files of {name} as GLUE "
                f"distributes them ({', '.join(facts.files.values())})"
            )
    splits = {}
    for split, path in paths.items():
        if path.is_file():
            labeled = split not in _SECRET
            names = facts.columns if split in facts.without_names else None
            # The leaderboard counts the lines of a test: none of them is passed over.
            table = read_unquoted(path, names, facts.skip_broken and labeled)
            splits[split] = _labeled_texts(facts, table, labeled)
    return TaskData(splits, facts.labels, facts.text_columns)


def _read_tfds(source: str, facts: GlueTask, with_diagnostic: bool) -> TaskData:
    columns = facts.text_columns
    if facts.tfds_texts:
        columns = dict(zip(columns, facts.tfds_texts, strict=True))
    read = functools.partial(
        read_tfds_texts,
        text_columns=columns,
        label="label",
        label_type="class" if facts.labels else "regression",
    )
    if not with_diagnostic:
        return dataclasses.replace(read(source), text_columns=facts.text_columns)
    # There, the diagnostic set is one of its own, and has nothing but a test split.
    benchmark = source.rpartition("/")[0]
    learned = read(f"{benchmark}/mnli")
    diagnostic = read(f"{benchmark}/ax", splits={DIAGNOSTIC: ("test",)})
    splits = {**learned.splits, **diagnostic.splits}
    return TaskData(splits, learned.labels, facts.text_columns)


def _read_unlabeled(facts: GlueTask, path: Path) -> Table:
    """Reads any file of a task, those to learn from, too: their labels are not looked at."""
    original = facts is GLUE["mrpc"] and path.suffix == ".txt"
    if not path.is_file() or not (original or path.suffix == ".tsv"):
        return read_table(path)
    # The benchmark's own files have quotes in their texts and never around them.
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        first = file.readline().rstrip("\r\n").split("\t")
    columns = facts.columns
    if columns is not None:
        # A line of names has no label where one would stand.
        label = dict(zip(columns, first, strict=False)).get(facts.label)
        columns = columns if len(first) == len(columns) and label in facts.labels else None
    return read_unquoted(path, columns, facts.skip_broken and facts.label in first)


def _labeled_texts(facts: GlueTask, table: Table, labeled: bool) -> LabeledTexts:
    remedy = "give the file as GLUE distributes it"
    texts = table.column(facts.text, remedy)
    pairs = None if facts.text_pair is None else table.column(facts.text_pair, remedy)
    if not labeled:
        return LabeledTexts(texts, pairs)
    fields = table.column(facts.label, remedy)
    labels: list[float] = []
    for row, field in zip(table.rows, fields, strict=True):
        place = f"{table.path}, line {row.line}"
        if not facts.labels:
            number = finite_number(field)
            if number is None:
                raise ValueError(f"{place}: the score is {field!r}, expected a number")
            labels.append(number)
        elif field in facts.labels:
            labels.append(facts.labels.index(field))
        else:
            raise ValueError(
                f"{place}: the label is {field!r}, expected one of {', '.join(facts.labels)}: "
                "give the file as GLUE distributes it"
            )
    return LabeledTexts(texts, pairs, np.array(labels, np.int32 if facts.labels else np.float32))


def _write_submission(
    facts: GlueTask, folder: Path, data: TaskData, predictions: Mapping[str, Sequence[Any]]
) -> list[Path]:
    """Writes the leaderboard's files: a line of names, then index and prediction."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for split, file in facts.submissions.items():
        if split not in predictions:
            continue
        found = predictions[split]
        if facts.labels:
            answers = [facts.labels[int(np.argmax(scores))] for scores in found]
        else:
            answers = [f"{np.clip(float(score), 0.0, _HIGHEST_SIMILARITY):.3f}" for score in found]
        lines = ["index\tprediction", *(f"{i}\t{answer}" for i, answer in enumerate(answers))]
        written.append(folder / file)
        with atomic_file(written[-1]) as path:
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return written
