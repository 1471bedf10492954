"""Reranking: which of several passages answers a text, learned from the tables of a search.

text, positive, negative0, negative1...    --a row-->    the text and its passages as choices

A model that reads the text with a passage orders what a search by vectors found (a cross-encoder).
The loss, a cross-entropy over the passages of a text, is that of Gao et al. 2021 (LCE).
"""

import functools
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from keras_bert.finetuning.task import Metric, PredictionInput, Task, TaskData, TaskDescription
from keras_bert.storage.data_sets import is_tfds
from keras_bert.storage.tables import EXTENSIONS, Table, check_different_columns, read_table
from keras_bert.tasks.multiple_choice.head import ChoiceExample, ChoiceHead
from keras_bert.tasks.sentence_embedding.embedding_files import (
    NEGATIVE,
    POSITIVE,
    answered_texts,
)
from keras_bert.tasks.sentence_embedding.metrics import hit, ndcg, reciprocal_rank
from keras_bert.tasks.splits import find_splits
from keras_bert.text.preprocessor import TEXT

# Results that are looked at.
_LOOKED_AT = 10

_DEFAULTS = {"epochs": 3, "batch_size": 16, "learning_rate": 2e-5}


def reranking_task(text_column: str = TEXT, positive_column: str = POSITIVE) -> Task:
    """Returns the task of tables with the columns `text`, `positive`, `negative0`, `negative1`...

    What is measured is the place of the positive among the passages of its row.

    Args:
        text_column: column of the text, such as a question.
        positive_column: column of the passage that answers it.

    Raises:
        ValueError: both are one.
    """
    check_different_columns(text_column=text_column, positive_column=positive_column)
    columns = {TEXT: text_column, POSITIVE: positive_column}
    metrics: dict[str, Metric] = {
        f"ndcg_at_{_LOOKED_AT}": functools.partial(_mean, value=ndcg),
        f"mrr_at_{_LOOKED_AT}": functools.partial(_mean, value=reciprocal_rank),
        "accuracy": functools.partial(_mean, value=lambda rank, _: hit(rank, 1)),
    }
    return Task(
        "reranking",
        ChoiceHead(),
        functools.partial(_read, columns=columns),
        metrics,
        _DEFAULTS,
        read_for_prediction=read_lists_to_predict,
    )


def _mean(
    predictions: Sequence[np.ndarray],
    references: Sequence[int],
    value: Callable[[np.ndarray, int], float],
) -> float:
    """Returns the mean of a measure of ranks; of equal scores the right one comes last."""
    # Written so that what is no number is worse than none.
    ranks = [
        np.array([np.count_nonzero(~(scores < scores[right]))])
        for scores, right in zip(predictions, references, strict=True)
    ]
    return float(np.mean([value(rank, _LOOKED_AT) for rank in ranks]))


def _read(folder: str | os.PathLike, columns: dict[str, str]) -> TaskData:
    if is_tfds(folder):
        raise ValueError(
            f"{folder} is a TFDS set: this task reads files with the columns {columns[TEXT]}, "
            f"{columns[POSITIVE]} and {NEGATIVE}0; write one from it"
        )
    splits = {
        split: _examples(read_table(path), columns)
        for split, path in find_splits(Path(folder), EXTENSIONS).items()
    }
    return TaskData(splits, text_columns=columns)


def _examples(table: Table, columns: dict[str, str]) -> list[ChoiceExample]:
    rows = answered_texts(table, columns[TEXT], columns[POSITIVE])
    right: dict[str, set[str]] = {}
    for text, answer, *_ in rows:
        right.setdefault(text, set()).add(answer)
    examples = []
    seen: Counter[int] = Counter()
    for row, (text, answer, *others) in zip(table.rows, rows, strict=True):
        # What answers the text in another row is not wrong here.
        wrong = [other for other in dict.fromkeys(others) if other not in right[text]]
        if not wrong:
            raise ValueError(
                f"{table.path}, line {row.line}: there is no wrong answer (one that answers the "
                f"text in another row is none): fill a column {NEGATIVE}, or let mine_negatives.py "
                "find some"
            )
        # Among rows of as many passages the right one stands at every place equally often: the
        # place must not tell.
        place = seen[len(wrong)] % (len(wrong) + 1)
        seen[len(wrong)] += 1
        examples.append(ChoiceExample(text, (*wrong[:place], answer, *wrong[place:]), place))
    return examples


def read_lists_to_predict(path: Path, description: TaskDescription) -> PredictionInput:
    """Reads texts and their passages, the positive as the first choice.

    Args:
        path: the table, with the columns that the model was trained on.
        description: the model's task.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a column is missing, or a row has one passage alone.
    """
    table, columns = read_table(path), description.text_columns
    rows = answered_texts(table, columns[TEXT], columns[POSITIVE])
    for row, (_, *passages) in zip(table.rows, rows, strict=True):
        if len(passages) < 2:
            raise ValueError(
                f"{table.path}, line {row.line}: there is one passage alone: add a column "
                f"{NEGATIVE} with others"
            )
    examples = [ChoiceExample(text, tuple(passages)) for text, *passages in rows]
    return PredictionInput.of_table(examples, table)
