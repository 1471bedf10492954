"""The task `gliner`: entities of any kinds, from GLiNER's JSON or from files of columns."""

import functools
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from keras_bert.finetuning.task import (
    TRAIN,
    VALIDATION,
    PredictionInput,
    Task,
    TaskData,
    TaskDescription,
)
from keras_bert.storage.data_sets import is_tfds
from keras_bert.storage.paths import check_file
from keras_bert.tasks.entity_recognition.head import EntityHead
from keras_bert.tasks.entity_recognition.metrics import SPAN_METRICS
from keras_bert.tasks.entity_recognition.sentences import EntitySentence, EntitySpan
from keras_bert.tasks.splits import find_splits
from keras_bert.tasks.tagging.column_files import EXTENSIONS
from keras_bert.tasks.tagging.conll import conll_task, read_sentences_to_predict
from keras_bert.tasks.tagging.entities import Scheme, entities
from keras_bert.tasks.tagging.sentences import WORD, TaggedSentence

_JSON = (".json", ".jsonl")
_WORDS, _ENTITIES, _LABELS = "tokenized_text", "ner", "ner_labels"


def gliner_task(
    word_index: int = 0,
    label_index: int = -1,
    scheme: Scheme | None = None,
    label_feature: str | None = None,
    max_types: int = 25,
    max_width: int | None = None,
    label_dropout: float = 0.1,
    focal_alpha: float | None = None,
    focal_gamma: float = 0.0,
    span_hidden_size: int | None = None,
    num_rnn_layers: int | None = None,
) -> Task:
    """Returns the task of finding entities of any kinds, named by labels (GLiNER).

    Its data is a folder of GLiNER's JSON (`tokenized_text`, `ner`), or of files of columns as
    `conll` reads them, or `tfds:name`.

    Args:
        word_index: the column of the word, of files of columns.
        label_index: that of the tag.
        scheme: how tags tell entities, see `conll_task`; None finds out.
        label_feature: of a TFDS data set, the feature with the tags; None is "ner".
        max_types: see `EntityHead`, as all that follow.
        max_width: the most words of an entity.
        label_dropout: how often a label of a row's own is left out of it.
        focal_alpha: weight of entities in the loss.
        focal_gamma: exponent of the focal loss.
        span_hidden_size: width behind the encoder.
        num_rnn_layers: LSTMs on the words.

    Raises:
        ValueError: a number is out of its range, or the scheme is unknown or that of plain labels.
    """
    if scheme == "plain":
        raise ValueError("the scheme is 'plain', which tells no entities: give BIO, IOB1 or BIOES")
    head = EntityHead(
        max_width=max_width,
        span_hidden_size=span_hidden_size,
        num_rnn_layers=num_rnn_layers,
        max_types=max_types,
        label_dropout=label_dropout,
        focal_alpha=focal_alpha,
        focal_gamma=focal_gamma,
    )
    columns = conll_task(word_index, label_index, scheme, label_feature=label_feature)
    given = (word_index, label_index, scheme, label_feature) != (0, -1, None, None)
    read = functools.partial(_read, columns=columns, of_columns=given)
    defaults = {"epochs": 5, "batch_size": 8, "learning_rate": 5e-5, "max_seq_length": 256}
    return Task("gliner", head, read, SPAN_METRICS, defaults)


def _read(source: str | os.PathLike, columns: Task, of_columns: bool) -> TaskData:
    if not is_tfds(source):
        # One look for both, so that train.json beside train.conll is refused.
        paths = find_splits(Path(source), (*_JSON, *EXTENSIONS))
        if paths[TRAIN].suffix in _JSON:
            if of_columns:
                raise ValueError(
                    f"{paths[TRAIN]} has no columns: leave out --word_index, --label_index, "
                    "--scheme and --label_feature"
                )
            return _of_json(paths)
    data = columns.read(source)
    splits = {
        name: [_of_tags(sentence) for sentence in split] for name, split in data.splits.items()
    }
    return TaskData(splits, _labels(splits[TRAIN]), data.text_columns)


