"""Attributions for the predictions of a file, as JSON lines."""

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_bert.progress import Progress
from keras_bert.storage.files import atomic_file
from keras_bert.tasks.classification.head import LabeledTexts
from keras_bert.tasks.finetuned_model import FinetunedModel
from keras_bert.tasks.multiple_choice.head import ChoiceExample
from keras_bert.tasks.predict import read_to_predict
from keras_bert.tasks.question_answering.questions import Question
from keras_bert.tasks.tagging.entities import are_entity_tags, entities
from keras_bert.tasks.tagging.sentences import TaggedSentence
from keras_bert.visualize.attributions.view import Explainer

# What stands before an answer that lies behind what the model reads at once.
_CHARACTERS_BEFORE = 200


class _Asked(NamedTuple):
    text: str
    text_pair: str | None = None
    target: str | None = None
    position: int | None = None


def explain_file(
    model_dir: str | os.PathLike, input_path: str | os.PathLike, output_path: str | os.PathLike
) -> int:
    """Writes what made each prediction for a file: a JSON object a line; returns their number.

    Each has `example`, its number from 1, and what `AttributionView.as_dict` gives. A tagged
    sentence has a line for each entity; where labels name no entities, one for the surest word.

    Args:
        model_dir: the folder of a fine-tuning run.
        input_path: a file in the format that the model was trained on; labels are not needed.
        output_path: the JSON lines to write.

    Raises:
        FileNotFoundError: model or input do not exist.
        ValueError: the input lacks a column.
    """
    model = FinetunedModel.load(model_dir)
    examples = read_to_predict(input_path, model.description).examples
    explain = Explainer(model)
    count = 0
    with (
        atomic_file(output_path) as temporary,
        open(temporary, "w", encoding="utf-8") as lines,
        Progress(len(examples), "example", "explaining") as progress,
    ):
        for number, asked in enumerate(_asked(model, explain, examples), start=1):
            for question in asked:
                line = {"example": number, **explain(*question).as_dict()}
                lines.write(json.dumps(line, ensure_ascii=False) + "\n")
                count += 1
            progress.update()
    return count


def _asked(model: FinetunedModel, explain: Explainer, examples: Any) -> Iterator[list[_Asked]]:
    """Yields for each example what is to be explained."""
    if isinstance(examples, LabeledTexts):
        yield from ([_Asked(texts[0], texts[1] if texts[1:] else None)] for texts in examples)
        return
    predictions: Any = model.predict_examples(examples)
    for example, prediction in zip(examples, predictions, strict=True):
        if isinstance(example, Question):
            yield [_answer(explain, example, prediction.answer)]
        elif isinstance(example, ChoiceExample):
            yield [_Asked(example.context, example.choices[int(prediction.argmax())])]
        elif are_entity_tags(model.description.labels):
            yield list(_entities(explain, example, prediction.tags))
        else:
            text = " ".join(example.words)
            yield [_Asked(text)] if explain.read(text).words[1:-1] else []


def _answer(explain: Explainer, question: Question, answer: Any) -> _Asked:
    if not answer.text.strip():
        return _Asked(question.question, question.context)  # unanswerable: the likeliest span
    context = question.context
    tokens = explain.read(question.question, context).tokens
    if answer.end > max(token.end for token in tokens if token.segment == 1):
        # It was found in a later window: the context from a little before it, at a word.
        start = max(0, answer.start - _CHARACTERS_BEFORE)
        context = context[context.rfind(" ", 0, start) + 1 :]
    return _Asked(question.question, context, answer.text)


def _entities(explain: Explainer, example: TaggedSentence, tags: Sequence[str]) -> Iterator[_Asked]:
    text = " ".join(example.words)
    starts = np.cumsum([0, *(len(word) + 1 for word in example.words)]).tolist()
    # The code point at which a piece begins -> its word.
    words = {token.start: token.word for token in explain.read(text).tokens[1:-1]}
    for entity in entities(tags):
        if starts[entity.first] in words:  # else it is behind what the model reads at once
            yield _Asked(text, None, tags[entity.first], words[starts[entity.first]])
