"""Entities of any kinds: spans of words against labels that each row names (GLiNER).

Shapes: B rows, W words, K words of the widest entity, T labels of a row.
"""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.counts import check_count, check_number, needed_count
from keras_bert.finetuning.encoded_rows import EncodedRows
from keras_bert.finetuning.head import FinetuningHead, place_of
from keras_bert.finetuning.task import TRAIN
from keras_bert.models.entities.entity_matcher import BertEntityMatcher, folder_head
from keras_bert.progress import Progress
from keras_bert.signatures.windows import WordWindows, word_windows
from keras_bert.tasks.entity_recognition.rows import (
    SPECIAL_TOKENS,
    EncodedEntities,
    Markers,
    cut_words,
)
from keras_bert.tasks.entity_recognition.sentences import EntitySentence, EntitySpan, ScoredSpan
from keras_bert.tasks.entity_recognition.spans import (
    counting_spans,
    selected,
)
from keras_bert.tasks.tagging.answer_table import span_columns, span_row
from keras_bert.tasks.tagging.sentences import WORD
from keras_bert.text.base_tokenizer import Tokenizer

# As GLiNER takes them where nothing is said.
_MAX_WIDTH, _MAX_WORDS = 12, 384
_FOLDER_FIELDS: Mapping[str, Any] = {
    "max_width": _MAX_WIDTH,
    "max_words": _MAX_WORDS,
    "num_rnn_layers": 1,
    "head_dropout": 0.4,
    "span_hidden_size": None,
}
_WORDS_PER_CALL = 10_000


class _Candidates(NamedTuple):
    """The spans of a row above the threshold.

    Attributes:
        places: int64 [found, 3]: first word, width from 0, label.
        scores: float32 [found], probabilities.
    """

    places: np.ndarray
    scores: np.ndarray


