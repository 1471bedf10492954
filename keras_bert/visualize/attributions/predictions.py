"""Attributions for the predictions of a file, as JSON lines."""

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from keras_bert.progress import Progress
from keras_bert.storage.files import atomic_file
from keras_bert.tasks.classification.head import LabeledTexts, TextHead
from keras_bert.tasks.finetuned_model import FinetunedModel
from keras_bert.tasks.multiple_choice.head import ChoiceExample
from keras_bert.tasks.predict import read_to_predict
from keras_bert.tasks.question_answering.questions import Question
from keras_bert.tasks.tagging.entities import entities
from keras_bert.tasks.tagging.head import TagHead
from keras_bert.tasks.tagging.sentences import TaggedSentence
from keras_bert.visualize.attributions.view import Explainer

# What stands before an answer that lies behind what the model reads at once: the first that fits.
_CHARACTERS_BEFORE = (200, 50, 10, 0)
# In scripts without spaces a window begins anywhere.
_LONGEST_WORD = 30


class _Asked(NamedTuple):
    text: str
    text_pair: str | None = None
    target: str | int | tuple[int, int] | None = None
    position: int | None = None


def explain_file(
    model_dir: str | os.PathLike, input_path: str | os.PathLike, output_path: str | os.PathLike
) -> int:
    """Writes what made each prediction for a file: a JSON object a line; returns their number.

    Each has `example`, its number from 1, and what `AttributionView.as_dict` gives; or
    `not_explained`, the reason. A text with several labels has a line for each that is predicted, a
    tagged sentence one for each entity (where labels name no entities, for the surest word).
    Taggers are explained sentence by sentence, without what stands before and after.

    Args:
        model_dir: the folder of a fine-tuning run.
        input_path: a file in the format that the model was trained on; labels are not needed.
        output_path: the JSON lines to write.

    Raises:
        FileNotFoundError: model or input do not exist.
        ValueError: the model's answers cannot be explained, or the input lacks a column.
    """
    model = FinetunedModel.load(model_dir)
    explain = Explainer(model)
    examples = read_to_predict(input_path, model.description).examples
    count = 0
    with (
        atomic_file(output_path) as temporary,
        open(temporary, "w", encoding="utf-8") as lines,
        Progress(len(examples), "example", "explaining") as progress,
    ):
        for number, asked in enumerate(_asked(model, explain, examples), start=1):
            for one in asked:
                found = {"not_explained": one} if isinstance(one, str) else explain(*one).as_dict()
                line = {"example": number, **found}
                lines.write(json.dumps(line, ensure_ascii=False) + "\n")
                count += 1
            progress.update()
    return count


def _asked(
    model: FinetunedModel, explain: Explainer, examples: Any
) -> Iterator[list[_Asked | str]]:
    """Yields for each example what is to be explained, or why nothing is."""
    predictions: Any = model.predict_examples(examples)
    for example, prediction in zip(examples, predictions, strict=True):
        if isinstance(examples, LabeledTexts):
            yield _labels(model, example, prediction)
        elif isinstance(example, Question):
            yield [_answer(explain, example, prediction.answer)]
        elif isinstance(example, ChoiceExample):
            yield [_Asked(example.context, example.choices[int(prediction.argmax())])]
        elif cast(TagHead, model.description.head).tags_entities:
            yield list(_entities(explain, example, prediction.tags))
        else:
            text = " ".join(example.words)
            yield [_Asked(text) if explain.read(text).words[1:-1] else "the sentence is empty"]


def _labels(model: FinetunedModel, texts: tuple[str, ...], prediction: Any) -> list[_Asked | str]:
    asked = _Asked(texts[0], texts[1] if texts[1:] else None)
    if cast(TextHead, model.description.head).label_type != "multi_label":
        return [asked]
    labels = [asked._replace(target=int(index)) for index in np.flatnonzero(prediction > 0.5)]
    return [*labels] or ["no label has a probability above 0.5"]


def _answer(explain: Explainer, question: Question, answer: Any) -> _Asked | str:
    if answer.start == answer.end:
        return "the prediction is that there is no answer"
    # The whole context, or where the answer was found in a later window, from a little before it.
    later = (max(0, answer.start - before) for before in _CHARACTERS_BEFORE)
    for start in (0, *(_word_start(question.context, at) for at in later)):
        context = question.context[start:]
        ends = [
            token.end
            for token in explain.read(question.question, context).tokens
            if token.segment == 1
        ]
        span = (answer.start - start, answer.end - start)
        if span[0] >= 0 and span[1] <= max(ends):
            return _Asked(question.question, context, span)
    return "question and answer are longer than what the model reads at once"


def _word_start(text: str, at: int) -> int:
    """Returns where the word at a place begins, or the place itself if it is far behind that."""
    before = range(at, max(-1, at - _LONGEST_WORD), -1)
    far = 0 if at < _LONGEST_WORD else at
    return next((place + 1 for place in before if text[place : place + 1].isspace()), far)


def _entities(
    explain: Explainer, example: TaggedSentence, tags: Sequence[str]
) -> Iterator[_Asked | str]:
    text = " ".join(example.words)
    starts = np.cumsum([0, *(len(word) + 1 for word in example.words)]).tolist()
    tokens = explain.read(text).tokens[1:-1]
    for entity in entities(tags):
        # The first piece of its first word.
        first, end = starts[entity.first], starts[entity.first + 1]
        word = next((token.word for token in tokens if first <= token.start < end), None)
        if word is None:
            yield f"word {entity.first + 1} is behind what the model reads at once"
        else:
            yield _Asked(text, None, tags[entity.first], word)
