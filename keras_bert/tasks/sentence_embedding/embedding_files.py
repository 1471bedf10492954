"""Tables of texts that belong together, and the two tasks that learn vectors from them.

columns                               what is learned
text                                  a text is nearer to itself than to others (SimCSE)
text, positive                        nearer to its answer than to those of others
text, positive, negative              and nearer than to a wrong one (or negative0, negative1...)
the same with positive_score,
    negative_score                    and as near to each as a teacher's scores say
text, text_pair, score                as near as the score says
"""

import functools
import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from keras_bert.choices import TokenPooling
from keras_bert.counts import check_number
from keras_bert.finetuning.task import (
    TRAIN,
    UNLABELED,
    PredictionInput,
    Task,
    TaskData,
    TaskDescription,
)
from keras_bert.storage.data_sets import is_tfds
from keras_bert.storage.tables import (
    EXTENSIONS,
    Row,
    Table,
    check_different_columns,
    finite_number,
    json_list,
    read_table,
)
from keras_bert.tasks.sentence_embedding.examples import EmbeddingExample
from keras_bert.tasks.sentence_embedding.head import EmbeddingHead
from keras_bert.tasks.sentence_embedding.metrics import ranking_metrics, similarity_metrics
from keras_bert.tasks.splits import find_splits
from keras_bert.text.preprocessor import TEXT, TEXT_PAIR

POSITIVE, NEGATIVE, SCORE = "positive", "negative", "score"
# What a model folder calls the column of the second text: it does not read pairs as one row.
SECOND_TEXT = "second_text"
_NUMBERED = re.compile(rf"{NEGATIVE}\d*$")
_SCORED = re.compile(rf"{NEGATIVE}\d*_{SCORE}$")

# A batch is as many candidates; the rate is that of Sentence-BERT.
DEFAULTS = {"epochs": 3, "batch_size": 64, "learning_rate": 2e-5}


class Columns(NamedTuple):
    """Names of columns."""

    text: str = TEXT
    positive: str = POSITIVE
    text_pair: str = TEXT_PAIR
    score: str = SCORE


_USUAL_COLUMNS = Columns()


def answer_columns(text_column: str, positive_column: str) -> Columns:
    """Returns the columns of texts and what answers them.

    Args:
        text_column: column of the text, such as a question.
        positive_column: column of the text that is to be found.

    Raises:
        ValueError: both are one.
    """
    check_different_columns(text_column=text_column, positive_column=positive_column)
    return Columns(text_column, positive_column)


def _task(
    name: str,
    text_column: str = TEXT,
    positive_column: str = POSITIVE,
    text_pair_column: str = TEXT_PAIR,
    score_column: str = SCORE,
    pooling: TokenPooling | None = None,
    temperature: float | None = None,
    max_score: float | None = None,
    matryoshka_dims: tuple[int, ...] = (),
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    teacher_weight: float | None = None,
    teacher_temperature: float | None = None,
    static_width: int | None = None,
) -> Task:
    """Returns a task of vectors; training data has one of the forms of this module's docstring.

    Args:
        name: what is measured on all other files. "retrieval": how texts find what answers them, by
            the ranks of the positives among all passages of `text` and `positive`. "similarity":
            how cosines order pairs as people do, by their correlation with the scores of `text`,
            `text_pair` and `score`.
        text_column: column of the text, such as a question.
        positive_column: column of the text that is to be found.
        text_pair_column: column of the second text of pairs with a score.
        score_column: column of the score.
        pooling: how vectors of tokens become one: "mean", "cls" or "max"; None takes what the model
            folder says that training starts from, and "mean" where it says nothing.
        temperature: divides the cosines that are learned as logits; None is 0.05. Where scores are
            learned there are no logits, and it is refused.
        max_score: the score of two texts that are alike in all, 5 in STS-B; 0 is that of two unlike
            ones. None is 1. Where no file has scores it is refused.
        matryoshka_dims: the first so many numbers of a vector are learned as vectors, too, so that
            a search may keep them alone (Kusupati et al. 2022, arXiv:2205.13147). They are measured
            besides, by the metric that chooses the epoch.
        query_prompt: stands before every text of the text column; None takes what the model folder
            says, mostly nothing.
        document_prompt: stands before all other texts; None takes what the model folder says.
        teacher_weight: part of a teacher's scores in the loss, from 0 to 1; None is 0.5. Where the
            training data has none it is refused, as is the next one.
        teacher_temperature: divides a teacher's scores; None is 1.
        static_width: numbers of a fresh table of static embeddings over the pieces of the model
            folder, which learns in place of the folder's encoder; None for what the folder holds.

    Raises:
        ValueError: an argument is out of its range, or two columns are one.
    """
    scored = name == "similarity"
    if scored:
        check_different_columns(
            text_column=text_column, text_pair_column=text_pair_column, score_column=score_column
        )
    else:
        check_different_columns(text_column=text_column, positive_column=positive_column)
    if max_score is not None and not 0 < check_number("max_score", max_score) < math.inf:
        raise ValueError(f"max_score is {max_score}: it must be above 0")
    columns = Columns(text_column, positive_column, text_pair_column, score_column)
    of_loss = {
        "temperature": temperature,
        "teacher_weight": teacher_weight,
        "teacher_temperature": teacher_temperature,
    }
    given: dict[str, Any] = {name: value for name, value in of_loss.items() if value is not None}
    read = functools.partial(
        read_splits, columns=columns, max_score=max_score, of_loss=given, scored=scored
    )
    head = EmbeddingHead(
        pooling=pooling,
        matryoshka_dims=matryoshka_dims,
        query_prompt=query_prompt,
        document_prompt=document_prompt,
        static_width=static_width,
        **given,
    )
    metrics = similarity_metrics if scored else ranking_metrics
    return Task(name, head, read, metrics(head.matryoshka_dims), DEFAULTS)