@dataclasses.dataclass(frozen=True)
class EntityHead(FinetuningHead):
    """Spans of words against labels (Zaratiana et al. 2023, arXiv:2311.08526).

    Splits are sequences of `EntitySentence`, predictions tuples of `ScoredSpan`, one tuple for
    each sentence: no two of them overlap, and each is above the threshold. `labels` are those of
    the training data; a split with entities is asked for the labels that it has itself.

    Attributes:
        max_width: the most words of an entity; None takes that of the model folder, else 12.
        max_words: the most words of a row; None takes that of the folder, else 384.
        span_hidden_size: width behind the encoder; None takes that of the folder, else that of the
            encoder.
        num_rnn_layers: LSTMs on the words; None takes those of the folder, else one.
        head_dropout: dropout behind the encoder; None takes that of the folder, else 0.4.
        max_types: the most labels of a row in training, and of a split that is measured.
        label_dropout: how often a label of a row's own is left out of it in training.
        focal_alpha: weight of entities in the loss, that of all other spans is 1 minus it; None
            weights both alike (Lin et al. 2017, arXiv:1708.02002).
        focal_gamma: how much less spans count of which the model is sure; 0 counts all alike.
        threshold: the probability above which a span is an entity.
        entity_token_id: the id of <<ENT>>, which follows from the tokenizer (`for_tokenizer`).
        separator_token_id: that of <<SEP>>.

    Raises:
        ValueError: a number is out of its range.
    """

    kind: ClassVar[str] = "entity"
    model_class: ClassVar[type[Any]] = BertEntityMatcher
    example_class: ClassVar[type | None] = EntitySentence
    example_form: ClassVar[str] = "EntitySentence(words)"
    learns_from_teacher: ClassVar[bool] = False
    # The rows of the markers learn, too.
    learns_by_lora: ClassVar[bool] = False
    joins_members: ClassVar[bool] = False

    max_width: int | None = None
    max_words: int | None = None
    span_hidden_size: int | None = None
    num_rnn_layers: int | None = None
    head_dropout: float | None = None
    max_types: int = 25
    label_dropout: float = 0.1
    focal_alpha: float | None = None
    focal_gamma: float = 0.0
    threshold: float = 0.5
    entity_token_id: int | None = None
    separator_token_id: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_width", "max_words", "span_hidden_size"):
            check_count(name, getattr(self, name))
        check_count("num_rnn_layers", self.num_rnn_layers, least=0)
        needed_count("max_types", self.max_types)
        for name in ("label_dropout", "head_dropout", "threshold", "focal_alpha"):
            value = getattr(self, name)
            if value is not None and not 0 <= check_number(name, value) < 1:
                raise ValueError(f"{name} is {value}: it must be from 0 to below 1")
        if not 0 <= check_number("focal_gamma", self.focal_gamma) < np.inf:
            raise ValueError(f"focal_gamma is {self.focal_gamma}: it must be 0 or more")

    @property
    def reads_pooler(self) -> bool:
        """Never: words and labels are read where they stand."""
        return False

    @classmethod
    def of_foreign(cls, arguments: Mapping[str, Any]) -> Self:
        """Returns the head of a folder that has no labels of its own."""
        fields = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in arguments.items() if name in fields})

    def for_tokenizer(self, tokenizer: Tokenizer) -> Self:
        """Returns the head with the ids of the markers, behind all pieces and [FLERT]."""
        if self.entity_token_id is not None:
            return self
        pieces = len(tokenizer.vocabulary)
        return dataclasses.replace(self, entity_token_id=pieces + 1, separator_token_id=pieces + 2)

    def for_folder(self, folder: str | os.PathLike) -> Self:
        """Returns the head with what stands behind the encoder of a folder, if anything does.

        Raises:
            ValueError: other numbers are asked for than those of the folder.
        """
        held = folder_head(folder)
        changes: dict[str, Any] = {}
        for name, usual in _FOLDER_FIELDS.items():
            asked = getattr(self, name)
            if asked is None:
                changes[name] = usual if held is None else held.get(name, usual)
            elif held is not None and name in ("num_rnn_layers", "span_hidden_size"):
                there = held.get(name)
                if asked != there:
                    raise ValueError(
                        f"{name} is {asked}, but {folder} has {there} behind its encoder: leave it "
                        "out, or start from an encoder alone"
                    )
        for name in ("entity_token_id", "separator_token_id") if held is not None else ():
            changes[name] = held[name]  # type: ignore[index]  # not None
        return dataclasses.replace(self, **changes)

    def model_arguments(self) -> dict[str, Any]:
        """Returns the ids of the markers and what stands behind the encoder."""
        names = (
            *("entity_token_id", "separator_token_id", "max_width", "max_words"),
            *("span_hidden_size", "num_rnn_layers", "head_dropout"),
        )
        given = {name: getattr(self, name) for name in names}
        return {name: value for name, value in given.items() if value is not None}

    def needs_segments(self, examples: Any) -> bool:
        """Never: labels and words are one text."""
        return False

    def check_labels(self, examples: Sequence[EntitySentence], split: str) -> None:
        """Refuses a split that is measured and has more labels than a row takes.

        Raises:
            ValueError: the sentence tells the remedy.
        """
        if split == TRAIN:
            if not any(sentence.entities for sentence in examples):
                raise ValueError("the training data has no entities: nothing is learned from it")
            return
        names = {entity.label for sentence in examples for entity in sentence.entities or ()}
        if len(names) <= self.max_types:
            return
        for number, sentence in enumerate(examples):
            if sentence.labels is None:
                raise ValueError(
                    f"the split {split!r} has {len(names)} labels, more than max_types "
                    f"{self.max_types}, and {place_of(split, number)} does not say which of them "
                    "are asked for: give each sentence ner_labels, or a larger --max_types"
                )

    def encode(
        self,
        tokenizer: Tokenizer,
        examples: Sequence[EntitySentence],
        max_seq_length: int,
        description: str,
    ) -> EncodedEntities:
        """Tokenizes word by word; a sentence that is too long takes several rows.

        Raises:
            ValueError: labels leave no room for words, or there are no labels.
        """
        names = self._names(examples)
        number = {name: index for index, name in enumerate(names)}
        label_pieces = tokenizer(list(names))
        asked = [self._asked(sentence, names, number) for sentence in examples]
        lengths = label_pieces.row_lengths().numpy()
        learned = [sentence.entities is not None for sentence in examples]
        room = self._room(lengths, asked, learned, max_seq_length)  # [N]
        # Words as texts of their own, [D, pieces], cut to a row.
        words = [word for sentence in examples for word in sentence.words]
        parts = []
        with Progress(len(words), "word", description) as progress:
            for start in range(0, len(words), _WORDS_PER_CALL):
                part = words[start : start + _WORDS_PER_CALL]
                parts.append(tokenizer(part)[:, : int(room.max())])
                progress.update(len(part))
        sizes = [len(sentence.words) for sentence in examples]
        texts = tf.repeat(tf.range(len(examples), dtype=tf.int64), sizes)  # [D]
        pieces = tf.concat(parts, axis=0).with_row_splits_dtype(tf.int64)
        pieces = cut_words(pieces, tf.gather(room, texts))
        windows = word_windows(
            texts,
            pieces.row_splits,
            tf.constant(room),
            self.max_words or _MAX_WORDS,
            self._width,
        )
        index = tf.ragged.range(windows.first, windows.last).with_row_splits_dtype(tf.int64)
        by_word = tf.gather(pieces, index)  # [E, words, pieces]
        starts = np.cumsum([0, *sizes[:-1]])
        entities = []
        for text, first, last in zip(*(part.numpy() for part in windows), strict=True):
            first, last = first - starts[text], last - starts[text]
            entities.append(
                [
                    (entity.first - first, entity.last - first, number[entity.label])
                    for entity in examples[text].entities or ()
                    if first <= entity.first and entity.last < last
                ]
            )
        assert self.entity_token_id is not None and self.separator_token_id is not None
        encoded = EncodedEntities(
            pieces=by_word.merge_dims(1, 2),
            counts=by_word.row_lengths(axis=2),
            entities=entities,
            asked=tf.gather(tf.ragged.constant(asked, tf.int64), windows.texts),
            label_pieces=label_pieces,
            windows=windows,
            markers=Markers(self.entity_token_id, self.separator_token_id),
            vocabulary=tokenizer.vocabulary,
            max_seq_length=max_seq_length,
            max_width=self._width,
            max_types=self.max_types,
            label_dropout=self.label_dropout,
        )
        encoded.names = names
        encoded.remark = f"labels leave room for {room.min()} pieces of a text"
        wide = sum(
            entity.last - entity.first >= self._width
            for sentence in examples
            for entity in sentence.entities or ()
        )
        if wide:
            encoded.remark += f"; entities wider than max_width {self._width}, not found: {wide:,}"
        return encoded

    def loss(self, label_smoothing: float = 0.0) -> keras.losses.Loss:
        """Returns the cross-entropy of spans and labels, a sum over those of a row.

        Raises:
            ValueError: labels are to be smoothed.
        """
        if label_smoothing:
            raise ValueError(
                f"label_smoothing is {label_smoothing}, but each span and label is a yes or no of "
                "its own: leave it out"
            )
        return SpanCrossentropy(self.focal_alpha, self.focal_gamma)

    def keeping(self) -> Callable[[np.ndarray], _Candidates]:
        """Returns what keeps the spans above the threshold of a row's scores [W, K, T]."""

        def candidates(scores: np.ndarray) -> _Candidates:
            probabilities = tf.sigmoid(scores).numpy()
            places = np.argwhere(probabilities > self.threshold)
            return _Candidates(places, probabilities[tuple(places.T)])

        return candidates

    def predictions(
        self,
        outputs: Sequence[_Candidates],
        encoded: EncodedRows,
        examples: Sequence[EntitySentence],
    ) -> list[tuple[ScoredSpan, ...]]:
        """Returns the entities of each sentence, by their first word."""
        assert isinstance(encoded, EncodedEntities)  # what `encode` made
        texts, first, _ = (part.numpy() for part in encoded.windows)
        sizes = [len(sentence.words) for sentence in examples]
        starts = np.cumsum([0, *sizes[:-1]])
        asked = encoded.asked.to_list()
        counts = self._counting(encoded.windows)
        found = []
        for row, (places, scores) in enumerate(outputs):
            text = texts[row]
            for (start, width, label), score in zip(places.tolist(), scores, strict=True):
                if row in counts and not counts[row][start, width]:
                    continue
                begin = first[row] - starts[text] + start
                found.append((text, begin, width, label, asked[row][label], score))
        # As they stand in the text: among equal scores the first is taken.
        found.sort(key=lambda span: span[:4])
        columns = zip(*found, strict=True) if found else [()] * 6
        text, begin, width, _, name, score = (np.array(column) for column in columns)
        kept = selected(
            tf.constant(text, tf.int64),
            tf.constant(begin, tf.int64),
            tf.constant(begin + width, tf.int64),
            tf.constant(score, tf.float32),
            flat=True,
            multi_label=False,
        ).numpy()
        answers: list[list[ScoredSpan]] = [[] for _ in examples]
        for place in kept:
            last = int(begin[place] + width[place])
            label = encoded.names[name[place]]
            answers[text[place]].append(
                ScoredSpan(int(begin[place]), last, label, float(score[place]))
            )
        return [tuple(spans) for spans in answers]

    def references(self, examples: Sequence[EntitySentence]) -> list[tuple[EntitySpan, ...]] | None:
        """Returns the entities of each sentence, where all are known."""
        known = [tuple(one.entities) for one in examples if one.entities is not None]
        return known if len(known) == len(examples) else None

    def collapse(
        self,
        predictions: Sequence[Sequence[ScoredSpan]],
        references: Sequence[Sequence[EntitySpan]],
    ) -> str | None:
        """Tells that no entity is found anywhere."""
        if any(references) and not any(predictions):
            return f"no entity is found in any of {len(predictions):,} sentences"
        return None

    def without_labels(self, examples: Sequence[EntitySentence]) -> list[EntitySentence]:
        """Returns the sentences without their entities."""
        return [dataclasses.replace(one, entities=None) for one in examples]

    def answer_columns(self) -> list[str]:
        """Returns the columns of an entity."""
        return span_columns("entity", "first_word", "last_word")

    def answer_rows(
        self, prediction: Sequence[ScoredSpan], example: EntitySentence
    ) -> list[list[str]]:
        """Returns a row for each entity; words are numbered from 1."""
        return [
            span_row(
                " ".join(example.words[span.first : span.last + 1]),
                *(span.label, span.first + 1, span.last + 1, span.score),
            )
            for span in prediction
        ]

    def example_table(
        self, examples: Sequence[EntitySentence]
    ) -> tuple[list[str], list[list[str]]]:
        """Returns the numbers of the sentences, from 1."""
        return ["sentence"], [[str(number)] for number in range(1, len(examples) + 1)]

    def default_columns(self, examples: Any) -> dict[str, str]:
        """Returns the first column of a file, for the words."""
        return {WORD: "0"}

    @property
    def _width(self) -> int:
        return self.max_width or _MAX_WIDTH

    def _names(self, examples: Sequence[EntitySentence]) -> tuple[str, ...]:
        """Returns the labels that a split is asked for: its own, or those of the training data."""
        names = {entity.label for sentence in examples for entity in sentence.entities or ()}
        names |= {label for sentence in examples for label in sentence.labels or ()}
        if not names or any(one.entities is None and one.labels is None for one in examples):
            names |= set(self.labels)
        if not names:
            raise ValueError("there are no labels to look for: name some")
        return tuple(sorted(names))

    def _asked(
        self, sentence: EntitySentence, names: Sequence[str], number: Mapping[str, int]
    ) -> list[int]:
        """Returns the numbers of the labels that evaluation asks a sentence for."""
        if sentence.labels is not None:
            return [number[label] for label in sentence.labels]
        if sentence.entities is None or len(names) <= self.max_types:
            asked = names if sentence.entities is not None else self.labels or names
            return [number[label] for label in asked]
        # Of training data with many labels, which is never measured: as many as a row takes.
        return sorted({number[entity.label] for entity in sentence.entities})[: self.max_types]

    def _room(
        self,
        lengths: np.ndarray,
        asked: Sequence[Sequence[int]],
        learned: Sequence[bool],
        max_seq_length: int,
    ) -> np.ndarray:
        """Returns the most pieces of words in a row of each sentence, int64 [N].

        Args:
            lengths: pieces of each label.
            asked: numbers of the labels that a sentence is asked for.
            learned: whether it may be learned from: its rows then name any labels.
            max_seq_length: the most positions of a row.
        """
        drawn = np.sort(1 + lengths)[::-1][: self.max_types]
        taken = np.array([(1 + lengths[labels]).sum() for labels in map(list, asked)], np.int64)
        most = np.where(learned, np.maximum(taken, drawn.sum()), taken)
        room = max_seq_length - SPECIAL_TOKENS - 1 - most
        if room.min() < 1:
            worst = int(room.argmin())
            count = len(asked[worst] if taken[worst] == most[worst] else drawn)
            raise ValueError(
                f"{count} labels with their markers have up to {most[worst]} pieces, and a row of "
                f"max_seq_length {max_seq_length} has no room for a word beside them: give a "
                "longer one, fewer or shorter labels, or a smaller --max_types"
            )
        return room

    def _counting(self, windows: WordWindows) -> dict[int, np.ndarray]:
        """Returns which spans of a row count there, for sentences of several rows."""
        texts = windows.texts.numpy()
        _, index, counts = np.unique(texts, return_inverse=True, return_counts=True)
        rows = np.flatnonzero(counts[index] > 1)
        if not len(rows):
            return {}
        some = WordWindows(*(tf.gather(part, rows) for part in windows))
        return dict(zip(rows.tolist(), counting_spans(some, self._width).numpy(), strict=True))


