"""Tasks of tagging words: `conll2003` (named entities) and `conll` (any column files)."""

import collections
import dataclasses
import functools
import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from keras_bert.finetuning.task import (
    TRAIN,
    VALIDATION,
    PredictionInput,
    Task,
    TaskDescription,
)
from keras_bert.storage.data_sets import is_tfds, open_data_set
from keras_bert.storage.text_lines import check_parts
from keras_bert.tasks.splits import find_splits
from keras_bert.tasks.tagging.column_files import (
    EXTENSIONS,
    WordColumns,
    read_columns,
    read_sentences,
    word_index,
)
from keras_bert.tasks.tagging.entities import (
    OUTSIDE,
    SCHEMES,
    Scheme,
    as_bio,
    belongs_to,
    detect_scheme,
)
from keras_bert.tasks.tagging.head import TagHead
from keras_bert.tasks.tagging.metrics import ENTITY_METRICS, PLAIN_METRICS
from keras_bert.tasks.tagging.sentences import WORD, TaggedData, TaggedSentence
from keras_bert.tasks.tfds_source import check_features, read_splits

# The feature of the words in data sets of TensorFlow Datasets.
_TFDS_WORDS = "tokens"


class _Split(NamedTuple):
    """Sentences and what errors call their places, such as "ner/train.txt, line"."""

    place: str
    sentences: Sequence[TaggedSentence]


def conll2003_task(
    document_context: bool = False,
    features_from: str | None = None,
    lstm_width: int | None = None,
) -> Task:
    """Returns the task of named entities in the files of CoNLL-2003, or in `tfds:conll2003`.

    Args:
        document_context: let each sentence see its document, as in the paper.
        features_from: see `TagHead`.
        lstm_width: units of the BiLSTM in each direction; None is 768.

    Raises:
        ValueError: there is no BiLSTM, or its width is below 1.
    """
    head = _head(document_context, features_from, lstm_width)
    return dataclasses.replace(_task(head), name="conll2003")


def conll_task(
    word_index: int = 0,
    label_index: int = -1,
    scheme: Scheme | None = None,
    labels: Sequence[str] | None = None,
    label_feature: str | None = None,
    document_context: bool = False,
    features_from: str | None = None,
    lstm_width: int | None = None,
) -> Task:
    """Returns the task of learning a column of labels from a column of words.

    Args:
        word_index: the column of the word, from 0 or from -1 at the end.
        label_index: that of the label.
        scheme: how labels tell entities, "BIO", "IOB1" or "BIOES"; "plain" for labels of single
            words, such as parts of speech, whatever they look like. None finds out how entities
            are told.
        labels: the types of entities, or all plain labels; None takes those of the training data.
        label_feature: of a TFDS data set, the feature with the labels; None is "ner".
        document_context: let each sentence see its document.
        features_from: see `TagHead`.
        lstm_width: units of the BiLSTM in each direction; None is 768.

    Raises:
        ValueError: there is no such scheme, a label twice or no string, or a width without a
            BiLSTM.
    """
    if scheme not in (None, *SCHEMES):
        raise ValueError(f"the scheme is {scheme!r}: choose one of {', '.join(SCHEMES)}")
    labels = check_parts(labels or (), "labels", "label")
    twice = [label for label, count in collections.Counter(labels).items() if count > 1]
    if twice:
        raise ValueError(f"labels has {', '.join(twice)} twice: name each once")
    head = _head(document_context, features_from, lstm_width)
    head = dataclasses.replace(head, plain=scheme == "plain")
    return _task(head, WordColumns(word_index, label_index), scheme, labels, label_feature)


def _head(document_context: bool, features_from: str | None, lstm_width: int | None) -> TagHead:
    if lstm_width is None:
        return TagHead(document_context, features_from)
    if features_from is None:
        raise ValueError(
            f"lstm_width is {lstm_width}, but there is no BiLSTM: name the layers that it reads "
            "with --features_from, or leave it out"
        )
    return TagHead(document_context, features_from, lstm_width)


def _task(
    head: TagHead,
    columns: WordColumns = WordColumns(),  # noqa: B008 (a tuple)
    scheme: Scheme | None = None,
    labels: Sequence[str] | None = None,
    label_feature: str | None = None,
) -> Task:
    read = functools.partial(
        _read,
        columns=columns,
        scheme=scheme,
        labels=labels,
        label_feature=label_feature,
        document_context=head.document_context,
    )
    metrics = PLAIN_METRICS if scheme == "plain" else ENTITY_METRICS
    # Paper section A.3: the best of 16 or 32 and 2 to 4 epochs. A BiLSTM starts from nothing.
    defaults = {"epochs": 3, "batch_size": 32, "learning_rate": 5e-5, "max_seq_length": 128}
    if head.features_from is not None:
        defaults |= {"epochs": 10, "learning_rate": 1e-3}
    return Task("conll", head, read, metrics, defaults)


