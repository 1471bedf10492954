"""Question answering: `squad` (1.1, every question has an answer) and `squad2` (2.0)."""

import functools
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_bert.finetuning.task import TEST, UNLABELED, Task, TaskData
from keras_bert.storage.data_sets import is_tfds
from keras_bert.storage.files import atomic_file
from keras_bert.tasks.question_answering import metrics
from keras_bert.tasks.question_answering.head import SpanHead
from keras_bert.tasks.question_answering.questions import AnsweredQuestion
from keras_bert.tasks.question_answering.squad_files import (
    SQUAD_EXTENSIONS,
    read_squad,
    read_tfds_questions,
)
from keras_bert.tasks.splits import find_splits

# Section A.3 of the paper and run_squad.py.
_DEFAULTS = {"learning_rate": 5e-5, "max_seq_length": 384}


def squad_task(
    doc_stride: int = 128, max_query_length: int = 64, max_answer_length: int = 30
) -> Task:
    """Returns the task of SQuAD 1.1, for its files and for others of their format.

    Args:
        doc_stride: see `SpanHead`, as the others.
        max_query_length: the most pieces of a question.
        max_answer_length: the most pieces of an answer.
    """
    head = SpanHead(False, doc_stride, max_query_length, max_answer_length)
    scores = {"f1": metrics.squad1_f1, "exact_match": metrics.squad1_exact_match}
    defaults = _DEFAULTS | {"epochs": 3, "batch_size": 32}
    read = functools.partial(_read, has_unanswerable=False)
    return Task("squad", head, read, scores, defaults, _write_answers)


def squad2_task(
    doc_stride: int = 128, max_query_length: int = 64, max_answer_length: int = 30
) -> Task:
    """Returns the task of SQuAD 2.0, where some questions have no answer; see `squad_task`."""
    head = SpanHead(True, doc_stride, max_query_length, max_answer_length)
    scores = {
        "f1": metrics.f1,
        "exact_match": metrics.exact_match,
        "has_answer_f1": metrics.has_answer_f1,
        "no_answer_accuracy": metrics.no_answer_accuracy,
    }
    defaults = _DEFAULTS | {"epochs": 2, "batch_size": 48}
    read = functools.partial(_read, has_unanswerable=True)
    return Task("squad2", head, read, scores, defaults, _write_answers)


def _read(data: str | os.PathLike, has_unanswerable: bool) -> TaskData:
    if is_tfds(data):
        splits = read_tfds_questions(os.fspath(data))
    else:
        splits = {
            split: read_squad(path, answers_optional=split in (TEST, UNLABELED))
            for split, path in find_splits(Path(data), SQUAD_EXTENSIONS).items()
        }
    if not has_unanswerable:
        for split, questions in splits.items():
            for question in questions:
                if question.answers == () and not question.aliases:
                    raise ValueError(
                        f"{data}, {split}: the question {question.id!r} has no answer: use "
                        "--task=squad2"
                    )
    for split, questions in splits.items():
        unknown = sum(question.answers is None for question in questions)
        if split != UNLABELED and 0 < unknown < len(questions):
            print(
                f"{data}, {split}: {unknown:,} of {len(questions):,} questions have no answers and "
                "are not marked is_impossible: all are predicted, and none is measured",
                file=sys.stderr,
            )
    return TaskData(splits)


def _write_answers(
    folder: Path, data: TaskData, predictions: Mapping[str, Sequence[AnsweredQuestion]]
) -> list[Path]:
    """Writes the files that the official scorers read, for each split.

    `predictions_<split>.json`: the answer by question. `null_odds_<split>.json`: the null score.
    `nbest_predictions_<split>.json`: all candidates.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for split, answers in predictions.items():
        by_id = dict(zip((question.id for question in data.splits[split]), answers, strict=True))
        contents: dict[str, dict[str, Any]] = {
            "predictions": {name: answered.answer.text for name, answered in by_id.items()},
            "null_odds": {name: answered.null_score for name, answered in by_id.items()},
            "nbest_predictions": {
                name: [candidate._asdict() for candidate in answered.n_best]
                for name, answered in by_id.items()
            },
        }
        for name, content in contents.items():
            written.append(folder / f"{name}_{split}.json")
            with atomic_file(written[-1]) as path:
                path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return written