@keras.saving.register_keras_serializable("keras_bert")
class SpanCrossentropy(keras.losses.Loss):
    """Binary cross-entropy of scores [B, W, K, T] in float32, a sum over the spans of each row.

    With a gamma it is the focal loss of Lin et al. 2017 (arXiv:1708.02002). Targets are 1, 0, or
    below 0 where there is nothing to learn.

    Args:
        alpha: weight of targets of 1, with 1 - alpha for those of 0; None weights both alike.
        gamma: exponent of the probability of the wrong answer; 0 for the plain cross-entropy.
    """

    def __init__(
        self,
        alpha: float | None = None,
        gamma: float = 0.0,
        name: str = "span_crossentropy",
        **kwargs: Any,
    ):
        super().__init__(name=name, **kwargs)
        self.alpha = alpha
        self.gamma = gamma

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Returns the loss of each row, [B]."""
        counted = ops.convert_to_tensor(y_true) >= 0
        target = ops.cast(ops.maximum(y_true, 0), "float32")
        logits = ops.where(counted, ops.cast(y_pred, "float32"), 0.0)
        # The logit of the wrong answer: its sigmoid is 1 - p of the right one.
        wrong = ops.where(target > 0, -logits, logits)
        losses = ops.softplus(wrong)
        if self.gamma:
            losses = losses * ops.exp(self.gamma * ops.log_sigmoid(wrong))
        if self.alpha is not None:
            losses = losses * ops.where(target > 0, self.alpha, 1 - self.alpha)
        return ops.sum(ops.where(counted, losses, 0.0), axis=(1, 2, 3))

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {"alpha": self.alpha, "gamma": self.gamma}
