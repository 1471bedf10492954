"""Questions of TensorFlow Datasets: `tfds:squad/v1.1`, `tfds:squad/v2.0` and sets like them."""

from typing import Any

from keras_bert.tasks.question_answering.questions import Answer, Question
from keras_bert.tasks.tfds_source import check_features, open_data_set, read_splits

_FEATURES = ("id", "question", "context", "answers")


def read_tfds_questions(source: str) -> dict[str, list[Question]]:
    """Reads the splits of a data set that has the features of SQuAD.

    Args:
        source: "tfds:name" or "tfds:name/config". It is downloaded where it is not yet there.

    Raises:
        ValueError: there is no such data set, or it has not these features.
    """
    builder = open_data_set(source)
    check_features(source, builder, _FEATURES, "it is no data set of questions and contexts")
    return {
        split: [_question(entry) for entry in entries]
        for split, entries in read_splits(source, builder).items()
    }


def _question(entry: dict[str, Any]) -> Question:
    answers = entry["answers"]
    pairs = zip(answers["text"], answers["answer_start"], strict=True)
    return Question(
        entry["id"].decode(),
        entry["question"].decode(),
        entry["context"].decode(),
        tuple(Answer(text.decode(), int(start)) for text, start in pairs),
    )