def _labels(sentences: Sequence[EntitySentence]) -> tuple[str, ...]:
    """Returns the labels that there are, in the order of the alphabet."""
    names = {entity.label for sentence in sentences for entity in sentence.entities or ()}
    return tuple(sorted(names))


def _of_tags(sentence: TaggedSentence) -> EntitySentence:
    if sentence.tags is None:
        return EntitySentence(sentence.words)
    spans = [EntitySpan(found.first, found.last, found.type) for found in entities(sentence.tags)]
    return EntitySentence(sentence.words, spans)


def _of_json(paths: dict[str, Path]) -> TaskData:
    others = [path for path in paths.values() if path.suffix not in _JSON]
    if others:
        raise ValueError(
            f"{others[0]} has columns, but {paths[TRAIN].name} beside it is JSON: give all splits "
            "in one format"
        )
    # What is to be predicted may come without entities.
    splits = {
        name: read_json_sentences(path, unlabeled=name not in (TRAIN, VALIDATION))
        for name, path in paths.items()
    }
    sentences, names = splits[TRAIN], _labels(splits[TRAIN])
    print(
        f"{len(sentences):,} sentences of {sum(len(one.words) for one in sentences):,} words to "
        f"learn from; {sum(len(one.entities or ()) for one in sentences):,} entities have "
        f"{len(names):,} labels",
        flush=True,
    )
    return TaskData(splits, names, {WORD: "0"})


def read_json_sentences(path: str | os.PathLike, unlabeled: bool = False) -> list[EntitySentence]:
    """Reads GLiNER's JSON: a list of objects, or in a .jsonl an object a line.

    `tokenized_text` is a list of words, `ner` a list of [first word, last word, label], words
    counted from 0 and both of them part of the entity; `ner_labels`, where it is there, the labels
    that are asked for in this sentence. Other keys are passed over.

    Args:
        path: the file, in UTF-8.
        unlabeled: whether `ner` may be missing.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is no such JSON, or empty; the sentence names the place.
    """
    path = Path(path)
    found = []
    for place, value in _objects(path):
        if not isinstance(value, dict) or not isinstance(value.get(_WORDS), list):
            raise ValueError(
                f"{place} has no list {_WORDS!r}: give an object with the words of a sentence"
            )
        spans = value.get(_ENTITIES)
        if spans is None and not unlabeled:
            raise ValueError(f"{place} has no {_ENTITIES!r}: give its entities, [] for none")
        if not isinstance(spans, list | None):
            raise ValueError(f"{place}: {_ENTITIES} is {repr(spans)[:60]}: expected a list")
        labels = value.get(_LABELS)
        if not isinstance(labels, list | None):
            raise ValueError(f"{place}: {_LABELS} is {repr(labels)[:60]}: expected a list")
        try:
            found.append(EntitySentence(value[_WORDS], spans, labels or None))
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from None
    if not found:
        raise ValueError(f"{path} has no sentences: give a file with at least one")
    return found


def _objects(path: Path) -> Iterator[tuple[str, Any]]:
    """Yields the place and the value of each sentence."""
    check_file(path, "a file of sentences in JSON")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 ({error}): convert the file to UTF-8") from None
    if path.suffix == ".jsonl":
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                try:
                    yield f"{path}, line {number}", json.loads(line)
                except ValueError as error:
                    raise ValueError(
                        f"{path}, line {number} is not JSON ({error}): fix it"
                    ) from None
        return
    try:
        values = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{path} is not JSON ({error}): fix it") from None
    if not isinstance(values, list):
        raise ValueError(
            f"{path} holds a JSON {type(values).__name__}: give a list of sentences, or an object "
            "a line in a .jsonl"
        )
    for number, value in enumerate(values):
        yield f"{path}, sentence {number} (counted from 0)", value


def read_entities_to_predict(path: Path, description: TaskDescription) -> PredictionInput:
    """Reads what is to be looked through: JSON, or what a tagger reads.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is damaged, or lacks the column that the model was trained on.
    """
    if path.suffix in _JSON:
        return PredictionInput(read_json_sentences(path, unlabeled=True))
    found = read_sentences_to_predict(path, description)
    return PredictionInput([EntitySentence(sentence.words) for sentence in found.examples])