retrieval_task = functools.partial(_task, "retrieval")
similarity_task = functools.partial(_task, "similarity")


def read_splits(
    folder: str | os.PathLike,
    columns: Columns,
    max_score: float | None,
    of_loss: Mapping[str, float],
    scored: bool,
) -> TaskData:
    """Reads the files of a folder.

    Args:
        folder: has train, validation and test files.
        columns: names of their columns.
        max_score: what scores are divided by; None where nobody says.
        of_loss: arguments of the loss that were given, by name.
        scored: whether all files but that for training have scores, or positives.

    Raises:
        ValueError: a column is missing, a row is damaged, or an argument of the loss is for what is
            not there.
    """
    if is_tfds(folder):
        raise ValueError(
            f"{folder} is a TFDS set: this task reads files with the columns {columns.text} and "
            f"{columns.positive}, or {columns.text}, {columns.text_pair} and {columns.score}; "
            "write one from it"
        )
    tables = {
        split: read_table(path) for split, path in find_splits(Path(folder), EXTENSIONS).items()
    }
    if UNLABELED in tables:
        raise ValueError(
            f"{tables[UNLABELED].path}: nothing answers unlabeled texts of this task: put them "
            "into a training file of texts alone, or take the file away"
        )
    _check_named_columns(tables, columns)
    second = columns.text_pair if scored else columns.positive
    splits = {}
    for split, table in tables.items():
        if split != TRAIN:
            for name in (second, columns.score) if scored else (second,):
                remedy = f"it is measured by it; name another with --{_flag_of(columns, name)}"
                table.column(name, remedy)
        of_split = scored if split != TRAIN else None
        splits[split] = _examples(table, columns, max_score or 1.0, of_split)
    first, path = splits[TRAIN][0], tables[TRAIN].path
    if "temperature" in of_loss and first.score is not None:
        raise ValueError(
            f"temperature is {of_loss['temperature']}, but the scores of {path} are compared with "
            "the cosines themselves: leave out --temperature"
        )
    for name in of_loss:
        if name != "temperature" and first.teacher_scores is None:
            raise ValueError(
                f"{name} is {of_loss[name]}, but {path} has no scores of a teacher: add the "
                f"columns {columns.positive}_score and {NEGATIVE}0_score, as mine_negatives.py "
                "--score_with does, or leave it out"
            )
    if max_score is not None and not any(part[0].score is not None for part in splits.values()):
        raise ValueError(
            f"max_score is {max_score}, but no file in {folder} has scores to divide: leave out "
            "--max_score"
        )
    return TaskData(splits, text_columns={TEXT: columns.text, SECOND_TEXT: second})


