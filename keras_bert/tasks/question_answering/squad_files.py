"""Questions: SQuAD JSON (1.1 or 2.0), TensorFlow Datasets, tables of questions and contexts."""

import json
import os
from pathlib import Path
from typing import Any

from keras_bert.config import read_json
from keras_bert.finetuning.task import PredictionInput, TaskDescription
from keras_bert.storage.data_sets import open_data_set
from keras_bert.storage.paths import check_file
from keras_bert.storage.surrogates import without_lone_surrogates
from keras_bert.storage.tables import EXTENSIONS, read_table
from keras_bert.tasks.question_answering.questions import CONTEXT, QUESTION, Answer, Question
from keras_bert.tasks.tfds_source import check_features, read_splits

ID = "id"
SQUAD_EXTENSIONS = (".json",)
_TFDS_FEATURES = ("id", "question", "context", "answers")
# What is read of a question that is to be answered.
_ASKED = ("id", "question")


def read_squad(
    path: Path, answers_optional: bool = False, answers_ignored: bool = False
) -> list[Question]:
    """Reads a file in the format of SQuAD.

    Args:
        path: the file; UTF-8 with or without a byte order mark.
        answers_optional: whether questions may come without answers, their field missing or, where
            they are not marked is_impossible, empty; theirs are None.
        answers_ignored: whether no answer is looked at; all are None.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is damaged: a field is missing, an answer does not stand where it is
            said to, an unanswerable question has an answer or an answerable one has none, an id
            comes twice, or there is no question at all. The sentence names the question.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: give a file in the format of SQuAD")
    questions: dict[str, Question] = {}
    for number, article in enumerate(list_of(read_json(path), "data", f"{path}"), start=1):
        place = f"{path}, article {number}"
        for position, paragraph in enumerate(list_of(article, "paragraphs", place), start=1):
            here = f"{place}, paragraph {position}"
            context = string_of(paragraph, "context", here)
            for entry in list_of(paragraph, "qas", here):
                if answers_ignored and isinstance(entry, dict):
                    entry = {key: value for key, value in entry.items() if key in _ASKED}
                question = _question(
                    entry, context, path, here, answers_optional or answers_ignored
                )
                if question.id in questions:
                    raise ValueError(
                        f"{path}: two questions have the id {question.id!r}: rename one"
                    )
                questions[question.id] = question
    if not questions:
        raise ValueError(f"{path} has no questions: give a file with at least one")
    return list(questions.values())


def _question(entry: Any, context: str, path: Path, place: str, answers_optional: bool) -> Question:
    name = _id_of(entry, place)
    place = f"{path}, question {name!r}"
    text = string_of(entry, "question", place)
    if "answers" not in entry and answers_optional:
        return Question(name, text, context)
    answers = tuple(_answer(answer, context, place) for answer in list_of(entry, "answers", place))
    impossible = entry.get("is_impossible", False)
    if not isinstance(impossible, bool):
        raise ValueError(
            f"{place}: 'is_impossible' is {impossible!r}, expected true or false, without quotes"
        )
    # Of TriviaQA: other spellings of the answer, which need not stand in the context.
    has_aliases = "aliases" in entry and not impossible
    aliases = tuple(map(str, list_of(entry, "aliases", place))) if has_aliases else ()
    if answers_optional and not (answers or impossible or aliases):
        return Question(name, text, context)  # of a test file that keeps its answers to itself
    if impossible and answers:
        raise ValueError(
            f"{place} is_impossible but has the answer {answers[0].text!r}: remove one of both "
            "(what only seems an answer belongs into plausible_answers)"
        )
    if not impossible and not answers and not aliases:
        raise ValueError(
            f"{place} has no answers and is not marked is_impossible: add an answer or the mark"
        )
    return Question(name, text, context, answers, aliases)


def _id_of(entry: Any, place: str) -> str:
    value = field_of(entry, "id", place)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"{place}: 'id' is {value!r}, expected a string")
    return str(value)


def _answer(entry: Any, context: str, place: str) -> Answer:
    text = string_of(entry, "text", place)
    answer = Answer(text, field_of(entry, "answer_start", place))
    answer.check(context, place)
    return answer


def field_of(entry: Any, name: str, place: str) -> Any:
    """Returns a field of an object of a JSON file; a `ValueError` names the place without it."""
    if not isinstance(entry, dict) or name not in entry:
        found = ", ".join(entry) if isinstance(entry, dict) else type(entry).__name__
        raise ValueError(f"{place}: there is no {name!r} (found: {found or 'nothing'}): add it")
    return entry[name]


def list_of(entry: Any, name: str, place: str) -> list[Any]:
    """Returns such a field that must be a list."""
    value = field_of(entry, name, place)
    if not isinstance(value, list):
        raise ValueError(f"{place}: {name!r} is a {type(value).__name__}, expected a list")
    return value


def string_of(entry: Any, name: str, place: str) -> str:
    """Returns such a field that must be a string."""
    value = field_of(entry, name, place)
    if not isinstance(value, str):
        raise ValueError(f"{place}: {name!r} is a {type(value).__name__}, expected a string")
    return without_lone_surrogates(value)


def read_questions_to_predict(path: Path, description: TaskDescription) -> PredictionInput:
    """Reads questions to be answered; answers in the file are not looked at.

    Args:
        path: SQuAD JSON, or CSV, TSV or JSONL with columns "question", "context" and perhaps "id".
        description: the model's task; nothing of the file depends on it.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is of another format, or damaged.
    """
    path = Path(path)
    if path.suffix in SQUAD_EXTENSIONS:
        return PredictionInput(read_squad(path, answers_ignored=True))
    if path.suffix not in EXTENSIONS:
        formats = ", ".join((*SQUAD_EXTENSIONS, *EXTENSIONS))
        check_file(path, f"a file of {formats}")
        raise ValueError(
            f"{path} is not one of {formats}: write a table, such as a .csv with the columns "
            f"{QUESTION} and {CONTEXT}"
        )
    table = read_table(path)
    remedy = "questions are read from the columns question and context"
    asked, contexts = (table.texts(name, remedy) for name in (QUESTION, CONTEXT))
    names = table.column(ID, remedy) if ID in table.columns else [str(r.line) for r in table.rows]
    rows = zip(names, asked, contexts, strict=True)
    return PredictionInput.of_table([Question(*row) for row in rows], table)


def read_tfds_questions(source: str) -> dict[str, list[Question]]:
    """Reads the splits of a data set that has the features of SQuAD.

    Args:
        source: "tfds:name" or "tfds:name/config". It is downloaded where it is not yet there.

    Raises:
        ValueError: there is no such data set, or it has not these features.
    """
    builder = open_data_set(source)
    check_features(source, builder, _TFDS_FEATURES, "it is no data set of questions and contexts")
    found: dict[str, list[Question]] = {}
    for split, entries in read_splits(source, builder).items():
        found[split] = []
        for entry in entries:
            name, asked, context = (entry[key].decode() for key in (ID, QUESTION, CONTEXT))
            answers = entry["answers"]
            pairs = zip(answers["text"], answers["answer_start"], strict=True)
            right = tuple(Answer(text.decode(), int(start)) for text, start in pairs)
            found[split].append(Question(name, asked, context, right))
    return found


def write_squad(path: str | os.PathLike, questions: list[Question]) -> None:
    """Writes questions in the format of SQuAD 2.0, one paragraph for each run of a context.

    Args:
        path: the file to write.
        questions: the questions; those without `answers` (None) are written without a truth.
    """
    paragraphs: list[dict[str, Any]] = []
    for question in questions:
        if not paragraphs or paragraphs[-1]["context"] != question.context:
            paragraphs.append({"context": question.context, "qas": []})
        answers = [{"text": a.text, "answer_start": a.start} for a in question.answers or ()]
        entry: dict[str, Any] = {"id": question.id, "question": question.question}
        if question.answers is not None:
            impossible = not answers and not question.aliases
            entry |= {"answers": answers, "is_impossible": impossible}
        if question.aliases:
            entry["aliases"] = list(question.aliases)
        paragraphs[-1]["qas"].append(entry)
    content = {"version": "v2.0", "data": [{"title": "", "paragraphs": paragraphs}]}
    Path(path).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