def _read(
    source: str | os.PathLike,
    columns: WordColumns,
    scheme: Scheme | None,
    labels: Sequence[str] | None,
    label_feature: str | None,
    document_context: bool,
) -> TaggedData:
    if is_tfds(source):
        if columns != WordColumns():
            raise ValueError(
                f"{source} has features, not columns: leave out --word_index and --label_index, "
                "and name the labels with --label_feature"
            )
        if document_context:
            raise ValueError(
                f"{source} does not tell where documents begin: leave out --document_context, or "
                "give column files with -DOCSTART- lines"
            )
        splits = {
            split: _Split(f"{source}, split {split}, sentence", sentences)
            for split, sentences in _read_tfds_sentences(
                str(source), label_feature or "ner"
            ).items()
        }
        word_at = columns.word
    else:
        if label_feature is not None:
            raise ValueError(
                f"label_feature is {label_feature!r}, but {source} is no TFDS set: name the column "
                "of the labels with --label_index"
            )
        paths = find_splits(Path(source), EXTENSIONS)
        # What is to be predicted may come without labels.
        splits = {
            split: _Split(
                f"{path}, line",
                read_columns(path, columns, labels_optional=split not in (TRAIN, VALIDATION)),
            )
            for split, path in paths.items()
        }
        # From the end, another column would be meant where the one of the labels is left out.
        word_at = word_index(paths[TRAIN], columns)
    scheme = _scheme_of(splits[TRAIN], scheme)
    splits = {name: _in_bio(split, scheme) for name, split in splits.items()}
    known = _label_names(splits[TRAIN], scheme, labels)
    for split in splits.values():
        for place, tag in _labeled(split):
            if tag not in known:
                told = "among --labels" if labels else "in the training data"
                raise ValueError(
                    f"{place}: the label {tag!r} is not {told} ({', '.join(known)}): fix it, or "
                    "name all with --labels"
                )
    return TaggedData(
        {name: split.sentences for name, split in splits.items()},
        known,
        {WORD: str(word_at)},
        plain=scheme == "plain",
    )


def _scheme_of(train: _Split, scheme: Scheme | None) -> Scheme:
    tags = [sentence.tags or () for sentence in train.sentences]
    if scheme is None:
        scheme = detect_scheme(tags)
        if scheme == "plain":
            place, label = next(
                (place, tag) for place, tag in _labeled(train) if not belongs_to(tag, "BIOES")
            )
            raise ValueError(
                f"{place}: the label {label!r} is neither O nor begins with B-, I-, E- or S-: "
                "choose the column of the entities with --label_index, or give --scheme=plain for "
                "labels of single words, such as parts of speech"
            )
    words = sum(map(len, tags))
    print(
        f"{len(tags):,} sentences of {words:,} words to learn from; labels are "
        + ("plain" if scheme == "plain" else f"entities in {scheme}"),
        flush=True,
    )
    return scheme


def _in_bio(split: _Split, scheme: Scheme) -> _Split:
    for place, tag in _labeled(split):
        if not belongs_to(tag, scheme):
            raise ValueError(
                f"{place}: the label {tag!r} is none of the scheme {scheme}: fix it, or name "
                f"another with --scheme ({', '.join(SCHEMES)})"
            )
    if scheme == "plain":
        return split
    sentences = [
        sentence if sentence.tags is None else sentence._replace(tags=as_bio(sentence.tags))
        for sentence in split.sentences
    ]
    return split._replace(sentences=sentences)


def _label_names(train: _Split, scheme: Scheme, labels: Sequence[str] | None) -> tuple[str, ...]:
    """Returns the labels; the first is the best guess for a word of which nothing is known."""
    counts = collections.Counter(tag for _, tag in _labeled(train))
    if scheme == "plain":
        names = list(labels or counts)
        if len(set(names)) < max(2, len(names)):
            raise ValueError(
                f"the labels are {names}: tagging needs at least two different ones; choose their "
                "column with --label_index"
            )
        return tuple(sorted(names, key=lambda name: (-counts[name], name)))
    types = labels or sorted({tag[2:] for tag in counts if tag != OUTSIDE})
    if not types:
        raise ValueError(
            f"{train.place} {train.sentences[0].line} and all others have the label {OUTSIDE}: "
            "choose the column of the entities with --label_index"
        )
    return (OUTSIDE, *itertools.chain.from_iterable((f"B-{t}", f"I-{t}") for t in types))


def _labeled(split: _Split) -> Iterator[tuple[str, str]]:
    """Yields the place and the tag of each labeled word."""
    by_line = split.place.endswith("line")
    for sentence in split.sentences:
        for word, tag in enumerate(sentence.tags or ()):
            yield f"{split.place} {sentence.line + (word if by_line else 0)}", tag


def _read_tfds_sentences(source: str, label_feature: str) -> dict[str, list[TaggedSentence]]:
    """Reads the splits of a data set that has words under "tokens" and a label for each.

    Args:
        source: "tfds:name" or "tfds:name/config". It is downloaded where it is not yet there.
        label_feature: the feature of the labels, such as "ner" or "pos".

    Raises:
        ValueError: there is no such data set, or it has not these features.
    """
    builder = open_data_set(source)
    check_features(
        source,
        builder,
        (_TFDS_WORDS, label_feature),
        "name the labels with --label_feature; the words must be under 'tokens'",
    )
    features = builder.info.features
    names = getattr(getattr(features[label_feature], "feature", None), "names", None)
    if names is None:
        raise ValueError(
            f"{source}: the feature {label_feature!r} is no list of classes: name the labels with "
            "--label_feature"
        )
    return {
        split: [
            TaggedSentence(
                tuple(word.decode("utf-8") for word in example[_TFDS_WORDS]),
                tuple(names[label] for label in example[label_feature]),
                document=number,
                line=number,
            )
            for number, example in enumerate(entries, start=1)
            if len(example[_TFDS_WORDS])
        ]
        for split, entries in read_splits(source, builder).items()
    }


def read_sentences_to_predict(path: Path, description: TaskDescription) -> PredictionInput:
    """Reads a column file of which the words are looked at.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it lacks the column that the model was trained on.
    """
    columns = WordColumns(int(description.text_columns[WORD]), None)
    return PredictionInput(read_sentences(path, columns))