def read_answers(
    folder: str | os.PathLike, columns: Columns, of_loss: Mapping[str, float], scores_are: str
) -> TaskData:
    """Reads the files of a folder for a task that learns from answers, not from scores of pairs.

    Args:
        folder: has train, validation and test files.
        columns: names of their columns.
        of_loss: arguments of the loss that were given, by name.
        scores_are: what the task compares, which has no largest value as a cosine has.

    Raises:
        ValueError: as `read_splits`, or the training data has scores.
    """
    data = read_splits(folder, columns, None, of_loss, scored=False)
    if any(example.score is not None for example in data.splits[TRAIN]):
        raise ValueError(
            f"the training data in {folder} has the column {columns.score}, and {scores_are} have "
            "no largest one that a score could be: give what answers the texts in a column "
            f"{columns.positive}, or learn from scores by the task retrieval"
        )
    return data


def _check_named_columns(tables: Mapping[str, Table], columns: Columns) -> None:
    """Refuses a name that somebody gave and no column has: it would be passed over in silence."""
    there = {name for table in tables.values() for name in table.columns}
    for name, usual in zip(columns, _USUAL_COLUMNS, strict=True):
        if name not in (usual, *there):
            remedy = f"name the right one with --{_flag_of(columns, name)}"
            tables[TRAIN].column(name, remedy)


def _flag_of(columns: Columns, name: str) -> str:
    return f"{columns._fields[columns.index(name)]}_column"


def _examples(
    table: Table, columns: Columns, max_score: float, scored: bool | None
) -> list[EmbeddingExample]:
    """Returns the rows of a table.

    Args:
        table: the table.
        columns: names of its columns.
        max_score: what scores are divided by.
        scored: whether scores or positives are read; None, of what is learned from, for what there
            is, a teacher's scores too.
    """
    learned = scored is None
    texts = _texts(table, columns.text, "name the right one with --text_column")
    if scored is None:
        there = [name for name in (columns.score, columns.positive) if name in table.columns]
        if len(there) == 2:
            raise ValueError(
                f"{table.path} has the columns {columns.score} and {columns.positive}, but one of "
                "them is learned from: take the other out, or give it another name"
            )
        if columns.text_pair in table.columns and not there:
            raise ValueError(
                f"{table.path} has the column {columns.text_pair} without {columns.score}: name "
                f"it {columns.positive} where it is to be found, or add the scores"
            )
        scored = columns.score in there
        if not there:
            return [EmbeddingExample((text,)) for text in texts]
    if scored:
        seconds = _texts(table, columns.text_pair, "name the right one with --text_pair_column")
        fields = table.column(columns.score, "name the right one with --score_column")
        rows = zip(table.rows, texts, seconds, fields, strict=True)
        return [
            EmbeddingExample((text, second), _score(table, row, field, max_score))
            for row, text, second, field in rows
        ]
    answered = answered_texts(table, *columns[:2])
    scores = _teacher_scores(table, columns.positive) if learned else None
    if scores is None:
        return [EmbeddingExample(texts) for texts in answered]
    return [
        EmbeddingExample(texts, teacher_scores=of_row)
        for texts, of_row in zip(answered, scores, strict=True)
    ]


def answered_texts(table: Table, text_column: str, positive_column: str) -> list[tuple[str, ...]]:
    """Returns of each row its text, what answers it, and wrong answers, where there are some.

    Args:
        table: has the two columns, and perhaps `negative`, `negative0` and so on.
        text_column: column of the text.
        positive_column: column of the answer.

    Raises:
        ValueError: a column is missing or called otherwise, a text is empty or a list, or a list of
            wrong answers holds something else.
    """
    texts = _texts(table, text_column, "name the right one with --text_column")
    right = _texts(table, positive_column, "name the right one with --positive_column")
    wrong = _negative_columns(table)
    rows = zip(table.rows, texts, right, strict=True)
    return [(text, answer, *_negatives(table, row, wrong)) for row, text, answer in rows]


def _negative_columns(table: Table) -> list[str]:
    for name in table.columns:
        if name.startswith(NEGATIVE) and not (_NUMBERED.match(name) or _SCORED.match(name)):
            raise ValueError(
                f"{table.path} has a column {name!r}: name wrong answers {NEGATIVE}, or "
                f"{NEGATIVE}0, {NEGATIVE}1 and so on, and their scores by a teacher "
                f"{NEGATIVE}0_{SCORE} and so on"
            )
    return sorted(filter(_NUMBERED.match, table.columns), key=lambda name: (len(name), name))


def _negatives(table: Table, row: Row, columns: Sequence[str]) -> list[str]:
    fields = (field for name in columns for field in _fields(table, row, name))
    return [text for text in fields if text.strip()]


def _fields(table: Table, row: Row, name: str) -> list[str]:
    """Returns the texts or numbers of a field: those of a list, which JSON lines may have."""
    field = row.values.get(name, "")
    if name not in row.lists:
        return [field]
    several = json_list(field)
    if several is None:  # the JSON itself would be one text
        raise ValueError(
            f"{table.path}, line {row.line}: {name} is the list {field[:60]}, not all of which is "
            "text or numbers: leave out what is null, and write no lists into it"
        )
    return several


def _teacher_scores(table: Table, positive: str) -> list[tuple[float, ...]] | None:
    """Returns what a teacher says of the texts of `answered_texts` but the first.

    None where the table has no scores.

    Raises:
        ValueError: a score is missing, is too many or no number.
    """
    wrong = _negative_columns(table)
    columns = {name: f"{name}_{SCORE}" for name in (positive, *wrong)}
    # A score of the answers alone may be anything, such as votes, and would teach nothing.
    there = [*filter(_SCORED.match, table.columns)]
    if not there:
        return None
    for name, scores in columns.items():
        if scores not in table.columns:
            remedy = f"add the teacher's scores of {name}, as {', '.join(there)} has others"
            table.column(scores, remedy)
    found = []
    for row in table.rows:
        of_row: list[float] = []
        for name, scores in columns.items():
            texts, numbers = _fields(table, row, name), _fields(table, row, scores)
            if not any(map(str.strip, texts)):
                continue  # no wrong answer here
            place = f"{table.path}, line {row.line}: "
            if len(texts) != len(numbers):
                raise ValueError(
                    f"{place}{name} has {len(texts)} texts and {scores} {len(numbers)} scores: "
                    "give each text one"
                )
            pairs = zip(texts, numbers, strict=True)
            of_row += [_number(place + scores, score) for text, score in pairs if text.strip()]
        found.append(tuple(of_row))
    return found


def _number(name: str, field: str) -> float:
    number = finite_number(field)
    if number is None:
        raise ValueError(
            f"{name} is {field!r}: give the teacher's score, a number, or take its columns out"
        )
    return number


def _texts(table: Table, name: str, remedy: str) -> list[str]:
    texts = table.texts(name, remedy)
    for row, text in zip(table.rows, texts, strict=True):
        if not text.strip():
            raise ValueError(
                f"{table.path}, line {row.line}: {name} is empty: fill it or remove the row"
            )
    return texts


def _score(table: Table, row: Row, field: str, max_score: float) -> float:
    score = finite_number(field)
    if score is None or not 0 <= score <= max_score:
        raise ValueError(
            f"{table.path}, line {row.line}: the score is {field!r} but scores are numbers from 0 "
            f"to {max_score:g}: fix it, or name the largest one with --max_score"
        )
    return score / max_score


def read_pairs_to_predict(path: Path, description: TaskDescription) -> PredictionInput:
    """Reads a table of two texts in a row, whose similarity is asked for; scores are not needed.

    Args:
        path: has the columns of texts that the model was trained on, or `text` and one of
            `text_pair` and `positive`.
        description: the model's task.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it lacks a column, or a text in it is empty.
    """
    table = read_table(path)
    known = description.text_columns
    columns = []
    for names in ((known.get(TEXT), TEXT), (known.get(SECOND_TEXT), TEXT_PAIR, POSITIVE)):
        usual = next(name for name in names if name)
        column = next((name for name in names if name in table.columns), usual)
        columns.append(_texts(table, column, "two texts of a row are compared; name them so"))
    pairs = zip(*columns, strict=True)
    return PredictionInput.of_table([EmbeddingExample(pair) for pair in pairs], table)
